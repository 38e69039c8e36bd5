"""The compiled search finds exactly the patterns that plain enumeration finds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given

from formulations.column_generation.pricing import CellPricer, TreePricer
from formulations.column_generation.problem import Clock, CountRows, PatternProblem
from optim.rules.budget import NodeCount
from tests.formulations.column_generation.make import (
    all_patterns,
    random_problem,
    seeds,
    wide_problem,
)

PLENTY = 10**7
Maker = Callable[[int], PatternProblem]


def prices(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed + 1).uniform(-50, 300, count)


@pytest.mark.parametrize("make", [random_problem, wide_problem])
@given(seed=seeds)
def test_enumeration_finds_every_pattern_above_a_threshold(make: Maker, seed: int) -> None:
    problem = make(seed)
    price = prices(seed, problem.num_classes)
    threshold = np.random.default_rng(seed + 2).uniform(-500, 200, problem.num_node_classes)
    pool = TreePricer(problem, Clock(), PLENTY).enumerate(price, np.zeros(0), threshold, 10**6)
    assert pool is not None
    for k in range(problem.num_node_classes):
        rows = all_patterns(problem, k)
        wanted = rows[problem.gain(rows) - rows @ price > threshold[k]]
        found = pool.counts[pool.node_class == k]
        assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, wanted.tolist()))


@pytest.mark.parametrize("make", [random_problem, wide_problem])
@given(seed=seeds)
def test_pricing_finds_the_best_pattern(make: Maker, seed: int) -> None:
    problem = make(seed)
    price = prices(seed, problem.num_classes)
    pricer = TreePricer(problem, Clock(), PLENTY)
    for k in range(problem.num_node_classes):
        rows = all_patterns(problem, k)
        best = (problem.gain(rows) - rows @ price).max(initial=-np.inf)
        answer = pricer.price_class(k, price, -1e9)
        assert answer.proven
        assert answer.highest == pytest.approx(max(best, -1e9), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("make", [random_problem, wide_problem])
@given(seed=seeds)
def test_pricing_that_runs_out_of_budget_still_bounds(make: Maker, seed: int) -> None:
    problem = make(seed)
    price = prices(seed, problem.num_classes)
    for budget in (1, 2, 5):
        pricer = TreePricer(problem, Clock(), budget)
        for k in range(problem.num_node_classes):
            rows = all_patterns(problem, k)
            best = (problem.gain(rows) - rows @ price).max(initial=-np.inf)
            assert pricer.price_class(k, price, -1e9).highest >= best - 1e-6


@given(seeds)
def test_without_gains_the_prices_decide(seed: int) -> None:
    problem = random_problem(seed)
    price = prices(seed, problem.num_classes)
    pricer = TreePricer(problem, Clock(), PLENTY)
    for k in range(problem.num_node_classes):
        best = (-all_patterns(problem, k) @ price).max(initial=-1e9)
        found = pricer.price_class(k, price, -1e9, gainless=True).highest
        assert found == pytest.approx(best, rel=1e-9, abs=1e-6)


def test_too_many_patterns_are_refused_and_not_cut_off() -> None:
    problem = random_problem(3)
    pricer = TreePricer(problem, Clock(), PLENTY)
    everything = np.full(problem.num_node_classes, -np.inf)
    free = np.zeros(problem.num_classes)
    pool = pricer.enumerate(free, np.zeros(0), everything, 10**6)
    assert pool is not None
    assert len(pool) > 1
    assert pricer.enumerate(free, np.zeros(0), everything, len(pool) - 1) is None
    assert TreePricer(problem, Clock(), 0).enumerate(free, np.zeros(0), everything, 10**6) is None


def random_rows(seed: int, groups: int) -> CountRows:
    """Counts of one group or two, some with a limit of 0, over tasks of some classes."""
    rng = np.random.default_rng(seed + 3)
    counts = []
    for i in range(int(rng.integers(1, 5))):
        masks = tuple(rng.random(groups) < 0.5 for _ in range(int(rng.integers(1, 3))))
        limit = int(rng.integers(0, 3)) if len(masks) > 1 else int(rng.integers(1, 4))
        counts.append(NodeCount("counted", i, "nodes", masks, limit))
    return CountRows(counts=tuple(counts), one=np.arange(groups))


@pytest.mark.parametrize("make", [random_problem, wide_problem])
@given(seed=seeds)
def test_cells_find_the_best_pattern_and_all_above_a_threshold(make: Maker, seed: int) -> None:
    problem = make(seed)
    price, rows = prices(seed, problem.num_classes), random_rows(seed, problem.num_classes)
    side = np.random.default_rng(seed + 4).uniform(0, 200, len(rows))
    threshold = np.random.default_rng(seed + 2).uniform(-500, 200, problem.num_node_classes)
    pricer = CellPricer(problem, Clock(), PLENTY, rows)
    pool = pricer.enumerate(price, side, threshold, 10**6)
    low = np.full(len(threshold), -1e9)
    best = pricer.price(price, side, low, gainless=False)
    assert pool is not None
    for k in range(problem.num_node_classes):
        every = all_patterns(problem, k)
        counts = rows.by_contents(every)
        every = every[(counts <= rows.upper[:, None]).all(axis=0)]
        value = problem.gain(every) - every @ price - side @ rows.by_contents(every)
        found = pool.counts[pool.node_class == k].tolist()
        wanted = every[value > threshold[k]].tolist()
        assert set(map(tuple, wanted)) == set(map(tuple, found))
        assert len(wanted) == len(found)
        most = max(float(value.max(initial=-np.inf)), -1e9)
        assert best.highest[k] == pytest.approx(most, rel=1e-9, abs=1e-6)
