"""Random small instances of task allocation, of every kind the exact models take."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from optim.format.instance import Instance


def random_document(seed: int, *, most_tasks: int = 8, most_nodes: int = 4) -> dict[str, Any]:
    """Return a random document: unlike capacities, two resources, floors, masks, leaving nodes."""
    rng = np.random.default_rng(seed)
    resources = ["cpu", "mem"][: int(rng.integers(1, 3))]
    operators, sizes = _operators(rng, resources, most_tasks)
    tasks = [f"o{o}/{i}" for o, size in enumerate(sizes) for i in range(size)]
    nodes = _nodes(rng, resources, operators, int(rng.integers(1, most_nodes + 1)))
    document: dict[str, Any] = {
        "format": "streamplace.instance/1",
        "name": f"random-{seed}",
        "resources": resources,
        "nodes": nodes,
        "operators": operators,
        "streams": _streams(rng, sizes),
        "tasks": _tasks(rng, tasks, nodes),
    }
    if rng.random() < 0.4 and len(tasks) > 1:
        document["traffic"] = _traffic(rng, tasks)
        document["streams"] = []
    return document


def _operators(
    rng: np.random.Generator, resources: list[str], most_tasks: int
) -> tuple[list[dict[str, Any]], list[int]]:
    sizes = []
    while sum(sizes) < most_tasks and (len(sizes) < 2 or rng.random() < 0.7):
        sizes.append(int(min(rng.integers(1, 5), most_tasks - sum(sizes))))
    operators = []
    for o, size in enumerate(sizes):
        load = {r: float(rng.integers(0, 7)) * size for r in resources}
        operators.append({"id": f"o{o}", "group": {"tasks": size, "load": load}})
    return operators, sizes


def _nodes(
    rng: np.random.Generator, resources: list[str], operators: list[Any], count: int
) -> list[dict[str, Any]]:
    total = {r: sum(o["group"]["load"][r] for o in operators) for r in resources}
    alike = rng.random() < 0.5
    nodes = []
    for n in range(count):
        node: dict[str, Any] = {"id": f"n{n}", "capacity": {}}
        for r in resources:
            slack = float(rng.choice([1.0, 1.2, 1.5, 2.0]))
            spread = 1.0 if alike else float(rng.uniform(0.6, 1.4))
            node["capacity"][r] = float(np.ceil(slack * spread * total[r] / count))
        nodes.append(dict(nodes[0], id=f"n{n}") if alike and nodes else node)
    if rng.random() < 0.3:
        for node in nodes:
            node["min_load"] = {"cpu": float(rng.integers(0, 4))}
    if rng.random() < 0.2:
        nodes[0]["background"] = {"cpu": float(rng.integers(0, 3))}
    if count > 1 and rng.random() < 0.2:
        nodes[-1]["leaving"] = True
    return nodes


def _streams(rng: np.random.Generator, sizes: list[int]) -> list[dict[str, Any]]:
    streams = []
    for a in range(len(sizes)):
        for b in range(a + 1, len(sizes)):
            if rng.random() < 0.6:
                patterns = ["full", "rescale", "merge"]
                patterns += ["one_to_one"] if sizes[a] == sizes[b] else []
                streams.append(
                    {
                        "from": f"o{a}",
                        "to": f"o{b}",
                        "rate": float(rng.integers(1, 30)),
                        "pattern": str(rng.choice(patterns)),
                    }
                )
    return streams


def _tasks(
    rng: np.random.Generator, tasks: list[str], nodes: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    entries = []
    restrict, placed = rng.random() < 0.3, rng.random() < 0.3
    staying = [node["id"] for node in nodes if not node.get("leaving")]
    for task in tasks:
        entry: dict[str, Any] = {"id": task}
        if restrict and rng.random() < 0.4:
            count = int(rng.integers(1, len(nodes) + 1))
            pick = sorted(rng.choice(len(nodes), count, replace=False).tolist())
            entry["allowed"] = [nodes[n]["id"] for n in pick]
        if placed:
            entry["node"] = staying[int(rng.integers(len(staying)))]
        if len(entry) > 1:
            entries.append(entry)
    return entries


def _traffic(rng: np.random.Generator, tasks: list[str]) -> list[list[Any]]:
    pairs = {}
    for _ in range(int(rng.integers(1, 2 * len(tasks)))):
        u, v = rng.choice(len(tasks), 2, replace=False)
        pairs[(tasks[u], tasks[v])] = float(rng.integers(1, 9))
    return [[u, v, rate] for (u, v), rate in sorted(pairs.items())]


def places(made: Instance, t: int) -> np.ndarray:
    """Return the staying nodes a task may use, or all of its nodes when none of them stays."""
    allowed = made.allowed_mask(t)
    staying = allowed & made.open_nodes
    return staying if staying.any() else allowed


def random_instance(seed: int, **sizes: int) -> Instance:
    """Return the instance of `random_document`."""
    return Instance.from_dict(random_document(seed, **sizes))


seeds = st.integers(min_value=0, max_value=2**32 - 1)
"""Seeds of random instances."""
