"""Which key groups may move at all, and how far sums of loads may be off by rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Bools

#: Least relative allowance with which sums are compared, always in favour of the plan.
ROUNDING = 1e-11

EPSILON = float(np.finfo(np.float64).eps)


def load_allowance(problem: BalanceProblem) -> float:
    """Return more than any sum or difference of sums of loads can err by, in whatever order.

    Adding T numbers errs by at most T times half the distance of 1 to the next number, relative
    to the sum of all; what is compared is made of a few such sums.
    """
    total = float(problem.load.sum() + problem.background.sum())
    terms = problem.num_tasks + problem.num_nodes
    return (ROUNDING + 4.0 * terms * EPSILON) * max(1.0, total)


def movable_key_groups(problem: BalanceProblem) -> Bools:
    """(T,) whether a key group may leave its home at all."""
    movable = np.ones(problem.num_tasks, dtype=np.bool_)
    for row, task in enumerate(problem.restricted.tolist()):
        nodes = problem.allowed_nodes[problem.allowed_indptr[row] : problem.allowed_indptr[row + 1]]
        movable[task] = bool((nodes != problem.home[task]).any())
    return movable
