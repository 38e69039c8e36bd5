"""From the root bound to the proof: fixing by reduced cost, functional bounds, integer programs.

Everything turns on one figure a pattern, its *reach*: an upper bound on every allocation that uses
it. Column generation gives ``UB + (value − highest)``, each functional bound another; the least
counts. For any target, an allocation better than the target consists of patterns whose reach
exceeds it. So the integer program over these patterns either finds the best such allocation or
proves ``UB ≤ target``; targets fall from the bound to the best value known, each stage a proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from formulations.patterns.filter import Survivors, filtering
from formulations.patterns.integer import IN_PROCESS, choose
from formulations.patterns.pool import Rows, of_nodes
from formulations.patterns.problem import ROUNDING
from formulations.patterns.start import feasible
from optim.referee.result import Termination

if TYPE_CHECKING:
    from formulations.patterns.clock import Clock
    from formulations.patterns.integer import Backend, Chosen
    from formulations.patterns.master import Root
    from formulations.patterns.pool import Pool, Pricer
    from formulations.patterns.problem import Counts, Floats, PatternProblem

MOST_COUNTS = 40_000_000
"""Counts (patterns × classes) held in memory at once."""

STAGES = (500, 2_000, 8_000, 32_000, 128_000)
"""Sizes of the integer programs tried in turn."""

SHORT_TRY = 300
SHORT_PATTERNS = 800
SHRUNK = 0.8
MANY_CLASSES = 10
"""Branch-and-bound nodes and patterns of a short try of the integer program between the passes of
the filter; how far the pool must have shrunk since the last; with many classes the program is
tight, and takes more patterns."""

OPTIMAL = 1e-7
"""Relative gap that counts as closed; `optim.figures.objectives` asks for 1e-6."""

NEGATIVE = 1e-3
"""A bound further below 0 than this proves that there is no allocation."""


@dataclass(eq=False)
class Standing:
    """The best allocation and the best bound so far, scaled.

    Attributes
    ----------
    counts
        (N, G), nodes listed class by class; ``None`` while there is none.
    value, bound
        Its gain (``-inf`` for none), and the proven bound (``-inf`` when proven infeasible).
    gap, whole
        Relative gap at which to stop, in figures that are `whole` less the gain.
    unplaced
        Least number of tasks that find no place, where the relaxation proves infeasibility.
    stages
        How it was closed, in words.
    rows
        Side rows that allocations keep.
    found
        Called with the counts of each allocation that is better than those before.
    stopped, solver, accepted
        Why the last integer program ended before a proof, if it did; who solved it; whether that
        took a start.
    """

    problem: PatternProblem
    clock: Clock
    counts: Counts | None = None
    value: float = -np.inf
    bound: float = np.inf
    gap: float = 0.0
    whole: float = 0.0
    unplaced: float = 0.0
    stages: list[str] = field(default_factory=list)
    rows: Rows = field(default_factory=Rows)
    found: Callable[[Counts], None] | None = None
    stopped: str = ""
    solver: str | None = None
    accepted: bool | None = None

    def heard(self, answer: Chosen) -> None:
        """Take down what an integer program says beside its counts and its bound."""
        self.stopped = answer.stopped
        self.solver = answer.solver or self.solver
        self.accepted = answer.accepted if self.accepted is None else self.accepted

    def offer(self, counts: Counts | None) -> bool:
        """Take an allocation if it is feasible and better."""
        if counts is None or not feasible(self.problem, counts):
            return False
        pool = of_nodes(self.problem, counts)
        value = float(pool.gain.sum())
        if value <= self.value or not self.rows.hold(pool):
            return False
        self.counts, self.value = counts, value
        self.clock.note(value=value)
        self.prove(self.bound)
        if self.found is not None:
            self.found(counts)
        return True

    def prove(self, bound: float) -> None:
        """Take a bound if it is better; it never falls below the value in hand."""
        if bound < -NEGATIVE:  # no allocation gains less than nothing: there is none
            bound = -np.inf
        if bound <= self.value + ROUNDING:
            bound = self.value
        self.bound = max(min(self.bound, bound), self.value)
        if np.isfinite(self.bound):
            self.clock.note(bound=self.bound)

    def ended(self, *, interrupted: bool = False) -> Termination:
        """Say why the run is over."""
        if self.bound == -np.inf:
            return Termination.INFEASIBLE
        if interrupted or self.stopped == "interrupted":
            return Termination.INTERRUPTED
        if self.closed:
            wide = OPTIMAL * max(1.0, abs(self.whole - self.bound))
            near = self.bound - self.value <= wide
            return Termination.OPTIMAL if near else Termination.GAP_REACHED
        late = self.clock.over() or self.clock.hurried
        return Termination.TIME_LIMIT if late else Termination.ITERATION_LIMIT

    @property
    def closed(self) -> bool:
        """Whether the gap is small enough, or nothing remains to be found."""
        if self.bound == -np.inf:
            return True
        if not np.isfinite(self.value):
            return False
        figures = abs(self.whole - self.value), abs(self.whole - self.bound)
        room = max(ROUNDING, self.gap * max(figures))
        return self.bound - self.value <= room


Narrow = Callable[["Pool", float], "Pool"]
"""Given patterns and a gap: those in some allocation that stays below the bound by no more."""


def close(
    standing: Standing,
    pricer: Pricer,
    root: Root,
    backend: Backend,
    narrow: Narrow | None = None,
    most: int | None = None,
) -> None:
    """Close the gap as far as the clock and the memory allow.

    Parameters
    ----------
    narrow
        Leaves out what is in no allocation within a gap. Without it, functionals filter, which
        know of no side rows.
    most
        Patterns held at once; as many as memory takes by default.
    """
    if not np.isfinite(root.bound):  # the LP solver may have failed before there was a bound
        return
    previous = np.inf
    most = most or max(1, MOST_COUNTS // standing.problem.num_classes)
    while not standing.closed and not standing.clock.over():
        pool, target = _largest_pool(standing, pricer, root, most)
        if pool is None or target >= previous:
            return  # what is left does not fit into memory
        _close_pool(standing, pool, root, target, backend, narrow)
        if target <= standing.value:
            return  # the pool held everything better than what is in hand
        previous = target


def _largest_pool(
    standing: Standing, pricer: Pricer, root: Root, most: int
) -> tuple[Pool | None, float]:
    """Enumerate what can beat the value in hand, or a higher target if that is too much."""
    target = standing.value
    for _ in range(40):
        slack = root.bound - target
        threshold = root.highest - slack - ROUNDING
        pool = pricer.enumerate(root.price, root.side, threshold, most)
        if pool is not None:
            return pool, target
        if standing.clock.over():
            break
        low = target if np.isfinite(target) else root.bound - 2.0 * (1.0 + abs(root.bound))
        target = 0.5 * (low + root.bound)
    return None, target


def _close_pool(
    standing: Standing,
    pool: Pool,
    root: Root,
    target: float,
    backend: Backend,
    narrow: Narrow | None,
) -> None:
    """Prove the best allocation above a target, from patterns that contain all better ones."""
    survivors = Survivors(standing, pool, root.bound - root.loss(pool, standing.rows), target)
    if len(survivors.pool) > STAGES[0] and narrow is None:
        _filter(survivors, root.price, backend)
    for size in (*STAGES, len(pool)):
        if standing.closed or standing.clock.over():
            return

        def within(part: Pool, goal: float) -> Pool:
            finite = narrow is not None and np.isfinite(goal)
            return narrow(part, root.bound - goal) if finite else part  # type: ignore[misc]

        done, whole = _stage(survivors, backend, size, within)
        if whole or not done:
            return


def _stage(
    survivors: Survivors,
    backend: Backend,
    size: int,
    within: Callable[[Pool, float], Pool] = lambda part, goal: part,
    node_limit: int | None = None,
) -> tuple[bool, bool]:
    """Solve the integer program over the patterns of greatest reach.

    Returns whether it came to its end, and whether those were all patterns.
    """
    standing = survivors.standing
    survivors.cut()
    pool, reach, goal = survivors.pool, survivors.reach, survivors.goal
    whole = len(pool) <= size
    if not whole:
        goal = float(np.partition(reach, -size - 1)[-size - 1])
        pool = pool.only(reach > goal + ROUNDING)
    part = within(pool, goal)
    answer = choose(
        standing.problem, part, standing.clock, backend, standing.counts,
        rows=standing.rows, node_limit=node_limit,
    )  # fmt: skip
    kind = "integer program" if node_limit is None else "short try"
    standing.stages.append(f"{kind} over {len(part)} patterns")
    standing.offer(answer.counts)
    standing.prove(max(goal, answer.bound))
    standing.heard(answer)
    survivors.cut()
    return not answer.stopped, whole


def _filter(survivors: Survivors, price: Floats, backend: Backend) -> None:
    """Filter pass by pass, with a short try of the integer program where that may do."""
    standing = survivors.standing
    many = standing.problem.num_classes >= MANY_CLASSES
    most = IN_PROCESS if many else SHORT_PATTERNS
    tried = np.inf
    for passed in chain((False,), filtering(survivors, price)):
        if passed:
            standing.prove(max(survivors.bound, survivors.target))
            standing.stages.append(f"filtered to {len(survivors.pool)} patterns")
        if standing.closed or survivors.few:
            return
        if len(survivors.pool) <= min(10 * most, SHRUNK * tried):
            tried = len(survivors.pool)
            _stage(survivors, backend, most, node_limit=SHORT_TRY)
