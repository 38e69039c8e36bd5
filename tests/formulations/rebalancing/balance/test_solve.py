"""balance-milp's levels against brute force, on every solver, form and option."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from formulations.rebalancing.balance import milp as solving
from formulations.rebalancing.balance.milp import solve_balance, value_of
from formulations.rebalancing.balance.model import Settings
from formulations.rebalancing.problem import ordered
from optim.solvers import solve_linear
from tests.formulations.rebalancing.balance.cases import brute_force, random_problem, varied_problem
from tests.formulations.rebalancing.make import make_problem
from tests.slowly import product_of

if TYPE_CHECKING:
    from formulations.rebalancing.balance.model import BalanceAnswer, ModelForm
    from formulations.rebalancing.problem import BalanceProblem, Levels
    from optim.solvers import LinearSolution
    from optim.solvers.linear_model import LinearModel

SOLVERS = ("cbc", "highs", "scip")
FORMS: tuple[ModelForm, ...] = ("moves", "full")

Best = tuple["Levels", np.ndarray[Any, Any]] | None
"""What enumeration finds; None where there is no plan."""


@cache
def best_of_varied(seed: int) -> Best:
    return brute_force(varied_problem(seed))


@cache
def best_of_feature(feature: str) -> Best:
    return brute_force(random_problem(3, **FEATURES[feature]))


def check_against_brute_force(
    problem: BalanceProblem, settings: Settings, *known: Best
) -> BalanceAnswer:
    """Solve, and compare every level with the optimum by enumeration, if that is not known."""
    hard = settings.drain_first
    best = known[0] if known else brute_force(problem, drain_first=hard)
    answer = solve_balance(problem, settings, [problem.home])
    if best is None:
        assert answer.placement is None
        assert answer.levels[0].termination == "infeasible"
        return answer
    assert answer.placement is not None
    assert problem.is_feasible(answer.placement)
    reached = ordered(problem.levels(answer.placement), hard)
    assert reached == pytest.approx(ordered(best[0], hard), abs=2e-3)
    for level in answer.levels:
        assert level.termination == "optimal"
        assert level.value is not None
        assert level.bound is not None
        assert level.bound <= level.value <= level.bound + 1e-3
    return answer


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(6))
def test_five_nodes_equal_brute_force(solver: str, form: ModelForm, seed: int) -> None:
    settings = Settings(solver=solver, form=form)
    check_against_brute_force(varied_problem(seed), settings, best_of_varied(seed))


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("drain", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_many_problems_equal_brute_force(solver: str, drain: bool, form: ModelForm) -> None:
    for seed in range(100, 130):
        check_against_brute_force(
            varied_problem(seed), Settings(solver=solver, form=form, drain_first=drain)
        )


FEATURES = {
    "unit budget": {"max_moves": 2},
    "no budget": {"max_moves": None},
    "nothing may move": {"max_moves": 0},
    "cost budget": {"max_moves": None, "cost": [1, 2, 3, 0.5, 1.5, 4], "max_cost": 4.5},
    "both budgets": {"max_moves": 2, "cost": [1, 2, 3, 0.5, 1.5, 4], "max_cost": 4.0},
    "weights": {"weight": [0.5, 1, 1, 2, 1.5], "max_moves": 3},
    "background": {"background": [3, 0, 5, 0, 1], "max_moves": 3},
    "leaving": {"leaving": [True, False, False, False, True], "max_moves": 3},
    "into leaving": {
        "leaving": [True, False, False, False, True], "max_moves": 3, "into_leaving": True,
    },
    "further resource": {
        "usage": [[3], [1], [2], [4], [1], [2]], "headroom": [[4], [4], [4], [4], [np.inf]],
        "max_moves": 4,
    },
    "least load": {
        "usage": [[3], [1], [2], [4], [1], [2]], "floor": [[1], [0], [1], [0], [1]], "max_moves": 4,
    },
    "allowed": {"allowed": np.arange(30).reshape(6, 5) % 3 > 0, "max_moves": 5},
    "distance limit": {"max_moves": 4, "max_distance": 4.0},
}  # fmt: skip


@pytest.mark.parametrize(("feature", "solver"), product_of(FEATURES, "highs", ("cbc", "scip")))
def test_each_feature_equals_brute_force(feature: str, solver: str) -> None:
    """Both forms on HiGHS; on another back end one of them, in turn."""
    first = list(FEATURES).index(feature) % len(FORMS)
    for form in FORMS if solver == "highs" else FORMS[first : first + 1]:
        problem = random_problem(3, **FEATURES[feature])
        settings = Settings(solver=solver, form=form)
        check_against_brute_force(problem, settings, best_of_feature(feature))


@pytest.mark.parametrize("solver", SOLVERS)
def test_drain_hard_empties_first(solver: str) -> None:
    # one move only: draining costs balance, which the soft order would not pay
    problem = make_problem(
        [5.0, 5.0, 9.0, 1.0], [1, 1, 2, 0], 4, leaving=[True, False, False, False], max_moves=1
    )
    soft = check_against_brute_force(problem, Settings(solver=solver, drain_first=False))
    hard = check_against_brute_force(problem, Settings(solver=solver, drain_first=True))
    assert soft.placement is not None
    assert hard.placement is not None
    assert problem.levels(hard.placement).left == 0.0
    assert problem.levels(soft.placement).left == 1.0


@pytest.mark.parametrize("solver", SOLVERS)
def test_weighted_objective_equals_brute_force(solver: str) -> None:
    from itertools import product

    weights = (100.0, 1.0)
    for seed, form in enumerate(FORMS):
        problem = random_problem(seed, 5, 4)
        placements = [np.array(p) for p in product(range(4), repeat=5)]
        least = min(
            value_of(problem.levels(p), "weighted", weights)
            for p in placements
            if problem.is_feasible(p)
        )
        settings = Settings(solver=solver, form=form, objective="weighted", weights=weights)
        answer = solve_balance(problem, settings, [problem.home])
        assert answer.levels[0].value == pytest.approx(least, abs=2e-3)
        assert answer.levels[0].termination == "optimal"


@pytest.mark.parametrize("form", FORMS)
def test_counterexample_to_the_lemmas(form: ModelForm) -> None:
    """A = {6,6}, {7}, {7}, B empty: 2.67 with a 6 moved onto B, 3.33 with B empty."""
    problem = make_problem([6, 6, 7, 7], [0, 0, 1, 2], 4, leaving=[False, False, False, True])
    settled = check_against_brute_force(problem, Settings(form=form))
    literal = check_against_brute_force(replace(problem, into_leaving=True), Settings(form=form))
    assert settled.levels[0].value == pytest.approx(10 / 3)
    assert literal.levels[0].value == pytest.approx(8 / 3)


@pytest.mark.slow
def test_monotone_in_the_budget() -> None:
    for seed in range(5):
        values = []
        for budget in range(7):
            problem = random_problem(seed, max_moves=budget)
            answer = solve_balance(problem, Settings(), [problem.home])
            values.append(answer.levels[0].value or 0.0)
        assert all(b <= a + 1e-3 for a, b in pairwise(values))


def test_rounds_empty_the_leaving_nodes() -> None:
    """Under a budget, repeated rounds empty B; with an ample budget one round does."""
    rng = np.random.default_rng(5)
    home = np.repeat(np.arange(5), 4)
    leaving = np.array([True, True, False, False, False])
    load = rng.integers(2, 6, 20).astype(float)
    whole = make_problem(load, home, 5, leaving=leaving)
    answer = solve_balance(whole, Settings(gap=1.0), [home])
    assert answer.placement is not None
    assert whole.levels(answer.placement).left == 0.0
    for _ in range(20):
        problem = make_problem(load, home, 5, leaving=leaving, max_moves=2)
        answer = solve_balance(problem, Settings(), [home])
        assert answer.placement is not None
        home = answer.placement
        if not leaving[home].any():
            break
    assert not leaving[home].any()


def test_never_worse_than_the_start_or_than_staying() -> None:
    for seed in range(6):
        problem = varied_problem(seed, num_tasks=30, num_nodes=5)
        rng = np.random.default_rng(seed)
        starts = [problem.home]
        for _ in range(200):
            other = problem.home.copy()
            chosen = rng.integers(0, 30, 2)
            other[chosen] = rng.integers(0, 5, 2)
            if problem.is_feasible(other):
                starts.append(other)
        settings = Settings(deadline=0.0)  # no time at all: the best start comes back
        answer = solve_balance(problem, settings, starts)
        feasible = [s for s in starts if problem.is_feasible(s)]
        if feasible:
            assert answer.placement is not None
            mine = problem.levels(answer.placement)
            assert not any(problem.is_better(problem.levels(s), mine) for s in feasible)


def test_gap_is_absolute_in_points() -> None:
    problem = random_problem(11, 12, 5, max_moves=None)
    answer = solve_balance(problem, Settings(gap=100.0), [problem.home])
    level = answer.levels[0]
    assert level.value == problem.levels(problem.home).distance
    assert level.termination == "gap_reached"


def test_with_a_gap_no_model_is_solved_for_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(13, 10, 4, max_moves=None)
    solved = []

    def counting(model: LinearModel, *args: Any, **options: Any) -> LinearSolution:
        solved.append(model.name)
        return solve_linear(model, *args, **options)

    monkeypatch.setattr("formulations.rebalancing.balance.milp.solve_linear", counting)
    answer = solve_balance(problem, Settings(gap=0.01), [problem.home])
    assert len(solved) == 1
    assert [level.goal for level in answer.levels] == ["distance", "sides"]
    assert answer.levels[1].termination == "iteration_limit"
    assert answer.placement is not None
    reached = problem.levels(answer.placement)
    assert answer.levels[1].value == reached.over + reached.under
    solve_balance(problem, Settings(), [problem.home])
    assert len(solved) == 3


def test_a_model_that_is_not_made_in_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(3)
    asked = Settings(deadline=time.perf_counter() + 60.0, form="moves")
    monkeypatch.setattr(solving, "MODELLED", 1e3)
    monkeypatch.setattr(solving, "solve_linear", lambda *_, **__: pytest.fail("it is made"))
    answer = solve_balance(problem, asked, [problem.home])
    assert np.array_equal(answer.placement, problem.home)
    assert answer.levels[0].termination == "time_limit"
