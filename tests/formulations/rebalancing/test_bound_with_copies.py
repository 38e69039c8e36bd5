"""Bounds where replicas hold copies of each other, against all placements."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from formulations.rebalancing.bound import forced_moves_bound, without_switches
from formulations.rebalancing.problem import balance_problem
from optim import Instance
from optim.format.document import INSTANCE_FORMAT


def replicas(seed: int, alike: float = 0.8) -> Instance:
    """Return three to four brokers with a few partitions of two replicas; most share a load."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 5))
    tasks: list[dict[str, Any]] = []
    sets: list[dict[str, Any]] = []
    for p in range(int(rng.integers(1, 4))):
        homes = rng.choice(n, 2, replace=False).tolist()
        size, other = rng.integers(1, 9, 2).tolist()
        cpu = rng.integers(1, 5, 2).tolist()
        for i, home in enumerate(homes):
            load = size if i == 0 or rng.random() < alike else other
            task: dict[str, Any] = {
                "id": f"p{p}#{i}",
                "operator": "t",
                "node": str(home),
                "state": size,
            }
            task |= {"load": {"disk": load, "cpu": cpu[i]}, "copies": [str(homes[1 - i])]}
            if rng.random() < 0.2:
                some = rng.choice(n, int(rng.integers(1, n + 1)), replace=False)
                task["allowed"] = sorted({str(b) for b in some.tolist()} | {str(n - 1)})
            tasks.append(task)
        sets.append({"id": f"p{p}", "tasks": [f"p{p}#0", f"p{p}#1"], "rule": "apart"})
        sets[-1] |= {"over": "node", "at_most": 1}
    nodes: list[dict[str, Any]] = [{"id": str(b), "capacity": {"cpu": 9}} for b in range(n)]
    if rng.random() < 0.3:
        nodes[0]["leaving"] = True
    limit = rng.choice(["max_migrations", "max_migration_cost"])
    most = int(rng.integers(0, 3)) * (1 if limit == "max_migrations" else 4)
    return Instance.from_dict(
        {
            "format": INSTANCE_FORMAT,
            "name": "replicas",
            "resources": ["disk", "cpu"],
            "nodes": nodes,
            "operators": [{"id": "t"}],
            "tasks": tasks,
            "sets": sets,
            "limits": {str(limit): most},
        }
    )


def check(seed: int) -> bool:
    """Hold the bound against all placements; whether it is above what copies alone leave."""
    problem = balance_problem(replicas(seed))
    every = itertools.product(range(problem.num_nodes), repeat=problem.num_tasks)
    plans = [p for p in map(np.array, every) if problem.is_feasible(p)]
    if not plans:
        return False
    least = min(problem.levels(p).distance for p in plans)
    bound = forced_moves_bound(problem)
    assert bound <= least + 1e-9, seed
    return bool(bound > 0.5 * least > 0)


def test_bounds_hold_and_are_no_longer_nothing() -> None:
    assert sum(map(check, range(24))) > 5


@pytest.mark.slow
def test_bounds_hold_on_many() -> None:
    assert sum(map(check, range(100, 1100))) > 250


def test_unlike_replicas_keep_their_copies() -> None:
    unlike = [balance_problem(replicas(seed, alike=0.0)) for seed in range(20)]
    kept = [p for p in unlike if len(without_switches(p).rules.copies) == len(p.rules.copies)]
    assert kept
    whole = balance_problem(replicas(0, alike=1.0))
    assert len(without_switches(whole).rules.copies) == 0
