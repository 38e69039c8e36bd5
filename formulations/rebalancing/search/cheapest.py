"""The cheapest moves that keep a load distance: goals met within ever smaller budgets of cost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from formulations.rebalancing.bounds.copies import without_switches
from formulations.rebalancing.bounds.touch import Needs
from formulations.rebalancing.search.goals import GoalSearch
from formulations.rebalancing.search.portfolio import Portfolio, run_portfolio, start_at_home

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.rebalancing.problem import BalanceProblem, Ints
    from formulations.rebalancing.search.watch import Watch

#: Budgets that are tried for a goal, and with all searches; how near to the bound the last one is.
ATTEMPTS, LAST, NEAR = 7, 2, 1.01
#: Beyond this multiple of the bound, up to so many key groups, all searches are asked for less.
FAR, MOST = 1.1, 20_000
#: Turns with other random partners, where there are no more key groups than `MOST`.
TURNS = 4
#: Nodes that are looked at for an exchange.
PARTNERS = (12, 48)

_STRIDE = 1_000


def cost_bound(problem: BalanceProblem) -> float:
    """Return what the moves of every plan within the greatest load distance cost at least.

    Key groups that may not stay, and what nodes outside the distance have to lose and to gain
    (``docs/proofs/touch-bound.md``, step 4).
    """
    alike = without_switches(problem)
    forced = float(alike.least_cost[alike.must_move].sum()) * (1.0 - 1e-9)
    if problem.max_distance is None or not problem.num_tasks:
        return forced
    needs = Needs(alike)
    return max(forced, needs.least_cost(*needs.outside(problem.most_distance)))


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
        As in `formulations.rebalancing.search.portfolio.Portfolio`.
    starts
        Placements to begin with.
    bound
        Proven: no plan costs less.
    take
        Called with each plan that is cheaper than those before, and its cost.
    """
    best = reached = math.inf  # in all turns, and in this one: each goes its own way down

    def within(budget: float, search: Callable[[BalanceProblem, Ints], Ints | None]) -> bool:
        """Whether a search finds a plan within a budget; one that is cheaper is taken."""
        nonlocal best, reached
        limited = replace(problem, max_cost=budget)
        found = search(limited, start_at_home(limited, seed))
        if found is None or not limited.is_feasible(found):
            return False
        cost = problem.moving_cost(found)
        reached = min(reached, cost)
        if cost < best:
            best = cost
            take(found, best)
        return True

    def bisect(search: Callable[[BalanceProblem, Ints], Ints | None], attempts: int) -> None:
        low, high = bound, min(problem.most_cost, reached)
        for attempt in range(attempts):
            if high <= low * NEAR or watch.over():
                return
            budget = high if math.isinf(reached) else 0.5 * (low + high)
            if within(budget, search):
                high = reached
            elif attempt == 0 and math.isinf(reached):
                return
            else:
                low = budget

    for start in (problem.home, *starts):
        within(problem.most_cost, _as_given(start))
    within(problem.most_cost, lambda limited, home: home)
    small = problem.num_tasks <= MOST
    for turn in range(TURNS if small else 1):
        if best <= bound * NEAR or watch.over():
            return
        drawn = seed + turn * _STRIDE
        reached = reached if turn == 0 else math.inf
        for pours in (False, True):
            for partners in PARTNERS:
                bisect(_towards_goal(problem, drawn, watch, partners, pours), ATTEMPTS)
        if math.isinf(best) or (best > FAR * bound and small):
            bisect(_all_searches(problem, drawn, watch, 10 if math.isinf(best) else 1), LAST)


def _as_given(start: Ints) -> Callable[[BalanceProblem, Ints], Ints | None]:
    return lambda limited, home: start


def _towards_goal(
    problem: BalanceProblem, seed: int, watch: Watch, partners: int, pours: bool
) -> Callable[[BalanceProblem, Ints], Ints | None]:
    def search(limited: BalanceProblem, home: Ints) -> Ints:
        goal = problem.most_distance
        aimed = GoalSearch(limited, home, seed, watch)
        aimed.attempt(goal if math.isfinite(goal) else problem.mean, partners, pours=pours)
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
