"""The cheapest moves that keep a load distance: goals met within ever smaller budgets of cost."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.balance.neighbourhoods import SECONDS, cheapen
from formulations.rebalancing.balance.search import (
    GoalSearch,
    Portfolio,
    run_portfolio,
    start_at_home,
)
from formulations.rebalancing.bounds.forced_moves import Needs, without_switches

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.rebalancing.problem import BalanceProblem, Ints
    from formulations.rebalancing.progress import Watch

#: Budgets that are tried for a goal, and with all searches; how near to the bound the last one is.
ATTEMPTS, LAST, NEAR = 7, 2, 1.01
#: Beyond this multiple of the bound, up to so many key groups, all searches are asked for less.
FAR, MOST = 1.1, 20_000
#: Rearrangements a node where no time is set, and how many a node may fail in a row.
ROUNDS, FAILURES = 4, 1
#: Nodes that are looked at for an exchange.
PARTNERS = (12, 48)


def cost_bound(problem: BalanceProblem) -> float:
    """Return what the moves of every plan within the greatest load distance cost at least.

    Key groups that may not stay, and what nodes outside the distance have to lose and to gain
    (``docs/proofs/forced-moves-bound.md``, step 4).
    """
    alike = without_switches(problem)
    forced = float(alike.least(alike.cost)[alike.must_move].sum()) * (1.0 - 1e-9)
    if problem.max_distance is None or not problem.num_tasks:
        return forced
    needs = Needs(alike)
    return max(forced, needs.least_spent(alike.cost, *needs.outside(problem.most_distance)))


def search_cheapest(
    problem: BalanceProblem,
    starts: tuple[Ints, ...],
    seed: int,
    bound: float,
    watch: Watch,
    take: Callable[[Ints, float], None],
) -> None:
    """Look for plans within the greatest load distance that cost less and less.

    Nodes within the distance are left as they are, so that no more is moved than has to be. Where
    that reaches nothing, the search for a small load distance is asked, until it is small enough.

    Parameters
    ----------
    problem, seed, watch
        As in `formulations.rebalancing.balance.search.Portfolio`.
    starts
        Placements to begin with.
    bound
        Proven: no plan costs less.
    take
        Called with each plan that is cheaper than those before, and its cost.
    """
    best, cheapest = math.inf, problem.home

    def keep(found: Ints) -> None:
        """Take a plan if it is cheaper than those before."""
        nonlocal best, cheapest
        cost = problem.moving_cost(found)
        if cost < best:
            best, cheapest = cost, found
            take(found, best)

    def within(budget: float, search: Callable[[BalanceProblem, Ints], Ints | None]) -> bool:
        """Whether a search finds a plan within a budget, some of whose moves are then undone."""
        limited = problem.cost_within(budget)
        found = search(limited, start_at_home(limited, seed))
        if found is None or not limited.is_feasible(found):
            return False
        keep(undone(problem, found))
        return True

    def bisect(search: Callable[[BalanceProblem, Ints], Ints | None], attempts: int) -> None:
        low, high = bound, min(problem.most_cost, best)
        for attempt in range(attempts):
            if high <= low * NEAR or watch.over():
                return
            budget = high if math.isinf(best) else 0.5 * (low + high)
            if within(budget, search):
                high = best
            elif attempt == 0 and math.isinf(best):
                return
            else:
                low = budget

    for start in (problem.home, *starts):
        within(problem.most_cost, _as_given(start))
    within(problem.most_cost, lambda limited, home: home)
    small = problem.num_tasks <= MOST
    for fills in (False, True):
        for partners in PARTNERS:
            bisect(_towards_goal(problem, seed, watch, partners, fills), ATTEMPTS)
    if math.isinf(best) or (best > FAR * bound and small):
        bisect(_all_searches(problem, seed, watch, 10 if math.isinf(best) else 1), LAST)
    if small and math.isfinite(best):
        _rearrange(problem, lambda: cheapest, seed, bound, watch, keep)


def undone(problem: BalanceProblem, placement: Ints) -> Ints:
    """Return a plan without the migrations that it does not need, the dearest undone first."""
    moved = np.flatnonzero(problem.rules.migrates(placement) & ~problem.must_move)
    home = problem.home[moved]
    rise = problem.node_load(placement)[home] + problem.load[moved] - problem.share[home]
    use = problem.node_usage(placement)[home] + problem.usage[moved]
    fits = (rise <= problem.most_distance) & (use <= problem.headroom[home]).all(axis=1)
    moved, result = moved[fits], placement.copy()
    for k in moved[np.argsort(-problem.cost[moved], kind="stable")].tolist():
        result[k] = problem.home[k]
        if not problem.is_feasible(result):
            result[k] = placement[k]
    return result


def _rearrange(
    problem: BalanceProblem,
    cheapest: Callable[[], Ints],
    seed: int,
    bound: float,
    watch: Watch,
    keep: Callable[[Ints], None],
) -> None:
    """Arrange a few nodes after the other exactly, until too many in a row cost no less."""
    rng, n, failed = np.random.default_rng(seed), problem.num_nodes, 0
    for turn in itertools.count():
        cost = problem.moving_cost(cheapest())
        if cost <= bound * NEAR or failed >= FAILURES * n or watch.over():
            return
        if watch.deadline is None and turn == ROUNDS * n:
            return
        left = None if watch.deadline is None else min(SECONDS, watch.remaining())
        found = cheapen(problem, cheapest(), rng, left)
        failed = failed + 1 if found is None else 0
        if found is not None:
            keep(undone(problem, found))


def _as_given(start: Ints) -> Callable[[BalanceProblem, Ints], Ints | None]:
    return lambda limited, home: start


def _towards_goal(
    problem: BalanceProblem, seed: int, watch: Watch, partners: int, fills: bool
) -> Callable[[BalanceProblem, Ints], Ints | None]:
    def search(limited: BalanceProblem, home: Ints) -> Ints:
        goal = problem.most_distance
        aimed = GoalSearch(limited, home, seed, watch)
        aimed.attempt(goal if math.isfinite(goal) else problem.mean, partners, fills=fills)
        return aimed.placement()

    return search


def _all_searches(
    problem: BalanceProblem, seed: int, watch: Watch, tries: int
) -> Callable[[BalanceProblem, Ints], Ints | None]:
    def search(limited: BalanceProblem, home: Ints) -> Ints | None:
        free = replace(limited, max_distance=None)
        portfolio = Portfolio(free, seed, problem.most_distance * (1.0 - 1e-9), watch)
        run_portfolio(portfolio, (), tries)
        return portfolio.best

    return search
