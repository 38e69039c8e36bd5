"""Why no placement exists: what is said must hold, and say what a person needs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from formulations.rebalancing.bound import impossible, least_spent
from formulations.rebalancing.problem import balance_problem
from optim import Instance, solve
from optim.referee import Termination, evaluate_indices

OVERFULL: dict[str, Any] = {
    "format": "streamplace.instance/1",
    "name": "overfull",
    "resources": ["cpu", "disk"],
    "nodes": [
        {"id": "b1", "capacity": {"cpu": 100, "disk": 100}},
        {"id": "b2", "capacity": {"cpu": 100, "disk": 100}},
    ],
    "tasks": [
        {"id": f"p{i}", "load": {"cpu": 1, "disk": disk}, "state": disk, "node": "b1"}
        for i, disk in enumerate([30, 25, 20, 20, 20, 20])
    ],
}


LONG = 60.0
"""Seconds for the rules that clash, however busy the machine is."""


def with_limits(**limits: float) -> Instance:
    return Instance.from_dict({**OVERFULL, "limits": limits})


@pytest.mark.parametrize("method", ["balance-milp", "balance-search", "scale-in-first"])
def test_a_budget_too_small_for_a_full_node_says_how_many_moves_it_takes(method: str) -> None:
    result = solve(
        with_limits(max_migrations=1), method, start_broken="refuse", explain=LONG
    )  # 35 too much: 30 alone is too little
    assert result.termination is Termination.INFEASIBLE
    room, budget = result.reasons
    assert (room.rule, room.where, room.available) == ("capacity", "b1.disk", 100.0)
    assert (budget.rule, budget.needed, budget.available) == ("max_migrations", 2.0, 1.0)
    assert solve(with_limits(max_migrations=2), "balance-milp").termination is Termination.OPTIMAL


def test_a_budget_of_cost_too() -> None:
    result = solve(
        with_limits(max_migration_cost=34), "balance-milp", start_broken="refuse", explain=LONG
    )
    budget = result.reasons[-1]  # 30 and 20 cost more than two of 20, and one is too little
    assert (budget.rule, budget.needed, budget.available) == ("max_migration_cost", 40.0, 34.0)


def test_what_only_the_solver_finds_names_what_is_broken_and_what_to_drop() -> None:
    document = {**OVERFULL, "limits": {"max_migrations": 2}}
    document["nodes"] = [OVERFULL["nodes"][0], {"id": "b2", "capacity": {"cpu": 100, "disk": 39}}]
    result = solve(
        Instance.from_dict(document), "balance-milp", start_broken="refuse", explain=LONG
    )  # no two of them fit into 39
    assert result.termination is Termination.INFEASIBLE
    assert [(r.rule, r.place, r.needed, r.available) for r in result.reasons] == [
        ("capacity", "all nodes.disk (6 tasks, at most 5 on these nodes)", 140.0, 139.0)
    ]
    assert "--ignore max_migrations shows how much is needed" in " ".join(result.notes)
    without = solve(
        Instance.from_dict(document),
        "balance-milp",
        ignore=["max_migrations"],
        start_broken="refuse",
    )
    assert without.termination is Termination.INFEASIBLE
    assert "budget" not in " ".join(without.notes)


@pytest.mark.parametrize("seed", range(60))
def test_never_more_than_it_takes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = [
        {"id": f"b{n}", "capacity": {"cpu": int(rng.integers(4, 12)), "disk": 9}} for n in range(3)
    ]
    tasks = [
        {
            "id": f"p{i}",
            "load": {"cpu": int(rng.integers(0, 5)), "disk": int(rng.integers(0, 5))},
            "migration_cost": int(rng.integers(0, 6)),
            "node": f"b{rng.integers(0, 3)}",
        }
        for i in range(6)
    ]
    document = {**OVERFULL, "nodes": nodes, "tasks": tasks}
    free = Instance.from_dict(document)
    home = free.tasks.node
    moves, costs = [np.inf], [np.inf]
    for places in itertools.product(range(3), repeat=6):
        node = np.array(places, dtype=np.int32)
        if evaluate_indices(free, node).feasible:
            moves.append(float((node != home).sum()))
            costs.append(float(free.tasks.migration_cost[node != home].sum()))
    for limit, least in (("max_migrations", min(moves)), ("max_migration_cost", min(costs))):
        tight = Instance.from_dict({**document, "limits": {limit: 0}})
        problem = balance_problem(tight)
        if impossible(tight, problem):
            assert least_spent(tight, problem).max() <= least
            assert least > 0
