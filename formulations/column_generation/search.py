"""A good allocation to begin with: first fit, then redistribution between pairs of nodes.

Everything here works on counts: (N, G) tasks of each class on each node. Redistributing two
classes between two nodes is solved exactly; for few tasks all classes are redistributed at once
(the value is convex in each single count, so the last class needs only the ends of its range).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from formulations.column_generation.problem import Counts, PatternProblem


ROUNDS = 24
"""Perturbations of the iterated search; fixed, so that runs repeat."""

_SPLITS = 4000.0
_SHAKES = 4
_PAIRS = 40_000.0
_WORK = 4e8
"""Pairs of nodes looked at in all, fewer when nodes hold many classes; counts and no times, so that
runs repeat."""


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


@helper
def _gain(y, rate, listed):  # type: ignore[no-untyped-def]
    """Traffic inside contents ``y`` between the classes listed."""
    total = 0.0
    for i in range(len(listed)):
        g = listed[i]
        if y[g] != 0:
            total += rate[g, g] * (y[g] * (y[g] - 1) * 0.5)
            for j in range(i):
                total += rate[g, listed[j]] * (y[g] * y[listed[j]])
    return total


@helper
def _split(pick, listed, both, first, rate, load, limit, least, most, a, b, best):  # type: ignore[no-untyped-def]
    """Redistribute the classes in ``pick`` between nodes of classes ``a`` and ``b``.

    ``listed`` are the classes that either node holds, ``first`` and ``best`` contents of the first
    node, ``both`` of the two together. ``best`` is set to the best contents found for the first
    node; returns their gain (of both nodes).
    """
    num_classes, num_resources = load.shape
    depth_end = len(pick)
    y = np.zeros(num_classes, dtype=np.int64)
    for g in range(num_classes):
        y[g] = first[g]
    for i in range(depth_end):
        y[pick[i]] = 0
    used = np.zeros((depth_end + 1, num_resources))
    total = np.zeros(num_resources)
    for g in range(num_classes):
        for r in range(num_resources):
            used[0, r] += y[g] * load[g, r]
            total[r] += both[g] * load[g, r]
    reach = np.zeros((depth_end + 1, num_resources))
    for d in range(depth_end - 1, -1, -1):
        for r in range(num_resources):
            reach[d, r] = reach[d + 1, r] + both[pick[d]] * load[pick[d], r]
    high = np.zeros(depth_end, dtype=np.int64)
    low = np.zeros(depth_end, dtype=np.int64)
    best_gain = -np.inf
    other = np.zeros(num_classes, dtype=np.int64)
    depth = 0
    entering = True
    while depth >= 0:
        g = pick[depth]
        if entering:
            most_here = float(min(both[g], most[a, g]))
            least_here = float(max(0, both[g] - most[b, g]))
            for r in range(num_resources):
                # what the first node may hold, and what the second cannot take
                largest = min(limit[a, r], total[r] - least[b, r])
                smallest = max(least[a, r], total[r] - limit[b, r])
                if load[g, r] > 0.0:
                    most_here = min(
                        most_here, np.floor((largest - used[depth, r]) / load[g, r] + 1e-12)
                    )
                    lack = smallest - used[depth, r] - reach[depth + 1, r]
                    if lack > 0.0:
                        least_here = max(least_here, np.ceil(lack / load[g, r] - 1e-12))
                elif used[depth, r] > largest or used[depth, r] + reach[depth + 1, r] < smallest:
                    most_here = -1.0
            high[depth] = int(most_here) if most_here >= 0 else -1
            low[depth] = int(least_here)
            y[g] = high[depth]
            entering = False
            if depth == depth_end - 1:
                c = high[depth]
                while c >= low[depth]:
                    y[g] = c
                    for h in range(num_classes):
                        other[h] = both[h] - y[h]
                    gain = _gain(y, rate, listed) + _gain(other, rate, listed)
                    if (
                        gain > best_gain
                        and _holds(y, load, limit, least, a)
                        and _holds(other, load, limit, least, b)
                    ):
                        best_gain = gain
                        for h in range(num_classes):
                            best[h] = y[h]
                    c = low[depth] if c > low[depth] else low[depth] - 1
                depth -= 1
                if depth >= 0:
                    y[pick[depth]] -= 1
                continue
        if y[g] < low[depth]:
            depth -= 1
            if depth >= 0:
                y[pick[depth]] -= 1
            continue
        for r in range(num_resources):
            used[depth + 1, r] = used[depth, r] + y[g] * load[g, r]
        depth += 1
        entering = True
    return best_gain


@helper
def _holds(y, load, limit, least, k):  # type: ignore[no-untyped-def]
    for r in range(load.shape[1]):
        used = 0.0
        for g in range(len(y)):
            used += y[g] * load[g, r]
        if used > limit[k, r] or used < least[k, r]:
            return False
    return True


@helper
def _take_over(counts, n, m, best, both):  # type: ignore[no-untyped-def]
    for g in range(len(best)):
        counts[n, g] = best[g]
        counts[m, g] = both[g] - best[g]


@helper
def _improve_pair(n, m, counts, rate, load, limit, least, most, owner):  # type: ignore[no-untyped-def]
    """Redistribute between two nodes; return whether that gained anything."""
    num_classes = counts.shape[1]
    both = np.zeros(num_classes, dtype=np.int64)
    listed = np.zeros(num_classes, dtype=np.int64)
    size = 0
    for g in range(num_classes):
        both[g] = counts[n, g] + counts[m, g]
        if both[g] > 0:
            listed[size] = g
            size += 1
    if size == 0:
        return False
    present = listed[:size]
    best = np.zeros(num_classes, dtype=np.int64)
    splits, widest = 1.0, 0
    for i in range(len(present)):
        splits *= both[present[i]] + 1
        widest = max(widest, both[present[i]])
    a, b = owner[n], owner[m]
    before = _gain(counts[n], rate, present) + _gain(counts[m], rate, present)
    margin = 1e-9 * (1.0 + before)
    if splits / (widest + 1) <= _SPLITS:
        gain = _split(
            present, present, both, counts[n], rate, load, limit, least, most, a, b, best
        )  # fmt: skip
        if gain > before + margin:
            _take_over(counts, n, m, best, both)
            return True
        return False
    improved = False
    pick = np.zeros(2, dtype=np.int64)
    for i in range(len(present)):
        for j in range(i + 1, len(present)):
            pick[0] = present[i]
            pick[1] = present[j]
            gain = _split(
                pick, present, both, counts[n], rate, load, limit, least, most, a, b, best
            )  # fmt: skip
            if gain > before + margin:
                _take_over(counts, n, m, best, both)
                before = gain
                improved = True
    return improved


@helper
def _settle(counts, touched, rate, load, limit, least, most, owner, pairs):  # type: ignore[no-untyped-def]
    """Redistribute between pairs of nodes, one of them touched, until nothing gains.

    Looks at ``pairs`` pairs at most and returns what is left of them.
    """
    num_nodes = len(counts)
    n = 0
    idle = 0
    while pairs > 0 and idle < num_nodes:
        if not touched[n]:
            n = (n + 1) % num_nodes
            idle += 1
            continue
        idle = 0
        touched[n] = False
        pairs -= num_nodes
        for m in range(num_nodes):
            if m != n and _improve_pair(n, m, counts, rate, load, limit, least, most, owner):
                touched[n] = True
                touched[m] = True
    return pairs


@helper
def _total(counts, rate):  # type: ignore[no-untyped-def]
    total = 0.0
    every = np.arange(counts.shape[1])
    for n in range(len(counts)):
        total += _gain(counts[n], rate, every)
    return total


@helper
def _shake(counts, touched, load, limit, least, most, owner, draw):  # type: ignore[no-untyped-def]
    """Exchange some tasks of one class for some of another between two nodes, if they fit."""
    num_nodes, num_classes = counts.shape
    n, m = int(draw[0] * num_nodes), int(draw[1] * num_nodes)
    g, h = int(draw[2] * num_classes), int(draw[3] * num_classes)
    if n == m or counts[n, g] == 0:
        return
    goes = 1 + int(draw[4] * counts[n, g])
    comes = int(draw[5] * (counts[m, h] + 1)) if g != h else 0
    counts[n, g] -= goes
    counts[m, g] += goes
    counts[n, h] += comes
    counts[m, h] -= comes
    fit = counts[n, h] <= most[owner[n], h] and counts[m, g] <= most[owner[m], g]
    fit = fit and _holds(counts[n], load, limit, least, owner[n])
    if fit and _holds(counts[m], load, limit, least, owner[m]):
        touched[n] = True
        touched[m] = True
    else:
        counts[n, g] += goes
        counts[m, g] -= goes
        counts[n, h] -= comes
        counts[m, h] += comes


def _held(counts: Counts) -> float:
    """Return how many classes a node holds on average, at most."""
    return min(counts.shape[1], 2.0 * float(counts.sum()) / len(counts))


@kernel(steps=lambda counts, draws: 10 * len(draws) * len(counts) * _held(counts) ** 3)
def iterate(counts, rate, load, limit, least, most, owner, draws, budget):  # type: ignore[no-untyped-def]
    """Iterated local search from a feasible allocation.

    Parameters
    ----------
    draws
        (rounds, shakes, 6) uniform numbers in [0, 1).
    budget
        Pairs of nodes to look at in all.

    Returns
    -------
    tuple
        (N, G) counts and their gain.
    """
    num_nodes = len(counts)
    best = counts.copy()
    everywhere = np.ones(num_nodes, dtype=np.bool_)
    pairs = _settle(best, everywhere, rate, load, limit, least, most, owner, budget)
    best_gain = _total(best, rate)
    for t in range(draws.shape[0]):
        if pairs <= 0:
            break
        trial = best.copy()
        touched = np.zeros(num_nodes, dtype=np.bool_)
        for s in range(draws.shape[1]):
            _shake(trial, touched, load, limit, least, most, owner, draws[t, s])
        pairs = _settle(trial, touched, rate, load, limit, least, most, owner, pairs)
        gain = _total(trial, rate)
        if gain >= best_gain:
            best = trial
            best_gain = gain
    return best, best_gain


def improved(problem: PatternProblem, counts: Counts, seed: int, rounds: int = ROUNDS) -> Counts:
    """Return a feasible allocation after iterated local search."""
    draws = np.random.default_rng(seed).random((rounds, _SHAKES, 6))
    budget = int(min(_PAIRS, max(problem.num_nodes, _WORK / max(1.0, _held(counts)) ** 4)))
    found, _ = iterate(
        np.ascontiguousarray(counts, dtype=np.int64), problem.rate, problem.load, problem.limit,
        problem.least, problem.most, problem.class_of_node(), draws, budget,
    )  # fmt: skip
    return np.asarray(found)


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
