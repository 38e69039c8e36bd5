"""All solvers give the optimum that brute force finds, or the status a model deserves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optim.solvers import SOLVERS, LinearSolution, solve_linear
from optim.solvers.linear_model import TOLERANCE, LinearModel
from tests.optim.solvers.models import brute_force, knapsacks, random_model

NEITHER_BOUNDED = ["highs", "cbc", "scip"]


def assert_proven(solution: LinearSolution, model: LinearModel, optimum: float | None) -> None:
    """Check a solution against the optimum of a brute force."""
    if optimum is None:
        assert solution.termination == "infeasible"
        assert solution.x is None
        assert solution.objective is None
        assert solution.bound is None
        return
    assert solution.termination == "optimal", solution
    assert solution.x is not None
    assert model.violation(solution.x) <= TOLERANCE
    assert solution.objective == pytest.approx(optimum, rel=2e-6, abs=2e-6)
    assert solution.bound == pytest.approx(optimum, rel=2e-6, abs=2e-6)
    assert solution.objective == model.objective_of(solution.x)


@pytest.mark.parametrize("solver", ["highs", "cbc", "scip"])
@given(seed=st.integers(0, 100_000))
@settings(max_examples=15)
def test_random_models_equal_brute_force(solver: str, seed: int) -> None:
    model = random_model(np.random.default_rng(seed))
    assert_proven(solve_linear(model, solver, time_limit=60), model, brute_force(model))


@given(seed=st.integers(0, 100_000))
@settings(max_examples=15)
def test_random_models_of_integers_under_cp_sat_equal_brute_force(seed: int) -> None:
    model = random_model(np.random.default_rng(seed), whole=True)
    assert_proven(solve_linear(model, "cp-sat", time_limit=60), model, brute_force(model))


@pytest.mark.parametrize("seed", [98, 499, 579, 943, 1004, 2173])
def test_models_that_cbc_gets_wrong_with_probing(seed: int) -> None:
    model = random_model(np.random.default_rng(seed))
    assert_proven(solve_linear(model, "cbc", time_limit=60), model, brute_force(model))


@pytest.mark.parametrize("solver", SOLVERS)
class TestSmallModels:
    """Hand-made models at the edges of what a linear model can be."""

    def test_maximisation_with_offset(self, solver: str) -> None:
        model = knapsacks(12, 3, offset=-1000.0)
        assert_proven(solve_linear(model, solver), model, brute_force(model))

    def test_no_variables(self, solver: str) -> None:
        model = LinearModel("empty")
        model.set_objective([], [], offset=7.0)
        solution = solve_linear(model, solver)
        assert (solution.termination, solution.objective, solution.bound) == ("optimal", 7.0, 7.0)

    def test_no_rows(self, solver: str) -> None:
        model = LinearModel("no rows", "max")
        model.add_variables("x", 2, -3.0, 4.5, integer=[True, False], objective=[1.0, -1.0])
        solution = solve_linear(model, solver)
        assert solution.termination == "optimal"
        assert solution.x is not None
        assert solution.x.tolist() == [4.0, -3.0]

    def test_a_row_without_coefficients(self, solver: str) -> None:
        model = knapsacks(4, 1)
        model.add_rows("never", 1.0, np.inf, [], [], [], num_rows=1)
        assert solve_linear(model, solver).termination == "infeasible"

    def test_no_objective(self, solver: str) -> None:
        model = LinearModel("feasibility")
        x = model.add_variables("x", 3, upper=1.0, integer=True)
        model.add_rows("two", 2.0, 2.0, np.zeros(3, int), x.indices, 1.0)
        solution = solve_linear(model, solver)
        assert (solution.termination, solution.objective, solution.bound) == ("optimal", 0.0, 0.0)
        assert solution.x is not None
        assert solution.x.sum() == 2.0

    def test_infeasible(self, solver: str) -> None:
        model = LinearModel("infeasible")
        x = model.add_variables("x", 3, upper=1.0, integer=True, objective=1.0)
        model.add_rows("much", 4.0, np.inf, np.zeros(3, int), x.indices, 1.0)
        solution = solve_linear(model, solver)
        assert solution.termination == "infeasible"
        assert solution.x is None

    def test_infeasible_only_for_integers(self, solver: str) -> None:
        model = LinearModel("parity")
        x = model.add_variables("x", 3, upper=5.0, integer=True, objective=1.0)
        model.add_rows("odd", 7.0, 7.0, np.zeros(3, int), x.indices, [2.0, 2.0, 4.0])
        assert solve_linear(model, solver).termination == "infeasible"

    def test_crossed_bounds_are_infeasible_and_named(self, solver: str) -> None:
        model = LinearModel("crossed")
        x = model.add_variables("x", 2, lower=[0.0, 3.0], upper=2.0)
        model.add_rows("r", 0.0, 9.0, [0, 0], x.indices, 1.0)
        solution = solve_linear(model, solver)
        assert solution.termination == "infeasible"
        assert "x[1]" in solution.message


@pytest.mark.parametrize("solver", NEITHER_BOUNDED)
def test_equality_rows_and_free_integers(solver: str) -> None:
    model = LinearModel("diophantine")
    x = model.add_variables("x", 2, -np.inf, np.inf, integer=True, objective=[1.0, 2.0])
    box = model.add_variables("box", 1, 0.0, 10.0, integer=True)
    columns = [x.start, x.start + 1, x.start, x.start + 1, box.start]
    model.add_rows("eq", [1.0, 0.0], [1.0, 0.0], [0, 0, 1, 1, 1], columns, [3, 5, 1, 1, -1.0])
    solution = solve_linear(model, solver)
    # 3a + 5b = 1 and a + b in 0 … 10: a = 2 + 5k, b = -1 - 3k with 1 + 2k in 0 … 10
    assert solution.termination == "optimal"
    assert solution.x is not None
    assert solution.x.tolist() == [22.0, -13.0, 9.0]


@pytest.mark.parametrize("solver", NEITHER_BOUNDED)
def test_a_continuous_model(solver: str) -> None:
    model = LinearModel("lp", "max")
    x = model.add_variables("x", 2, upper=4.0, objective=[3.0, 2.0])
    model.add_rows("r", -np.inf, [5.0, 8.0], [0, 0, 1, 1], np.tile(x.indices, 2), [1, 1, 2, 1])
    assert_proven(solve_linear(model, solver), model, 3.0 * 3 + 2.0 * 2)


@pytest.mark.parametrize("solver", NEITHER_BOUNDED)
@pytest.mark.parametrize("integer", [True, False])
def test_unbounded(solver: str, integer: bool) -> None:
    model = LinearModel("unbounded", "max")
    x = model.add_variables("x", 2, integer=integer, objective=1.0)
    model.add_rows("r", -5.0, 5.0, [0, 0], x.indices, [1.0, -1.0])
    solution = solve_linear(model, solver)
    assert solution.termination == "unbounded"
    assert solution.x is None
    assert solution.bound is None


@pytest.mark.parametrize("solver", NEITHER_BOUNDED)
def test_unbounded_direction_in_an_infeasible_model(solver: str) -> None:
    model = LinearModel("both", "max")
    x = model.add_variables("x", 3, upper=[np.inf, 1.0, 1.0], integer=True, objective=1.0)
    model.add_rows("r", 3.0, np.inf, [0, 0], x.indices[1:], 1.0)
    model.add_rows("s", -np.inf, 9.0, [0, 0], x.indices[:2], [-1.0, 1.0])
    assert solve_linear(model, solver).termination == "infeasible"
