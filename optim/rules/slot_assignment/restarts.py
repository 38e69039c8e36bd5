"""The assignment to slots that restarts fewest workers, where a limit says how many may.

Slots of a node are alike but for the tasks that run in them now. So of the tasks of a node, parted
into slots, the parts that are a worker's tasks now take its number, and the others the numbers of
workers that end first (`renumbered`): of c workers now and p parts, k of them as they are,
max(c, p) − k restart.

Where more restart so than may, workers whose tasks are all on their node still stay as they are:
each is made a topology of its own that fills one slot, and a node gets no more slots than may
restart there. Which stay and which nodes get more slots than they use now is tried in order, the
most of them first, within a number of trials.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.figures.measures import workers_restarted
from optim.rules.base import violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.rules.violation import Violation

_TRIALS = 300
"""Slot assignments that are tried at most."""
_NAME = "max_workers_restarted"


class Worker(NamedTuple):
    """A slot that tasks run in now."""

    node: int
    slot: int
    tasks: tuple[int, ...]


def workers_of(node: Ints, slot: Ints) -> list[Worker]:
    """Return the slots that hold a task, by node and number."""
    placed = np.flatnonzero((node >= 0) & (slot >= 0))
    found: dict[tuple[int, int], list[int]] = {}
    for t, n, s in zip(placed.tolist(), node[placed].tolist(), slot[placed].tolist(), strict=True):
        found.setdefault((n, s), []).append(t)
    return [Worker(n, s, tuple(tasks)) for (n, s), tasks in sorted(found.items())]


def renumbered(instance: Instance, node: Ints, slot: Ints) -> Ints:
    """Return the same slots of each node with the numbers by which fewest workers restart."""
    now = workers_of(instance.tasks.node, instance.tasks.slot)
    running = {(worker.node, worker.tasks): worker.slot for worker in now}
    numbers: dict[int, set[int]] = {}
    for worker in now:
        numbers.setdefault(worker.node, set()).add(worker.slot)
    changed: dict[int, list[Worker]] = {}
    found = np.array(slot)
    kept: dict[int, set[int]] = {}
    for worker in workers_of(node, slot):
        number = running.get((worker.node, worker.tasks))
        if number is None:
            changed.setdefault(worker.node, []).append(worker)
        else:
            found[list(worker.tasks)] = number
            kept.setdefault(worker.node, set()).add(number)
    for n, workers in changed.items():
        own = numbers.get(n, set())
        free = sorted(own - kept.get(n, set()))
        wanted = iter(range(len(own) + len(workers)))
        while len(free) < len(workers):
            number = next(wanted)
            if number not in own:
                free.append(number)
        # a changed worker stays where most of it is, then by number
        for worker in workers:
            at = next((s for s in free if s == worker.slot), free[0])
            free.remove(at)
            found[list(worker.tasks)] = at
    return found


class Restarts:
    """Looks for an assignment of placed tasks to slots by which few enough workers restart.

    Parameters
    ----------
    instance, node
        With the limit; all current slots are known, and some task has one.
    assign
        Returns a slot assignment for an instance and the same nodes, which may be none, and
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
        found = renumbered(self.instance, self.node, slot)
        count = workers_restarted(self.instance, self.node, found)
        return found if count is not None and count <= self.most else None

    @cached_property
    def whole(self) -> list[int]:
        """Workers now whose tasks are all on their node still, and of one topology."""
        topology, node = self._topology, self.node
        found = []
        for k, worker in enumerate(self.now):
            tasks = list(worker.tasks)
            kinds = {int(kind) for kind in topology[tasks]} - {-1}
            if (node[tasks] == worker.node).all() and len(kinds) <= 1:
                found.append(k)
        return found

    @cached_property
    def _topology(self) -> Ints:
        operator = self.instance.tasks.operator
        found = np.full(len(operator), -1, dtype=np.int32)
        found[operator >= 0] = self.instance.operators.topology[operator[operator >= 0]]
        return found

    def search(self, work: int) -> tuple[Ints | None, bool]:
        """Return slots within the limit, or whether it is proven that there are none."""
        least = len(self.now) - self.most  # workers to be kept
        if least > len(self.whole):
            return None, True
        left, proven = _TRIALS, True
        for number in range(len(self.whole), max(least, 0) - 1, -1):
            for kept in combinations(self.whole, number):
                for more in self._more(kept, number - least):
                    if left == 0:
                        return None, False
                    left -= 1
                    changed = self._keeping(kept, more)
                    if changed is None:
                        break
                    slot, sure = self.assign(changed, work // 20)
                    found = self.within(slot)
                    if found is not None:
                        return found, True
                    proven &= sure and slot is None
        return None, proven

    def _more(self, kept: tuple[int, ...], spare: int) -> Iterator[Ints]:
        """Yield how many slots more than now each node may use, where so many more may restart."""
        nodes = self.instance.num_nodes
        now = np.bincount([w.node for w in self.now], minlength=nodes)
        kept_at = np.bincount([self.now[k].node for k in kept], minlength=nodes)
        tasks = np.array([len(self.now[k].tasks) for k in kept], dtype=np.int64)
        counts = np.bincount(self.node[self.node >= 0], minlength=nodes)
        loose = counts - np.bincount(
            [self.now[k].node for k in kept], tasks, minlength=nodes
        ).astype(np.int64)
        slots = self.instance.nodes.slots
        room = np.where(slots < 0, loose, slots - now)
        most = np.clip(np.minimum(kept_at + loose - now, room), 0, None)
        least = np.clip(kept_at + (loose > 0) - now, 0, None)
        if (least > most).any() or least.sum() > spare:
            return
        yield from _spread(least, most, spare - int(least.sum()), 0)

    def _keeping(self, kept: tuple[int, ...], more: Ints) -> Instance | None:
        """Return the instance in which these workers are topologies of their own."""
        instance, topology = self.instance, self._topology
        table, operators, nodes = instance.topologies, instance.operators, instance.nodes
        names, workers = list(table.ids), table.workers.astype(np.int64)
        size = np.bincount(topology + 1, minlength=len(names) + 1)[1:]
        wanted = np.where(workers < 0, -1, np.minimum(workers, size))
        own = np.array(topology)
        for k in kept:
            tasks = list(self.now[k].tasks)
            of = int(topology[tasks].max())
            own[tasks] = len(names)
            names.append(f"worker {k}")
            wanted = np.append(wanted, 1)
            if of >= 0:
                size[of] -= np.count_nonzero(topology[tasks] == of)
                wanted[of] -= workers[of] >= 0
        told = workers >= 0
        left = wanted[: len(workers)]
        if (told & ((left > size) | (left < (size > 0)))).any():
            return None
        wanted[: len(workers)][told & (size == 0)] = -1
        loose = np.ones(len(own), dtype=np.bool_)
        loose[[t for k in kept for t in self.now[k].tasks]] = False
        if (own[loose] < 0).all():  # none of them may join a worker that is kept
            own[loose] = len(names)
            names.append("others")
            wanted = np.append(wanted, -1)
        now = np.bincount([w.node for w in self.now], minlength=instance.num_nodes)
        kinds, of_task = np.unique(own, return_inverse=True)
        return replace(
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

    def shortage(self, *, proven: bool) -> Violation:
        """Say how many restart at least, as far as that is known without a search."""
        least = max(len(self.now) - len(self.whole), self.most + 1)
        where = "limits" if proven else "limits (not known within the work limit)"
        return violation(_NAME, where, least, self.most)


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
