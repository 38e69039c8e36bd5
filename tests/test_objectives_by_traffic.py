"""Every objective by every method that declares it, beside each way that traffic is measured.

An exact method agrees with the best of all placements, a search is no better, or it refuses with
a remedy: no figure is optimised by a model that forgets a part of the traffic.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from formulations.task_allocation.model import AllocationModel
from optim import Instance, InvalidInput, UnsuitableMethod, all_methods, solve
from optim.figures.catalogue import OBJECTIVES, find_objective
from optim.referee import Termination, evaluate_indices
from optim.rules.placement import Placement

METHODS = [method for method in all_methods() if method.decides == "nodes"]
CASES = [
    (method.name, objective)
    for method in METHODS
    if method.kind != "heuristic"
    for objective in method.objectives
]
UP: list[dict[str, Any]] = [{"id": "up", "nodes": ["n0", "n1"], "capacity": 9.0}]
NEAR: list[dict[str, Any]] = [
    {"from": "a", "to": "b", "rate": 8.0, "pattern": "local_first", "sender_weights": [1, 3]},
    {"from": "b", "to": "c", "rate": 4.0},
]
COST = {"cpu": {"out": 0.5, "in": 0.25}}
TRAFFIC: dict[str, dict[str, Any]] = {
    "plain": {},
    "local_first": {"streams": NEAR},
    "crossing_cost": {"crossing_cost": COST},
    "links": {"links": UP},
    "local_first, crossing_cost": {"streams": NEAR, "crossing_cost": COST},
    "local_first, links": {"streams": NEAR, "links": UP},
}


@cache
def made(traffic: str, *, slots: bool = False) -> Instance:
    """Five tasks of three operators on three nodes, of which all but one fit on one."""
    per_node, workers, slot = ({"slots": 2}, {"workers": 3}, {"slot": 0}) if slots else ({}, {}, {})
    home = {"a/0": "n0", "a/1": "n1", "b/0": "n1", "b/1": "n0", "c/0": "n1"}
    return Instance.from_dict({
        "format": "streamplace.instance/1",
        "name": traffic,
        "nodes": [
            {"id": f"n{i}", "capacity": {"cpu": 34.0}, **per_node} for i in range(3)
        ],
        "operators": [
            {"id": "a", "topology": "t", "group": {"tasks": 2, "load": {"cpu": 8.0}}},
            {"id": "b", "topology": "t", "group": {"tasks": 2, "load": {"cpu": 10.0}}},
            {"id": "c", "topology": "t", "group": {"tasks": 1, "load": {"cpu": 3.0}}},
        ],
        "topologies": [{"id": "t", **workers}],
        "tasks": [
            {"id": task, "node": node, "migration_cost": 1.0 + i / 2, **slot}
            for i, (task, node) in enumerate(home.items())
        ],
        "streams": [
            {"from": "a", "to": "b", "rate": 8.0}, {"from": "b", "to": "c", "rate": 4.0}
        ],
        **TRAFFIC[traffic],
    })  # fmt: skip


def value_of(instance: Instance, objective: str, node: Any) -> float | None:
    """Value of an objective of a placement; ``None`` where it has none."""
    return find_objective(objective).measured(Placement(instance, node)).value


@cache
def values(traffic: str, objective: str, *, slots: bool) -> list[float]:
    """Values of an objective over the placements that keep every rule, in order."""
    instance = made(traffic, slots=slots)
    found = (value_of(instance, objective, node) for node in placements(traffic, slots=slots))
    return sorted(value for value in found if value is not None)


@cache
def placements(traffic: str, *, slots: bool) -> list[Any]:
    """All placements that keep every rule."""
    instance = made(traffic, slots=slots)
    nodes = itertools.product(range(instance.num_nodes), repeat=instance.num_tasks)
    every = (np.array(node, dtype=np.int32) for node in nodes)
    return [node for node in every if evaluate_indices(instance, node).feasible]


def judge(method: str, objective: str, traffic: str) -> bool:
    """Solve, and assert that it is as good as said; return whether the method took it on."""
    kind = next(one.kind for one in METHODS if one.name == method)
    slots = method == "storm-milp"
    instance = made(traffic, slots=slots)
    try:
        limit = 20.0 if kind == "exact" else None
        result = solve(instance, method, objective=objective, time_limit=limit)
    except (UnsuitableMethod, InvalidInput) as error:
        assert all(problem.remedy for problem in error.problems)
        return False
    possible = values(traffic, objective, slots=slots)
    smallest = find_objective(objective).sense == "min"
    best = possible[0] if smallest else possible[-1]
    close = 1e-6 * max(1.0, abs(best))
    assert result.feasible
    assert result.plan is not None
    assert result.objective is not None
    value = value_of(instance, objective, result.plan.node_indices(instance))
    assert value is not None
    assert result.objective.value == pytest.approx(value, rel=1e-6, abs=1e-6)
    assert (best - value if smallest else value - best) <= close
    if result.bound is not None and not result.assumes:
        assert (result.bound - best if smallest else best - result.bound) <= close
    if kind == "exact" and not result.assumes:
        assert result.termination == Termination.OPTIMAL
        assert value == pytest.approx(best, rel=1e-6, abs=1e-6)
    return True


@pytest.mark.parametrize("traffic", TRAFFIC)
@pytest.mark.parametrize(("method", "objective"), CASES)
def test_an_objective_is_measured_with_all_traffic_or_refused(
    method: str, objective: str, traffic: str
) -> None:
    taken = judge(method, objective, traffic)
    assert taken or traffic != "plain" or not values(traffic, objective, slots=False)


def test_a_model_that_forgets_local_first_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(made: AllocationModel) -> tuple[Any, Any]:
        return np.arange(len(made.task), len(made.task) + len(made.rate)), made.rate

    monkeypatch.setattr(AllocationModel, "traffic", forgetful)
    with pytest.raises(AssertionError):
        judge("plan-milp", "internode_traffic", "local_first")


@pytest.mark.parametrize("method", ["plan-milp", "plan-search"])
def test_a_figure_that_forgets_to_declare_local_first_is_refused(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    forgetful = replace(OBJECTIVES["nodes_used"], local_first=False)
    monkeypatch.setitem(OBJECTIVES, "nodes_used", forgetful)
    find_objective.cache_clear()
    try:
        assert judge(method, "nodes_used", "plain")
        assert not judge(method, "nodes_used", "local_first")
    finally:
        find_objective.cache_clear()
