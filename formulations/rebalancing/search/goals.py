"""Bisection on the load distance: a compiled search goes from the start to one goal after another.

Each attempt begins anew, so every migration is spent on the goal itself and none on a coarser one
before it. Attempts are made in slices, between which the clock is read.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.rebalancing.search.arrays import fixed_part, state_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.rebalancing.problem import BalanceProblem, Ints
    from formulations.rebalancing.watch import Watch


class Stage(NamedTuple):
    """One bisection: nodes to look at for an exchange, how far below the best it begins (a factor),
    and how near its ends get to each other (a factor)."""

    partners: int
    reach: float
    near: float


STAGES = (Stage(12, math.inf, 1.1), Stage(24, 1.25, 1.03), Stage(48, 1.1, 1.01))

#: The first goal, as a part of the mean load, and the steps down from there.
FIRST, STEP = 0.01, 0.4

#: Key groups of a node that are looked at.
LOOK_AT = 512

#: Nodes mended, or rounds poured, between two looks at the clock.
SLICE, ROUNDS = 256, 8

#: Passes over the nodes above a goal.
PASSES = 10

#: The first goal is not below this part of the mean load.
FLOOR = 1e-4


class GoalSearch:
    """Attempts at goals from one start.

    Parameters
    ----------
    problem
        What to rebalance.
    start
        (T,) placement that every attempt begins from.
    seed
        Of the random partners.
    watch
        Clock; an attempt that runs out of time ends where it is.
    """

    def __init__(self, problem: BalanceProblem, start: Ints, seed: int, watch: Watch) -> None:
        self._watch = watch
        self._order = np.lexsort((problem.load, problem.home))
        numbered = _renumbered(problem, self._order)
        self._fixed = fixed_part(numbered)
        self._begin = np.searchsorted(numbered.home, np.arange(problem.num_nodes + 1))
        self._start = start[self._order].astype(np.int64)
        # all are at home: nobody from elsewhere is in a list
        state = state_of(numbered, numbered.home, seed * 2 + 1)
        first, after, before = (np.full_like(a, -1) for a in state[4:7])
        self._state = state._replace(first=first, after=after, before=before)

    def attempt(self, goal: float, partners: int, *, pours: bool = True) -> float:
        """Go from the start towards a goal; return the load distance reached.

        Without pouring only nodes beyond the goal are changed, so that less is moved.
        """
        from formulations.rebalancing.search import pour as compiled

        fixed, begin, state, n = self._fixed, self._begin, self._state, len(self._begin) - 1
        compiled.set_to(fixed, state, self._start)
        while pours and not self._watch.over():
            if not compiled.pour(fixed, begin, state, goal, ROUNDS):
                break
        patience = 8 + n // 50
        for _ in range(PASSES):
            order, at, hot, mended = compiled.by_height(state), 0, 0, 0
            while at < n and hot - mended <= patience and not self._watch.over():
                met, done, at = compiled.mend_some(
                    fixed, begin, state, goal, order, partners, patience, LOOK_AT, at, SLICE
                )
                hot, mended = hot + met, mended + done
            if mended == 0 or hot - mended > patience or self._watch.over():
                break
        deviation = state.deviation
        breach = np.where(fixed.leaving, np.maximum(deviation, 0.0), np.abs(deviation))
        return float(breach.max())

    def placement(self) -> Ints:
        """Return the placement that the last attempt reached."""
        result = np.empty_like(self._state.place)
        result[self._order] = self._state.place
        return result


def bisect_goals(
    problem: BalanceProblem,
    start: Ints,
    seed: int,
    target: float,
    watch: Watch,
    take: Callable[[Ints], None],
) -> None:
    """Attempt goals between a bound and the start's load distance, ever closer; `take` what is met.

    Parameters
    ----------
    problem, start, seed, watch
        As in `GoalSearch`.
    target
        A proven lower bound.
    take
        Called with each placement that is better than those before.
    """
    best = problem.levels(start).distance
    if not problem.num_tasks or best <= target + 1e-9:
        return
    search = GoalSearch(problem, start, seed, watch)
    floor = max(target, FLOOR * problem.mean, 1e-9)
    low, high = floor, max(best, floor)

    def try_goal(goal: float, partners: int) -> None:
        nonlocal best, low, high
        reached = search.attempt(goal, partners)
        if reached < best * (1.0 - 1e-9):
            best = reached
            take(search.placement())
        if reached <= goal * (1.0 + 1e-9) + 1e-12:
            high = min(goal, reached)
        else:
            low = goal
            high = max(low, min(high, reached))

    if target > 0.0:
        try_goal(floor * (1.0 + 1e-9), STAGES[0].partners)
    # downwards in long steps first: goals that are met take less time than those that are not
    step = FIRST * problem.mean
    while high > low * STAGES[0].near and not watch.over():
        step = max(min(step, high * STEP), low)
        try_goal(step, STAGES[0].partners)
        if high > step:
            break
    for stage in STAGES:
        if stage.reach < math.inf:
            low = max(floor, high / stage.reach)
        while high > low * stage.near and not watch.over():
            try_goal(math.sqrt(low * high), stage.partners)


def _renumbered(problem: BalanceProblem, order: Ints) -> BalanceProblem:
    """Return the problem with its key groups in another order."""
    row = problem.row_of[order]
    restricted = np.flatnonzero(row >= 0)
    rows = [
        problem.allowed_nodes[problem.allowed_indptr[r] : problem.allowed_indptr[r + 1]]
        for r in row[restricted].tolist()
    ]
    return replace(
        problem,
        load=problem.load[order],
        cost=problem.cost[order],
        home=problem.home[order],
        usage=problem.usage[order],
        restricted=restricted,
        allowed_indptr=np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64),
        allowed_nodes=np.concatenate([np.zeros(0, np.int64), *rows]),
        counted=None if problem.counted is None else problem.counted.reordered(order),
    )
