"""``max_workers_restarted``: at most so many slots hold other tasks than now.

A worker, the process in a slot of a node, restarts whole where its set of tasks changes: one that
is emptied and one that is new count like one that is changed. Slots differ by their numbers
(`tasks[].slot`). Where no task is anywhere yet, nothing restarts.

The rule binds whether or not a plan decides slots: where it does not, some assignment of each
node's tasks to its slots has to keep it with all other rules of slots
(`optim.rules.slot_assignment`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.figures.measures import unknown_slots, workers_restarted
from optim.rules.base import Form, Rule, known_as_home, limit_words, violation, without_limit
from optim.rules.budget import forced_moves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation

NAME = "max_workers_restarted"


def _violations(placement: Placement) -> Iterator[Violation]:
    instance = placement.instance
    most = instance.limits.max_workers_restarted
    if most is None:
        return
    unknown = len(unknown_slots(instance))
    if unknown:
        yield violation(NAME, "tasks whose slot now is unknown", unknown, 0)
    elif placement.slot is None:
        if placement.slot_assignment.slot is None:
            yield from (v for v in placement.slot_assignment.shortage if v.rule == NAME)
    else:
        restarted = workers_restarted(instance, placement.node, placement.slot)
        if restarted is not None and restarted > most:
            yield violation(NAME, "limits", restarted, most)


def _proofs(instance: Instance) -> Iterator[Violation]:
    """Slots of tasks that may not stay change, and one at least where a task is nowhere yet."""
    most, tasks = instance.limits.max_workers_restarted, instance.tasks
    if most is None or not (tasks.node >= 0).any() or len(unknown_slots(instance)):
        return
    leave = forced_moves(instance, with_copies=False)
    slots = len(np.unique(np.column_stack([tasks.node[leave], tasks.slot[leave]]), axis=0))
    least = max(slots, int((tasks.node < 0).any()))
    if least > most:
        yield violation(NAME, "slots of tasks that may not stay", least, most)


def _task_key(instance: Instance) -> Ints:
    return np.column_stack([instance.tasks.node, instance.tasks.slot])


MAX_WORKERS_RESTARTED = Rule(
    name=NAME,
    field=f"limits.{NAME}",
    form=Form.RESTARTS,
    present=limit_words(NAME),
    dropped=without_limit(NAME),
    violations=_violations,
    proofs=_proofs,
    varies=True,
    task_key=_task_key,
    node_key=known_as_home,
    restarts=lambda instance: instance.limits.max_workers_restarted,
)
