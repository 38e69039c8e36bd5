"""Changes of an instance that try the tolerance of rows.

A huge number somewhere in a file must change no verdict about rows in which it is not; a row that
is exceeded by a hair more than the tolerance is violated.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.fuzz.figures import measure
from tests.fuzz.generate import Draw, entry
from tests.fuzz.reading import Document, Reading

#: counts, and what is no load, rate, cost or weight: huge ones are another question
_COUNTS = frozenset({
    "tasks", "slot", "slots", "workers", "max_tasks", "max_inflow", "max_migrations", "at_most",
    "at_least", "max_tasks_per_slot", "max_nodes_used", "max_utilisation", "key_groups",
    "min_parallelism", "max_parallelism", "max_workers_restarted", "exclusive_nodes",
})  # fmt: skip


def with_huge(document: Document, seed: int) -> Document | None:
    """Return the document with one of its numbers replaced; ``None`` where it has none."""
    draw, new = Draw(seed), copy.deepcopy(document)
    places = list(_numbers(new))
    if not places:
        return None
    part, key = draw.choice(places)
    part[key] = draw.choice([1.0, draw.uniform(1, 10)]) * 10.0 ** draw.randint(6, 14)
    return new


def with_hidden(document: Document, seed: int) -> Document | None:
    """Return the document with a huge number where no plan changes it, beside its small ones.

    Traffic of a pair that is apart or together in every plan; a state, cost or load of a task that
    stays where it is or has to move; a capacity that is used, or a background within one.
    """
    draw, new = Draw(seed), copy.deepcopy(document)
    reading, huge = Reading(document), draw.uniform(1, 10) * 10.0 ** draw.randint(9, 12)
    names, nodes = reading.task_ids, [node["id"] for node in new["nodes"]]
    way = draw.choice(["traffic", "traffic", "cost", "load", "capacity", "background"])
    resource, place = draw.choice(new["resources"]), draw.choice(new["nodes"])
    if way == "traffic" and len(names) > 1:
        pair = draw.sample(names, 2)
        others = [each for each in new.get("traffic", []) if each[:2] != pair]
        rule = draw.choice(["apart", "together"])
        new["traffic"] = [*others, [*pair, huge]]
        new.setdefault("sets", []).append({"id": "held", "rule": rule, "tasks": pair})
        return new
    if not names:
        return None
    new.setdefault("tasks", [])
    task = entry(new, draw.choice(names))
    if way == "cost":
        task[draw.choice(["state", "migration_cost"])] = huge
        away = [node for node in nodes if node != task.get("node")]
        task["allowed"] = draw.choice([away, [task.get("node", nodes[0])]]) or nodes
        return new
    if way == "load":
        task["load"] = {**task.get("load", {}), resource: huge}
    task["allowed"] = [place["id"]]
    if way == "background":
        place.setdefault("background", {})[resource] = huge
    room = place.setdefault("capacity", {})
    room[resource] = huge + (0.0 if way == "capacity" else room.get(resource, huge))
    return new


def with_mixed(document: Document, seed: int) -> Document | None:
    """Return the document with numbers from 1e-6 to 1e14 side by side in its rows."""
    draw, new = Draw(seed), copy.deepcopy(document)
    places = list(_numbers(new))
    share = draw.choice([0.1, 0.3, 0.6])
    factors = [10.0 ** draw.randint(-6, 14) for _ in range(draw.choice([1, 2, 3]))]
    for part, key in places:
        if draw.chance(share):
            part[key] = part[key] * draw.choice(factors)
    return new if places else None


def _numbers(part: Any) -> Iterator[tuple[Any, Any]]:
    """Yield where numbers stand: the table or list, and the key."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        if isinstance(value, dict | list):
            if key not in ("models", "max_utilisation"):
                yield from _numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool) and key not in _COUNTS:
            yield part, key


def with_edge(document: Document, seed: int) -> Document | None:
    """Return the document with a limit that a random placement exceeds by a hair."""
    draw, new = Draw(seed), copy.deepcopy(document)
    reading = Reading(document)
    if not reading.task_ids:
        return None
    node = np.array([[draw.choice(np.flatnonzero(row).tolist()) for row in reading.open]])
    found, less = measure(reading, node), 1 - 10.0 ** -draw.uniform(6, 8.8)
    ways = [
        (new["nodes"][n].setdefault("capacity", {}), name, found.loads[0, n, r])
        for n in range(len(new["nodes"]))
        for r, name in enumerate(new["resources"])
    ]
    ways += [
        (x, "capacity", load[0]) for x, load in zip(new.get("links", []), found.links, strict=True)
    ]
    for name in ("migration_cost", "migration_state", "load_distance"):
        if name in found.by_name:
            ways.append((new.setdefault("limits", {}), f"max_{name}", found.by_name[name][0]))
    part, key, most = draw.choice([way for way in ways if way[2] > 0] or [({}, "", 0.0)])
    part[key] = float(most) * less
    return new if key else None


CHANGES: dict[str, Callable[[Document, int], Document | None]] = {
    "huge": with_huge,
    "hidden": with_hidden,
    "mixed": with_mixed,
    "edge": with_edge,
}
