"""Small LPs and MILPs inside this process, through scipy's HiGHS.

A process start costs some tens of milliseconds, too much for thousands of small models. scipy's
copy of HiGHS hides its symbols, so it lives beside OR-Tools in one process.

Whatever goes wrong in there, the answer is an answer: termination ``error`` and the reason. Callers
lose what the model would have returned, never their incumbent.

Python runs signal handlers in the main thread only, and only between its own instructions: a
library that computes there for a minute answers no Ctrl-C for a minute. So the call is made in a
second thread, for which the main thread waits. A call that is given up goes on unheard to its own
end. Python waits some seconds for that before it ends: a thread that leaves C++ while Python ends
aborts the process.
"""

from __future__ import annotations

import atexit
import math
import os
import queue
import threading
import time
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from optim.solvers.interface import LinearTermination
from optim.solvers.linear_model import TOLERANCE, LinearArrays, LinearModel
from optim.solvers.row_scaling import conditioned
from optim.util.process import SOLVER_CALLS, c_stdout_silenced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

#: Seconds beyond its time limit after which HiGHS is given up; it looks at the clock now and then.
GIVE_UP_AFTER = 0.4

#: Seconds after which HiGHS is given up where nodes alone limit it: it can stay in one for ever.
HANGS_AFTER = 20.0

#: Seconds that Python waits at its end for calls that were given up.
ENDS_WITHIN = 5.0

#: ``scipy.optimize.linprog`` and ``milp`` share these codes; 1 is any limit, 4 is trouble.
STATUS = {
    0: LinearTermination.OPTIMAL,
    1: LinearTermination.TIME_LIMIT,
    2: LinearTermination.INFEASIBLE,
    3: LinearTermination.UNBOUNDED,
    4: LinearTermination.ERROR,
}


@dataclass(frozen=True)
class LpSolution:
    """Answer of `solve_lp`."""

    #: ``optimal``, ``infeasible``, ``unbounded``, ``time_limit`` or ``error``.
    termination: LinearTermination
    x: NDArray[np.float64] | None  # Optimal point, ``None`` unless optimal.
    objective: float | None  # ``cost @ x``.
    #: Change of the optimum per unit of each row's binding bound, shape (rows,).
    row_duals: NDArray[np.float64] | None
    #: The same for the bounds of the variables, shape (variables,).
    reduced_costs: NDArray[np.float64] | None
    reason: str = ""  # Why it is an ``error``, else empty.


@dataclass(frozen=True)
class SmallMilpSolution:
    """Answer of `solve_small_milp`; `x` is verified, `bound` proven, both in the model's sense.

    `termination` is ``optimal``, ``infeasible``, ``unbounded``, ``time_limit`` (any limit) or
    ``error``, with its `reason`.
    """

    termination: LinearTermination
    x: NDArray[np.float64] | None
    objective: float | None
    bound: float | None
    reason: str = ""


def solve_lp(
    cost: NDArray[np.float64],
    matrix: Any,
    row_lower: NDArray[np.float64],
    row_upper: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    time_limit: float | None = None,
    *,
    tolerance: float | None = None,
) -> LpSolution:
    """Minimise ``cost @ x`` s.t. ``row_lower <= matrix @ x <= row_upper``, ``lower <= x <= upper``.

    `cost`: objective, shape (variables,).
    `matrix`: sparse or dense, shape (rows, variables).
    `row_lower`, `row_upper`: row bounds, ±inf for none.
    `lower`, `upper`: variable bounds, ±inf for none.
    `time_limit`: seconds.
    `tolerance`: of rows and of reduced costs; HiGHS' own 1e-7 if not given.
    """
    from scipy import optimize
    from scipy.sparse import csr_array, vstack

    rows = csr_array(matrix)
    equal = row_lower == row_upper
    above, below = ~equal & np.isfinite(row_upper), ~equal & np.isfinite(row_lower)
    one_sided: Any = rows[above]
    if below.any():
        one_sided = vstack([one_sided, -rows[below]], format="csr")
    program = {
        "c": cost, "A_ub": one_sided, "b_ub": np.concatenate([row_upper[above], -row_lower[below]]),
        "A_eq": rows[equal], "b_eq": row_lower[equal], "bounds": np.column_stack([lower, upper]),
        "method": "highs",
    }  # fmt: skip
    names = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
    options = {} if tolerance is None else dict.fromkeys(names, tolerance)
    answer = _ask(optimize.linprog, program, options, time_limit)
    termination = STATUS.get(answer.status, LinearTermination.ERROR)
    if answer.x is None or termination is not LinearTermination.OPTIMAL:
        return LpSolution(termination, None, None, None, None, _reason(answer, termination))
    duals = np.zeros(len(row_lower))
    marginals, split = answer.ineqlin.marginals, int(above.sum())
    # linprog has rows <= only: lower bounds are passed as -row <= -lower, so their duals turn sign
    duals[above] += marginals[:split]
    duals[below] -= marginals[split:]
    duals[equal] = answer.eqlin.marginals
    reduced = answer.lower.marginals + answer.upper.marginals
    return LpSolution(termination, answer.x, float(answer.fun), duals, reduced)


