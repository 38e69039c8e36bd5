"""The methods of a sweep: entries of ``matrix.method``, and what the registry says of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Required

from pydantic import AfterValidator, BeforeValidator, WrapValidator

from experiments.documents import OneOrMany, Scalar, Text, is_many, table_type
from experiments.sweep.settings import TYPES, Name
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optim.methods.registry import Method

OPTION_PREFIX = "option."
"""What the names of factors that are options of methods start with."""

LABELLED = ("objective", "warm_start", "starts", "repair", "ignore", "start_broken")
"""Settings that change what a method does so much that its label shows them where they vary."""


@dataclass(frozen=True)
class MethodEntry:
    """One value of the factor ``method``.

    Attributes
    ----------
    method
        Its registered name.
    label
        What tables call it; None for the name.
    options
        Options given with it.
    varied
        Names of the options that were given as lists.
    solvers
        Solvers given with it, which replace those of the matrix; None for its own choice.
    settings
        Other settings given with it: time_limit, gap, warm_start, …
    """

    method: str
    label: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    varied: tuple[str, ...] = ()
    solvers: tuple[str | None, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def answers_to(self, wanted: MethodEntry) -> bool:
        """Tell whether an exclude or include entry means this one: by name, label, or in full."""
        if wanted == MethodEntry(wanted.method):
            return wanted.method in (self.method, self.label)
        return wanted == self


@dataclass(frozen=True)
class Card:
    """What a sweep must know of a method; of an unknown one that is little."""

    name: str
    family: str = ""
    kind: str = ""
    solvers: tuple[str, ...] = ()
    default_solver: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    takes_warm_start: bool = True
    cold: bool = True
    known: bool = False
    chooses_objective: bool = True

    @classmethod
    def of(cls, method: Method) -> Card:
        """Take it from the registry's entry."""
        return cls(
            method.name,
            method.family,
            method.kind,
            method.solvers,
            method.default_solver,
            {option.name: option.default for option in method.options},
            method.takes_warm_start,
            method.cold,
            known=True,
            chooses_objective=len(method.objectives) > 1
            or any(option.name == "objective" for option in method.options),
        )

    def uses(self, factor: str) -> bool:
        """Tell whether a factor of the matrix makes a difference to the method."""
        if factor == "warm_start":
            return self.takes_warm_start
        if factor == "starts":
            return self.cold
        if factor == "objective":
            return self.chooses_objective
        if self.known and factor == "solver":
            return bool(self.solvers)
        if self.known and factor.startswith(OPTION_PREFIX):
            return factor.removeprefix(OPTION_PREFIX) in self.defaults
        return True


def look_up(name: str) -> Method:
    """Return a method from the registry.

    Raises
    ------
    InvalidInput
        There is none of that name, or its module does not import.
    """
    from optim.methods.registry import get_method

    try:
        return get_method(name)
    except ImportError as error:
        reason = f"is registered but does not import: {error}"
        raise InvalidInput(Problem("method", name, reason, "install what it needs")) from None


def _with_kind(value: Any, handler: Callable[[Any], tuple[Any, ...]]) -> tuple[Any, bool]:
    return handler(value), is_many(value)


_OWN = {key: kind for key, kind in TYPES.items() if key not in ("seed", "threads")}
_OWN["solver"] = OneOrMany[Name]
_TABLE = table_type(
    "MethodTable",
    method=Required[Text],
    label=Text,
    options=dict[str, Annotated[OneOrMany[Scalar], WrapValidator(_with_kind)]],
    **_OWN,
)


def _entries(table: dict[str, Any]) -> tuple[MethodEntry, ...]:
    """Make the entries that a table means: lists of options multiply."""
    options = table.get("options", {})
    varied = tuple(name for name, (_, many) in options.items() if many)
    return tuple(
        MethodEntry(
            table["method"],
            table.get("label"),
            dict(zip(options, values, strict=True)),
            varied,
            table.get("solver", ()),
            {key: table[key] for key in _OWN if key in table and key != "solver"},
        )
        for values in itertools.product(*(values for values, _ in options.values()))
    )


MethodItem: Any = Annotated[
    _TABLE,
    BeforeValidator(lambda value: {"method": value} if isinstance(value, str) else value),
    AfterValidator(_entries),
]
"""One item of ``matrix.method``, a name or a table: the entries that it means."""


def label_of(entry: MethodEntry, card: Card, options: Mapping[str, Any], shown: Any) -> str:
    """Return what tables call a run's method: its name or label, and what sets it apart.

    Parameters
    ----------
    options
        All options of the run.
    shown
        Further settings to show, those of `LABELLED` that vary in the sweep.
    """
    if entry.label is None:
        told = {k: v for k, v in options.items() if k not in card.defaults or card.defaults[k] != v}
    else:
        told = {k: v for k, v in options.items() if k in entry.varied or k not in entry.options}
    parts = [f"{key}={as_text(value)}" for key, value in {**told, **shown}.items()]
    name = entry.label or entry.method
    return f"{name} ({', '.join(parts)})" if parts else name


def as_text(value: Any) -> str:
    """Write a factor's value as tables and the map of factors show it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, list | tuple):
        return "+".join(map(as_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{k}={as_text(v)}" for k, v in value.items())
    return str(value)
