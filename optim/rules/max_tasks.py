"""``max_tasks``: a node holds at most so many tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.rules.base import Form, Rows, Rule, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation


def _present(instance: Instance) -> str | None:
    set_on = np.flatnonzero(instance.nodes.max_tasks >= 0)
    return f"nodes[].max_tasks (of {instance.nodes.ids[set_on[0]]})" if len(set_on) else None


def _dropped(instance: Instance) -> Instance:
    nodes = instance.nodes
    return replace(instance, nodes=replace(nodes, max_tasks=np.full_like(nodes.max_tasks, -1)))


def _violations(placement: Placement) -> Iterator[Violation]:
    instance, most = placement.instance, placement.instance.nodes.max_tasks
    if (most < 0).all():
        return
    counts = placement.counts
    for n in np.flatnonzero((most >= 0) & (counts > most)):
        yield violation("max_tasks", instance.nodes.ids[n], counts[n], most[n])


def _most(instance: Instance) -> Floats:
    most = instance.nodes.max_tasks
    return np.where(most >= 0, most, np.inf)


def _loosened(
    instance: Instance, mask: Bools, value: Floats, placement: Placement | None
) -> Instance:
    nodes = instance.nodes
    most = np.where(mask, value, nodes.max_tasks).astype(nodes.max_tasks.dtype)
    return replace(instance, nodes=replace(nodes, max_tasks=most))


def _proofs(instance: Instance) -> Iterator[Violation]:
    most = instance.nodes.max_tasks
    if (most >= 0).all() and instance.num_tasks > most.sum():
        yield violation("max_tasks", "all nodes", instance.num_tasks, most.sum())


def _node_key(instance: Instance) -> Ints:
    return instance.nodes.max_tasks


MAX_TASKS = Rule(
    name="max_tasks",
    field="nodes[].max_tasks",
    form=Form.TASK_COUNT,
    present=_present,
    dropped=_dropped,
    violations=_violations,
    proofs=_proofs,
    mended=True,
    node_key=_node_key,
    rows=(Rows(lambda placement: placement.counts, _most, _loosened, plain=True, whole=True),),
)
