"""Random small problems in counts, and all their patterns and allocations by plain enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import strategies as st

from formulations.column_generation.pricing import TreePricer
from formulations.column_generation.problem import Clock, PatternProblem, Pool, make_problem

PLENTY = 10**7

seeds = st.integers(min_value=0, max_value=2**32 - 1)


def random_problem(seed: int) -> PatternProblem:
    """Up to four classes of up to four tasks, two resources, two node classes, floors, masks."""
    rng = np.random.default_rng(seed)
    num_classes, num_resources = int(rng.integers(1, 5)), int(rng.integers(1, 3))
    sizes = rng.integers(1, 5, num_classes)
    load = rng.integers(0, 5, (num_classes, num_resources)).astype(float)
    rate = np.triu(rng.integers(0, 9, (num_classes, num_classes)).astype(float))
    rate[rng.random(rate.shape) < 0.3] = 0.0
    rate = rate + np.triu(rate, 1).T
    nodes = rng.integers(1, 3, int(rng.integers(1, 3)))
    total = sizes @ load
    limit = rng.uniform(0.8, 2.0, (len(nodes), num_resources)) * total / nodes.sum() + 1e-6
    if rng.random() < 0.2:
        limit[:, 0] = np.inf
    least = np.where(rng.random(limit.shape) < 0.2, rng.integers(0, 4, limit.shape), -np.inf)
    allowed = rng.random((len(nodes), num_classes)) < 0.9
    return make_problem(sizes, load, rate, nodes, limit, least, allowed)


def wide_problem(seed: int) -> PatternProblem:
    """Eight classes of one or two tasks: deep enough for the search tree to cut."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 3, 8)
    load = rng.integers(1, 6, (8, 2)).astype(float)
    rate = np.triu(rng.integers(0, 9, (8, 8)).astype(float))
    rate[rng.random(rate.shape) < 0.4] = 0.0
    rate = rate + np.triu(rate, 1).T
    limit = rng.uniform(0.3, 0.8, (1, 2)) * (sizes @ load)
    return make_problem(sizes, load, rate, [3], limit)


def gapped_problem(seed: int) -> PatternProblem:
    """Three classes in a row on three equal nodes, seldom integral in the linear relaxation."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 6, 3)
    load = rng.integers(2, 6, (3, 1)).astype(float)
    rate = np.zeros((3, 3))
    rate[0, 1] = rate[1, 0] = rng.integers(3, 9)
    rate[1, 2] = rate[2, 1] = rng.integers(3, 9)
    limit = float((sizes @ load)[0] * rng.uniform(1.1, 1.4) / 3)
    return make_problem(sizes, load, rate, [3], [[limit]])


def all_patterns(problem: PatternProblem, node_class: int) -> np.ndarray:
    """Every pattern that fits a node of a class, by trying all."""
    ranges = (range(int(most) + 1) for most in problem.sizes)
    rows = np.array(list(product(*ranges)), dtype=np.int64)
    return rows[problem.fits(node_class, rows)]


def best_gain(problem: PatternProblem) -> float:
    """Greatest gain of an allocation by trying every sequence of patterns; ``-inf`` for none."""
    states = {tuple(int(s) for s in problem.sizes): 0.0}
    for k in problem.class_of_node():
        patterns = all_patterns(problem, int(k))
        gains = problem.gain(patterns)
        following: dict[tuple[int, ...], float] = {}
        for left, value in states.items():
            for row, gain in zip(patterns, gains, strict=True):
                rest = tuple(int(v) for v in np.array(left) - row)
                if min(rest) >= 0:
                    following[rest] = max(following.get(rest, -np.inf), value + gain)
        states = following
    return states.get((0,) * problem.num_classes, -np.inf)


def whole_pool(problem: PatternProblem) -> Pool:
    """Every pattern of every class of nodes."""
    free = np.zeros(problem.num_classes)
    everything = np.full(problem.num_node_classes, -np.inf)
    pool = TreePricer(problem, Clock(), PLENTY).enumerate(free, np.zeros(0), everything, 10**6)
    assert pool is not None
    return pool
