"""A MILP over node contents: which of the patterns met so far make the best whole placement.

Choose for every class of equal nodes as many patterns as it has nodes, so that every group is
placed exactly once: ``max Σ gain_p x_kp`` s.t. ``Σ_kp y_pg x_kp = size_g``, ``Σ_p x_kp ≤ nodes_k``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heuristics.task_allocation.group_search import CountProblem

    Counts = NDArray[np.int64]

MOST_PATTERNS = 4000
"""Patterns in the model; those with most gain a unit of load stay."""


def best_combination(problem: CountProblem, patterns: Counts, seconds: float) -> Counts | None:
    """Return (N', G) counts of the best combination found in the time; ``None`` for none.

    Parameters
    ----------
    problem
        Sizes, loads and room.
    patterns
        (P, G) different node contents.
    seconds
        Time limit of the solver.
    """
    from optim.solvers.inprocess import solve_small_milp
    from optim.solvers.linear_model import LinearModel

    gain = problem.gain(patterns)
    patterns, gain = _thinned(problem, patterns, gain)
    column_pattern, column_class = _columns(problem, patterns)
    if not len(column_pattern):
        return None
    nodes = np.bincount(problem.owner)
    bounded = np.isfinite(problem.spare[np.searchsorted(problem.owner, np.arange(len(nodes)))])
    model = LinearModel("patterns", sense="max")
    x = model.add_variables(
        "x",
        len(column_pattern),
        upper=nodes[column_class].astype(np.float64),
        integer=True,
        objective=gain[column_pattern],
    )
    where, group = np.nonzero(patterns[column_pattern])
    size = problem.size.astype(np.float64)
    amount = patterns[column_pattern][where, group].astype(np.float64)
    model.add_rows("placed", size, size, group, x.indices[where], amount, len(size))
    # a lower load bound makes an empty node impossible: then each needs a pattern
    least = np.where(bounded.any(axis=1), nodes, 0).astype(np.float64)
    model.add_rows(
        "nodes",
        least,
        nodes.astype(np.float64),
        column_class,
        x.indices,
        np.ones(len(column_pattern)),
        len(nodes),
    )
    answer = solve_small_milp(model, time_limit=seconds)
    if answer.x is None:
        return None
    chosen = np.round(answer.x).astype(np.int64)
    return _laid_out(problem, patterns, column_pattern, column_class, chosen)


def _thinned(
    problem: CountProblem, patterns: Counts, gain: NDArray[np.float64]
) -> tuple[Counts, NDArray[np.float64]]:
    """Keep the patterns of most gain a unit of load, at most `MOST_PATTERNS`."""
    load = patterns @ problem.load[:, 0]
    worth = gain / np.maximum(load, 1e-300)
    keep = np.sort(np.argsort(-worth, kind="stable")[:MOST_PATTERNS])
    return patterns[keep], gain[keep]


def _columns(problem: CountProblem, patterns: Counts) -> tuple[Counts, Counts]:
    """Pattern and node class of every column: each class takes the patterns that fit its nodes."""
    used = patterns @ problem.load
    which, owner = [], []
    for node_class in range(int(problem.owner.max(initial=-1)) + 1):
        node = int(np.searchsorted(problem.owner, node_class))
        fits = (used <= problem.room[node]).all(axis=1)
        fits &= (used >= -problem.spare[node]).all(axis=1)
        if len(problem.allowed):
            fits &= ~(patterns[:, ~problem.allowed[:, node]] > 0).any(axis=1)
        which.append(np.flatnonzero(fits))
        owner.append(np.full(int(fits.sum()), node_class))
    if not which:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    return np.concatenate(which), np.concatenate(owner)


def _laid_out(
    problem: CountProblem,
    patterns: Counts,
    column_pattern: Counts,
    column_class: Counts,
    chosen: Counts,
) -> Counts:
    """(N', G) contents: the chosen patterns on the nodes of their classes, in order."""
    counts = np.zeros((len(problem.owner), len(problem.size)), dtype=np.int64)
    following = np.searchsorted(problem.owner, np.arange(problem.owner.max() + 1))
    for column in np.flatnonzero(chosen):
        for _ in range(chosen[column]):
            counts[following[column_class[column]]] = patterns[column_pattern[column]]
            following[column_class[column]] += 1
    return counts
