"""`storm-milp` where slots have capacities: unlike slots on like nodes, and the tolerance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from formulations.storm.split import greedy_split
from optim.format.instance import Instance
from optim.format.plan import Plan
from optim.methods.solve import solve
from optim.referee import evaluate, evaluate_indices
from tests.formulations.storm.cases import brute_force
from tests.optim.make import instance

SOLVERS = ("highs", "scip", "cbc", "cp-sat")


def made(slot_capacities: list[float], loads: list[float], workers: int, **more: Any) -> Instance:
    """Nodes of 10 with one slot each; all tasks talk to the first one."""
    return instance(
        nodes=[
            {"id": f"n{i}", "capacity": {"cpu": 10}, "slots": 1, "slot_capacity": {"cpu": most}}
            for i, most in enumerate(slot_capacities)
        ],
        topologies=[{"id": "p", "workers": workers}],
        operators=[{"id": "o", "topology": "p"}],
        tasks=[
            {"id": f"t{i}", "load": {"cpu": load}, "operator": "o"} for i, load in enumerate(loads)
        ],
        streams=[],
        traffic=[["t0", f"t{i}", 3.0 + i] for i in range(1, len(loads))],
        **more,
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_nodes_with_unlike_slots_are_not_exchanged(solver: str) -> None:
    result = solve(made([2, 6], [5, 2], 2), "storm-milp", solver=solver)
    assert result.termination == "optimal"
    assert result.plan is not None
    assert dict(result.plan.assignment) == {"t0": "n1", "t1": "n0"}


@pytest.mark.parametrize("seed", range(12))
def test_unlike_slots_against_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    capacities = rng.integers(2, 8, 3).astype(float).tolist()
    loads = rng.integers(1, 4, 5).astype(float).tolist()
    case = made(capacities, loads, int(rng.integers(1, 4)))
    want = brute_force(case)
    result = solve(case, "storm-milp")
    if want is None:
        assert result.termination == "infeasible"
        return
    assert result.termination == "optimal"
    assert result.plan is not None
    judged = evaluate(case, result.plan)
    assert judged.feasible, judged.violations
    assert (judged.internode_traffic, judged.interslot_traffic) == pytest.approx(want)


def test_a_start_on_unlike_slots_is_not_relabelled() -> None:
    case = made([2, 6], [5, 2], 2)
    start = Plan.from_indices(case, np.array([1, 0], dtype=np.int32))
    result = solve(case, "storm-milp", warm_start=start)
    assert result.termination == "optimal"
    assert not any("violates a rule" in note for note in result.notes)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_slot_has_the_tolerance_of_the_referee(solver: str) -> None:
    """Loads of 3 in a slot of 3, over by 0.3 of what the referee allows."""
    case = made([3.0], [1.0, 1.0, 0.5, 0.5 + 1e-9], 1)
    assert evaluate_indices(case, np.zeros(4, np.int32), np.zeros(4, np.int32)).feasible
    assert solve(case, "storm-milp", solver=solver).termination == "optimal"


def test_the_quick_split_has_the_tolerance_of_the_referee() -> None:
    case = made([2.0], [1.0, 1.0 + 6e-10], 1)
    assert greedy_split(case, np.arange(2), 1, 0) is not None
