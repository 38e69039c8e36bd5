"""What may be placed: nearly all of the referee's tolerance, so that its plans are not lost."""

from __future__ import annotations

import numpy as np
import pytest

from optim.format.instance import Instance
from optim.kernels.place_rules import placing_floor, placing_room, slot_room
from optim.methods.solve import solve
from optim.referee import evaluate_indices
from tests.optim.make import instance

HERE = np.zeros(1, dtype=np.int32)
LOADS = {"t": 1 + 8e-10, "u": 0.0}


def one_task(load: float, **node: object) -> Instance:
    return instance(
        nodes=[{"id": "a", **node}],
        tasks=[{"id": "t", "load": {"cpu": load}, "node": "a"}],
        operators=[],
        streams=[],
    )


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4, 1e9])
def test_what_room_and_floor_let_in_the_referee_accepts(scale: float) -> None:
    bound = {"cpu": 3 * scale}
    made = one_task(scale, capacity=bound, background={"cpu": scale}, slot_capacity=bound)
    most = float(placing_room(made)[0, 0])
    slack = 1e-9 * 3 * scale
    assert most - 2 * scale == pytest.approx(0.999 * slack, rel=1e-3)
    assert float(slot_room(made)[0, 0]) - 3 * scale == pytest.approx(0.999 * slack, rel=1e-3)
    assert evaluate_indices(
        one_task(most, capacity=bound, background={"cpu": scale}), HERE
    ).feasible
    least = one_task(scale, min_load=bound)
    assert evaluate_indices(
        one_task(max(0.0, float(placing_floor(least)[0, 0])), min_load=bound), HERE
    ).feasible


@pytest.mark.parametrize("method", ["imc-brute", "imc-exact", "imc-milp", "eoa-milp"])
@pytest.mark.parametrize("solver", ["highs", "scip", "cbc", "cp-sat"])
def test_a_plan_within_the_tolerance_is_found(method: str, solver: str) -> None:
    """A load of 1 + 8e-10 is where it is now, on a capacity of 1, with one that weighs nothing."""
    made = instance(
        nodes=[{"id": "a", "capacity": {"cpu": 1}}],
        tasks=[{"id": t, "load": {"cpu": load}, "node": "a"} for t, load in LOADS.items()],
        operators=[],
        streams=[],
        traffic=[["t", "u", 1]],
    )
    assert evaluate_indices(made, np.zeros(2, dtype=np.int32)).feasible
    given = {"solver": solver} if method.endswith("milp") else {}
    assert solve(made, method, **given).termination == "optimal"  # type: ignore[arg-type]
