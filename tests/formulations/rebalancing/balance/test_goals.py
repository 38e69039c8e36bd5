"""The search for large problems: state equals a recount, limits kept, bisection never worse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.rebalancing.balance.search import (
    GoalSearch,
    Portfolio,
    bisect_goals,
    search_balance,
    start_at_home,
)
from formulations.rebalancing.bound import Needs, forced_moves_bound
from formulations.rebalancing.problem import Watch, plain_problem
from tests.formulations.rebalancing.balance.cases import varied_problem
from tests.formulations.rebalancing.make import make_problem

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Ints


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 100_000), st.floats(0.01, 6.0), st.integers(1, 8))
def test_attempts_keep_limits_and_count_right(seed: int, goal: float, partners: int) -> None:
    problem = varied_problem(seed, num_tasks=25, num_nodes=6)
    start = start_at_home(problem)
    search = GoalSearch(problem, start, seed % 9, Watch())
    for aim in (goal, 0.5 * goal):  # the second begins anew
        reached = search.attempt(aim, partners)
        placement = search.placement()
        assert reached == pytest.approx(problem.levels(placement).distance, abs=1e-9)
        if problem.is_feasible(start) and problem.max_distance is None:
            assert problem.is_feasible(placement)
        state, order = search._state, search._order
        load = problem.node_load(placement) - problem.share
        np.testing.assert_allclose(state.deviation, load, atol=1e-9)
        np.testing.assert_array_equal(state.size, np.bincount(placement, minlength=6))
        price, most = problem.counted_budgets
        left = most - price[problem.rules.migrates(placement)].sum(axis=0)
        assert state.budget == pytest.approx(left)
        _check_lists(problem, search, order)


def _check_lists(problem: BalanceProblem, search: GoalSearch, order: Ints) -> None:
    """Each list holds just the key groups that came from elsewhere, by load."""
    state, fixed = search._state, search._fixed
    for node in range(problem.num_nodes):
        found, k = [], int(state.first[node])
        while k >= 0:
            found.append(k)
            k = int(state.after[k])
        expected = np.flatnonzero((state.place == node) & (fixed.home != node))
        assert sorted(found) == expected.tolist()
        assert (np.diff(fixed.load[found]) >= 0).all()
    assert sorted(order.tolist()) == list(range(problem.num_tasks))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 100_000))
def test_bisection_takes_only_better_placements(seed: int) -> None:
    problem = varied_problem(seed, num_tasks=25, num_nodes=6)
    taken: list[float] = []
    start = start_at_home(problem)
    bisect_goals(
        problem, start, 1, forced_moves_bound(problem), Watch(),
        lambda placement: taken.append(problem.levels(placement).distance),
    )  # fmt: skip
    told = [problem.levels(start).distance, *taken]
    assert all(a > b for a, b in zip(told, taken, strict=False))


def attempted(problem: BalanceProblem, first: float, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the goals of a bisection from `first` on, each with what was reached."""
    attempts: list[Any] = []
    attempt = GoalSearch.attempt

    def noted(self: GoalSearch, goal: float, partners: int) -> float:
        reached = attempt(self, goal, partners)
        attempts.append((goal, reached))
        return reached

    monkeypatch.setattr(GoalSearch, "attempt", noted)
    bisect_goals(problem, problem.home, 1, 0.01, Watch(), lambda _: None, first)
    return attempts


def test_from_a_first_goal_steps_get_longer_until_one_is_not_met(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = clusters(100, 30, 5, max_moves=200)
    attempts = attempted(problem, 2.0, monkeypatch)
    goals, reached = np.array(attempts).T
    count = int((reached <= goals * (1 + 1e-9)).argmin())  # the first that is not met
    assert goals[0] == 2.0
    assert count > 3
    steps = goals[1:4] / np.minimum(goals, reached)[:3]
    np.testing.assert_allclose(steps, 0.95 ** np.array([2, 4, 8]))
    # then between what is met and what is not
    assert goals[count + 1] > goals[count]


def test_a_large_problem_begins_where_budgets_are_usually_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("formulations.rebalancing.balance.search.LARGE", 2_000)
    problem = clusters(100, 30, 5, max_moves=120)
    portfolio, begun = Portfolio(problem, 0, 0.01, Watch()), list[float]()
    monkeypatch.setattr(
        "formulations.rebalancing.balance.search.bisect_goals",
        lambda *given: begun.append(given[-1]),
    )
    portfolio.aim_at_goals(problem.home)
    needs = Needs(problem)
    assert needs.least_moves(*needs.outside(begun[0] * 1.001))[0] <= 120 / 1.4
    assert needs.least_moves(*needs.outside(begun[0] * 0.999))[0] > 120 / 1.4


def clusters(nodes: int, per_node: int, seed: int, **given: object) -> BalanceProblem:
    """Key groups of about 1 on every node; a tenth of the nodes lies 30 % high, a tenth low."""
    rng = np.random.default_rng(seed)
    load = rng.uniform(0.95, 1.05, (nodes, per_node))
    load[: nodes // 10] *= 1.3
    load[-(nodes // 10) :] *= 0.7
    home = np.repeat(np.arange(nodes), per_node)
    return make_problem(load.ravel(), home, nodes, **given)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_large_cluster_comes_near_the_mean() -> None:
    """60,000 key groups: only the bisection runs. The highest node is 15 above the mean of 50."""
    problem = clusters(1200, 50, 3, max_moves=3_000)
    found = search_balance(problem)
    assert found is not None
    assert problem.moves(found) <= 3_000
    assert problem.levels(problem.home).distance > 14
    assert problem.levels(found).distance < 0.2


def test_repeats_for_a_seed() -> None:
    problem = clusters(100, 30, 5, max_moves=200)
    found = []
    for _ in range(2):
        search = GoalSearch(problem, problem.home, 7, Watch())
        search.attempt(0.3, 6)
        found.append(search.placement())
    np.testing.assert_array_equal(*found)


def test_cost_counts_and_dear_key_groups_stay() -> None:
    """Every second key group costs 50 times as much: with 100 units only cheap ones move."""
    problem = clusters(40, 20, 1, cost=np.tile([1.0, 50.0], 400), max_cost=100.0)
    found = search_balance(problem)
    assert found is not None
    moved = np.flatnonzero(found != problem.home)
    assert problem.cost[moved].sum() <= 100.0
    assert len(moved) > 20
    assert problem.levels(found).distance < problem.levels(problem.home).distance - 1.0


def test_more_key_groups_on_a_node_than_are_looked_at() -> None:
    rng = np.random.default_rng(4)
    problem = make_problem(rng.uniform(0.5, 1.5, 3_000), np.zeros(3_000, np.int64), 5)
    search = GoalSearch(problem, problem.home, 0, Watch())
    reached = search.attempt(0.05, 12)
    assert reached <= 0.05 * (1 + 1e-9)


def test_an_exchange_brings_two_nodes_within_the_goal_with_few_migrations() -> None:
    """261 of 400 nodes are beyond the goal, and single key groups are too large to move."""
    rng = np.random.default_rng(1)
    home = np.repeat(np.arange(400), 50)
    load = rng.normal(0.5, 0.03, len(home))
    problem = plain_problem(load, home, 400, max_moves=300)
    search = GoalSearch(problem, problem.home, 0, Watch())
    assert search.attempt(0.1, 12) <= 0.1 * (1 + 1e-9)
    assert problem.moves(search.placement()) <= 300
