"""Sets on the way: how many members of a set are on each place, and what may be."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from optim.format.tables import APART
from optim.rules.sets import places_of

if TYPE_CHECKING:
    from optim.stepping.between import Between
    from optim.stepping.move import Move


class SetCounts:
    """Members of the sets by place, while a batch of moves is made.

    While a batch runs, a member counts on the places of both of its nodes for sets that are apart.
    Of a set that is spread only one member moves at a time.
    """

    def __init__(self, between: Between) -> None:
        instance = between.instance
        table = instance.sets
        self.ids = table.ids
        self._apart = [bool(rule == APART) for rule in table.rule]
        # the last place is nowhere, where the index -1 leads
        kinds: dict[bool, list[int]] = {}
        for i, by_rack in enumerate(table.by_rack.tolist()):
            if by_rack not in kinds:
                kinds[by_rack] = [*places_of(instance, i).tolist(), -1]
        self._places = [kinds[by_rack] for by_rack in table.by_rack.tolist()]
        self.of: dict[int, list[int]] = defaultdict(list)
        self._count: list[Counter[int]] = []
        self._most: list[dict[int, int]] = []
        self._limit: list[int] = []
        self._least: list[int] = []
        self._busy: set[int] = set()
        for i, place in enumerate(self._places):
            members = table.tasks_of(i).tolist()
            for t in members:
                self.of[t].append(i)
            limit = int(table.limit[i])
            now, goal = (
                Counter(place[n] for t in members if (n := int(node[t])) >= 0)
                for node in (between.start, between.goal)
            )
            self._count.append(now)
            self._limit.append(limit)
            self._most.append({p: max(limit, now[p], goal[p]) for p in (*now, *goal)})
            self._least.append(min(limit, len(now), len(goal)))

    def blocks(self, move: Move) -> int | None:
        """Return the set that a move would break, if one."""
        for i in self._crossed(move):
            place, count = self._places[i], self._count[i]
            into, out = place[move.target], place[move.source]
            if self._apart[i]:
                if count[into] >= self._most[i].get(into, self._limit[i]):
                    return i
            elif i in self._busy or self._distinct_after(i, into, out) < self._least[i]:
                return i
        return None

    def _distinct_after(self, i: int, into: int, out: int) -> int:
        count = self._count[i]
        return len(count) + (into not in count) - (count[out] == 1)

    def enter(self, move: Move) -> None:
        """Count a task on the place it moves to, too."""
        for i in self._crossed(move):
            if move.target >= 0:
                self._count[i][self._places[i][move.target]] += 1
            self._busy.add(i)

    def leave(self, move: Move) -> None:
        """Count a task no longer on the place it came from; its move has ended."""
        for i in self._crossed(move):
            self._busy.discard(i)
            self._drop(i, self._places[i][move.source])

    def _crossed(self, move: Move) -> list[int]:
        """Sets for which a move changes the place."""
        return [
            i
            for i in self.of.get(move.task, ())
            if self._places[i][move.source] != self._places[i][move.target]
        ]

    def _drop(self, i: int, place: int) -> None:
        if place < 0:
            return
        count = self._count[i]
        count[place] -= 1
        if not count[place]:
            del count[place]
