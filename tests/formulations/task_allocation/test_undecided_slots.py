"""Where the search of slots gives up, exact methods prove no more than what that leaves."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from optim import Instance, solve
from optim.rules import slot_assignment
from tests.optim.make import instance

# first-fit decreasing takes three slots of 12 for these, two do
HARD = [6, 5, 4, 3, 3, 3]
EXACT = [("imc-brute", "imc_gain"), ("imc-brute", "imc_gain,nodes_used"), ("plan-milp", "imc_gain")]


def packed(*others: dict[str, Any]) -> Instance:
    slots = {"slots": 2, "slot_capacity": {"cpu": 12}, "capacity": {"cpu": 24}}
    return instance(
        nodes=[{"id": "n1", **slots}, *others],
        operators=[],
        streams=[],
        tasks=[{"id": f"t{i}", "load": {"cpu": load}} for i, load in enumerate(HARD)],
        traffic=[["t0", "t1", 1], ["t2", "t3", 1], ["t4", "t5", 1]],
    )


@pytest.fixture(params=EXACT, ids="-".join)
def asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    little = partial(slot_assignment.assign_slots, work=0)
    monkeypatch.setattr(slot_assignment, "assign_slots", little)
    method, objective = request.param
    return {"method": method, "objective": objective}


def test_it_is_not_called_infeasible(asked: dict[str, Any]) -> None:
    result = solve(packed(), **asked)
    assert (result.plan, result.termination, result.bound) == (None, "iteration_limit", 3)
    assert any("not known within the work limit" in note for note in result.notes)


def test_a_worse_plan_is_not_called_optimal(asked: dict[str, Any]) -> None:
    """Beside n1 there is a node for t5 alone, so that a pair is parted."""
    result = solve(packed({"id": "n2", "capacity": {"cpu": 3}}), **asked)
    assert result.objective is not None
    assert (result.objective.value, result.bound) == (2, 3)
    assert result.termination == "iteration_limit"
