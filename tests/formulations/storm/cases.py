"""Random small clusters of Storm's kind, and brute force over every placement into slots."""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.format.instance import Instance

if TYPE_CHECKING:
    from collections.abc import Iterator

    Parts = list[tuple[int, ...]]


def random_cluster(
    seed: int, *, slot_capacity: bool = False, current: bool = False, near: bool = False
) -> Instance:
    """Return a cluster of up to 4 nodes and 7 executors, with any of Storm's rules.

    All its traffic is in streams where some are `local_first`, with `near`.
    """
    rng = np.random.default_rng(seed)
    resources = ["cpu", "mem"][: int(rng.integers(1, 3))]
    nodes = _nodes(rng, resources, slot_capacity)
    operators, topologies = _operators(rng, resources)
    limits: dict[str, Any] = {}
    if rng.random() < 0.25:
        limits["max_tasks_per_slot"] = int(rng.integers(1, 5))
    if rng.random() < 0.15:
        limits["max_utilisation"] = {"cpu": 0.75}
    document: dict[str, Any] = {
        "format": "streamplace.instance/1",
        "name": f"storm-{seed}",
        "resources": resources,
        "nodes": nodes,
        "topologies": topologies,
        "operators": operators,
        **(_shuffled(rng, operators) if near else _traffic(rng, operators)),
        "tasks": _tasks(rng, operators, nodes, current),
        "limits": limits,
    }
    return Instance.from_dict(document)


