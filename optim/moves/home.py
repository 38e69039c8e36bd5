"""Repair, compiled: keep a migration budget, by going home or by moving little."""

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
from optim.util.compiled import kernel


@kernel
def homing_loss(board):
    """(T,) traffic lost if a migrant went back to its current node; ``inf`` for all other tasks."""
    loss = np.full(len(board.node), np.inf)
    for task in range(len(board.node)):
        home, node = board.home[task], board.node[task]
        if home >= 0 and node != NOWHERE and node != home:
            loss[task] = connection(board, task, node) - connection(board, task, home)
    return loss


@kernel
def go_home(board, order):
    """Send migrants home in the given order, where they fit, until the migration budget is kept.

    A migrant whose place is taken changes with a task that came there, when that saves a migration
    too.

    Returns
    -------
    int
        How many went home.
    """
    gone = 0
    for task in order:
        if board.budget[0] >= 0.0 and board.budget[1] >= 0.0:
            break
        home, node = board.home[task], board.node[task]
        if min(home, node) < 0 or node == home:
            continue
        if fits(board.load, board.room, task, home):
            if may_leave(board, task, home):
                take(board, task)
                put(board, task, home)
                gone += 1
            continue
        partner = board.first[home]
        while partner != NOWHERE:
            if (
                board.home[partner] != home
                and board.target[board.kind[partner], node]
                and fits_instead(board.load, board.room, task, partner, home)
                and fits_instead(board.load, board.room, partner, task, node)
                and may_exchange(board, task, partner)
            ):
                exchange(board, task, partner)
                gone += 1
                break
            partner = board.after[partner]
    return gone


@kernel
def adopt(board, wished, least_gain):
    """Make the moves of a wished placement that gain traffic, the best first, within limits.

    Returns
    -------
    int
        Number of moves made.
    """
    made = 0
    while True:
        best, best_gain = NOWHERE, least_gain
        for task in range(len(wished)):
            node = wished[task]
            if (
                node == NOWHERE
                or board.node[task] == NOWHERE
                or node == board.node[task]
                or not board.target[board.kind[task], node]
                or not fits(board.load, board.room, task, node)
                or not may_leave(board, task, node)
            ):
                continue
            gain = connection(board, task, node) - connection(board, task, board.node[task])
            if gain > best_gain:
                best, best_gain = task, gain
        if best == NOWHERE:
            return made
        take(board, best)
        put(board, best, wished[best])
        made += 1
