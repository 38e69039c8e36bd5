"""Exact rebalancing where many key groups are equal: by what nodes hold of each class.

Equal key groups are interchangeable, so a placement is described by its counts, and the migrations
it takes are those by which a node holds fewer than now. A dynamic programme takes one node after
the other and keeps, for the counts still to be placed, the least load left on leaving nodes for
each number of migrations. With bisection on the load distance over the values that nodes can have,
all levels of `balance-milp` are solved exactly, without a solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.rebalancing.balance.model import BalanceAnswer, LevelAnswer
from optim.util.compiled import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.rebalancing.balance.model import Settings
    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints


#: Vectors of counts, and of these times migrations, up to which the programme is used.
MAX_VECTORS, MAX_STATES = 50_000, 2_000_000

#: Patterns over all nodes, and nodes, up to which it is.
MAX_PATTERNS, MAX_NODES = 400_000, 64


@dataclass(frozen=True)
class Window:
    """What is asked of a placement: the greatest load above and below a share, and what is left."""

    over: float
    under: float
    left: float = np.inf


def few_classes(problem: BalanceProblem) -> bool:
    """Whether `solve_by_classes` takes a problem: few classes, budgets of equal prices."""
    if problem.num_tasks == 0 or problem.num_nodes > MAX_NODES or problem.counted is not None:
        return False
    if problem.uneven.any():  # it counts moves
        return False
    counts = count_classes(problem)
    vectors = counts.num_vectors
    return (
        vectors <= MAX_VECTORS
        and vectors * problem.num_nodes <= MAX_PATTERNS
        and vectors * (1 + (problem.most_moved or 0)) <= MAX_STATES
    )


def solve_by_classes(
    problem: BalanceProblem, settings: Settings, starts: Sequence[Ints] = ()
) -> BalanceAnswer | None:
    """Solve all levels exactly; ``None`` where the form does not suit (`few_classes`).

    Parameters
    ----------
    problem
        What to rebalance.
    settings
        `deadline` and `offer` are read. The weighted objective and emptying first are not solved
        in this form.
    starts
        Placements to begin from; the better they are, the less there is to look at.
    """
    unsuitable = settings.objective != "lexicographic" or settings.drain_first
    if unsuitable or not few_classes(problem):
        return None
    return _Solving(problem, settings, starts).answer()


class _Solving:
    """One solve: the counts, the best placement so far, and the levels."""

    def __init__(self, problem: BalanceProblem, settings: Settings, starts: Sequence[Ints]) -> None:
        self.problem, self.settings = problem, settings
        self.counts: Counts = count_classes(problem)
        self.budget = problem.most_moved
        self.best: Ints | None = None
        self.late = False
        for start in starts:
            if problem.is_feasible(start):
                self._take(start)

    def answer(self) -> BalanceAnswer:
        """Solve one level after the other."""
        answer = BalanceAnswer(solver="counts of classes")
        try:
            self._solve(answer)
        except KeyboardInterrupt:
            if answer.levels:
                answer.levels[-1].termination = "interrupted"
            else:
                answer.levels.append(LevelAnswer("distance", None, None, "interrupted"))
        answer.placement = self.best
        if self.best is not None:
            reached = self.problem.levels(self.best)
            sums = {
                "distance": reached.distance, "left": reached.left,
                "sides": reached.over + reached.under,
            }  # fmt: skip
            for level in answer.levels:
                level.value = sums[level.goal]
                if level.bound is not None:
                    level.bound = min(level.bound, level.value)
        return answer

    def _solve(self, answer: BalanceAnswer) -> None:
        problem = self.problem
        roof = problem.most_distance
        if self.best is None and not self._reach(Window(roof, roof)):
            answer.levels.append(
                LevelAnswer("distance", None, None, "time_limit" if self.late else "infeasible")
            )
            return
        distance, proven = self._least_distance()
        answer.levels.append(LevelAnswer("distance", distance, proven, self._why()))
        if problem.has_leaving and not self.late:
            assert self.best is not None
            # the programme keeps the least left of all within the distance
            self._reach(Window(distance, distance))
            left = problem.levels(self.best).left
            proven_left = None if self.late else left
            answer.levels.append(LevelAnswer("left", left, proven_left, self._why()))
        if self.settings.sides and not self.late:
            sides = self._least_sides(distance)
            answer.levels.append(
                LevelAnswer("sides", sides, None if self.late else sides, self._why())
            )

    def _why(self) -> str:
        return "time_limit" if self.late else "optimal"

    def _least_distance(self) -> tuple[float, float]:
        """Bisect on the breaches that nodes can have; return the best and what is proven."""
        assert self.best is not None
        values = self._breaches()
        best = self.problem.levels(self.best).distance
        low, high = 0, int(np.searchsorted(values, best - self.problem.same))
        # all below `low` are refuted; `high` is beyond the last that would be better
        while low < high and not self.late:
            middle = (low + high) // 2
            if self._reach(Window(float(values[middle]), float(values[middle]))):
                best = self.problem.levels(self.best).distance
                high = min(middle, int(np.searchsorted(values, best - self.problem.same)))
            elif not self.late:
                low = middle + 1
        proven = best if low >= high else float(values[low])
        return best, min(best, proven)

    def _breaches(self) -> Floats:
        """Return the breaches that nodes can have, ascending."""
        problem = self.problem
        found = [
            np.maximum(p.deviation, 0.0) if problem.leaving[i] else np.abs(p.deviation)
            for i, p in enumerate(self.counts.patterns)
        ]
        return np.unique(np.concatenate(found))

    def _least_sides(self, distance: float) -> float:
        """Least sum of both sides: one is the load distance, the other as small as can be."""
        assert self.best is not None
        problem, values = self.problem, self._breaches()
        left = problem.levels(self.best).left if problem.has_leaving else np.inf
        # one side is the load distance: first the upper one, then the lower one is held there
        for upper in (True, False):
            low, high = 0, int(np.searchsorted(values, distance + problem.same, side="right"))
            while low < high and not self.late:
                middle = (low + high) // 2
                side = float(values[middle])
                window = Window(distance, side, left) if upper else Window(side, distance, left)
                if self._reach(window):
                    high = middle
                else:
                    low = middle + 1
        reached = problem.levels(self.best)
        return reached.over + reached.under

    def _take(self, placement: Ints) -> None:
        problem = self.problem
        levels = problem.levels(placement)
        if self.best is None or problem.is_better(levels, problem.levels(self.best)):
            self.best = placement
            if self.settings.offer is not None:
                self.settings.offer(placement)

    def _reach(self, window: Window) -> bool:
        """Look for a placement within a window, the least left on leaving nodes; take it."""

        counts, budget = self.counts, -1 if self.budget is None else self.budget
        chosen = self._within(window)
        if chosen is None:
            return False
        # everything is left to place, nothing has moved
        states = np.array([counts.num_vectors - 1])
        moves, left = np.zeros(1, np.int64), np.zeros(1)
        history = []
        for number, pattern_moves, pattern_left in chosen:
            if self._out_of_time():
                return False
            best = np.full((counts.num_vectors, 1 + max(0, budget)), np.inf)
            states, moves, left, origin, taken = advance(
                states, moves, left, counts.digits, number, pattern_moves, pattern_left, best,
                budget,
            )  # fmt: skip
            history.append((origin, taken))
            if not len(states):
                return False
        done = np.flatnonzero(states == 0)
        if not len(done):
            return False
        at = int(done[np.argmin(left[done])])
        if left[at] > window.left + self.problem.same:
            return False
        # backwards through the history: which pattern each node has taken
        numbers = np.empty(self.problem.num_nodes, dtype=np.int64)
        for node in range(self.problem.num_nodes - 1, -1, -1):
            origin, taken = history[node]
            numbers[node] = taken[at]
            at = int(origin[at])
        self._take(counts.placement(numbers))
        return True

    def _within(self, window: Window) -> list[tuple[Ints, Ints, Floats]] | None:
        """Return the patterns of each node within a window; ``None`` if a node has none."""
        same, found = self.problem.same, []
        for node, patterns in enumerate(self.counts.patterns):
            inside = patterns.deviation <= window.over + same
            if not self.problem.leaving[node]:
                inside &= patterns.deviation >= -window.under - same
            if not inside.any():
                return None
            part = patterns.number[inside], patterns.moves[inside], patterns.left[inside]
            found.append(part)
        return found

    def _out_of_time(self) -> bool:
        remaining = self.settings.remaining()
        self.late = self.late or (remaining is not None and remaining <= 0.0)
        return self.late


class Patterns(NamedTuple):
    """What one node may hold: vectors of counts by number, and what each of them means.

    Attributes
    ----------
    number, moves, left, deviation
        (P,) the vector, key groups that leave the node, load it keeps of a leaving node, and its
        deviation from the node's share.
    """

    number: Ints
    moves: Ints
    left: Floats
    deviation: Floats


@dataclass(frozen=True)
class Counts:
    """A problem's key groups as counts of classes.

    Attributes
    ----------
    problem
        The problem.
    class_of
        (T,) class: equal load, cost, usage, allowed nodes, and, where it matters, the same kind of
        home.
    example
        (C,) a key group of each class.
    """

    problem: BalanceProblem
    class_of: Ints
    example: Ints

    @cached_property
    def total(self) -> Ints:
        """(C,) key groups of each class."""
        return np.bincount(self.class_of, minlength=len(self.example))

    @cached_property
    def at_home(self) -> Ints:
        """(N, C) key groups of each class at home on each node."""
        found = np.zeros((self.problem.num_nodes, len(self.example)), dtype=np.int64)
        np.add.at(found, (self.problem.home, self.class_of), 1)
        return found

    @cached_property
    def radix(self) -> Ints:
        """(C,) value of each digit of a vector's number."""
        return np.concatenate([[1], np.cumprod(self.total + 1)[:-1]]).astype(np.int64)

    @property
    def num_vectors(self) -> int:
        """Vectors of counts that there are."""
        product = 1
        for count in self.total.tolist():
            product *= count + 1
        return product

    @cached_property
    def digits(self) -> Ints:
        """(S, C) the counts of each number."""
        return np.arange(self.num_vectors)[:, None] // self.radix % (self.total + 1)

    @cached_property
    def patterns(self) -> list[Patterns]:
        """What each node may hold within its capacities, least loads and allowed sets."""
        return [self._patterns_of(node) for node in range(self.problem.num_nodes)]

    def _patterns_of(self, node: int) -> Patterns:
        problem, digits = self.problem, self.digits
        fits = np.ones(len(digits), dtype=np.bool_)
        usage = digits @ problem.usage[self.example]
        fits &= (usage <= problem.headroom[node]).all(axis=1)
        if not problem.leaving[node]:
            fits &= (usage >= problem.floor[node]).all(axis=1)
        # whether a key group may stay where it is follows from its allowed set, not by its class
        barred = ~np.array([self._may_hold(int(task), node) for task in self.example])
        fits &= (digits[:, barred] == 0).all(axis=1)
        number = np.flatnonzero(fits)
        load = digits[number] @ problem.load[self.example]
        moves = np.maximum(0, self.at_home[node] - digits[number]).sum(axis=1)
        left = load if problem.leaving[node] else np.zeros(len(number))
        deviation = load + problem.background[node] - problem.share[node]
        return Patterns(number, moves, left, deviation)

    def _may_hold(self, task: int, node: int) -> bool:
        problem = self.problem
        closed = problem.leaving[node] and not problem.into_leaving
        if closed and not problem.leaving[problem.home[task]]:
            return False
        return task not in problem.allowed or node in problem.allowed[task]

    def placement(self, numbers: Ints) -> Ints:
        """Return a placement in which node i holds the counts numbered `numbers[i]`.

        Key groups stay at home where the counts let them.
        """
        problem = self.problem
        placement = problem.home.copy()
        held = self.digits[numbers]
        for c in range(len(self.example)):
            tasks = np.flatnonzero(self.class_of == c)
            order = tasks[np.argsort(problem.home[tasks], kind="stable")]
            home = problem.home[order]
            # the first ones of each node stay, as many as it holds afterwards
            rank = np.arange(len(order)) - np.searchsorted(home, home)
            moved = order[rank >= held[home, c]]
            wanted = np.maximum(0, held[:, c] - self.at_home[:, c])
            placement[moved] = np.repeat(np.arange(problem.num_nodes), wanted)
        return placement


