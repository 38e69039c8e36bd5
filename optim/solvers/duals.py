"""Duals of linear programs: what any multipliers prove, and good multipliers of large programs.

For any weights of its rows, what they leave of the cost, taken at the better end of each variable,
bounds the optimum (Neumaier, Shcherbina 2004, doi:10.1007/s10107-003-0433-3): nothing of the solver
is trusted, and where its duals are exact the bound is, up to the rounding of the sums here.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csc_matrix

from optim.solvers.inprocess import interruptible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


#: Rounding of one operation, with room for what is rounded twice.
_EPSILON = 2.0**-51


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

    Parameters
    ----------
    row_duals
        Any numbers, shape (rows,); the LP's duals make the bound tight.

    Returns
    -------
    float
        ``-inf`` where a variable without a bound on that side decides.
    """
    # a weight that leans on a bound which is not there proves nothing: without it
    side = np.where(row_duals > 0, row_lower, row_upper)
    weight = np.where(np.isfinite(side), row_duals, 0.0)
    rest = cost - matrix.T @ weight
    doubt = abs(matrix).T @ np.abs(weight) + np.abs(cost)  # what `rest` may be off by, in roundings
    steps = np.diff(matrix.tocsc().indptr) + 2
    off = _EPSILON * steps * doubt
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

    Parameters
    ----------
    cost
        Objective, shape (variables,).
    matrix
        Sparse or dense, shape (rows, variables).
    row_lower, row_upper
        Row bounds, ±inf for none.
    deadline
        `time.process_time` after which no round is begun, and at which a running one ends about.

    Yields
    ------
    ndarray
        Change of the optimum per unit of each row's binding bound, shape (rows,), about.
    """
    from ortools.pdlp import solve_log_pb2, solvers_pb2
    from ortools.pdlp.python import pdlp

    program = pdlp.QuadraticProgram()
    program.objective_vector = cost
    program.constraint_matrix = csc_matrix(matrix)
    program.constraint_lower_bounds, program.constraint_upper_bounds = row_lower, row_upper
    program.variable_lower_bounds = np.zeros(len(cost))
    program.variable_upper_bounds = np.full(len(cost), np.inf)
    asked = solvers_pb2.PrimalDualHybridGradientParams()
    ends = asked.termination_criteria
    ends.simple_optimality_criteria.eps_optimal_relative = _RELATIVE
    ends.simple_optimality_criteria.eps_optimal_absolute = _ABSOLUTE
    start, rounds = None, _FIRST
    while (left := deadline - time.process_time()) > 0:
        ends.iteration_limit, ends.time_sec_limit = rounds, left
        call = partial(pdlp.primal_dual_hybrid_gradient, program, asked)
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
