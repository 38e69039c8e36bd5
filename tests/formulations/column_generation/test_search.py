"""The search on counts: every step's arithmetic, the pair split against enumeration, the pool."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.column_generation.problem import PatternProblem, make_problem
from formulations.column_generation.search import (
    Placed,
    fill_by_patterns,
    gain_of,
    improved,
    kick,
    new_scratch,
    nothing_placed,
    put,
    searched,
    split_pair,
)
from heuristics.task_allocation.group_search import best_combination

EPS = 1e-9


def placed_as(problem: PatternProblem, table: Any) -> Placed:
    placed = nothing_placed(problem)
    put(placed, table, problem.sizes)
    return placed


def split(placed: Placed, first: int, second: int, most_steps: int) -> float:
    scratch = new_scratch(*placed.load.shape)
    return float(split_pair(placed, first, second, scratch, most_steps, 1e-9))


def kicked(placed: Placed, strength: int, seed: int) -> None:
    np.random.seed(seed)  # noqa: NPY002
    kick(placed, np.zeros(len(placed.num_tasks), np.int64), 1, strength)


@st.composite
def drawn(draw: st.DrawFn) -> tuple[PatternProblem, np.ndarray[Any, Any]]:
    """Draw a problem and a placement that keeps its bounds."""
    num_groups, num_nodes = draw(st.integers(1, 4)), draw(st.integers(2, 4))
    resources = draw(st.integers(1, 2))
    whole = st.integers(0, 3)
    table = np.array(
        draw(st.lists(st.lists(whole, min_size=num_groups, max_size=num_groups),
                      min_size=num_nodes, max_size=num_nodes))
    )  # fmt: skip
    load = np.array(
        draw(st.lists(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=resources,
                               max_size=resources), min_size=num_groups, max_size=num_groups))
    )  # fmt: skip
    rate = np.zeros((num_groups, num_groups))
    for g, h in itertools.combinations_with_replacement(range(num_groups), 2):
        rate[g, h] = rate[h, g] = draw(st.sampled_from([0.0, 0.0, 1.0, 2.5, 4.0]))
    used = table @ load
    slacks = st.sampled_from([0.0, 1.0, 3.0, 1e15, np.inf])  # some nodes are unbounded, or nearly
    slack = draw(st.lists(slacks, min_size=num_nodes, max_size=num_nodes))
    floor = used - 1.0 if draw(st.booleans()) else None
    room = used + np.array(slack)[:, None]
    one = np.ones(num_nodes, dtype=np.int64)
    return make_problem(table.sum(axis=0), load, rate, one, room, floor), table


def check(problem: PatternProblem, placed: Placed) -> None:
    """Every derived figure equals what the counts say, and no bound is broken."""
    held = placed.num_tasks
    assert (held >= 0).all()
    np.testing.assert_allclose(placed.drawn, held @ problem.rate, atol=EPS)
    np.testing.assert_allclose(placed.room, problem.limit - held @ problem.load, atol=EPS)
    np.testing.assert_allclose(placed.spare, held @ problem.load - problem.least, atol=EPS)
    assert (placed.left == problem.sizes - held.sum(axis=0)).all()
    assert (placed.room >= -EPS).all()
    assert (placed.spare >= -EPS).all()
    assert gain_of(placed) == pytest.approx(problem.gain(held).sum(), abs=1e-6)


@pytest.mark.slow
@given(drawn(), st.data())
def test_splits_and_kicks_keep_the_figures(
    case: tuple[PatternProblem, Any], data: st.DataObject
) -> None:
    problem, table = case
    placed = placed_as(problem, table)
    check(problem, placed)
    for seed in range(4):
        first = data.draw(st.integers(0, len(table) - 2))
        second = data.draw(st.integers(first + 1, len(table) - 1))
        before = gain_of(placed)
        gained = split(placed, first, second, 1000)
        assert gain_of(placed) - before == pytest.approx(gained, abs=1e-6)
        check(problem, placed)
        kicked(placed, 2, seed)
        check(problem, placed)
        assert placed.left.sum() == 0


@given(drawn())
@settings(max_examples=150)
def test_split_is_the_best_of_all(case: tuple[PatternProblem, Any]) -> None:
    problem, table = case
    placed = placed_as(problem, table)
    both = table[0] + table[1]
    best = -np.inf
    for choice in itertools.product(*(range(k + 1) for k in both)):
        pair = np.array([choice, both - np.array(choice)])
        used = pair @ problem.load
        fits = (used <= problem.limit[:2] + EPS).all() and (used >= problem.least[:2] - EPS).all()
        if fits:
            best = max(best, float(problem.gain(pair).sum()))
    split(placed, 0, 1, 10**9)
    assert problem.gain(placed.num_tasks[:2]).sum() == pytest.approx(best, abs=1e-6)


@given(drawn(), st.sampled_from([0.0, 0.25, 0.5]))
def test_patterns_keep_the_bounds(case: tuple[PatternProblem, Any], share: float) -> None:
    problem, _ = case
    own = problem.rate @ problem.sizes - np.diag(problem.rate)
    placed = nothing_placed(problem)
    complete = fill_by_patterns(placed, own, share, 1000)
    assert complete == (placed.left.sum() == 0)
    assert (placed.room >= -EPS).all()
    assert (placed.left >= 0).all()


@given(drawn())
def test_search_never_falls_below_its_start(case: tuple[PatternProblem, Any]) -> None:
    problem, table = case
    pool = np.full((50, problem.num_classes), -1, dtype=np.int64)
    best, again = (searched(problem, [table], 5, 3, (0.0,), pool) for _ in range(2))
    assert best is not None
    assert problem.gain(best).sum() >= problem.gain(table).sum() - 1e-6
    assert (best.sum(axis=0) == problem.sizes).all()
    assert np.array_equal(best, again)
    met = pool[pool[:, 0] >= 0] @ problem.load
    assert (met[:, None] <= problem.limit[None] + EPS).all(axis=2).any(axis=1).all()


def test_no_pair_is_looked_at_beyond_the_budget() -> None:
    """One look at the pair finds the best; without any the start stays."""
    problem = make_problem([2, 2], np.ones((2, 1)), [[0.0, 1.0], [1.0, 0.0]], [2], [[2.0]])
    table = np.array([[2, 0], [0, 2]])
    found = [searched(problem, [table], 9, 0, pairs=pairs) for pairs in (0.0, 1.0)]
    assert [counts is not None and counts.tolist() for counts in found] == [
        [[2, 0], [0, 2]], [[1, 1], [1, 1]],
    ]  # fmt: skip


def test_a_capacity_that_shuts_out_everything() -> None:
    problem = make_problem([1], [[1.0]], [[0.0]], [2], [[0.5]])
    assert searched(problem, [], 3, 0, (0.0,)) is None
    assert improved(problem, [], 0) is None


def test_pool_combines_patterns_from_different_placements() -> None:
    # two pairs of groups; the best placement takes one node from each of two bad ones
    problem = make_problem([2, 2], np.ones((2, 1)), [[0.0, 1.0], [1.0, 0.0]], [2], [[2.0]])
    patterns = np.array([[2, 0], [0, 2], [1, 1], [1, 0]])
    counts = best_combination(problem, patterns, 10.0)
    assert counts is not None
    assert counts.tolist() == [[1, 1], [1, 1]]
    assert best_combination(problem, patterns[:1], 10.0) is None