def count_classes(problem: BalanceProblem) -> Counts:
    """Group the key groups that are interchangeable."""
    rows = [tuple(sorted(nodes.tolist())) for nodes in problem.allowed.values()]
    names = {row: number for number, row in enumerate(sorted(set(rows)))}
    allowed = np.full(problem.num_tasks, -1)
    allowed[problem.restricted] = [names[row] for row in rows]
    drained = np.zeros(problem.num_tasks)
    if problem.has_leaving and not problem.into_leaving:
        drained = problem.leaving[problem.home].astype(np.float64)
    features = np.column_stack([problem.load, problem.usage, allowed, drained])
    _, example, class_of = np.unique(features, axis=0, return_index=True, return_inverse=True)
    return Counts(problem, class_of.ravel().astype(np.int64), example.astype(np.int64))


@kernel(steps=lambda states, patterns: 10 * len(states) * len(patterns))
def advance(
    states: Any,
    moves: Any,
    left: Any,
    digits: Any,
    patterns: Any,
    pattern_moves: Any,
    pattern_left: Any,
    best: Any,
    max_moves: Any,
) -> Any:
    """Take every pattern of one node out of every state; keep what is not dominated.

    Parameters
    ----------
    states, moves, left
        (A,) number of the counts that are left to place, migrations so far, and load left on
        leaving nodes so far.
    digits
        (S, C) counts of each numbered state.
    patterns, pattern_moves, pattern_left
        (P,) what the node may hold, as a number, with the migrations away from the node and the
        load it leaves on a leaving one.
    best
        (S, M + 1) least load left with so many migrations, inf everywhere; overwritten. M = 0
        where migrations do not count.
    max_moves
        Budget; negative where migrations do not count.

    Returns
    -------
    tuple
        The same three arrays after the node, and for each entry the entry and the pattern it came
        from.
    """
    count = 0
    origin = np.full(best.shape, -1, np.int64)
    taken = np.full(best.shape, -1, np.int64)
    for a in range(len(states)):
        for p in range(len(patterns)):
            at = patterns[p]
            # the pattern may hold no more of any class than is left to place
            fits = True
            for c in range(digits.shape[1]):
                if digits[at, c] > digits[states[a], c]:
                    fits = False
                    break
            if not fits:
                continue
            spent = 0 if max_moves < 0 else moves[a] + pattern_moves[p]
            if max_moves >= 0 and spent > max_moves:
                continue
            rest = states[a] - at
            value = left[a] + pattern_left[p]
            if value < best[rest, spent]:
                if origin[rest, spent] < 0:
                    count += 1
                best[rest, spent] = value
                origin[rest, spent] = a
                taken[rest, spent] = at
    new_states, new_moves = np.empty(count, np.int64), np.empty(count, np.int64)
    new_left, come_from = np.empty(count), np.empty(count, np.int64)
    by = np.empty(count, np.int64)
    at = 0
    for rest in range(best.shape[0]):
        least = np.inf
        for spent in range(best.shape[1]):
            # more migrations that leave no less behind are dominated
            if best[rest, spent] < least:
                least = best[rest, spent]
                new_states[at], new_moves[at], new_left[at] = rest, spent, least
                come_from[at], by[at] = origin[rest, spent], taken[rest, spent]
                at += 1
    return new_states[:at], new_moves[:at], new_left[:at], come_from[:at], by[:at]
