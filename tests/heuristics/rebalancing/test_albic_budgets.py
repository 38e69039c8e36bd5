"""ALBIC with a budget of moves and one of cost: what it says is impossible is impossible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.rebalancing.balance.instance import balance_problem
from heuristics.rebalancing.albic.units import Units
from optim import solve
from optim.referee.result import Termination
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
    assert (single.max_moves, single.max_cost) == (2, 10)
    assert single.restricted.tolist() == [0, 1, 2]
    result = solve(instance, "albic")
    assert result.plan is not None
    assert dict(result.plan.assignment) == {"k0": "n1", "k1": "n2", "k2": "n0"}


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
