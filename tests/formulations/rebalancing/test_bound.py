"""The forced-moves bound never exceeds the optimum, and proves the published clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from formulations.rebalancing.bound import Needs, forced_moves_bound, lattice_bound
from formulations.rebalancing.loads import common_unit
from formulations.rebalancing.problem import balance_problem
from optim.format.instance import Instance
from tests.formulations.rebalancing.balance.cases import (
    awkward_problem,
    brute_force,
    budgeted,
    random_problem,
    varied_problem,
)
from tests.formulations.rebalancing.make import make_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.rebalancing.problem import BalanceProblem


@pytest.mark.parametrize("make", [varied_problem, awkward_problem])
@example(seed=28)
@example(seed=454)
@example(seed=1111)
@given(seed=st.integers(0, 100_000))
def test_below_every_optimum(make: Callable[..., BalanceProblem], seed: int) -> None:
    problem = make(seed, num_tasks=5, num_nodes=4)
    best = brute_force(problem)
    if best is not None:
        assert forced_moves_bound(problem) <= best[0].distance + 1e-9 * max(1.0, problem.mean)


@given(st.integers(0, 100_000), st.booleans())
def test_below_every_optimum_with_a_budget_of_cost(seed: int, unit: bool) -> None:
    rng = np.random.default_rng(seed)
    cost = np.full(6, 1.5) if unit else rng.integers(1, 9, 6) / 2
    problem = random_problem(
        seed, 6, 3, cost=cost, max_cost=float(rng.integers(0, 16)) / 2, max_moves=None,
        weight=rng.choice([0.5, 1.0, 2.0], 3),
    )  # fmt: skip
    best = brute_force(problem)
    assert best is not None
    assert forced_moves_bound(problem) <= best[0].distance + 1e-9


def test_counts_by_hand() -> None:
    """Loads 10, 2, 0 (mean 4): for d = 1 node 0 loses ≥ 5 (a 4 and a 3), node 2 gains ≥ 3."""
    problem = make_problem([4.0, 3.0, 3.0, 2.0], [0, 0, 0, 1], 3)
    needs = Needs(problem)
    excess, lack = needs.outside(1.0)
    np.testing.assert_allclose(excess, [5, 0, 0], atol=1e-9)
    np.testing.assert_allclose(lack, [0, 1, 3], atol=1e-9)
    assert needs.least_moves(excess, lack) == (2, True)
    one_move = budgeted(problem, 1)
    # one move leaves at least 6 on node 0: 2 above the mean, which moving the 4 reaches
    assert forced_moves_bound(one_move) == pytest.approx(2.0, abs=1e-6)
    assert brute_force(one_move)[0].distance == pytest.approx(2.0)  # type: ignore[index]


def test_no_budget_leaves_only_the_lattice() -> None:
    problem = make_problem([2.0, 2.0, 2.0, 4.0], [0, 0, 0, 0], 4)  # mean 2.5, loads even
    assert lattice_bound(problem) == pytest.approx(0.5)
    assert forced_moves_bound(problem) == pytest.approx(0.5)


def test_common_unit() -> None:
    assert common_unit(np.array([0.3, 0.45])) == pytest.approx(0.15)
    assert common_unit(np.array([4.0, 6.0])) == pytest.approx(2.0)
    assert common_unit(np.array([1 / 3, np.pi])) is None
    assert common_unit(np.zeros(3)) is None


def test_key_groups_that_may_not_move_do_not_count() -> None:
    pinned = make_problem([5.0, 5.0], [0, 0], 2, allowed=[[True, False], [True, False]])
    assert forced_moves_bound(pinned) == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("cluster_60x1200_v40_s0_m20", 5.18755),
        ("cluster_20x400_v40_s0_m10", 0.53055),
        ("scalein_20x400_v20_s0_m20", 2.165),
    ],
)
def test_published_clusters(shared_data, name: str, bound: float) -> None:  # type: ignore[no-untyped-def]
    instance = Instance.load(shared_data / "albic" / f"{name}.json.gz")
    assert forced_moves_bound(balance_problem(instance)) >= bound


@pytest.mark.parametrize("num_nodes", [5, 70_000])
def test_key_groups_by_home_and_load_are_those_of_a_sort_by_two_keys(num_nodes: int) -> None:
    rng = np.random.default_rng(4)
    load, home = rng.integers(0, 9, 300) / 4.0, rng.integers(0, num_nodes, 300)
    problem = make_problem(load, home, num_nodes)
    assert (problem.by_home(-load) == np.lexsort((-load, home))).all()