def solve_small_milp(
    model: LinearModel | LinearArrays,
    time_limit: float | None = None,
    gap: float = 1e-6,
    node_limit: int | None = None,
    *,
    presolve: bool = True,
) -> SmallMilpSolution:
    """Solve a small model in this process; no warm start, no progress.

    `time_limit`: seconds.
    `gap`: relative gap at which to stop.
    `node_limit`: branch-and-bound nodes at which to stop: work that repeats, where seconds do not.
    `presolve`: whether HiGHS reduces the model first. In rows with numbers below its tolerance
        (1e-7) that can lose the optimum: a proof that matters is repeated without.
    """
    from scipy import optimize

    arrays = model.freeze() if isinstance(model, LinearModel) else model
    sign = 1.0 if arrays.sense == "min" else -1.0
    scaled = conditioned(arrays)
    rows: Any = optimize.LinearConstraint(scaled.matrix, scaled.row_lower, scaled.row_upper)
    program = {
        "c": sign * arrays.cost, "integrality": arrays.integrality.astype(np.int64),
        "bounds": optimize.Bounds(scaled.lower, scaled.upper),
        "constraints": rows if arrays.num_rows else (),
    }  # fmt: skip
    options = {"mip_rel_gap": gap, "node_limit": node_limit, "presolve": presolve}
    # HiGHS refuses an optimum of its own that lies its tolerance, 1e-6, beyond a row: the same
    # rows in other numbers come out otherwise
    twice: Any = (
        2.0 * part
        for part in (
            scaled.matrix,
            scaled.row_lower,
            scaled.row_upper,
        )
    )
    doubled = {**program, "constraints": optimize.LinearConstraint(*twice)}
    with c_stdout_silenced():
        answer = _ask(
            optimize.milp, program, options, time_limit, doubled if arrays.num_rows else None
        )
    termination = STATUS.get(answer.status, LinearTermination.ERROR)
    reason = _reason(answer, termination)
    x = None if answer.x is None else np.where(arrays.integrality, np.round(answer.x), answer.x)
    if x is not None and not _keeps(arrays, x) and not arrays.integrality.all():
        # almost whole was whole to the solver: the fractions follow the rounded numbers
        lower = np.where(arrays.integrality, x, scaled.lower)
        upper = np.where(arrays.integrality, x, scaled.upper)
        whole = {"integrality": None, "bounds": optimize.Bounds(lower, upper)}
        with c_stdout_silenced():
            follows = _ask(optimize.milp, {**program, **whole}, {}, time_limit).x
        x = x if follows is None else np.where(arrays.integrality, x, follows)
    if x is None or not _keeps(arrays, x):
        if termination is LinearTermination.OPTIMAL:
            termination, reason = LinearTermination.ERROR, "its optimum breaks a row or bound"
        return SmallMilpSolution(termination, None, None, None, reason)
    proven = getattr(answer, "mip_dual_bound", None) if arrays.has_integers else answer.fun
    bound = None if proven is None or not np.isfinite(proven) else sign * proven + arrays.offset
    return SmallMilpSolution(termination, x, arrays.objective_of(x), bound, reason)


