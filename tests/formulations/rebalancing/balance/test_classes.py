"""The exact form by counts equals brute force on every level, with every feature it takes."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.rebalancing.balance.classes import count_classes, few_classes, solve_by_classes
from formulations.rebalancing.balance.model import Settings
from formulations.rebalancing.problem import BalanceProblem, balance_problem
from optim.format.instance import Instance
from tests.formulations.rebalancing.balance.cases import brute_force, budgeted, varied_problem
from tests.formulations.rebalancing.make import make_problem

EXAMPLES = Path(__file__).parents[4] / "examples"


def with_classes(seed: int) -> BalanceProblem:
    """A random problem of six key groups on four nodes that come in three kinds."""
    rng = np.random.default_rng([seed, 3])
    problem = varied_problem(seed, num_tasks=6, num_nodes=4)
    kind = rng.integers(0, 3, 6)
    usage = problem.usage[kind] if problem.num_resources else problem.usage
    cost = np.full(6, 1.5) if not all(b.counts_all for b in problem.budgets) else problem.cost
    budgets = tuple(b if b.counts_all else b._replace(weight=cost) for b in problem.budgets)
    return replace(problem, load=problem.load[kind], usage=usage, cost=cost, budgets=budgets)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 100_000))
def test_equals_brute_force_on_all_levels(seed: int) -> None:
    problem = with_classes(seed)
    answer = solve_by_classes(problem, Settings(), [problem.home])
    best = brute_force(problem)
    assert answer is not None
    if best is None:
        assert answer.placement is None
        assert answer.levels[0].termination == "infeasible"
        return
    assert answer.placement is not None
    assert problem.is_feasible(answer.placement)
    reached, optimal = problem.levels(answer.placement), best[0]
    assert reached.distance == pytest.approx(optimal.distance, abs=1e-9)
    assert reached.left == pytest.approx(optimal.left, abs=1e-9)
    assert reached.over + reached.under == pytest.approx(optimal.over + optimal.under, abs=1e-9)
    assert [level.termination for level in answer.levels] == ["optimal"] * len(answer.levels)
    assert answer.levels[0].bound == pytest.approx(optimal.distance, abs=1e-9)


@pytest.mark.parametrize("number", range(1, 7))
def test_the_capsys_queries_are_solved(number: int) -> None:
    """Operators of equal tasks on four workers: branch and bound proves nothing in seconds."""
    problem = balance_problem(Instance.load(EXAMPLES / f"capsys-q{number}.json"))
    answer = solve_by_classes(problem, Settings(), [problem.home])
    assert answer is not None
    assert answer.placement is not None
    assert problem.is_feasible(answer.placement)
    assert answer.levels[0].termination == "optimal"
    assert answer.levels[0].bound == pytest.approx(
        problem.levels(answer.placement).distance, abs=1e-9
    )


def test_by_hand() -> None:
    """Six 2s and three 3s on the first of three nodes: 2 + 2 + 3 on each, six migrations."""
    problem = make_problem([2.0] * 6 + [3.0] * 3, [0] * 9, 3, max_moves=6)
    answer = solve_by_classes(problem, Settings())
    assert answer is not None
    assert answer.placement is not None
    assert problem.levels(answer.placement).distance == pytest.approx(0.0)
    assert problem.moves(answer.placement) == 6
    short = solve_by_classes(budgeted(problem, 5), Settings())
    assert short is not None
    assert short.levels[0].value == pytest.approx(1.0)  # 2 + 2 + 2 + 2 stay; 3 + 3; 3 + 2 + 2


def test_what_does_not_suit_is_left_to_others() -> None:
    problem = make_problem([1.0, 1.0], [0, 0], 2)
    assert solve_by_classes(problem, Settings(objective="weighted")) is None
    assert solve_by_classes(problem, Settings(drain_first=True)) is None
    rng = np.random.default_rng(0)
    assert not few_classes(make_problem(rng.random(40), rng.integers(0, 4, 40), 4))
    assert not few_classes(make_problem([1.0, 1.0], [0, 0], 2, cost=[1.0, 2.0], max_cost=1.0))


def test_out_of_time_keeps_the_start() -> None:
    problem = make_problem([2.0] * 6 + [3.0] * 3, [0] * 9, 3)
    late = Settings(deadline=time.perf_counter() - 1.0)
    answer = solve_by_classes(problem, late, [problem.home])
    assert answer is not None
    assert answer.placement is not None
    assert answer.levels[0].termination == "time_limit"
    assert answer.levels[0].bound is not None
    assert answer.levels[0].bound <= 7.0


def test_homes_do_not_split_classes() -> None:
    problem = make_problem([1.0, 1.0, 2.0], [0, 1, 2], 3)
    assert len(count_classes(problem).example) == 2
    leaving = make_problem([1.0, 1.0, 2.0], [0, 1, 2], 3, leaving=[True, False, False])
    assert len(count_classes(leaving).example) == 3  # only one of the 1s may stay on node 0
