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
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.column_generation.bound import (
    Functional,
    FunctionalBound,
    sharpened,
    whole_weights,
)
from formulations.column_generation.integer import IN_PROCESS, choose
from formulations.column_generation.problem import ROUNDING, Rows, of_nodes
from formulations.column_generation.search import feasible
from optim.referee.result import Termination

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from formulations.column_generation.integer import Backend, Chosen
    from formulations.column_generation.master import Root
    from formulations.column_generation.problem import (
        Clock,
        Counts,
        Floats,
        PatternProblem,
        Pool,
        Pricer,
    )


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
class Incumbent:
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

    def record(self, answer: Chosen) -> None:
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
        self.take_bound(self.bound)
        if self.found is not None:
            self.found(counts)
        return True

    def take_bound(self, bound: float) -> None:
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


def prove(
    incumbent: Incumbent,
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
    most = most or max(1, MOST_COUNTS // incumbent.problem.num_classes)
    while not incumbent.closed and not incumbent.clock.over():
        pool, target = _largest_pool(incumbent, pricer, root, most)
        if pool is None or target >= previous:
            return  # what is left does not fit into memory
        _close_pool(incumbent, pool, root, target, backend, narrow)
        if target <= incumbent.value:
            return  # the pool held everything better than what is in hand
        previous = target


def _largest_pool(
    incumbent: Incumbent, pricer: Pricer, root: Root, most: int
) -> tuple[Pool | None, float]:
    """Enumerate what can beat the value in hand, or a higher target if that is too much."""
    target = incumbent.value
    for _ in range(40):
        slack = root.bound - target
        threshold = root.highest - slack - ROUNDING
        pool = pricer.enumerate(root.price, root.side, threshold, most)
        if pool is not None:
            return pool, target
        if incumbent.clock.over():
            break
        low = target if np.isfinite(target) else root.bound - 2.0 * (1.0 + abs(root.bound))
        target = 0.5 * (low + root.bound)
    return None, target


def _close_pool(
    incumbent: Incumbent,
    pool: Pool,
    root: Root,
    target: float,
    backend: Backend,
    narrow: Narrow | None,
) -> None:
    """Prove the best allocation above a target, from patterns that contain all better ones."""
    survivors = Survivors(incumbent, pool, root.bound - root.loss(pool, incumbent.rows), target)
    if len(survivors.pool) > STAGES[0] and narrow is None:
        _filter(survivors, root.price, backend)
    for size in (*STAGES, len(pool)):
        if incumbent.closed or incumbent.clock.over():
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
    incumbent = survivors.incumbent
    survivors.cut()
    pool, reach, goal = survivors.pool, survivors.reach, survivors.goal
    whole = len(pool) <= size
    if not whole:
        goal = float(np.partition(reach, -size - 1)[-size - 1])
        pool = pool.only(reach > goal + ROUNDING)
    part = within(pool, goal)
    answer = choose(
        incumbent.problem, part, incumbent.clock, backend, incumbent.counts,
        rows=incumbent.rows, node_limit=node_limit,
    )  # fmt: skip
    kind = "integer program" if node_limit is None else "short try"
    incumbent.stages.append(f"{kind} over {len(part)} patterns")
    incumbent.offer(answer.counts)
    incumbent.take_bound(max(goal, answer.bound))
    incumbent.record(answer)
    survivors.cut()
    return not answer.stopped, whole


def _filter(survivors: Survivors, price: Floats, backend: Backend) -> None:
    """Filter pass by pass, with a short try of the integer program where that may do."""
    incumbent = survivors.incumbent
    many = incumbent.problem.num_classes >= MANY_CLASSES
    most = IN_PROCESS if many else SHORT_PATTERNS
    tried = np.inf
    for passed in chain((False,), filter_passes(survivors, price)):
        if passed:
            incumbent.take_bound(max(survivors.bound, survivors.target))
            incumbent.stages.append(f"filtered to {len(survivors.pool)} patterns")
        if incumbent.closed or survivors.few:
            return
        if len(survivors.pool) <= min(10 * most, SHRUNK * tried):
            tried = len(survivors.pool)
            _stage(survivors, backend, most, node_limit=SHORT_TRY)


FEW = 200
"""Patterns that an integer program takes without further filter_passes."""

MOST_CELLS = 2e7
LIGHT_WORK, HEAVY_WORK = 3e7, 1.5e9
"""Inner steps of one evaluation of a functional: some milliseconds, some seconds."""

MOST_STATES = 4000
HALVING = ((1000, 1), (12, 5), (3, 25))
"""Functionals kept and subgradient steps of each round."""

_SPLITS = 16


class Survivors:
    """A pool with the reach of each pattern, cut down by one bound after another.

    Attributes
    ----------
    pool, reach
        Patterns that contain every allocation better than the target, and their reach.
    target
        What is to be beaten, beside the value in hand.
    bound
        Bound on every allocation better than the target (the target when nothing survives).
    """

    def __init__(self, incumbent: Incumbent, pool: Pool, reach: Floats, target: float) -> None:
        self.incumbent, self.pool, self.reach, self.target = incumbent, pool, reach, target
        self.bound = float(reach.max(initial=-np.inf))
        self.cut()

    @property
    def goal(self) -> float:
        """The larger of the target and the value in hand."""
        return max(self.target, self.incumbent.value)

    @property
    def few(self) -> bool:
        """Whether there is no need to filter, or no time."""
        return len(self.pool) <= FEW or self.incumbent.closed or self.incumbent.clock.over()

    def cut(self) -> None:
        """Drop the patterns that cannot beat the goal any more."""
        keep = self.reach > self.goal + ROUNDING
        self.pool, self.reach = self.pool.only(keep), self.reach[keep]
        if len(self.pool) == 0:
            self.bound = self.goal

    def functional(self, weights: Counts, most_work: float) -> Functional | None:
        """Set up a functional on the survivors, or ``None`` if its table would be too large."""
        problem = self.incumbent.problem
        totals = weights @ problem.sizes + 1
        if float(problem.num_nodes + 1) * float(totals[0]) * float(totals[1]) > MOST_CELLS:
            return None
        made = Functional(problem, self.pool, weights)
        return made if made.work <= most_work else None

    def take(self, found: FunctionalBound) -> None:
        """Let a bound on the survivors count."""
        self.bound = min(self.bound, max(found.bound, self.goal))
        self.reach = np.minimum(self.reach, found.reach)
        self.cut()


def filter_passes(survivors: Survivors, price: Floats) -> Iterator[bool]:
    """Filter in passes: one functional, cheap pairs of two, dear pairs; yields after each.

    Parameters
    ----------
    survivors
        Changed in place.
    price
        (G,) prices to begin with.
    """
    problem = survivors.incumbent.problem
    weights = whole_weights(problem, MOST_STATES)
    singles = [np.stack([np.zeros_like(w), w]) for w in weights]
    price, best = _pass(survivors, singles, price, HEAVY_WORK)
    yield True
    splits = list(_splits(problem, best))
    for most_work in (LIGHT_WORK, HEAVY_WORK):
        price, _ = _pass(survivors, splits, price, most_work)
        yield True


def _pass(
    survivors: Survivors, candidates: list[Counts], price: Floats, most_work: float
) -> tuple[Floats, list[Counts]]:
    """Sharpen the bounds of many functionals a little, of the best few more.

    Returns the prices of the best bound, and the weights, best first.
    """
    clock = survivors.incumbent.clock
    merit = [(0.0, i, price) for i in range(len(candidates))]
    for kept, steps in HALVING:
        tried = []
        for _, i, at in merit[:kept]:
            functional = None
            if not survivors.few:
                functional = survivors.functional(candidates[i], most_work)
            if functional is not None:
                found = sharpened(functional, at, survivors.goal, steps, clock)
                survivors.take(found)
                tried.append((found.bound, i, found.price))
        if not tried:
            break
        merit = sorted(tried, key=lambda entry: entry[:2])
    return merit[0][2] if merit else price, [candidates[i] for _, i, _ in merit]


def _splits(problem: PatternProblem, singles: list[Counts]) -> Iterator[Counts]:
    """Split good one-dimensional weights into two: some classes in the one, the rest in the other.

    Splits along weak ties come first: classes that talk much stay together.
    """
    chosen = singles[:2]
    ones = np.ones(problem.num_classes, dtype=np.int64)
    if not any((w[1] == ones).all() for w in chosen):
        chosen.append(np.stack([np.zeros_like(ones), ones]))
    sides = sorted(_sides(problem), key=lambda side: (_cut(problem, side), side.tolist()))
    for weights in chosen:
        for side in sides[:_SPLITS]:
            yield np.stack([weights[1] * ~side, weights[1] * side])


def _sides(problem: PatternProblem) -> Iterator[NDArray[Any]]:
    """Halves of the classes, without their complements; all of them while they are few."""
    count = problem.num_classes
    largest = count // 2 if count <= 8 else 2
    seen: set[bytes] = set()
    for size in range(1, largest + 1):
        for pick in combinations(range(count), size):
            side = np.zeros(count, dtype=np.bool_)
            side[list(pick)] = True
            if (~side).tobytes() not in seen:
                seen.add(side.tobytes())
                yield side


def _cut(problem: PatternProblem, side: NDArray[Any]) -> float:
    weighed = problem.rate * np.outer(problem.sizes, problem.sizes)
    return float(weighed[np.ix_(side, ~side)].sum())
