"""ALBIC with a budget of moves and one of cost: what it says is impossible is impossible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.rebalancing.problem import balance_problem
from heuristics.rebalancing.albic_sets import Units
from optim import Instance, solve
from optim.referee import Termination
from tests.heuristics.rebalancing.cases import case


def test_single_key_groups_keep_both_budgets_as_they_are() -> None:
    """Two forced moves of cost 9 and 1 fit 2 moves and a cost of 10; their larger shares do not."""
    instance = case(
        "000",
        [(0, 1, 1.0), (0, 2, 1.0)],
        operators="abc",
        nodes=3,
        state=[9, 1, 1],
        allowed={0: [1], 1: [2]},
        max_migrations=2,
        max_migration_cost=10,
    )
    problem = balance_problem(instance)
    single = Units.of(problem, []).merged({2: 0})
    assert [b.limit for b in single.budgets] == [2, 10]
    assert single.restricted.tolist() == [0, 1, 2]
    result = solve(instance, "albic")
    assert result.plan is not None
    assert dict(result.plan.assignment) == {"k0": "n1", "k1": "n2", "k2": "n0"}


def test_units_of_key_groups_with_copies_pay_for_their_moves() -> None:
    """Copies are rules of single key groups; a unit knows of none."""
    document = case("001", [(0, 1, 1.0)], nodes=3, state=[4, 2, 1], max_migration_cost=3).to_dict()
    document["tasks"][0]["copies"] = ["n1"]
    problem = balance_problem(Instance.from_dict(document))
    assert problem.has_copy.tolist() == [True, False, False]
    merged = Units.of(problem, [np.array([0, 1])]).merged()
    assert merged.is_feasible(merged.home)
    assert not merged.is_feasible(np.array([1, 1]))
    assert Units.of(problem, []).merged().is_feasible(np.array([1, 0, 1]))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_infeasible_only_where_the_milp_says_so(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = case(
        "".join(map(str, rng.integers(0, 3, 5))),
        [(0, 1, 1.0), (1, 2, 2.0)],
        loads=rng.integers(1, 6, 5).tolist(),
        operators="aabbb",
        nodes=3,
        state=rng.integers(1, 10, 5).tolist(),
        allowed={k: np.flatnonzero(rng.random(3) < 0.6).tolist() or [0] for k in range(5)},
        max_migrations=3,
        max_migration_cost=float(rng.integers(5, 20)),
    )
    ours, exact = solve(instance, "albic"), solve(instance, "balance-milp")
    infeasible = Termination.INFEASIBLE
    assert (ours.termination is infeasible) == (exact.termination is infeasible)
    assert (ours.plan is None) == (exact.plan is None)
