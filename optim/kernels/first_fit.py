"""First-fit decreasing over all resources, and near relatives of it: plans that keep capacities.

Source: D. S. Johnson, "Near-optimal bin packing algorithms", MIT 1973 (first and best fit); for
several resources the size of a task is its greatest share of the mean room of a node, as in vector
bin packing.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.kernels.place_rules import placing_masks, placing_room
from optim.kernels.state import NOWHERE, fits
from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints


FIRST, BEST, WORST = 0, 1, 2
"""The first node that fits, the one with least room left (scaled, all resources), with most."""


def task_sizes(instance: Instance) -> Floats:
    """(T,) greatest share that a task takes of the mean room of a staying node, over all resources.

    Resources that bind nowhere do not count; where none binds, the first resource's load is
    returned.
    """
    room = instance.headroom[instance.open_nodes]
    # size = max over r of load / mean room of the staying nodes that bind in r
    bounded = np.isfinite(room).any(axis=0) if len(room) else np.zeros(0, dtype=np.bool_)
    if not bounded.any():
        return instance.tasks.load[:, 0].copy()
    finite = np.where(np.isfinite(room), np.maximum(room, 0.0), np.nan)
    mean = np.nanmean(finite[:, bounded], axis=0)
    share = instance.tasks.load[:, bounded] / np.where(mean > 0, mean, 1.0)
    return share.max(axis=1)


def packings(instance: Instance) -> Iterator[Ints]:
    """Yield (T,) placements by several orders and rules, the plain first-fit decreasing first.

    Capacities with utilisation limits and background, allowed nodes and leaving nodes are
    respected; lower load bounds, links, slots and migration budgets are not looked at.

    A task that fits nowhere has -1. The first that has none is as good as any other for a caller
    who only wants everything placed.
    """
    orders = [task_sizes(instance)]
    orders += [instance.tasks.load[:, r] for r in range(instance.num_resources)]
    if instance.num_resources > 1:
        orders.append(
            instance.tasks.load / np.maximum(instance.total_load, 1e-300) @ _tightness(instance)
        )
    kind, _, target = placing_masks(instance)
    load, room = np.array(instance.tasks.load), placing_room(instance)
    scale = _scale(room)
    constrained = (True, False) if len(instance.tasks.restricted) else (True,)
    for rule in (FIRST, BEST, WORST):
        for size in orders:
            for restricted_first in constrained:
                order = _order(size, kind, target, restricted_first)
                yield pack(load, kind, target, room.copy(), order, rule, scale)


def _tightness(instance: Instance) -> Floats:
    """(R,) share of all room that all load takes; 0 where room is unbounded."""
    room = np.maximum(instance.headroom[instance.open_nodes], 0.0).sum(axis=0)
    share = np.zeros(len(room))
    np.divide(instance.total_load, room, out=share, where=np.isfinite(room) & (room > 0))
    return share


def _order(size: Floats, kind: Ints, target: NDArray[np.bool_], restricted_first: bool) -> Ints:
    choices = target.sum(axis=1)[kind] if restricted_first else np.zeros(len(kind))
    # the last key counts most: few choices first, then the largest; like tasks one after the other
    return np.lexsort((kind, -size, choices)).astype(np.int32)


def _scale(room: Floats) -> Floats:
    """(R,) what one unit of each resource counts when rooms are compared; 0 for unbounded ones."""
    total = np.maximum(room, 0.0).sum(axis=0)
    return np.where(np.isfinite(total) & (total > 0), 1.0 / np.where(total > 0, total, 1.0), 0.0)


@kernel
def pack(load, kind, target, room, order, rule, scale):
    """Place tasks in the given order.

    `room`: (N, R) what fits; changed in place.
    `order`: (T,) tasks, first one first.
    `rule`: FIRST, BEST or WORST.
    `scale`: (R,) weight of a resource when the room of two nodes is compared.
    Returns (T,) node, -1 where a task fits none.
    """
    node_of = np.full(load.shape[0], NOWHERE, np.int32)
    start, last = 0, NOWHERE
    for task in order:
        # room only shrinks: what did not hold a task holds no equal one, so the scan goes on
        if rule != FIRST or last == NOWHERE or not _alike(load, kind, task, last):
            start = 0
        node = _choose(load, target[kind[task]], room, task, rule, scale, start)
        if rule == FIRST:
            start = (
                room.shape[0] if node == NOWHERE else node
            )  # nothing before it fits its like either
        last = task
        if node != NOWHERE:
            node_of[task] = node
            for resource in range(load.shape[1]):
                room[node, resource] -= load[task, resource]
    return node_of


@helper
def _alike(load, kind, task, other):
    same = kind[task] == kind[other]
    for resource in range(load.shape[1]):
        same = same and load[task, resource] == load[other, resource]
    return same


@helper
def _choose(load, target, room, task, rule, scale, start):
    best, best_left = NOWHERE, 0.0
    for node in range(start, room.shape[0]):
        if not target[node] or not fits(load, room, task, node):
            continue
        if rule == FIRST:
            return node
        left = 0.0
        for resource in range(room.shape[1]):
            if scale[resource] > 0.0:
                left += room[node, resource] * scale[resource]
        if best == NOWHERE or ((left < best_left) == (rule == BEST) and left != best_left):
            best, best_left = node, left
    return best
