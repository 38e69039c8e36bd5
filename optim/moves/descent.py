"""Descent on the traffic between nodes: the best move of a task, or else the best swap of two."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from optim.moves.board import (
    NOWHERE,
    clear,
    connections,
    fits,
    fits_instead,
    pair_rate,
    put,
    take,
)
from optim.moves.guard import NOBODY, may_enter, pays
from optim.util.compiled import helper, kernel


@kernel
def descend(board, order, most_passes, least_gain):
    """Move and swap tasks while that collocates more traffic.

    Room, masks, lower load bounds, the migration budget, sets and inflow are kept; what is already
    exceeded does not get worse. Tasks that stand nowhere stay nowhere.

    Parameters
    ----------
    board
        Changed in place.
    order
        The tasks to try, in this order in every pass.
    most_passes
        Greatest number of passes.
    least_gain
        Smallest improvement that counts; above the rounding of a task's traffic.

    Returns
    -------
    float
        Traffic gained.
    """
    dirty = np.ones(len(board.node), np.bool_)
    weight = np.zeros(board.room.shape[0])
    touched = np.empty(board.room.shape[0], np.int64)
    gained = 0.0
    for _ in range(most_passes):
        changed = False
        for task in order:
            if not dirty[task] or board.node[task] == NOWHERE:
                continue
            dirty[task] = False
            gain = improve_task(board, task, weight, touched, dirty, least_gain)
            if gain > 0.0:
                gained += gain
                changed = True
        if not changed:
            break
        if len(board.block_rate) > 0:
            dirty[:] = True  # a block's tasks feel every move of their partners
    return gained


@helper
def improve_task(board, task, weight, touched, dirty, least_gain):
    """Do the best improving move of one task, or else its best improving swap; return the gain."""
    source = board.node[task]
    met = connections(board, task, weight, touched)
    here = weight[source]
    best, best_gain, hopeful = NOWHERE, least_gain, False
    for k in range(met):
        node = touched[k]
        gain = weight[node] - here
        if node == source or gain <= least_gain or not board.target[board.kind[task], node]:
            continue
        hopeful = True
        better = gain > best_gain or (gain == best_gain and node < best)
        if better and fits(board.load, board.room, task, node) and may_leave(board, task, node):
            best, best_gain = node, gain
    partner = NOWHERE
    if best == NOWHERE and hopeful:
        partner, best_gain = best_swap(board, task, weight, touched, met, least_gain)
    clear(weight, touched, met)
    if best != NOWHERE:
        take(board, task)
        put(board, task, best)
        mark(board, task, dirty)
        return best_gain
    if partner != NOWHERE:
        exchange(board, task, partner)
        mark(board, task, dirty)
        mark(board, partner, dirty)
        return best_gain
    return 0.0


@helper
def best_swap(board, task, weight, touched, met, least_gain):
    """Return the partner to change places with, and the gain; -1 for none.

    `weight` holds the traffic of `task` with every node.
    """
    source = board.node[task]
    partner, best = NOWHERE, least_gain
    for k in range(met):
        node = touched[k]
        gain = weight[node] - weight[source]
        if node == source or gain <= least_gain or not board.target[board.kind[task], node]:
            continue
        other = board.first[node]
        while other != NOWHERE:
            if (
                board.target[board.kind[other], source]
                and fits_instead(board.load, board.room, task, other, node)
                and fits_instead(board.load, board.room, other, task, source)
            ):
                change = gain + drawn(board, other, source, node)
                if change > best:
                    change -= 2.0 * pair_rate(board, task, other)
                    if change > best and may_exchange(board, task, other):
                        partner, best = other, change
            other = board.after[other]
    return partner, best


@helper
def drawn(board, task, towards, away):
    """Traffic a task gains by going from one node to another."""
    total = 0.0
    for k in range(board.indptr[task], board.indptr[task + 1]):
        node = board.node[board.other[k]]
        if node == towards:
            total += board.rate[k]
        elif node == away:
            total -= board.rate[k]
    group = board.group[task]
    if group >= 0:
        for k in range(board.block_indptr[group], board.block_indptr[group + 1]):
            other = board.block_other[k]
            total += board.block_rate[k] * (board.tally[other, towards] - board.tally[other, away])
    return total


@helper
def may_leave(board, task, node):
    """Whether lower load bounds and what `may_come` asks let a task go to `node`."""
    source = board.node[task]
    for resource in range(board.load.shape[1]):
        load = board.load[task, resource]
        if load > 0.0 and load > board.spare[source, resource]:
            return False
    return may_come(board, task, node)


@helper
def may_come(board, task, node):
    """Whether the migration budget, sets and inflow let a task go to `node`."""
    if moves_added(board, task, node) > 0 and (
        board.budget[0] < 1.0 or board.budget[1] < board.price[task]
    ):
        return False
    return not board.guard.active or may_enter(board.guard, task, board.node[task], node, NOBODY)


@helper
def may_exchange(board, task, other):
    """Whether lower load bounds, budget, sets and inflow let two tasks change places."""
    source, node = board.node[task], board.node[other]
    for resource in range(board.load.shape[1]):
        growth = board.load[task, resource] - board.load[other, resource]
        if growth > 0.0 and growth > board.spare[source, resource]:
            return False
        if growth < 0.0 and -growth > board.spare[node, resource]:
            return False
    first, second = moves_added(board, task, node), moves_added(board, other, source)
    cost = first * board.price[task] + second * board.price[other]
    count = first + second
    if (count > 0 and count > board.budget[0]) or (cost > 0.0 and cost > board.budget[1]):
        return False
    guard = board.guard
    return not guard.active or (
        may_enter(guard, task, source, node, other) and may_enter(guard, other, node, source, task)
    )


@helper
def moves_added(board, task, node):
    """1 if going to `node` makes the task a migrant, -1 if it brings it home, else 0."""
    return pays(board.guard, task, node) - pays(board.guard, task, board.node[task])


@helper
def exchange(board, task, other):
    """Let two tasks change places."""
    source, node = board.node[task], board.node[other]
    take(board, task)
    take(board, other)
    put(board, task, node)
    put(board, other, source)


@helper
def mark(board, task, dirty):
    """Note that a task moved: it and its partners are to be tried again."""
    dirty[task] = True
    for k in range(board.indptr[task], board.indptr[task + 1]):
        dirty[board.other[k]] = True
