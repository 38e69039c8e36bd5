"""Large neighbourhoods: feasible, no worse, and what only three nodes together can do."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heuristics.rebalancing.balance_search import rearrange
from tests.formulations.rebalancing.balance.cases import varied_problem
from tests.formulations.rebalancing.make import make_problem


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 100_000))
def test_what_is_returned_is_feasible_and_no_worse(seed: int) -> None:
    problem = varied_problem(seed, num_tasks=20, num_nodes=6)
    if not problem.is_feasible(problem.home):
        return
    rng, placement = np.random.default_rng(seed), problem.home
    for _ in range(3):
        found = rearrange(problem, placement, 0.0, rng)
        if found is not None:
            assert problem.is_feasible(found)
            now, before = problem.levels(found).distance, problem.levels(placement).distance
            assert now <= before + 1e-9
            placement = found


def test_three_nodes_at_once() -> None:
    """5, 5 | 4, 4 | 3, 3 in pieces of 5, 4 and 3: only a round of three exchanges evens it out."""
    problem = make_problem([5.0, 5.0, 4.0, 4.0, 3.0, 3.0], [0, 0, 1, 1, 2, 2], 3)
    found = rearrange(problem, problem.home, 0.0, np.random.default_rng(0), 5.0)
    assert found is not None
    assert problem.levels(found).distance == 0.0


def test_no_budget_nothing_to_do() -> None:
    problem = make_problem([5.0, 5.0, 3.0, 3.0], [0, 0, 1, 1], 2, max_moves=0)
    assert rearrange(problem, problem.home, 0.0, np.random.default_rng(0)) is None


def test_the_budget_is_part_of_the_model() -> None:
    """12 against 0 in pieces of 4, 4, 2, 2: two moves even it out, the one allowed leaves 8, 4."""
    problem = make_problem([4.0, 4.0, 2.0, 2.0], [0, 0, 0, 0], 2, max_moves=1)
    found = rearrange(problem, problem.home, 0.0, np.random.default_rng(0), 5.0)
    assert found is not None
    assert problem.levels(found).distance == 2.0
    dear = make_problem([4.0, 4.0, 2.0, 2.0], [0] * 4, 2, cost=[5.0, 5.0, 1.0, 1.0], max_cost=4.0)
    found = rearrange(dear, dear.home, 0.0, np.random.default_rng(0), 5.0)
    assert found is not None
    assert dear.levels(found).distance == 2.0
