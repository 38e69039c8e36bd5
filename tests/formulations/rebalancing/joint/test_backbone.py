"""The backbone of dense traffic: which pairs, what models of it bound, and what is found by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.generators import generate
from formulations.rebalancing.joint.problem import (
    JointAim,
    JointProblem,
    all_places,
    backbone_of,
    collocation_bound,
    columns_of,
    joint_problem,
)
from formulations.rebalancing.joint.search import Effort, find, relax
from optim import solve
from optim.solvers.inprocess import solve_small_milp
from tests.formulations.rebalancing.balance.cases import budgeted, varied_problem
from tests.formulations.rebalancing.joint.cases import most, placements
from tests.formulations.rebalancing.make import budgets_of

TASKS = 6


def uneven(seed: int) -> JointProblem:
    """Return a problem with traffic between all key groups, strong in one-to-one pairs."""
    rng = np.random.default_rng([seed, 17])
    source, target = np.triu_indices(TASKS, 1)
    rate = rng.choice([0.1, 1 / 3, 0.7], len(source)) * rng.integers(1, 4, len(source)) / 4
    order = rng.permutation(TASKS)
    for a, b in zip(order[::2], order[1::2], strict=True):
        rate[(source == min(a, b)) & (target == max(a, b))] = rng.integers(20, 40) / 3
    balance = varied_problem(seed, TASKS, 3)
    return JointProblem(balance, source.astype(np.int64), target.astype(np.int64), rate)


def test_backbone_is_the_pairs_near_the_typical_rate() -> None:
    problem = uneven(0)
    assert problem.is_dense
    assert problem.backbone.sum() == TASKS // 2
    assert problem.rate[problem.backbone].min() > problem.rate[~problem.backbone].max()
    larger = replace(problem, rate=1e6 * problem.rate)
    assert np.array_equal(larger.backbone, problem.backbone)
    # 2 is typical (4 of 6 by pairs of 3, 2 of 6 by pairs of 1 … 0.2): a tenth of it is in
    few = problem.part(np.arange(problem.num_pairs) < 3)
    assert replace(few, rate=np.array([2.0, 2.0, 0.2])).backbone.tolist() == [True, True, True]
    assert replace(few, rate=np.array([2.0, 2.0, 0.1])).backbone.tolist() == [True, True, False]


def test_even_or_sparse_traffic_is_its_own_backbone() -> None:
    problem = uneven(0)
    even = replace(problem, rate=np.ones(problem.num_pairs))
    assert backbone_of(even).is_whole
    sparse = problem.part(problem.backbone)
    assert not sparse.is_dense
    assert backbone_of(sparse).problem is sparse
    empty = problem.part(np.zeros(problem.num_pairs, np.bool_))
    assert backbone_of(empty).is_whole


@pytest.mark.parametrize("seed", range(60))
def test_a_model_of_the_backbone_bounds_the_whole(seed: int) -> None:
    problem = uneven(seed)
    backbone = backbone_of(problem)
    assert not backbone.is_whole
    best = most(problem)
    built = backbone.build(columns_of(backbone.problem, all_places(problem.balance)), JointAim())
    relaxed, answer = relax(built), solve_small_milp(built.model)
    assert relaxed is not None
    if best is None:
        assert str(answer.termination) == "infeasible"
        return
    assert answer.objective is not None
    assert answer.objective >= best - 1e-6
    assert relaxed.bound >= answer.objective - 1e-6
    assert collocation_bound(problem) >= best - 1e-9
    for placement in list(placements(problem))[::50]:
        x = built.write(placement)
        assert x is not None
        assert built.model.violation(x) <= 1e-6
        assert built.model.objective_of(x) >= problem.collocated(placement) - 1e-9


def test_counting_bound_of_dense_traffic_by_hand() -> None:
    balance = replace(
        varied_problem(0, 4, 3),
        home=np.array([0, 1, 1, 2]), cost=np.ones(4), budgets=budgets_of(np.ones(4), 1, None),
    )  # fmt: skip
    source, target = np.array([0, 0, 0, 1]), np.array([1, 2, 3, 2])
    problem = JointProblem(balance, source, target, np.array([3.0, 2.0, 4.0, 5.0]))
    # 5 is together; one move: key group 0 joins 1 and 2 (5), never 3 too (all its pairs: 9)
    assert collocation_bound(problem) == pytest.approx(10.0)
    two = replace(problem, balance=budgeted(balance, 2))
    # a second mover may come along: 0 has 5 and half of 4, 3 has 4; all traffic is 14
    assert collocation_bound(two) == pytest.approx(14.0)
    ring = np.array([0, 0, 1]), np.array([1, 3, 3])
    triangle = JointProblem(two.balance, *ring, np.full(3, 3.0))
    # two of three come to the third: each has 3 there, and half of 3 with the other
    assert collocation_bound(triangle) == pytest.approx(9.0)
    paid = replace(problem, balance=budgeted(balance, cost=1.0))
    assert collocation_bound(paid) == pytest.approx(10.0, abs=1e-4)


@pytest.mark.parametrize("seed", range(30))
def test_what_is_found_by_the_backbone_is_feasible_and_bounded(seed: int) -> None:
    problem = uneven(seed)
    every = list(placements(problem))
    starts = [problem.balance.home, *every[:1]]
    known = find(problem, starts, Effort(first=400, seed=seed))
    if not every:
        assert known.placement is None
        return
    assert known.placement is not None
    assert problem.is_feasible(known.placement)
    best = max(map(problem.collocated, every))
    assert problem.collocated(every[0]) <= known.value <= best + 1e-9 <= known.bound + 2e-9
    again = find(problem, starts, Effort(first=400, seed=seed))
    assert np.array_equal(again.placement, known.placement)  # type: ignore[arg-type]


@pytest.mark.slow
def test_one_to_one_traffic_beside_full_partitioning_is_collocated() -> None:
    instance = generate(
        "joint", seed=3, nodes=10, key_groups=10, operators=2, varies=40, max_migrations=10,
        max_load_distance=2.0,
    )  # fmt: skip
    problem = joint_problem(instance)
    assert problem.is_dense
    result = solve(instance, "joint-search")
    assert result.feasible
    assert result.objective is not None
    assert result.bound is not None
    # annealing on all pairs alone stays below 0.9 of it
    assert result.objective.value >= 0.9 * result.bound


def test_a_start_that_misses_the_cap_is_tried_again() -> None:
    # the first search ends at 1.006 points; 0.9746 can be reached
    instance = generate(
        "joint", seed=5, nodes=20, key_groups=20, operators=2, varies=40, max_migrations=20,
        max_load_distance=1.0,
    )  # fmt: skip
    result = solve(instance, "joint-search", bound="counting", steps=1_000)
    assert result.feasible
