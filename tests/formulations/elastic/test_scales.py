"""`eoa-milp` on figures of any size: small capacities, tiny deviations, nodes without capacity."""

from __future__ import annotations

import pytest

from optim.errors import UnsuitableMethod
from optim.format.instance import Instance
from optim.methods.solve import solve
from tests.formulations.elastic.cases import (
    LEAST_BESIDE_LARGE_TASKS,
    beside_large_tasks,
    best,
    feasible,
)
from tests.optim.make import instance


def made(capacities: list[float], loads: list[float]) -> Instance:
    return instance(
        nodes=[{"id": f"n{i}", "capacity": {"cpu": most}} for i, most in enumerate(capacities)],
        tasks=[{"id": f"t{i}", "load": {"cpu": load}} for i, load in enumerate(loads)],
        operators=[],
        streams=[],
    )


def proven(case: Instance, objective: str, form: str) -> float:
    """Solve; hold the value against every placement there is, and the bound against the value."""
    result = solve(case, "eoa-milp", objective=objective, form=form)
    assert result.termination == "optimal", (result.termination, result.gap, result.notes)
    value = result.objective.value
    assert value is not None
    assert value == pytest.approx(best(feasible(case), objective)[0], rel=1e-6, abs=1e-9)
    assert result.bound == pytest.approx(value, rel=1e-5, abs=1e-9)
    assert 0.0 <= result.bound <= value * (1 + 1e-9)
    return value


@pytest.mark.parametrize("objective", ["deviation", "absolute_deviation"])
@pytest.mark.parametrize(
    ("capacity", "loads"),
    [
        (0.3, [0.1, 0.1, 0.1]),
        (0.9, [0.4, 0.3]),
        (0.5, [0.4, 0.1, 0.2, 0.3]),
        (0.05, [0.01, 0.02, 0.03, 0.012]),
    ],
)
def test_deviation_of_capacities_below_one(
    capacity: float, loads: list[float], objective: str
) -> None:
    proven(made([capacity] * 2, loads), objective, "patterns")


@pytest.mark.parametrize("solver", ["highs", "scip", "cbc"])
def test_a_node_without_capacity_has_no_share_in_use(solver: str) -> None:
    case = made([1.0, 0.0, 2.0], [0.5, 0.25])
    result = solve(case, "eoa-milp", objective="absolute_deviation", solver=solver)
    assert result.termination == "optimal"
    wanted = best(feasible(case), "absolute_deviation")[0]
    assert result.objective.value == pytest.approx(wanted)


def test_a_mean_of_loads_is_refused_where_a_solver_has_integers_only() -> None:
    case = made([1.0, 0.0, 2.0], [0.5, 0.25])
    with pytest.raises(UnsuitableMethod, match=r"--solver: 'cp-sat'.*integers only.*highs"):
        solve(case, "eoa-milp", objective="absolute_deviation", form="products", solver="cp-sat")


@pytest.mark.parametrize("times", [1.0, 1e3, 1e7, 1e12])
@pytest.mark.parametrize(
    ("objective", "form"),
    [
        ("deviation", "patterns"),
        ("absolute_deviation", "patterns"),
        ("absolute_deviation", "products"),
    ],
)
def test_tiny_deviations_are_proven(objective: str, form: str, times: float) -> None:
    """Nodes of so large a capacity that the shares in use are tiny, and so are their distances."""
    loads = [8.5, 6.4, 5.1, 2.7, 3.1, 0.5, 0.8]
    case = made([sum(loads) * times] * 2, loads)
    value = proven(case, objective, form)
    # 13.5 + 13.6, as evenly as these loads can be dealt
    assert value * times == pytest.approx(
        {"deviation": 0.1 / 27.1 / 2**0.5, "absolute_deviation": 0.05 / 27.1}[objective], rel=1e-5
    )


def test_a_small_node_among_large_ones() -> None:
    """The shares of the small one are not those of all load on it, which it could never take."""
    proven(
        made([1.0, 1e6, 1.3e6], [0.5, 0.3, 4e5, 3e5, 2.5e5, 1.1e5]),
        "absolute_deviation",
        "products",
    )


def test_no_bound_is_below_zero() -> None:
    result = solve(made([10.0] * 2, [1.0] * 4), "eoa-milp", objective="absolute_deviation")
    assert (result.objective.value, result.bound) == (0.0, 0.0)
    assert all(level.bound == 0.0 for level in result.objective_levels)


def test_a_tiny_part_of_the_capacity_in_use_is_proven() -> None:
    case = made([1.0, 2e4], [0.5])
    result = solve(case, "eoa-milp")
    assert result.termination == "optimal"
    assert result.objective.value == pytest.approx(5e-5, rel=1e-4)
    assert result.bound == pytest.approx(5e-5, rel=1e-4)


def test_tasks_that_fit_no_staying_node_set_no_scale_of_the_deviation() -> None:
    """Two tasks of 5e12 on a leaving node; 1.25 was called the least deviation of the others."""
    result = solve(beside_large_tasks(), "eoa-milp", objective="mean_absolute_deviation")
    assert result.objective is not None
    assert result.objective.value == pytest.approx(LEAST_BESIDE_LARGE_TASKS)
