"""Room of nodes and links while moves run, updated move by move.

While a batch runs, each of its tasks counts on both of its nodes for what is limited upwards, and
on neither for what is limited downwards: so every subset of the batch, done or under way, keeps the
rules (`between`), and a batch of one move is held to neither more nor less than them.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.figures.measures import TOLERANCE, link_loads, node_loads, slack
from optim.format.tables import APART, TOGETHER
from optim.rules import (
    LINKS,
    MAX_LOAD_DISTANCE,
    MOVE_RULES,
    SLOTS,
    Form,
    broken,
    rules_of,
    undecided,
    without_limits,
)
from optim.rules.placement import Placement
from optim.rules.sets import places_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.base import Violation


_Change = tuple[int, list[float], list[float], list[float]]
_DRIFT = 1e-12
"""Rounding of sums that are updated by adding and taking away, beside what they add up to."""
TOGETHER_JUDGED = 3  # Steps of a batch at most where the referee judges every subset of it.
REFUSED = 8  # Steps that it finds not to fit beside a batch, after which no more are tried.


class Room:
    """A placement on the way, and which moves it allows.

    `between`: the rules of the way; the placement is its start.
    `each`: moves that a node takes part in at a time.
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
        so that a violation names its owner.
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
        """Take into the batch what fits, and report its numbers."""
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
        """Return, by node, what a step may add while it runs, take away, and adds in the end."""
        # a node that one replica leaves and another of the step comes to never bears both
        if len(step) == 1:
            ((task, source, target),) = step
            load = self._load[task]
            removal = [-x for x in load]
            both: list[_Change] = [(target, load, [], load), (source, [], load, removal)]
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
        """Whether the step, on top of any of the batch's, breaks what no sums say."""
        # what each node keeps by itself the step keeps beside others that are on other nodes
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

        `coming`, `going`: (K,) what all moves that are left, this one too, bring to its target, and
            take from its source: the one has room for all of it, and the other can spare all of it.
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
        """Report what a step alone would break, and which moves of the rest could mend that."""
        others = [move for other in rest if other is not step for move in other]
        violations = self._verdict(step)
        if not violations:
            return None
        v = violations[0]
        targets, sources = ({getattr(m, end) for m in step} for end in ("target", "source"))
        departures = tuple(move for move in others if move.source in targets)
        arrivals = tuple(move for move in others if move.target in sources)
        waits = arrivals if v.rule == "min_load" else departures
        return Blocked(
            step[0], v.rule, v.where, v.needed, v.available, waits or departures + arrivals
        )


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

        `summed`: whether loads of links are summed up elsewhere.
        """
        instance = self.instance
        moving = self._between.start < 0
        distance = MAX_LOAD_DISTANCE.present(instance) is not None and bool(moving.any())
        slots = SLOTS.present(instance) is not None
        slots |= instance.limits.max_tasks_per_slot is not None or bool(instance.slot_sets.ids)
        links = LINKS.present(instance) is not None and not summed
        whole = bool(distance or links or instance.crossing_cost.any())
        workers = bool((instance.topologies.workers >= 0).any())
        return whole or slots, not (whole or workers or instance.slot_sets.ids)


# Sets on the way: how many members of a set are on each place, and what may be.


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


# Traffic over links on the way: what each step changes, without judging a whole placement.
#
# Steps of a batch whose tasks talk to none of one another change links independently, so that their
# increases add up to the most that any subset of them brings; others never share a batch.

MOST = 5_000_000  # Pairs of tasks that talk, up to which they are spread out.

_IN, _OUT = 1, 2
"""Directions that do not count: what leaves a link's nodes is nothing to one of direction 2."""


