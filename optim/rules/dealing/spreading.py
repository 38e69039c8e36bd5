"""Sets that are to fill more slots than there are nodes with them: a dealing is changed for them.

Units move to other slots of their node, or two change places, as long as fewer slots are missing
then. What this does not reach is searched (`mixed`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from optim.rules.base import violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.tables import Ints
    from optim.rules.dealing.groups import Groups, Numbers
    from optim.rules.violation import Violation


class ToSpread:
    """One such set.

    Attributes
    ----------
    units
        Those that stand somewhere.
    limit
        Slots that it is to fill at least.
    nodes, crowded
        Where it stands, and where with several units.
    most
        Slots that it can fill at most.
    """

    def __init__(self, groups: Groups, i: int, units: Numbers) -> None:
        table = groups.instance.slot_sets
        self.units, self.limit, self._name = units, int(table.limit[i]), table.ids[i]
        self.nodes, count = np.unique(groups.units.node[units], return_counts=True)
        self.crowded = self.nodes[count > 1]
        self.most = int(np.minimum(count, groups.slots[self.nodes]).sum())
        kinds, number = np.unique(groups.units.topology[units], return_counts=True)
        wanted = groups.wanted[kinds]
        most = np.where(wanted < 0, number, np.minimum(wanted, number)).sum()
        self.most = min(self.most, int(most))

    def fills(self, groups: Groups, slot: Ints) -> bool:
        """Whether it fills enough slots in a dealing (U,)."""
        place = np.stack([groups.units.node[self.units], slot[self.units]])
        return np.unique(place, axis=1).shape[1] >= self.limit

    def short(self, reached: float) -> Violation:
        """Say how many slots it can fill."""
        return violation("slot_sets", f"{self._name} spread: slots", self.limit, reached)


def widened(groups: Groups, sets: list[ToSpread], slot: Ints, work: int) -> tuple[Ints, int]:
    """Change a dealing until the sets are spread, as far as that is found; return it and the steps.

    Parameters
    ----------
    slot
        (U,) slots that keep all other rules.
    """
    found = _Board(groups, sets, slot)
    better = True
    while better and found.missing() and found.steps < work:
        better = any(found.try_for(k) for k in range(len(sets)) if found.lacks(k))
    return found.slot, found.steps


class _Board:
    """A dealing that is changed: who is in each slot, and how many slots each set fills."""

    def __init__(self, groups: Groups, sets: list[ToSpread], slot: Ints) -> None:
        self.groups, self.sets, self.slot, self.steps = groups, sets, slot.copy(), 0
        self.group_of = np.full(len(groups.loads), -1)
        self.group_of[groups.order] = groups.group
        self.held: dict[tuple[int, int], list[int]] = {}
        self.of: list[list[int]] = [[] for _ in range(len(groups.loads))]
        for k, one in enumerate(sets):
            for unit in one.units.tolist():
                self.of[unit].append(k)
        for unit in groups.order.tolist():
            self.held.setdefault(self.place(unit), []).append(unit)
        self.stands: list[Counter[tuple[int, int]]] = [Counter() for _ in sets]
        for k, one in enumerate(sets):
            self.stands[k].update(self.place(unit) for unit in one.units.tolist())

    def place(self, unit: int) -> tuple[int, int]:
        """Node and slot of a unit."""
        return int(self.groups.units.node[unit]), int(self.slot[unit])

    def lacks(self, k: int) -> bool:
        """Whether a set fills too few slots."""
        return len(self.stands[k]) < self.sets[k].limit

    def missing(self) -> int:
        """Slots that sets fill too few."""
        return sum(
            max(0, one.limit - len(at)) for one, at in zip(self.sets, self.stands, strict=True)
        )

    def try_for(self, k: int) -> bool:
        """Make one change by which fewer slots are missing, of a unit of one set."""
        before = self.missing()
        for unit in self.sets[k].units.tolist():
            n, s = self.place(unit)
            if self.stands[k][n, s] < 2:
                continue
            for t, other in self._changes(n, s, unit):
                self.steps += 1
                filled = self._filled(n, s, t)
                self._put([(unit, t)] if other < 0 else [(unit, t), (other, s)])
                if self.missing() < before and self._filled(n, s, t) == filled:
                    return True
                self._put([(unit, s)] if other < 0 else [(unit, s), (other, t)])
        return False

    def _changes(self, n: int, s: int, unit: int) -> Iterator[tuple[int, int]]:
        """Other slots of the node, a new one included, and who comes back from there (-1: none)."""
        for t in range(int(self.groups.slots[n])):
            if t != s:
                yield t, -1
                for other in list(self.held.get((n, t), ())):
                    yield t, other

    def _put(self, changes: list[tuple[int, int]]) -> None:
        for unit, slot in changes:
            n, before = self.place(unit)
            self.held[n, before].remove(unit)
            self.held.setdefault((n, slot), []).append(unit)
            self.slot[unit] = slot
            for k in self.of[unit]:
                at = self.stands[k]
                at[n, before] -= 1
                at[n, slot] += 1
                if not at[n, before]:
                    del at[n, before]

    def _filled(self, n: int, *slots: int) -> list[int] | None:
        """Topologies with a number of workers in some slots; ``None`` where one holds too much."""
        groups, found = self.groups, []
        for s in slots:
            units = self.held.get((n, s), [])
            self.steps += len(units)
            kinds = groups.units.topology[units]
            kinds = np.unique(kinds[kinds >= 0])
            if len(kinds) > 1 or (groups.loads[units].sum(axis=0) > groups.limit[n]).any():
                return None
            found += [int(kind) for kind in kinds if groups.wanted[kind] >= 0]
        return sorted(found)
