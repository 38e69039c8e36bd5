"""Repair, compiled: bring nodes up to their lower load bounds."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from optim.moves.board import (
    NOWHERE,
    connection,
    fits,
    fits_instead,
    put,
    take,
)
from optim.moves.descent import exchange, may_exchange, may_leave
from optim.util.compiled import helper, kernel

TINY = 1e-12

THOROUGH_TASKS = 20_000
"""Up to this many tasks every move of `fill_floors` is the best of all."""


@kernel
def fill_floors(board, scale):
    """Bring nodes below their lower load bound up to it, from the nodes that can spare most.

    Returns
    -------
    int
        Number of nodes that stay below.
    """
    below = 0
    thorough = len(board.node) <= THOROUGH_TASKS
    for node in range(board.room.shape[0]):
        while _deficit(board, node, scale) > 0.0:
            if not _fill_once(board, node, scale, thorough):
                below += 1
                break
    return below


@helper
def _deficit(board, node, scale):
    total = 0.0
    for resource in range(board.spare.shape[1]):
        if board.spare[node, resource] < 0.0:
            total -= board.spare[node, resource] * scale[resource]
    return total


@helper
def _fill_once(board, node, scale, thorough):
    """Move one task in, or swap a larger one in, at least traffic lost per deficit filled.

    All other nodes are asked when `thorough`, else only until one can give.
    """
    best_task, best_partner, best_score = NOWHERE, NOWHERE, np.inf
    for donor in range(board.room.shape[0]):
        if not thorough and best_task != NOWHERE:
            break
        task = NOWHERE if donor == node else board.first[donor]
        while task != NOWHERE:
            filled = _filled(board, node, task, NOWHERE, scale)
            if filled > TINY and board.target[board.kind[task], node]:
                lost = connection(board, task, donor) - connection(board, task, node)
                if fits(board.load, board.room, task, node):
                    if may_leave(board, task, node) and lost / filled < best_score:
                        best_task, best_partner, best_score = task, NOWHERE, lost / filled
                elif best_task == NOWHERE or best_partner != NOWHERE:
                    partner, score = _swap_in(board, node, task, lost, scale, best_score)
                    if partner != NOWHERE:
                        best_task, best_partner, best_score = task, partner, score
            task = board.after[task]
    if best_task == NOWHERE:
        return False
    if best_partner != NOWHERE:
        exchange(board, best_task, best_partner)
    else:
        take(board, best_task)
        put(board, best_task, node)
    return True


@helper
def _swap_in(board, node, task, lost, scale, best_score):
    """Return the partner on `node` to swap `task` with, and the better of the two scores."""
    best = NOWHERE
    donor = board.node[task]
    partner = board.first[node]
    while partner != NOWHERE:
        filled = _filled(board, node, task, partner, scale)
        if (
            filled > TINY
            and board.target[board.kind[partner], donor]
            and fits_instead(board.load, board.room, task, partner, node)
            and fits_instead(board.load, board.room, partner, task, donor)
            and may_exchange(board, task, partner)
        ):
            change = connection(board, partner, node) - connection(board, partner, donor)
            if (lost + change) / filled < best_score:
                best, best_score = partner, (lost + change) / filled
        partner = board.after[partner]
    return best, best_score


@helper
def _filled(board, node, task, partner, scale):
    """How much of a node's deficit a task fills, coming in for `partner` or for nobody."""
    total = 0.0
    for resource in range(board.load.shape[1]):
        spare = board.spare[node, resource]
        change = board.load[task, resource]
        if partner != NOWHERE:
            change -= board.load[partner, resource]
        after = spare + change
        if after < min(spare, 0.0):
            return 0.0
        if spare < 0.0:
            total += (min(after, 0.0) - spare) * scale[resource]
    return total
