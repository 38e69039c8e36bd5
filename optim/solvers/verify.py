"""No claim of a solver is believed: vectors, objectives, bounds and statuses are checked here."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from optim.errors import SolverError
from optim.solvers.interface import (
    ABSOLUTE_ZERO,
    OPTIMAL_GAP,
    LinearSolution,
    LinearTermination,
    relative_gap,
)
from optim.solvers.linear_model import TOLERANCE
from optim.solvers.row_scaling import conditioned

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.solvers.interface import Answer, SolveTask

#: How far a bound may lie on the wrong side of our objective: as a share, which is rounding,
#: and in absolute terms, as far as a solver's tolerances on rows and integers take it.
CLAIM_TOLERANCE = 2e-6

#: Differences above this, relative to max(1, |objective|), are no matter of tolerances.
MATERIAL = 1e-5

#: Long enough: with all integers fixed nearly nothing is left to solve. Where the time is up, the
#: least there is for it, and a share of the limit.
_POLISH_SECONDS, _LEAST_POLISH, _POLISH_SHARE = 10.0, 0.2, 0.05

_NOTHING = (LinearTermination.INFEASIBLE, LinearTermination.UNBOUNDED)
_CLOSED = (LinearTermination.OPTIMAL, LinearTermination.GAP_REACHED)


def verified(task: SolveTask, answer: Answer, solver: str, frozen_seconds: float) -> LinearSolution:
    """Turn a solver's answer into a checked solution.

    Raises
    ------
    SolverError
        The claim contradicts our own measurement; names solver, claim and figure.
    """
    _check_infeasible(task, answer, solver)
    x = _accepted_vector(task, answer, solver)
    x, kept_start = _never_worse(task, x)
    objective = None if x is None else task.arrays.objective_of(x)
    bound = _checked_bound(task, answer, objective, solver)
    termination = _termination(task, answer, objective, bound, solver)
    if termination is LinearTermination.ERROR and x is None:
        raise SolverError(f"{solver} gave up {task.model.name!r} with {answer.native_status!r}")
    task.recorder.settle(objective, bound)
    if kept_start and answer.termination is not LinearTermination.OPTIMAL:
        answer.add("the solver found nothing better than the start it was given")
    return LinearSolution(
        termination=termination, x=x, objective=objective, bound=bound,
        warm_start_accepted=None if task.warm_start is None else answer.warm_start_accepted,
        trace=task.recorder.trace, solver=solver, seconds=time.perf_counter() - task.started,
        build_seconds=frozen_seconds + answer.handover_seconds, message=answer.message,
        native_status=answer.native_status, killed=answer.killed,
    )  # fmt: skip


def _check_infeasible(task: SolveTask, answer: Answer, solver: str) -> None:
    if answer.termination is LinearTermination.INFEASIBLE and task.warm_start_feasible:
        assert task.warm_start is not None
        value = task.arrays.objective_of(task.warm_start)
        most = task.model.violation(task.warm_start)
        _disbelieve(
            answer,
            f"{solver} claims {task.model.name!r} is infeasible, but the warm start satisfies it "
            f"(objective {value:.9g}, largest violation {most:.3g})",
        )


def _disbelieve(answer: Answer, false_claim: str) -> None:
    """Take an answer for one that was not finished, as a plan shows its claim to be false."""
    answer.add(f"{false_claim}: not believed; try another solver")
    answer.termination, answer.bound = LinearTermination.ITERATION_LIMIT, None


def _accepted_vector(task: SolveTask, answer: Answer, solver: str) -> NDArray[np.float64] | None:
    """Return the solver's vector with whole integers if it satisfies the model.

    A violated vector is an error if the solver called it optimal, and dropped otherwise.
    """
    if answer.x is None or answer.termination in _NOTHING:
        return None
    x = np.array(answer.x, dtype=np.float64)
    violation, where = task.model.worst_violation(x)
    rounded = rounded_vector(task, x)
    after, where_after = task.model.worst_violation(rounded)
    if after <= TOLERANCE:
        return rounded
    polished = _polished(task, rounded)
    if polished is not None:
        return polished
    if _beyond_doubles(task, rounded):
        answer.add(
            f"a plan was dropped: the numbers of {where_after} lie too far apart for the "
            "tolerances of solvers, and nothing is proven"
        )
        answer.termination, answer.bound = LinearTermination.ITERATION_LIMIT, None
        return None
    if answer.termination in _CLOSED:
        raise SolverError(
            f"{solver} claims {answer.native_status!r} for {task.model.name!r}, but its solution "
            f"violates {where_after} by {after:.3g} with whole integers "
            f"({violation:.3g} at {where} as returned; allowed {TOLERANCE:g}); "
            "try another solver or tighter native tolerances"
        )
    answer.add(f"an incumbent was dropped: it violates {where_after} by {after:.3g}")
    return None


def _beyond_doubles(task: SolveTask, x: NDArray[np.float64]) -> bool:
    """Whether the row that a vector violates most has numbers too far apart for any solver."""
    arrays = task.arrays
    _, by_row = arrays.violations(x)
    if not by_row.size or not by_row.max() > TOLERANCE:
        return False
    return bool(arrays.far_apart[int(by_row.argmax())])


def rounded_vector(task: SolveTask, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round the integer entries; values that overstep a bound a little are put onto it."""
    arrays = task.arrays
    rounded = np.where(arrays.whole_columns, np.round(x), x)
    clipped = np.clip(rounded, arrays.lower, arrays.upper)
    return np.where(np.abs(clipped - rounded) <= 1e-5, clipped, rounded) + 0.0


