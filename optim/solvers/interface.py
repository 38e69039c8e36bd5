"""What every solver back end takes and gives, and what it can do, as data."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from optim.errors import Problem, SolverUnavailable, UnsuitableMethod, meant
from optim.figures.figure import relative_gap as gap_between

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from optim.solvers.linear_model import LinearArrays, LinearModel
    from optim.util.progress import ProgressRecorder

#: A solution counts as proven optimal up to this gap, whatever the solver's own default.
OPTIMAL_GAP = 1e-6

ABSOLUTE_ZERO = 1e-9  # Differences of objective and bound below this are none (objectives near 0).


class LinearTermination(StrEnum):
    """Why a solver stopped; the incumbent is another matter (`LinearSolution.x`)."""

    OPTIMAL = "optimal"
    GAP_REACHED = "gap_reached"
    TIME_LIMIT = "time_limit"
    ITERATION_LIMIT = "iteration_limit"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    INTERRUPTED = "interrupted"
    ERROR = "error"
    #: Only between a back end and `solve_linear`, which finds out which of the two it is.
    INFEASIBLE_OR_UNBOUNDED = "infeasible_or_unbounded"


#: Native options for a try that must not take long where no time limit is set: a count repeats
#: where a clock does not. Levels that break ties get it, and steps that others follow.
LIMITED_WORK: Mapping[str, Mapping[str, Any]] = {
    "cbc": {"maxNodes": 1000},
    "highs": {"mip_max_nodes": 1000},
    "scip": {"limits/nodes": 1000},
    "cp-sat": {"max_deterministic_time": 5.0},
}


@dataclass(frozen=True)
class SolverCapabilities:
    """What a back end can do."""

    #: Name in the interface and in prose.
    name: str
    title: str
    package: str  # Distribution it comes from.
    integer_only: bool = False  # Takes models of bounded integer variables only.
    #: Where an answer does not hold, it is asked once more in another way.
    second_attempt: bool = False


@dataclass(frozen=True)
class SolveTask:
    """One call of a back end; all checked by `solve_linear` before."""

    #: The model (for names) and its frozen arrays.
    model: LinearModel
    arrays: LinearArrays
    started: float  # ``time.perf_counter()`` at the start of the clock.
    time_limit: float | None  # Seconds from `started`; ``None`` for none.
    #: Relative and absolute gap at which to stop.
    gap: float
    abs_gap: float

    seed: int
    threads: int
    warm_start: NDArray[np.float64] | None  # Full column vector, integers whole; ``None`` for none.
    warm_start_feasible: bool  # Whether `warm_start` passed our own check.
    options: Mapping[str, Any]  # Native options; they win over the common ones.
    recorder: ProgressRecorder  # Receives incumbents and bounds.
    #: A bound as good as this is all that is wanted; ``None`` for no such end.
    stop_bound: float | None = None
    second_attempt: bool = False  # The first answer did not hold.

    @property
    def stop_gap(self) -> float:
        """Relative gap that CBC and SCIP are asked for.

        A bound that is read off rounded, or lowered by the rounding of the model, is to lie within
        `gap` all the same.
        """
        return 0.99 * self.gap

    def remaining(self) -> float | None:
        """Seconds left of the time limit (never negative), ``None`` without one."""
        if self.time_limit is None:
            return None
        return max(0.0, self.time_limit - (time.perf_counter() - self.started))

    def deadline(self) -> float | None:
        """End of the time limit on the clock of `time.monotonic`, which children share."""
        if self.time_limit is None:
            return None
        # the two clocks may differ by a constant; a child knows only the monotonic one
        return time.monotonic() - time.perf_counter() + self.started + self.time_limit


@dataclass
class Answer:
    """What a back end reports, unverified."""

    termination: LinearTermination  # Its native status mapped.
    native_status: str  # The status as the solver names it.
    x: NDArray[np.float64] | None = None  # Best vector, ``None`` if there is none.
    #: Objective the solver claims for `x`, in the model's sense with offset.
    claimed: float | None = None
    bound: float | None = None  # Bound the solver proved, in the model's sense with offset.
    warm_start_accepted: bool | None = None  # ``None`` when it did not report it or none was given.
    handover_seconds: float = 0.0  # Time to hand the model over.
    killed: bool = False  # The process overran and was killed.
    message: str = ""  # For the user.

    def add(self, message: str) -> None:
        """Add to the message."""
        self.message = f"{self.message}; {message}" if self.message else message


@dataclass(frozen=True)
class LinearSolution:
    """A verified answer."""

    #: Why the solver stopped (`LinearTermination`; compares equal to its string).
    termination: LinearTermination
    #: Solution vector, integers whole, verified against the model; ``None`` if there is none.
    x: NDArray[np.float64] | None
    objective: float | None  # Recomputed from `x`, offset included.
    bound: float | None  # Proven bound in the model's sense, ``None`` if nothing was proven.
    #: Whether the solver took the warm start; ``None`` if none was given or it did not report it.
    warm_start_accepted: bool | None
    #: (seconds, incumbent, bound) at every change.
    trace: list[tuple[float, float | None, float | None]]
    solver: str  # Name and version.
    seconds: float  # Wall time of the whole call.
    build_seconds: float  # Part of it spent freezing the model and handing it over.
    message: str = ""  # What the user should know besides; may be empty.
    native_status: str = ""  # The solver's own name of the status.
    killed: bool = False  # Whether the process overran and had to be killed.

    @property
    def gap(self) -> float | None:
        """Relative gap ``|objective - bound| / max(|objective|, |bound|)``; ``None`` if unknown."""
        return relative_gap(self.objective, self.bound)


class Backend(Protocol):
    """One solver; a module of this package implements it."""

    capabilities: SolverCapabilities

    def version(self) -> str:
        """Version of the solver; raises `ImportError` or `OSError` where it is missing."""
        ...

    def solve(self, task: SolveTask) -> Answer:
        """Solve within the time limit; on Ctrl-C return the incumbent with ``interrupted``."""
        ...


def relative_gap(objective: float | None, bound: float | None) -> float | None:
    """Gap of a model's objective and bound; ``None`` where one is unknown."""
    return gap_between(objective, bound, ABSOLUTE_ZERO)


