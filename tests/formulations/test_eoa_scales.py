"""`eoa-milp` on figures of any size: small capacities, tiny deviations, nodes without capacity."""

from __future__ import annotations

import pytest

from optim.instance import Instance
from optim.solving import solve
from tests.formulations.eoa_cases import best, feasible
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


@pytest.mark.parametrize("solver", ["highs", "scip", "cbc", "cp-sat"])
def test_a_node_without_capacity_has_no_share_in_use(solver: str) -> None:
    case = made([1.0, 0.0, 2.0], [0.5, 0.25])
    result = solve(case, "eoa-milp", objective="absolute_deviation", solver=solver)
    assert result.termination == "optimal"
    wanted = best(feasible(case), "absolute_deviation")[0]
    assert result.objective.value == pytest.approx(wanted)
