"""The search on counts: every step's arithmetic, the pair split against enumeration, the pool."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heuristics.task_allocation.count_search import fill_by_patterns, kick, search_counts
from heuristics.task_allocation.counts import (
    Counts,
    gain_of,
    load_counts,
    new_counts,
    new_scratch,
    split_pair,
)
from heuristics.task_allocation.group_search import CountProblem, best_combination
from heuristics.task_allocation.groups import NO_RESTRICTION

EPS = 1e-9


def board_with(size, load, rate, room, spare, allowed, table):  # type: ignore[no-untyped-def]
    counts = new_counts(size, load, rate, room, spare, allowed)
    load_counts(counts, table, size)
    return counts


def split(counts, first, second, most_steps):  # type: ignore[no-untyped-def]
    scratch = new_scratch(counts.load.shape[0], counts.load.shape[1])
    return split_pair(counts, first, second, scratch, most_steps, 1e-9)


def kicked(counts, strength, seed):  # type: ignore[no-untyped-def]
    np.random.seed(seed)  # noqa: NPY002
    kick(counts, np.zeros(counts.held.shape[0], np.int64), 1, strength)


def gain(counts):  # type: ignore[no-untyped-def]
    return gain_of(counts)


def by_patterns(size, load, rate, room, spare, allowed, own, share):  # type: ignore[no-untyped-def]
    counts = new_counts(size, load, rate, room, spare, allowed)
    complete = fill_by_patterns(counts, own, share, 1000)
    return counts, complete


@st.composite
def drawn(draw: st.DrawFn) -> tuple[CountProblem, np.ndarray[Any, Any]]:
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
    floor = draw(st.booleans())
    problem = CountProblem(
        size=table.sum(axis=0),
        load=load,
        rate=rate,
        room=used + np.array(slack)[:, None],
        spare=-(used - 1.0) if floor else np.full(used.shape, np.inf),
        allowed=NO_RESTRICTION,
        owner=np.arange(num_nodes),
    )
    return problem, table


def arrays(problem: CountProblem) -> tuple[Any, ...]:
    return (
        problem.size,
        problem.load,
        problem.rate,
        problem.room,
        problem.spare,
        problem.allowed,
    )


def check(problem: CountProblem, counts: Counts) -> None:
    """Every derived figure equals what the counts say, and no bound is broken."""
    held = counts.held
    assert (held >= 0).all()
    np.testing.assert_allclose(counts.drawn, held @ problem.rate, atol=EPS)
    np.testing.assert_allclose(counts.room, problem.room - held @ problem.load, atol=EPS)
    np.testing.assert_allclose(counts.spare, problem.spare + held @ problem.load, atol=EPS)
    assert (counts.left == problem.size - held.sum(axis=0)).all()
    assert (counts.room >= -EPS).all()
    assert (counts.spare >= -EPS).all()
    assert gain(counts) == pytest.approx(problem.gain(held).sum(), abs=EPS)


@pytest.mark.slow
@given(drawn(), st.data())
def test_splits_and_kicks_keep_the_figures(
    case: tuple[CountProblem, Any], data: st.DataObject
) -> None:
    problem, table = case
    counts = board_with(*arrays(problem), table)
    check(problem, counts)
    for seed in range(4):
        first = data.draw(st.integers(0, len(table) - 2))
        second = data.draw(st.integers(first + 1, len(table) - 1))
        before = gain(counts)
        gained = split(counts, first, second, 1000)
        assert gain(counts) - before == pytest.approx(gained, abs=EPS)
        check(problem, counts)
        kicked(counts, 2, seed)
        check(problem, counts)
        assert counts.left.sum() == 0


@given(drawn())
@settings(max_examples=150)
def test_split_is_the_best_of_all(case: tuple[CountProblem, Any]) -> None:
    problem, table = case
    counts = board_with(*arrays(problem), table)
    both = table[0] + table[1]
    best = -np.inf
    for choice in itertools.product(*(range(k + 1) for k in both)):
        pair = np.array([choice, both - np.array(choice)])
        used = pair @ problem.load
        fits = (used <= problem.room[:2] + EPS).all() and (used + problem.spare[:2] >= -EPS).all()
        if fits:
            best = max(best, float(problem.gain(pair).sum()))
    split(counts, 0, 1, 10**9)
    assert problem.gain(counts.held[:2]).sum() == pytest.approx(best, abs=1e-8)


@given(drawn(), st.sampled_from([0.0, 0.25, 0.5]))
def test_patterns_keep_the_bounds(case: tuple[CountProblem, Any], share: float) -> None:
    problem, _ = case
    own = problem.rate @ problem.size - np.diag(problem.rate)
    counts, complete = by_patterns(*arrays(problem), own, share)
    assert complete == (counts.left.sum() == 0)
    assert (counts.room >= -EPS).all()
    assert (counts.left >= 0).all()


@given(drawn())
def test_search_never_falls_below_its_start(case: tuple[CountProblem, Any]) -> None:
    problem, table = case
    pool = np.full((50, len(problem.size)), -1, dtype=np.int64)
    found = [
        search_counts(*arrays(problem), np.array([0.0]), table[None], 5, 2, 500, EPS, 3, pool)
        for _ in range(2)
    ]
    value, best, index = found[0]
    assert index >= 0
    assert value >= problem.gain(table).sum() - EPS
    assert value == pytest.approx(problem.gain(best).sum(), abs=1e-8)
    assert (best.sum(axis=0) == problem.size).all()
    assert np.array_equal(found[1][1], best)
    met = pool[pool[:, 0] >= 0]
    assert ((met @ problem.load)[:, None] <= problem.room[None] + EPS).all(axis=2).any(axis=1).all()


def test_a_capacity_that_shuts_out_everything() -> None:
    one = np.ones(1, dtype=np.int64)
    value, _, index = search_counts(
        one, np.ones((1, 1)), np.zeros((1, 1)), np.full((2, 1), 0.5), np.full((2, 1), np.inf),
        NO_RESTRICTION, np.array([0.0]), np.zeros((0, 2, 1), dtype=np.int64), 3, 1, 10, EPS, 0,
        np.zeros((0, 1), dtype=np.int64),
    )  # fmt: skip
    assert (value, index) == (-1.0, -1)


def test_pool_combines_patterns_from_different_placements() -> None:
    # two pairs of groups; the best placement takes one node from each of two bad ones
    problem = CountProblem(
        size=np.array([2, 2]),
        load=np.ones((2, 1)),
        rate=np.array([[0.0, 1.0], [1.0, 0.0]]),
        room=np.full((2, 1), 2.0),
        spare=np.full((2, 1), np.inf),
        allowed=NO_RESTRICTION,
        owner=np.zeros(2, dtype=np.int64),
    )
    patterns = np.array([[2, 0], [0, 2], [1, 1], [1, 0]])
    counts = best_combination(problem, patterns, 10.0)
    assert counts is not None
    assert counts.tolist() == [[1, 1], [1, 1]]
    assert best_combination(problem, patterns[:1], 10.0) is None