class LinkSums:
    """Loads of the links while a batch of moves is made.

    `between`: the rules of the way; its start is where the tasks are.
    """

    def __init__(self, between: Between) -> None:
        instance = between.instance
        links = instance.links
        self._load = link_loads(instance, between.start)
        available = links.capacity * instance.limits.max_link_utilisation
        ends = np.maximum(self._load, link_loads(instance, between.goal)) * (1 + _DRIFT)
        self._most = np.maximum(available + slack(available), ends)
        self._high = self._load.copy()
        self._direction = links.direction.tolist()
        self._behind: list[tuple[int, ...]] = [() for _ in range(instance.num_nodes + 1)]
        for i in np.flatnonzero(np.isfinite(links.capacity)).tolist():
            for n in links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]].tolist():
                self._behind[n] = (*self._behind[n], i)
        source, target, rate = instance.flows.directed()
        moving = between.start != between.goal
        some = moving[source] | moving[target]
        self._source, self._target = source[some].tolist(), target[some].tolist()
        self._rate: list[float] = rate[some].tolist()
        self._of: dict[int, list[int]] = defaultdict(list)
        for k, ends_of in enumerate(zip(self._source, self._target, strict=True)):
            for task in set(ends_of):
                self._of[task].append(k)
        self._busy: set[int] = set()

    @classmethod
    def of(cls, between: Between) -> LinkSums | None:
        """Return the sums; ``None`` where no link binds, or too many tasks talk."""
        instance, flows = between.instance, between.instance.flows
        exact = flows.num_pairs <= MOST and not flows.local  # else the referee is asked
        return cls(between) if LINKS.present(instance) is not None and exact else None

    def fits(self, step: Step, node: Ints) -> bool:
        """Whether a step keeps every link, beside any of the batch.

        `node`: (T,) where tasks are before the batch.
        """
        busy = self._busy
        if busy and any(
            self._source[k] in busy or self._target[k] in busy
            for move in step
            for k in self._of[move.task]
        ):
            return False
        change = self._change(step, node)
        return all(x <= 0 or self._high[i] + x <= self._most[i] for i, x in change.items())

    def enter(self, step: Step, node: Ints) -> None:
        """Count what a step of the batch brings."""
        for i, x in self._change(step, node).items():
            self._high[i] += max(x, 0.0)
        self._busy.update(move.task for move in step)

    def cancel(self, step: Step, node: Ints) -> None:
        """Take a step out of the batch again."""
        for i, x in self._change(step, node).items():
            self._high[i] -= max(x, 0.0)
        self._busy.difference_update(move.task for move in step)

    def end(self, steps: Iterable[Step], node: Ints) -> None:
        """Finish the batch; `node` is still where tasks were before it."""
        for step in steps:
            for i, x in self._change(step, node).items():
                self._load[i] += x
        self._high = self._load.copy()
        self._busy.clear()

    def _change(self, step: Step, node: Ints) -> dict[int, float]:
        """Return what a step adds to the load of each link that it changes."""
        goes = {move.task: move.target for move in step}
        change: dict[int, float] = defaultdict(float)
        for k in {k for task in goes for k in self._of[task]}:
            u, v = self._source[k], self._target[k]
            a, b = int(node[u]), int(node[v])
            self._count(a, b, -self._rate[k], change)
            self._count(goes.get(u, a), goes.get(v, b), self._rate[k], change)
        return change

    def _count(self, a: int, b: int, rate: float, change: dict[int, float]) -> None:
        """Count a stream from node a to node b on the links between; -1, the last, is nowhere."""
        if a == b:
            return
        left, entered = self._behind[a], self._behind[b]
        for i in left:
            if i not in entered and self._direction[i] != _OUT:
                change[i] += rate
        for i in entered:
            if i not in left and self._direction[i] != _IN:
                change[i] += rate


# Steps that wait for their batch, with their nodes, so that a look at most of them is a mask.

AT_ONCE = 512
"""Steps whose nodes are looked at together; what became busy meanwhile is looked at again."""


