"""Parameters, capabilities, native options, gaps, seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optim.errors import InvalidInput, SolverUnavailable
from optim.solvers import SOLVERS, available, capabilities, relative_gap, solve_linear
from optim.solvers import highs as highs_backend
from optim.solvers.linear_model import LinearModel
from tests.optim.solvers.models import hard, knapsacks

#: A native option that ends the search early, and one that does not exist.
EARLY = {
    "cbc": {"maxNodes": 1},
    "highs": {"mip_max_nodes": 1},
    "scip": {"limits/nodes": 1},
    "cp-sat": {"stop_after_first_solution": True},
}
UNKNOWN = {"cbc": "noSuchOption", "highs": "no_such", "scip": "no/such", "cp-sat": "no_such"}


def test_unknown_solver_names_the_known_ones() -> None:
    with pytest.raises(SolverUnavailable, match=r"'gurobi'.*cbc, highs, scip, cp-sat"):
        solve_linear(knapsacks(3, 1), "gurobi")


def test_missing_solver_tells_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ImportError("No module named 'highsbox'")

    monkeypatch.setattr(highs_backend, "library_path", missing)
    highs_backend._package_version.cache_clear()
    assert not available("highs")
    with pytest.raises(SolverUnavailable, match="pip install highsbox, or use cbc, scip, cp-sat"):
        solve_linear(knapsacks(3, 1), "highs")


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_is_here_and_says_what_it_can(solver: str) -> None:
    assert available(solver)
    abilities = capabilities(solver)
    assert abilities.name == solver
    assert abilities.integer_only == (solver == "cp-sat")


@pytest.mark.parametrize(
    "wrong",
    [
        {"time_limit": -1.0},
        {"time_limit": float("nan")},
        {"gap": -0.1},
        {"abs_gap": float("inf")},
        {"seed": -1},
        {"seed": 2**40},
        {"threads": 0},
        {"warm_start": [1.0]},
        {"warm_start": [1.0, np.nan, 0.0]},
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        solve_linear(knapsacks(3, 1), "highs", **wrong)


@pytest.mark.parametrize("solver", SOLVERS)
def test_native_options_pass_through(solver: str) -> None:
    model = knapsacks(60, 10)
    limited = solve_linear(model, solver, time_limit=60, options=EARLY[solver])
    assert limited.termination in ("iteration_limit", "gap_reached")
    if limited.bound is not None and limited.objective is not None:
        assert limited.bound > limited.objective


def test_native_options_win() -> None:
    model = knapsacks(60, 10)
    solution = solve_linear(model, "highs", gap=1e-6, options={"mip_rel_gap": 0.5})
    assert solution.termination == "gap_reached"
    assert solution.gap is not None
    assert 1e-6 < solution.gap <= 0.5


@pytest.mark.parametrize("solver", SOLVERS)
def test_unknown_native_options_are_refused(solver: str) -> None:
    with pytest.raises(InvalidInput, match="option"):
        solve_linear(knapsacks(12, 3), solver, options={UNKNOWN[solver]: 1})


@pytest.mark.parametrize("solver", ["highs", "cp-sat"])
def test_wrong_values_of_native_options_are_refused(solver: str) -> None:
    name = {"highs": "mip_max_nodes", "cp-sat": "num_workers"}[solver]
    with pytest.raises(InvalidInput, match=name):
        solve_linear(knapsacks(12, 3), solver, options={name: "many"})


@pytest.mark.parametrize("solver", SOLVERS)
def test_relative_gap_ends_the_search(solver: str) -> None:
    solution = solve_linear(hard(), solver, time_limit=60, gap=0.2)
    assert solution.termination == "gap_reached"
    assert solution.gap is not None
    assert 1e-6 < solution.gap <= 0.2
    assert solution.seconds < 50


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_absolute_gap_ends_the_search(solver: str) -> None:
    solution = solve_linear(hard(), solver, time_limit=10, abs_gap=500.0)
    assert solution.termination == "gap_reached"
    assert solution.bound is not None
    assert solution.objective is not None
    assert 0 < solution.bound - solution.objective <= 500.0


@pytest.mark.parametrize("solver", SOLVERS)
def test_same_seed_same_solution(solver: str) -> None:
    # many optima, so that different paths would show
    model = LinearModel("ties", "max")
    x = model.add_variables("x", 40, upper=1.0, integer=True, objective=1.0)
    rng = np.random.default_rng(3)
    model.add_matrix_rows("r", rng.integers(1, 9, (6, 40)), -np.inf, 60.0)
    first, second = (solve_linear(model, solver, seed=5) for _ in range(2))
    assert first.x is not None
    assert second.x is not None
    assert np.array_equal(first.x, second.x)
    assert first.x.size == x.size


@pytest.mark.parametrize(
    ("objective", "bound", "gap"),
    [
        (10.0, 9.0, 0.1),
        (-9.0, -10.0, 0.1),
        (0.0, 0.0, 0.0),
        (0.0, 1e-10, 0.0),
        (1.0, -1.0, 2.0),
        (None, 1.0, None),
        (1.0, None, None),
    ],
)
def test_relative_gap(objective: float | None, bound: float | None, gap: float | None) -> None:
    assert relative_gap(objective, bound) == (None if gap is None else pytest.approx(gap))
