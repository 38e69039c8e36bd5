"""Numbers that no row can hold, written so that engines need no tolerance to see that.

Solvers and running sums keep tolerances of the size of the numbers that they see. A load of 9e11
beside a node of 500, or a cost of 1e12 beside a budget of 1, would make that row a matter of
rounding. So a task that is by orders of magnitude too large for a node is not allowed there, and a
cost far above the budget, which can never be paid, is written as twice the budget.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.rules.capacity import proof_slack

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Floats

_FAR = 1e3
"""Times what a row has available, from which a number is an outlier."""
_TINY = 1e-2
"""What is available below this, beside a mean load of 10 to 100, is a matter of tolerances."""
_MOST = 20_000_000
"""Tasks × rows that are looked at; beyond, the instance is taken as it is."""


def with_bounded_costs(instance: Instance) -> Instance:
    """Return the instance with costs that cannot be paid, or need not be, no longer outliers."""
    tasks, limit = instance.tasks, instance.limits.max_migration_cost
    cost, placed = tasks.migration_cost, tasks.node >= 0
    if not placed.any():
        return instance
    payable = placed if limit is None else placed & (cost <= max(_FAR * limit, 0.0))
    most = float(cost[payable].max(initial=0.0))
    if limit is None:
        changed = np.where(placed, cost, np.minimum(cost, most))
    else:
        beyond = 2 * limit if limit > 0 else 1.0
        far = placed & (cost > _FAR * limit)
        changed = np.where(far, beyond, np.where(placed, cost, np.minimum(cost, most)))
    if np.array_equal(changed, cost):
        return instance
    return replace(instance, tasks=replace(tasks, given_cost=changed))


def without_misfits(instance: Instance, binding: Instance) -> Instance:
    """Return the instance where outliers of load are not allowed on the nodes that they exceed.

    Parameters
    ----------
    instance
        In units in which the mean load of a node is in [10, 100).
    binding
        The same with only the limits that bind.
    """
    room, load = _rooms(binding), instance.tasks.load
    with np.errstate(invalid="ignore"):
        wide = (load.max(axis=0, initial=0.0) > _FAR * room) | (room < _TINY)
    rows = np.argwhere(wide & np.isfinite(room))
    if not len(rows) or len(rows) * instance.num_tasks > _MOST:
        return instance
    lost: dict[int, list[int]] = {}
    for n, r in rows.tolist():
        own, most = load[:, r], room[n, r]
        misfit = (own > most) & ((own < _TINY) | ((most > 0) & (own > _FAR * most)))
        for task in np.flatnonzero(misfit).tolist():
            lost.setdefault(task, []).append(n)
    return _narrowed(instance, lost)


def _rooms(instance: Instance) -> Floats:
    """(N, R) the most that a single task may bring to each node."""
    nodes, limit = instance.nodes, instance.limits.max_load_distance
    bound = nodes.capacity * instance.limits.max_utilisation
    room = instance.headroom + proof_slack(bound)
    room = np.minimum(room, nodes.slot_capacity + proof_slack(nodes.slot_capacity))
    if limit is not None and instance.mean_load is not None and not instance.crossing_cost.any():
        far = instance.due + limit
        room[:, 0] = np.minimum(room[:, 0], far + proof_slack(far) - nodes.background[:, 0])
    return np.asarray(room)


def _narrowed(instance: Instance, lost: dict[int, list[int]]) -> Instance:
    """Take nodes off the lists of tasks; a task that would have none to go to keeps its list."""
    tasks, indptr = instance.tasks, instance.tasks.allowed_indptr
    lists = {
        task: tasks.allowed_indices[indptr[row] : indptr[row + 1]]
        for row, task in enumerate(tasks.restricted.tolist())
    }
    changed = False
    for task, nodes in lost.items():
        mask = instance.allowed_mask(task)
        mask[nodes] = False
        if (mask & instance.open_nodes).any():
            lists[task] = np.flatnonzero(mask).astype(np.int32)
            changed = True
    if not changed:
        return instance
    order = sorted(lists)
    rows = [lists[task] for task in order]
    tasks = replace(
        tasks,
        restricted=np.array(order, dtype=np.int32),
        allowed_indptr=np.cumsum([0, *map(len, rows)]).astype(np.int32),
        allowed_indices=np.concatenate(rows).astype(np.int32),
    )
    return replace(instance, tasks=tasks)
