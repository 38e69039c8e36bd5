"""From a rebalancing problem to the arrays that compiled searches read and change."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.problem import writable
from optim.moves.guard import make_guard

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints
    from formulations.rebalancing.search.state import Fixed


def fixed_part(problem: BalanceProblem) -> Fixed:
    """Return the arrays that the kernels read."""
    from formulations.rebalancing.search.state import Fixed

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
        writable(problem.rules.copies_indptr),
        writable(problem.rules.copies),
        problem.rules.restrict,
    )


def changing_part(
    problem: BalanceProblem, placement: Ints
) -> tuple[Ints, Floats, Floats, Floats, Floats, Ints]:
    """Return placement, (N,) deviation, (N, E) room and spare, (2,) budgets left, `Guard.ints`."""
    used = problem.node_usage(placement)
    floor = np.where(problem.leaving[:, None], -math.inf, problem.floor)
    floor = np.where(floor > 0, floor, -math.inf)
    budget = np.full(2, math.inf)
    if problem.max_moves is not None:
        budget[0] = problem.max_moves - problem.moves(placement)
    if problem.max_cost is not None:
        budget[1] = problem.most_cost - problem.moving_cost(placement)
    room = problem.headroom - used
    placement = writable(placement)
    deviation = problem.node_load(placement) - problem.share
    rules = make_guard(problem.rules, placement).ints
    return placement, deviation, room, used - floor, budget, rules
