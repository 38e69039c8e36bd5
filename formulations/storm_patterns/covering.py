"""Which columns are in some placement that loses no more than the gap: all others are of no use.

Placements are built column by column, each next one holding the first class of executors that still
has some left; a partial one whose columns lose more than the gap is given up. What survives is
little, since losses add up, and goes to the solver.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.compiled import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm_patterns.master import Columns, Master

    Integers = NDArray[np.int64]

MOST_STEPS = 50_000_000
"""Columns that are tried, after which the filter gives up."""


@kernel
def find_covers(
    counts, loss, kind, start, order, key, by_key, number, size, nodes, empty, gap, most_steps
):
    """Mark the columns of all placements within the gap.

    Parameters
    ----------
    counts, loss, kind
        (n, C) executors, (n,) loss and class of nodes of the columns, empty ones left out.
    start, order
        For each class of executors (CSR) the columns that hold some, by loss.
    key, by_key, number
        Sorted state × K + class of node of the columns, the columns in that order, and (C,) what
        one executor adds to the number of a state: the last column is looked up.
    size, nodes
        (C,) executors to place; (K,) nodes of each class.
    empty
        (K,) loss of an empty node.
    gap, most_steps
        Most loss of a placement; columns tried at most.

    Returns
    -------
    tuple
        (n,) whether a column is in a placement, and the steps; `most_steps` when it gave up.
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


def useful(master: Master, columns: Columns, gap: float) -> Columns:
    """Return the columns that are in some placement within the gap; all where that takes too long.

    Empty columns are kept.
    """
    from formulations.storm_patterns.master import Columns

    counts = master.counts(columns)
    losses = master.losses()
    loss = np.zeros(len(columns))
    for k, values in enumerate(losses):
        here = columns.node_class == k
        loss[here] = values[columns.position[here]]
    holds = counts.any(axis=1)
    rows = np.flatnonzero(holds)
    kinds = columns.node_class[rows].astype(np.int64)
    key = master.state_of(columns)[rows] * len(losses) + kinds
    by_key = np.argsort(key, kind="stable")
    empty = np.full(len(losses), np.inf)
    for i in np.flatnonzero(~holds).tolist():
        empty[columns.node_class[i]] = loss[i]
    parts = []
    for c in range(counts.shape[1]):
        with_c = np.flatnonzero(counts[rows, c] > 0)
        parts.append(with_c[np.argsort(loss[rows][with_c], kind="stable")])
    start = np.concatenate([[0], np.cumsum([len(p) for p in parts])]).astype(np.int64)
    nodes = master.problem.num_nodes.astype(np.int64)
    if master.rows.empty is not None and len(nodes) == 1:  # that many are empty, and not looked at
        gap -= master.rows.empty * max(0.0, float(empty[0]))
        nodes = nodes - master.rows.empty
    used, steps = find_covers(
        np.ascontiguousarray(counts[rows]),
        np.maximum(loss[rows], 0.0),
        kinds,
        start,
        np.concatenate(parts).astype(np.int64),
        key[by_key],
        by_key,
        master.states.stride,
        master.problem.size.astype(np.int64),
        nodes,
        empty,
        float(gap),
        MOST_STEPS,
    )
    if steps >= MOST_STEPS:
        return columns
    keep = np.sort(np.concatenate([rows[used], np.flatnonzero(~holds)]))
    return Columns(columns.node_class[keep], columns.position[keep])


def warm_up() -> None:
    """Compile the kernel, or load it from the cache."""
    one = np.ones(1, dtype=np.int64)
    zero = np.zeros(1, dtype=np.int64)
    find_covers(
        np.ones((1, 1), dtype=np.int64), np.zeros(1), zero, np.array([0, 1]), zero, one, zero, one,
        one, one, np.zeros(1), 0.0, 10,
    )  # fmt: skip
