"""``max_inflow``: at most so many tasks move their state onto a node.

On all nodes by ``limits.max_inflow``, on one by ``nodes[].max_inflow``; the less binds. A task that
has no current node yet does not count, nor does one that switches to a copy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.rules.base import Form, Rule, by_home, known_as_home, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation


def most_inflow(instance: Instance) -> Ints:
    """(N,) most tasks that may move onto each node; the number of all tasks where none is set."""
    most, own = instance.limits.max_inflow, instance.nodes.max_inflow
    every = instance.num_tasks if most is None else min(most, instance.num_tasks)
    return np.where(own >= 0, np.minimum(own, every), every).astype(np.int32)


def _present(instance: Instance) -> str | None:
    if instance.limits.max_inflow is not None:
        return f"limits.max_inflow = {instance.limits.max_inflow}"
    set_on = np.flatnonzero(instance.nodes.max_inflow >= 0)
    return f"nodes[].max_inflow (of {instance.nodes.ids[set_on[0]]})" if len(set_on) else None


def _dropped(instance: Instance) -> Instance:
    nodes = instance.nodes
    free = replace(nodes, max_inflow=np.full_like(nodes.max_inflow, -1))
    return replace(instance, nodes=free, limits=replace(instance.limits, max_inflow=None))


def _violations(placement: Placement) -> Iterator[Violation]:
    instance = placement.instance
    if _present(instance) is None:
        return
    most = most_inflow(instance)
    inflow = np.bincount(placement.node[placement.migrated], minlength=instance.num_nodes)
    for n in np.flatnonzero(inflow > most):
        yield violation("max_inflow", instance.nodes.ids[n], inflow[n], most[n])


def _node_key(instance: Instance) -> Ints:
    return np.column_stack([most_inflow(instance), known_as_home(instance)])


MAX_INFLOW = Rule(
    name="max_inflow",
    field="limits.max_inflow",
    form=Form.INFLOW,
    present=_present,
    dropped=_dropped,
    violations=_violations,
    varies=True,
    mended=True,
    task_key=by_home,
    node_key=_node_key,
    inflow=lambda instance: None if _present(instance) is None else most_inflow(instance),
)
