"""Storm's schedulers keep counts of nodes, and sets over slots by a second assignment to slots."""

from __future__ import annotations

from typing import Any

import pytest

from optim import Instance, solve

SCHEDULERS = ["storm-even", "storm-offline", "storm-online"]


def document(**parts: Any) -> dict[str, Any]:
    """Topology p is to be alone; two executors of a may not share a worker, nor may c/0 and d/1."""
    topologies = {"a": "p", "b": "p", "c": "q", "d": "q"}
    return {
        "format": "streamplace.instance/1",
        "name": "isolated",
        "nodes": [{"id": f"n{i}", "slots": 3, "capacity": {"cpu": 30}} for i in range(5)],
        "operators": [
            {"id": name, "topology": topology, "group": {"tasks": 4, "load": {"cpu": 12}}}
            for name, topology in topologies.items()
        ],
        "topologies": [{"id": "p", "workers": 4, "exclusive_nodes": 2}, {"id": "q", "workers": 3}],
        "streams": [{"from": "a", "to": "b", "rate": 5}, {"from": "c", "to": "d", "rate": 7}],
        "sets": [
            {"id": "s", "operator": "a", "rule": "apart", "over": "slot"},
            {"id": "u", "tasks": ["c/0", "d/1"], "rule": "apart", "over": "slot"},
        ],
        "limits": {"max_nodes_used": 4},
        **parts,
    }


@pytest.mark.parametrize("name", SCHEDULERS)
def test_topologies_have_nodes_of_their_own_and_sets_hold_in_slots(name: str) -> None:
    result = solve(Instance.from_dict(document()), name)
    assert result.feasible, result.evaluation
    assert result.plan is not None
    nodes = {
        topology: {n for t, n in result.plan.assignment.items() if t[0] in operators}
        for topology, operators in {"p": "ab", "q": "cd"}.items()
    }
    assert len(nodes["p"]) <= 2
    assert not nodes["p"] & nodes["q"]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_sets_that_no_assignment_of_the_nodes_tasks_satisfies_are_reported(name: str) -> None:
    # eight executors of p on four workers: the tasks of b and a/0, one a worker, are too many
    apart = [f"b/{i}" for i in range(4)] + ["a/0"]
    sets = [{"id": "s", "tasks": apart, "rule": "apart", "over": "slot"}]
    result = solve(Instance.from_dict(document(sets=sets)), name)
    assert not result.feasible
    assert result.evaluation is not None
    assert {v.rule for v in result.evaluation.violations} == {"slot_sets"}
    assert any("no assignment" in note for note in result.notes)
