"""Whether the tasks of each node can be dealt to its slots, for all placements of an instance.

A node's tasks are split into slots in every way, by dynamic programming over subsets. What is kept
of a way is how many slots each topology with a number of workers uses, and how many the others: the
workers tie the nodes together, for over all nodes these numbers must come out exactly. Beside
them stands how many slots have a member of each set over slots, of all nodes together.
"""

from __future__ import annotations

import numpy as np

from tests.fuzz.reading import Reading

Numbers = tuple[int, ...]


class Dealer:
    """Dealings of one instance, within a relative `slack` of a slot's capacity."""

    def __init__(self, reading: Reading, slack: float) -> None:
        self.reading = reading
        self.count = len(reading.task_ids)
        self.counted = [i for i, w in enumerate(reading.workers) if w is not None]
        sizes = [int((reading.topology == i).sum()) for i in self.counted]
        workers = [reading.workers[i] for i in self.counted]
        #: slots that each counted topology must fill
        self.wanted = tuple(min(w, e) for w, e in zip(workers, sizes, strict=True))
        self.sets = [(one, {int(t) for t in one.tasks}) for one in reading.slot_sets]
        finite = np.where(np.isfinite(reading.slot_room), reading.slot_room, 0.0)
        self.room = reading.slot_room + slack * finite
        self.bits = 2 ** np.arange(self.count, dtype=np.int64)
        #: of each node the tasks that share a slot now, where restarts are limited
        self.running = [[sum(1 << t for t in tasks) for tasks in own] for own in reading.running]
        self._ways: dict[tuple[object, ...], dict[int, frozenset[Numbers]]] = {}
        self._sums: dict[tuple[frozenset[Numbers], ...], bool] = {}

    def possible(self, at: np.ndarray) -> np.ndarray:
        """(M,) whether (M, T) placements have a dealing; a task that is nowhere needs no slot."""
        nodes = range(len(self.reading.node_ids))
        masks = np.stack([(at == n) @ self.bits for n in nodes], axis=1)
        known, back = np.unique(masks, axis=0, return_inverse=True)
        good = [self._adds_up(tuple(int(v) for v in row)) for row in known]
        return np.array(good, dtype=bool)[back.reshape(-1)]

    def _adds_up(self, masks: Numbers) -> bool:
        ways = tuple(self.ways(n, mask) for n, mask in enumerate(masks))
        if ways not in self._sums:
            reached = {(0,) * (len(self.wanted) + len(self.sets) + 1)}
            for node in ways:
                sums = (tuple(map(sum, zip(r, w, strict=True))) for r in reached for w in node)
                reached = {s for s in sums if self._within(s)}
            self._sums[ways] = any(self._done(s) for s in reached)
        return self._sums[ways]

    def _done(self, numbers: Numbers) -> bool:
        """Whether workers come out exactly, and sets stand in as many slots as they are to."""
        stands = zip(self.sets, numbers[len(self.wanted) : -1], strict=True)
        spread = all(n >= one.at_least for (one, _), n in stands if one.rule == "spread")
        return numbers[: len(self.wanted)] == self.wanted and spread

    def _within(self, numbers: Numbers) -> bool:
        stands = zip(self.sets, numbers[len(self.wanted) : -1], strict=True)
        joined = all(n <= 1 for (one, _), n in stands if one.rule == "together")
        most = self.reading.most_restarts
        if most is not None and numbers[-1] > most:
            return False
        return joined and all(n <= w for n, w in zip(numbers, self.wanted, strict=False))

    def ways(self, node: int, mask: int) -> frozenset[Numbers]:
        """Return the slots of counted topologies, and of sets, that a node's tasks can fill."""
        most, kinds = self.reading.slots[node], len(self.wanted)
        every = self._split(node, mask)
        fitting = (w for w in every if most is None or sum(w[: kinds + 1]) <= most)
        now, counted = len(self.running[node]), self.reading.most_restarts is not None
        return frozenset(
            (*w[:kinds], *w[kinds + 1 : -1], counted * (max(now, sum(w[: kinds + 1])) - w[-1]))
            for w in fitting
        )

    def _split(self, node: int, mask: int) -> frozenset[Numbers]:
        """Return every split of tasks into slots, as numbers of slots: counted, others', sets'."""
        alike = (*self.room[node], *self.running[node])
        table = self._ways.setdefault(alike, {})
        if not mask:
            return frozenset({(0,) * (len(self.wanted) + 1 + len(self.sets) + 1)})
        if mask not in table:
            first = mask & -mask
            rest = part = mask ^ first
            found: set[Numbers] = set()
            while True:  # every slot that holds the first task
                whose = self._slot_of(node, part | first)
                if whose is not None and part | first in self.running[node]:
                    whose = whose | {len(self.wanted) + 1 + len(self.sets)}
                if whose is not None:
                    for numbers in self._split(node, rest ^ part):
                        found.add(tuple(v + (i in whose) for i, v in enumerate(numbers)))
                if not part:
                    break
                part = (part - 1) & rest
            table[mask] = frozenset(found)
        return table[mask]

    def _slot_of(self, node: int, mask: int) -> set[int] | None:
        """Return which numbers count a slot of these tasks; ``None`` if they fit no slot."""
        tasks = [t for t in range(self.count) if mask >> t & 1]
        reading = self.reading
        if reading.most_a_slot is not None and len(tasks) > reading.most_a_slot:
            return None
        whose = set(reading.topology[tasks].tolist()) - {-1}
        if len(whose) > 1 or (reading.load[tasks].sum(axis=0) > self.room[node]).any():
            return None
        for one, members in self.sets:
            if one.rule == "apart" and len(members.intersection(tasks)) > one.at_most:
                return None
        topology, kinds = min(whose, default=-1), len(self.wanted)
        of = {i + kinds + 1 for i, (_, own) in enumerate(self.sets) if own.intersection(tasks)}
        return {self.counted.index(topology) if topology in self.counted else kinds} | of


