"""The settings of a run, as types: each can be a default of the sweep or a factor of its matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import AfterValidator, Field, Strict

from experiments.documents import Amount, Flag, Positive, Size, Text, Whole
from optim.format.read import Fault
from optim.rules import RULE_NAMES

MIN_MEMORY = 64 << 20


def _or_none(value: str) -> str | None:
    """Take ``none`` for none at all, since TOML has no null."""
    return None if value == "none" else value


def _limit(value: str) -> str:
    if value not in RULE_NAMES:
        raise Fault("is no limit", f"limits: {', '.join(RULE_NAMES)}")
    return value


def _enough(value: int) -> int:
    if value < MIN_MEMORY:
        raise Fault(f"must be at least {MIN_MEMORY >> 20} MiB")
    return value


Name = Annotated[Text, AfterValidator(_or_none)]
Seed = Annotated[Whole, Field(ge=0, le=2**31 - 1)]
Threads = Annotated[Whole, Field(ge=1, le=1024)]
Starts = Literal["own", "none"]
Limits = tuple[Annotated[str, Strict(), AfterValidator(_limit)], ...]
Memory = Annotated[Size, AfterValidator(_enough)]


@dataclass(frozen=True)
class Settings:
    """What a run is given besides method and instance; each can be a default or a factor."""

    objective: Name | None = None
    solver: Name | None = None
    seed: Seed = 0
    time_limit: Positive | None = None
    gap: Amount | None = None
    threads: Threads = 1
    warm_start: Name | None = None
    starts: Starts = "own"
    repair: Flag = False
    ignore: Limits = ()
    start_broken: Literal["mend", "refuse"] = "mend"
    run_timeout: Positive | None = None
    memory_limit: Memory | None = None
    certificate: Flag = False


TYPES: dict[str, Any] = get_type_hints(Settings, include_extras=True)
"""Of each setting, as a document has it."""

SETTINGS = tuple(TYPES)
