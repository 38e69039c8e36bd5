"""Nodes chosen beforehand for counts of nodes: whoever keeps to them keeps the counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optim import Instance, solve
from optim.kernels.place_rules import chosen_nodes, on_chosen_nodes
from optim.kernels.repair import repair
from optim.methods.registry import all_methods
from optim.rules import node_counts
from tests.optim.make import instance as small

CONFINED = [method.name for method in all_methods() if method.confined]


def document(nodes: int, tasks: int, *, used: int, alone: int, home: bool = True) -> dict[str, Any]:
    """Three topologies, one of which is to be alone; now every node has tasks of all of them."""
    return {
        "format": "streamplace.instance/1",
        "name": "counted",
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 3.0 * tasks / used}} for i in range(nodes)],
        "topologies": [{"id": "a", "exclusive_nodes": alone}, {"id": "b"}, {"id": "c"}],
        "operators": [{"id": k, "topology": k} for k in "abc"],
        "tasks": [
            {
                "id": f"t{i}",
                "operator": "abc"[i % 3],
                "load": {"cpu": 1.0 + i % 2},
                **({"node": f"n{i // 3 % nodes}"} if home else {}),
            }
            for i in range(tasks)
        ],
        "traffic": [[f"t{i}", f"t{i + 3}", 1.0 + i % 5] for i in range(tasks - 3)],
        "limits": {"max_nodes_used": used},
    }


@pytest.mark.parametrize("seed", range(60))
def test_any_placement_on_chosen_nodes_keeps_all_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(2, 7))
    made = document(nodes, 12, used=int(rng.integers(2, nodes + 1)), alone=int(rng.integers(1, 4)))
    for task in made["tasks"]:
        if rng.random() < 0.2:
            task["allowed"] = [n["id"] for n in made["nodes"] if rng.random() < 0.7] or ["n0"]
            task.pop("node")
    instance = Instance.from_dict(made)
    part, chosen = chosen_nodes(instance)
    assert (chosen.sum(axis=0) <= 1).all()
    assert len(set(part[1::3]) | set(part[2::3])) == 1  # of b and c nothing tells tasks apart
    if not chosen.any(axis=1).all():
        return
    node = np.array([rng.choice(np.flatnonzero(chosen[p])) for p in part])
    for count in node_counts(instance):
        assert count.nodes(node, nodes).sum() <= count.limit, count.name


def test_without_counts_nothing_is_chosen() -> None:
    instance = small()
    assert on_chosen_nodes(instance) is instance
    assert chosen_nodes(instance)[1].all()


def test_nodes_are_chosen_where_tasks_are_and_as_many_as_their_load_needs() -> None:
    made = document(6, 12, used=6, alone=4, home=False)
    for i, task in enumerate(made["tasks"]):
        task["node"] = "n4" if i % 3 == 0 else f"n{i % 3}"
    part, chosen = chosen_nodes(Instance.from_dict(made))
    assert chosen[part[0]][4]
    assert chosen[part[1]][[1, 2]].all()
    assert chosen.sum() == 6
    assert chosen[part[0]].sum() == 2  # a third of the load


def test_repair_keeps_counts_where_every_node_has_tasks_of_all() -> None:
    instance = Instance.from_dict(document(12, 60, used=8, alone=3))
    found = repair(instance, instance.tasks.node)
    assert found.complete


@pytest.mark.parametrize("name", CONFINED)
def test_heuristics_that_know_lists_of_nodes_keep_counts(name: str) -> None:
    made = document(7, 21, used=5, alone=2)
    for node in made["nodes"]:
        node |= {"slots": 9}
    instance = Instance.from_dict(made)
    result = solve(instance, name)
    broken = {v.rule for v in result.evaluation.violations} if result.evaluation else set()
    if name == "flux":  # it moves from the fullest to the emptiest node, and empties none
        assert not result.feasible
    else:
        assert not broken & {"max_nodes_used", "exclusive_nodes"}, broken


@pytest.mark.parametrize("name", ["balance-search", "joint-search"])
def test_searches_begin_on_chosen_nodes_where_the_problem_is_too_large_for_a_model(
    name: str,
) -> None:
    instance = Instance.from_dict(document(100, 240, used=60, alone=20))
    option = {"tries": 1} if name == "balance-search" else {"steps": 100, "bound": "counting"}
    result = solve(instance, name, time_limit=5.0, **option)
    assert result.feasible
    assert result.mending is None
