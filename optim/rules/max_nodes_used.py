"""``max_nodes_used``: at most so many nodes hold a task; background does not count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.rules.base import Form, Rows, Rule, limit_words, violation, without_limit
from optim.rules.node_count import NodeCount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation


def _counts(instance: Instance) -> Iterator[NodeCount]:
    most = instance.limits.max_nodes_used
    if most is not None:
        yield NodeCount(
            "max_nodes_used", 0, "nodes used", (np.ones(instance.num_tasks, dtype=np.bool_),), most
        )


def _value(placement: Placement) -> Ints:
    return np.array(np.count_nonzero(placement.counts))


def _limit(instance: Instance) -> Floats:
    most = instance.limits.max_nodes_used
    return np.array(np.inf if most is None else most)


def _violations(placement: Placement) -> Iterator[Violation]:
    most, used = placement.instance.limits.max_nodes_used, int(_value(placement))
    if most is not None and used > most:
        yield violation("max_nodes_used", "limits", used, most)


def _loosened(instance: Instance, mask: Bools, value: Any, _: Placement | None) -> Instance:
    return replace(instance, limits=replace(instance.limits, max_nodes_used=int(value)))


def _proofs(instance: Instance) -> Iterator[Violation]:
    """More load, or more tasks, than so many nodes have room for."""
    most, nodes = instance.limits.max_nodes_used, instance.nodes
    if most is None:
        return
    room = nodes.capacity * instance.limits.max_utilisation - nodes.background
    count = np.where(nodes.max_tasks >= 0, nodes.max_tasks, np.inf)
    rooms = np.column_stack([np.maximum(room, 0.0), count])
    largest = np.sort(rooms, axis=0)[::-1][:most].sum(axis=0)
    needed = np.append(instance.tasks.load.sum(axis=0), instance.num_tasks)
    for r in np.flatnonzero(needed > largest * (1 + 1e-6)).tolist():
        what = (*instance.resources, "tasks")[r]
        yield violation(
            "max_nodes_used", f"the {most} largest nodes: {what}", needed[r], largest[r]
        )


MAX_NODES_USED = Rule(
    name="max_nodes_used",
    field="limits.max_nodes_used",
    form=Form.NODE_COUNT,
    present=limit_words("max_nodes_used"),
    dropped=without_limit("max_nodes_used"),
    violations=_violations,
    proofs=_proofs,
    mended=True,
    varies=True,
    rows=(Rows(_value, _limit, _loosened, whole=True),),
    node_counts=_counts,
)
