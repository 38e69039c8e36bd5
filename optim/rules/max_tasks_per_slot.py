"""``max_tasks_per_slot``: a slot holds at most so many tasks (judged with the slots)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.rules.base import Form, Rule, limit_words, violation, without_limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.rules.violation import Violation


def _proofs(instance: Instance) -> Iterator[Violation]:
    """More tasks than all slots may hold."""
    limit = instance.limits.max_tasks_per_slot
    if limit is None or (instance.nodes.slots < 0).any():
        return
    room = float(instance.nodes.slots.sum()) * limit
    if np.isfinite(room) and instance.num_tasks > room:
        yield violation("max_tasks_per_slot", "all slots", instance.num_tasks, room)


def _node_key(instance: Instance) -> Ints:
    return instance.nodes.slots


MAX_TASKS_PER_SLOT = Rule(
    name="max_tasks_per_slot",
    field="limits.max_tasks_per_slot",
    form=Form.SLOT_COUNT,
    present=limit_words("max_tasks_per_slot"),
    dropped=without_limit("max_tasks_per_slot"),
    violations=lambda placement: (),
    proofs=_proofs,
    varies=True,
    node_key=_node_key,
)
