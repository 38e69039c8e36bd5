"""The cheapest moves within a load distance, against all placements."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.rebalancing.problem import Watch, balance_problem
from heuristics.rebalancing.balance_search import cheapen, cost_bound, search_cheapest, undone
from optim import solve
from tests.formulations.rebalancing.balance.cases import budgeted
from tests.formulations.rebalancing.test_bound_with_copies import replicas

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.rebalancing.problem import BalanceProblem


def _into(taken: list[tuple[Any, float]]) -> Callable[[Any, float], None]:
    return lambda placement, cost: taken.append((placement, cost))


def _within(share: float, seed: int) -> tuple[BalanceProblem, list[Any]]:
    """Return a case with a share of its load distance asked for, and all its feasible plans."""
    problem = budgeted(balance_problem(replicas(seed)))
    problem = replace(problem, max_distance=share * problem.levels(problem.home).distance)
    every = itertools.product(range(problem.num_nodes), repeat=problem.num_tasks)
    return problem, [p for p in map(np.array, every) if problem.is_feasible(p)]


def test_costs_lie_between_bound_and_optimum() -> None:
    best = tried = 0
    for seed in range(30):
        problem, plans = _within(0.6, seed)
        if not plans:
            continue
        least = min(map(problem.moving_cost, plans))
        bound = cost_bound(problem)
        assert bound <= least + 1e-9, seed
        taken: list[tuple[Any, float]] = []
        search_cheapest(problem, (), 0, bound, Watch(), _into(taken))
        costs = [cost for _, cost in taken]
        assert costs == sorted(costs, reverse=True)
        assert not costs or costs[-1] >= least - 1e-9, seed
        tried += 1
        best += bool(costs) and costs[-1] <= least + 1e-9
    assert best >= 0.9 * tried > 7


def test_the_method_tells_cost_and_bound_in_the_units_of_the_file() -> None:
    instance = replicas(8)
    tasks = replace(instance.tasks, state=instance.tasks.state * 1e9)
    free = replace(instance.limits, max_migrations=None, max_migration_cost=None)
    now = solve(instance, "balance-search").evaluation
    assert now is not None
    limited = replace(free, max_load_distance=2.0 * (now.load_distance or 0.0) + 1.0)
    large = replace(instance, tasks=tasks, limits=limited)
    result = solve(large, "balance-search", objective="migration_cost")
    assert result.objective is not None
    assert result.evaluation is not None
    assert result.objective.value == result.evaluation.migration_cost
    assert result.bound is not None
    assert result.bound <= (result.objective.value or 0.0) * (1 + 1e-9)


def test_migrations_are_undone_and_exchanged_for_cheaper_ones() -> None:
    undid = cheaper = 0
    for seed in range(20):
        problem, plans = _within(0.9, seed)
        dearest = max(plans, key=problem.moving_cost, default=problem.home)
        less = undone(problem, dearest)
        assert not plans or problem.is_feasible(less), seed
        assert problem.moving_cost(less) <= problem.moving_cost(dearest), seed
        undid += problem.moving_cost(less) < problem.moving_cost(dearest)
        if not problem.moving_cost(dearest):
            continue
        found = cheapen(problem, dearest, np.random.default_rng(seed), None)
        if found is not None:
            assert problem.is_feasible(found), seed
            assert problem.moving_cost(found) < problem.moving_cost(dearest), seed
            cheaper += 1
    assert undid >= 5
    assert cheaper >= 5
