"""How much traffic a budget of moves can collocate at most: no solver, no loads.

A pair that is apart comes together only if one of its key groups moves. So the traffic collocated
in the end is at most what is collocated now and the pairs apart that the moved key groups have.
Each pair whose key groups have no other partner is one item (it costs at least one move); every
other key group is one item with all its pairs apart, of which a pair may be counted twice. The best
items the budget can pay are then an upper bound: by count the largest ones, by cost a fractional
knapsack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.local_search.balance_problem import tolerated

if TYPE_CHECKING:
    from optim.local_search.balance_problem import Floats
    from optim.local_search.joint_problem import JointProblem

#: Sums in another order may differ by this much, relative.
ROUNDING = 1e-12


def collocation_bound(problem: JointProblem) -> float:
    """Return traffic that no placement within the budgets of `problem` can exceed.

    Capacities, allowed sets and the load distance are not read, which only weakens the bound.
    """
    balance = problem.balance
    now = float(problem.rate[~problem.apart].sum())
    worth, cost = _items(problem)
    best = float(worth.sum())
    if balance.max_moves is not None:
        best = min(best, float(np.sort(worth)[::-1][: balance.max_moves].sum()))
    if balance.max_cost is not None:
        budget = balance.max_cost + float(tolerated(balance.max_cost))
        best = min(best, _knapsack(worth, cost, budget))
    return min(now + best, problem.total) * (1.0 + ROUNDING)


def _items(problem: JointProblem) -> tuple[Floats, Floats]:
    """Return worth and least cost of each item."""
    apart = problem.apart
    u, v, rate = problem.source[apart], problem.target[apart], problem.rate[apart]
    alone = (problem.degree[u] == 1) & (problem.degree[v] == 1)
    cost = problem.balance.cost
    many = np.bincount(
        np.concatenate([u[~alone], v[~alone]]),
        np.concatenate([rate[~alone], rate[~alone]]),
        problem.balance.num_tasks,
    )
    some = np.flatnonzero(many > 0)
    worth = np.concatenate([rate[alone], many[some]])
    return worth, np.concatenate([np.minimum(cost[u], cost[v])[alone], cost[some]])


def _knapsack(worth: Floats, cost: Floats, budget: float) -> float:
    """Return the most worth for a budget when items may be taken in part."""
    free = float(worth[cost <= 0].sum())
    worth, cost = worth[cost > 0], cost[cost > 0]
    order = np.argsort(-worth / cost, kind="stable")
    worth, cost = worth[order], cost[order]
    taken = np.clip((budget - (np.cumsum(cost) - cost)) / cost, 0.0, 1.0)
    return free + float((taken * worth).sum())
