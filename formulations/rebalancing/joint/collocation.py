"""How much traffic a budget of moves can collocate at most: no solver, no loads.

A pair that is apart comes together only if one of its key groups moves. So the traffic collocated
in the end is at most what is collocated now and the pairs apart that the moved key groups have.
Each pair whose key groups have no other partner is one item (it costs at least one move). Every
other key group is one item, worth at most all its pairs apart, and at most what it has with the
key groups at home on one other node (those that stay there) and half of its largest pairs with as
many others as the budget lets move besides (the other half is counted with them). The best items
the budget can pay are then an upper bound: by count the largest ones, by cost a fractional
knapsack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from formulations.rebalancing.joint.problem import JointProblem
    from formulations.rebalancing.problem import Floats, Ints

#: Sums in another order may differ by this much, relative.
ROUNDING = 1e-12


def collocation_bound(problem: JointProblem) -> float:
    """Return traffic that no placement within the budgets of `problem` can exceed.

    Capacities, allowed sets and the load distance are not read, which only weakens the bound.
    """
    balance = problem.balance
    now = float(problem.rate[~problem.apart].sum())
    worth, cost = _items(problem, most_moves(problem))
    best = float(worth.sum())
    if balance.most_moved is not None:
        best = min(best, float(np.sort(worth)[::-1][: balance.most_moved].sum()))
    if balance.max_cost is not None:
        best = min(best, _knapsack(worth, cost, balance.most_cost))
    return min(now + best, problem.total) * (1.0 + ROUNDING)


def most_moves(problem: JointProblem) -> int:
    """Return how many key groups the budgets let move at most."""
    balance = problem.balance
    most = balance.num_tasks if balance.most_moved is None else balance.most_moved
    if balance.max_cost is not None:
        cheapest = np.cumsum(np.sort(balance.least_cost))
        within = cheapest <= balance.most_cost * (1.0 + ROUNDING)
        most = min(most, int(np.count_nonzero(within)))
    return most


def _items(problem: JointProblem, most: int) -> tuple[Floats, Floats]:
    """Return worth and least cost of each item, when `most` key groups may move."""
    apart, balance = problem.apart, problem.balance
    u, v, rate = problem.source[apart], problem.target[apart], problem.rate[apart]
    alone = (problem.degree[u] == 1) & (problem.degree[v] == 1)
    cost = balance.least_cost
    task = np.concatenate([u[~alone], v[~alone]])
    home = balance.home[np.concatenate([v[~alone], u[~alone]])]
    rates = np.concatenate([rate[~alone], rate[~alone]])
    many = np.bincount(task, rates, balance.num_tasks)
    joined = _best_home(task, home, rates, balance.num_tasks)
    joined += 0.5 * largest_rates(task, rates, most - 1, balance.num_tasks)
    some = np.flatnonzero(many > 0)
    worth = np.concatenate([rate[alone], np.minimum(many, joined)[some]])
    return worth, np.concatenate([np.minimum(cost[u], cost[v])[alone], cost[some]])


def _best_home(task: Ints, home: Ints, rate: Floats, num_tasks: int) -> Floats:
    """Return (T,) the most rate that each key group has with those at home on one node."""
    best = np.zeros(num_tasks)
    if len(task) == 0:
        return best
    order = np.lexsort((home, task))
    task, home, rate = task[order], home[order], rate[order]
    begins = np.flatnonzero(np.append(True, (task[1:] != task[:-1]) | (home[1:] != home[:-1])))
    np.maximum.at(best, task[begins], np.add.reduceat(rate, begins))
    return best


def largest_rates(task: Ints, rate: Floats, number: int, num_tasks: int) -> Floats:
    """Return (T,) the sum of the `number` largest rates of each key group."""
    order = np.lexsort((-rate, task))
    task, rate = task[order], rate[order]
    counts = np.bincount(task, minlength=num_tasks)
    rank = np.arange(len(task)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = rank < number
    total: Floats = np.bincount(task[kept], rate[kept], num_tasks).astype(np.float64)
    return total


def _knapsack(worth: Floats, cost: Floats, budget: float) -> float:
    """Return the most worth for a budget when items may be taken in part."""
    free = float(worth[cost <= 0].sum())
    worth, cost = worth[cost > 0], cost[cost > 0]
    order = np.argsort(-worth / cost, kind="stable")
    worth, cost = worth[order], cost[order]
    taken = np.clip((budget - (np.cumsum(cost) - cost)) / cost, 0.0, 1.0)
    return free + float((taken * worth).sum())
