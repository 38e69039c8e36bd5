"""Which patterns are in some allocation within a gap."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from formulations.column_generation.bound import Columns, find_covers, in_good_allocations
from formulations.column_generation.problem import PatternProblem, Pool, make_problem
from tests.formulations.column_generation.make import random_problem, seeds, whole_pool


def test_only_columns_of_whole_placements_survive() -> None:
    # {0}, {1}, {0,1} on two nodes; {1,2} needs {0}, and 2 is in nothing else
    counts = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 1, 1]])
    loss = np.array([0.0, 0.0, 1.0, 2.0])
    by_class = [[0, 2], [1, 2, 3], [3]]
    start = np.cumsum([0, *(len(c) for c in by_class)])
    order = np.concatenate(by_class)
    number = np.array([1, 2, 4])
    key = counts @ number
    by_key = np.argsort(key)
    one = np.ones(3, dtype=np.int64)
    kind = np.zeros(4, dtype=np.int64)
    columns = Columns(counts, loss, kind, start, order, key[by_key], by_key, number)
    two, inf = np.array([2]), np.array([np.inf])
    used, _ = find_covers(columns, one, two, inf, 5.0, 1000)
    assert used.tolist() == [True, False, False, True]
    used, _ = find_covers(columns, one, two, inf, 1.5, 1000)
    assert not used.any()
    used, steps = find_covers(columns, one, two, inf, 5.0, 1)
    assert steps == 1  # gave up


def least_loss(problem: PatternProblem, pool: Pool, loss: np.ndarray, forced: int) -> float:
    """Least loss of an allocation that uses a pattern, by trying every sequence of patterns."""
    owner = problem.class_of_node()
    last = int(np.flatnonzero(owner == pool.node_class[forced])[-1])
    states = {tuple(problem.sizes.tolist()): 0.0}
    for n, k in enumerate(owner.tolist()):
        mine = [forced] if n == last else np.flatnonzero(pool.node_class == k).tolist()
        following: dict[tuple[int, ...], float] = {}
        for left, lost in states.items():
            for p in mine:
                rest = tuple((np.array(left) - pool.counts[p]).tolist())
                if min(rest) >= 0:
                    following[rest] = min(following.get(rest, np.inf), lost + float(loss[p]))
        states = following
    return states.get((0,) * problem.num_classes, np.inf)


@given(seeds)
def test_exactly_the_patterns_of_allocations_within_the_gap_are_kept(seed: int) -> None:
    problem = random_problem(seed)
    pool = whole_pool(problem)
    rng = np.random.default_rng(seed)
    loss = np.where(rng.random(len(pool)) < 0.3, 0.0, rng.integers(1, 9, len(pool))) * 1.0
    gap = float(rng.integers(0, 12)) + 0.5
    kept = in_good_allocations(problem, pool, loss, gap)
    known = {(int(k), *row) for k, row in zip(kept.node_class, kept.counts.tolist(), strict=True)}
    filled = np.flatnonzero(pool.counts.any(axis=1))
    for p in rng.permutation(filled)[:6].tolist():
        wanted = least_loss(problem, pool, loss, p) <= gap
        assert ((int(pool.node_class[p]), *pool.counts[p].tolist()) in known) == wanted


def test_empty_nodes_that_cost_too_much_leave_no_allocation_out() -> None:
    """No node is to be empty: the loss of an empty one must not count, were it infinite."""
    problem = make_problem([2], [[1.0]], [[0.0]], [2], [[1.0]])
    every = whole_pool(problem)
    pool = every.only(every.counts.any(axis=1))
    assert len(in_good_allocations(problem, pool, np.zeros(1), 1.0, empty=0)) == 1
