"""The placed tasks by node and topology, and what is short there whatever shares a slot."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optim.rules.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints

Numbers = NDArray[np.int64]
ROUNDING = 1e-12
"""What sums in another order may differ by, relative: no bound is proven by less."""
_NAMED = 20


def short(rule: str, where: str, needed: float, available: float) -> Violation:
    """More is needed than there is."""
    needed, available = float(needed), float(available)
    return Violation(rule, where, abs(needed - available), needed, available)


class Groups:
    """Tasks of one topology on one node, G groups, by node and topology.

    Attributes
    ----------
    order, start
        M placed tasks, group by group, and (G + 1,) where each group begins.
    node, topology, count
        (G,) of each group, topology -1 for none, and its number of tasks.
    group
        (M,) group of each of `order`.
    loads, limit, capacity, names
        (T, D), (N, D) with and without slack, and D names of what is bounded in slots: resources
        (as ``.cpu``), and the number of tasks (as an empty name), of which each task takes 1.
    slots
        (N,) how many may be used: no more than there are tasks, which is as many as one likes.
    wanted
        (P + 1,) slots that a topology fills, -1 where it is free; the last is of no topology.
    counted
        (G,) groups whose topology has a number of slots to fill.
    tight
        (G,) groups of nodes with fewer slots than tasks.
    joins
        (G,) groups without topology that may have to join slots of others.
    """

    def __init__(self, instance: Instance, node: Ints, slack: Floats) -> None:
        self.instance, nodes = instance, instance.nodes
        bounded = np.flatnonzero(np.isfinite(nodes.slot_capacity).any(axis=0))
        self.names = [f".{instance.resources[r]}" for r in bounded]
        self.loads = instance.tasks.load[:, bounded]
        self.capacity = nodes.slot_capacity[:, bounded]
        self.limit = (nodes.slot_capacity + slack)[:, bounded]
        most = instance.limits.max_tasks_per_slot
        if most is not None:
            each = np.full(len(nodes.ids), float(most))
            self.names.append("")
            self.loads = np.column_stack([self.loads, np.ones(instance.num_tasks)])
            self.capacity = np.column_stack([self.capacity, each])
            self.limit = np.column_stack([self.limit, each])
        operator = instance.tasks.operator
        topology = np.full(instance.num_tasks, -1, dtype=np.int64)
        topology[operator >= 0] = instance.operators.topology[operator[operator >= 0]]
        workers = instance.topologies.workers
        executors = np.bincount(topology + 1, minlength=len(workers) + 1)[1:]
        wanted = np.where((workers < 0) | (executors == 0), -1, np.minimum(workers, executors))
        self.wanted = np.append(wanted, -1)
        self._group(node, topology)

    def _group(self, node: Ints, topology: Numbers) -> None:
        placed = np.flatnonzero(node >= 0)
        key = node[placed].astype(np.int64) * len(self.wanted) + topology[placed] + 1
        by_key = np.argsort(key, kind="stable")
        self.order, key = placed[by_key], key[by_key]
        first = np.flatnonzero(np.diff(key, prepend=-1))
        at, which = node[self.order[first]], topology[self.order[first]]
        # where nothing counts the slots, a node's only topology and tasks without are one group
        pair = np.zeros(len(at), dtype=np.bool_)
        pair[:-1] = (at[1:] == at[:-1]) & (np.bincount(at, minlength=1)[at[1:]] == 2)
        alone = pair & (which < 0) & (self.wanted[np.roll(which, -1)] < 0)
        self.start = np.append(np.delete(first, np.flatnonzero(alone) + 1), len(self.order))
        self.count = np.diff(self.start)
        last = self.order[self.start[1:] - 1]  # of two merged groups, one that has a topology
        self.node, self.topology = node[last], topology[last]
        self.group = np.repeat(np.arange(len(self.count)), self.count)
        tasks = self.on_nodes(self.count)
        slots = self.instance.nodes.slots
        self.slots = np.where(slots < 0, tasks, np.minimum(slots, tasks))
        self.counted = self.wanted[self.topology] >= 0
        self.tight = (self.slots < tasks)[self.node]
        beside = self.on_nodes(np.ones_like(self.count))[self.node] > 1
        self.joins = (self.topology < 0) & beside & self.tight

    def on_nodes(self, numbers: Numbers) -> Numbers:
        """(N,) sums of (G,) numbers."""
        return np.bincount(self.node, numbers, self.instance.num_nodes).astype(np.int64)

    def of_topologies(self, numbers: Numbers) -> Numbers:
        """(P,) sums of (G,) numbers."""
        return np.bincount(self.topology + 1, numbers, len(self.wanted)).astype(np.int64)[1:]

    def node_id(self, n: int) -> str:
        """Name of a node."""
        return self.instance.nodes.ids[n]

    def topology_ids(self, topologies: Numbers) -> str:
        """Names of topologies."""
        return ", ".join(self.instance.topologies.ids[i] for i in topologies)


def at_once(groups: Groups) -> Iterator[Violation]:
    """Proofs that need no packing; an empty answer says nothing."""
    yield from _too_big(groups)
    yield from _crowded(groups)


def _too_big(groups: Groups) -> Iterator[Violation]:
    """Tasks that exceed a slot of their node alone."""
    at = groups.node[groups.group]
    lost = np.argwhere(groups.loads[groups.order] > groups.limit[at])
    for i, d in lost[:_NAMED]:
        t, n = groups.order[i], at[i]
        where = f"{groups.instance.tasks.ids[t]} on {groups.node_id(n)}{groups.names[d]}"
        yield short("slot_capacity", where, groups.loads[t, d], groups.capacity[n, d])
    if len(lost) > _NAMED:
        more = len(lost) - _NAMED
        yield short("slot_capacity", f"{more} more tasks", more, 0)


def _crowded(groups: Groups) -> Iterator[Violation]:
    """Nodes with more topologies, tasks or load than all their slots may have."""
    used, slots = np.unique(groups.node[groups.tight]), groups.slots
    for n in used[slots[used] == 0]:
        yield short("slots", groups.node_id(n), 1, 0)
    used = used[slots[used] > 0]
    kinds = groups.on_nodes((groups.topology >= 0).astype(np.int64))
    for n in used[kinds[used] > slots[used]]:
        yield short("one_topology_a_slot", groups.node_id(n), kinds[n], slots[n])
    at = groups.node[groups.group]
    for d, name in enumerate(groups.names):
        load = np.bincount(at, groups.loads[groups.order, d], minlength=len(slots))
        room = slots[used] * groups.limit[used, d] * (1 + ROUNDING)
        rule = "slot_capacity" if name else "max_tasks_per_slot"
        for n in used[load[used] > room]:
            available = slots[n] * groups.capacity[n, d]
            yield short(rule, f"{groups.node_id(n)}{name}", load[n], available)


class Spread(NamedTuple):
    """(G,) numbers of slots that meet slots and workers, or what is short."""

    slots: Numbers | None
    shortage: tuple[Violation, ...] = ()


def spread(
    groups: Groups, least: Numbers, most: Numbers, slots: Numbers, wanted: Numbers
) -> Spread:
    """Raise least numbers of slots (G,) up to `most` until every topology fills those `wanted`.

    Nodes have (N,) `slots`. The answer is exact for these numbers.
    """
    used = groups.on_nodes(least)
    over = np.flatnonzero(used > slots).tolist()
    if over:
        return Spread(
            None, tuple(short("slots", groups.node_id(n), used[n], slots[n]) for n in over)
        )
    filled, wanted = groups.of_topologies(least), wanted[:-1]
    names = groups.instance.topologies.ids
    over = np.flatnonzero((wanted >= 0) & (filled > wanted)).tolist()
    if over:
        return Spread(None, tuple(short("workers", names[i], filled[i], wanted[i]) for i in over))
    missing = np.where(wanted >= 0, wanted - filled, 0)
    given = np.zeros_like(least)
    edges = np.flatnonzero(groups.counted & (most > least) & (slots > used)[groups.node])
    given[edges], few = flow(
        missing,
        groups.topology[edges],
        groups.node[edges],
        (most - least)[edges],
        slots - used,
    )
    if len(few):
        needed, lack = wanted[few].sum(), (missing - groups.of_topologies(given))[few].sum()
        return Spread(None, (short("workers", groups.topology_ids(few), needed, needed - lack),))
    return Spread(least + given)


def flow(
    missing: Numbers, topology: Numbers, node: Numbers, most: Numbers, room: Numbers
) -> tuple[Numbers, Numbers]:
    """Give slots on nodes to topologies, never more than these miss: a largest flow.

    Parameters
    ----------
    missing, room
        (P,) what each topology wants, (N,) what each node has.
    topology, node, most
        (E,) who may take how many where.

    Returns
    -------
    tuple
        (E,) slots given; and the topologies that together get too few, none if all is given.
    """
    if not missing.any() or not len(topology):
        return np.zeros(len(topology), dtype=np.int64), np.flatnonzero(missing)
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    kinds, size = len(missing), len(missing) + len(room) + 2
    source, sink = size - 2, size - 1
    start = np.concatenate([np.full(kinds, source), topology, kinds + np.arange(len(room))])
    end = np.concatenate([np.arange(kinds), kinds + node, np.full(len(room), sink)])
    capacity = np.concatenate([missing, most, room]).astype(np.int32)
    graph = csr_array((capacity, (start, end)), shape=(size, size))
    result = maximum_flow(graph, source, sink)
    given = np.asarray(result.flow[topology, kinds + node]).astype(np.int64)
    if result.flow_value == missing.sum():
        return given, np.zeros(0, dtype=np.int64)
    left = csr_array(graph - result.flow)
    left.eliminate_zeros()
    reached = breadth_first_order(left, source, return_predecessors=False)
    return given, np.sort(reached[reached < kinds]).astype(np.int64)