def _keeps(arrays: LinearArrays, x: NDArray[np.float64]) -> bool:
    return max(part.max(initial=0.0) for part in arrays.violations(x)) <= TOLERANCE


_AT_NODE_LIMIT = "Solution limit reached"  # What HiGHS says when it stops at a number of nodes.


def _ask(
    solve: Callable[..., Any], program: Mapping[str, Any], options: Mapping[str, Any],
    time_limit: float | None, last: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Call HiGHS, again without presolve where that fails, then `last`; no failure gets out.

    Returns scipy's result, or what stands for one: status, no `x`, and the reason as message.
    """
    ends = None if time_limit is None else time.perf_counter() + time_limit
    set_options = {name: value for name, value in options.items() if value is not None}
    failure: Any = SimpleNamespace(status=4, x=None, message="no time was left")
    attempts = [(program, {}), (program, {"presolve": False})]
    attempts += [] if last is None else [(last, {})]
    for attempt, (arguments, more) in enumerate(attempts):
        left = None if ends is None else ends - time.perf_counter()
        patience = HANGS_AFTER if "node_limit" in set_options else None
        if left is not None:
            if left < 0.0 and attempt:
                break
            set_options["time_limit"] = max(0.0, left)
            patience = max(0.0, left) + GIVE_UP_AFTER
        try:
            answer = interruptible(
                partial(solve, **arguments, options={**set_options, **more}), patience
            )
        except Overdue:
            return SimpleNamespace(status=1, x=None, message="no answer within the time limit")
        except Exception as error:  # what C++ throws arrives as anything: "vector::reserve", …
            failure = SimpleNamespace(status=4, x=None, message=f"{type(error).__name__}: {error}")
            continue
        if _AT_NODE_LIMIT in str(answer.message):  # scipy does not know this end: no failure
            answer.status = 1
        if STATUS.get(answer.status) not in (None, LinearTermination.ERROR):
            return answer
        failure = answer
    return failure


def _reason(answer: Any, termination: LinearTermination) -> str:
    return str(answer.message) if termination is LinearTermination.ERROR else ""


T = TypeVar("T")


class Overdue(Exception):
    """A call that took longer than it may."""


class _Caller:
    """A thread that makes one call after another (HiGHS starts threads for each that calls it)."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, name=SOLVER_CALLS, daemon=True)
        self.thread.start()

    def give_up(self) -> None:
        """End after the call that runs, whose answer nobody waits for."""
        self.calls.put(None)
        _abandoned.append(self)

    def _work(self) -> None:
        while (order := self.calls.get()) is not None:
            function, answers = order
            try:
                answers.put((function(), None))
            except BaseException as error:  # the waiting thread raises it
                answers.put((None, error))


_idle: list[_Caller] = []
_abandoned: list[_Caller] = []
for _callers in (_idle, _abandoned):  # a forked process has no other threads
    os.register_at_fork(after_in_child=_callers.clear)


@atexit.register
def _await_abandoned() -> None:
    ends = time.perf_counter() + ENDS_WITHIN
    for caller in _abandoned:
        caller.thread.join(max(0.0, ends - time.perf_counter()))


def interruptible(function: Callable[[], T], seconds: float | None = None) -> T:
    """Return what `function` returns, or raise what it raises.

    `function`: releases Python's lock while it computes; changes nothing that others read.
    `seconds`: it is given up after so many.
    Raises `Overdue`: it was given up. `KeyboardInterrupt` gives it up as well.
    """
    if threading.current_thread() is not threading.main_thread():
        return function()
    caller = _idle.pop() if _idle else _Caller()
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    caller.calls.put((function, answers))
    try:
        value, error = answers.get(timeout=seconds)
    except queue.Empty:
        caller.give_up()
        raise Overdue from None
    except BaseException:
        caller.give_up()
        raise
    # a caller that answered is used again; one that was given up ends after its call
    _idle.append(caller)
    if error is not None:
        raise error
    result: T = value
    return result


_EPSILON = 2.0**-51  # Rounding of one operation, with room for what is rounded twice.


def dual_bound(
    cost: NDArray[np.float64],
    matrix: Any,
    row_lower: NDArray[np.float64],
    row_upper: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    row_duals: NDArray[np.float64],
) -> float:
    """Return a proven lower bound on ``cost @ x``; the arguments are those of `solve_lp`.

    `row_duals`: any numbers, shape (rows,); the LP's duals make the bound tight.
    Returns ``-inf`` where a variable without a bound on that side decides.
    """
    # a weight that leans on a bound which is not there proves nothing: without it
    side = np.where(row_duals > 0, row_lower, row_upper)
    weight = np.where(np.isfinite(side), row_duals, 0.0)
    rest = cost - matrix.T @ weight
    doubt = abs(matrix).T @ np.abs(weight) + np.abs(cost)  # what `rest` may be off by, in roundings
    steps = np.diff(matrix.tocsc().indptr) + 2
    off = _EPSILON * steps * doubt
    # weak duality: cost·x >= Σ weight · side + Σ min over the box of (cost - Aᵀ weight)·x, in which
    # the rest may be off by `off` either way
    least = np.minimum(_times(rest - off, lower, upper), _times(rest + off, lower, upper))
    terms = np.concatenate([weight * np.where(weight == 0.0, 0.0, side), least])
    if not np.isfinite(terms).all():
        return -math.inf
    return math.fsum(terms) - _EPSILON * math.fsum(np.abs(terms))


def _times(
    rest: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the least ``rest * x`` of each variable within its bounds."""
    best = np.where(rest > 0, lower, upper)
    # nothing left of the cost: 0, where the variable is bounded at all
    return np.where(rest == 0.0, 0.0, rest * np.where(rest == 0.0, 0.0, best))


# Duals of large linear programs by OR-Tools' PDLP: soon near, never exact.
#
# D. Applegate et al., Practical Large-Scale Linear Programming using Primal-Dual Hybrid Gradient,
# NeurIPS 2021. Good for what any multipliers prove; `inprocess.solve_lp` has exact ones.

_FIRST, _RELATIVE, _ABSOLUTE = 1000, 1e-7, 1e-10
"""Iterations of the first round, each later one having twice as many; what ends them all."""


def approximate_duals(
    cost: NDArray[np.float64],
    matrix: Any,
    row_lower: NDArray[np.float64],
    row_upper: NDArray[np.float64],
    deadline: float,
) -> Iterator[NDArray[np.float64]]:
    """Yield better and better row duals of ``min cost @ x``, rows within bounds, ``x >= 0``.

    `deadline`: `time.process_time` after which no round is begun, and at which a running one ends
        about.
    Yields change of the optimum per unit of each row's binding bound, shape (rows,), about.
    """
    from ortools.pdlp import solve_log_pb2, solvers_pb2
    from ortools.pdlp.python import pdlp
    from scipy.sparse import csc_matrix

    program = pdlp.QuadraticProgram()
    program.objective_vector = cost
    program.constraint_matrix = csc_matrix(matrix)
    program.constraint_lower_bounds, program.constraint_upper_bounds = row_lower, row_upper
    program.variable_lower_bounds = np.zeros(len(cost))
    program.variable_upper_bounds = np.full(len(cost), np.inf)
    parameters = solvers_pb2.PrimalDualHybridGradientParams()
    ends = parameters.termination_criteria
    ends.simple_optimality_criteria.eps_optimal_relative = _RELATIVE
    ends.simple_optimality_criteria.eps_optimal_absolute = _ABSOLUTE
    start, rounds = None, _FIRST
    while (left := deadline - time.process_time()) > 0:
        ends.iteration_limit, ends.time_sec_limit = rounds, left
        call = partial(pdlp.primal_dual_hybrid_gradient, program, parameters)
        answer = interruptible(call if start is None else partial(call, initial_solution=start))
        duals = np.array(answer.dual_solution, dtype=float)
        if len(duals) != len(row_lower) or not np.isfinite(duals).all():
            return
        yield duals
        if answer.solve_log.termination_reason != solve_log_pb2.TERMINATION_REASON_ITERATION_LIMIT:
            return
        start = pdlp.PrimalAndDualSolution()
        start.primal_solution, start.dual_solution = answer.primal_solution, answer.dual_solution
        rounds *= 2
