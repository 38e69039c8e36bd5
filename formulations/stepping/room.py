"""How much may come onto each node, and leave it, while moves run: kept up to date move by move.

While a batch runs, each of its tasks counts on both of its nodes for what is limited upwards, and
on neither for what is limited downwards: so every subset of the batch, done or under way, keeps the
rules (`between`), and a batch of one move is held to neither more nor less than them.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from formulations.stepping.counts import SetCounts
from formulations.stepping.link_sums import LinkSums
from formulations.stepping.move import Blocked, Step
from optim.figures.measures import node_loads
from optim.rules import LINKS, MAX_LOAD_DISTANCE, SLOTS
from optim.rules.placement import Placement
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from formulations.stepping.between import Between
    from formulations.stepping.waiting import Waiting
    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.violation import Violation

_Change = tuple[int, list[float], list[float], list[float]]
_DRIFT = 1e-12
"""Rounding of sums that are kept by adding and taking away, beside what they add up to."""
TOGETHER_JUDGED = 3
"""Steps of a batch at most where the referee judges every subset of it."""
REFUSED = 8
"""Steps that it finds not to fit beside a batch, after which no more are tried."""


class Room:
    """A placement on the way, and which moves it allows.

    Parameters
    ----------
    between
        The rules of the way; the placement is its start.
    each
        Moves that a node takes part in at a time.
    """

    def __init__(self, between: Between, each: int = 1) -> None:
        self.between, self.each = between, each
        instance = between.instance
        self.node = between.start.copy()
        self.batch: list[Step] = []
        self._sets = SetCounts(between)
        self._links = LinkSums.of(between)
        self._bounds = _Bounds(between)
        load = self._bounds.amounts(self.node)
        self._high: list[list[float]] = load.tolist()
        self._low: list[list[float]] = load.tolist()
        self._upper: list[list[float]] = self._bounds.upper.tolist()
        self._lower: list[list[float]] = self._bounds.lower.tolist()
        counted = np.ones((instance.num_tasks, 1))
        self._load: list[list[float]] = np.hstack([instance.tasks.load, counted]).tolist()
        self._busy: dict[int, int] = {}
        self._refused = 0
        self.judged, self._by_node = self._bounds.needs_referee(summed=self._links is not None)
        self._by_node &= each == 1

    @property
    def is_slow(self) -> bool:
        """Whether a look at a step takes much longer than a few sums."""
        return self.judged or self._links is not None

    def fill(self, waiting: Waiting) -> None:
        """Take into the batch what fits, and out of what waits.

        What each node keeps by itself is judged for all steps at once: they are on different nodes,
        so that what is broken tells whose it is.
        """
        if not self.judged or not self._by_node:
            waiting.take(list(self._fitting(waiting)))
            return
        left = waiting.numbers()
        while left:
            taken, rest = [], []
            for number in left:
                if self._sums_fit(step := waiting[number]):
                    self.begin(step)
                    taken.append(step)
                else:
                    rest.append(number)
            wrong = self._wrong(taken)
            for step in wrong:
                self._cancel(step)
            if not wrong:
                break
            left = rest  # some may fit now
        done = set(self.batch)
        waiting.take([number for number in waiting.numbers() if waiting[number] in done])

    def _fitting(self, waiting: Waiting) -> Iterator[int]:
        """Take into the batch what fits, and tell its numbers."""
        busy = np.zeros(self.between.instance.num_nodes + 1, dtype=np.bool_)
        for number in waiting.off(busy):
            if self.fits(step := waiting[number]):
                self.begin(step)
                for node in itertools.chain(*(move[1:] for move in step)):
                    busy[node] = self._busy.get(node, 0) >= self.each
                yield number

    def _wrong(self, steps: list[Step]) -> list[Step]:
        """Return the steps, on different nodes, that break what a node keeps by itself."""
        if not steps or not self._verdict(tuple(itertools.chain(*steps))):
            return []
        half = len(steps) // 2
        return self._wrong(steps[:half]) + self._wrong(steps[half:]) if half else steps

    def fits(self, step: Step) -> bool:
        """Whether a step may run beside those of the batch."""
        full = len(self.batch) >= TOGETHER_JUDGED and not self._by_node
        if self.judged and (full or self._refused >= REFUSED):
            return False
        if not self._sums_fit(step):
            return False
        if not self.judged or not self._breaks_any(step):
            return True
        self._refused += bool(self.batch)
        return False

    def _sums_fit(self, step: Step) -> bool:
        changes, busy, each = self._changes(step), self._busy, self.each
        if any(busy.get(node, 0) >= each for node, *_ in changes):
            return False
        for node, more, less, _ in changes:
            if more and any(map(_beyond, self._high[node], more, self._upper[node])):
                return False
            if less and any(map(_below, self._low[node], less, self._lower[node])):
                return False
        if self._sets.of and self._sets.blocks(step) is not None:
            return False
        return self._links is None or self._links.fits(step, self.node)

    def _changes(self, step: Step) -> list[_Change]:
        """Return, by node, what a step may add while it runs, take away, and adds in the end.

        A node that one replica leaves and another of the step comes to never bears both.
        """
        if len(step) == 1:
            ((task, source, target),) = step
            load = self._load[task]
            gone = [-x for x in load]
            both: list[_Change] = [(target, load, [], load), (source, [], load, gone)]
            return [change for change in both if change[0] >= 0]
        net: dict[int, Floats] = {}
        for task, source, target in step:
            for node, sign in ((source, -1), (target, 1)):
                if node >= 0:
                    net[node] = net.get(node, 0.0) + sign * np.array(self._load[task])
        return [
            (node, np.maximum(x, 0.0).tolist(), np.maximum(-x, 0.0).tolist(), x.tolist())
            for node, x in net.items()
        ]

    def _breaks_any(self, step: Step) -> bool:
        """Whether the step, on top of any of the batch's, breaks what no sums say.

        What each node keeps by itself the step keeps beside others that are on other nodes.
        """
        if self._by_node:
            return bool(self._verdict(step))
        return any(
            self._verdict((*(move for other in some for move in other), *step))
            for size in range(len(self.batch) + 1)
            for some in itertools.combinations(self.batch, size)
        )

    def _verdict(self, step: Step) -> list[Violation]:
        after = self.node.copy()
        for move in step:
            after[move.task] = move.target
        return self.between.worse(after)

    def begin(self, step: Step) -> None:
        """Take a step into the batch."""
        for node, more, less, _ in self._changes(step):
            _add(self._high[node], more)
            _add(self._low[node], less, -1)
            self._busy[node] = self._busy.get(node, 0) + 1
        self._sets.enter(step)
        if self._links is not None:
            self._links.enter(step, self.node)
        self.batch.append(step)

    def _cancel(self, step: Step) -> None:
        """Take a step out of the batch again."""
        for node, more, less, _ in self._changes(step):
            _add(self._high[node], more, -1)
            _add(self._low[node], less)
            self._busy[node] -= 1
        self._sets.cancel(step)
        if self._links is not None:
            self._links.cancel(step, self.node)
        self.batch.remove(step)

    def end(self) -> list[Step]:
        """Finish the batch, and return its steps."""
        done, self.batch = self.batch, []
        if self._links is not None:
            self._links.end(done, self.node)
        for step in done:
            for node, more, less, net in self._changes(step):
                if less:
                    _add(self._high[node], more, -1)
                    _add(self._high[node], net)
                if more:
                    _add(self._low[node], less)
                    _add(self._low[node], net)
            self._sets.leave(step)
            for move in step:
                self.node[move.task] = move.target
        self._busy.clear()
        self._refused = 0
        return done

    def make(self, step: Step) -> None:
        """Make one step by itself."""
        self.begin(step)
        self.end()

    def load_of(self, task: int) -> Floats:
        """(K,) what a task brings to a node, of each amount that is bounded."""
        return np.array(self._load[task])

    def safe(self, step: Step, coming: Floats, going: Floats) -> bool:
        """Whether a step that fits can be made first at no loss, whatever order the rest take.

        Parameters
        ----------
        step
            Which.
        coming, going
            (K,) what all moves that are left, this one too, bring to its target, and take from its
            source: the one has room for all of it, and the other can spare all of it.
        """
        move = step[0]
        if self.is_slow or len(step) > 1 or move.task in self._sets.of:
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

    def why(self, step: Step, rest: Iterable[Step]) -> Blocked | None:
        """Tell what a step alone would break, and which moves of the rest could mend that."""
        others = [move for other in rest if other is not step for move in other]
        found = self._verdict(step)
        if not found:
            return None
        v = found[0]
        targets, sources = ({getattr(m, end) for m in step} for end in ("target", "source"))
        gone = tuple(move for move in others if move.source in targets)
        filled = tuple(move for move in others if move.target in sources)
        waits = filled if v.rule == "min_load" else gone
        return Blocked(step[0], v.rule, v.where, v.needed, v.available, waits or gone + filled)


def _add(row: list[float], load: Sequence[float], sign: int = 1) -> None:
    for k, x in enumerate(load):
        row[k] += sign * x


def _beyond(has: float, more: float, most: float) -> bool:
    return has + more > most


def _below(has: float, less: float, least: float) -> bool:
    return has - less < least


class _Bounds:
    """(N, R + 1) most and least of every resource and of the number of tasks on each node."""

    def __init__(self, between: Between) -> None:
        self.instance = instance = between.instance
        nodes, limits = instance.nodes, instance.limits
        ends = np.stack([self.amounts(between.start), self.amounts(between.goal)])
        most, least = ends.max(axis=0), ends.min(axis=0)
        capacity = nodes.capacity * limits.max_utilisation
        tasks = np.where(nodes.max_tasks >= 0, nodes.max_tasks, np.inf)
        upper = np.column_stack([capacity + slack(capacity), tasks])
        floor = np.where(instance.open_nodes[:, None], nodes.min_load, 0.0)
        lower = np.where(floor > 0, floor - slack(floor), -np.inf)
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
        for node in (self._between.start, self._between.goal):
            limit = max(limit, Placement(instance, node).distance or 0.0)
        limit *= 1 + _DRIFT
        due = instance.due
        self.upper[:, 0] = np.minimum(self.upper[:, 0], due + limit + slack(due + limit))
        low = due - limit - slack(np.maximum(due, limit))
        low = np.where(instance.open_nodes, low, -np.inf)
        self.lower[:, 0] = np.maximum(self.lower[:, 0], low)

    def needs_referee(self, *, summed: bool) -> tuple[bool, bool]:
        """Whether there are rules that these bounds do not say, and each node keeps by itself.

        Parameters
        ----------
        summed
            Whether loads of links are summed up elsewhere.
        """
        instance = self.instance
        moving = self._between.start < 0
        distance = MAX_LOAD_DISTANCE.present(instance) is not None and bool(moving.any())
        slots = SLOTS.present(instance) is not None
        slots |= instance.limits.max_tasks_per_slot is not None
        links = LINKS.present(instance) is not None and not summed
        whole = bool(distance or links or instance.crossing_cost.any())
        workers = bool((instance.topologies.workers >= 0).any())
        return whole or slots, not whole and not workers
