"""From a rebalancing problem to the arrays that compiled searches read and change."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.problem import writable
from optim.kernels.guard import make_guard

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints
    from formulations.rebalancing.search.state import Fixed, State
    from optim.kernels.guard import Guard


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
) -> tuple[Ints, Floats, Floats, Floats, Floats, Guard]:
    """Return placement, (N,) deviation, (N, E) room and spare, (2,) budgets left, and guard."""
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
    guard = make_guard(problem.rules, placement)
    return placement, deviation, room, used - floor, budget, guard


def state_of(problem: BalanceProblem, placement: Ints, seed: int = 1) -> State:
    """Return the state of a search that begins from a placement; `seed` is not 0."""
    from formulations.rebalancing.search.state import State

    place, deviation, room, spare, budget, guard = changing_part(problem, placement)
    size = np.bincount(place, minlength=problem.num_nodes)
    order = np.argsort(place, kind="stable")
    alike = np.flatnonzero(place[order[1:]] == place[order[:-1]])
    first, after, before = (np.full(n, -1) for n in (problem.num_nodes, len(place), len(place)))
    after[order[alike]], before[order[alike + 1]] = order[alike + 1], order[alike]
    first[place[order[::-1]]] = order[::-1]
    random = np.array([seed], np.uint64)
    return State(
        place.astype(np.int64), deviation, room, spare, first, after, before, size, budget,
        guard.ints, random,
    )  # fmt: skip