def broken_by_slots(reading: Reading, node: list[int], slot: list[int], slack: float) -> set[str]:
    """Return the names of the rules that a plan's own slots break."""
    broken: set[str] = set()
    held: dict[tuple[int, int], list[int]] = {}
    for t, (n, s) in enumerate(zip(node, slot, strict=True)):
        if n < 0:
            continue
        most = reading.slots[n]
        if s < 0 or (most is not None and s >= most):
            broken.add("slots")
        if s >= 0:
            held.setdefault((n, s), []).append(t)
    for (n, _), tasks in held.items():
        room = reading.slot_room[n]
        bound = np.isfinite(room)
        allowed = room + slack * np.where(bound, room, 0.0)
        if (reading.load[tasks].sum(axis=0) > allowed)[bound].any():
            broken.add("slot_capacity")
        if reading.most_a_slot is not None and len(tasks) > reading.most_a_slot:
            broken.add("max_tasks_per_slot")
        if len(set(reading.topology[tasks].tolist()) - {-1}) > 1:
            broken.add("one_topology_a_slot")
    for one in reading.slot_sets:
        own = {int(t) for t in one.tasks}
        counts = [n for n in (len(own.intersection(tasks)) for tasks in held.values()) if n]
        if (
            (one.rule == "apart" and max(counts, default=0) > one.at_most)
            or (one.rule == "together" and len(counts) > 1)
            or (one.rule == "spread" and len(counts) < one.at_least)
        ):
            broken.add("slot_sets")
    if reading.most_restarts is not None:
        now = {(n, tuple(tasks)) for n, own in enumerate(reading.running) for tasks in own}
        spots = {(n, tuple(tasks)): s for (n, s), tasks in held.items()}
        kept = [k for k in now if spots.get(k) == reading.slot[k[1][0]]]
        places = {(n, reading.slot[tasks[0]]) for n, tasks in now} | set(held)
        if len(places) - len(kept) > reading.most_restarts:
            broken.add("max_workers_restarted")
    for i, workers in enumerate(reading.workers):
        tasks = np.flatnonzero(reading.topology == i).tolist()
        if workers is None or not tasks:
            continue
        used = {(node[t], slot[t]) for t in tasks if node[t] >= 0 and slot[t] >= 0}
        if len(used) != min(workers, len(tasks)):
            broken.add("workers")
    return broken
