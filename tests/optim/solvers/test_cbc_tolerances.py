"""CBC's own tolerances are too coarse for loads that just fit: it took 0.99999999 for 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optim import Instance, solve
from optim.solvers import solve_linear
from optim.solvers.linear_model import LinearModel


def instance(capacities: list[float], loads: list[float], traffic: list[list[Any]]) -> Instance:
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "just fits",
            "resources": ["cpu"],
            "nodes": [
                {"id": n, "capacity": {"cpu": c}} for n, c in zip("abc", capacities, strict=False)
            ],
            "tasks": [{"id": f"t{i}", "load": {"cpu": load}} for i, load in enumerate(loads)],
            "traffic": traffic,
        }
    )


def test_loads_that_just_fit_are_not_called_infeasible() -> None:
    made = instance(
        [49.603294, 229.9999962123462],
        [80, 10, 50, 90, 30],
        [["t0", "t1", 1], ["t2", "t3", 1]],
    )
    # 49.6 takes 10 and 30, and 80 + 50 + 90 fit the other
    for method in ("imc-exact", "imc-milp"):
        result = solve(made, method, solver="cbc" if method == "imc-milp" else None)
        assert (result.termination, result.objective.value) == ("optimal", 1.0)


def test_the_optimum_is_not_lost() -> None:
    made = instance(
        [2.1e6, 1099999.9882678185, 1852040.6],
        [9e5, 4e5, 2e5, 11e5, 11e5, 5e5, 6e5],
        [
            *(["t0", "t6", 10], ["t1", "t2", 1], ["t1", "t4", 1], ["t1", "t6", 5]),
            *(["t2", "t5", 3], ["t4", "t2", 3], ["t4", "t3", 4], ["t4", "t5", 6]),
        ],
    )
    result = solve(made, "imc-milp", solver="cbc")
    assert (result.termination, result.objective.value) == ("optimal", 17.0)


@pytest.mark.parametrize("unit", [1.0, 100.0])
def test_two_halves_a_little_too_large_still_find_their_two_nodes(unit: float) -> None:
    half = 0.5 * unit + 6.5e-7
    made = instance([unit, unit], [half, half], [["t0", "t1", 5.0]])
    result = solve(made, "imc-milp", solver="cbc")
    assert (result.objective.value, result.bound, result.bound_of) == (0.0, 0.0, "problem")
    # no plan has more, so that none is called optimal
    assert (result.termination, result.evaluation.feasible) == ("heuristic", True)


def test_native_tolerances_still_win() -> None:
    model = LinearModel("native", "max")
    model.add_variables("x", 2, upper=1.0, integer=True, objective=1.0)
    model.add_rows("room", -np.inf, 1.5, [0, 0], [0, 1], 1.0)
    options = {"integerTolerance": 1e-6, "primalTolerance": 1e-7}
    assert solve_linear(model, "cbc", options=options).objective == 1.0
