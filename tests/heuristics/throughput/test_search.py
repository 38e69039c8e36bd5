"""`throughput-search`: never worse than its starts, within its bound, near what is proven."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from formulations.throughput.problem import load_of
from heuristics.annealing import Annealing, levels_of
from heuristics.throughput import starts_of
from optim import Instance, Plan, UnsuitableMethod, solve
from optim.figures.catalogue import find_objective
from optim.figures.load import without_measured
from optim.kernels.plan_state import state_of
from optim.methods.choose import check_suitable, choices, is_suitable
from optim.methods.registry import Request, get_method
from optim.rules import broken, without_limits
from optim.rules.placement import Placement
from tests.formulations.throughput.small import THREADS, best_of, ceiling, small

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def test_near_the_proven_optimum() -> None:
    instance = Instance.load(EXAMPLES / "capsys-rate-q4.json")
    result = solve(instance, "throughput-search")
    assert result.objective is not None
    assert result.objective.value is not None
    assert result.objective.value >= 0.99 * 0.844850
    assert result.bound is not None
    assert result.bound >= 0.844850


@pytest.mark.parametrize("seed", range(10))
def test_keeps_what_binds_and_beats_no_placement(seed: int) -> None:
    instance = small(seed)
    best = best_of(instance)
    try:
        result = solve(instance, "throughput-search", effort=0.2)
    except UnsuitableMethod:
        return
    if result.plan is None:
        return  # repair is no proof that there is none
    node = result.plan.node_indices(instance)
    assert not broken(Placement(without_measured(instance), node))
    assert best is not None
    assert result.objective is not None
    assert result.objective.value is not None
    assert result.objective.value <= best[0] * (1 + 1e-6)
    assert result.bound is None or result.bound >= best[0] * (1 - 1e-6)
    for start in starts_of(without_measured(instance), instance, Request()):
        assert load_of(instance, node) <= load_of(instance, start) * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(THREADS, THREADS + 24))
def test_at_the_ceiling_of_tasks_traffic_is_least(seed: int) -> None:
    """All placements that carry what the tasks can are equal in rate: then traffic counts."""
    instance = small(seed)
    best = best_of(instance)
    try:
        result = solve(instance, "throughput-search")
    except UnsuitableMethod:
        return
    most = ceiling(instance, driven=True)
    if result.plan is None or best is None or best[0] < most * (1 - 1e-9):
        return
    assert result.objective is not None
    assert result.objective.value == pytest.approx(most)
    assert result.evaluation is not None
    assert result.evaluation.internode_traffic == pytest.approx(best[1], abs=1e-9)


@pytest.mark.parametrize("name", ["throughput-search", "throughput-exact", "throughput-milp"])
def test_what_all_placements_carry_alike_is_gathered(name: str) -> None:
    """Nodes are ample: one task is full at 1.25 ×, and nothing needs to cross."""
    document = {
        "format": "streamplace.instance/1",
        "name": "gathered",
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 12}} for i in range(3)],
        "operators": [
            {"id": "a", "group": {"tasks": 4, "load": {"cpu": 3.2}}, "max_load": {"cpu": 1}},
            {"id": "b", "group": {"tasks": 4, "load": {"cpu": 1.6}}, "max_load": {"cpu": 1}},
        ],
        "tasks": [{"id": f"{o}/{i}", "node": f"n{i % 3}"} for o in "ab" for i in range(4)],
        "streams": [{"from": "a", "to": "b", "rate": 16, "pattern": "one_to_one"}],
    }
    result = solve(Instance.from_dict(document), name)
    assert result.termination == "optimal"
    assert result.objective is not None
    assert result.objective.value == pytest.approx(1.25)
    assert result.evaluation is not None
    assert result.evaluation.internode_traffic == 0.0
    assert result.evaluation.migrations == 0


def test_a_plan_is_found_where_no_start_keeps_what_crossing_traffic_costs() -> None:
    """24 of 2,187 placements keep all limits; the best of them carries .5195 of the input."""
    loads = {
        "t0": (1.3, 0.4, 3.8), "t1": (2.8, 0.9, 1.2), "t2": (0, 4.7, 0.6), "t3": (8.7, 8.2, 3.4),
        "t4": (7.9, 4.7, 8.6), "t5": (2.2, 3.1, 7.7), "t6": (0, 3.5, 3.2),
    }  # fmt: skip
    resources = ("cpu", "mem", "net")
    capacity = dict(zip(resources, (12.8, 14.2, 15.9), strict=True))
    instance = Instance.from_dict({
        "format": "streamplace.instance/1", "name": "crossing", "resources": list(resources),
        "nodes": [{"id": n, "capacity": capacity} for n in ("n0", "n1", "n2")],
        "tasks": [
            {"id": t, "load": dict(zip(resources, load, strict=True))} for t, load in loads.items()
        ],
        "traffic": [
            ["t0", "t6", 8.0], ["t1", "t3", 8.1], ["t1", "t5", 1.0], ["t2", "t4", 2.9],
            ["t3", "t0", 5.1], ["t3", "t4", 2.6], ["t4", "t6", 8.4],
        ],
        "crossing_cost": {"cpu": {"out": 0.094, "in": 0.312}, "mem": {"out": 0.359, "in": 0.408}},
        "limits": {"max_utilisation": {"cpu": 0.5}},
    })  # fmt: skip
    result = solve(instance, "throughput-search")
    assert result.objective is not None
    assert result.objective.value == pytest.approx(0.5195, abs=1e-4)


def test_never_less_than_a_warm_start() -> None:
    instance = Instance.load(EXAMPLES / "capsys-rate-q4.json")
    best = solve(instance, "throughput-exact").plan
    assert best is not None
    start = Plan.from_json(best.to_json())
    result = solve(instance, "throughput-search", warm_start=start, effort=0.01)
    assert result.objective is not None
    assert result.objective.value == pytest.approx(0.844850, abs=1e-6)


def test_blocks_are_counted_as_their_pairs() -> None:
    """A full stream of many pairs is kept as a block: the same traffic as pair by pair."""
    document = {
        "format": "streamplace.instance/1",
        "name": "block",
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 50}} for i in range(4)],
        "operators": [
            {"id": "a", "group": {"tasks": 20, "load": {"cpu": 40}}},
            {"id": "b", "group": {"tasks": 30, "load": {"cpu": 60}}},
        ],
        "streams": [{"from": "a", "to": "b", "rate": 60}],
        "links": [
            {"id": "up", "nodes": ["n0"], "capacity": 9, "direction": "out"},
            {"id": "rack", "nodes": ["n0", "n1"], "capacity": 9},
        ],
        "crossing_cost": {"cpu": {"out": 0.1}},
    }
    instance = Instance.from_dict(document)
    assert instance.flows.blocks
    binding = without_measured(instance)
    node = (np.arange(50) % 4).astype(np.int32)
    rate = find_objective("sustainable_rate")
    (level,) = levels_of(state_of(instance, binding, rate, node))
    assert -1.0 / level == pytest.approx(load_of(instance, node))
    search = Annealing(instance, rate, Request())
    search.walk(node, 0, 5000)
    assert search.best is not None
    assert load_of(instance, search.best) < load_of(instance, node)


@pytest.mark.parametrize("name", ["throughput-search", "throughput-exact", "throughput-milp"])
def test_where_nothing_bounds_the_rate_the_family_says_so_beforehand(name: str) -> None:
    """But it counts moves and nodes there, for which the rate is given."""
    whole, method = Instance.load(EXAMPLES / "capsys-rate-q4.json"), get_method(name)
    document = whole.to_dict()
    document["nodes"][1].pop("capacity", None)
    limited = Instance.from_dict(document)
    assert is_suitable(method, limited)  # what one task can use bounds it
    instance = without_limits(limited, "max_load")
    with pytest.raises(UnsuitableMethod, match=rf"{name} needs a load, .* has none .*rate_driven"):
        check_suitable(method, instance)
    with pytest.raises(UnsuitableMethod, match="needs a load"):
        next(choices(instance, objective="sustainable_rate"))
    assert is_suitable(method.aimed_at("nodes_used"), instance)
    assert is_suitable(method, whole)
