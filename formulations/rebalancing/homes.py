"""Tasks without a current node: each is given one from which every move is free.

Rebalancing models, searches and bounds count from where tasks are. A task that is nowhere may start
anywhere and costs no migration, which is the same as a task whose state every node holds
(`tasks[].copies`). So nothing else has to know of such tasks, and bounds hold for them too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.rebalancing.list_schedule import ListScheduler

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Ints


def with_homes(instance: Instance) -> Instance:
    """Return the instance in which every task has a current node; itself where all have one.

    Nodes are given by a list schedule on top of what is placed already.
    """
    tasks = instance.tasks
    unplaced = np.flatnonzero(tasks.node < 0)
    if not len(unplaced) or not instance.num_nodes:
        return instance
    node = _listed(instance, unplaced)
    if not counts_moves(instance):
        return replace(instance, tasks=replace(tasks, node=node))
    copies = {task: sorted(nodes) for task, nodes in instance.copy_nodes.items()}
    copies |= {task: list(range(instance.num_nodes)) for task in unplaced.tolist()}
    copied = sorted(copies)
    rows = [copies[task] for task in copied]
    housed = replace(
        tasks,
        node=node,
        copied=np.array(copied, dtype=np.int32),
        copies_indptr=np.cumsum([0, *map(len, rows)]).astype(np.int32),
        copies_indices=np.concatenate(rows).astype(np.int32),
    )
    return replace(instance, tasks=housed)


def counts_moves(instance: Instance) -> bool:
    """Whether any limit counts moves or what they cost."""
    limits = instance.limits
    budgets = (limits.max_migrations, limits.max_migration_cost, limits.max_inflow)
    some = any(limit is not None for limit in budgets)
    return some or bool((instance.nodes.max_inflow >= 0).any())


def _listed(instance: Instance, unplaced: Any) -> Ints:
    """(T,) current nodes, and for tasks without one where a list schedule puts them.

    Those that fit on no node are put where they are allowed, whatever fits.
    """
    node = instance.tasks.node.copy()
    parts = [np.array([task], dtype=np.int64) for task in unplaced.tolist()]
    node[unplaced] = ListScheduler(instance, node).place(parts, instance.tasks.load[unplaced])
    for task in np.flatnonzero(node < 0).tolist():
        allowed = instance.allowed_mask(task)
        best = allowed & instance.open_nodes if instance.has_open_node[task] else allowed
        node[task] = int(best.argmax())
    return node
