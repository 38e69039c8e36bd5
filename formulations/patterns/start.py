"""A good allocation to begin with: first fit, then the search on counts.

Everything here works on counts: (N, G) tasks of each class on each node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.patterns.count_search import search_counts
from optim.util.compiled import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.patterns.problem import Counts, Floats, PatternProblem
    from optim.format.tables import Bools

ROUNDS = 24
"""Kicks of the search; fixed, so that runs repeat."""

STRENGTH = 2
"""Tasks that the smallest kick moves."""

STEPS = 5000
"""Branches tried at most when two nodes are re-optimised or a pattern is built."""

PAIRS = 40_000
"""Pairs of nodes re-optimised in all before a proof is tried; counts and no times, so that runs
repeat."""

MOST_NODES = 4000
"""More nodes than this, and no pairs are looked at: the search remembers each of them."""

ENDLESS = 1 << 60

EVERYWHERE = np.zeros((0, 0), dtype=np.bool_)


@kernel
def first_fit(sizes, load, limit, most, owner, order):  # type: ignore[no-untyped-def]
    """Put the classes, in an order, on the first nodes that take them.

    Returns
    -------
    tuple
        (N, G) counts and the number of tasks left over.
    """
    num_nodes, num_classes, num_resources = len(owner), len(sizes), load.shape[1]
    counts = np.zeros((num_nodes, num_classes), dtype=np.int64)
    used = np.zeros((num_nodes, num_resources))
    left_over = 0
    for g in order:
        left = sizes[g]
        for n in range(num_nodes):
            k = owner[n]
            while left > 0 and counts[n, g] < most[k, g]:
                fits = True
                for r in range(num_resources):
                    if used[n, r] + load[g, r] > limit[k, r]:
                        fits = False
                if not fits:
                    break
                for r in range(num_resources):
                    used[n, r] += load[g, r]
                counts[n, g] += 1
                left -= 1
            if left == 0:
                break
        left_over += left
    return counts, left_over


def bounds_of(problem: PatternProblem) -> tuple[Floats, Floats, Bools]:
    """(N, R) what nodes may hold, minus what they must; (G, N) where classes may go, or (0, 0)."""
    owner = problem.class_of_node()
    allowed = np.ascontiguousarray(problem.most[owner].T > 0)
    return problem.limit[owner], -problem.least[owner], EVERYWHERE if allowed.all() else allowed


def searched(
    problem: PatternProblem,
    starts: Sequence[Counts],
    rounds: int,
    seed: int,
    *,
    shares: Sequence[float] = (),
    pool: int = 0,
    pairs: int = ENDLESS,
) -> tuple[Counts | None, Counts]:
    """Settle the starts and constructions, and kick the best.

    Parameters
    ----------
    starts
        (N, G) allocations that keep all bounds.
    rounds, seed
        Kicks, and of what they draw.
    shares
        Of constructions, as in `formulations.patterns.count_search.fill_by_patterns`.
    pool
        Contents of nodes that are remembered at most.
    pairs
        Of nodes that are re-optimised at most.

    Returns
    -------
    tuple
        The best allocation, ``None`` if no construction was complete; (P, G) the contents met.
    """
    met = np.full((pool, problem.num_classes), -1, dtype=np.int64)
    table = np.array(starts, dtype=np.int64).reshape(-1, problem.num_nodes, problem.num_classes)
    total = 0.5 * float(problem.sizes @ problem.rate @ problem.sizes)
    _, best, index = search_counts(
        problem.sizes, problem.load, problem.rate, *bounds_of(problem),
        np.array(shares, dtype=np.float64), table, rounds, STRENGTH, STEPS,
        1e-10 * total + 1e-300, seed, met, np.array([pairs]),
    )  # fmt: skip
    return (best if index >= 0 else None), np.unique(met[met[:, 0] >= 0], axis=0)


def improved(problem: PatternProblem, counts: Counts, seed: int, rounds: int = ROUNDS) -> Counts:
    """Return a feasible allocation after iterated local search."""
    if problem.num_nodes > MOST_NODES:
        return counts
    best, _ = searched(problem, [counts], rounds, seed, pairs=PAIRS)
    return counts if best is None else best


def constructed(problem: PatternProblem) -> Counts | None:
    """Return a feasible allocation by first fit in several orders, or ``None``."""
    owner = problem.class_of_node()
    share = np.where(np.isfinite(problem.limit), problem.limit, 0.0)
    room = np.maximum((share * problem.nodes[:, None]).sum(axis=0), 1e-200)
    weight = (problem.load / room).max(axis=1)
    classes = np.arange(problem.num_classes)
    best: Counts | None = None
    for order in (np.argsort(-weight, kind="stable"), classes, classes[::-1].copy()):
        counts, left = first_fit(
            problem.sizes, problem.load, problem.limit, problem.most, owner, order
        )
        if left or not feasible(problem, counts):
            continue
        if best is None or problem.gain(counts).sum() > problem.gain(best).sum():
            best = counts
    return best


def feasible(problem: PatternProblem, counts: Counts) -> bool:
    """Whether (N, G) counts, nodes listed class by class, place everything within bounds."""
    if (counts.sum(axis=0) != problem.sizes).any():
        return False
    owner = problem.class_of_node()
    return all(
        bool(problem.fits(k, counts[owner == k]).all()) for k in range(problem.num_node_classes)
    )
