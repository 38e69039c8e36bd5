"""Column generation, functional bounds and the count table against the true optimum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from scipy.optimize import linprog

from formulations.column_generation.bound import Functional, sharpened, whole_weights
from formulations.column_generation.integer import best_choice
from formulations.column_generation.master import Master, Root
from formulations.column_generation.pricing import ListPricer, TableListing, TreePricer
from formulations.column_generation.problem import Clock, PatternProblem, TableRows
from tests.formulations.column_generation.make import (
    PLENTY,
    best_gain,
    random_problem,
    seeds,
    whole_pool,
)


def relaxed(problem: PatternProblem, budget: int = PLENTY) -> Root:
    pricer = TreePricer(problem, Clock(), budget)
    return Master(problem.sizes, problem.nodes, pricer, Clock()).run()


@given(seeds)
def test_column_generation_bounds_the_optimum(seed: int) -> None:
    problem = random_problem(seed)
    best = best_gain(problem)
    for budget in (PLENTY, 3):
        root = relaxed(problem, budget)
        assert root.bound >= best - 1e-6
        if root.bound == -np.inf:
            assert root.unplaced > 0


@given(seeds)
def test_a_list_covers_where_the_whole_program_says_so(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(seed)
    every = whole_pool(problem)
    pool = every.only(rng.random(len(every)) < rng.uniform(0.1, 0.9))
    pool = replace(pool, at=np.arange(len(pool)))
    price = rng.integers(0, 4, (1, len(pool))).astype(float)
    rows = TableRows(np.full(1, -np.inf), rng.integers(0, 6, 1).astype(float), table=price)
    listing = TableListing(pool, problem.num_node_classes, rows)
    assume(0 not in listing.lengths)
    owned = pool.node_class[None, :] == np.arange(problem.num_node_classes)[:, None]
    whole = linprog(
        np.zeros(len(pool)), price, rows.upper, np.concatenate([pool.counts.T, owned]),
        np.concatenate([problem.sizes, problem.nodes]),
    )  # fmt: skip
    pricer = ListPricer(listing, per_round=2)
    for clock in (Clock(), Clock(0.0)):
        covers = Master(problem.sizes, problem.nodes, pricer, clock, rows).covers()
        assert covers == (whole.status == 0) or (covers is None and clock.over())


def test_column_generation_proves_a_lack_of_room() -> None:
    problem = random_problem(1)
    narrow = problem.limit * 0.3
    tight = PatternProblem(
        problem.sizes,
        problem.load,
        problem.rate,
        problem.nodes,
        narrow,
        problem.least,
        problem.most,
    )
    assert best_gain(tight) == -np.inf
    root = relaxed(tight)
    assert root.bound == -np.inf
    assert 0 < root.unplaced <= tight.sizes.sum() + tight.num_nodes


@given(seeds)
def test_the_count_table_is_exact(seed: int) -> None:
    problem = random_problem(seed)
    value, counts = best_choice(problem, whole_pool(problem))
    best = best_gain(problem)
    assert value == pytest.approx(best, rel=1e-9, abs=1e-6)
    if counts is not None:
        assert (counts.sum(axis=0) == problem.sizes).all()
        assert problem.gain(counts).sum() == pytest.approx(best, rel=1e-9, abs=1e-6)


@given(seeds)
def test_functional_bounds_hold_for_any_prices(seed: int) -> None:
    problem = random_problem(seed)
    pool, best = whole_pool(problem), best_gain(problem)
    rng = np.random.default_rng(seed + 1)
    for _ in range(3):
        price = rng.uniform(-50, 200, problem.num_classes)
        weights = rng.integers(0, 4, (2, problem.num_classes))
        found, _ = Functional(problem, pool, weights).evaluate(price)
        assert found.bound >= best - 1e-6


@given(seeds)
def test_reach_bounds_allocations_that_use_a_pattern(seed: int) -> None:
    problem = random_problem(seed)
    pool = whole_pool(problem)
    value, counts = best_choice(problem, pool)
    assume(counts is not None)
    assert counts is not None
    price = np.random.default_rng(seed + 1).uniform(-50, 200, problem.num_classes)
    for weights in whole_weights(problem, 1000)[:4]:
        functional = Functional(problem, pool, np.stack([np.zeros_like(weights), weights]))
        reach = functional.evaluate(price)[0].reach
        for k, row in zip(problem.class_of_node(), counts, strict=True):
            mine = (pool.node_class == k) & (pool.counts == row).all(axis=1)
            assert reach[mine] >= value - 1e-6


@given(seeds)
def test_sharpening_never_loosens_and_stays_valid(seed: int) -> None:
    problem = random_problem(seed)
    pool, best = whole_pool(problem), best_gain(problem)
    assume(best > -np.inf)
    ones = np.ones(problem.num_classes, dtype=np.int64)
    functional = Functional(problem, pool, np.stack([np.zeros_like(ones), ones]))
    price = np.zeros(problem.num_classes)
    first, _ = functional.evaluate(price)
    sharp = sharpened(functional, price, best, 15, Clock())
    assert best - 1e-6 <= sharp.bound <= first.bound + 1e-9


def test_counting_tasks_sees_that_nodes_are_whole() -> None:
    """Nine tasks, nodes of five: the linear bound fills 1.8 nodes, the total says 5 + 4."""
    from formulations.column_generation.problem import make_problem

    problem = make_problem([9], [[1.0]], [[1.0]], [3], [[5.0]])
    pool = whole_pool(problem)
    root = relaxed(problem)
    functional = Functional(problem, pool, np.array([[0], [1]]))
    found, _ = functional.evaluate(root.price)
    assert root.bound * problem.scale == pytest.approx(18.0)  # 9 tasks of 2 each
    assert found.bound * problem.scale == pytest.approx(16.0)  # 10 + 6
