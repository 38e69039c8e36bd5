"""Max-plus convolutions over totals, compiled: the inner loops of `functional_bound`.

A table over totals is two-dimensional, ``F[i, j]``; a one-dimensional functional has one row.
"""

from __future__ import annotations

import numpy as np

from optim.util.compiled import helper, kernel

NONE = -np.inf
"""Value of a total that cannot be reached."""


@kernel
def best_per_total(first, second, value, num_first, num_second):  # type: ignore[no-untyped-def]
    """Best pattern for each total.

    Returns
    -------
    tuple
        (num_first, num_second) best value (``-inf`` for none) and the pattern that has it (-1).
    """
    best = np.full((num_first, num_second), NONE)
    which = np.full((num_first, num_second), -1, dtype=np.int64)
    for p in range(len(value)):
        i, j = first[p], second[p]
        if value[p] > best[i, j]:
            best[i, j] = value[p]
            which[i, j] = p
    return best, which


@helper
def _add(table, step, into):  # type: ignore[no-untyped-def]
    rows, width = table.shape
    for a in range(min(step.shape[0], rows)):
        for b in range(min(step.shape[1], width)):
            value = step[a, b]
            if value == NONE:
                continue
            for i in range(a, rows):
                for j in range(b, width):
                    total = table[i - a, j - b] + value
                    if total > into[i, j]:
                        into[i, j] = total


@kernel
def forward(tables, steps, owner):  # type: ignore[no-untyped-def]
    """``tables[n + 1] = tables[n] ⊗ steps[owner[n]]`` for every node; ``tables[0]`` is set.

    Parameters
    ----------
    tables
        (N + 1, rows, width), filled.
    steps
        (K, rows, width) best value per total of each node class.
    """
    for n in range(len(owner)):
        for i in range(tables.shape[1]):
            for j in range(tables.shape[2]):
                tables[n + 1, i, j] = NONE
        _add(tables[n], steps[owner[n]], tables[n + 1])


@kernel
def walk_back(tables, steps, which, owner, counts):  # type: ignore[no-untyped-def]
    """Sum the contents of the nodes along a best sequence; zeros when there is none."""
    num_nodes, rows, width = len(owner), tables.shape[1], tables.shape[2]
    total = np.zeros(counts.shape[1], dtype=np.int64)
    i, j = rows - 1, width - 1
    if tables[num_nodes, i, j] == NONE:
        return total
    for n in range(num_nodes - 1, -1, -1):
        k = owner[n]
        best, from_a, from_b = NONE, -1, -1
        for a in range(min(i + 1, steps.shape[1])):
            for b in range(min(j + 1, steps.shape[2])):
                if steps[k, a, b] > NONE:
                    value = tables[n, i - a, j - b] + steps[k, a, b]
                    if value > best:
                        best, from_a, from_b = value, a, b
        for g in range(counts.shape[1]):
            total[g] += counts[which[k, from_a, from_b], g]
        i -= from_a
        j -= from_b
    return total


@kernel
def rest_of(before, after, step_rows, step_width):  # type: ignore[no-untyped-def]
    """Best value of all nodes but one, by the total that this one leaves them.

    Parameters
    ----------
    before, after
        Tables of the nodes before and after it.
    step_rows, step_width
        Totals of one node lie below these.

    Returns
    -------
    (step_rows, step_width) array
        ``[a, b]``: best value of the others when this node holds ``(a, b)``.
    """
    rows, width = before.shape
    rest = np.full((step_rows, step_width), NONE)
    for i in range(rows):
        for j in range(width):
            value = before[i, j]
            if value == NONE:  # most totals are out of reach of the first nodes
                continue
            for a in range(min(step_rows, rows - i)):
                for b in range(min(step_width, width - j)):
                    total = value + after[rows - 1 - a - i, width - 1 - b - j]
                    if total > rest[a, b]:
                        rest[a, b] = total
    return rest
