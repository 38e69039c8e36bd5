"""One huge number somewhere in a file: it must change no verdict about rows in which it is not."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from tests.fuzz.generate import Draw
from tests.fuzz.reading import Document

#: counts, and what is no load, rate, cost or weight: huge ones are another question
_COUNTS = frozenset({
    "tasks", "slot", "slots", "workers", "max_tasks", "max_inflow", "max_migrations", "at_most",
    "at_least", "max_tasks_per_slot", "max_nodes_used", "max_utilisation", "key_groups",
    "min_parallelism", "max_parallelism",
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


def _numbers(part: Any) -> Iterator[tuple[Any, Any]]:
    """Yield where numbers stand: the table or list, and the key."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        if isinstance(value, dict | list):
            if key not in ("models", "max_utilisation"):
                yield from _numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool) and key not in _COUNTS:
            yield part, key
