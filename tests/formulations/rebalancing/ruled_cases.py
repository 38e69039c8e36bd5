"""Small instances under every mix of rules, and what the referee says of all their placements."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from optim.format.instance import Instance
from optim.referee import evaluate_indices
from tests.optim.kernels.rule_cases import random_sets


def ruled_case(seed: int) -> Instance:
    """Return a few tasks on three nodes: sets, inflow, copies, budgets, capacities, leaving."""
    rng = np.random.default_rng([seed, 23])
    t, n = int(rng.integers(3, 6)), 3
    ids, names = [f"t{k}" for k in range(t)], [f"n{i}" for i in range(n)]
    leaving = n - 1 if rng.random() < 0.3 else -1
    nodes = []
    for i, name in enumerate(names):
        node: dict[str, Any] = {"id": name, "rack": f"r{i % 2}", "leaving": i == leaving}
        node["capacity"] = {"cpu": float(rng.integers(8, 20))} if rng.random() < 0.6 else {}
        if rng.random() < 0.15:
            node["max_inflow"] = int(rng.integers(0, 3))
        if rng.random() < 0.15:
            node["max_tasks"] = int(rng.integers(1, t + 1))
        nodes.append(node)
    tasks: list[dict[str, Any]] = []
    for name in ids:
        task: dict[str, Any] = {
            "id": name,
            "load": {"cpu": float(rng.integers(1, 9)) / 2},
            "state": float(rng.integers(1, 5)),
            "node": str(rng.choice(names)),
        }
        if rng.random() < 0.3:
            task["copies"] = sorted(rng.choice(names, int(rng.integers(1, 3)), replace=False))
        tasks.append(task)
    limits: dict[str, Any] = {}
    if rng.random() < 0.5:
        limits["max_migrations"] = int(rng.integers(0, t))
    if rng.random() < 0.3:
        limits["max_migration_cost"] = float(rng.integers(0, 9))
    if rng.random() < 0.3:
        limits["max_inflow"] = int(rng.integers(0, 3))
    if rng.random() < 0.3:
        limits["max_load_distance"] = float(rng.integers(1, 8))
    every = list(itertools.combinations(ids, 2))
    some = rng.permutation(len(every))[: int(rng.integers(1, len(every) + 1))]
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": f"ruled {seed}",
            "resources": ["cpu"],
            "nodes": nodes,
            "tasks": tasks,
            "sets": random_sets(rng, ids),
            "traffic": [[*every[i], float(rng.integers(1, 9))] for i in some],
            "limits": limits,
        }
    )


def feasible(instance: Instance) -> Iterator[tuple[float, float, float]]:
    """Yield load distance, traffic on nodes and load left on leaving nodes of what is feasible."""
    for chosen in itertools.product(range(instance.num_nodes), repeat=instance.num_tasks):
        node = np.array(chosen, np.int32)
        found = evaluate_indices(instance, node)
        if not found.feasible:
            continue
        left = float(instance.tasks.load[instance.nodes.leaving[node], 0].sum())
        assert found.load_distance is not None
        assert found.imc_gain is not None
        yield found.load_distance, found.imc_gain, left
