"""Relief of broken capacities: by hand, as a property, and against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.rebalancing.balance.search import relieved, search_balance, start_at_home
from formulations.rebalancing.problem import BalanceProblem
from tests.formulations.rebalancing.balance.cases import brute_force, varied_problem
from tests.formulations.rebalancing.make import make_problem


def broken(problem: BalanceProblem, placement: np.ndarray) -> float:
    """Return how much of all resources stands above capacities and below least loads."""
    used = problem.node_usage(placement)
    below = np.where(problem.leaving[:, None], 0.0, np.maximum(0.0, problem.floor - used))
    return float(np.maximum(0.0, used - problem.headroom).sum() + below.sum())


def test_one_move_relieves_a_node() -> None:
    memory = [[4.0], [3.0], [2.0], [1.0]]
    problem = make_problem(
        [1.0] * 4, [0, 0, 0, 1], 3, usage=memory, headroom=[[6.0], [6.0], [6.0]], max_moves=1
    )
    placement = start_at_home(problem)
    assert problem.is_within_capacities(placement)
    assert problem.moves(placement) == 1
    assert placement[3] == 1


def test_a_swap_relieves_where_no_node_has_room_for_a_move() -> None:
    memory = [[5.0], [4.0], [3.0], [3.0]]
    problem = make_problem(
        [1.0] * 4, [0, 0, 1, 1], 2, usage=memory, headroom=[[8.0], [8.0]], max_moves=2
    )
    placement = start_at_home(problem)
    assert problem.node_usage(placement).max() <= 8.0
    assert problem.moves(placement) == 2
    cheap = make_problem(
        [1.0] * 4, [0, 0, 1, 1], 2, usage=memory, headroom=[[8.0], [8.0]], max_moves=1
    )
    assert np.array_equal(start_at_home(cheap), cheap.home)


def test_a_node_below_its_least_load_is_filled() -> None:
    problem = make_problem(
        [2.0, 2.0, 2.0], [0, 0, 0], 2, usage=[[2.0]] * 3, floor=[[1.0], [1.0]], max_moves=1
    )
    placement = start_at_home(problem)
    assert problem.is_within_capacities(placement)
    assert problem.moves(placement) == 1


@pytest.mark.parametrize("seed", range(60))
def test_relief_breaks_less_and_keeps_the_rest(seed: int) -> None:
    problem = varied_problem(seed, 7, 4)
    placement = relieved(problem, problem.home, seed)
    assert broken(problem, placement) <= broken(problem, problem.home) + 1e-9
    moved = placement != problem.home
    assert (problem.price[moved].sum(axis=0) <= problem.budget + 1e-5).all()
    for task in np.flatnonzero(moved).tolist():
        assert problem.may_be(task, int(placement[task]))
    assert np.array_equal(placement, relieved(problem, problem.home, seed))


@pytest.mark.slow
def test_search_finds_nearly_every_plan_there_is_from_a_broken_home() -> None:
    there, found = 0, 0
    for seed in range(250):
        problem = varied_problem(seed, 6, 4)
        if problem.is_within_capacities(problem.home) or brute_force(problem) is None:
            continue
        there += 1
        found += search_balance(problem, (), seed) is not None
    assert there >= 25
    # without relief it is three of four
    assert found >= 0.93 * there
