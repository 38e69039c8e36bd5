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
from tests.fuzz.generate import Draw
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
    "mixed": with_mixed,
    "edge": with_edge,
}
