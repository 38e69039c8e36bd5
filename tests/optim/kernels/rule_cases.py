"""Random instances with sets, inflow, copies and nodes of a topology alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from optim.format.instance import Instance


def ruled_instance(seed: int, num_tasks: int = 5, num_nodes: int = 4) -> Instance:
    """Return tasks on nodes in two racks with a random mix of rules that count them."""
    rng = np.random.default_rng([seed, 17])
    ids = [f"t{k}" for k in range(num_tasks)]
    nodes = [f"n{i}" for i in range(num_nodes)]
    tasks: list[dict[str, Any]] = [{"id": t, "load": {"cpu": 1.0}, "node": "n0"} for t in ids]
    for task in tasks:
        task["node"] = str(rng.choice(nodes))
        if rng.random() < 0.3:
            task["copies"] = sorted(rng.choice(nodes, int(rng.integers(1, 3)), replace=False))
    limits: dict[str, Any] = {}
    if rng.random() < 0.4:
        limits["max_inflow"] = int(rng.integers(0, 3))
    topologies: list[dict[str, Any]] = []
    more = np.random.default_rng([seed, 18])
    if more.random() < 0.4:
        topologies = [{"id": f"j{i}"} for i in range(2)]
        for topology in topologies[: int(more.integers(1, 3))]:
            topology["exclusive_nodes"] = int(more.integers(1, 4))
        for task in tasks:
            if more.random() < 0.7:
                task["operator"] = str(more.choice(["o0", "o1"]))
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "topologies": topologies,
            "operators": [{"id": f"o{i}", "topology": j["id"]} for i, j in enumerate(topologies)],
            "name": f"ruled {seed}",
            "resources": ["cpu"],
            "nodes": [
                {
                    "id": node,
                    "capacity": {},
                    "rack": f"r{i % 2}",
                    **({"max_inflow": int(rng.integers(0, 3))} if rng.random() < 0.2 else {}),
                }
                for i, node in enumerate(nodes)
            ],
            "tasks": tasks,
            "sets": random_sets(rng, ids),
            "limits": limits,
        }
    )


def random_sets(rng: np.random.Generator, ids: list[str]) -> list[dict[str, Any]]:
    """Return up to three sets of any kind over nodes or racks."""
    found = []
    for number in range(int(rng.integers(0, 4))):
        size = int(rng.integers(2, min(len(ids), 4) + 1))
        rule = str(rng.choice(["apart", "together", "spread"]))
        entry: dict[str, Any] = {
            "id": f"s{number}",
            "tasks": sorted(rng.choice(ids, size, replace=False).tolist()),
            "rule": rule,
            "over": str(rng.choice(["node", "rack"])),
        }
        if rule == "apart" and rng.random() < 0.5:
            entry["at_most"] = int(rng.integers(1, 3))
        if rule == "spread":
            entry["at_least"] = 2
        found.append(entry)
    return found
