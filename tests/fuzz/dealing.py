"""Whether the tasks of each node can be dealt to its slots, for all placements of an instance.

A node's tasks are split into slots in every way, by dynamic programming over subsets. What is kept
of a way is how many slots each topology with a number of workers uses, and how many the others: the
workers tie the nodes together, for over all nodes these numbers must come out exactly.
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
        finite = np.where(np.isfinite(reading.slot_room), reading.slot_room, 0.0)
        self.room = reading.slot_room + slack * finite
        self.bits = 2 ** np.arange(self.count, dtype=np.int64)
        self._ways: dict[tuple[float, ...], dict[int, frozenset[Numbers]]] = {}
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
            reached = {(0,) * len(self.wanted)}
            for node in ways:
                sums = (tuple(map(sum, zip(r, w, strict=True))) for r in reached for w in node)
                reached = {s for s in sums if self._within(s)}
            self._sums[ways] = self.wanted in reached
        return self._sums[ways]

    def _within(self, numbers: Numbers) -> bool:
        return all(n <= most for n, most in zip(numbers, self.wanted, strict=True))

    def ways(self, node: int, mask: int) -> frozenset[Numbers]:
        """Return the numbers of slots of the counted topologies that a node's tasks can fill."""
        most = self.reading.slots[node]
        every = self._split(node, mask)
        fitting = (w for w in every if most is None or sum(w) <= most)
        return frozenset(w[:-1] for w in fitting)

    def _split(self, node: int, mask: int) -> frozenset[Numbers]:
        """Return every split of tasks into slots, as numbers of slots; the others' come last."""
        table = self._ways.setdefault(tuple(self.room[node]), {})
        if not mask:
            return frozenset({(0,) * (len(self.wanted) + 1)})
        if mask not in table:
            first = mask & -mask
            rest = part = mask ^ first
            found: set[Numbers] = set()
            while True:  # every slot that holds the first task
                whose = self._slot_of(node, part | first)
                if whose is not None:
                    for numbers in self._split(node, rest ^ part):
                        found.add(tuple(v + (i == whose) for i, v in enumerate(numbers)))
                if not part:
                    break
                part = (part - 1) & rest
            table[mask] = frozenset(found)
        return table[mask]

    def _slot_of(self, node: int, mask: int) -> int | None:
        """Return which number counts a slot of these tasks; ``None`` if they fit no slot."""
        tasks = [t for t in range(self.count) if mask >> t & 1]
        reading = self.reading
        if reading.most_a_slot is not None and len(tasks) > reading.most_a_slot:
            return None
        whose = set(reading.topology[tasks].tolist()) - {-1}
        if len(whose) > 1 or (reading.load[tasks].sum(axis=0) > self.room[node]).any():
            return None
        topology = min(whose, default=-1)
        return self.counted.index(topology) if topology in self.counted else len(self.wanted)


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
    for i, workers in enumerate(reading.workers):
        tasks = np.flatnonzero(reading.topology == i).tolist()
        if workers is None or not tasks:
            continue
        used = {(node[t], slot[t]) for t in tasks if node[t] >= 0 and slot[t] >= 0}
        if len(used) != min(workers, len(tasks)):
            broken.add("workers")
    return broken
