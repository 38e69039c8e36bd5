"""Repair, compiled: place the tasks that stand nowhere."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from optim.moves.board import (
    NOWHERE,
    clear,
    connection,
    connections,
    fits,
    fits_instead,
    put,
    take,
)
from optim.moves.descent import may_come, may_leave
from optim.util.compiled import helper, kernel


@kernel
def place_rest(board, order, scale, thorough):
    """Place the tasks that stand nowhere, each where it has most traffic among the nodes it fits.

    Parameters
    ----------
    board
        Changed in place.
    order
        The tasks to look at, in this order.
    scale
        (R,) as for `relieve`.
    thorough
        Whether another task may be moved on to make room.

    Returns
    -------
    int
        How many still stand nowhere.
    """
    weight = np.zeros(board.room.shape[0])
    touched = np.empty(board.room.shape[0], np.int64)
    missing = 0
    for task in order:
        if board.node[task] != NOWHERE:
            continue
        met = connections(board, task, weight, touched)
        node = _best_free(board, task, weight, scale)
        clear(weight, touched, met)
        if node == NOWHERE and thorough:
            node = _make_room(board, task, weight, touched)
        if node == NOWHERE:
            missing += 1
        else:
            put(board, task, node)
    return missing


@helper
def _best_free(board, task, weight, scale):
    """Return the node with most traffic among those where a task fits; ties by least room left."""
    best, best_room = NOWHERE, 0.0
    for node in range(board.room.shape[0]):
        if (
            board.target[board.kind[task], node]
            and fits(board.load, board.room, task, node)
            and may_come(board, task, node)
        ):
            room = 0.0
            for resource in range(board.room.shape[1]):
                if scale[resource] > 0.0:
                    room += board.room[node, resource] * scale[resource]
            if (
                best == NOWHERE
                or weight[node] > weight[best]
                or (weight[node] == weight[best] and room < best_room)
            ):
                best, best_room = node, room
    return best


@helper
def _make_room(board, task, weight, touched):
    """Move one task on so that `task` fits where that one stood; return that node, or -1."""
    best_node, best_mover, best_target, best_score = NOWHERE, NOWHERE, NOWHERE, -np.inf
    for node in range(board.room.shape[0]):
        if not board.target[board.kind[task], node]:
            continue
        if not may_come(board, task, node):
            continue
        drawn = connection(board, task, node)
        mover = board.first[node]
        while mover != NOWHERE:
            if fits_instead(board.load, board.room, task, mover, node):
                target, change = _best_exit(board, mover, weight, touched)
                if target != NOWHERE and drawn + change > best_score:
                    best_node, best_mover = node, mover
                    best_target, best_score = target, drawn + change
            mover = board.after[mover]
    if best_node != NOWHERE:
        take(board, best_mover)
        put(board, best_mover, best_target)
    return best_node


@helper
def _best_exit(board, task, weight, touched):
    """Return where else a task fits best by its traffic, and the change; -1 for nowhere."""
    source = board.node[task]
    met = connections(board, task, weight, touched)
    best, best_change = NOWHERE, -np.inf
    for node in range(board.room.shape[0]):
        if (
            node != source
            and weight[node] - weight[source] > best_change
            and board.target[board.kind[task], node]
            and fits(board.load, board.room, task, node)
            and may_leave(board, task, node)
        ):
            best, best_change = node, weight[node] - weight[source]
    clear(weight, touched, met)
    return best, best_change
