"""CP-SAT: models of integers, whose rows lose nothing; all others are refused with a remedy."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim.errors import SolverUnavailable
from optim.solvers import solve_linear
from optim.solvers.cp_sat import INFINITE, WholeModel, _Report, whole_model
from optim.solvers.linear_model import TOLERANCE, LinearModel
from tests.optim.solvers.models import balance, random_model


def whole(model: LinearModel) -> WholeModel:
    return whole_model(model, model.freeze())


def accepts(small: WholeModel, x: np.ndarray) -> bool:
    """Whether the model of whole numbers takes a vector (Python's own whole numbers)."""
    if not ((small.lower <= x).all() and (x <= small.upper).all()):
        return False
    for i in range(len(small.row_lower)):
        here = slice(small.indptr[i], small.indptr[i + 1])
        columns, data = small.indices[here].tolist(), small.data[here].tolist()
        total = sum(c * int(x[j]) for j, c in zip(columns, data, strict=True))
        if not int(small.row_lower[i]) <= total <= int(small.row_upper[i]):
            return False
    return True


def test_few_decimals_are_exact() -> None:
    model = LinearModel("exact")
    x = model.add_variables("x", 3, upper=1.0, integer=True, objective=[0.5, 0.25, 1.0])
    model.add_rows("r", -np.inf, 0.75, np.zeros(3, int), x.indices, [0.25, 1.5, 2.25])
    small = whole(model)
    assert small.error == 0.0
    assert small.data.tolist() == [1, 6, 9]  # the smallest as 1
    assert small.row_upper.tolist() == [3]
    assert (small.cost / small.cost_factor).tolist() == [0.5, 0.25, 1.0]


@given(seed=st.integers(0, 100_000))
def test_nothing_is_lost_and_nothing_wrong_is_let_in(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng, whole=True, digits=int(rng.integers(0, 18)))
    arrays = model.freeze()
    small = whole(model)
    for _ in range(40):
        x = np.round(rng.uniform(arrays.lower, arrays.upper))
        inside = accepts(small, x)
        if inside:
            assert model.violation(x) <= TOLERANCE
        if model.violation(x) == 0.0:
            assert inside
        value = float(small.cost @ x.astype(np.int64)) / small.cost_factor
        value = (value if model.sense == "min" else -value) + arrays.offset
        assert abs(value - arrays.objective_of(x)) <= small.error + 1e-9


def test_rows_of_small_numbers_are_held_in_their_own_size() -> None:
    model = LinearModel("small", "max")
    x = model.add_variables("x", 3, upper=1.0, integer=True, objective=1.0)
    model.add_rows("cap", -np.inf, 2e-8, np.zeros(3, int), x.indices, 1e-8)
    solution = solve_linear(model, "cp-sat")
    assert (solution.termination, solution.objective) == ("optimal", 2.0)


def test_bounds_are_widened_by_the_error_of_the_costs() -> None:
    model = LinearModel("offset")
    model.add_variables("x", 2, upper=1.0, integer=True, objective=1.0)
    model.set_objective([], [], offset=10.0)
    small = replace(whole(model), error=0.25, cost_factor=100.0)
    task: Any = SimpleNamespace(arrays=model.freeze())
    assert _Report(task, whole=small).bound_of(300.0) == 10.0 + 3.0 - 0.25
    task.arrays = replace(task.arrays, sense="max")
    assert _Report(task, whole=small).bound_of(300.0) == 10.0 - 3.0 + 0.25


def test_continuous_variables_are_refused_with_the_solvers_that_take_them() -> None:
    # OR-Tools' own linear interfaces round d and call that optimal
    with pytest.raises(SolverUnavailable, match=r"d\[0\] is continuous.*highs, scip or cbc"):
        solve_linear(balance(2, 4), "cp-sat")


def test_variables_without_any_bound_are_refused_with_a_remedy() -> None:
    model = LinearModel("free", "max")
    x = model.add_variables("speed", 2, integer=True, objective=1.0)
    model.add_rows("r", -1.0, 1.0, [0, 0], x.indices, [1.0, -1.0])
    with pytest.raises(SolverUnavailable, match=r"speed\[0\].*no finite bounds.*use highs"):
        solve_linear(model, "cp-sat")


def test_numbers_that_span_too_much_are_refused_with_a_remedy() -> None:
    model = LinearModel("span", "max")
    x = model.add_variables("x", 2, upper=1e9, integer=True, objective=1.0)
    model.add_rows("cap", -np.inf, 1e6, [0, 0], x.indices, [np.pi * 1e-7, np.e * 1e5])
    with pytest.raises(SolverUnavailable, match=r"whole numbers.*cap\[0\].*use highs"):
        solve_linear(model, "cp-sat")


def test_bounds_far_beyond_the_activity_keep_their_meaning() -> None:
    model = LinearModel("far")
    x = model.add_variables("x", 2, upper=1.0, integer=True, objective=1.0)
    model.add_rows("never", 1e30, np.inf, [0, 0], x.indices, 1.0)
    model.add_rows("always", -1e30, 1e30, [0, 0], x.indices, 1.0)
    small = whole(model)
    assert small.row_lower[0] > 2
    assert -INFINITE <= small.row_lower[1] < -2
    assert solve_linear(model, "cp-sat").termination == "infeasible"
