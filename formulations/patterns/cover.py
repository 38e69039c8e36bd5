"""Which columns are in some allocation that loses no more than the gap: all others are of no use.

Allocations are built column by column, each next one holding the first class of tasks that still
has some left; a partial one whose columns lose more than the gap is given up. What survives is
little, since losses add up, and goes to the solver.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.util.compiled import kernel

if TYPE_CHECKING:
    from formulations.patterns.pool import Pool
    from formulations.patterns.problem import Floats, PatternProblem

_LARGEST = 2.0**62
MOST_STEPS = 50_000_000
"""Columns that are tried, after which the filter gives up."""


@kernel
def find_covers(
    counts, loss, kind, start, order, key, by_key, number, size, nodes, empty, gap, most_steps
):
    """Mark the columns of all allocations within the gap.

    Parameters
    ----------
    counts, loss, kind
        (n, C) tasks, (n,) loss and class of nodes of the columns, empty ones left out.
    start, order
        For each class of tasks (CSR) the columns that hold it and none before it, by loss.
    key, by_key, number
        Sorted state × K + class of node of the columns, the columns in that order, and (C,) what
        one executor adds to the number of a state: the last column is looked up.
    size, nodes
        (C,) tasks to place; (K,) nodes of each class.
    empty
        (K,) loss of an empty node.
    gap, most_steps
        Most loss of an allocation; columns tried at most.

    Returns
    -------
    tuple
        (n,) whether a column is in an allocation, and the steps; `most_steps` when it gave up.
    """
    used = np.zeros(len(loss), np.bool_)
    if len(loss) == 0:
        return used, 0
    left = size.copy()
    free = nodes.copy()
    total_nodes = 0
    for k in range(len(nodes)):
        total_nodes += nodes[k]
    chosen = np.zeros(total_nodes + 1, np.int64)  # columns of the partial placement
    at = np.zeros(total_nodes + 1, np.int64)  # where each depth looks next
    first = np.zeros(total_nodes + 1, np.int64)
    spent = np.zeros(total_nodes + 1)
    depth, steps = 0, 0
    at[0] = start[0]
    while depth >= 0:
        c = first[depth]
        found = -1
        if depth == total_nodes - 1:
            # the last node takes all that is left: one column at most for each class of nodes
            rest = 0
            for i in range(c, len(left)):
                rest += left[i] * number[i]
            for k in range(len(nodes)):
                steps += 1
                place = np.searchsorted(key, rest * len(nodes) + k)
                if free[k] > 0 and place < len(key) and key[place] == rest * len(nodes) + k:
                    column = by_key[place]
                    if spent[depth] + loss[column] <= gap:
                        used[column] = True
                        for d in range(depth):
                            used[chosen[d]] = True
            at[depth] = start[c + 1]
        while at[depth] < start[c + 1]:
            column = order[at[depth]]
            at[depth] += 1
            steps += 1
            if spent[depth] + loss[column] > gap:
                at[depth] = start[c + 1]  # those behind lose more
                break
            if free[kind[column]] == 0:
                continue
            fits = True
            for i in range(c, len(left)):
                if counts[column, i] > left[i]:
                    fits = False
                    break
            if fits:
                found = column
                break
        if steps > most_steps:
            return used, most_steps
        if found < 0:
            depth -= 1
            if depth >= 0:
                back = chosen[depth]
                left += counts[back]
                free[kind[back]] += 1
            continue
        left -= counts[found]
        free[kind[found]] -= 1
        chosen[depth] = found
        next_class = c
        while next_class < len(left) and left[next_class] == 0:
            next_class += 1
        total = spent[depth] + loss[found]
        if next_class < len(left) and depth + 1 < total_nodes:
            depth += 1
            spent[depth] = total
            first[depth] = next_class
            at[depth] = start[next_class]
            continue
        if next_class == len(left):
            for k in range(len(nodes)):
                if free[k] > 0:
                    total += free[k] * empty[k]
            if total <= gap:
                for d in range(depth + 1):
                    used[chosen[d]] = True
        left += counts[found]
        free[kind[found]] += 1
    return used, steps


def covering(
    problem: PatternProblem, pool: Pool, loss: Floats, gap: float, empty: int | None = None
) -> Pool:
    """Return the patterns that are in some allocation within a gap; all where that takes too long.

    Empty patterns are kept.

    Parameters
    ----------
    loss
        (P,) by how much each pattern brings an allocation below the bound.
    empty
        How many nodes hold nothing, where that is fixed.
    """
    counts = pool.counts
    if np.prod(problem.sizes + 1.0) * problem.num_node_classes > _LARGEST:
        return pool
    stride = np.concatenate([[1], np.cumprod(problem.sizes + 1)[:-1]]).astype(np.int64)
    holds = counts.any(axis=1)
    rows = np.flatnonzero(holds)
    kinds = pool.node_class[rows].astype(np.int64)
    key = counts[rows] @ stride * problem.num_node_classes + kinds
    by_key = np.argsort(key, kind="stable")
    of_empty = np.full(problem.num_node_classes, np.inf)
    of_empty[pool.node_class[~holds]] = loss[~holds]
    first = (counts[rows] > 0).argmax(axis=1)
    start = np.searchsorted(np.sort(first), np.arange(counts.shape[1] + 1)).astype(np.int64)
    nodes = problem.nodes
    if empty and len(nodes) == 1:  # that many are empty, and not looked at
        gap -= empty * max(0.0, float(of_empty[0]))
        nodes = nodes - empty
    used, steps = find_covers(
        np.ascontiguousarray(counts[rows]),
        np.maximum(loss[rows], 0.0),
        kinds,
        start,
        np.lexsort((loss[rows], first)),
        key[by_key],
        by_key,
        stride,
        problem.sizes,
        nodes,
        of_empty,
        float(gap),
        MOST_STEPS,
    )
    if steps >= MOST_STEPS:
        return pool
    return pool.only(np.sort(np.concatenate([rows[used], np.flatnonzero(~holds)])))


def warm_up() -> None:
    """Compile the kernel, or load it from the cache."""
    one = np.ones(1, dtype=np.int64)
    zero = np.zeros(1, dtype=np.int64)
    find_covers(
        np.ones((1, 1), dtype=np.int64), np.zeros(1), zero, np.array([0, 1]), zero, one, zero, one,
        one, one, np.zeros(1), 0.0, 10,
    )  # fmt: skip
