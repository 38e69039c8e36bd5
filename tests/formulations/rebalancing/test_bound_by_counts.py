"""The counting bound: below every optimum, by hand, and never weaker when the budget shrinks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from experiments.generators.rebalancing import SCALE_IN
from formulations.rebalancing.balance.search import search_balance
from formulations.rebalancing.bound import (
    SHARES,
    _Counting,
    counting_bound,
    forced_moves_bound,
    least_exchanged,
)
from formulations.rebalancing.problem import balance_problem
from tests.formulations.rebalancing.balance.cases import (
    awkward_problem,
    brute_force,
    budgeted,
    varied_problem,
)
from tests.formulations.rebalancing.make import make_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.rebalancing.problem import BalanceProblem


@pytest.mark.parametrize("make", [varied_problem, awkward_problem])
@settings(max_examples=150, deadline=None)
@example(seed=28)
@example(seed=454)
@example(seed=1111)
@given(seed=st.integers(0, 100_000))
def test_below_every_optimum(make: Callable[..., BalanceProblem], seed: int) -> None:
    problem = make(seed, num_tasks=5, num_nodes=4)
    best = brute_force(problem)
    if best is not None:
        top = problem.levels(problem.home).distance
        assert counting_bound(problem, 0.0, top) <= best[0].distance + 1e-9 * max(1.0, problem.mean)


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_emptied_nodes_whose_sums_depend_on_the_order(seed: int) -> None:
    """All of a node leaves, all that leaves arrives: the same key groups, summed in other orders.

    The budget allows every placement of the key groups that must leave, and the search finds one
    far below what a bound says that takes the last bits of these sums for a difference.
    """
    shape = {"nodes": 10, "key_groups": 20, "leaving": 2, "overloaded": 0}
    instance = SCALE_IN.make(seed, {**shape, "max_migrations": 40, "varies": 20})
    problem = balance_problem(instance)
    found = search_balance(problem, tries=200)
    assert found is not None
    assert forced_moves_bound(problem) <= problem.levels(found).distance + 1e-9
    assert forced_moves_bound(problem) < 0.001


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 100_000),
    st.floats(0.0, 8.0),
    st.floats(0.0, 1.0),
    st.floats(-2.0, 2.0),
)
def test_every_price_bounds_what_any_placement_spends(
    seed: int, slack: float, share: float, price: float
) -> None:
    """Not only the best price: each least spending is below what a random placement spends."""
    rng = np.random.default_rng(seed)
    problem = varied_problem(seed, num_tasks=8, num_nodes=4)
    placement = np.array(
        [rng.choice(np.flatnonzero(row)) if row.any() else 0
         for row in problem.may_be_rows(np.arange(8))]
    )  # fmt: skip
    if not problem._on_allowed_nodes(placement):
        return
    if (problem.node_usage(placement) > problem.headroom).any():
        return
    distance = problem.levels(placement).distance + slack
    for cost, spent in (
        (np.ones(8), problem.moves(placement)),
        (problem.cost, problem.moving_cost(placement)),
    ):
        counting = _Counting(problem, cost, 0.0)
        assert counting._least(distance, share, price) <= spent + 1e-6 * (1 + abs(price))


@pytest.mark.parametrize("make", [varied_problem, awkward_problem])
@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 100_000), slack=st.sampled_from([0.0, 0.0, 0.3, 2.0]))
def test_each_node_exchanges_what_any_placement_exchanges_at_least(
    make: Callable[..., BalanceProblem], seed: int, slack: float
) -> None:
    """Of random placements, whatever they take of the budgets, within their own load distance."""
    problem = make(seed, num_tasks=8, num_nodes=4)
    rng = np.random.default_rng(seed)
    may = problem.may_be_rows(np.arange(8))
    if not may.any(axis=1).all():
        return
    for moved in (8, 3, 1):
        placement = np.array([rng.choice(np.flatnonzero(row)) for row in may])
        keep = rng.permutation(8)[moved:]
        keep = keep[may[keep, problem.home[keep]]]
        placement[keep] = problem.home[keep]
        if (problem.node_usage(placement) > problem.headroom).any():
            continue
        away = placement != problem.home
        leave = np.bincount(problem.home[away], minlength=4)
        arrive = np.bincount(placement[away], minlength=4)
        least = least_exchanged(problem, problem.levels(placement).distance + slack)
        for share, row in zip(SHARES, least, strict=True):
            assert (row <= share * leave + (1.0 - share) * arrive).all()


@pytest.mark.slow
def test_a_node_a_little_too_high_needs_two_migrations_by_hand() -> None:
    """Loads 4.5, 4, 3.5, mean 4, key groups of about 1.

    One move of 0.9 from the first to the last leaves 3.6 and 4.4. For d < 0.4 the first loses at
    least 0.9 and must gain something too; single nodes alone show one migration, and say 0.
    """
    problem = make_problem(
        [0.9] * 5 + [1.0] * 4 + [0.875] * 4, [0] * 5 + [1] * 4 + [2] * 4, 3, max_moves=1
    )
    assert forced_moves_bound(problem) == pytest.approx(0.4, abs=1e-5)
    best = brute_force(replace(problem, load=problem.load))
    assert best is not None
    assert best[0].distance >= forced_moves_bound(problem) - 1e-9


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 100_000))
def test_monotone_in_the_budget_and_below_every_plan(seed: int) -> None:
    problem = varied_problem(seed, num_tasks=20, num_nodes=5)
    bounds = [forced_moves_bound(budgeted(problem, moves)) for moves in (1, 3, 6, 12)]
    assert all(a >= b - 1e-4 for a, b in pairwise(bounds))
    found = search_balance(budgeted(problem, 6), tries=5)
    if found is not None:
        assert bounds[2] <= problem.levels(found).distance + 1e-9
