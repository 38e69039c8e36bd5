"""The exact methods under every mix of rules: what they prove is what trying everything finds."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest

from optim.errors import UnsuitableMethod
from optim.figures.measures import imc_gain_of
from optim.format.instance import Instance
from optim.kernels.classes import node_classes, task_groups
from optim.methods.solve import solve
from optim.rules import broken
from optim.rules.placement import Placement
from tests.formulations.task_allocation.cases import random_document
from tests.optim.kernels.rule_cases import random_sets

CASES = 40
"""A thousand were tried once."""

EXACT = ("imc-brute", "imc-milp", "imc-exact")


def ruled(seed: int) -> Instance:
    """Return a small instance with some of all rules that there are."""
    rng = np.random.default_rng([seed, 23])
    made = random_document(seed, most_tasks=5, most_nodes=3)
    ids = [f"{o['id']}/{i}" for o in made["operators"] for i in range(o["group"]["tasks"])]
    nodes = [node["id"] for node in made["nodes"]]
    entries = {task["id"]: task for task in made["tasks"]}
    for task in ids:
        entry = entries.setdefault(task, {"id": task})
        if rng.random() < 0.7:
            entry["node"] = str(rng.choice(nodes))
        if rng.random() < 0.2:
            entry["copies"] = [str(rng.choice(nodes))]
        entry["migration_cost"] = float(rng.integers(1, 4))
    made["tasks"] = list(entries.values())
    for i, node in enumerate(made["nodes"]):
        node.pop("leaving", None)
        node["rack"] = f"r{i % 2}"
        if rng.random() < 0.15:
            node["max_tasks"] = int(rng.integers(1, 5))
        if rng.random() < 0.1:
            node["max_inflow"] = int(rng.integers(0, 3))
    limits: dict[str, Any] = {}
    if rng.random() < 0.2:
        limits["max_inflow"] = int(rng.integers(1, 4))
    if rng.random() < 0.25:
        limits["max_migrations"] = int(rng.integers(0, 4))
    if rng.random() < 0.25:
        limits["max_migration_cost"] = float(rng.integers(0, 8))
    if rng.random() < 0.25:
        limits["max_load_distance"] = float(rng.integers(2, 12))
    made["limits"] = limits
    if rng.random() < 0.4 and len(ids) > 1:
        made["sets"] = random_sets(rng, ids)
    if rng.random() < 0.3:
        made["links"] = [
            {
                "id": f"l{i}",
                "nodes": sorted(rng.choice(nodes, int(rng.integers(1, len(nodes) + 1)), False)),
                "capacity": float(rng.integers(0, 30)),
                "direction": str(rng.choice(["both", "out", "in"])),
            }
            for i in range(int(rng.integers(1, 3)))
        ]
    return Instance.from_dict(made)


@cache
def best(seed: int) -> float | None:
    """The most traffic of all placements that the referee accepts; ``None`` if there is none."""
    made = ruled(seed)
    found = None
    for node in itertools.product(range(made.num_nodes), repeat=made.num_tasks):
        at = np.array(node, dtype=np.int32)
        gain = imc_gain_of(made, at)
        if (found is None or gain > found) and not broken(Placement(made, at)):
            found = gain
    return found


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("seed", range(CASES))
def test_equals_trying_everything(seed: int, method: str) -> None:
    check(seed, method)


def check(seed: int, method: str) -> bool:
    """Compare a method with all placements; return whether it takes the instance."""
    try:
        result = solve(ruled(seed), method, start_broken="refuse")
    except UnsuitableMethod as error:
        assert all(problem.remedy for problem in error.problems)
        assert method != "imc-brute", error
        return False
    wanted = best(seed)
    assert result.exit_code == (3 if wanted is None else 0), result.notes
    if result.termination == "heuristic":  # what is 0 for every plan is never called optimal
        assert wanted == 0
        assert any("is 0 for every plan" in note for note in result.notes)
    else:
        assert result.termination == ("infeasible" if wanted is None else "optimal")
    if wanted is not None:
        assert result.objective is not None
        assert result.objective.value == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    return True


@pytest.mark.parametrize("seed", range(CASES))
def test_equal_tasks_and_nodes_are_so_under_all_rules(seed: int) -> None:
    """Exchanging two tasks of a class, or two nodes, breaks no rule that was kept."""
    made = ruled(seed)
    rng = np.random.default_rng(seed)
    groups, classes = task_groups(made), node_classes(made)
    for _ in range(10):
        node = rng.integers(0, made.num_nodes, made.num_tasks).astype(np.int32)
        other = node.copy()
        pair = groups.tasks_of(int(rng.integers(groups.num_groups)))[:2]
        other[pair] = node[pair[::-1]]
        kind = classes.nodes_of(int(rng.integers(classes.num_classes)))[:2]
        swapped = np.arange(made.num_nodes)
        swapped[kind] = kind[::-1]
        for found in (other, swapped[node].astype(np.int32)):
            was, now = (broken(Placement(made, at)) for at in (node, found))
            assert sorted(v.rule for v in was) == sorted(v.rule for v in now)
            assert imc_gain_of(made, found) == pytest.approx(imc_gain_of(made, node))
