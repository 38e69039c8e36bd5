"""``topologies[].exclusive_nodes``: a topology stands on few nodes, which nobody else uses.

Storm's isolation scheduler asks for it: machines for one topology alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.rules.base import Form, Rows, Rule, violation
from optim.rules.node_count import NodeCount
from optim.rules.slots import topology_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation

_NAMED = 5


def _alone(instance: Instance) -> list[int]:
    return np.flatnonzero(instance.topologies.exclusive_nodes >= 0).tolist()


def _present(instance: Instance) -> str | None:
    for i in _alone(instance) if instance.num_tasks else ():
        return f"topologies[].exclusive_nodes (of {instance.topologies.ids[i]})"
    return None


def _dropped(instance: Instance) -> Instance:
    table = instance.topologies
    free = replace(table, exclusive_nodes=np.full_like(table.exclusive_nodes, -1))
    return replace(instance, topologies=free)


def _counts(instance: Instance) -> Iterator[NodeCount]:
    """Of each such topology the nodes that it uses, and those that it shares with others."""
    table, topology = instance.topologies, topology_of(instance)
    for i in _alone(instance):
        own = np.asarray(topology == i)
        rule, words = "exclusive_nodes", f"{table.ids[i]}: nodes"
        yield NodeCount(rule, i, words, (own,), int(table.exclusive_nodes[i]))
        words = f"{words} shared with other tasks"
        yield NodeCount(rule, i, words, (own, ~own), int(table.shared_nodes[i]))


def _violations(placement: Placement) -> Iterator[Violation]:
    instance = placement.instance
    for count in _counts(instance):
        found = np.flatnonzero(count.nodes(placement.node, instance.num_nodes))
        if len(found) > count.limit:
            names = [instance.nodes.ids[n] for n in found[:_NAMED].tolist()]
            more = ", …" if len(found) > _NAMED else ""
            where = f"{count.name} (on {', '.join(names)}{more})"
            yield violation("exclusive_nodes", where, len(found), count.limit)


def _value(placement: Placement) -> Floats:
    """(P, 2) nodes that each such topology uses, and nodes that it shares."""
    instance = placement.instance
    found = np.zeros((len(instance.topologies.ids), 2))
    used = [c.nodes(placement.node, instance.num_nodes).sum() for c in _counts(instance)]
    found[_alone(instance)] = np.reshape(used, (-1, 2))
    return found


def _limit(instance: Instance) -> Floats:
    table = instance.topologies
    limits = np.column_stack([table.exclusive_nodes, table.shared_nodes]).astype(np.float64)
    return np.where(table.exclusive_nodes[:, None] >= 0, limits, np.inf)


def _loosened(instance: Instance, mask: Bools, value: Any, _: Placement | None) -> Instance:
    table = instance.topologies
    nodes, shared = (
        np.where(mask[:, k], np.asarray(value)[:, k], column).astype(np.int32)
        for k, column in enumerate((table.exclusive_nodes, table.shared_nodes))
    )
    return replace(instance, topologies=replace(table, exclusive_nodes=nodes, shared_nodes=shared))


def _proofs(instance: Instance) -> Iterator[Violation]:
    """More topologies than nodes, or one with more load than so many nodes have room for."""
    table, nodes, topology = instance.topologies, instance.nodes, topology_of(instance)
    if table.shared_nodes.any():
        return
    alone = [i for i in _alone(instance) if (topology == i).any()]
    kinds = len(alone) + bool((~np.isin(topology, alone)).any())
    if alone and kinds > instance.num_nodes:
        yield violation("exclusive_nodes", "nodes", kinds, instance.num_nodes)
    room = nodes.capacity * instance.limits.max_utilisation - nodes.background
    for i in alone:
        load, most = instance.tasks.load[topology == i].sum(axis=0), int(table.exclusive_nodes[i])
        largest = np.sort(np.maximum(room, 0.0), axis=0)[::-1][:most].sum(axis=0)
        for r in np.flatnonzero(load > largest * (1 + 1e-6)).tolist():
            where = f"{table.ids[i]}: {most} nodes.{instance.resources[r]}"
            yield violation("exclusive_nodes", where, load[r], largest[r])


def _task_key(instance: Instance) -> Ints:
    topology = topology_of(instance)
    return np.where(np.isin(topology, _alone(instance)), topology, -1)


EXCLUSIVE_NODES = Rule(
    name="exclusive_nodes",
    field="topologies[].exclusive_nodes",
    form=Form.NODE_COUNT,
    present=_present,
    dropped=_dropped,
    violations=_violations,
    proofs=_proofs,
    mended=True,
    task_key=_task_key,
    rows=(Rows(_value, _limit, _loosened, whole=True),),
    node_counts=_counts,
)
