"""Methods: what each declares of itself, and finding them through entry points.

`optim` never imports a method's module by name; others can register theirs in the entry point
group ``streamplace.methods``, each pointing at a `Method`.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np

    from optim.evaluation import Violation
    from optim.instance import Instance
    from optim.progress import Progress
    from optim.results import Level, Termination
    from optim.tables import Ints
    from optim.threads import ThreadPlacement

GROUP, OURS = "streamplace.methods", "streamplace"
Kind = Literal["exact", "heuristic", "search"]
Family = Literal["task allocation", "rebalancing", "elastic allocator", "storm", "model-driven"]


@dataclass(frozen=True)
class Option:
    """An option of a method: its type, default, meaning, and what values it takes.

    ``none`` is a value where it is the default, or where the option is `nullable`. A true option
    that `drops` a limit has the plan judged without it, as ``--ignore`` does.
    """

    name: str
    kind: Literal["int", "float", "str", "bool"]
    default: Any
    help: str
    choices: tuple[Any, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    nullable: bool = False
    drops: str | None = None

    def read(self, value: Any) -> Any:
        """Turn a text or a number into the option's type.

        Raises
        ------
        InvalidInput
            Wrong type, or outside choices and bounds.
        """
        if self._is_none(value):
            return None
        try:
            typed = _typed(self.kind, value)
        except (TypeError, ValueError):
            word = _KIND_WORDS[self.kind]
            reason = "is neither true nor false" if self.kind == "bool" else f"is no {word}"
            raise self._wrong(value, reason) from None
        if self.choices and typed not in self.choices:
            raise self._wrong(value, "is not a choice")
        below = self.minimum is not None and typed < self.minimum
        above = self.maximum is not None and typed > self.maximum
        if below or above:
            raise self._wrong(value, "is out of range")
        return typed

    def _is_none(self, value: Any) -> bool:
        nullable = self.nullable or self.default is None
        return nullable and (value is None or (self.kind != "str" and str(value) == "none"))

    def _wrong(self, value: Any, reason: str) -> InvalidInput:
        if self.choices:
            remedy = "one of " + ", ".join(map(str, self.choices))
        else:
            low = "" if self.minimum is None else f" ≥ {self.minimum}"
            high = "" if self.maximum is None else f" ≤ {self.maximum}"
            remedy = f"{_KIND_WORDS[self.kind]}{low}{high}; default {self.default}"
        return InvalidInput(Problem(f"--option {self.name}", value, reason, remedy))


_KIND_WORDS = {"int": "whole number", "float": "number", "str": "text", "bool": "true or false"}


def _typed(kind: str, value: Any) -> Any:
    if value is None:
        raise TypeError
    if kind == "bool":
        words = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
        if str(value).lower() not in words:
            raise ValueError
        return words[str(value).lower()]
    if isinstance(value, bool):
        raise ValueError
    if kind == "int":
        if isinstance(value, float) and not value.is_integer():
            raise ValueError
        return int(value)
    if kind == "float":
        number = float(value)
        if number != number:
            raise ValueError
        return number
    return str(value)


@dataclass(frozen=True)
class Request:
    """What a method is asked to do, apart from the instance.

    Attributes
    ----------
    solver
        Back end of an exact method.
    time_limit
        Seconds for building, handing over and solving; ``None`` for no limit.
    gap
        Stop at this gap: relative, or points for load distance.
    seed, threads
        Of everything random; of the solver.
    warm_start
        (T,) node indices to start from.
    options
        Typed, with defaults filled in.
    progress
        Called now and then with incumbent and bound.
    started
        `time.perf_counter` at the start of the method's clock.
    """

    solver: str | None = None
    time_limit: float | None = None
    gap: float | None = None
    seed: int = 0
    threads: int = 1
    warm_start: Ints | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[Progress], None] | None = None
    started: float = field(default_factory=time.perf_counter)

    def elapsed(self) -> float:
        """Seconds since the clock started."""
        return time.perf_counter() - self.started

    def remaining(self) -> float | None:
        """Seconds left, never below 0; ``None`` without a limit."""
        return None if self.time_limit is None else max(0.0, self.time_limit - self.elapsed())

    def restarted(self) -> Request:
        """Return the request with its clock set to now."""
        return replace(self, started=time.perf_counter())

    def warmed(self, *warm_ups: Callable[[], object]) -> tuple[Request, float]:
        """Compile or load kernels off the clock; return the request to go on with, and seconds."""
        began = time.perf_counter()
        for warm_up in warm_ups:
            warm_up()
        seconds = time.perf_counter() - began
        return replace(self, started=self.started + seconds), seconds


@dataclass
class Outcome:
    """What a method returns; `optim.solving` has the referee check it.

    Attributes
    ----------
    termination
        Why it stopped.
    node, slot
        (T,) indices, -1 for a task left unplaced; `node` is ``None`` when there is no plan.
    objective, claimed
        Name of the objective where an option chose it; the value the method believes in.
    bound, bound_of
        Proven bound on that objective; of the whole problem or of a restricted one.
    levels
        Further lexicographic levels.
    notes, trace, times, solver
        As in `optim.results.Result`.
    warm_start_accepted
        Whether the solver took the start; ``None`` when unknown or there was none.
    reasons
        Why the instance is infeasible.
    threads
        What a model-driven method decides instead of `node` and `slot`.
    own_order
        An option ranks plans by more than the objective, so that staying or the start must not
        replace the plan by the objective alone.
    """

    termination: Termination
    node: np.ndarray[Any, Any] | None = None
    slot: np.ndarray[Any, Any] | None = None
    objective: str | None = None
    claimed: float | None = None
    bound: float | None = None
    bound_of: Literal["problem", "restricted"] = "problem"
    levels: tuple[Level, ...] = ()
    notes: list[str] = field(default_factory=list)
    warm_start_accepted: bool | None = None
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)
    solver: str | None = None
    reasons: tuple[Violation, ...] = ()
    threads: ThreadPlacement | None = None
    own_order: bool = False


@dataclass(frozen=True)
class Method:
    """A way to make a plan, and what it declares.

    Attributes
    ----------
    name, family, kind
        Its name on the command line; its family; exact, heuristic or search.
    objective
        Name in `optim.objectives.OBJECTIVES`.
    run
        The function that does it.
    summary, source
        One line of what it does; paper and section.
    needs
        Parts of an instance it cannot do without (`optim.suitability.NEEDS`).
    honours
        Limits it keeps (`optim.suitability.LIMITS`).
    options, solvers, default_solver
        Its options; back ends it runs on.
    promises_feasibility
        Whether every plan it returns keeps the rules it honours.
    takes_warm_start
        Whether it can start from a plan.
    empties_leaving
        Whether it looks only for plans that take off leaving nodes all that may go elsewhere; then
        what it proves is of these plans, where tasks stand on such nodes.
    """

    name: str
    family: Family
    kind: Kind
    objective: str
    run: Callable[[Instance, Request], Outcome]
    summary: str
    source: str = ""
    needs: tuple[str, ...] = ("tasks", "nodes")
    honours: frozenset[str] = frozenset({"capacity", "allowed", "leaving"})
    options: tuple[Option, ...] = ()
    solvers: tuple[str, ...] = ()
    default_solver: str | None = None
    promises_feasibility: bool = True
    takes_warm_start: bool = False
    empties_leaving: bool = False

    @property
    def sense(self) -> str:
        """``max`` or ``min``."""
        from optim.objectives import OBJECTIVES

        return OBJECTIVES[self.objective].sense

    def read_options(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return typed options with defaults; all that is wrong is told at once.

        Raises
        ------
        InvalidInput
            An option is unknown or has a wrong value.
        """
        known = {option.name: option for option in self.options}
        typed = {name: option.default for name, option in known.items()}
        problems: list[Problem] = []
        for name, value in values.items():
            if name not in known:
                names = ", ".join(known) or "it has none"
                reason = f"is no option of {self.name}"
                problems.append(Problem(f"--option {name}", None, reason, f"options: {names}"))
                continue
            try:
                typed[name] = known[name].read(value)
            except InvalidInput as error:
                problems += error.problems
        if problems:
            raise InvalidInput(problems)
        return typed

    def to_dict(self) -> dict[str, Any]:
        """Return what ``streamplace methods --json`` lists."""
        return {
            "name": self.name,
            "family": self.family,
            "kind": self.kind,
            "objective": {"name": self.objective, "sense": self.sense},
            "summary": self.summary,
            "source": self.source,
            "needs": list(self.needs),
            "honours": sorted(self.honours),
            "options": [
                {**vars(option), "choices": list(option.choices)} for option in self.options
            ],
            "solvers": list(self.solvers),
            "default_solver": self.default_solver,
            "promises_feasibility": self.promises_feasibility,
            "takes_warm_start": self.takes_warm_start,
        }


