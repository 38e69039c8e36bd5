"""Random small EOA instances of every kind, and the judge: every placement there is."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from optim.format.instance import Instance
from optim.referee import Evaluation, evaluate_indices
from tests.formulations.task_allocation.cases import places
from tests.optim.make import instance


def random_document(seed: int, *, most_tasks: int = 5, most_nodes: int = 3) -> dict[str, Any]:
    """Unlike nodes, two resources, running tasks, uplinks, a rack, masks, budgets."""
    rng = np.random.default_rng(seed)
    count, tasks = int(rng.integers(2, most_nodes + 1)), int(rng.integers(2, most_tasks + 1))
    resources = ["cpu", "mem"][: int(rng.integers(1, 3))]
    loads = rng.integers(1, 6, (tasks, len(resources))).astype(float)
    if rng.random() < 0.4:
        loads[:] = loads[0]  # tasks that can be exchanged
    names = [f"n{i}" for i in range(count)]
    document: dict[str, Any] = {
        "format": "streamplace.instance/1",
        "name": f"eoa-{seed}",
        "resources": resources,
        "nodes": _nodes(rng, names, resources, loads.sum(axis=0)),
        "tasks": [
            {"id": f"t{i}", "load": dict(zip(resources, row.tolist(), strict=True))}
            for i, row in enumerate(loads)
        ],
        "traffic": _traffic(rng, tasks),
    }
    for entry in document["tasks"]:
        if rng.random() < 0.2:
            picked = rng.choice(count, int(rng.integers(1, count + 1)), replace=False)
            entry["allowed"] = [names[n] for n in np.sort(picked)]
    if rng.random() < 0.3:
        for entry in document["tasks"]:
            entry["node"] = str(rng.choice(entry.get("allowed", names)))
        document["limits"] = {"max_migrations": int(rng.integers(0, tasks + 1))}
    total = sum(rate for _, _, rate in document["traffic"])
    if rng.random() < 0.6:
        document["links"] = [
            {
                "id": f"up-{name}",
                "nodes": [name],
                "capacity": float(np.ceil(total * rng.uniform(0.2, 1.2))),
                "background": float(rng.integers(0, 3)),
            }
            for name in names
        ]
        if count > 2:
            shared = {"id": "rack", "nodes": names[:2], "capacity": float(np.ceil(total * 0.5))}
            document["links"].append(shared)
    return document


def _nodes(
    rng: np.random.Generator, names: list[str], resources: list[str], total: Any
) -> list[dict[str, Any]]:
    same, leaving = rng.random() < 0.5, rng.random() < 0.15
    slack = float(rng.choice([0.7, 1.0, 1.5, 2.5]))
    nodes: list[dict[str, Any]] = []
    for name in names:
        node: dict[str, Any] = {"id": name, "capacity": {}}
        for r, resource in enumerate(resources):
            spread = 1.0 if same else float(rng.uniform(0.6, 1.4))
            node["capacity"][resource] = float(np.ceil(slack * spread * total[r] / len(names)) + 1)
        if rng.random() < 0.4:
            node["background"] = {"cpu": float(rng.integers(0, 3))}
        nodes.append(node)
    if leaving:
        nodes[-1]["leaving"] = True
    if rng.random() < 0.15:
        nodes[0]["min_load"] = {"cpu": 2.0}
    return nodes


def _traffic(rng: np.random.Generator, tasks: int) -> list[list[Any]]:
    pairs = [p for p in itertools.combinations(range(tasks), 2) if rng.random() < 0.6]
    if rng.random() < 0.3:
        return [[f"t{u}", f"t{v}", 2.0] for u, v in pairs]
    return [[f"t{u}", f"t{v}", float(rng.integers(1, 9))] for u, v in pairs]


def random_instance(seed: int, **sizes: int) -> Instance:
    """Return the instance of `random_document`."""
    return Instance.from_dict(random_document(seed, **sizes))


def ruled_instance(seed: int) -> Instance:
    """Return one with sets, inflow, copies and directed links, all that the sets of a node see."""
    document, rng = random_document(seed), np.random.default_rng(seed + 1)
    tasks, nodes = document["tasks"], document["nodes"]
    names = [node["id"] for node in nodes]
    for i, node in enumerate(nodes):
        node["rack"] = f"r{i // 2}"
    for link in document.get("links", []):
        link["direction"] = str(rng.choice(["both", "out", "in"]))
    kinds = [("apart", "node"), ("apart", "rack"), ("together", "node"), ("spread", "node")]
    document["sets"] = []
    for i, (rule, over) in enumerate(kinds):
        if rng.random() < 0.25:
            size = int(rng.integers(2, len(tasks) + 1))
            some = np.sort(rng.choice(len(tasks), size, replace=False)).tolist()
            new: dict[str, Any] = {"id": f"s{i}", "rule": rule, "over": over}
            if rule == "spread":
                new["at_least"] = 2
            document["sets"].append({**new, "tasks": [tasks[t]["id"] for t in some]})
    if rng.random() < 0.6:
        document.setdefault("limits", {})["max_inflow"] = int(rng.integers(0, 3))
        for task in tasks:
            task.setdefault("node", str(rng.choice(task.get("allowed", names))))
            if rng.random() < 0.4:
                task["copies"] = [str(rng.choice(names))]
    return Instance.from_dict(document)


def feasible(made: Instance, *, left: bool = False) -> list[Evaluation]:
    """Judge every placement onto nodes that tasks may use; return the feasible ones.

    With `left` onto leaving nodes as well.
    """
    allowed = made.allowed_mask if left else lambda t: places(made, t)
    choices = [np.flatnonzero(allowed(t)) for t in range(made.num_tasks)]
    found = []
    for node in itertools.product(*choices):
        judged = evaluate_indices(made, np.array(node, dtype=np.int32))
        if judged.feasible:
            found.append(judged)
    return found


def best(found: list[Evaluation], objective: str) -> tuple[float, ...]:
    """Return the best values of an objective's levels."""
    if objective == "utilisation":
        return min((_value(e, "used_capacity"), _value(e, "internode_traffic")) for e in found)
    name = "cpu_deviation" if objective == "deviation" else "mean_absolute_deviation"
    return (min(_value(e, name) for e in found),)


def _value(judged: Evaluation, name: str) -> float:
    value = judged.objective(name)
    assert value is not None
    return round(value, 9)


LEAST_BESIDE_LARGE_TASKS = (3 / 2.4 - 8 / 12) / 2
"""Its least mean deviation: a switches to n1, and c moves there: shares of 8/12 and 3/2.4."""


def beside_large_tasks() -> Instance:
    """Two tasks of 5e12 on a leaving node, which fit no other."""
    tasks = [
        {"id": "a", "load": {"cpu": 6}, "node": "n3", "copies": ["n1", "n3"]},
        {"id": "b", "load": {"cpu": 6}, "node": "n3"},
        {"id": "c", "load": {"cpu": 2}, "node": "n2", "copies": ["n3", "n2"], "state": 2},
        *({"id": f"large{k}", "load": {"cpu": 5e12}, "node": "n3"} for k in range(2)),
    ]
    nodes = [
        {"id": "n1", "capacity": {"cpu": 12}},
        {"id": "n2", "capacity": {"cpu": 2.4}, "background": {"cpu": 3}},
        {"id": "n3", "capacity": {"cpu": 9.6}, "leaving": True},
    ]
    return instance(
        nodes=nodes, operators=[], streams=[], tasks=tasks, limits={"max_migrations": 1}
    )
