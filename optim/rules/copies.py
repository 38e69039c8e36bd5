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
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optim.format.instance import Instance


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


def copies_rule(counting: Sequence[Rule]) -> Rule:
    """Return the rule, given those for which it matters whether a task moves."""

    def present(instance: Instance) -> str | None:
        table = instance.tasks
        settled = table.copied[table.node[table.copied] >= 0]
        counted = any(rule.present(instance) is not None for rule in counting)
        return f"tasks[].copies (of {table.ids[settled[0]]})" if counted and len(settled) else None

    return Rule(
        name="copies",
        field="tasks[].copies",
        form=Form.FREE_MOVES,
        present=present,
        dropped=_dropped,
        violations=lambda placement: (),
        task_key=_task_key,
        node_key=_node_key,
    )
