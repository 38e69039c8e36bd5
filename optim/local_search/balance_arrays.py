"""From a rebalancing problem to the arrays that compiled searches read and change."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from optim.local_search.balance_problem import margin, writable

if TYPE_CHECKING:
    from optim.local_search.balance_problem import BalanceProblem, Floats, Ints
    from optim.local_search.balance_state import Fixed


def fixed_part(problem: BalanceProblem) -> Fixed:
    """Return the arrays that the kernels read."""
    from optim.local_search.balance_state import Fixed

    positive = problem.cost[problem.cost > 0]
    return Fixed(
        writable(problem.load),
        writable(problem.cost),
        writable(problem.home),
        writable(problem.share),
        writable(problem.leaving),
        writable(problem.usage),
        writable(problem.row_of),
        writable(problem.must_move),
        writable(problem.allowed_indptr),
        writable(problem.allowed_nodes),
        problem.into_leaving,
        problem.max_cost is not None,
        float(np.median(positive)) if len(positive) else 1.0,
    )


def changing_part(
    problem: BalanceProblem, placement: Ints
) -> tuple[Ints, Floats, Floats, Floats, Floats]:
    """Return placement, (N,) deviation, (N, E) room and spare, and (2,) budgets left."""
    used = problem.node_usage(placement)
    floor = np.where(problem.leaving[:, None], -math.inf, problem.floor)
    floor = np.where(floor > 0, floor, -math.inf)
    budget = np.full(2, math.inf)
    if problem.max_moves is not None:
        budget[0] = problem.max_moves - problem.moves(placement)
    if problem.max_cost is not None:
        limit = problem.max_cost + float(margin(problem.max_cost))
        budget[1] = limit - problem.moving_cost(placement)
    room = problem.headroom + margin(problem.headroom) - used
    placement = writable(placement)
    return (placement, problem.node_load(placement) - problem.share, room, used - floor, budget)
