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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from formulations.column_generation.problem import Clock, Counts, Floats, PatternProblem, Pool


STALLED = 4  # Subgradient steps without progress before the step is halved.


@dataclass(frozen=True, eq=False)
class FunctionalBound:
    """A bound and what it says of each pattern."""

    bound: float  # Upper bound on the scaled gain of allocations made of the pool's patterns.
    price: Floats  # (G,) prices it holds for.
    reach: Floats  # (P,) upper bound on allocations that use each pattern.


class Functional:
    """One or two whole-numbered functionals on a pool of patterns.

    `weights`: (2, G) whole, non-negative; a row of zeros makes the table one-dimensional.
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

    def evaluate(self, price: Floats) -> tuple[FunctionalBound, Counts]:
        """Return the bound for given prices, and the tasks its best sequence of nodes uses."""
        problem, value = self.problem, self.pool.value(price)
        num_classes = problem.num_node_classes
        steps = np.full((num_classes, self.step_rows, self.step_width), NONE)
        which = np.full(steps.shape, -1, dtype=np.int64)
        for k in range(num_classes):
            of_class = np.flatnonzero(self.pool.node_class == k)
            steps[k], local = best_per_total(
                self.first[of_class],
                self.second[of_class],
                value[of_class],
                self.step_rows,
                self.step_width,
            )
            which[k][local >= 0] = of_class[local[local >= 0]]
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
            of_class = np.flatnonzero(self.pool.node_class == k)
            if len(of_class) == 0:
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
            reach[of_class] = (
                value[of_class] + rest[self.first[of_class], self.second[of_class]] + offset
            )
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
        functional_bound, used = functional.evaluate(price)
        if best is None or functional_bound.bound < best.bound - 1e-9:
            best, centre, stalled = functional_bound, price, 0
        else:
            stalled += 1
        slope = (sizes - used).astype(np.float64)
        if best.bound <= floor + 1e-9 or not slope.any() or clock.over():
            break
        if stalled >= STALLED:
            length, stalled, price = 0.5 * length, 0, centre
            continue
        goal = max(floor, 0.0) if np.isfinite(floor) else 0.0
        price = price - length * (functional_bound.bound - goal) / float(slope @ slope) * slope
    assert best is not None
    return best


def whole_weights(problem: PatternProblem, most_states: int) -> list[Counts]:
    """Weights (G,) worth trying for one functional: the number of tasks, and rounded loads."""
    ones = np.ones(problem.num_classes, dtype=np.int64)
    weightings = [ones]
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
                if small and not any((weights == w).all() for w in weightings):
                    weightings.append(weights)
    return weightings


# Max-plus convolutions over totals, compiled: the inner loops of `functional_bound`.
#
# A table over totals is two-dimensional, ``F[i, j]``; a one-dimensional functional has one row.

NONE = -np.inf  # Value of a total that cannot be reached.


@kernel
def best_per_total(first, second, value, num_first, num_second):  # type: ignore[no-untyped-def]
    """Best pattern for each total.

    Returns (num_first, num_second) best value (``-inf`` for none) and the pattern that has it (-1).
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


@kernel(steps=lambda tables, steps: 0.3 * tables.size * steps[0].size)
def forward(tables, steps, owner):  # type: ignore[no-untyped-def]
    """``tables[n + 1] = tables[n] ⊗ steps[owner[n]]`` for every node; ``tables[0]`` is set.

    `tables`: (N + 1, rows, width), filled.
    `steps`: (K, rows, width) best value per total of each node class.
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


@kernel(steps=lambda before, step_rows, step_width: 0.3 * before.size * step_rows * step_width)
def rest_of(before, after, step_rows, step_width):  # type: ignore[no-untyped-def]
    """Best value of all nodes but one, by the total that this one leaves them.

    `before`, `after`: tables of the nodes before and after it.
    `step_rows`, `step_width`: totals of one node lie below these.
    Returns (step_rows, step_width) array: ``[a, b]``: best value of the others when this node holds
        ``(a, b)``.
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


# Which columns are in some allocation that loses no more than the gap: all others are of no use.
#
# Allocations are built column by column, each next one holding the first class of tasks that still
# has some left; a partial one whose columns lose more than the gap is given up. What survives is
# little, since losses add up, and goes to the solver.

_LARGEST = 2.0**62
SHORT_STEPS, MOST_STEPS = 20_000, 50_000_000
"""Columns that are tried at first, and after which the filter gives up."""


class Columns(NamedTuple):
    """n columns, empty ones left out, and how they are found."""

    counts: Counts  # (n, C) tasks.
    loss: Floats  # (n,)
    kind: Counts  # (n,) class of nodes.
    #: For each class of tasks (CSR) the columns that hold it and none before it, by loss.
    start: Counts
    order: Counts
    #: Sorted state × K + class of node of the columns, the columns in that order, and (C,) what one
    #: executor adds to the number of a state: the last column is looked up.
    key: Counts
    by_key: Counts
    number: Counts


