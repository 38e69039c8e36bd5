"""Random small instances with every form of link, crossing cost and rule, and their best plans."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from optim import Instance
from optim.figures.load import without_measured
from optim.rules import broken, without_limits
from optim.rules.placement import Placement

SAME = 1e-7
WIDE = 1000
"""From this seed on with a fourth node, leaving ones, slots, single pairs, prices and so on."""
THREADS = 5000
"""From this seed on tasks, groups and operators have a ``max_load`` as well."""


def small(seed: int) -> Instance:
    """Up to six tasks on up to three nodes, or five on four."""
    rng = np.random.default_rng(seed)
    wide = seed >= WIDE and rng.random() < 0.5
    count = 4 if wide else int(rng.integers(2, 4))
    resources = ["cpu", "slot", "net"][: int(rng.integers(1, 4))]
    nodes = [_node(rng, f"n{i}", resources) for i in range(count)]
    if rng.random() < 0.5:
        nodes = [{**nodes[0], "id": node["id"], "rack": node["rack"]} for node in nodes]
    sizes = rng.integers(1, 4, size=int(rng.integers(1, 4)))
    while sizes.sum() > (5 if wide else 6):
        sizes = sizes[:-1]
    operators = [
        {"id": f"o{k}", "group": {"tasks": int(n), "load": _loads(rng, resources, int(n))}}
        for k, n in enumerate(sizes)
    ]
    names = [f"o{k}/{i}" for k, n in enumerate(sizes) for i in range(int(n))]
    document: dict[str, Any] = {
        "format": "streamplace.instance/1",
        "name": f"small-{seed}",
        "resources": resources,
        "nodes": nodes,
        "operators": operators,
        "streams": [
            {
                "from": f"o{a}",
                "to": f"o{b}",
                "rate": float(rng.integers(1, 9)),
                "pattern": str(rng.choice(["full", "full", "rescale"])),
            }
            for a, b in itertools.permutations(range(len(sizes)), 2)
            if rng.random() < 0.6
        ],
    }
    if rng.random() < 0.3:
        document["rate_driven"] = [r for r in resources if r != "slot" and rng.random() < 0.7]
        document["rate_driven"] = document["rate_driven"] or ["cpu"]
    if rng.random() < 0.8:
        document["links"] = [_link(rng, i, count) for i in range(int(rng.integers(1, 5)))]
    if rng.random() < 0.5:
        document["crossing_cost"] = {
            str(r): {"out": float(rng.random()), "in": float(rng.random())}
            for r in resources
            if rng.random() < 0.7
        }
    _add_rules(rng, document, names, count)
    if seed >= WIDE:
        _add_more(rng, document, names)
    if seed >= THREADS:
        _add_threads(rng, document)
    return Instance.from_dict(document)


def _node(rng: Any, name: str, resources: list[str]) -> dict[str, Any]:
    capacity = {"cpu": float(rng.integers(4, 20))}
    if "slot" in resources:
        capacity["slot"] = float(rng.integers(2, 6))
    if "net" in resources and rng.random() < 0.7:
        capacity["net"] = float(rng.integers(2, 9))
    node: dict[str, Any] = {"id": name, "capacity": capacity, "rack": f"r{rng.integers(0, 2)}"}
    if rng.random() < 0.3:
        node["background"] = {"cpu": float(rng.integers(0, 6))}
    if rng.random() < 0.15:
        node["min_load"] = {"cpu": float(rng.integers(1, 4))}
    if rng.random() < 0.15:
        node["max_tasks"] = int(rng.integers(1, 5))
    return node


def _loads(rng: Any, resources: list[str], tasks: int) -> dict[str, float]:
    load = {"cpu": float(rng.integers(1, 5)) * tasks}
    if "slot" in resources:
        load["slot"] = float(tasks)
    if "net" in resources:
        load["net"] = float(rng.integers(0, 3)) * tasks
    return load


def _link(rng: Any, i: int, count: int) -> dict[str, Any]:
    size = int(rng.integers(1, count + 1))
    members = sorted(rng.choice(count, size=size, replace=False).tolist())
    return {
        "id": f"l{i}",
        "nodes": [f"n{n}" for n in members],
        "capacity": float(rng.integers(1, 12)),
        "background": float(rng.integers(0, 2)),
        "direction": str(rng.choice(["both", "out", "in"])),
    }


def _add_rules(rng: Any, document: dict[str, Any], names: list[str], count: int) -> None:
    tasks: dict[str, dict[str, Any]] = {}
    if rng.random() < 0.5:
        for name in names:
            tasks[name] = {"id": name, "node": f"n{rng.integers(0, count)}"}
            if rng.random() < 0.15:
                tasks[name]["copies"] = [f"n{rng.integers(0, count)}"]
        limits: dict[str, Any] = {}
        if rng.random() < 0.3:
            limits["max_migrations"] = int(rng.integers(0, 5))
        if rng.random() < 0.2:
            limits["max_migration_cost"] = float(rng.integers(0, 6))
        if rng.random() < 0.2:
            limits["max_inflow"] = int(rng.integers(0, 3))
        document["limits"] = limits
    if rng.random() < 0.2:
        name = str(rng.choice(names))
        tasks.setdefault(name, {"id": name})["allowed"] = [f"n{rng.integers(0, count)}"]
    document["tasks"] = list(tasks.values())
    if rng.random() < 0.25:
        rule = str(rng.choice(["apart", "together", "spread"]))
        some = rng.choice(names, size=min(len(names), int(rng.integers(1, 4))), replace=False)
        new: dict[str, Any] = {"id": "s", "rule": rule, "tasks": sorted(some.tolist())}
        new["over"] = str(rng.choice(["node", "rack"]))
        if rule == "spread":
            new["at_least"] = int(rng.integers(1, 3))
        document["sets"] = [new]
    if rng.random() < 0.15:
        document.setdefault("limits", {})["max_utilisation"] = {"cpu": 0.9, "links": 0.8}


def _add_more(rng: Any, document: dict[str, Any], names: list[str]) -> None:
    """Leaving nodes, slots that count tasks, too much background, prices, single pairs."""
    for node in document["nodes"]:
        if rng.random() < 0.1:
            node["leaving"] = True
        if rng.random() < 0.2:
            node["slots"] = int(rng.integers(1, 3))
        if rng.random() < 0.1:
            node["max_inflow"] = int(rng.integers(0, 3))
        if rng.random() < 0.05:
            node["background"] = {"cpu": 25.0}
    if rng.random() < 0.3:
        document["limits"] = {**document.get("limits", {}), "max_tasks_per_slot": 2}
    for task in document["tasks"]:
        if rng.random() < 0.2:
            task["migration_cost"] = float(rng.integers(0, 4))
        if rng.random() < 0.1:
            task["load"] = {"cpu": float(rng.integers(0, 6))}
    if rng.random() < 0.3 and len(names) > 1:
        u, v = rng.choice(len(names), size=2, replace=False).tolist()
        document["traffic"] = [[names[u], names[v], float(rng.integers(1, 6))]]


def _add_threads(rng: Any, document: dict[str, Any]) -> None:
    """What one task can use: mostly above what it needs, so that now it binds, now the nodes."""
    resources = document["resources"]

    def limits(load: dict[str, float], tasks: int) -> dict[str, float]:
        some = [r for r in resources if rng.random() < 0.7]
        above = {"slot": 1.0, "net": float(rng.choice([1.0, 1.5]))}
        each = {r: load.get(r, 0.0) / tasks for r in some}
        return {r: x * above.get(r, float(rng.uniform(0.4, 3.0))) for r, x in each.items()}

    for operator in document["operators"]:
        group = operator["group"]
        for place in (operator, group):
            if rng.random() < 0.4:
                place["max_load"] = limits(group["load"], group["tasks"])
    by_name = {operator["id"]: operator["group"] for operator in document["operators"]}
    for task in document["tasks"]:
        group = by_name[task["id"].split("/")[0]]
        if rng.random() < 0.3:
            load = {r: x / group["tasks"] for r, x in group["load"].items()}
            task["max_load"] = limits({**load, **task.get("load", {})}, 1)


def ceiling(instance: Instance, *, driven: bool) -> float:
    """Greatest rate that the fullest task carries; of resources that the rate drives, or others."""
    document, least = instance.to_dict(), np.inf
    single = {task["id"]: task for task in document.get("tasks", [])}
    names = document["resources"]
    rated = document.get("rate_driven", names[:1])
    for operator in document.get("operators", []):
        group = operator["group"]
        for i in range(group["tasks"]):
            own = single.get(f"{operator['id']}/{i}", {})
            for r in names:
                load = own.get("load", {}).get(r, group["load"].get(r, 0.0) / group["tasks"])
                for place in (own, group, operator):
                    most = place.get("max_load", {}).get(r)
                    if most is not None:
                        break
                if load > 0 and most is not None and (r in rated) == driven:
                    least = min(least, most / load)
    return least


def best_of(instance: Instance) -> tuple[float, float] | None:
    """Greatest rate (``inf`` where nothing is ever full) and, at that, least traffic; by trying.

    Of plans that empty leaving nodes where one of them carries the input, else of all.
    """
    if ceiling(instance, driven=False) < 1 - 1e-9:
        return None
    best, most = _best_of(instance, emptied=True), min(1, ceiling(instance, driven=True))
    if instance.nodes.leaving.any() and (best is None or best[0] < most - SAME):
        best = _best_of(instance, emptied=False)
    return best


def _best_of(instance: Instance, *, emptied: bool) -> tuple[float, float] | None:
    binding, best = without_limits(without_measured(instance), "max_load"), None
    most = ceiling(instance, driven=True)
    to_leave = emptied and instance.nodes.leaving.any()
    for nodes in itertools.product(range(instance.num_nodes), repeat=instance.num_tasks):
        at = np.array(nodes, dtype=np.int32)
        if to_leave and (instance.nodes.leaving[at] & instance.has_open_node).any():
            continue
        found = Placement(instance, at)
        rate = float(min(most, found.node_rates.min(), found.link_rates.min(initial=np.inf)))
        if best is not None and rate < best[0] * (1 - SAME):
            continue
        traffic = instance.total_traffic - found.gain
        if best is not None and rate <= best[0] * (1 + SAME) and traffic >= best[1]:
            continue
        if broken(Placement(binding, at)):
            continue
        if best is None or rate > best[0] * (1 + SAME):
            best = rate, traffic
        else:
            best = max(rate, best[0]), min(best[1], traffic)
    return best
