"""What is assumed of leaving nodes: nothing where no plan has a choice."""

from __future__ import annotations

import random
from typing import Any

import pytest

from optim import Instance, StreamplaceError, solve
from optim.format.changes import Change, altered

EXACT = (
    "imc-exact", "imc-milp", "imc-brute", "balance-milp", "joint-milp", "throughput-exact",
    "throughput-milp", "eoa-milp", "storm-milp",
)  # fmt: skip


def drawn(seed: int) -> dict[str, Any]:
    """Some tasks on two or three nodes, which talk in part; maybe limits."""
    rng = random.Random(seed)
    nodes, tasks = rng.randint(2, 3), rng.randint(3, 5)
    names = [f"t{i}" for i in range(tasks)]
    found: dict[str, Any] = {
        "format": "streamplace.instance/1",
        "name": f"drawn {seed}",
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": rng.choice([6, 8])}} for i in range(nodes)],
        "tasks": [
            {"id": name, "load": {"cpu": rng.randint(1, 4)}, "node": f"n{rng.randrange(nodes)}"}
            for name in names
        ],
        "traffic": [
            [a, b, rng.randint(1, 5)] for a in names for b in names if a < b and rng.random() < 0.5
        ],
    }
    if rng.random() < 0.5:
        found["limits"] = {"max_migrations": rng.choice([1, 2, 3])}
    return found


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("seed", range(6))
def test_an_empty_leaving_node_of_no_capacity_changes_no_verdict(method: str, seed: int) -> None:
    document = drawn(seed)
    more = [*document["nodes"], {"id": "z", "capacity": {"cpu": 0}, "leaving": True}]
    try:
        plain = solve(Instance.from_dict(document), method)
    except StreamplaceError:
        return
    found = solve(Instance.from_dict({**document, "nodes": more}), method)
    assert (found.termination, found.bound_of) == (plain.termination, plain.bound_of)
    assert found.assumes == plain.assumes == ()


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_assumed_of_tasks_that_may_not_stay(method: str, seed: int) -> None:
    """Of a dropped node they have to go: a bound among plans that take them off is of all."""
    dropped = altered(Instance.from_dict(drawn(seed)), [Change("drop-node", "n0")])
    try:
        found = solve(dropped, method)
    except StreamplaceError:
        return
    assert found.assumes == ()
    if any("for every plan" in note for note in found.notes):  # such a plan is never called optimal
        assert (found.gap, found.bound_of) == (0, "problem")
        return
    assert str(found.termination) in ("optimal", "infeasible")


def test_what_may_stay_is_still_told() -> None:
    document = drawn(1)
    for node in document["nodes"]:
        node["capacity"] = {"cpu": 100}
    document["nodes"][0]["leaving"] = True
    document.pop("limits", None)
    assert any(task["node"] == "n0" for task in document["tasks"])
    assert solve(Instance.from_dict(document), "imc-exact").bound_of == "restricted"


@pytest.mark.parametrize("objective", ["load_distance", "cpu_deviation", "max_utilisation"])
def test_a_figure_of_the_staying_nodes_is_not_asked_of_an_unmarked_instance(objective: str) -> None:
    """n1 cannot take 6 and 3, so none empties n0; without the mark 4.5 each would be the mean."""
    made = Instance.from_dict({
        "format": "streamplace.instance/1",
        "name": "unmarked",
        "nodes": [
            {"id": "n0", "capacity": {"cpu": 6}, "leaving": True},
            {"id": "n1", "capacity": {"cpu": 6}},
        ],
        "tasks": [
            {"id": "t0", "load": {"cpu": 6}, "node": "n0"},
            {"id": "t1", "load": {"cpu": 3}, "node": "n0"},
        ],
        "limits": {"max_migrations": 2},
    })  # fmt: skip
    result = solve(made, "imc-brute", objective=objective)
    assert result.feasible
    assert result.termination == "optimal"
    best = {"load_distance": 3.0, "cpu_deviation": 0.0, "max_utilisation": 1.0}[objective]
    assert result.objective is not None
    assert result.objective.value == pytest.approx(best)
