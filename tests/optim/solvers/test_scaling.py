"""Scaling to integers: exact where it can be, bounded where not, refused where it cannot hold."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optim.errors import SolverUnavailable
from optim.solvers import solve_linear
from optim.solvers.cp_sat import _Heard
from optim.solvers.grids import exact_steps
from optim.solvers.inprocess import solve_small_milp
from optim.solvers.linear_arrays import TOLERANCE
from optim.solvers.linear_model import LinearModel
from optim.solvers.scaling import INFINITE, ScaledModel, scale
from optim.solvers.tighten import tightened
from tests.optim.solvers.models import balance, random_model


def scaled(model: LinearModel) -> ScaledModel:
    return scale(model, model.freeze())


def accepts(small: ScaledModel, k: np.ndarray) -> bool:
    """Whether the scaled model takes a vector of integers (Python's own whole numbers)."""
    if not ((small.lower <= k).all() and (k <= small.upper).all()):
        return False
    for i in range(len(small.row_lower)):
        here = slice(small.indptr[i], small.indptr[i + 1])
        columns, data = small.indices[here].tolist(), small.data[here].tolist()
        total = sum(c * int(k[j]) for j, c in zip(columns, data, strict=True))
        if not int(small.row_lower[i]) <= total <= int(small.row_upper[i]):
            return False
    return True


def test_few_decimals_are_exact() -> None:
    model = LinearModel("exact")
    x = model.add_variables("x", 3, upper=1.0, integer=True)
    d = model.add_variables("d", 1, upper=10.0, objective=1.0)
    columns = np.append(x.indices, d.start)
    model.add_rows("r", -np.inf, 0.75, np.zeros(4, int), columns, [0.25, 1.5, 2.25, -1.0])
    small = scaled(model)
    assert small.error == 0.0
    assert small.step.tolist() == [1.0, 1.0, 1.0, 0.01]
    assert small.data.tolist() == [25, 150, 225, -1]
    assert small.row_upper.tolist() == [75]
    assert small.upper.tolist() == [1, 1, 1, 1000]


@pytest.mark.parametrize("num_nodes", [2, 3, 7, 20, 60, 99])
def test_a_mean_over_nodes_has_an_exact_step(num_nodes: int) -> None:
    small = scaled(balance(num_nodes, 2 * num_nodes, decimals=2))
    assert small.error == 0.0
    odd = num_nodes
    while odd % 2 == 0 or odd % 5 == 0:
        odd //= 2 if odd % 2 == 0 else 5
    # hundredths, divided by the part of the number of nodes that decimals do not take up
    assert 1.0 / small.step[-1] <= 100 * odd * 1000 + 1e-6


def test_products_of_binaries_become_binaries() -> None:
    model = LinearModel("products", "max")
    x = model.add_variables("x", 2, upper=1.0, integer=True)
    z = model.add_variables("z", 1, upper=1.0, objective=2.5)
    rows, columns = [0, 0, 1, 1], [z.start, x.start, z.start, x.start + 1]
    model.add_rows("z<=x", -np.inf, 0.0, rows, columns, [1.0, -1.0, 1.0, -1.0])
    small = scaled(model)
    assert small.step.tolist() == [1.0, 1.0, 1.0]
    assert small.error == 0.0
    assert solve_linear(model, "cp-sat").objective == 2.5


def test_chains_of_continuous_variables_share_a_grid() -> None:
    # ALBIC's three distances: upper and lower side, each below the one that is minimised
    model = LinearModel("chain")
    x = model.add_variables("x", 2, upper=1.0, integer=True)
    d = model.add_variables("d", 3, upper=50.0, objective=[1.0, 0.0, 0.0])
    up, low = d.start + 1, d.start + 2
    model.add_rows(
        "within", -np.inf, 0.0, [0, 0, 1, 1], [up, d.start, low, d.start], [1, -1, 1, -1]
    )
    model.add_rows("load", -np.inf, 0.5, [0, 0, 0], [x.start, x.start + 1, up], [1.25, 0.5, -1.0])
    model.add_rows("less", -np.inf, -0.5, [0, 0, 0], [x.start, x.start + 1, low], [-1.25, -0.5, -1])
    small = scaled(model)
    assert small.step[2:].tolist() == [0.01, 0.01, 0.01]
    assert small.error == 0.0


def test_sizes_without_a_grid_have_a_bounded_error() -> None:
    model = LinearModel("pi", "max")
    x = model.add_variables("x", 2, upper=3.0, objective=[1.0, np.e])
    model.add_rows("r", -np.inf, np.pi, [0, 0], x.indices, [np.sqrt(2.0), np.sqrt(3.0)])
    small = scaled(model)
    assert 0.0 < small.error <= 1e-6
    solution = solve_linear(model, "cp-sat", time_limit=30)
    assert solution.objective == pytest.approx(np.e * np.pi / np.sqrt(3.0), rel=2e-6)
    assert solution.bound is not None
    assert solution.objective is not None
    assert solution.bound >= np.e * np.pi / np.sqrt(3.0) - 1e-12
    assert 0.0 < solution.scaling_error <= 1e-6


@given(seed=st.integers(0, 100_000))
def test_nothing_is_lost_and_nothing_wrong_is_let_in(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    arrays = model.freeze()
    small = scaled(model)
    # on an exact grid an optimal vertex has an image, but not every solution
    on_exact_grid = ~arrays.integrality & ~np.isnan(exact_steps(arrays))
    for _ in range(40):
        x = rng.uniform(arrays.lower, arrays.upper)
        x[arrays.integrality] = np.round(x[arrays.integrality])
        k = small.integers(x)
        inside = accepts(small, k)
        if inside:
            assert model.violation(small.vector(k)) <= TOLERANCE
        if model.violation(x) == 0.0 and not on_exact_grid.any():
            assert inside  # every solution of the model has its image, with about its objective
            moved = abs(arrays.objective_of(small.vector(k)) - arrays.objective_of(x))
            assert moved <= small.error + 1e-12


def test_scaled_objective_is_the_models() -> None:
    model = balance(2, 5)
    small = scaled(model)
    k = small.upper
    value = float(small.cost @ k) / small.cost_factor
    assert value == pytest.approx(model.objective_of(small.vector(k)))


def test_vertices_off_every_grid_are_not_lost() -> None:
    model = LinearModel("third", "max")
    x = model.add_variables("x", 2, upper=1.0, objective=1.0)
    model.add_rows("r", -np.inf, 1.0, [0, 0, 1, 1], np.tile(x.indices, 2), [1.0, 2.0, 2.0, 1.0])
    assert solve_linear(model, "cp-sat").objective == pytest.approx(2.0 / 3.0, abs=1e-6)


def test_bounds_are_widened_by_the_scaling_error() -> None:
    model = balance(2, 5)
    model.set_objective([], [], offset=10.0)
    small = replace(scaled(model), error=0.25, cost_factor=100.0)
    task: Any = SimpleNamespace(arrays=model.freeze())
    assert _Heard(task, small).in_model_sense(300.0) == 10.0 + 3.0 - 0.25
    task.arrays = replace(task.arrays, sense="max")
    assert _Heard(task, small).in_model_sense(300.0) == 10.0 - 3.0 + 0.25


@given(seed=st.integers(0, 100_000))
@settings(max_examples=30)
def test_bounds_that_are_found_keep_an_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    arrays = model.freeze()
    lower, upper = arrays.lower.copy(), arrays.upper.copy()
    cost = arrays.cost if arrays.sense == "min" else -arrays.cost
    upper[(rng.random(len(cost)) < 0.5) & (cost >= 0)] = np.inf
    lower[(rng.random(len(cost)) < 0.5) & (cost <= 0) & np.isfinite(upper)] = -np.inf
    opened = replace(arrays, lower=lower, upper=upper)
    tight_lower, tight_upper = tightened(opened)
    before = solve_small_milp(opened)
    after = solve_small_milp(replace(opened, lower=tight_lower, upper=tight_upper))
    assert after.termination == before.termination
    if before.objective is not None:
        assert after.objective == pytest.approx(before.objective, rel=1e-6, abs=1e-6)


def test_missing_bounds_follow_from_the_rows() -> None:
    lower, upper = tightened(balance(2, 6, seed=1).freeze())
    # no node is further from the mean than all load on it
    loads = balance(2, 6, seed=1).freeze().matrix.data
    assert np.isfinite(upper).all()
    assert lower[-1] == 0.0
    assert upper[-1] <= np.abs(loads).sum()


@pytest.mark.parametrize("sense", ["min", "max"])
def test_implied_bounds_keep_the_optimum(sense: str) -> None:
    model = LinearModel("implied", "min" if sense == "min" else "max")
    sign = 1.0 if sense == "min" else -1.0
    x = model.add_variables("x", 2, -np.inf, np.inf, integer=[True, False], objective=sign)
    y = model.add_variables("y", 1, lower=[0.0], objective=sign)
    model.add_rows("sum", 2.5, 7.25, [0, 0], x.indices, [1.0, 1.0])
    model.add_rows("box", -4.0, 4.0, [0], [x.start], [1.0])
    model.add_rows("need", 1.5, np.inf, [0, 0], [x.start, y.start], [1.0, 2.0])
    highs, cp_sat = solve_linear(model, "highs"), solve_linear(model, "cp-sat", time_limit=60)
    assert highs.objective == pytest.approx(cp_sat.objective, rel=2e-6)


def test_variables_without_any_bound_are_refused_with_a_remedy() -> None:
    model = LinearModel("free", "max")
    x = model.add_variables("speed", 2, objective=1.0)
    model.add_rows("r", -1.0, 1.0, [0, 0], x.indices, [1.0, -1.0])
    with pytest.raises(SolverUnavailable, match=r"speed\[1\].*no finite bounds.*use highs"):
        solve_linear(model, "cp-sat")


def test_numbers_that_span_too_much_are_refused_with_a_remedy() -> None:
    model = LinearModel("span", "max")
    x = model.add_variables("x", 2, upper=1e9, integer=True, objective=1.0)
    model.add_rows("cap", -np.inf, 1e6, [0, 0], x.indices, [np.pi * 1e-7, np.e * 1e5])
    with pytest.raises(SolverUnavailable, match=r"cap\[0\].*cannot be scaled.*use highs"):
        solve_linear(model, "cp-sat")


def test_bounds_far_beyond_the_activity_keep_their_meaning() -> None:
    model = LinearModel("far")
    x = model.add_variables("x", 2, upper=1.0, integer=True, objective=1.0)
    model.add_rows("never", 1e30, np.inf, [0, 0], x.indices, 1.0)
    model.add_rows("always", -1e30, 1e30, [0, 0], x.indices, 1.0)
    small = scaled(model)
    assert small.row_lower[0] > 2
    assert -INFINITE <= small.row_lower[1] < -2
    assert solve_linear(model, "cp-sat").termination == "infeasible"
