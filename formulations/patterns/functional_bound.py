"""Lagrangian bound by dynamic programming over (node, integer total).

The linear relaxation loses that an integer number of nodes shares an integer demand. A *functional*
``φ(y) = Σ_g w_g y_g`` with whole, non-negative weights (the number of tasks, a rounded load, the
tasks of some classes) adds up over the nodes to the known total ``Σ_g w_g |g|`` in every
allocation. For prices π,

    Σ_g π_g |g| + max { Σ_n (gain(y_n) − π·y_n) : Σ_n φ(y_n) = φ(sizes) }

is therefore an upper bound; it is at least as sharp as the Lagrangian bound of the master, and any
whole weights are valid. The maximum is a dynamic program over the nodes. The same tables say in
O(1) how good an allocation that uses a given pattern can be, which filters the patterns. Two
functionals at once are a table with two indices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.patterns.convolution import (
    NONE,
    best_per_total,
    forward,
    rest_of,
    walk_back,
)

if TYPE_CHECKING:
    from formulations.patterns.clock import Clock
    from formulations.patterns.pool import Pool
    from formulations.patterns.problem import Counts, Floats, PatternProblem

STALLED = 4
"""Subgradient steps without progress before the step is halved."""


@dataclass(frozen=True, eq=False)
class FunctionalBound:
    """A bound and what it says of each pattern.

    Attributes
    ----------
    bound
        Upper bound on the scaled gain of allocations made of the pool's patterns.
    price
        (G,) prices it holds for.
    reach
        (P,) upper bound on allocations that use each pattern.
    """

    bound: float
    price: Floats
    reach: Floats


class Functional:
    """One or two whole-numbered functionals on a pool of patterns.

    Parameters
    ----------
    weights
        (2, G) whole, non-negative; a row of zeros makes the table one-dimensional.
    """

    def __init__(self, problem: PatternProblem, pool: Pool, weights: Counts) -> None:
        self.problem, self.pool = problem, pool
        self.rows, self.width = (int(t) + 1 for t in weights @ problem.sizes)
        self.first, self.second = (pool.counts @ weights.T).T
        self.step_rows = int(self.first.max(initial=0)) + 1
        self.step_width = int(self.second.max(initial=0)) + 1
        self.owner = problem.class_of_node()

    @property
    def work(self) -> float:
        """Inner steps of one evaluation, about."""
        totals = np.unique(self.first * self.step_width + self.second).size
        return float(self.problem.num_nodes) * self.rows * self.width * totals

    @property
    def cells(self) -> float:
        """Table entries kept."""
        return float(self.problem.num_nodes + 1) * self.rows * self.width

    def evaluate(self, price: Floats) -> tuple[FunctionalBound, Counts]:
        """Return the bound for given prices, and the tasks its best sequence of nodes uses."""
        problem, value = self.problem, self.pool.value(price)
        num_classes = problem.num_node_classes
        steps = np.full((num_classes, self.step_rows, self.step_width), NONE)
        which = np.full(steps.shape, -1, dtype=np.int64)
        for k in range(num_classes):
            mine = np.flatnonzero(self.pool.node_class == k)
            steps[k], local = best_per_total(
                self.first[mine], self.second[mine], value[mine], self.step_rows, self.step_width
            )
            which[k][local >= 0] = mine[local[local >= 0]]
        tables = np.full((problem.num_nodes + 1, self.rows, self.width), NONE)
        tables[0, 0, 0] = 0.0
        forward(tables, steps, self.owner)
        offset = float(price @ problem.sizes)
        used = walk_back(tables, steps, which, self.owner, self.pool.counts)
        bound = offset + float(tables[-1, -1, -1])
        return FunctionalBound(bound, price, self._reach(tables, steps, value, offset)), used

    def _reach(self, tables: Floats, steps: Floats, value: Floats, offset: float) -> Floats:
        """(P,) best allocation that uses each pattern: its value and that of all other nodes."""
        problem = self.problem
        reach = np.full(len(self.pool), NONE)
        ends = np.cumsum(problem.nodes)
        after = np.full((problem.num_nodes + 1, self.rows, self.width), NONE)
        after[0, 0, 0] = 0.0
        if problem.num_node_classes > 1:
            forward(after, steps, self.owner[::-1].copy())
        for k in range(problem.num_node_classes):
            mine = np.flatnonzero(self.pool.node_class == k)
            if len(mine) == 0:
                continue
            behind = after[problem.num_nodes - ends[k]]
            before = tables[ends[k] - 1]
            if k == problem.num_node_classes - 1:  # nothing comes after: read it off
                left = before[::-1, ::-1]
                rest = np.full((self.step_rows, self.step_width), NONE)
                part = left[: self.step_rows, : self.step_width]
                rest[: part.shape[0], : part.shape[1]] = part
            else:
                rest = rest_of(before, behind, self.step_rows, self.step_width)
            reach[mine] = value[mine] + rest[self.first[mine], self.second[mine]] + offset
        return reach


def sharpened(
    functional: Functional, price: Floats, floor: float, steps: int, clock: Clock
) -> FunctionalBound:
    """Improve the prices by subgradient steps towards ``floor``, a value known to be reached.

    The direction is the demand minus what the best sequence of nodes uses; every step gives a valid
    bound, the least one is returned.
    """
    sizes = functional.problem.sizes
    best: FunctionalBound | None = None
    centre, length, stalled = price, 1.0, 0
    for _ in range(steps):
        found, used = functional.evaluate(price)
        if best is None or found.bound < best.bound - 1e-9:
            best, centre, stalled = found, price, 0
        else:
            stalled += 1
        slope = (sizes - used).astype(np.float64)
        if best.bound <= floor + 1e-9 or not slope.any() or clock.over():
            break
        if stalled >= STALLED:
            length, stalled, price = 0.5 * length, 0, centre
            continue
        goal = max(floor, 0.0) if np.isfinite(floor) else 0.0
        price = price - length * (found.bound - goal) / float(slope @ slope) * slope
    assert best is not None
    return best


def whole_weights(problem: PatternProblem, most_states: int) -> list[Counts]:
    """Weights (G,) worth trying for one functional: the number of tasks, and rounded loads."""
    ones = np.ones(problem.num_classes, dtype=np.int64)
    found = [ones]
    for r in range(problem.load.shape[1]):
        load = problem.load[:, r]
        if not (load > 0).any():
            continue
        unit = load[load > 0].min()
        for factor in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16):
            for rounding in (np.floor, np.ceil):
                weights = rounding(load / unit * factor + (1e-9 if rounding is np.floor else -1e-9))
                weights = weights.astype(np.int64)
                weights //= max(1, int(np.gcd.reduce(weights)))
                small = int(weights @ problem.sizes) < most_states
                if small and not any((weights == w).all() for w in found):
                    found.append(weights)
    return found
