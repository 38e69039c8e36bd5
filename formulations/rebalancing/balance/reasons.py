"""Why no placement of a rebalancing problem can exist: what must move, and what may."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.figures.measures import node_loads
from optim.referee.evaluate import evaluate_indices
from optim.rules.violation import Violation
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Floats
    from optim.format.instance import Instance

_SHOWN = 20
_NAMED = 3


def impossible(instance: Instance, problem: BalanceProblem) -> list[Violation]:
    """Return reasons why no placement can exist that need no solver; empty says nothing."""
    forced = np.flatnonzero(problem.must_move)
    reasons = []
    for task in forced.tolist():
        if not problem.may_be_rows(np.array([task])).any():
            where = f"{instance.tasks.ids[task]} may neither stay nor go anywhere"
            reasons.append(Violation("allowed", where, 1.0, 1.0, 0.0))
    count, cost, where = _least_moving(instance, problem)
    if problem.max_moves is not None and count > problem.max_moves:
        most = float(problem.max_moves)
        reasons.append(Violation("max_migrations", where, count - most, count, most))
    if problem.max_cost is not None and cost > problem.most_cost:
        most = problem.max_cost
        reasons.append(Violation("max_migration_cost", where, cost - most, cost, most))
    return reasons[:_SHOWN]


def why_none(instance: Instance, problem: BalanceProblem) -> tuple[Violation, ...]:
    """Return what the current placement breaks, where it is proven that none mends it all."""
    if not instance.has_current:
        return ()
    broken = evaluate_indices(instance, instance.tasks.node).violations[:_SHOWN]
    return tuple(
        Violation(v.rule, f"{v.where} (as it is now)", v.amount, v.needed, v.available)
        for v in broken
    )


def none_within(problem: BalanceProblem) -> str:
    """Say that no placement exists, and what limit to drop to learn which one it hangs on."""
    budgets = {"max_migrations": problem.max_moves, "max_migration_cost": problem.max_cost}
    set_ones = [f"--ignore {limit}" for limit, value in budgets.items() if value is not None]
    note = "no placement within the budget keeps every limit" if set_ones else ""
    note = note or "no placement keeps every limit"
    if set_ones:
        note += f"; {' '.join(set_ones)} tells what it takes without"
    if problem.has_leaving and not problem.into_leaving:
        note += "; --ignore leaving lets key groups move onto leaving nodes"
    return note


def not_emptied(problem: BalanceProblem) -> str:
    """Say what would help where leaving nodes cannot be emptied within the limits."""
    budgets = {"max_migrations": problem.max_moves, "max_migration_cost": problem.max_cost}
    drops = [f"--ignore {limit}" for limit, value in budgets.items() if value is not None]
    more = f"; {' or '.join(drops)} tells what it takes" if drops else ""
    return (
        "no plan that empties the leaving nodes: --option drain=first empties them as far as the "
        f"limits allow{more}"
    )


def still_there(instance: Instance, problem: BalanceProblem) -> list[Violation]:
    """Name the leaving nodes with the key groups that would have to go and, together, cannot."""
    there = problem.home[problem.leaving[problem.home]]
    counts = np.bincount(there, minlength=problem.num_nodes)
    return [
        Violation("leaving", f"{instance.nodes.ids[n]}: key groups to take off", c, c, 0.0)
        for n, c in enumerate(counts.astype(float).tolist())
        if c > 0
    ][:_SHOWN]


def _least_moving(instance: Instance, problem: BalanceProblem) -> tuple[float, float, str]:
    """Return how many key groups must move at least, at what cost at least, and off what.

    They may not stay where they are, or must leave a node for its capacity: what comes in makes
    room for nothing, so each node is counted alone.
    """
    home, forced = problem.home, problem.must_move
    counts, costs = np.zeros(instance.num_nodes), np.zeros(instance.num_nodes)
    np.add.at(counts, home[forced], ~problem.has_copy[forced] * 1.0)
    np.add.at(costs, home[forced], problem.least_cost[forced])
    bound = instance.nodes.capacity * instance.limits.max_utilisation
    # the tolerance twice: once the referee's own, once for sums over many key groups
    over = node_loads(instance, instance.tasks.node) - bound - 2 * slack(bound)
    by_node = np.argsort(home, kind="stable")
    starts = np.searchsorted(home[by_node], np.arange(instance.num_nodes + 1))
    full = []
    for node, resource in np.argwhere(over > 0).tolist():
        here = by_node[starts[node] : starts[node + 1]]
        load, much = instance.tasks.load[here, resource], float(over[node, resource])
        if load.sum() < much:
            continue  # its background alone is too much: that is told elsewhere
        full.append(f"{instance.nodes.ids[node]}.{instance.resources[resource]}")
        if not problem.has_copy[here].any():
            counts[node] = max(counts[node], _fewest(load, much))
        costs[node] = max(costs[node], _cheapest(load, problem.least_cost[here], much))
    parts = ["key groups that may not stay"] if forced.any() else []
    if full:
        more = ", …" if len(full) > _NAMED else ""
        parts.append(f"moves at least, to relieve {', '.join(full[:_NAMED])}{more}")
    return float(counts.sum()), float(costs.sum()), "; ".join(parts)


def _fewest(load: Floats, much: float) -> int:
    """Return how many key groups it takes at least to be rid of that much load."""
    taken = np.cumsum(np.sort(load)[::-1])
    return int(np.searchsorted(taken, much * (1 - 1e-9))) + 1


def _cheapest(load: Floats, cost: Floats, much: float) -> float:
    """Return a least cost of being rid of that much load: the cheapest first, the last in part."""
    some = load > 0
    load, cost = load[some], cost[some]
    order = np.argsort(cost / load, kind="stable")
    taken = np.cumsum(load[order])
    before = taken - load[order]
    part = np.clip((much * (1 - 1e-9) - before) / load[order], 0.0, 1.0)
    return float(part @ cost[order])
