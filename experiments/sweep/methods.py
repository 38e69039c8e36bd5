"""The methods of a sweep: entries of ``matrix.method``, and what the registry says of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from experiments.sweep.spec import OPTION_PREFIX
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from experiments.sweep.checking import Checker
    from optim.registry import Method

LABELLED = ("warm_start", "repair", "ignore")
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
    known: bool = False

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
            known=True,
        )

    def uses(self, factor: str) -> bool:
        """Tell whether a factor of the matrix makes a difference to the method."""
        if factor == "warm_start":
            return self.takes_warm_start
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
    from optim.registry import get_method

    try:
        return get_method(name)
    except ImportError as error:
        reason = f"is registered but does not import: {error}"
        raise InvalidInput(Problem("method", name, reason, "install what it needs")) from None


def read_entries(checker: Checker, value: Any, path: str, names: Mapping[str, Any]) -> list[Any]:
    """Read one item of ``matrix.method``: a name or a table; lists of options multiply.

    Parameters
    ----------
    names
        Readers of the settings that a table may hold, by name: (value, path) -> value.
    """
    if isinstance(value, str):
        name = checker.text(value, path)
        return [MethodEntry(name)] if name else []
    table = checker.table(value, path)
    if table is None:
        return []
    checker.keys(table, path, ("method", "label", "options", "solver", *names))
    if "method" not in table:
        checker.add(path, None, "names no method", 'write {method = "…"}')
        return []
    name = checker.text(table["method"], f"{path}.method")
    label = checker.text(table["label"], f"{path}.label") if "label" in table else None
    solvers = _solvers(checker, table.get("solver", []), f"{path}.solver")
    settings = {k: names[k](table[k], f"{path}.{k}") for k in names if k in table}
    options = checker.table(table.get("options", {}), f"{path}.options") or {}
    lists = {k: _option_values(checker, v, f"{path}.options.{k}") for k, v in options.items()}
    varied = tuple(k for k, v in options.items() if isinstance(v, list))
    return [
        MethodEntry(name, label, dict(zip(lists, values, strict=True)), varied, solvers, settings)
        for values in itertools.product(*lists.values())
        if name
    ]


def _option_values(checker: Checker, value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        return [checker.scalar(value, path)]
    items = checker.items(value, path) or []
    return [checker.scalar(item, f"{path}[{i}]") for i, item in enumerate(items)]


def _solvers(checker: Checker, value: Any, path: str) -> tuple[str | None, ...]:
    """Take a solver or a list of them; ``none`` is the method's own choice."""
    items = value if isinstance(value, list) else [value]
    found = [checker.text(item, path) for item in items]
    return tuple(None if solver == "none" else solver for solver in found if solver)


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
