"""Dropping limits: what ``--ignore`` does, on a copy of the instance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.instance import LIMIT_NAMES, Instance

if TYPE_CHECKING:
    from collections.abc import Sequence

_BUDGETS = ("max_migrations", "max_migration_cost", "max_load_distance", "max_tasks_per_slot")


def drop_limits(instance: Instance, names: Sequence[str]) -> Instance:
    """Return the instance without the named limits.

    Raises
    ------
    InvalidInput
        A name is not one of `LIMIT_NAMES`.
    """
    unknown = [name for name in names if name not in LIMIT_NAMES]
    if unknown:
        raise InvalidInput(
            [
                Problem("--ignore", n, "is no limit", "one of " + ", ".join(LIMIT_NAMES))
                for n in unknown
            ]
        )
    for name in names:
        instance = _drop(instance, name)
    return instance


def _drop(instance: Instance, name: str) -> Instance:
    nodes, tasks, links, limits = instance.nodes, instance.tasks, instance.links, instance.limits
    if name in _BUDGETS:
        changes: dict[str, Any] = {name: None}
        return replace(instance, limits=replace(limits, **changes))
    if name == "leaving":
        return replace(instance, limits=replace(limits, into_leaving=True))
    if name == "max_utilisation":
        limits = replace(
            limits, max_utilisation=np.ones(instance.num_resources), max_link_utilisation=1.0
        )
        return replace(instance, limits=limits)
    if name == "links":
        return replace(instance, links=replace(links, capacity=np.full(len(links.ids), np.inf)))
    if name == "allowed":
        empty = np.zeros(0, dtype=np.int32)
        tasks = replace(
            tasks, restricted=empty, allowed_indptr=np.zeros(1, np.int32), allowed_indices=empty
        )
        return replace(instance, tasks=tasks)
    if name == "capacity":
        changed = replace(nodes, capacity=np.full_like(nodes.capacity, np.inf))
    elif name == "min_load":
        changed = replace(nodes, min_load=np.zeros_like(nodes.min_load))
    else:  # slots
        changed = replace(
            nodes,
            slots=np.full_like(nodes.slots, -1),
            slot_capacity=np.full_like(nodes.slot_capacity, np.inf),
        )
    return replace(instance, nodes=changed)
