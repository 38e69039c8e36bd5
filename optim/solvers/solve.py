"""`solve_linear`: one call for every back end; checks what comes back."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, SolverError
from optim.solvers.interface import (
    ABSOLUTE_ZERO,
    OPTIMAL_GAP,
    Answer,
    LinearSolution,
    LinearTermination,
    SolveTask,
    load,
    relative_gap,
    require,
)
from optim.solvers.linear_model import TOLERANCE
from optim.solvers.row_scaling import apart, conditioned
from optim.util.process import sigterm_as_interrupt
from optim.util.progress import ProgressRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from optim.solvers.interface import Backend
    from optim.solvers.linear_model import LinearArrays, LinearModel
    from optim.util.progress import Progress

ABSOLUTE_GAP = 1e-9  # Absolute gap below which a solver need not go on, unless set otherwise.
_ROUNDS = 200  # Times that a plan is cut off before the solver is given up.
MOST_CUTS = 1000  # Rows that are added at most to keep rows of numbers too far apart.
DOUBT = 1e-8  # Share of the largest number of a row that a solver may take for nothing.

_CLOSED = (LinearTermination.OPTIMAL, LinearTermination.GAP_REACHED)
_OPEN = (LinearTermination.TIME_LIMIT, LinearTermination.ITERATION_LIMIT)


def solve_linear(
    model: LinearModel,
    solver: str,
    *,
    time_limit: float | None = None,
    gap: float | None = None,
    abs_gap: float | None = None,
    seed: int = 0,
    threads: int = 1,
    warm_start: ArrayLike | None = None,
    options: Mapping[str, Any] | None = None,
    stop_bound: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> LinearSolution:
    """Solve a linear model and verify the answer.

    Parameters
    ----------
    model
        The model.
    solver
        ``cbc``, ``highs``, ``scip`` or ``cp-sat``.
    time_limit
        Wall-clock seconds for everything in this call; a solver that overruns is killed, after
        0.3 s or, where the limit is long, 0.9 s.
    gap
        Relative gap at which to stop; 1e-6 if not given.
    abs_gap
        Absolute gap at which to stop, in units of the objective; 1e-9 if not given.
    seed
        Seed of the solver, ≥ 0.
    threads
        Threads the solver may use.
    warm_start
        Full start vector (all columns). The answer is never worse than a feasible one.
    options
        Native options of the solver; they win over the common ones.
    stop_bound
        Stop once the bound is as good as this, whatever the incumbent: for who knows a plan that
        the model does not. HiGHS alone listens; the others go on to their own end.
    progress
        Called at a limited rate.

    Returns
    -------
    LinearSolution
        With the reason it stopped, the verified vector and only proven bounds. A Ctrl-C, or a
        SIGTERM for which the program has no handler, gives ``interrupted`` and the best vector so
        far, within a second.

    Raises
    ------
    SolverUnavailable
        Unknown solver, not installed, or it cannot take this model.
    InvalidInput
        A parameter or native option is wrong.
    SolverError
        The solver crashed, or its claim does not survive our check, nor does a second one where
        the solver is worth asking again (HiGHS, then without presolve).
    """
    started = time.perf_counter()
    _check_parameters(time_limit, gap, abs_gap, seed, threads)
    backend = load(solver)
    recorder = ProgressRecorder(model.sense, progress, started)
    arrays = model.freeze()
    start, feasible = _checked_start(model, warm_start)
    task = SolveTask(
        model=model, arrays=arrays, started=started, time_limit=time_limit,
        gap=OPTIMAL_GAP if gap is None else gap,
        abs_gap=ABSOLUTE_GAP if abs_gap is None else abs_gap,
        seed=seed, threads=threads, warm_start=start, warm_start_feasible=feasible,
        options=dict(options or {}), recorder=recorder, stop_bound=stop_bound,
    )  # fmt: skip
    frozen_seconds = time.perf_counter() - started
    trivial = solve_trivial(task)
    if trivial is None:
        require(solver)
    try:
        return _checked(backend, task, trivial, frozen_seconds)
    except SolverError as error:
        if trivial is not None or not backend.capabilities.second_attempt:
            raise
        afresh = ProgressRecorder(model.sense, progress, started)
        second = replace(task, recorder=afresh, second_attempt=True)
        solution = _checked(backend, second, None, frozen_seconds)
        note = f"solved again without presolve, since {error}"
        message = f"{solution.message}; {note}" if solution.message else note
        return replace(solution, message=message)


def solve_kept(
    solve: Callable[[], LinearSolution],
    cut_off: Callable[[NDArray[np.float64]], bool],
    over: Callable[[], bool],
) -> tuple[LinearSolution, int]:
    """Solve until a plan keeps the rules exactly; return the answer and how often it did not.

    Solvers keep rows up to a tolerance of theirs, the referee is stricter: what only a solver
    takes for a plan is cut off, and the model solved again. An answer that could not be mended
    comes without a plan; its bound is one all the same.

    `solve`: solves the model as it stands, in the time that is left.
    `cut_off`: adds rows that exclude a vector where the referee does not take it; whether it did.
    """
    cuts = 0
    while True:
        answer = solve()
        if answer.x is None or not cut_off(answer.x):
            return answer, cuts
        stopped = answer.termination
        if stopped is LinearTermination.INTERRUPTED or cuts >= _ROUNDS or over():
            if stopped in _CLOSED:
                stopped = LinearTermination.ITERATION_LIMIT
            return replace(answer, x=None, objective=None, termination=stopped), cuts
        cuts += 1


@sigterm_as_interrupt()
def _checked(
    backend: Backend, task: SolveTask, answer: Answer | None, frozen_seconds: float
) -> LinearSolution:
    """Let the back end answer, unless the answer is known, and check it."""
    name = f"{backend.capabilities.name} {backend.version()}"
    if answer is None:
        answer = _ask(backend, task)
    try:
        solution = verified(task, answer, name, frozen_seconds)
        task.recorder.finish()
    except KeyboardInterrupt:  # checking is short: do it again, and say so
        if answer.termination in _OPEN:
            answer.termination = LinearTermination.INTERRUPTED
        solution = verified(task, answer, name, frozen_seconds)
    return solution


def _ask(backend: Backend, task: SolveTask) -> Answer:
    """Let the back end solve; nothing is started when the time is already up."""
    remaining = task.remaining()
    if remaining is not None and remaining <= 0.0:
        return Answer(LinearTermination.TIME_LIMIT, "not started", message="no time was left")
    try:
        if task.warm_start is not None and task.warm_start_feasible:
            task.recorder.note(incumbent=task.arrays.objective_of(task.warm_start))
        if backend.capabilities.integer_only:  # CP-SAT has a scaling of its own
            answer = backend.solve(task)
        else:
            answer = _solved(backend, task)
        if answer.termination is LinearTermination.INFEASIBLE_OR_UNBOUNDED:
            # the objective decides which: solved again without one
            answer.termination = _which(backend, task)
    except KeyboardInterrupt:  # before the child ran or after it ended
        return Answer(LinearTermination.INTERRUPTED, "interrupted")
    return answer


def _solved(backend: Backend, task: SolveTask) -> Answer:
    """Let the back end solve until no row of numbers too far apart is broken."""
    separated = apart(task.arrays)
    if separated is None:
        answer = backend.solve(replace(task, arrays=conditioned(task.arrays)))
        return _confirmed(backend, task, answer)
    while True:  # of incumbents that do not stand in the end the recorder lets go by itself
        conditioned_task = replace(task, arrays=conditioned(separated.arrays))
        answer = _confirmed(
            backend,
            replace(conditioned_task, arrays=separated.arrays),
            backend.solve(conditioned_task),
        )
        if answer.x is None or not separated.cut_off(answer.x):
            break
        over = task.remaining() == 0.0 or separated.cuts >= MOST_CUTS
        if over or answer.termination is LinearTermination.INTERRUPTED:
            answer.x = None
            if answer.termination in _CLOSED:
                answer.termination = LinearTermination.ITERATION_LIMIT
            break
    if separated.cuts:
        answer.add(f"{separated.cuts} covers cut off in rows of numbers too far apart for solvers")
    return answer


def _confirmed(backend: Backend, task: SolveTask, answer: Answer) -> Answer:
    """Take "infeasible" for proven only where it holds beyond what a solver can distinguish.

    Rows of numbers too far apart are widened by that, and the solver asked again.
    """
    arrays = task.arrays
    if answer.termination is not LinearTermination.INFEASIBLE or not arrays.far_apart.any():
        return answer
    # ten times `WHOLE`: by so much a solver may misjudge a row of its largest number
    width = np.where(arrays.far_apart, DOUBT * arrays.row_sizes, 0.0)
    wider = replace(arrays, row_lower=arrays.row_lower - width, row_upper=arrays.row_upper + width)
    silent = ProgressRecorder(task.model.sense, None, task.started)
    again = backend.solve(replace(task, arrays=conditioned(wider), recorder=silent))
    if again.termination is not LinearTermination.INFEASIBLE:
        answer.termination = LinearTermination.ITERATION_LIMIT
        answer.bound = None
        answer.add(
            "infeasible only by less than a solver can resolve in rows of numbers too far apart: "
            "nothing is proven"
        )
    return answer


def _which(backend: Backend, task: SolveTask) -> LinearTermination:
    """Infeasible or unbounded? Feasible without an objective means unbounded."""
    if task.warm_start_feasible:
        return LinearTermination.UNBOUNDED
    arrays = replace(task.arrays, cost=np.zeros_like(task.arrays.cost), offset=0.0)
    silent = ProgressRecorder(task.model.sense, None, task.started)
    answer = backend.solve(replace(task, arrays=arrays, recorder=silent))
    if answer.x is not None and task.model.violation(rounded_vector(task, answer.x)) <= TOLERANCE:
        return LinearTermination.UNBOUNDED
    return answer.termination


def _checked_start(
    model: LinearModel, warm_start: ArrayLike | None
) -> tuple[NDArray[np.float64] | None, bool]:
    """Return the start with whole integers, and whether it is feasible."""
    if warm_start is None:
        return None, False
    start = np.array(warm_start, dtype=np.float64)
    if start.shape != (model.num_variables,):
        reason = f"does not give one value to each of the {model.num_variables} variables"
        raise InvalidInput(Problem("warm_start", f"shape {start.shape}", reason))
    if not np.isfinite(start).all():
        raise InvalidInput(Problem("warm_start", None, "holds values that are not finite"))
    integral = model.freeze().integrality
    near = integral & (np.abs(start - np.round(start)) <= TOLERANCE)
    start[near] = np.round(start[near])
    return start, model.violation(start) <= TOLERANCE


def _check_parameters(
    time_limit: float | None, gap: float | None, abs_gap: float | None, seed: int, threads: int
) -> None:
    problems = []
    for name, value in (("time_limit", time_limit), ("gap", gap), ("abs_gap", abs_gap)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            problems.append(Problem(name, value, "is not a finite number ≥ 0"))
    if not 0 <= seed < 2**31:
        problems.append(Problem("seed", seed, "is not a number of 0 … 2147483647"))
    if not 1 <= threads <= 1024:
        problems.append(Problem("threads", threads, "is not a number of 1 … 1024"))
    if problems:
        raise InvalidInput(problems)


def solve_trivial(task: SolveTask) -> Answer | None:
    """Answer a model without coefficients, or with crossed bounds; ``None`` for all others.

    Solvers differ in how they take such models (some call them errors), so none is asked.
    """
    arrays = task.arrays
    crossed = _crossed(task)
    if crossed:
        return Answer(LinearTermination.INFEASIBLE, "crossed bounds", message=crossed)
    if arrays.matrix.nnz and np.any(arrays.matrix.data):
        return None
    wanting = np.flatnonzero((arrays.row_lower > TOLERANCE) | (arrays.row_upper < -TOLERANCE))
    if wanting.size:
        where = task.model.row_name(int(wanting[0]))
        message = f"{where} has no coefficients and excludes 0"
        return Answer(LinearTermination.INFEASIBLE, "empty row", message=message)
    x = _cheapest_corner(arrays)
    if not np.isfinite(x).all():
        return Answer(LinearTermination.UNBOUNDED, "unbounded column")
    value = arrays.objective_of(x)
    message = "no coefficients in any row: solved without a solver"
    return Answer(LinearTermination.OPTIMAL, "trivial", x, value, value, message=message)


def _crossed(task: SolveTask) -> str:
    """Name the first variable or row whose lower bound lies above its upper bound."""
    arrays = task.arrays
    for lower, upper, name in (
        (arrays.lower, arrays.upper, task.model.variable_name),
        (arrays.row_lower, arrays.row_upper, task.model.row_name),
    ):
        crossed = np.flatnonzero(lower > upper + 1e-9 * np.maximum(1.0, np.abs(upper)))
        if crossed.size:
            i = int(crossed[0])
            return f"{name(i)}: lower bound {lower[i]:g} is above upper bound {upper[i]:g}"
    return ""


def _cheapest_corner(arrays: LinearArrays) -> NDArray[np.float64]:
    """Put every variable at its better bound; one without cost goes next to 0."""
    # without rows each variable is optimised by itself
    cost = arrays.cost if arrays.sense == "min" else -arrays.cost
    at_rest = np.clip(0.0, arrays.lower, arrays.upper)
    return np.where(cost > 0, arrays.lower, np.where(cost < 0, arrays.upper, at_rest))


#: How far a bound may lie on the wrong side of our objective: as a share, which is rounding,
#: and in absolute terms, as far as a solver's tolerances on rows and integers take it.
CLAIM_TOLERANCE = 2e-6

#: Differences above this, relative to max(1, |objective|), are no matter of tolerances.
MATERIAL = 1e-5

#: Long enough: with all integers fixed nearly nothing is left to solve. Where the time is up, the
#: least there is for it, and a share of the limit.
_POLISH_SECONDS, _LEAST_POLISH, _POLISH_SHARE = 10.0, 0.2, 0.05

_NOTHING = (LinearTermination.INFEASIBLE, LinearTermination.UNBOUNDED)


def verified(task: SolveTask, answer: Answer, solver: str, frozen_seconds: float) -> LinearSolution:
    """Turn a solver's answer into a checked solution.

    Raises `SolverError`: the claim contradicts our own measurement; names solver, claim and figure.
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
        _withdraw_claim(
            answer,
            f"{solver} claims {task.model.name!r} is infeasible, but the warm start satisfies it "
            f"(objective {value:.9g}, largest violation {most:.3g})",
        )


def _withdraw_claim(answer: Answer, false_claim: str) -> None:
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
    # an LP of the continuous variables alone, with every integer fixed at its rounded value
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
    # beyond by rounding: the bound is met. Beyond by a solver's tolerance: only as good as that
    rounding = max(ABSOLUTE_ZERO, CLAIM_TOLERANCE * max(abs(objective), abs(bound)))
    if beyond <= rounding:
        return objective
    if beyond <= CLAIM_TOLERANCE:
        lowest = max(sign * objective - CLAIM_TOLERANCE, sign * _bound_of_box(task))
        return sign * min(sign * objective, lowest)
    _withdraw_claim(
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