_MODULES = {
    "cbc": "optim.solvers.cbc",
    "highs": "optim.solvers.highs",
    "scip": "optim.solvers.scip",
    "cp-sat": "optim.solvers.cp_sat",
}

#: Names of the solvers, in the order they are listed to users.
SOLVERS: tuple[str, ...] = tuple(_MODULES)


def load(name: str) -> Backend:
    """Return a back end by name; the solver itself is not imported yet.

    Raises `SolverUnavailable`: there is no solver of that name.
    """
    if name not in _MODULES:
        remedy = meant(str(name), SOLVERS, "use one of")
        raise SolverUnavailable(Problem("solver", name, "is not a known solver", remedy))
    backend: Backend = import_module(_MODULES[name]).BACKEND
    return backend


def refuse_continuous(name: str | None, what: str) -> None:
    """Refuse a solver of integers only before anything is done, where a model will have others.

    Raises `UnsuitableMethod`: names what is continuous, and the solvers that take it.
    """
    if name is not None and capabilities(name).integer_only:
        others = ", ".join(other for other in SOLVERS if not capabilities(other).integer_only)
        reason = f"takes integers only, and {what}"
        raise UnsuitableMethod(Problem("--solver", name, reason, f"use one of {others}"))


def capabilities(name: str) -> SolverCapabilities:
    """Return what a solver can do."""
    return load(name).capabilities


def available(name: str) -> bool:
    """Whether the solver is installed here."""
    try:
        load(name).version()
    except (ImportError, OSError):
        return False
    return True


def require(name: str) -> Backend:
    """Return a back end that is installed.

    Raises `SolverUnavailable`: it is unknown or missing.
    """
    backend = load(name)
    try:
        backend.version()
    except (ImportError, OSError) as error:
        package = backend.capabilities.package
        others = [other for other in SOLVERS if other != name and available(other)]
        remedy = f"pip install {package}" + (f", or use {', '.join(others)}" if others else "")
        reason = f"is not installed ({error})"
        raise SolverUnavailable(Problem("solver", name, reason, remedy)) from error
    return backend


@cache
def ortools_version() -> str:
    """Return "OR-Tools <version>"; raises `ImportError` where it is missing.

    It is not imported for that, which takes a second and 100 MB.
    """
    from importlib.metadata import version

    if find_spec("ortools") is None:
        raise ImportError("No module named 'ortools'")
    return f"OR-Tools {version('ortools')}"
