"""Sets on the way: how many members of a set are on each place, and what may be."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from optim.format.tables import APART
from optim.rules.sets import places_of

if TYPE_CHECKING:
    from formulations.stepping.between import Between
    from formulations.stepping.move import Step


class SetCounts:
    """Members of the sets by place, while a batch of moves is made.

    While a batch runs, a member counts on the places of both of its nodes for sets that are apart.
    Of a set that is spread only one member moves at a time; of replicas (members that are apart and
    hold copies of each other) only one step is made at a time, for one of them serves all copies.
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
        self._replicas_of: dict[int, int] = {}
        self._copied: set[int] = set()
        for i, place in enumerate(self._places):
            members = table.tasks_of(i).tolist()
            for t in members:
                self.of[t].append(i)
                if self._apart[i] and t in instance.copy_nodes:
                    self._replicas_of.setdefault(t, i)
            limit = int(table.limit[i])
            now, goal = (
                Counter(place[n] for t in members if (n := int(node[t])) >= 0)
                for node in (between.start, between.goal)
            )
            self._count.append(now)
            self._limit.append(limit)
            self._most.append({p: max(limit, now[p], goal[p]) for p in (*now, *goal)})
            self._least.append(min(limit, len(now), len(goal)))

    def blocks(self, step: Step) -> int | None:
        """Return the set that a step would break, if one."""
        for i in self._copies(step) & self._copied:
            return i
        for i, (more, less) in self._crossed(step).items():
            count = self._count[i]
            if self._apart[i]:
                most, limit = self._most[i], self._limit[i]
                if any(count[p] + n > most.get(p, limit) for p, n in more.items()):
                    return i
            elif i in self._busy or self._distinct_after(i, more, less) < self._least[i]:
                return i
        return None

    def _distinct_after(self, i: int, more: Counter[int], less: Counter[int]) -> int:
        count = self._count[i]
        new = sum(p not in count for p in more)
        return len(count) + new - sum(count[p] == n for p, n in less.items())

    def enter(self, step: Step) -> None:
        """Count tasks on the places they move to, too."""
        self._copied |= self._copies(step)
        for i, (more, _) in self._crossed(step).items():
            self._count[i].update(more)
            self._busy.add(i)

    def cancel(self, step: Step) -> None:
        """Take back `enter`."""
        self._copied -= self._copies(step)
        for i, (more, _) in self._crossed(step).items():
            self._busy.discard(i)
            self._take(i, more)

    def leave(self, step: Step) -> None:
        """Count tasks no longer on the places they came from; their step has ended."""
        self._copied -= self._copies(step)
        for i, (_, less) in self._crossed(step).items():
            self._busy.discard(i)
            self._take(i, less)

    def _copies(self, step: Step) -> set[int]:
        """Return the sets of replicas that a step has part in."""
        return {self._replicas_of[m.task] for m in step if m.task in self._replicas_of}

    def _take(self, i: int, members: Counter[int]) -> None:
        count = self._count[i]
        count.subtract(members)
        for place in members:
            if not count[place]:
                del count[place]

    def _crossed(self, step: Step) -> dict[int, tuple[Counter[int], Counter[int]]]:
        """Return the sets that a step changes: members more, and fewer, by place."""
        change: dict[int, Counter[int]] = {}
        for move in step:
            for i in self.of.get(move.task, ()):
                change.setdefault(i, Counter()).update({self._places[i][move.target]: 1})
                change[i].subtract({self._places[i][move.source]: 1})
        for counts in change.values():
            counts.pop(-1, None)  # nowhere
        return {i: (+counts, -counts) for i, counts in change.items() if any(counts.values())}
