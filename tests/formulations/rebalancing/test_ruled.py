"""Exact methods equal brute force under every mix of rules; searches keep the rules."""

from __future__ import annotations

import pytest

from optim import solve
from optim.format.instance import Instance
from tests.formulations.rebalancing.ruled_cases import feasible, ruled_case

SEEDS = [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 40))]


def check_balance(instance: Instance, form: str = "moves") -> None:
    """Compare `balance-milp` with all placements."""
    plans = list(feasible(instance))
    result = solve(instance, "balance-milp", form=form, start_broken="refuse")
    if not plans:
        assert result.termination == "infeasible"
        return
    assert result.termination == "optimal"
    assert result.objective is not None
    best = min(distance for distance, _, _ in plans)
    assert result.objective.value == pytest.approx(best, rel=2e-5, abs=1e-4)
    assert result.bound is not None
    assert result.bound <= best + 1e-9


def check_joint(instance: Instance) -> None:
    """Compare `joint-milp` with all placements, emptied leaving nodes first."""
    plans = list(feasible(instance))
    result = solve(instance, "joint-milp", start_broken="refuse")
    if not plans:
        assert result.termination == "infeasible"
        return
    assert result.gap is not None
    assert result.gap <= 1e-6
    assert result.objective is not None
    least = min(left for _, _, left in plans)
    best = max(traffic for _, traffic, left in plans if left <= least + 1e-9)
    assert result.objective.value == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_balance_milp_equals_brute_force(seed: int) -> None:
    check_balance(ruled_case(seed), "full" if seed % 4 == 0 else "moves")


@pytest.mark.parametrize("seed", SEEDS)
def test_joint_milp_equals_brute_force(seed: int) -> None:
    check_joint(ruled_case(seed))


@pytest.mark.parametrize("method", ["balance-search", "joint-search"])
@pytest.mark.parametrize("seed", SEEDS)
def test_searches_find_a_plan_where_there_is_one(seed: int, method: str) -> None:
    instance = ruled_case(seed)
    plans = list(feasible(instance))
    result = solve(instance, method, start_broken="refuse")
    assert result.feasible == bool(plans)
    if not plans or result.bound is None or result.bound_of == "restricted":
        return
    if method == "balance-search":
        assert result.bound <= min(distance for distance, _, _ in plans) + 1e-9
    else:
        assert result.bound >= max(traffic for _, traffic, _ in plans) - 1e-9
