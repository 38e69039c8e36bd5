"""Random small clusters of Storm's kind, and brute force over every placement into slots."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from optim.instance import Instance


def random_cluster(seed: int, *, slot_capacity: bool = False) -> Instance:
    """Return a cluster of up to 3 nodes with up to 5 slots in all, and up to 7 executors."""
    rng = np.random.default_rng(seed)
    resources = ["cpu", "mem"][: int(rng.integers(1, 3))]
    nodes = _nodes(rng, resources, slot_capacity)
    topologies = [{"id": "t0"}, {"id": "t1"}][: int(rng.integers(1, 3))]
    operators: list[dict[str, Any]] = []
    for topology in topologies:
        if rng.random() < 0.9:
            topology["workers"] = int(rng.integers(1, 4))
        for _ in range(int(rng.integers(1, 4 - len(topologies) // 2))):
            count = int(rng.integers(1, 4))
            load = {r: round(float(rng.integers(1, 6)) * count, 3) for r in resources}
            operators.append(
                {
                    "id": f"o{len(operators)}",
                    "topology": topology["id"],
                    "group": {"tasks": count, "load": load},
                }
            )
    while sum(o["group"]["tasks"] for o in operators) > 7:
        largest = max(operators, key=lambda o: o["group"]["tasks"])
        largest["group"]["tasks"] -= 1
    document: dict[str, Any] = {
        "format": "streamplace.instance/1",
        "name": f"storm-{seed}",
        "resources": resources,
        "nodes": nodes,
        "topologies": topologies,
        "operators": operators,
        **_traffic(rng, operators),
        "tasks": _tasks(rng, operators, nodes),
        "limits": {"max_tasks_per_slot": int(rng.integers(1, 5))} if rng.random() < 0.25 else {},
    }
    return Instance.from_dict(document)


def _nodes(
    rng: np.random.Generator, resources: list[str], slot_capacity: bool
) -> list[dict[str, Any]]:
    count = int(rng.integers(1, 4))
    same = rng.random() < 0.5
    nodes, room = [], 5
    for i in range(count):
        node: dict[str, Any] = {"id": f"n{i}"}
        node["capacity"] = {r: float(rng.integers(12, 40)) for r in resources}
        node["slots"] = int(rng.integers(0 if i else 1, 4))
        if same and i:
            node = {**nodes[0], "id": f"n{i}"}
        node["slots"] = min(node["slots"], room)
        room -= node["slots"]
        if not same and rng.random() < 0.15:
            node["min_load"] = {"cpu": float(rng.integers(1, 4))}
        if not same and rng.random() < 0.15:
            node["background"] = {"cpu": 2.0}
        if slot_capacity and rng.random() < 0.8:
            node["slot_capacity"] = {"cpu": float(rng.integers(4, 14))}
        nodes.append(node)
    if count > 1 and not same and rng.random() < 0.15:
        nodes[-1]["leaving"] = True
        nodes[-1].pop("min_load", None)
    return nodes


def _traffic(rng: np.random.Generator, operators: list[dict[str, Any]]) -> dict[str, Any]:
    """Give full streams, which leave executors alike, or single pairs."""
    ends = [
        (a, b)
        for a, b in itertools.combinations(operators, 2)
        if rng.random() < 0.8 and a["topology"] == b["topology"]
    ]
    if rng.random() < 0.5:
        streams = [
            {"from": a["id"], "to": b["id"], "rate": float(rng.integers(1, 30))} for a, b in ends
        ]
        return {"streams": streams}
    pairs = [
        [f"{a['id']}/{i}", f"{b['id']}/{j}", float(rng.integers(1, 30))]
        for a, b in ends
        for i in range(a["group"]["tasks"])
        for j in range(b["group"]["tasks"])
        if rng.random() < 0.8
    ]
    return {"traffic": pairs}


def _tasks(
    rng: np.random.Generator, operators: list[dict[str, Any]], nodes: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    if rng.random() < 0.7:
        return []
    o = operators[int(rng.integers(len(operators)))]
    ids = [node["id"] for node in nodes]
    chosen = sorted(rng.choice(ids, int(rng.integers(1, len(ids) + 1)), replace=False).tolist())
    return [{"id": f"{o['id']}/0", "allowed": chosen}]


def brute_force(instance: Instance) -> tuple[float, float] | None:
    """Return least traffic between nodes, and between slots among those; ``None`` if nothing fits.

    Every placement into every slot is tried by the rules as the format states them.
    """
    slots = np.where(instance.nodes.leaving, 0, instance.nodes.slots)
    at = np.repeat(np.arange(instance.num_nodes), slots)
    count = instance.num_tasks
    if not len(at):
        return None
    grids = np.meshgrid(*[np.arange(len(at))] * count, indexing="ij")
    place = np.stack([grid.ravel() for grid in grids], axis=1)
    node = at[place]
    fits = np.ones(len(place), dtype=np.bool_)
    for t in range(count):
        fits &= instance.allowed_mask(t)[node[:, t]]
    place, node = place[fits], node[fits]
    keep = _loads_fit(instance, place, node, at) & _workers_fit(instance, place, len(at))
    if not keep.any():
        return None
    place, node = place[keep], node[keep]
    u, v, rate = instance.pairs
    between = (rate * (node[:, u] != node[:, v])).sum(axis=1)
    slots_between = (rate * (place[:, u] != place[:, v])).sum(axis=1)
    best = between.min()
    return float(best), float(slots_between[between <= best + 1e-9].min())


def _loads_fit(instance: Instance, place: Any, node: Any, at: Any) -> Any:
    fits = np.ones(len(place), dtype=np.bool_)
    table, stay = instance.nodes, ~instance.nodes.leaving
    for r in range(instance.num_resources):
        load = instance.tasks.load[:, r]
        for n in range(instance.num_nodes):
            total = table.background[n, r] + ((node == n) * load).sum(axis=1)
            fits &= total <= table.capacity[n, r] * instance.limits.max_utilisation[r] + 1e-6
            if stay[n]:
                fits &= total >= table.min_load[n, r] - 1e-6
        for s, n in enumerate(at):
            fits &= ((place == s) * load).sum(axis=1) <= table.slot_capacity[n, r] + 1e-6
    return fits


def _workers_fit(instance: Instance, place: Any, num_places: int) -> Any:
    fits = np.ones(len(place), dtype=np.bool_)
    topology = instance.operators.topology[instance.tasks.operator]
    shared = np.zeros((len(place), num_places), dtype=np.int64)
    limit = instance.limits.max_tasks_per_slot
    for p in range(len(instance.topologies.ids)):
        own = np.flatnonzero(topology == p)
        if not len(own):
            continue
        used = np.stack([(place[:, own] == s).any(axis=1) for s in range(num_places)], axis=1)
        wanted = int(instance.topologies.workers[p])
        if wanted < 0:
            wanted = int((~instance.nodes.leaving & (instance.nodes.slots > 0)).sum())
        fits &= used.sum(axis=1) == min(wanted, len(own))
        shared += used
    fits &= (shared <= 1).all(axis=1)
    if limit is not None:
        held = np.stack([(place == s).sum(axis=1) for s in range(num_places)], axis=1)
        fits &= (held <= limit).all(axis=1)
    return fits
