"""Bin packing by first, best or worst fit, compiled."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from optim.moves.board import NOWHERE, fits
from optim.util.compiled import helper, kernel

FIRST, BEST, WORST = 0, 1, 2


@kernel
def pack(load, kind, target, room, order, rule, scale):
    """Place tasks in the given order.

    Parameters
    ----------
    load, kind, target
        As on a `optim.moves.board.Board`.
    room
        (N, R) what fits; changed in place.
    order
        (T,) tasks, first one first.
    rule
        FIRST, BEST or WORST.
    scale
        (R,) weight of a resource when the room of two nodes is compared.

    Returns
    -------
    ndarray of int32
        (T,) node, -1 where a task fits none.
    """
    node_of = np.full(load.shape[0], NOWHERE, np.int32)
    start, last = 0, NOWHERE
    for task in order:
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
