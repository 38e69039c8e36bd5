"""Exact dynamic program over (node, tasks of each class placed so far), for small problems.

The state is the whole vector of counts, so nothing is relaxed: the table's last entry is the
optimum.  A box of states is walked for each pattern, the last class in the inner loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from formulations.patterns.pool import Pool
    from formulations.patterns.problem import Counts, PatternProblem

MOST_CELLS = 2_000_000
MOST_WORK = 30_000_000


@helper
def _offset(counts, strides):  # type: ignore[no-untyped-def]
    total = 0
    for g in range(len(counts)):
        total += counts[g] * strides[g]
    return total


@helper
def _add_pattern(table, into, sizes, strides, counts, gain, digits):  # type: ignore[no-untyped-def]
    """``into[s + counts] = max(into[s + counts], table[s] + gain)`` for every state with room."""
    last = len(sizes) - 1
    for g in range(last + 1):
        if counts[g] > sizes[g]:
            return
    shift = _offset(counts, strides)
    width = sizes[last] - counts[last] + 1
    for g in range(last + 1):
        digits[g] = 0
    while True:
        start = _offset(digits, strides)
        for s in range(start, start + width):
            value = table[s] + gain
            if value > into[s + shift]:
                into[s + shift] = value
        g = last - 1
        while g >= 0:
            if digits[g] < sizes[g] - counts[g]:
                digits[g] += 1
                break
            digits[g] = 0
            g -= 1
        if g < 0:
            return


@kernel
def fill_and_trace(sizes, counts, node_class, gain, owner):  # type: ignore[no-untyped-def]
    """Fill the table for the nodes in order and walk back.

    Parameters
    ----------
    sizes, counts, node_class, gain
        (G,), (P, G), (P,), (P,) as in the pool.
    owner
        (N,) class of each node.

    Returns
    -------
    tuple
        Best gain (``-inf`` when nothing places all tasks) and the (N,) patterns of the nodes.
    """
    num_classes, num_nodes = len(sizes), len(owner)
    strides = np.ones(num_classes, dtype=np.int64)
    for g in range(num_classes - 2, -1, -1):
        strides[g] = strides[g + 1] * (sizes[g + 1] + 1)
    states = strides[0] * (sizes[0] + 1)
    table = np.full((num_nodes + 1, states), -np.inf)
    table[0, 0] = 0.0
    digits = np.zeros(num_classes, dtype=np.int64)
    for n in range(num_nodes):
        for p in range(len(gain)):
            if node_class[p] == owner[n]:
                _add_pattern(table[n], table[n + 1], sizes, strides, counts[p], gain[p], digits)
    chosen = np.full(num_nodes, -1, dtype=np.int64)
    best = table[num_nodes, states - 1]
    left = np.zeros(num_classes, dtype=np.int64)
    for g in range(num_classes):
        left[g] = sizes[g]
    if best > -np.inf:
        for n in range(num_nodes - 1, -1, -1):
            here = _offset(left, strides)
            found, value = -1, -np.inf
            for p in range(len(gain)):
                fits = node_class[p] == owner[n]
                for g in range(num_classes):
                    fits = fits and counts[p, g] <= left[g]
                if not fits:
                    continue
                total = table[n, here - _offset(counts[p], strides)] + gain[p]
                if total > value:
                    found, value = p, total
            chosen[n] = found
            for g in range(num_classes):
                left[g] -= counts[found, g]
    return best, chosen


def affordable(problem: PatternProblem, pool: Pool) -> bool:
    """Whether the table is small enough."""
    states = float(np.prod(problem.sizes.astype(np.float64) + 1.0))
    uses = float(np.bincount(pool.node_class, minlength=problem.num_node_classes) @ problem.nodes)
    return states * (problem.num_nodes + 1) <= MOST_CELLS and states * uses <= MOST_WORK


def best_choice(problem: PatternProblem, pool: Pool) -> tuple[float, Counts | None]:
    """Return the best gain over a pool and its (N, G) contents; ``-inf`` and ``None`` for none."""
    best, chosen = fill_and_trace(
        problem.sizes, pool.counts, pool.node_class, pool.gain, problem.class_of_node()
    )
    if best == -np.inf:
        return -np.inf, None
    return float(best), pool.counts[chosen]