def _operators(
    rng: np.random.Generator, resources: list[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return components of up to 3 topologies, or of none; with and without workers."""
    topologies: list[dict[str, Any]] = [{"id": f"t{i}"} for i in range(int(rng.integers(0, 4)))]
    operators: list[dict[str, Any]] = []
    for topology in topologies or [None]:  # type: ignore[list-item]
        if topology is not None and rng.random() < 0.6:
            topology["workers"] = int(rng.integers(1, 5))
        for _ in range(int(rng.integers(1, 4 - len(topologies) // 2))):
            count = int(rng.integers(1, 4))
            load = {r: round(float(rng.integers(1, 6)) * count, 3) for r in resources}
            operator = {"id": f"o{len(operators)}", "group": {"tasks": count, "load": load}}
            operators.append(
                operator if topology is None else operator | {"topology": topology["id"]}
            )
    while sum(o["group"]["tasks"] for o in operators) > 7:
        largest = max(operators, key=lambda o: o["group"]["tasks"])
        largest["group"]["tasks"] -= 1
    return operators, topologies


def _nodes(
    rng: np.random.Generator, resources: list[str], slot_capacity: bool
) -> list[dict[str, Any]]:
    count = int(rng.integers(1, 5))
    same, silent = rng.random() < 0.5, rng.random() < 0.25
    nodes = []
    for i in range(count):
        node: dict[str, Any] = {"id": f"n{i}"}
        node["capacity"] = {r: float(rng.integers(6, 34)) for r in resources}
        if not silent and rng.random() < 0.9:
            node["slots"] = int(rng.integers(0 if i else 1, 4))
        if not same and rng.random() < 0.15:
            node["min_load"] = {"cpu": float(rng.integers(1, 4))}
        if not same and rng.random() < 0.15:
            node["background"] = {"cpu": 2.0}
        if slot_capacity and rng.random() < 0.8:
            node["slot_capacity"] = {"cpu": float(rng.integers(4, 14))}
        nodes.append({**nodes[0], "id": f"n{i}"} if same and i else node)
    if count > 1 and rng.random() < 0.15:
        nodes[-1]["leaving"] = True
        nodes[-1].pop("min_load", None)
    return nodes


def _traffic(rng: np.random.Generator, operators: list[dict[str, Any]]) -> dict[str, Any]:
    """Give full streams, which leave executors alike, or single pairs, few or many."""
    ends = [
        (a, b)
        for a, b in itertools.combinations(operators, 2)
        if rng.random() < 0.8 and a.get("topology") == b.get("topology")
    ]
    if rng.random() < 0.4:
        streams = [
            {"from": a["id"], "to": b["id"], "rate": float(rng.integers(1, 30))} for a, b in ends
        ]
        return {"streams": streams}
    ids = [f"{o['id']}/{i}" for o in operators for i in range(o["group"]["tasks"])]
    share = rng.choice([0.1, 0.4, 0.8])
    pairs = itertools.combinations(ids, 2)
    return {
        "traffic": [[a, b, float(rng.integers(1, 30))] for a, b in pairs if rng.random() < share]
    }


def _shuffled(rng: np.random.Generator, operators: list[dict[str, Any]]) -> dict[str, Any]:
    """Give streams of which most are `local_first`, across topologies too, and some huge."""
    streams: list[dict[str, Any]] = []
    for a, b in itertools.permutations(operators, 2):
        if rng.random() < 0.35:
            rate = float(rng.choice([1, 7, 12.5, 30, 5000]))
            streams.append({"from": a["id"], "to": b["id"], "rate": rate})
            if rng.random() < 0.8:
                streams[-1]["pattern"] = "local_first"
                weights = rng.integers(0, 4, a["group"]["tasks"]).tolist()
                if any(weights) and rng.random() < 0.5:
                    streams[-1]["sender_weights"] = weights
    return {"streams": streams}


def _tasks(
    rng: np.random.Generator,
    operators: list[dict[str, Any]],
    nodes: list[dict[str, Any]],
    current: bool,
) -> list[dict[str, Any]]:
    ids = [node["id"] for node in nodes]
    tasks: dict[str, dict[str, Any]] = {}
    if current:
        all_tasks = [f"{o['id']}/{i}" for o in operators for i in range(o["group"]["tasks"])]
        tasks = {t: {"id": t, "node": str(rng.choice(ids))} for t in all_tasks}
    if rng.random() < 0.3:
        task = f"{operators[int(rng.integers(len(operators)))]['id']}/0"
        chosen = rng.choice(ids, int(rng.integers(1, len(ids) + 1)), replace=False)
        tasks.setdefault(task, {"id": task})["allowed"] = sorted(chosen.tolist())
    return list(tasks.values())


def brute_force(instance: Instance) -> tuple[float, float] | None:
    """Return least traffic between nodes, and between slots among those; ``None`` if nothing fits.

    Every placement on nodes, and there every split into slots, is tried by the rules as the format
    states them. Nodes that leave are to be empty.
    """
    split = cache(lambda n, tasks: _splits(instance, n, tasks))
    total = instance.total_traffic
    best: tuple[float, float] | None = None
    stay = np.flatnonzero(~instance.nodes.leaving).tolist()
    where = [[n for n in stay if instance.allowed_mask(t)[n]] for t in range(instance.num_tasks)]
    for node in itertools.product(*where):
        between = total - _gain(instance, np.array(node))
        if best is not None and between > best[0] + 1e-9:
            continue
        if not _loads_fit(instance, np.array(node)):
            continue
        sums: dict[tuple[int, ...], float] = {(0,) * len(instance.topologies.ids): 0.0}
        for n in range(instance.num_nodes):
            ways = split(n, tuple(t for t, at in enumerate(node) if at == n))
            more: dict[tuple[int, ...], float] = {}
            for (held, gain), (used, own) in itertools.product(sums.items(), ways.items()):
                key = tuple(a + b for a, b in zip(held, used, strict=True))
                more[key] = max(more.get(key, -1.0), gain + own)
            sums = more
        gains = [gain for used, gain in sums.items() if _workers_fit(instance, used)]
        if gains:
            found = (between, total - max(gains))
            same = best is not None and abs(between - best[0]) <= 1e-9
            best = (found[0], min(found[1], best[1])) if same and best is not None else found
    return best


def _splits(instance: Instance, n: int, tasks: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """Return, for each way to use so many slots a topology, the most traffic inside the slots."""
    topology = _topology(instance)
    most = int(instance.nodes.slots[n])
    found: dict[tuple[int, ...], float] = {}
    for parts in _partitions(tasks):
        if 0 <= most < len(parts) or not all(_slot_fits(instance, n, part) for part in parts):
            continue
        used = [topology[part[0]] for part in parts]
        key = tuple(used.count(p) for p in range(len(instance.topologies.ids)))
        slot = np.full(instance.num_tasks, -1)
        for s, part in enumerate(parts):
            slot[list(part)] = s
        found[key] = max(found.get(key, -1.0), _gain(instance, slot))
    return found


def _partitions(tasks: tuple[int, ...]) -> Iterator[Parts]:
    """Return all ways to part tasks into sets."""
    if not tasks:
        yield []
        return
    for parts in _partitions(tasks[1:]):
        yield [(tasks[0],), *parts]
        for i, part in enumerate(parts):
            yield [*parts[:i], (tasks[0], *part), *parts[i + 1 :]]


def _slot_fits(instance: Instance, n: int, part: tuple[int, ...]) -> bool:
    limit = instance.limits.max_tasks_per_slot
    load = instance.tasks.load[list(part)].sum(axis=0)
    topology = _topology(instance)
    return (
        (limit is None or len(part) <= limit)
        and len({topology[t] for t in part}) == 1
        and bool((load <= instance.nodes.slot_capacity[n] + 1e-6).all())
    )


def _topology(instance: Instance) -> list[int]:
    """(T,) topology of each task, -1 for none."""
    operator = instance.tasks.operator
    return [int(instance.operators.topology[o]) if o >= 0 else -1 for o in operator]


def _gain(instance: Instance, place: Any) -> float:
    """Traffic at one place: of pairs, of senders with a receiver; places below 0 are none."""
    u, v, rate = instance.pairs
    gain = float((rate * ((place[u] == place[v]) & (place[u] >= 0))).sum())
    for block in instance.flows.local:
        there = set(place[block.targets].tolist()) - {-1}
        gain += block.rate * sum(place[i] in there for i in block.sources)
    return gain


def _loads_fit(instance: Instance, node: Any) -> bool:
    table, stay = instance.nodes, ~instance.nodes.leaving
    for r in range(instance.num_resources):
        load = np.bincount(node, instance.tasks.load[:, r], instance.num_nodes)
        total = table.background[:, r] + load
        if (total > table.capacity[:, r] * instance.limits.max_utilisation[r] + 1e-6).any():
            return False
        if (stay & (total < table.min_load[:, r] - 1e-6)).any():
            return False
    return True


def _workers_fit(instance: Instance, used: tuple[int, ...]) -> bool:
    """Whether topologies that ask for a number of workers have them: exactly min(W, E)."""
    topology = _topology(instance)
    return all(
        wanted < 0 or not topology.count(p) or used[p] == min(wanted, topology.count(p))
        for p, wanted in enumerate(instance.topologies.workers.tolist())
    )
