"""``copies``: moving a task to a node that holds its state already is no migration.

Nothing breaks this rule; a method that does not know it counts such moves, and then what it proves
is of another problem.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.rules.base import Form, Rule, labelled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance


def _present(instance: Instance) -> str | None:
    limits, table = instance.limits, instance.tasks
    counted = limits.max_migrations is not None or limits.max_migration_cost is not None
    counted |= limits.max_inflow is not None or bool((instance.nodes.max_inflow >= 0).any())
    settled = table.copied[table.node[table.copied] >= 0]
    return f"tasks[].copies (of {table.ids[settled[0]]})" if counted and len(settled) else None


def _dropped(instance: Instance) -> Instance:
    empty = np.zeros(0, dtype=np.int32)
    tasks = replace(
        instance.tasks, copied=empty, copies_indptr=np.zeros(1, np.int32), copies_indices=empty
    )
    return replace(instance, tasks=tasks)


def _task_key(instance: Instance) -> NDArray[np.int64]:
    copies = instance.copy_nodes
    return labelled(copies.get(t, frozenset()) for t in range(instance.num_tasks))


def _node_key(instance: Instance) -> NDArray[np.int64]:
    """Nodes that hold a copy are unlike all others."""
    key = np.zeros(instance.num_nodes, dtype=np.int64)
    held = np.unique(instance.tasks.copies_indices)
    key[held] = 1 + np.arange(len(held))
    return key


COPIES = Rule(
    name="copies",
    field="tasks[].copies",
    form=Form.FREE_MOVES,
    present=_present,
    dropped=_dropped,
    violations=lambda placement: (),
    task_key=_task_key,
    node_key=_node_key,
)
