"""The compiled rebalancing search: limits kept, counts equal our own, never worse than staying."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.rebalancing.balance.kernel import BEST, FIRST_STEP, lower
from formulations.rebalancing.balance.search import (
    PARTNERS,
    fixed_part,
    search_balance,
    state_of,
)
from formulations.rebalancing.bound import forced_moves_bound
from formulations.rebalancing.problem import balance_problem
from optim.format.instance import Instance
from tests.formulations.rebalancing.balance.cases import brute_force, varied_problem
from tests.formulations.rebalancing.make import make_problem


@given(st.integers(0, 100_000))
def test_keeps_limits_and_is_never_worse_than_staying(seed: int) -> None:
    problem = varied_problem(seed, num_tasks=15, num_nodes=5)
    found = search_balance(problem, tries=5, seed=seed % 100)
    if problem.is_feasible(problem.home):
        assert found is not None
        staying = problem.levels(problem.home)
        assert not problem.is_better(staying, problem.levels(found))
    if found is not None:
        assert problem.is_feasible(found)
        assert forced_moves_bound(problem) <= problem.levels(found).distance + 1e-9


@given(st.integers(0, 100_000))
def test_every_step_keeps_the_budgets_it_was_given(seed: int) -> None:
    """The kernel alone, from staying: no repair afterwards hides a broken count."""
    problem = varied_problem(seed, num_tasks=15, num_nodes=5)
    if not problem.is_feasible(problem.home):
        return
    fixed = fixed_part(problem)
    state = state_of(problem, problem.home, seed + 1)
    best = problem.home.copy()
    staying = problem.levels(problem.home).distance
    memory = np.array([staying, FIRST_STEP, 0.0, 0.0])
    goals = np.array([0.0, 0.5, 2.0])
    start = problem.home.copy()
    lower(fixed, state, start, best, memory, goals, 50, 8, PARTNERS, 0.0, 64)
    assert problem.is_feasible(best)
    assert problem.levels(best).distance <= staying + 1e-9
    assert memory[BEST] == pytest.approx(problem.levels(best).distance, abs=1e-9)


@settings(max_examples=30)
@given(st.integers(0, 100_000))
def test_near_the_optimum_of_small_problems(seed: int) -> None:
    problem = varied_problem(seed, num_tasks=5, num_nodes=4)
    best = brute_force(problem)
    found = search_balance(problem, tries=30)
    if found is not None:
        assert best is not None
        assert problem.levels(found).distance >= best[0].distance - 1e-9


def test_repeats_for_a_seed() -> None:
    rng = np.random.default_rng(2)
    problem = make_problem(rng.random(200), rng.integers(0, 10, 200), 10, max_moves=15)
    first, second = (search_balance(problem, seed=4) for _ in range(2))
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(first, second)


def test_key_groups_that_may_not_stay_are_moved() -> None:
    problem = make_problem(
        [2.0, 2.0, 1.0], [0, 0, 1], 3, allowed=[[False, True, True], [True] * 3, [True] * 3]
    )
    found = search_balance(problem)
    assert found is not None
    assert found[0] != 0


def test_read_only_arrays_do_not_compile_again() -> None:
    from formulations.rebalancing.balance.kernel import drain

    problem = make_problem([1.0, 2.0, 3.0], [0, 0, 1], 3, leaving=[False, True, False])
    search_balance(problem)
    compiled = len(drain.compiled.signatures)
    for array in (problem.load, problem.cost, problem.home, problem.leaving):
        array.flags.writeable = False
    search_balance(problem)
    assert len(drain.compiled.signatures) == compiled


@pytest.mark.parametrize(
    ("name", "distance"),
    [
        ("cluster_60x1200_v40_s0_m20", 5.188),
        ("cluster_60x1200_v40_s0_m50", 0.30),
        ("cluster_60x1200_v60_s0_m50", 1.15),
        ("scalein_20x400_v20_s0_m20", 3.25),
    ],
)
def test_published_clusters(shared_data: Path, name: str, distance: float) -> None:
    problem = balance_problem(Instance.load(shared_data / "albic" / f"{name}.json.gz"))
    found = search_balance(problem, target=forced_moves_bound(problem))
    assert found is not None
    assert problem.levels(found).distance <= distance
