"""Exact rebalancing where many key groups are equal: by what nodes hold of each class.

Equal key groups are interchangeable, so a placement is told by its counts, and the migrations it
takes are those by which a node holds fewer than now. A dynamic programme takes one node after the
other and keeps, for the counts still to be placed, the least load left on leaving nodes for each
number of migrations. With bisection on the load distance over the values that nodes can have, all
levels of `balance-milp` are solved exactly, without a solver.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.balance.counts import count_classes
from formulations.rebalancing.balance.settings import BalanceAnswer, LevelAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.rebalancing.balance.counts import Counts
    from formulations.rebalancing.balance.settings import Settings
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
    """Whether `solve_by_classes` takes a problem: few classes, and at most one kind of budget."""
    if problem.num_tasks == 0 or problem.num_nodes > MAX_NODES or problem.counted is not None:
        return False
    if problem.max_cost is not None and (problem.cost <= 0).any():
        return False
    counts = count_classes(problem)
    vectors = counts.num_vectors
    return (
        vectors <= MAX_VECTORS
        and vectors * problem.num_nodes <= MAX_PATTERNS
        and vectors * (1 + (_move_budget(problem) or 0)) <= MAX_STATES
        and (problem.max_cost is None or bool(np.ptp(problem.cost) == 0))
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


def _move_budget(problem: BalanceProblem) -> int | None:
    """Migrations allowed by either budget; all costs are equal. ``None`` without a budget."""
    budgets = [] if problem.max_moves is None else [problem.max_moves]
    if problem.max_cost is not None and problem.num_tasks:
        budgets.append(int(problem.most_cost / float(problem.cost[0])))
    return min([*budgets, problem.num_tasks]) if budgets else None


class _Solving:
    """One solve: the counts, the best placement so far, and the levels."""

    def __init__(self, problem: BalanceProblem, settings: Settings, starts: Sequence[Ints]) -> None:
        self.problem, self.settings = problem, settings
        self.counts: Counts = count_classes(problem)
        self.budget = _move_budget(problem)
        self.best: Ints | None = None
        self.late = False
        for start in starts:
            if problem.is_feasible(start):
                self._take(start)

    def answer(self) -> BalanceAnswer:
        """Solve one level after the other."""
        begun = time.perf_counter()
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
        answer.solve_seconds = time.perf_counter() - begun
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
        if not self.late:
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
        from formulations.rebalancing.balance.counts_kernel import advance

        counts, budget = self.counts, -1 if self.budget is None else self.budget
        chosen = self._within(window)
        if chosen is None:
            return False
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
