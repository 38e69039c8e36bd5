"""How much may come onto each node, and leave it, while moves run: kept up to date move by move.

While a batch runs, each of its tasks counts on both of its nodes for what is limited upwards, and
on neither for what is limited downwards: so every subset of the batch, done or under way, keeps the
rules (`between`), and a batch of one move is held to neither more nor less than them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.figures.measures import node_loads
from optim.rules import LINKS, MAX_LOAD_DISTANCE, SLOTS
from optim.rules.base import slack
from optim.rules.placement import Placement
from optim.stepping.counts import SetCounts
from optim.stepping.move import Blocked, Move

if TYPE_CHECKING:
    from collections.abc import Iterable

    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.violation import Violation
    from optim.stepping.between import Between

_DRIFT = 1e-12
"""Rounding of sums that are kept by adding and taking away, beside what they add up to."""


class Room:
    """A placement on the way, and which moves it allows.

    Parameters
    ----------
    between
        The rules of the way; the placement is its start.
    each
        Moves that a node takes part in at a time.
    transient
        Whether a moving task needs its place on both of its nodes.
    """

    def __init__(self, between: Between, each: int = 1, transient: bool = False) -> None:
        self.between, self.each, self.transient = between, each, transient
        instance = between.instance
        self.node = between.start.copy()
        self.batch: list[Move] = []
        self._sets = SetCounts(between)
        self._bounds = _Bounds(between)
        load = self._bounds.amounts(self.node)
        self._high: list[list[float]] = load.tolist()
        self._low: list[list[float]] = load.tolist()
        self._upper: list[list[float]] = self._bounds.upper.tolist()
        self._lower: list[list[float]] = self._bounds.lower.tolist()
        counted = np.ones((instance.num_tasks, 1))
        self._load: list[list[float]] = np.hstack([instance.tasks.load, counted]).tolist()
        self._busy: dict[int, int] = {}
        self.judged = self._bounds.needs_referee()

    def fits(self, move: Move) -> bool:
        """Whether a move may run beside those of the batch."""
        busy, each = self._busy, self.each
        if busy.get(move.target, 0) >= each or busy.get(move.source, 0) >= each:
            return False
        if self.judged and self.batch:
            return False
        load = self._load[move.task]
        for has, more, most in zip(
            self._high[move.target], load, self._upper[move.target], strict=True
        ):
            if has + more > most:
                return False
        if move.source >= 0:
            for has, less, least in zip(
                self._low[move.source], load, self._lower[move.source], strict=True
            ):
                if has - less < least:
                    return False
        if self._sets.of and self._sets.blocks(move) is not None:
            return False
        return not (self.judged and self._verdict(move))

    def _verdict(self, move: Move) -> list[Violation]:
        after = self.node.copy()
        after[move.task] = move.target
        return self.between.worse(after)

    def begin(self, move: Move) -> None:
        """Take a move into the batch."""
        self._add(self._high, move.target, move.task, 1)
        self._add(self._low, move.source, move.task, -1)
        for n in (move.source, move.target):
            if n >= 0:
                self._busy[n] = self._busy.get(n, 0) + 1
        self._sets.enter(move)
        self.batch.append(move)

    def end(self) -> list[Move]:
        """Finish the batch, and return its moves."""
        done, self.batch = self.batch, []
        for move in done:
            self._add(self._low, move.target, move.task, 1)
            self._add(self._high, move.source, move.task, -1)
            self._sets.leave(move)
            self.node[move.task] = move.target
        self._busy.clear()
        return done

    def _add(self, table: list[list[float]], node: int, task: int, sign: int) -> None:
        if node >= 0:
            row = table[node]
            for k, load in enumerate(self._load[task]):
                row[k] += sign * load

    def make(self, move: Move) -> None:
        """Make one move by itself."""
        self.begin(move)
        self.end()

    def load_of(self, task: int) -> Floats:
        """(K,) what a task brings to a node, of each amount that is bounded."""
        return np.array(self._load[task])

    def safe(self, move: Move, coming: Floats, going: Floats) -> bool:
        """Whether a move that fits can be made first at no loss, whatever order the rest take.

        Parameters
        ----------
        move
            Which.
        coming, going
            (K,) what all moves that are left, this one too, bring to its target, and take from its
            source: the one has room for all of it, and the other can spare all of it.
        """
        if self.judged or move.task in self._sets.of:
            return False
        high, upper = self._high[move.target], self._upper[move.target]
        if any(h + c > u for h, c, u in zip(high, coming, upper, strict=True)):
            return False
        if move.source < 0:
            return True
        low, lower = self._low[move.source], self._lower[move.source]
        return all(h - g >= least for h, g, least in zip(low, going, lower, strict=True))

    def free(self, some: Bools) -> Floats:
        """(K,) minus what the nodes of a mask have free of the first resource."""
        chosen = np.flatnonzero(some).tolist()
        return np.array([self._high[n][0] - self._upper[n][0] for n in chosen])

    def why(self, move: Move, rest: Iterable[Move]) -> Blocked | None:
        """Tell what a move alone would break, and which of the rest could mend that."""
        rest = [other for other in rest if other is not move]
        found = self._verdict(move)
        if not found:
            return None
        v = found[0]
        gone = tuple(other for other in rest if other.source == move.target)
        filled = tuple(other for other in rest if other.target == move.source)
        waits = filled if v.rule == "min_load" else gone
        return Blocked(move, v.rule, v.where, v.needed, v.available, waits or gone + filled)


class _Bounds:
    """(N, R + 1) most and least of every resource and of the number of tasks on each node."""

    def __init__(self, between: Between) -> None:
        self.instance = instance = between.instance
        nodes, limits = instance.nodes, instance.limits
        ends = np.stack([self.amounts(between.start), self.amounts(between.goal)])
        most, least = ends.max(axis=0), ends.min(axis=0)
        capacity = nodes.capacity * limits.max_utilisation
        tasks = np.where(nodes.max_tasks >= 0, nodes.max_tasks, np.inf)
        upper = np.column_stack([capacity + slack(capacity, instance.totals), tasks])
        floor = np.where(instance.open_nodes[:, None], nodes.min_load, 0.0)
        lower = np.where(floor > 0, floor - slack(floor, instance.totals), -np.inf)
        lower = np.column_stack([lower, np.full(instance.num_nodes, -np.inf)])
        self.upper = np.maximum(upper, most * (1 + _DRIFT))
        self.lower = np.minimum(lower, least * (1 - _DRIFT))
        self._between = between
        self._distance()
        crossing = np.flatnonzero(instance.crossing_cost.any(axis=0))
        self.upper[:, crossing], self.lower[:, crossing] = np.inf, -np.inf  # no sums of tasks

    def amounts(self, node: Ints) -> Floats:
        """(N, R + 1) loads and numbers of tasks."""
        count = np.bincount(node[node >= 0], minlength=self.instance.num_nodes)
        return np.column_stack([node_loads(self.instance, node), count])

    def _distance(self) -> None:
        """A bound on the load distance is a most and a least of the first resource."""
        instance, limit = self.instance, self.instance.limits.max_load_distance
        if limit is None or instance.mean_load is None:
            return
        limit += float(slack(limit, instance.totals[0]))
        for node in (self._between.start, self._between.goal):
            limit = max(limit, Placement(instance, node).distance or 0.0)
        limit *= 1 + _DRIFT
        mean = instance.nodes.weight * instance.mean_load
        self.upper[:, 0] = np.minimum(self.upper[:, 0], mean + limit)
        low = np.where(instance.open_nodes, mean - limit, -np.inf)
        self.lower[:, 0] = np.maximum(self.lower[:, 0], low)

    def needs_referee(self) -> bool:
        """Whether there are rules that these bounds do not say."""
        instance = self.instance
        moving = self._between.start < 0
        distance = MAX_LOAD_DISTANCE.present(instance) is not None and bool(moving.any())
        slots = SLOTS.present(instance) is not None
        slots |= instance.limits.max_tasks_per_slot is not None
        links = LINKS.present(instance) is not None
        return bool(distance or slots or links or instance.crossing_cost.any())
