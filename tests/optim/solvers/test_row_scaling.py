"""Rows of large numbers are divided by powers of two; answers do not depend on units."""

from __future__ import annotations

import numpy as np
import pytest

from optim import Instance, solve
from optim.solvers import solve_linear
from optim.solvers.inprocess import solve_small_milp
from optim.solvers.linear_model import LinearModel
from optim.solvers.row_scaling import LARGEST, conditioned

SOLVERS = ("highs", "cbc", "scip")


def packing(unit: float, room: float = 3.0) -> LinearModel:
    """Return three loads of thirds for two rooms of which one is rounded down."""
    model = LinearModel("packing", "max")
    x = model.add_variables(
        "x", (3, 2), upper=1.0, integer=True, objective=[[3, 1], [2, 2], [1, 2]]
    )
    loads = np.array([4.0, 5.0, 9.0 * room]) * unit / 3
    model.add_rows("once", -np.inf, 1.0, np.repeat(np.arange(3), 2), x.indices.ravel(), 1.0)
    model.add_rows(
        "room", -np.inf, np.array([room, room]) * unit, np.tile([0, 1], 3), x.indices.ravel(),
        np.repeat(loads, 2),
    )  # fmt: skip
    return model


def test_ordinary_models_stay_as_they_are() -> None:
    arrays = packing(100.0).freeze()
    assert conditioned(arrays) is arrays


def test_large_rows_are_divided_exactly_and_the_others_are_left() -> None:
    arrays = packing(1e9, 2.9).freeze()
    asked = conditioned(arrays)
    rooms = asked.row_upper[3:]
    assert (rooms > LARGEST / 2).all()
    assert (rooms <= LARGEST).all()
    factor = arrays.row_upper[3] / rooms[0]
    assert np.log2(factor) == round(np.log2(factor))
    assert np.array_equal(asked.matrix.toarray()[3:] * factor, arrays.matrix.toarray()[3:])
    assert np.array_equal(asked.matrix.toarray()[:3], arrays.matrix.toarray()[:3])
    assert np.array_equal(asked.cost, arrays.cost)


def test_what_alone_oversteps_a_large_row_is_left_out_and_does_not_set_its_size() -> None:
    model = LinearModel("heavy", "max")
    model.add_variables("x", 3, upper=1.0, integer=True, objective=1.0)
    room = 5e4
    model.add_rows("room", -np.inf, room, [0, 0, 0], [0, 1, 2], [1e12, room * (1 + 3e-6), 2e4])
    asked = conditioned(model.freeze())
    assert asked.upper.tolist() == [0, 0, 1]
    assert asked.row_upper[0] > LARGEST / 2


def test_what_oversteps_within_the_tolerance_may_stay() -> None:
    model = LinearModel("edge", "max")
    model.add_variables("x", 2, lower=[0, -3], upper=1.0, integer=True, objective=1.0)
    model.add_rows("room", -np.inf, 5e4, [0], [0], [5e4 * (1 + 0.9e-9)])
    model.add_rows("least", -4e4, np.inf, [0, 0], [0, 1], [1e4, 2e4])
    asked = conditioned(model.freeze())
    assert asked.upper.tolist() == [1, 1]
    assert asked.lower.tolist() == [0, -2]  # 1e4 + 2e4 · (-3) lies below -4e4


def test_a_row_no_value_satisfies_keeps_its_bounds_for_the_solver() -> None:
    model = LinearModel("never")
    model.add_variables("x", 2, lower=1.0, upper=2.0, integer=True, objective=1.0)
    model.add_rows("room", -np.inf, 1e6, [0, 0], [0, 1], [1e7, 1.0])
    asked = conditioned(model.freeze())
    assert asked.lower.tolist() == [1, 1]
    assert solve_linear(model, "highs").termination == "infeasible"


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6, 1e9, 1e15])
def test_the_unit_does_not_matter(solver: str, unit: float) -> None:
    solution = solve_linear(packing(unit), solver)
    assert solution.termination == "optimal"
    assert solution.objective == pytest.approx(5.0)


def test_small_models_in_process_are_conditioned_too() -> None:
    assert solve_small_milp(packing(1e15)).objective == pytest.approx(5.0)


@pytest.mark.parametrize("solver", SOLVERS)
def test_bytes_are_not_called_infeasible(solver: str) -> None:
    # HiGHS and CBC found no plan; optimum 3, or 6 within the tolerance of the referee
    memory = 520.9232072839449
    nodes = [
        {
            "id": f"n{i}",
            "capacity": {"cpu": 6e7, "mem": 1562.7696204547199},
            "background": {"cpu": 1.2e7},
        }
        for i in range(3)
    ]
    made = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "bytes",
            "resources": ["cpu", "mem"],
            "nodes": nodes,
            "tasks": [{"id": f"t{i}", "load": {"cpu": 1e7, "mem": memory}} for i in range(5)],
            "limits": {"max_utilisation": {"cpu": 0.7}},
            "traffic": [
                *(["t0", "t1", 1], ["t0", "t2", 2], ["t0", "t4", 3]),
                *(["t1", "t4", 1], ["t2", "t4", 1], ["t3", "t4", 1]),
            ],
        }
    )
    result = solve(made, "imc-milp", solver=solver)
    assert result.termination == "optimal"
    assert result.objective.value in (3.0, 6.0)


def thirds(unit: float) -> Instance:
    """Return two nodes behind links, all numbers thirds."""
    g = unit / 3
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "thirds",
            "resources": ["cpu"],
            "nodes": [
                {"id": "a", "capacity": {"cpu": 20 * g}},
                {"id": "b", "capacity": {"cpu": 13 * g}},
            ],
            "tasks": [
                {"id": f"t{i}", "load": {"cpu": k * g}} for i, k in enumerate((8, 4, 8, 5, 8))
            ],
            "traffic": [
                *(["t0", "t1", 5 * g], ["t0", "t4", 5 * g], ["t1", "t2", 5 * g]),
                *(["t1", "t3", 5 * g], ["t2", "t3", 10 * g], ["t3", "t4", 5 * g]),
            ],
            "links": [
                {"id": f"u{node}", "nodes": [node], "capacity": 37 * g, "background": 7 * g}
                for node in "ab"
            ],
        }
    )


@pytest.mark.parametrize("unit", [1.0, 1e9])
def test_thirds_of_a_billion_fit_as_thirds_of_one_do(unit: float) -> None:
    result = solve(thirds(unit), "eoa-milp", form="products")
    assert result.termination == "optimal"
    assert result.objective.value == pytest.approx(1.0)


def test_traffic_of_quadrillions_is_taken() -> None:
    made = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "quadrillions",
            "resources": ["cpu"],
            "nodes": [{"id": n, "capacity": {"cpu": 4}} for n in "ab"],
            "tasks": [{"id": f"t{i}", "load": {"cpu": 2}} for i in range(3)],
            "traffic": [["t0", "t1", 7.5e14], ["t1", "t2", 1.0]],
            "links": [{"id": f"u{n}", "nodes": [n], "capacity": 8e14} for n in "ab"],
        }
    )
    result = solve(made, "eoa-milp", form="products")
    assert (result.termination, result.objective.value) == ("optimal", 1.0)
