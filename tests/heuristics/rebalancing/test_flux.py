"""Flux against a plain Python telling of the same rule, and its promises on random problems."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.rebalancing.problem import BalanceProblem
from heuristics.rebalancing.flux import flux_placement, run
from optim.format.instance import Instance
from optim.methods.registry import Request
from tests.formulations.rebalancing.balance.cases import varied_problem
from tests.formulations.rebalancing.make import make_problem


def plain_flux(problem: BalanceProblem) -> np.ndarray:
    """Flux for unrestricted problems with a budget of moves, told as simply as possible."""
    place, moved = problem.home.copy(), set()
    budget = problem.num_tasks if problem.most_moved is None else problem.most_moved
    share = np.where(problem.leaving, 0.0, problem.share)
    while True:
        load = problem.node_load(place)
        order = sorted(
            range(problem.num_nodes), key=lambda i: -(load - share)[i] / problem.weight[i]
        )
        receivers = [i for i in reversed(order) if not problem.leaving[i]]
        before = len(moved)
        for a, b in zip(order, receivers, strict=False):
            if a == b or len(moved) >= budget:
                break
            load = problem.node_load(place)

            def variance(shift: float, a: int = a, b: int = b, load: np.ndarray = load) -> float:
                off_a, off_b = load[a] - shift - share[a], load[b] + shift - share[b]
                return float(off_a**2 / problem.weight[a] + off_b**2 / problem.weight[b])

            fits = [
                k
                for k in np.flatnonzero(place == a).tolist()
                if k not in moved and variance(problem.load[k]) < variance(0.0) - 1e-9
            ]
            gap = (load - share)[a] / problem.weight[a] - (load - share)[b] / problem.weight[b]
            if gap <= 1e-9:
                break
            if fits:
                k = max(fits, key=lambda k: (problem.load[k], -k))
                place[k] = b
                moved.add(k)
        if len(moved) == before or len(moved) >= budget:
            return place


def test_biggest_group_that_lowers_the_variance_goes_to_the_least_loaded() -> None:
    # 12 against 2: a move of 10 or more would not lower the variance; 9 is the biggest below 10
    problem = make_problem([9.0, 2.0, 1.0, 2.0], [0, 0, 0, 1], 2, max_moves=1)
    placement, _ = flux_placement(problem)
    assert placement.tolist() == [1, 0, 0, 1]


def test_a_pass_pairs_first_with_last_and_second_with_second_last() -> None:
    problem = make_problem([3, 3, 2, 2, 1], [0, 0, 1, 1, 2], 4, max_moves=2)
    placement, _ = flux_placement(problem)
    # loads 6, 4, 1, 0: node 0 gives a 3 to node 3, node 1 gives a 2 to node 2
    assert placement.tolist() == [3, 0, 2, 1, 2]


@given(st.integers(0, 10_000))
def test_equals_the_plain_telling(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tasks, nodes = int(rng.integers(1, 30)), int(rng.integers(2, 8))
    problem = make_problem(
        rng.integers(1, 1000, tasks) / 64,
        rng.integers(0, nodes, tasks),
        nodes,
        max_moves=int(rng.integers(0, tasks + 1)),
        weight=rng.choice([1.0, 2.0], nodes),
        leaving=np.arange(nodes) < rng.integers(0, nodes),
    )
    np.testing.assert_array_equal(flux_placement(problem)[0], plain_flux(problem))


@given(st.integers(0, 10_000))
def test_keeps_every_limit_where_staying_does(seed: int) -> None:
    problem = varied_problem(seed, num_tasks=12)
    placement, _ = flux_placement(problem)
    moved = placement != problem.home
    assert not problem.leaving[placement[moved]].any()
    limits = make_like(problem)
    if limits.is_feasible(problem.home):
        assert limits.is_feasible(placement)


def make_like(problem: BalanceProblem) -> BalanceProblem:
    """Return the problem without a limit on the load distance, which Flux does not know."""
    from dataclasses import replace

    return replace(problem, max_distance=None)


def test_budget_by_cost() -> None:
    problem = make_problem([3, 2, 1], [0, 0, 0], 2, cost=[5.0, 2.0, 1.0], max_cost=3.0)
    placement, _ = flux_placement(problem)
    assert problem.moving_cost(placement) <= 3.0
    assert placement.tolist() == [0, 1, 1]


def test_drains_a_leaving_node() -> None:
    problem = make_problem([2.0] * 6, [0, 0, 1, 1, 2, 2], 3, leaving=[True, False, False])
    placement, _ = flux_placement(problem)
    assert not (placement == 0).any()
    assert problem.levels(placement).distance == 0.0


def test_published_cluster(shared_data) -> None:  # type: ignore[no-untyped-def]
    instance = Instance.load(shared_data / "albic" / "cluster_20x400_v40_s0_m10.json.gz")
    outcome = run(instance, Request())
    assert outcome.claimed == pytest.approx(0.88084, abs=1e-5)
    assert outcome.bound is None


def test_a_task_without_a_node_is_placed() -> None:
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "partial",
            "resources": ["cpu"],
            "nodes": [{"id": "a"}, {"id": "b"}],
            "tasks": [
                {"id": "k0", "load": {"cpu": 1}, "node": "a"},
                {"id": "k1", "load": {"cpu": 1}},
            ],
        }
    )
    outcome = run(instance, Request())
    assert outcome.node is not None
    assert outcome.node.tolist() == [0, 1]


def test_nothing_to_do() -> None:
    problem = make_problem([], [], 2)
    placement, _ = flux_placement(problem)
    assert len(placement) == 0
    assert not math.isnan(problem.levels(placement).distance)
