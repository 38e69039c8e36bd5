"""Small models solved inside this process."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from optim.solvers.inprocess import solve_lp, solve_small_milp
from optim.solvers.linear_model import LinearModel
from tests.optim.solvers.models import brute_force, knapsacks, random_model

INF = np.inf


def test_lp_with_all_kinds_of_rows() -> None:
    matrix = csr_array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    row_lower = np.array([-INF, 1.0, 2.0, -INF])
    row_upper = np.array([4.0, 1.0, 3.0, INF])
    answer = solve_lp(
        np.array([-1.0, -2.0, 1.0]), matrix, row_lower, row_upper, np.zeros(3), np.full(3, INF)
    )
    assert answer.termination == "optimal"
    assert answer.x is not None
    assert answer.x == pytest.approx([2.5, 1.5, 0.5])
    assert answer.objective == pytest.approx(-5.0)


@given(seed=st.integers(0, 100_000))
def test_duals_prove_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(4, 5))
    inside = rng.uniform(0, 1, 5)
    row_lower = np.where(rng.random(4) < 0.5, matrix @ inside - rng.random(4), -INF)
    row_upper = np.where(rng.random(4) < 0.5, matrix @ inside + rng.random(4), INF)
    row_lower[3] = row_upper[3] = matrix[3] @ inside
    cost = rng.normal(size=5)
    answer = solve_lp(cost, matrix, row_lower, row_upper, np.zeros(5), np.ones(5))
    assert answer.x is not None
    assert answer.row_duals is not None
    assert answer.reduced_costs is not None
    assert answer.row_duals @ matrix + answer.reduced_costs == pytest.approx(cost, abs=1e-7)
    # the sign of a dual tells the bound it belongs to; their sum is the objective
    duals, reduced = answer.row_duals, answer.reduced_costs
    binding = np.where(duals > 0, row_lower, row_upper)
    used = np.abs(duals) > 1e-9
    assert np.isfinite(binding[used]).all()
    dual_value = duals[used] @ binding[used] + np.where(reduced < 0, reduced, 0.0).sum()
    assert dual_value == pytest.approx(answer.objective, abs=1e-6)


def test_lp_without_solution() -> None:
    one = np.ones((1, 1))
    free = (np.array([-INF]), np.array([INF]))
    assert solve_lp(np.ones(1), one, *free, *free).termination == "unbounded"
    impossible = solve_lp(
        np.ones(1), one, np.array([2.0]), np.array([3.0]), np.zeros(1), np.ones(1)
    )
    assert impossible.termination == "infeasible"
    assert impossible.x is None


@given(seed=st.integers(0, 100_000))
@settings(max_examples=40)
def test_small_milps_equal_brute_force(seed: int) -> None:
    model = random_model(np.random.default_rng(seed))
    optimum = brute_force(model)
    answer = solve_small_milp(model)
    if optimum is None:
        assert answer.termination == "infeasible"
        assert answer.x is None
    else:
        assert answer.termination == "optimal"
        assert answer.objective == pytest.approx(optimum, rel=2e-6, abs=2e-6)
        assert answer.bound == pytest.approx(optimum, rel=2e-6, abs=2e-6)


def test_small_milp_takes_arrays_and_models_without_rows() -> None:
    model = LinearModel("no rows", "max")
    model.add_variables("x", 2, 0.0, 2.5, integer=[True, False], objective=1.0)
    answer = solve_small_milp(model.freeze())
    assert answer.objective == 4.5


def test_time_limit_is_passed_on() -> None:
    answer = solve_small_milp(knapsacks(300, 30), time_limit=1.0)
    assert answer.termination == "time_limit"
    assert answer.objective is not None
    assert answer.bound is not None
    assert answer.bound > answer.objective


@pytest.mark.slow
def test_a_limit_of_nodes_is_an_end_and_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """scipy does not know this end of HiGHS: asked again without presolve, it would take long."""
    from scipy import optimize

    asked: list[object] = []
    plain = optimize.milp

    def counted(*given: object, **more: object) -> object:
        asked.append(more)
        return plain(*given, **more)

    monkeypatch.setattr(optimize, "milp", counted)
    answer = solve_small_milp(knapsacks(300, 30), node_limit=1)
    assert answer.termination == "time_limit"
    assert len(asked) == 1


def test_a_first_node_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy import optimize

    from optim.solvers import inprocess

    monkeypatch.setattr(inprocess, "HANGS_AFTER", 0.01)
    monkeypatch.setattr(optimize, "milp", lambda **_: time.sleep(1.0))
    found = solve_small_milp(knapsacks(2, 2, 1), node_limit=5)
    assert (str(found.termination), found.x, found.bound) == ("time_limit", None, None)


def test_fractions_follow_the_rounded_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an "optimum" 1e-7 beside a whole number, times 40, the row would be broken."""
    from scipy import optimize

    model = LinearModel("almost whole", "min")
    model.add_variables("both", 2, 0.0, 100.0, integer=[True, False], objective=[0.0, 1.0])
    model.add_matrix_rows("rows", np.array([[40.0, -1.0], [1.0, 0.0]]), [-INF, 1.0], [37.0, INF])
    plain = optimize.milp
    asked: list[object] = []

    def almost(**program: Any) -> Any:
        asked.append(program)
        answer = plain(**program)
        if len(asked) == 1:
            answer.x = answer.x - [1e-7, 4e-6]
        return answer

    monkeypatch.setattr(optimize, "milp", almost)
    answer = solve_small_milp(model)
    assert len(asked) == 2
    assert answer.termination == "optimal"
    assert answer.x == pytest.approx([1.0, 3.0])


def test_an_optimum_that_highs_refuses_is_asked_for_in_other_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HiGHS ends with "Solve error" where its own optimum lies 1e-6 beyond a row."""
    from scipy import optimize

    model = knapsacks(8, 2)
    right = solve_small_milp(model)
    plain = optimize.milp
    asked: list[Any] = []

    def refused(**program: Any) -> Any:
        asked.append(program)
        answer = plain(**program)
        if len(asked) < 3:
            answer.status, answer.x, answer.message = 4, None, "HiGHS Status 4: Solve error"
        return answer

    monkeypatch.setattr(optimize, "milp", refused)
    answer = solve_small_milp(model)
    assert (answer.termination, answer.objective) == ("optimal", right.objective)
    assert answer.bound == pytest.approx(right.bound)
    assert len(asked) == 3


def test_python_ends_after_a_call_that_was_given_up() -> None:
    """What leaves C++ while Python ends aborts the process: exit 134 after a good result."""
    text = (
        "import time\nfrom contextlib import suppress\n"
        "from optim.solvers.inprocess import Overdue, interruptible\n"
        "def call():\n    time.sleep(0.5)\n    print('over')\n"
        "with suppress(Overdue):\n    interruptible(call, 0.01)\nprint('given up')\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split("\n")) == (0, ["given up", "over", ""])
