"""What methods keep as capacities is what their listing says."""

from __future__ import annotations

from typing import Any

import pytest

from optim import Instance, solve
from optim.methods.lowering import kept_lowered, lowered
from optim.methods.registry import all_methods
from optim.methods.suitable import _unhonoured

LIMITS: dict[str, dict[str, Any]] = {
    "max_tasks": {"nodes": {"max_tasks": 2}},
    "sets": {"sets": [{"id": "s", "rule": "apart", "tasks": ["t0", "t1"]}]},
    "slots": {"nodes": {"slots": 3}},
    "max_tasks_per_slot": {"nodes": {"slots": 3}, "limits": {"max_tasks_per_slot": 2}},
    "max_load_distance": {"limits": {"max_load_distance": 5.0}},
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_method_keeps_as_capacities_what_it_says(limit: str) -> None:
    more = LIMITS[limit]
    document = {
        "format": "streamplace.instance/1",
        "name": "lowered",
        "nodes": [{"id": f"n{n}", **more.get("nodes", {})} for n in range(3)],
        "tasks": [{"id": f"t{t}", "load": {"cpu": 1}} for t in range(4)],
        **{key: value for key, value in more.items() if key != "nodes"},
    }
    instance = Instance.from_dict(document)
    told = 0
    for method in all_methods():
        if "capacity" not in method.honours or limit in method.honours:
            continue
        seen = lowered(instance, method.honours)
        refused = [problem.reason for problem in _unhonoured(method, seen, repair=False)]
        assert bool(refused) == (limit not in kept_lowered(method.honours)), method.name
        told += not refused
    assert told


@pytest.mark.parametrize("method", ["imc-exact", "imc-milp", "storm-milp"])
def test_a_node_may_be_empty_where_the_distance_is_just_its_share(method: str) -> None:
    """Three tasks of 0.1 are 0.10000000000000002 for each of three nodes; one has no room."""
    document = {
        "format": "streamplace.instance/1",
        "name": "edge",
        "nodes": [{"id": "n0"}, {"id": "n1"}, {"id": "n2", "capacity": {"cpu": 0.0}}],
        "tasks": [{"id": f"t{t}", "load": {"cpu": 0.1}} for t in range(3)],
        "traffic": [["t0", "t1", 1.0]],
        "limits": {"max_load_distance": 0.1},
    }
    result = solve(Instance.from_dict(document), method)
    assert result.evaluation is not None and result.evaluation.feasible