class _Entry(NamedTuple):
    """An entry point, and the package it is of: ours, or the name of another.

    The name is read here and once: out of a zip it cannot be read in a forked process, which shares
    the open file with its siblings.
    """

    point: Any
    package: str


@cache
def _entries() -> dict[str, _Entry]:
    """Names to entry points; other packages do not take names that streamplace has itself."""
    found = []
    for point in sorted(entry_points(group=GROUP)):
        dist = getattr(point, "dist", None)
        found.append(_Entry(point, OURS if dist is None else dist.name))
    found.sort(key=lambda entry: entry.package == OURS)
    return {entry.point.name: entry for entry in found}


def method_names() -> tuple[str, ...]:
    """Names of all registered methods, sorted."""
    return tuple(sorted(_entries()))


def get_method(name: str) -> Method:
    """Load one method.

    Raises
    ------
    InvalidInput
        There is none of that name, or another package's entry is no method.
    """
    entry = _entries().get(name)
    if entry is None:
        close = get_close_matches(name, method_names(), 1)
        hint = f"did you mean {close[0]}?" if close else "see `streamplace methods`"
        raise InvalidInput(Problem("--method", name, "is no method", hint))
    method: Method = entry.point.load() if entry.package == OURS else _foreign(entry)
    return method


def _foreign(entry: _Entry) -> Method:
    """Load another package's method and check what it declares."""
    try:
        method = entry.point.load()
    except (ImportError, AttributeError, SyntaxError) as error:
        raise _not_taken(entry, f"cannot be loaded: {error}") from error
    if not isinstance(method, Method):
        raise _not_taken(entry, "is no Method of optim.registry")
    from optim.objectives import OBJECTIVES
    from optim.suitability import NEEDS

    if method.name != entry.point.name:
        raise _not_taken(entry, f"calls itself {method.name}")
    if method.objective not in OBJECTIVES:
        raise _not_taken(entry, f"has the unknown objective {method.objective}")
    unknown = [need for need in method.needs if need not in NEEDS]
    if unknown:
        raise _not_taken(entry, f"has unknown needs: {', '.join(unknown)}")
    return method


def _not_taken(entry: _Entry, reason: str) -> InvalidInput:
    remedy = f"it is {entry.point.value} of the package {entry.package}: mend or remove that"
    return InvalidInput(Problem("--method", entry.point.name, reason, remedy))


def all_methods() -> Iterable[Method]:
    """Load every registered method, sorted by name; what cannot be taken is warned of."""
    found = []
    for name in method_names():
        try:
            found.append(get_method(name))
        except InvalidInput as error:
            warnings.warn(str(error), stacklevel=2)
    return found
