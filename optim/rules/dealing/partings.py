"""Every way to part the tasks of one node into slots, as far as the ways differ."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.rules.dealing.groups import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.format.tables import Floats


class Parting(NamedTuple):
    """Units dealt to `size` slots of their node; `total` when parted further as is wanted."""

    size: int
    slot: list[int]
    total: int


class Search:
    """All slot partitions of units into slots that differ in more than the names of equal things.

    Equal units take slots in ascending order, and of equal slots only the first is tried: the
    lexicographically least of all equivalent slot partitions keeps both. `labels` are -1 for units
    that join any slot; the first labels have `ends`, least and greatest numbers of slots to fill.
    `sets` are to be spread: of each unit those that it is in. What is found is stored by the slots
    that these labels fill, and those that have a member of each of the sets.
    """

    def __init__(
        self,
        loads: Floats,
        labels: list[int],
        limit: Floats,
        most: int,
        ends: Sequence[tuple[int, int]] = (),
        sets: Sequence[tuple[int, ...]] = (),
    ) -> None:
        self.loads = [tuple(load) for load in loads.tolist()]
        self.labels, self.limit, self.most, self.ends = labels, tuple(limit.tolist()), most, ends
        backwards = loads[::-1]
        self.rest = np.cumsum(backwards, axis=0)[::-1].tolist()
        self.least = np.minimum.accumulate(backwards, axis=0)[::-1].tolist()
        self.found: dict[tuple[int, ...], Parting] = {}
        self.complete = False
        self.room: list[tuple[float, ...]] = []
        self.owner: list[int] = []
        self.usage = [0] * len(ends)
        self.sets = [frozenset(own) for own in sets] or [frozenset()] * len(labels)
        self.stands = [0] * (1 + max((i for own in sets for i in own), default=-1))
        self.within: list[dict[int, int]] = []
        self.widest = False
        each = [sum(i in own for own in self.sets) for i in range(len(self.stands))]
        self._most_stands = [min(most, count) for count in each]

    def run(self, work: int) -> int:
        """Search until all is seen or the work is done; return the steps taken."""
        size, spent, t = len(self.loads), 0, 0
        slot, next_slot = [0] * size, [0] * (size + 1)
        before: list[tuple[tuple[float, ...], int] | None] = [None] * size
        enough = np.inf if self.stands else prod(high - low + 1 for low, high in self.ends)
        while t >= 0 and len(self.found) < enough and not self.widest:
            if spent > work:
                return spent
            spent += 1 + len(self.room)
            s = None
            if t == size:
                self._record(slot)
            else:
                s = self._next(t, next_slot[t])
            if s is None:  # back to the task before
                t -= 1
                if t >= 0:
                    self._take(t, slot[t], before[t])
                continue
            before[t] = (self.room[s], self.owner[s]) if s < len(self.room) else None
            slot[t], next_slot[t] = s, s + 1
            self._put(t, s)
            t += 1
            if t < size:
                alike = self.loads[t] == self.loads[t - 1] and self.labels[t] == self.labels[t - 1]
                alike = alike and self.sets[t] == self.sets[t - 1]
                next_slot[t] = s if alike else 0
                if self._hopeless(t):
                    next_slot[t] = self.most
        self.complete = True
        return spent

    def _next(self, t: int, first: int) -> int | None:
        """Return the next slot that takes a task, a new one last."""
        label, load = self.labels[t], self.loads[t]
        for s in range(first, min(len(self.room) + 1, self.most)):
            new = s == len(self.room)
            room, owner = (self.limit, -1) if new else (self.room[s], self.owner[s])
            if label >= 0 and owner not in (-1, label):
                continue
            if owner < 0 <= label < len(self.ends) and self.usage[label] == self.ends[label][1]:
                continue
            if any(x < y for x, y in zip(room, load, strict=True)):
                continue
            if not new and any(self._equal(c, s) for c in range(s)):
                continue
            return s
        return None

    def _equal(self, a: int, b: int) -> bool:
        same = self.room[a] == self.room[b] and self.owner[a] == self.owner[b]
        return same and self.within[a].keys() == self.within[b].keys()

    def _put(self, t: int, s: int) -> None:
        if s == len(self.room):
            self.room.append(self.limit)
            self.owner.append(-1)
            self.within.append({})
        for i in self.sets[t]:
            held = self.within[s].get(i, 0)
            self.stands[i] += not held
            self.within[s][i] = held + 1
        label = self.labels[t]
        if self.owner[s] < 0 <= label < len(self.ends):
            self.usage[label] += 1
        self.owner[s] = max(self.owner[s], label)
        self.room[s] = tuple(x - y for x, y in zip(self.room[s], self.loads[t], strict=True))

    def _take(self, t: int, s: int, before: tuple[tuple[float, ...], int] | None) -> None:
        label, owner = self.labels[t], -1 if before is None else before[1]
        if owner < 0 <= label < len(self.ends):
            self.usage[label] -= 1
        for i in self.sets[t]:
            held = self.within[s].pop(i) - 1
            self.stands[i] -= not held
            if held:
                self.within[s][i] = held
        if before is None:
            self.room.pop()
            self.owner.pop()
            self.within.pop()
        else:
            self.room[s], self.owner[s] = before

    def _hopeless(self, t: int) -> bool:
        """Whether the tasks from t on exceed the room of slots that could take any of them."""
        new = self.most - len(self.room)
        for d, (rest, least) in enumerate(zip(self.rest[t], self.least[t], strict=True)):
            room = sum(r[d] for r in self.room if r[d] >= least)
            if room + (new * self.limit[d] if new else 0.0) < rest * (1 - ROUNDING):
                return True
        return False

    def _record(self, slot: list[int]) -> None:
        """Keep a slot partition for what it fills, and for what it fills when parted further."""
        if self.stands:  # what is parted further is tried by itself, as it spreads sets, too
            size, usage = len(self.room), (*self.usage, *self.stands)
            self.found.setdefault(usage, Parting(size, list(slot), size))
            self.widest = not self.ends and self.stands == self._most_stands
            return
        parting, reached = list(slot), [(tuple(self.usage), len(self.room))]
        while reached:
            usage, size = reached.pop()
            known = self.found.get(usage)
            if any(used > high for used, (_, high) in zip(usage, self.ends, strict=True)):
                continue
            if size > self.most or (known is not None and known.total <= size):
                continue
            self.found[usage] = Parting(len(self.room), parting, size)
            reached += [
                ((*usage[:i], used + 1, *usage[i + 1 :]), size + 1) for i, used in enumerate(usage)
            ]
