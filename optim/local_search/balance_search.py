"""Search portfolio for rebalancing: several starts, one compiled search, the best of all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from optim.local_search.balance_problem import margin, writable

if TYPE_CHECKING:
    from optim.local_search.balance_problem import BalanceProblem, Floats, Ints
    from optim.local_search.balance_state import Fixed

#: Levels that one search may try, and how many may fail in a row.
LEVELS, TRIES, PARTNERS = 2_000, 40, 6

#: Up to this many key groups everything is tried; beyond it, what is worth its time.
SMALL, LARGE = 3_000, 50_000

#: Key groups of a node that are looked at in large problems: all pairs of two nodes' would be many.
LOOK_AT = 25

#: First levels aimed at, as a part of the way from the bound to where the start lies.
FIRST_GOALS = np.array([0.0, 0.003, 0.01, 0.02, 0.04, 0.08, 0.16, 0.3])


def search_balance(
    problem: BalanceProblem,
    starts: tuple[Ints, ...] = (),
    seed: int = 0,
    target: float = 0.0,
    tries: int = TRIES,
) -> Ints | None:
    """Return the lexicographically best feasible placement found; ``None`` if there is none.

    Parameters
    ----------
    problem
        What to rebalance.
    starts
        Placements to begin from besides staying and water filling.
    seed
        Of the random choices.
    target
        Load distance at which to stop: a proven bound.
    tries
        Levels of the search that may fail one after the other.
    """
    if problem.num_tasks == 0:
        return problem.home
    fixed = fixed_part(problem)
    home = _forced_away(problem)
    candidates = [home, *starts]
    if problem.has_leaving or problem.num_tasks <= SMALL:
        candidates.insert(1, _water(problem, fixed, home))
    best: Ints | None = None
    for number, start in enumerate(candidates):
        found = _searched(problem, fixed, start, seed * 8 + number + 1, target, tries)
        for placement in (start, found):
            if placement is None or not problem.is_feasible(placement):
                continue
            if best is None or problem.is_better(problem.levels(placement), problem.levels(best)):
                best = placement
    return best


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


def warm_up() -> None:
    """Compile the kernels, or load them from the disk, on a tiny problem."""
    from optim.local_search.balance_making import make_problem

    search_balance(make_problem([1.0, 1.0, 1.0], [0, 0, 2], 3, leaving=[False, False, True]))


def _forced_away(problem: BalanceProblem) -> Ints:
    """Return home with the key groups that may not stay on their least loaded allowed node."""
    placement = problem.home.copy()
    load = problem.base_load - problem.share
    for task in np.flatnonzero(problem.must_move).tolist():
        nodes = np.flatnonzero(problem.may_be_rows(np.array([task]))[0])
        if len(nodes):
            target = int(nodes[np.argmin(load[nodes])])
            load[placement[task]] -= problem.load[task]
            load[target] += problem.load[task]
            placement[task] = target
    return placement


def _water(problem: BalanceProblem, fixed: Fixed, start: Ints) -> Ints:
    from optim.local_search.balance_kernel import water_fill

    placement: Ints = water_fill(fixed, *changing_part(problem, start))
    return placement


def _searched(
    problem: BalanceProblem, fixed: Fixed, start: Ints, seed: int, target: float, tries: int
) -> Ints:
    """Search from a start; then drain leaving nodes as far as the reached distance allows."""
    from optim.local_search.balance_kernel import drain, search

    large = problem.num_tasks > LARGE
    most = int(np.bincount(start, minlength=problem.num_nodes).max()) + 64
    now = problem.levels(start).distance
    # the bound itself lies a rounding below what can be reached
    first = FIRST_GOALS if problem.num_tasks <= SMALL else FIRST_GOALS[:0]
    goals = target + (now - target) * first + 1e-8 * max(1.0, target)
    look_at = LOOK_AT if large else most
    tries = min(tries, 3) if large else tries
    placement: Ints
    placement, _ = search(
        fixed, *changing_part(problem, start), seed, goals, LEVELS, tries, PARTNERS, target, look_at
    )
    if problem.has_leaving:
        reached = problem.levels(placement).distance
        placement = drain(fixed, *changing_part(problem, placement), reached)
    return placement