@kernel(
    steps=lambda columns, nodes, most_steps: min(
        most_steps, len(columns.loss) ** float(nodes.sum())
    )
)
def find_covers(columns, size, nodes, empty, gap, most_steps):  # type: ignore[no-untyped-def]
    """Mark the columns of all allocations within the gap.

    `size`, `nodes`: (C,) tasks to place; (K,) nodes of each class.
    `empty`: (K,) loss of an empty node.
    `gap`, `most_steps`: most loss of an allocation; columns tried at most.
    Returns (n,) whether a column is in an allocation, and the steps; `most_steps` when it gave up.
    """
    counts, loss, kind, start = columns.counts, columns.loss, columns.kind, columns.start
    used = np.zeros(len(loss), np.bool_)
    if len(loss) == 0:
        return used, 0
    left, free = size.copy(), nodes.copy()
    total_nodes = nodes.sum()
    chosen = np.zeros(total_nodes + 1, np.int64)  # columns of the partial placement
    at = np.zeros(total_nodes + 1, np.int64)  # where each depth looks next
    first = np.zeros(total_nodes + 1, np.int64)
    spent = np.zeros(total_nodes + 1)
    depth, steps = 0, 0
    at[0] = start[0]
    while depth >= 0:
        c = first[depth]
        if depth == total_nodes - 1:
            steps += len(nodes)
            _mark_by_last(columns, used, chosen[:depth], left, free, spent[depth], gap)
            at[depth] = start[c + 1]
        fitting, at[depth], tried = _next_fitting(
            columns, left, free, c, at[depth], spent[depth], gap
        )
        steps += tried
        if steps > most_steps:
            return used, most_steps
        if fitting < 0:
            depth -= 1
            if depth >= 0:
                back = chosen[depth]
                left += counts[back]
                free[kind[back]] += 1
            continue
        left -= counts[fitting]
        free[kind[fitting]] -= 1
        chosen[depth] = fitting
        next_class = c
        while next_class < len(left) and left[next_class] == 0:
            next_class += 1
        total = spent[depth] + loss[fitting]
        if next_class < len(left) and depth + 1 < total_nodes:
            depth += 1
            spent[depth] = total
            first[depth] = next_class
            at[depth] = start[next_class]
            continue
        if next_class == len(left):
            for k in range(len(nodes)):
                if free[k] > 0:  # the loss may be infinite
                    total += free[k] * empty[k]
            if total <= gap:
                _mark(used, chosen[: depth + 1])
        left += counts[fitting]
        free[kind[fitting]] += 1
    return used, steps


@helper
def _next_fitting(columns, left, free, c, at, spent, gap):  # type: ignore[no-untyped-def]
    """Find the next column, from `at` on, for which tasks and a node are left, within the gap.

    `c`: first class of which tasks are left, and first class of the column.

    Returns the column, -1 where there is none, where to look next, and the columns tried.
    """
    tried, end = 0, columns.start[c + 1]
    while at < end:
        column = columns.order[at]
        at += 1
        tried += 1
        if spent + columns.loss[column] > gap:
            return -1, end, tried  # those behind lose more
        if free[columns.kind[column]] > 0:
            fits = True
            for i in range(c, len(left)):
                if columns.counts[column, i] > left[i]:
                    fits = False
                    break
            if fits:
                return column, at, tried
    return -1, at, tried


@helper
def _mark_by_last(columns, used, chosen, left, free, spent, gap):  # type: ignore[no-untyped-def]
    """Let the last node take all that is left: one column at most for each class of nodes."""
    rest = 0
    for i in range(len(left)):
        rest += left[i] * columns.number[i]
    for k in range(len(free)):
        state = rest * len(free) + k
        place = np.searchsorted(columns.key, state)
        if free[k] > 0 and place < len(columns.key) and columns.key[place] == state:
            column = columns.by_key[place]
            if spent + columns.loss[column] <= gap:
                used[column] = True
                _mark(used, chosen)


@helper
def _mark(used, chosen):  # type: ignore[no-untyped-def]
    for column in chosen:
        used[column] = True


def in_good_allocations(
    problem: PatternProblem, pool: Pool, loss: Floats, gap: float, empty: int | None = None
) -> Pool:
    """Return the patterns that are in some allocation within a gap; all where that takes too long.

    Empty patterns stay.

    `loss`: (P,) by how much each pattern brings an allocation below the bound.
    `empty`: how many nodes hold nothing, where that is fixed.
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
    columns = Columns(
        np.ascontiguousarray(counts[rows]),
        np.maximum(loss[rows], 0.0),
        kinds,
        start,
        np.lexsort((loss[rows], first)),
        key[by_key],
        by_key,
        stride,
    )
    for most in (SHORT_STEPS, MOST_STEPS):  # mostly few are enough, in plain Python, too
        used, steps = find_covers(columns, problem.sizes, nodes, of_empty, float(gap), most)
        if steps < most:
            break
    if steps >= MOST_STEPS:
        return pool
    return pool.only(np.sort(np.concatenate([rows[used], np.flatnonzero(~holds)])))


def warm_up() -> None:
    """Compile the kernel, or load it from the cache."""
    one = np.ones(1, dtype=np.int64)
    zero = np.zeros(1, dtype=np.int64)
    columns = Columns(
        np.ones((1, 1), dtype=np.int64), np.zeros(1), zero, np.array([0, 1]), zero, one, zero, one
    )
    find_covers(columns, one, one, np.zeros(1), 0.0, 10)
