"""Rules of the form *count of nodes*: at most so many nodes hold a task of each of some groups.

With one group of tasks it bounds the nodes that these use; with two, and a limit of 0, tasks of the
one may not share a node with tasks of the other. Engines read the counts that an instance sets by
`optim.rules.node_counts`, and know none of them by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.rules.base import (
    Form,
    Rows,
    Rule,
    all_over,
    column_limit,
    limit_rows,
    limit_words,
    number_limit,
    violation,
    without_limit,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.base import Violation
    from optim.rules.placement import Placement


class NodeCount(NamedTuple):
    """A bound on a number of nodes, as an instance sets it.

    Attributes
    ----------
    rule, entry
        The rule that it is of, and which entry of the file sets it.
    name
        What is counted, in words.
    groups
        One or two (T,) masks: a node counts that holds a task of each.
    limit
        Most nodes that may count.
    """

    rule: str
    entry: int
    name: str
    groups: tuple[Bools, ...]
    limit: int

    @property
    def of_all(self) -> bool:
        """Whether it bounds the nodes that all tasks use."""
        return len(self.groups) == 1 and bool(self.groups[0].all())

    def nodes(self, node: NDArray[Any], num_nodes: int) -> Bools:
        """(N,) which nodes count under a placement; -1 is nowhere."""
        counted = np.ones(num_nodes, dtype=np.bool_)
        for tasks in self.groups:
            held = np.zeros(num_nodes, dtype=np.bool_)
            held[node[tasks & (node >= 0)]] = True
            counted &= held
        return counted

    def by_contents(self, one: NDArray[Any], counts: NDArray[Any]) -> Bools:
        """(P,) whether nodes count that hold (P, G) tasks of groups of equal ones.

        Parameters
        ----------
        one
            (G,) a task of each group.
        """
        held = (counts @ tasks[one] > 0 for tasks in self.groups)
        return np.logical_and.reduce(list(held))


# ``max_nodes_used``: at most so many nodes hold a task; background does not count.


def _counts(instance: Instance) -> Iterator[NodeCount]:
    most = instance.limits.max_nodes_used
    if most is not None:
        yield NodeCount(
            "max_nodes_used", 0, "nodes used", (np.ones(instance.num_tasks, dtype=np.bool_),), most
        )


def _value(placement: Placement) -> Ints:
    return np.array(np.count_nonzero(placement.counts))


def _violations(placement: Placement) -> Iterator[Violation]:
    most, used = placement.instance.limits.max_nodes_used, int(_value(placement))
    if most is not None and used > most:
        yield violation("max_nodes_used", "limits", used, most)


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


_MOST_USED = number_limit("max_nodes_used", whole=True)
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
    rows=(limit_rows(_MOST_USED, _value),),
    limits=(_MOST_USED,),
    node_counts=_counts,
)


def using_at_most(instance: Instance, nodes: int) -> Instance:
    """Return the instance in which all tasks use at most so many nodes, or fewer if it says so."""
    most = instance.limits.max_nodes_used
    most = nodes if most is None else min(most, nodes)
    return instance.with_values("limits", max_nodes_used=most)


# ``topologies[].exclusive_nodes``: a topology stands on few nodes, which nobody else uses.
#
# Storm's isolation scheduler asks for it: machines for one topology alone.


_NAMED = 5


def _alone(instance: Instance) -> list[int]:
    return np.flatnonzero(instance.topologies.exclusive_nodes >= 0).tolist()


def _present(instance: Instance) -> str | None:
    for i in _alone(instance) if instance.num_tasks else ():
        return f"topologies[].exclusive_nodes (of {instance.topologies.ids[i]})"
    return None


def _exclusive_nodes_counts(instance: Instance) -> Iterator[NodeCount]:
    """Of each such topology the nodes that it uses, and those that it shares with others."""
    table, topology = instance.topologies, instance.task_topology
    for i in _alone(instance):
        own = np.asarray(topology == i)
        rule, words = "exclusive_nodes", f"{table.ids[i]}: nodes"
        yield NodeCount(rule, i, words, (own,), int(table.exclusive_nodes[i]))
        words = f"{words} shared with other tasks"
        yield NodeCount(rule, i, words, (own, ~own), int(table.shared_nodes[i]))


def _exclusive_nodes_violations(placement: Placement) -> Iterator[Violation]:
    instance = placement.instance
    for count in _exclusive_nodes_counts(instance):
        found = np.flatnonzero(count.nodes(placement.node, instance.num_nodes))
        if len(found) > count.limit:
            names = [instance.nodes.ids[n] for n in found[:_NAMED].tolist()]
            more = ", …" if len(found) > _NAMED else ""
            where = f"{count.name} (on {', '.join(names)}{more})"
            yield violation("exclusive_nodes", where, len(found), count.limit)


def _exclusive_nodes_value(placement: Placement) -> Floats:
    """(P, 2) nodes that each such topology uses, and nodes that it shares."""
    instance = placement.instance
    found = np.zeros((len(instance.topologies.ids), 2))
    used = [
        c.nodes(placement.node, instance.num_nodes).sum() for c in _exclusive_nodes_counts(instance)
    ]
    found[_alone(instance)] = np.reshape(used, (-1, 2))
    return found


def _exclusive_nodes_limit(instance: Instance) -> Floats:
    table = instance.topologies
    limits = np.column_stack([table.exclusive_nodes, table.shared_nodes]).astype(np.float64)
    return np.where(table.exclusive_nodes[:, None] >= 0, limits, np.inf)


def _exclusive_nodes_loosened(
    instance: Instance, mask: Bools, value: Any, _: Placement | None
) -> Instance:
    table = instance.topologies
    nodes, shared = (
        np.where(mask[:, k], np.asarray(value)[:, k], column).astype(np.int32)
        for k, column in enumerate((table.exclusive_nodes, table.shared_nodes))
    )
    return instance.with_values("topologies", exclusive_nodes=nodes, shared_nodes=shared)


def _exclusive_nodes_proofs(instance: Instance) -> Iterator[Violation]:
    """More topologies than nodes, or one with more load than so many nodes have room for."""
    table, nodes, topology = instance.topologies, instance.nodes, instance.task_topology
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


def _rise(instance: Instance, loose: Instance) -> Ints:
    """Of both counts of a topology the greater one is paid: the bound is the lower."""
    now, then = instance.topologies, loose.topologies
    return np.maximum(
        then.exclusive_nodes - now.exclusive_nodes, then.shared_nodes - now.shared_nodes
    )


def _task_key(instance: Instance) -> Ints:
    topology = instance.task_topology
    return np.where(np.isin(topology, _alone(instance)), topology, -1)


EXCLUSIVE_NODES = Rule(
    name="exclusive_nodes",
    field="topologies[].exclusive_nodes",
    form=Form.NODE_COUNT,
    present=_present,
    dropped=all_over("topologies", exclusive_nodes=-1),
    violations=_exclusive_nodes_violations,
    proofs=_exclusive_nodes_proofs,
    mended=True,
    task_key=_task_key,
    rows=(
        Rows(_exclusive_nodes_value, _exclusive_nodes_limit, _exclusive_nodes_loosened, whole=True),
    ),
    limits=(
        column_limit(
            "topologies",
            "exclusive_nodes",
            lambda of: of.exclusive_nodes >= 0,
            -1,
            whole=True,
            rise=_rise,
        ),
    ),
    node_counts=_exclusive_nodes_counts,
)
