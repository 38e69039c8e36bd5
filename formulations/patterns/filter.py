"""Which functionals to try, and the patterns that survive them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.patterns.functional_bound import (
    Functional,
    FunctionalBound,
    sharpened,
    whole_weights,
)
from formulations.patterns.problem import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from formulations.patterns.close import Standing
    from formulations.patterns.pool import Pool
    from formulations.patterns.problem import Counts, Floats, PatternProblem

FEW = 200
"""Patterns that an integer program takes without further filtering."""

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

    def __init__(self, standing: Standing, pool: Pool, reach: Floats, target: float) -> None:
        self.standing, self.pool, self.reach, self.target = standing, pool, reach, target
        self.bound = float(reach.max(initial=-np.inf))
        self.cut()

    @property
    def goal(self) -> float:
        """The larger of the target and the value in hand."""
        return max(self.target, self.standing.value)

    @property
    def few(self) -> bool:
        """Whether there is no need to filter, or no time."""
        return len(self.pool) <= FEW or self.standing.closed or self.standing.clock.over()

    def cut(self) -> None:
        """Drop the patterns that cannot beat the goal any more."""
        keep = self.reach > self.goal + ROUNDING
        self.pool, self.reach = self.pool.only(keep), self.reach[keep]
        if len(self.pool) == 0:
            self.bound = self.goal

    def functional(self, weights: Counts, most_work: float) -> Functional | None:
        """Set up a functional on the survivors, or ``None`` if its table would be too large."""
        problem = self.standing.problem
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


def filtering(survivors: Survivors, price: Floats) -> Iterator[bool]:
    """Filter in passes: one functional, cheap pairs of two, dear pairs; yields after each.

    Parameters
    ----------
    survivors
        Changed in place.
    price
        (G,) prices to begin with.
    """
    problem = survivors.standing.problem
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
    clock = survivors.standing.clock
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