def _polished(task: SolveTask, rounded: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Fix the integers and set the continuous variables anew; ``None`` if that is not feasible.

    Rounding an integer by 1e-7 moves a row by 1e-7 times its coefficient: the continuous variables
    have to follow.
    """
    from optim.solvers.inprocess import solve_lp

    arrays = conditioned(task.arrays)
    if arrays.integrality.all() or not np.isfinite(rounded).all():
        return None
    lower = np.where(arrays.integrality, rounded, arrays.lower)
    upper = np.where(arrays.integrality, rounded, arrays.upper)
    sign = 1.0 if arrays.sense == "min" else -1.0
    answer = solve_lp(
        sign * arrays.cost, arrays.matrix, arrays.row_lower, arrays.row_upper, lower, upper,
        time_limit=_polish_seconds(task),
    )  # fmt: skip
    if answer.x is None:
        return None
    x = rounded_vector(task, answer.x)
    return x if task.model.violation(x) <= TOLERANCE else None


def _polish_seconds(task: SolveTask) -> float:
    remaining = task.remaining()
    if task.time_limit is None or remaining is None:
        return _POLISH_SECONDS
    least = max(_LEAST_POLISH, _POLISH_SHARE * task.time_limit)
    return min(_POLISH_SECONDS, max(least, remaining))


def _never_worse(
    task: SolveTask, x: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64] | None, bool]:
    """Return the better of `x` and a feasible warm start, and whether it is the start."""
    start = task.warm_start
    if start is None or not task.warm_start_feasible:
        return x, False
    if x is None:
        return start, True
    sign = 1.0 if task.arrays.sense == "min" else -1.0
    worse = sign * (task.arrays.objective_of(x) - task.arrays.objective_of(start)) > 0
    return (start, True) if worse else (x, False)


def _checked_bound(
    task: SolveTask, answer: Answer, objective: float | None, solver: str
) -> float | None:
    """Return the bound if it does not contradict a verified solution; equal to it if it nearly is.

    A bound that lies beyond a small objective by more than rounding, but by no more than a solver's
    tolerances, proves the objective up to these tolerances only. One that a verified solution beats
    proves nothing.
    """
    bound = answer.bound
    if bound is None or not np.isfinite(bound) or answer.termination in _NOTHING:
        return None
    if objective is None:
        return float(bound)
    sign = 1.0 if task.arrays.sense == "min" else -1.0
    beyond = sign * (bound - objective)
    if beyond <= 0:
        return float(bound)
    rounding = max(ABSOLUTE_ZERO, CLAIM_TOLERANCE * max(abs(objective), abs(bound)))
    if beyond <= rounding:
        return objective
    if beyond <= CLAIM_TOLERANCE:
        lowest = max(sign * objective - CLAIM_TOLERANCE, sign * _bound_of_box(task))
        return sign * min(sign * objective, lowest)
    _disbelieve(
        answer,
        f"{solver} claims the bound {bound:.9g} for {task.model.name!r}, but a verified solution "
        f"has {objective:.9g}",
    )
    return None


def _bound_of_box(task: SolveTask) -> float:
    """Bound that the variables' own bounds give."""
    arrays = task.arrays
    costly = arrays.cost != 0
    cost, lower, upper = arrays.cost[costly], arrays.lower[costly], arrays.upper[costly]
    at_lower = (cost > 0) == (arrays.sense == "min")
    return float(np.where(at_lower, cost * lower, cost * upper).sum()) + arrays.offset


def _termination(
    task: SolveTask, answer: Answer, objective: float | None, bound: float | None, solver: str
) -> LinearTermination:
    """Decide what may be said: ``optimal`` only with a verified vector and a closed gap."""
    claimed = answer.termination
    if claimed in _NOTHING:
        return claimed
    if objective is not None and bound is not None:
        gap = relative_gap(objective, bound)
        difference = abs(objective - bound)
        if gap is not None and gap <= OPTIMAL_GAP:
            return LinearTermination.OPTIMAL
        if gap is not None and (gap <= task.gap or difference <= task.abs_gap + ABSOLUTE_ZERO):
            return LinearTermination.GAP_REACHED
    if claimed not in _CLOSED:
        return claimed
    if objective is None:
        raise SolverError(
            f"{solver} claims {answer.native_status!r} for {task.model.name!r} without a solution"
        )
    return _closed_without_proof(task, answer, objective, bound, solver)


def _closed_without_proof(
    task: SolveTask, answer: Answer, objective: float, bound: float | None, solver: str
) -> LinearTermination:
    """A claim of optimality whose figures do not close the gap: an error unless it is a close call.

    Solvers measure gaps in their own ways, near an objective of 0 above all; a native gap or limit
    may have ended the search; and a gap that was reached is no claim of optimality.
    """
    close = bound is not None and abs(objective - bound) <= MATERIAL * max(1.0, abs(objective))
    if task.options or close or answer.termination is LinearTermination.GAP_REACHED:
        return LinearTermination.GAP_REACHED
    shown = "none" if bound is None else f"{bound:.9g}"
    raise SolverError(
        f"{solver} claims {answer.native_status!r} for {task.model.name!r}, but the verified "
        f"objective is {objective:.9g} and the bound {shown} (claimed objective "
        f"{'none' if answer.claimed is None else f'{answer.claimed:.9g}'}); try another solver"
    )
