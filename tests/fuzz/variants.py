"""The same instance said otherwise: other ids and order, other units."""

from __future__ import annotations

import copy
import decimal
import random
from collections.abc import Callable
from typing import Any

from tests.fuzz.reading import Document, Reading


def permuted(document: Document, seed: int) -> Document:
    """Return the instance with other ids, its tables in another order."""
    rng, new = random.Random(seed), copy.deepcopy(document)
    names = {key: _renamed(rng, new.get(key, []), key[0]) for key in _TABLES}
    node, operator = names["nodes"], names["operators"]

    def task(name: str) -> str:
        head, _, number = name.rpartition("/")
        return f"{operator[head]}/{number}" if head in operator else f"z-{name}"

    for item in new.get("operators", []):
        if item.get("topology"):
            item["topology"] = names["topologies"][item["topology"]]
        if item.get("group", {}).get("allowed"):
            item["group"]["allowed"] = [node[n] for n in item["group"]["allowed"]]
    for item in new.get("tasks", []):
        item["id"] = task(item["id"])
        for key, table in (("node", node), ("operator", operator)):
            if item.get(key):
                item[key] = table[item[key]]
        for key in ("allowed", "copies"):
            if item.get(key):
                item[key] = [node[n] for n in item[key]]
    for item in new.get("streams", []):
        item["from"], item["to"] = operator[item["from"]], operator[item["to"]]
    for item in new.get("links", []):
        item["nodes"] = [node[n] for n in item["nodes"]]
    for item in new.get("sets", []):
        if item.get("operator"):
            item["operator"] = operator[item["operator"]]
        if item.get("tasks"):
            item["tasks"] = [task(t) for t in item["tasks"]]
    if "traffic" in new:
        new["traffic"] = [[task(u), task(v), rate] for u, v, rate in new["traffic"]]
    # patterns other than `full` go by the order of an operator's tasks
    patterns = {s.get("pattern", "full") for s in new.get("streams", [])}
    for key in ("nodes", "operators", "tasks", "streams", "traffic", "links", "sets"):
        if key in new and (key != "tasks" or patterns <= {"full"}):
            rng.shuffle(new[key])
    return new


_TABLES = ("nodes", "operators", "topologies")


def _renamed(rng: random.Random, items: list[dict[str, Any]], letter: str) -> dict[str, str]:
    """Give every item a new id, and return what each is called now."""
    ids = [x["id"] for x in items]
    new = [f"{letter}-{i}" for i in range(len(ids))]
    rng.shuffle(new)
    table = dict(zip(ids, new, strict=True))
    for item in items:
        item["id"] = table[item["id"]]
    return table


def in_units(document: Document, loads: int, rates: int, costs: int) -> Document:
    """Return the instance with loads, rates and migration costs × 10^k, the decimal point moved.

    Costs that the file leaves out are 1 each, and are written out first.
    """
    new = copy.deepcopy(document)
    by_load, by_rate, by_cost = (_moved(k) for k in (loads, rates, costs))
    if costs:
        _write_costs(new)
    groups = [o["group"] for o in new.get("operators", []) if "group" in o]
    tasks, nodes = new.get("tasks", []), new.get("nodes", [])
    for part in [*nodes, *tasks, *groups, *new.get("operators", [])]:
        for key in ("capacity", "background", "min_load", "slot_capacity", "load", "max_load"):
            if key in part:
                part[key] = {r: by_load(v) for r, v in part[key].items()}
    for part in [*tasks, *groups]:
        _apply(part, by_cost, "state", "migration_cost")
    limits = new.get("limits", {})
    _apply(limits, by_load, "max_load_distance")
    _apply(limits, by_cost, "max_migration_cost", "max_migration_state")
    for item in new.get("streams", []):
        _apply(item, by_rate, "rate", "tuple_bytes")
    for item in new.get("operators", []):
        _apply(item, by_load, "cpu_per_tuple")
    for item in new.get("links", []):
        _apply(item, by_rate, "capacity", "background")
    if "traffic" in new:
        new["traffic"] = [[u, v, by_rate(rate)] for u, v, rate in new["traffic"]]
    for table in (new.get("crossing_cost") or {}).values():
        _apply(table, _moved(loads - rates), "out", "in")
    return new


def _write_costs(document: Document) -> None:
    own = {t["id"]: t for t in document.get("tasks", [])}
    for name, task in Reading(document).tasks.items():
        if task.get("state") is None and task.get("migration_cost") is None:
            if name not in own:
                document.setdefault("tasks", []).append({"id": name})
                own[name] = document["tasks"][-1]
            own[name]["migration_cost"] = 1


def _moved(k: int) -> Callable[[float], float]:
    return lambda value: float(decimal.Decimal(repr(value)).scaleb(k))


def _apply(part: dict[str, Any], change: Callable[[float], float], *keys: str) -> None:
    for key in keys:
        if part.get(key) is not None:
            part[key] = change(part[key])


def factor(name: str | None, loads: int, rates: int, costs: int) -> float:
    """Return by what an objective grows when the units change."""
    exponents = {
        "load_distance": loads, "imc_gain": rates, "internode_traffic": rates,
        "interslot_traffic": rates, "migration_cost": costs,
    }  # fmt: skip
    return 10.0 ** exponents.get(str(name), 0)
