"""A first submission: no task has a node yet. What is chosen, and what is never called optimal."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from optim import Instance, solve
from optim.methods.portfolio import PORTFOLIO
from optim.referee import Termination, evaluate_indices


def submitted(loads: list[float], nodes: int = 3, **more: Any) -> Instance:
    """Return tasks a, b, … of these loads, none of which has a node."""
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1", "name": "first", "resources": ["memory"],
            "nodes": [{"id": f"n{i}"} for i in range(nodes)],
            "tasks": [{"id": chr(97 + i), "load": {"memory": x}} for i, x in enumerate(loads)],
            **more,
        }
    )  # fmt: skip


@pytest.mark.parametrize("method", [None, PORTFOLIO])
def test_without_traffic_the_nodes_are_balanced(method: str | None) -> None:
    result = solve(submitted([3, 2.5, 2, 1.5, 1]), method)
    assert result.objective is not None
    assert result.objective.name == "load_distance"
    assert result.objective.value == pytest.approx(1 / 3)
    assert result.termination is Termination.OPTIMAL


def test_load_distance_at_any_size() -> None:
    loads = (np.random.default_rng(3).integers(1, 30, 60) / 2).tolist()
    result = solve(submitted(loads[:11], 4), objective="load_distance")
    assert result.method == "balance-milp"
    assert result.termination is Termination.OPTIMAL
    large = solve(submitted(loads, 8), "balance-search")
    assert large.evaluation is not None
    assert large.evaluation.load_distance == pytest.approx(0.3125)


@pytest.mark.parametrize("method", ["storm-even", "imc-milp", "imc-brute", PORTFOLIO])
def test_an_objective_of_which_there_is_none_is_not_called_optimal(method: str) -> None:
    result = solve(submitted([3, 2, 1]), method, objective="imc_gain")
    assert result.feasible
    assert result.termination is not Termination.OPTIMAL
    assert "imc_gain is 0 for every plan: no tasks communicate" in result.notes


@pytest.mark.parametrize("method", [None, PORTFOLIO])
def test_where_no_pair_can_be_together_the_nodes_are_balanced(method: str | None) -> None:
    apart = [{"id": "s", "tasks": ["a", "b"], "rule": "apart"}]
    made = submitted([3, 2.5, 2, 1.5, 1], sets=apart, traffic=[["a", "b", 3]])
    result = solve(made, method)
    assert result.objective is not None
    assert result.objective.name == "load_distance"
    assert result.objective.value == pytest.approx(1 / 3)
    assert "imc_gain is 0 for every plan: load_distance instead" in result.notes
    asked = solve(made, "imc-milp")
    assert asked.termination is Termination.HEURISTIC
    assert "imc_gain is 0 for every plan: no plan has more" in asked.notes


def test_a_bound_of_fewer_plans_says_nothing_of_every_plan() -> None:
    """Emptying the leaving node parts the pair; leaving both there does not."""
    nodes = [{"id": "n0", "leaving": True}, {"id": "n1"}, {"id": "n2"}]
    tasks = [
        {"id": "a", "load": {"memory": 1}, "node": "n0", "allowed": ["n0", "n1"]},
        {"id": "b", "load": {"memory": 1}, "node": "n0", "allowed": ["n0", "n2"]},
    ]
    made = submitted([1, 1], traffic=[["a", "b", 3]]).replace(nodes=nodes, tasks=tasks)
    result = solve(made, "imc-exact")
    assert not any("for every plan" in note for note in result.notes)


def test_nothing_to_balance_is_said() -> None:
    result = solve(submitted([0, 0, 0]))
    assert result.feasible
    assert result.termination is Termination.HEURISTIC
    assert any("for every plan" in note for note in result.notes)


def test_no_load_at_all_stays_where_it_is() -> None:
    made = submitted([0, 0]).replace(tasks=[{"id": "a", "node": "n0"}, {"id": "b", "node": "n0"}])
    result = solve(made)
    assert result.moves == ()
    assert result.termination is Termination.HEURISTIC
    told = "load_distance is 0 for every plan: no task has a load of memory"
    assert any(note.startswith(told) for note in result.notes)


def test_traffic_alone_is_kept_together() -> None:
    result = solve(submitted([0, 0], traffic=[["a", "b", 1]]))
    assert result.objective is not None
    assert (result.objective.name, result.objective.value) == ("imc_gain", 1)
    assert result.termination is Termination.OPTIMAL


@pytest.mark.parametrize("seed", range(40))
def test_default_against_all_plans(seed: int) -> None:
    """With and without capacities, all or some tasks without a node, a budget for the others."""
    rng = np.random.default_rng([seed, 13])
    loads = (rng.integers(1, 13, int(rng.integers(3, 7))) / 2).tolist()
    made = submitted(loads)
    document = made.to_dict()
    if rng.random() < 0.5:
        for node in document["nodes"]:
            node["capacity"] = {"memory": float(rng.integers(4, 12))}
    if rng.random() < 0.5:
        for task in document["tasks"]:
            if rng.random() < 0.5:
                task["node"] = f"n{rng.integers(3)}"
        document["limits"] = {"max_migrations": int(rng.integers(0, 2))}
    made = Instance.from_dict(document)
    every = itertools.product(range(3), repeat=len(loads))
    found = [evaluate_indices(made, np.array(plan, np.int32)) for plan in every]
    values = [e.load_distance for e in found if e.feasible and e.load_distance is not None]
    result = solve(made)
    if not values:
        assert result.termination is Termination.INFEASIBLE
        return
    assert result.termination is Termination.OPTIMAL
    assert result.objective is not None
    assert result.objective.value == pytest.approx(min(values), abs=1e-6)