class Waiting:
    """Steps in their order, until they are taken."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        ends = [node for step in steps for node in (step[0].source, step[0].target)]
        self._ends = np.array(ends, np.int64).reshape(-1, 2)
        self._left = np.arange(len(steps))

    def __len__(self) -> int:
        return len(self._left)

    def __getitem__(self, number: int) -> Step:
        return self._steps[number]

    def numbers(self) -> list[int]:
        """Return the numbers of those that are left."""
        numbers: list[int] = self._left.tolist()
        return numbers

    def steps(self) -> list[Step]:
        """Return those that are left."""
        return [self._steps[i] for i in self.numbers()]

    def off(self, busy: Bools) -> Iterator[int]:
        """Go through the numbers of the steps that are on no busy node.

        `busy`: (N + 1,) mask of nodes, the last for nowhere, which never is; may change on the way.
        """
        for begin in range(0, len(self._left), AT_ONCE):
            some = self._left[begin : begin + AT_ONCE]
            yield from some[~busy[self._ends[some]].any(axis=1)].tolist()

    def take(self, numbers: Sequence[int]) -> None:
        """Leave steps out, by their numbers in rising order."""
        self._left = np.delete(self._left, np.searchsorted(self._left, numbers))


# What a placement between the present one and a plan must keep: the definition, by the referee.
#
# Budgets of moves are the plan's, so nothing in between is held against them, and tasks that are to
# be together are parted while the first of them has moved and the last has not. All other rules
# bind at every moment. Where the present placement, or the plan, breaks one of these at some place
# by some amount, it may be broken there by as much on the way, and never by more. What a state may
# be does thus not depend on how it was reached: an order of moves is feasible backwards, too.


FINAL_ONLY = (*(rule.name for rule in MOVE_RULES), *rules_of({Form.NODE_COUNT, Form.RESTARTS}))
"""Rules that only the plan must keep, beside sets that are to be ``together``.

Tasks on their way stand on more nodes, and beside others.
"""


class Between:
    """Judges placements on the way from one to another.

    `instance`: its rules and its tasks.
    `start`, `goal`: (T,) node indices; -1 for tasks that are nowhere yet.
    `instance`: without the rules that only the plan must keep.
    `undecided`: whether a placement was refused of which it is not known whether it fits the slots.
    """

    def __init__(self, instance: Instance, start: Ints, goal: Ints) -> None:
        self.undecided = False
        self.instance = _without_together(without_limits(instance, FINAL_ONLY))
        self.start, self.goal = start, goal
        self._nowhere = (start < 0) | (goal < 0)
        self._allowed: dict[tuple[str, str], float] = {}
        for node in (start, goal):
            for v in broken(Placement(self.instance, node), elsewhere=self._nowhere):
                self._allowed[v.key] = max(v.amount, self._allowed.get(v.key, 0.0))

    def worse(self, node: Ints) -> list[Violation]:
        """Return what a placement breaks and neither end does, or breaks more than both."""
        placement = Placement(self.instance, node)
        violations = broken(placement, elsewhere=self._nowhere)
        worse = [v for v in violations if self._exceeds(v)]
        self.undecided |= any(undecided(placement, v) for v in worse)
        return worse

    def _exceeds(self, v: Violation) -> bool:
        allowed = self._allowed.get(v.key)
        return allowed is None or v.amount > allowed + TOLERANCE * max(v.needed, v.available)


def _without_together(instance: Instance) -> Instance:
    nodes, slots = (
        table.only(np.flatnonzero(table.rule != TOGETHER))
        for table in (instance.sets, instance.slot_sets)
    )
    return replace(instance, sets=nodes, slot_sets=slots)


# One move of a task, and why one cannot be made yet.


class Move(NamedTuple):
    """A task from one node to another, by index; a source of -1 is nowhere."""

    task: int
    source: int
    target: int

    def back(self) -> Move:
        """Return the move that takes this one back."""
        return Move(self.task, self.target, self.source)

    def to_dict(self, instance: Instance) -> dict[str, Any]:
        """Return it with names; what is nowhere is ``None``."""
        ids = instance.nodes.ids
        source, target = (ids[n] if n >= 0 else None for n in (self.source, self.target))
        return {"task": instance.tasks.ids[self.task], "from": source, "to": target}


Step = tuple[Move, ...]  # Moves that are made as one; most steps are one move.


def taken_back(step: Step) -> Step:
    """Return the step that takes this one back."""
    return tuple(move.back() for move in reversed(step))


@dataclass(frozen=True)
class Blocked:
    """A move that cannot be made, and what it waits for."""

    move: Move  # Which.
    #: What it would break, as a violation reports it.
    rule: str
    where: str
    needed: float
    available: float
    #: Moves that would have to be made before; some of them, where there are many.
    waits_for: tuple[Move, ...] = ()

    def to_dict(self, instance: Instance) -> dict[str, Any]:
        """Return it as plain data."""
        waits = [move.to_dict(instance) for move in self.waits_for]
        return {
            **self.move.to_dict(instance),
            "rule": self.rule,
            "where": self.where,
            "needed": self.needed,
            "available": self.available,
            "waits_for": waits,
        }
