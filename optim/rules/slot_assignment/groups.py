"""The placed tasks by node and topology, and what is short there whatever shares a slot.

What sets over slots make of tasks: those to be together are one unit, sets apart are columns.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optim.figures.measures import workers_restarted
from optim.format.tables import APART, SPREAD, TOGETHER
from optim.rules.base import violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.base import Violation


Numbers = NDArray[np.int64]


class Units:
    """The tasks that a slot assignment moves as one: U units.

    `of`: (T,) unit of each task.
    `first`: (U,) its first task.
    `node`, `topology`: (U,) of each, -1 for none.
    `task_topology`: (T,) topology of each task.
    """

    def __init__(self, instance: Instance, node: Ints) -> None:
        self.instance, self.placed = instance, node >= 0
        table, topology = instance.slot_sets, instance.task_topology.astype(np.int64)
        self.of = self.first = np.arange(instance.num_tasks)
        self.node, self.topology = node, topology
        self._task_node, self.task_topology = node, topology
        joined = [self._members(i) for i in np.flatnonzero(table.rule == TOGETHER).tolist()]
        if any(len(tasks) > 1 for tasks in joined):
            self._join([tasks for tasks in joined if len(tasks) > 1])

    def _members(self, i: int) -> Numbers:
        """Return the members of a set that are somewhere."""
        tasks = self.instance.slot_sets.tasks_of(i)
        return tasks[self.placed[tasks]].astype(np.int64)

    def _join(self, joined: list[Numbers]) -> None:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        count = self.instance.num_tasks
        u, v = (np.concatenate([t[k : len(t) - 1 + k] for t in joined]) for k in (0, 1))
        graph = coo_array((np.ones(len(u)), (u, v)), shape=(count, count))
        label = connected_components(graph, directed=False)[1]
        self.first, self.of = np.unique(label, return_index=True, return_inverse=True)[1:]
        topology = np.full(len(self.first), -1, dtype=np.int64)
        np.maximum.at(topology, self.of, self.task_topology)
        self.node, self.topology = self._task_node[self.first], topology

    def sums(self, values: Floats) -> Floats:
        """(U, D) sums of (T, D) values."""
        if self.of is self.first:
            return values
        totals = np.zeros((len(self.first), values.shape[1]))
        np.add.at(totals, self.of, values)
        return totals

    def clash(self) -> Iterator[Violation]:
        """Sets that are to be together on several nodes, or of several topologies."""
        table = self.instance.slot_sets
        for i in np.flatnonzero(table.rule == TOGETHER).tolist():
            tasks = self._members(i)
            nodes, kinds = np.unique(self._task_node[tasks]), self.task_topology[tasks]
            kinds = np.unique(kinds[kinds >= 0])
            if len(nodes) > 1:
                yield violation("slot_sets", f"{table.ids[i]} together: nodes", len(nodes), 1)
            elif len(kinds) > 1:
                yield violation("slot_sets", f"{table.ids[i]} together: topologies", len(kinds), 1)
            elif len(tasks) and (kinds != self.topology[self.of[tasks[0]]]).any():
                where = f"{table.ids[i]} together, and with others: topologies"
                yield violation("slot_sets", where, 2, 1)

    def apart(self) -> Iterator[tuple[int, int, Numbers, Numbers]]:
        """Sets that no slot of a node may hold altogether: set, node, units and their members."""
        table = self.instance.slot_sets
        for i in np.flatnonzero(table.rule == APART).tolist():
            units, members = np.unique(self.of[self._members(i)], return_counts=True)
            at = self.node[units]
            per_node = np.bincount(at, members, minlength=1)
            for n in np.flatnonzero(per_node > table.limit[i]).tolist():
                yield i, n, units[at == n], members[at == n]

    def spread(self) -> Iterator[tuple[int, Numbers]]:
        """Sets that stand on fewer nodes than they are to fill slots, and their units."""
        table = self.instance.slot_sets
        for i in np.flatnonzero(table.rule == SPREAD).tolist():
            units = np.unique(self.of[self._members(i)])
            # on as many nodes as slots are wanted, any assignment spreads it
            if len(np.unique(self.node[units])) < table.limit[i]:
                yield i, units


ROUNDING = 1e-12  # What sums in another order may differ by, relative: no bound is proven by less.
_NAMED = 20
_TASKS, _MEMBERS = "tasks", "apart"


class Groups:
    """Units of one topology on one node, G groups, by node and topology.

    `units`: what is assigned: a task each, or tasks that are to be together.
    `order`, `start`: M placed units, group by group, and (G + 1,) where each group begins.
    `node`, `topology`, `count`: (G,) of each group, topology -1 for none, and its number of units.
    `group`: (M,) group of each of `order`.
    `loads`, `limit`, `capacity`, `names`: (U, D), (N, D) with and without slack, and D names of
        what is bounded in slots: resources (as ``.cpu``), the number of tasks (as ``tasks``), and
        members of a set that is to be apart (as ``apart``), on each node of another set.
    `set_at`: the set that a column of members bounds on a node.
    `slots`: (N,) how many may be used: no more than there are units, which is as many as one likes.
    `wanted`: (P + 1,) slots that a topology fills, -1 where it is free; the last is of no topology.
    `counted`: (G,) groups whose topology has a number of slots to fill.
    `tight`: (G,) groups of nodes with fewer slots than tasks.
    `joins`: (G,) groups without topology that may have to join slots of others.
    """

    def __init__(self, units: Units, slack: Floats) -> None:
        self.units, self.instance = units, units.instance
        instance, nodes = self.instance, self.instance.nodes
        bounded = np.flatnonzero(np.isfinite(nodes.slot_capacity).any(axis=0))
        self.names = [f".{instance.resources[r]}" for r in bounded]
        self.loads = instance.tasks.load[:, bounded]
        self.capacity = nodes.slot_capacity[:, bounded]
        self.limit = (nodes.slot_capacity + slack)[:, bounded]
        most = instance.limits.max_tasks_per_slot
        if most is not None:
            each = np.full(len(nodes.ids), float(most))
            self.names.append(_TASKS)
            self.loads = np.column_stack([self.loads, np.ones(instance.num_tasks)])
            self.capacity = np.column_stack([self.capacity, each])
            self.limit = np.column_stack([self.limit, each])
        self.loads = units.sums(self.loads)
        self.set_at: dict[tuple[int, int], int] = {}
        self._add_members()
        workers, topology = instance.topologies.workers, units.task_topology
        executors = np.bincount(topology + 1, minlength=len(workers) + 1)[1:]
        wanted = np.where((workers < 0) | (executors == 0), -1, np.minimum(workers, executors))
        # W workers and E executors fill min(W, E) slots (Aniello et al. 2013, 3.2.2, (2))
        self.wanted = np.append(wanted, -1)
        self._group()

    def _add_members(self) -> None:
        """Count members of sets apart in columns; sets that bind on different nodes share one."""
        last_column: dict[int, int] = {}
        cells = []
        for i, n, units, members in self.units.apart():
            at = last_column[n] = last_column.get(n, -1) + 1
            cells.append((at, n, units, members, float(self.instance.slot_sets.limit[i])))
            self.set_at[n, len(self.names) + at] = i
        if not cells:
            return
        width = 1 + max(last_column.values())
        load = np.zeros((len(self.loads), width))
        limit = np.full((self.instance.num_nodes, width), np.inf)
        for at, n, units, members, most in cells:
            load[units, at], limit[n, at] = members, most
        self.names += [_MEMBERS] * width
        self.loads = np.hstack([self.loads, load])
        self.capacity = np.hstack([self.capacity, limit])
        self.limit = np.hstack([self.limit, limit])

    def short(self, n: int, d: int, needed: float, available: float, unit: int = -1) -> Violation:
        """Name what a node, or one of its units, has too little of in one column."""
        name, where = self.names[d], self.node_id(n)
        if unit >= 0:
            where = f"{self.instance.tasks.ids[self.units.first[unit]]} on {where}"
        if name == _MEMBERS:
            set_id = self.instance.slot_sets.ids[self.set_at[n, d]]
            return violation("slot_sets", f"{set_id} apart: slots of {where}", needed, available)
        if name == _TASKS:
            return violation("max_tasks_per_slot", where, needed, available)
        return violation("slot_capacity", f"{where}{name}", needed, available)

    def _group(self) -> None:
        node, topology = self.units.node, self.units.topology
        placed = np.flatnonzero(node >= 0)
        # by node, then topology; + 1, as -1 is none
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
    too_big = np.argwhere(groups.loads[groups.order] > groups.limit[at])
    for i, d in too_big[:_NAMED]:
        t, n = groups.order[i], at[i]
        yield groups.short(n, d, groups.loads[t, d], groups.capacity[n, d], t)
    if len(too_big) > _NAMED:
        more = len(too_big) - _NAMED
        yield violation("slot_capacity", f"{more} more tasks", more, 0)


def _crowded(groups: Groups) -> Iterator[Violation]:
    """Nodes with more topologies, tasks or load than all their slots may have."""
    used, slots = np.unique(groups.node[groups.tight]), groups.slots
    for n in used[slots[used] == 0]:
        yield violation("slots", groups.node_id(n), 1, 0)
    used = used[slots[used] > 0]
    kinds = groups.on_nodes((groups.topology >= 0).astype(np.int64))
    # a slot serves one topology
    for n in used[kinds[used] > slots[used]]:
        yield violation("one_topology_a_slot", groups.node_id(n), kinds[n], slots[n])
    at = groups.node[groups.group]
    for d in range(len(groups.names)):
        load = np.bincount(at, groups.loads[groups.order, d], minlength=len(slots))
        room = slots[used] * groups.limit[used, d] * (1 + ROUNDING)
        for n in used[load[used] > room].tolist():
            yield groups.short(n, d, load[n], slots[n] * groups.capacity[n, d])


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
            None, tuple(violation("slots", groups.node_id(n), used[n], slots[n]) for n in over)
        )
    filled, wanted = groups.of_topologies(least), wanted[:-1]
    names = groups.instance.topologies.ids
    over = np.flatnonzero((wanted >= 0) & (filled > wanted)).tolist()
    if over:
        return Spread(
            None, tuple(violation("workers", names[i], filled[i], wanted[i]) for i in over)
        )
    missing = np.where(wanted >= 0, wanted - filled, 0)
    added = np.zeros_like(least)
    edges = np.flatnonzero(groups.counted & (most > least) & (slots > used)[groups.node])
    added[edges], few = flow(
        missing,
        groups.topology[edges],
        groups.node[edges],
        (most - least)[edges],
        slots - used,
    )
    if len(few):
        needed, missing_slots = (
            wanted[few].sum(),
            (missing - groups.of_topologies(added))[few].sum(),
        )
        return Spread(
            None, (violation("workers", groups.topology_ids(few), needed, needed - missing_slots),)
        )
    return Spread(least + added)


def flow(
    missing: Numbers, topology: Numbers, node: Numbers, most: Numbers, room: Numbers
) -> tuple[Numbers, Numbers]:
    """Give slots on nodes to topologies, never more than these miss: a largest flow.

    `missing`, `room`: (P,) what each topology wants, (N,) what each node has.
    `topology`, `node`, `most`: (E,) who may take how many where.
    Returns (E,) slots given; and the topologies that together get too few, none if all is given.
    """
    if not missing.any() or not len(topology):
        return np.zeros(len(topology), dtype=np.int64), np.flatnonzero(missing)
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    kinds, size = len(missing), len(missing) + len(room) + 2
    source, sink = size - 2, size - 1
    # source → topology (what it misses) → node (what it may take there) → sink (free slots)
    start = np.concatenate([np.full(kinds, source), topology, kinds + np.arange(len(room))])
    end = np.concatenate([np.arange(kinds), kinds + node, np.full(len(room), sink)])
    capacity = np.concatenate([missing, most, room]).astype(np.int32)
    graph = csr_array((capacity, (start, end)), shape=(size, size))
    result = maximum_flow(graph, source, sink)
    assigned = np.asarray(result.flow[topology, kinds + node]).astype(np.int64)
    if result.flow_value == missing.sum():
        return assigned, np.zeros(0, dtype=np.int64)
    # minimum cut: the topologies still reached from the source together want more than there is
    left = csr_array(graph - result.flow)
    left.eliminate_zeros()
    reached = breadth_first_order(left, source, return_predecessors=False)
    return assigned, np.sort(reached[reached < kinds]).astype(np.int64)


# The assignment to slots that restarts fewest workers, where a limit says how many may.
#
# Slots of a node are alike but for the tasks that run in them now. So of the tasks of a node,
# parted into slots, the parts that are a worker's tasks now take its number, and the others the
# numbers of workers that end first (`renumbered`): of c workers now and p parts, k of them as they
# are, max(c, p) − k restart.
#
# Where more restart so than may, workers whose tasks are all on their node still stay as they are:
# each is made a topology of its own that fills one slot, and a node gets no more slots than may
# restart there. Which stay and which nodes get more slots than they use now is tried in order, the
# most of them first, within a number of trials.


_TRIALS = 300  # Slot assignments that are tried at most.
_NAME = "max_workers_restarted"


class Worker(NamedTuple):
    """A slot that tasks run in now."""

    node: int
    slot: int
    tasks: tuple[int, ...]


def workers_of(node: Ints, slot: Ints) -> list[Worker]:
    """Return the slots that hold a task, by node and number."""
    placed = np.flatnonzero((node >= 0) & (slot >= 0))
    tasks_in: dict[tuple[int, int], list[int]] = {}
    for t, n, s in zip(placed.tolist(), node[placed].tolist(), slot[placed].tolist(), strict=True):
        tasks_in.setdefault((n, s), []).append(t)
    return [Worker(n, s, tuple(tasks)) for (n, s), tasks in sorted(tasks_in.items())]


def renumbered(instance: Instance, node: Ints, slot: Ints) -> Ints:
    """Return the same slots of each node with the numbers by which fewest workers restart."""
    now = workers_of(instance.tasks.node, instance.tasks.slot)
    running = {(worker.node, worker.tasks): worker.slot for worker in now}
    numbers: dict[int, set[int]] = {}
    for worker in now:
        numbers.setdefault(worker.node, set()).add(worker.slot)
    changed: dict[int, list[Worker]] = {}
    renumbered_slot = np.array(slot)
    unchanged: dict[int, set[int]] = {}
    for worker in workers_of(node, slot):
        number = running.get((worker.node, worker.tasks))
        if number is None:
            changed.setdefault(worker.node, []).append(worker)
        else:
            renumbered_slot[list(worker.tasks)] = number
            unchanged.setdefault(worker.node, set()).add(number)
    for n, workers in changed.items():
        slots_now = numbers.get(n, set())
        free = sorted(slots_now - unchanged.get(n, set()))
        wanted = iter(range(len(slots_now) + len(workers)))
        while len(free) < len(workers):
            number = next(wanted)
            if number not in slots_now:
                free.append(number)
        # a changed worker stays where most of it is, then by number
        for worker in workers:
            at = next((s for s in free if s == worker.slot), free[0])
            free.remove(at)
            renumbered_slot[list(worker.tasks)] = at
    return renumbered_slot


class Restarts:
    """Looks for an assignment of placed tasks to slots by which few enough workers restart.

    `instance`, `node`: with the limit; all current slots are known, and some task has one.
    `assign`: returns a slot assignment for an instance and the same nodes, which may be none, and
        whether it is proven that there is none.
    """

    def __init__(
        self,
        instance: Instance,
        node: Ints,
        assign: Callable[[Instance, int], tuple[Ints | None, bool]],
    ) -> None:
        self.instance, self.node, self.assign = instance, node, assign
        self.most = int(instance.limits.max_workers_restarted or 0)
        self.now = workers_of(instance.tasks.node, instance.tasks.slot)

    def within(self, slot: Ints | None) -> Ints | None:
        """Return the slots with other numbers if that is enough."""
        if slot is None:
            return None
        candidate = renumbered(self.instance, self.node, slot)
        count = workers_restarted(self.instance, self.node, candidate)
        return candidate if count is not None and count <= self.most else None

    @cached_property
    def whole(self) -> list[int]:
        """Workers now whose tasks are all on their node still, and of one topology."""
        topology, node = self.instance.task_topology, self.node
        unsplit = []
        for k, worker in enumerate(self.now):
            tasks = list(worker.tasks)
            kinds = {int(kind) for kind in topology[tasks]} - {-1}
            if (node[tasks] == worker.node).all() and len(kinds) <= 1:
                unsplit.append(k)
        return unsplit

    def search(self, work: int) -> tuple[Ints | None, bool]:
        """Return slots within the limit, or whether it is proven that there are none."""
        # of c workers at most `most` restart, so c - most go on as they are
        least = len(self.now) - self.most  # workers to be kept
        if least > len(self.whole):
            return None, True
        left, proven = _TRIALS, True
        for number in range(len(self.whole), max(least, 0) - 1, -1):
            for unchanged in combinations(self.whole, number):
                for more in self._more(unchanged, number - least):
                    if left == 0:
                        return None, False
                    left -= 1
                    changed = self._keeping(unchanged, more)
                    if changed is None:
                        break
                    slot, sure = self.assign(changed, work // 20)
                    renumbered_slot = self.within(slot)
                    if renumbered_slot is not None:
                        return renumbered_slot, True
                    proven &= sure and slot is None
        return None, proven

    def _more(self, unchanged: tuple[int, ...], spare: int) -> Iterator[Ints]:
        """Yield how many slots more than now each node may use, where so many more may restart."""
        nodes = self.instance.num_nodes
        now = np.bincount([w.node for w in self.now], minlength=nodes)
        unchanged_at = np.bincount([self.now[k].node for k in unchanged], minlength=nodes)
        tasks = np.array([len(self.now[k].tasks) for k in unchanged], dtype=np.int64)
        counts = np.bincount(self.node[self.node >= 0], minlength=nodes)
        loose = counts - np.bincount(
            [self.now[k].node for k in unchanged], tasks, minlength=nodes
        ).astype(np.int64)
        slots = self.instance.nodes.slots
        room = np.where(slots < 0, loose, slots - now)
        most = np.clip(np.minimum(unchanged_at + loose - now, room), 0, None)
        least = np.clip(unchanged_at + (loose > 0) - now, 0, None)
        if (least > most).any() or least.sum() > spare:
            return
        yield from _spread(least, most, spare - int(least.sum()), 0)

    def _keeping(self, unchanged: tuple[int, ...], more: Ints) -> Instance | None:
        """Return the instance in which these workers are topologies of their own."""
        instance, topology = self.instance, self.instance.task_topology
        table, operators, nodes = instance.topologies, instance.operators, instance.nodes
        names, workers = list(table.ids), table.workers.astype(np.int64)
        size = np.bincount(topology + 1, minlength=len(names) + 1)[1:]
        wanted = np.where(workers < 0, -1, np.minimum(workers, size))
        new_topology = np.array(topology)
        for k in unchanged:
            tasks = list(self.now[k].tasks)
            of = int(topology[tasks].max())
            new_topology[tasks] = len(names)
            names.append(f"worker {k}")
            wanted = np.append(wanted, 1)
            if of >= 0:
                size[of] -= np.count_nonzero(topology[tasks] == of)
                wanted[of] -= workers[of] >= 0
        fixed = workers >= 0
        left = wanted[: len(workers)]
        if (fixed & ((left > size) | (left < (size > 0)))).any():
            return None
        wanted[: len(workers)][fixed & (size == 0)] = -1
        loose = np.ones(len(new_topology), dtype=np.bool_)
        loose[[t for k in unchanged for t in self.now[k].tasks]] = False
        if (new_topology[loose] < 0).all():  # none of them may join a worker that is kept
            new_topology[loose] = len(names)
            names.append("others")
            wanted = np.append(wanted, -1)
        now = np.bincount([w.node for w in self.now], minlength=instance.num_nodes)
        kinds, of_task = np.unique(new_topology, return_inverse=True)
        changed = replace(
            instance,
            nodes=replace(nodes, slots=(now + more).astype(nodes.slots.dtype)),
            topologies=replace(
                table,
                ids=tuple(names),
                workers=wanted.astype(table.workers.dtype),
                exclusive_nodes=np.full(len(names), -1, dtype=table.exclusive_nodes.dtype),
            ),
            operators=replace(operators, topology=kinds.astype(operators.topology.dtype)),
            tasks=replace(
                instance.tasks, operator=of_task.reshape(-1).astype(instance.tasks.operator.dtype)
            ),
            limits=replace(instance.limits, max_workers_restarted=None),
        )
        return (
            self._parted(changed, new_topology < 0, unchanged)
            if (new_topology < 0).any()
            else changed
        )

    def _parted(self, changed: Instance, joining: Bools, unchanged: tuple[int, ...]) -> Instance:
        """Return the instance whose slots have room for all that may join others, or a worker."""
        nodes, tasks, room = changed.nodes, changed.tasks, float(joining.sum())
        load = joining.astype(np.float64)
        load[[self.now[k].tasks[0] for k in unchanged]] = room
        beside = np.full((len(nodes.ids), 1), room)
        return replace(
            changed,
            resources=(*changed.resources, "workers that go on"),
            nodes=replace(nodes, slot_capacity=np.hstack([nodes.slot_capacity, beside])),
            tasks=replace(
                tasks,
                load=np.column_stack([tasks.load, load]),
                max_load=np.full((1, 1), np.inf),  # no matter of slots
            ),
        )

    def shortage(self, *, proven: bool) -> Violation:
        """Say how many restart at least, as far as that is known without a search."""
        least = max(len(self.now) - len(self.whole), self.most + 1)
        remark = "" if proven else "not known within the work limit"
        return violation(_NAME, "limits", least, self.most, remark)


def _spread(least: Ints, most: Ints, left: int, start: int) -> Iterator[Ints]:
    """Yield every way to add so many to the least, none above the most; less where all are full."""
    if left >= int((most - least).sum()):
        yield np.array(most)
        return
    if left == 0:
        yield np.array(least)
        return
    for n in range(start, len(least)):
        if least[n] < most[n]:
            some = np.array(least)
            some[n] += 1
            yield from _spread(some, most, left - 1, n)
