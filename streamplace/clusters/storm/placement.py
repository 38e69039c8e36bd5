"""The placement of executors that `export storm` writes and `submit storm` carries out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from optim.errors import InvalidInput, Problem, problems_in
from optim.format.read import parse_json
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.sources import read_text

PLACEMENT_FORMAT = "streamplace.storm/1"
_WORKER = re.compile(r"[^\s:][^\s]*:(\+?\d{1,9})")
_NAME = re.compile(r"\d{1,9}-\d{1,9}")


@dataclass(frozen=True)
class Planned:
    """The placement of a topology.

    Attributes
    ----------
    workers
        ``node:port`` to the executors there, ``first-last`` of their task ids; a port ``+1``,
        ``+2``, … is any free one of the node.
    components
        Component to its executors.
    """

    workers: dict[str, list[str]]
    components: dict[str, list[str]]

    @cached_property
    def worker_of(self) -> dict[str, str]:
        """Executor to its worker."""
        return {name: worker for worker, names in self.workers.items() for name in names}

    @cached_property
    def component_of(self) -> dict[str, str]:
        """Executor to its component."""
        return {name: part for part, names in self.components.items() for name in names}


@dataclass(frozen=True)
class StormPlacement:
    """The placements of topologies by their names, and the predicted remote share of messages."""

    topologies: dict[str, Planned]
    remote_share: float | None = None


def load_placement(name: str) -> StormPlacement:
    """Read a file that `export storm` wrote.

    Raises
    ------
    InvalidInput
        It is none, by path.
    """
    text = read_text(Path(name))
    with problems_in(name):
        return read_placement(parse_json(text.encode()))


def read_placement(value: Any) -> StormPlacement:
    """Read the document of a placement.

    Raises
    ------
    InvalidInput
        It is none, or names executors twice or not at all.
    """
    told = value.get("format") if isinstance(value, dict) else None
    if told != PLACEMENT_FORMAT:
        remedy = "`streamplace export storm INSTANCE PLAN -o FILE` writes one"
        raise InvalidInput(Problem("format", told, f"is not {PLACEMENT_FORMAT}", remedy))
    ledger = Ledger()
    found: dict[str, Planned] = {}
    entries = value.get("topologies")
    if not isinstance(entries, dict) or not entries:
        ledger.problem("topologies", entries, "is no object with a placement of each topology")
        entries = {}
    for name, entry in entries.items():
        path = f"topologies.{name}"
        parts = {
            what: _lists(entry, path, what, pattern, ledger)
            for what, pattern in (("workers", _WORKER), ("components", None))
        }
        planned = Planned(parts["workers"], parts["components"])
        placed = [one for names in planned.workers.values() for one in names]
        for one in (
            sorted({one for one in placed if placed.count(one) > 1})
            if len(placed) != len(set(placed))
            else ()
        ):
            ledger.problem(f"{path}.workers", one, "stands twice", "an executor runs in one worker")
        for one in sorted(set(placed) ^ planned.component_of.keys())[:5]:
            ledger.problem(path, one, "stands in only one of workers and components")
        found[name] = planned
    share = value.get("remote_share")
    if share is not None and (not isinstance(share, int | float) or not 0 <= share <= 1):
        ledger.problem("remote_share", share, "is no share from 0 to 1")
    ledger.check()
    return StormPlacement(found, share)


def _lists(
    entry: Any, path: str, what: str, pattern: re.Pattern[str] | None, ledger: Ledger
) -> dict[str, list[str]]:
    value = entry.get(what) if isinstance(entry, dict) else None
    if not isinstance(value, dict) or not value:
        ledger.problem(f"{path}.{what}", value, "is no object of lists of executors")
        return {}
    for key, names in value.items():
        if pattern is not None and not pattern.fullmatch(key):
            ledger.problem(f"{path}.{what}", key, "is no NODE:PORT, or NODE:+1 for any free port")
        valid = isinstance(names, list) and names and all(isinstance(n, str) for n in names)
        if not valid or not all(_NAME.fullmatch(n) for n in names):
            ledger.problem(f"{path}.{what}.{key}", names, "is no list of FIRST-LAST task ids")
            return {}
    return value
