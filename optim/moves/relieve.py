"""Repair, compiled: bring overloaded nodes back to their capacity."""

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
from optim.moves.descent import exchange, may_exchange, may_leave
from optim.util.compiled import helper, kernel

TINY = 1e-12

CROWD = 256
"""A node with more tasks is relieved in batches, with fewer move by move."""


@kernel
def relieve(board, scale, may_evict):
    """Bring every overloaded node back to capacity, at least traffic lost per load moved away.

    For each overloaded node in turn: move a task to another node; where no move is possible swap
    two tasks; where no swap is, and `may_evict`, take a task off (it then stands nowhere).

    Parameters
    ----------
    board
        Changed in place.
    scale
        (R,) weight of one unit of each resource in what counts as load moved away.
    may_evict
        Whether tasks may be taken off.
    """
    weight = np.zeros(board.room.shape[0])
    touched = np.empty(board.room.shape[0], np.int64)
    for node in range(board.room.shape[0]):
        while _excess(board.room, node, scale) > 0.0:
            if _move_out(board, node, scale, weight, touched) > 0:
                continue
            task, partner = _best_swap_out(board, node, scale)
            if task != NOWHERE:
                exchange(board, task, partner)
                continue
            task = _least_connected(board, node, scale) if may_evict else NOWHERE
            if task == NOWHERE:
                break
            take(board, task)


@helper
def _excess(room, node, scale):
    """Load above capacity, scaled and summed over the resources."""
    total = 0.0
    for resource in range(room.shape[1]):
        if room[node, resource] < 0.0:
            total -= room[node, resource] * scale[resource]
    return total


@helper
def _relief(board, node, task, scale):
    """How much of a node's excess goes with a task."""
    total = 0.0
    for resource in range(board.load.shape[1]):
        over = -board.room[node, resource]
        if over > 0.0:
            total += min(over, board.load[task, resource]) * scale[resource]
    return total


@helper
def _best_way_out(board, node, task, scale, weight, touched):
    """Return where a task should go from an overloaded node, and traffic lost per load moved."""
    relief = _relief(board, node, task, scale)
    if relief <= 0.0:
        return NOWHERE, np.inf
    met = connections(board, task, weight, touched)
    best = NOWHERE
    for target in range(board.room.shape[0]):
        if (
            target != node
            and (best == NOWHERE or weight[target] > weight[best])
            and board.target[board.kind[task], target]
            and fits(board.load, board.room, task, target)
            and may_leave(board, task, target)
        ):
            best = target
    score = np.inf
    if best != NOWHERE:
        score = (weight[node] - weight[best]) / relief
    clear(weight, touched, met)
    return best, score


@helper
def _move_out(board, node, scale, weight, touched):
    """Move the cheapest task off a node, of a crowd the cheapest sixteenth; return how many."""
    count = 0
    task = board.first[node]
    while task != NOWHERE:
        count += 1
        task = board.after[task]
    batch = count // 16 if count > CROWD else 1
    tasks = np.empty(count, np.int64)
    scores = np.empty(count)
    task = board.first[node]
    for k in range(count):
        tasks[k] = task
        scores[k] = _best_way_out(board, node, task, scale, weight, touched)[1]
        task = board.after[task]
    moved = 0
    for _ in range(min(batch, count)):
        k = np.argmin(scores)
        if scores[k] == np.inf or _excess(board.room, node, scale) <= 0.0:
            break
        scores[k] = np.inf
        target, _ = _best_way_out(board, node, tasks[k], scale, weight, touched)
        if target != NOWHERE:
            take(board, tasks[k])
            put(board, tasks[k], target)
            moved += 1
    return moved


@helper
def _best_swap_out(board, node, scale):
    """Return the pair whose swap relieves a node at least cost of traffic; -1 for none."""
    best_task, best_partner, best_score = NOWHERE, NOWHERE, np.inf
    task = board.first[node]
    while task != NOWHERE:
        if _relief(board, node, task, scale) > 0.0:
            here = connection(board, task, node)
            for target in range(board.room.shape[0]):
                if target == node or not board.target[board.kind[task], target]:
                    continue
                there = connection(board, task, target)
                partner = board.first[target]
                while partner != NOWHERE:
                    relief = _relief_of_swap(board, node, task, partner, scale)
                    if (
                        relief > TINY
                        and board.target[board.kind[partner], node]
                        and fits_instead(board.load, board.room, task, partner, target)
                        and may_exchange(board, task, partner)
                    ):
                        lost = here - there + connection(board, partner, target)
                        score = (lost - connection(board, partner, node)) / relief
                        if score < best_score:
                            best_task, best_partner, best_score = task, partner, score
                    partner = board.after[partner]
        task = board.after[task]
    return best_task, best_partner


@helper
def _relief_of_swap(board, node, task, partner, scale):
    """How much of a node's excess goes with a swap; 0 if another resource is overloaded more."""
    total = 0.0
    for resource in range(board.load.shape[1]):
        room = board.room[node, resource]
        after = room + board.load[task, resource] - board.load[partner, resource]
        if after < min(room, 0.0):
            return 0.0
        total += (min(after, 0.0) - min(room, 0.0)) * scale[resource]
    return total


@helper
def _least_connected(board, node, scale):
    """Return the task on a node with least traffic there for the excess it takes along."""
    best, best_score = NOWHERE, np.inf
    task = board.first[node]
    while task != NOWHERE:
        relief = _relief(board, node, task, scale)
        if relief > 0.0:
            score = connection(board, task, node) / relief
            if score < best_score or (score == best_score and task < best):
                best, best_score = task, score
        task = board.after[task]
    return best
