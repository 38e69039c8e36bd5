"""Duals of large linear programs by OR-Tools' PDLP: soon near, never exact.

D. Applegate et al., Practical Large-Scale Linear Programming using Primal-Dual Hybrid Gradient,
NeurIPS 2021. Good for what any multipliers prove; `inprocess.solve_lp` has exact ones.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csc_matrix

from optim.solvers.inprocess import interruptible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

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
