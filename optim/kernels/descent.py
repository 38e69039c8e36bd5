"""Descent on the traffic between nodes: the best move of a task, or else the best swap of two."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from optim.kernels.place_rules import NOBODY, affords, may_enter, pays
from optim.kernels.state import (
    NOWHERE,
    clear,
    connections,
    fits,
    fits_instead,
    pair_rate,
    put,
    take,
)
from optim.util.compiled import helper, kernel


@kernel
def descend(state, order, most_passes, least_gain):
    """Move and swap tasks while that collocates more traffic.

    Room, masks, lower load bounds, the migration budget, sets and inflow are respected; what is
    already exceeded does not get worse. Tasks that stand nowhere stay nowhere.

    `state`: changed in place.
    `order`: the tasks to try, in this order in every pass.
    `most_passes`: greatest number of passes.
    `least_gain`: smallest improvement that counts; above the rounding of a task's traffic.
    Returns traffic gained.
    """
    dirty = np.ones(len(state.node), np.bool_)
    weight = np.zeros(state.room.shape[0])
    touched = np.empty(state.room.shape[0], np.int64)
    gained = 0.0
    for _ in range(most_passes):
        changed = False
        for task in order:
            if not dirty[task] or state.node[task] == NOWHERE:
                continue
            dirty[task] = False
            gain = improve_task(state, task, weight, touched, dirty, least_gain)
            if gain > 0.0:
                gained += gain
                changed = True
        if not changed:
            break
        if len(state.block_rate) > 0:
            dirty[:] = True  # a block's tasks feel every move of their partners
    return gained


@helper
def improve_task(state, task, weight, touched, dirty, least_gain):
    """Do the best improving move of one task, or else its best improving swap; return the gain."""
    source = state.node[task]
    num_touched = connections(state, task, weight, touched)
    here = weight[source]
    best, best_gain, hopeful = NOWHERE, least_gain, False
    for k in range(num_touched):
        node = touched[k]
        gain = weight[node] - here
        if node == source or gain <= least_gain or not state.target[state.kind[task], node]:
            continue
        # some node draws the task: only then a swap, which is dearer to look for, can pay
        hopeful = True
        better = gain > best_gain or (gain == best_gain and node < best)
        if better and fits(state.load, state.room, task, node) and may_leave(state, task, node):
            best, best_gain = node, gain
    partner = NOWHERE
    if best == NOWHERE and hopeful:
        partner, best_gain = best_swap(state, task, weight, touched, num_touched, least_gain)
    clear(weight, touched, num_touched)
    if best != NOWHERE:
        take(state, task)
        put(state, task, best)
        mark(state, task, dirty)
        return best_gain
    if partner != NOWHERE:
        exchange(state, task, partner)
        mark(state, task, dirty)
        mark(state, partner, dirty)
        return best_gain
    return 0.0


@helper
def best_swap(state, task, weight, touched, num_touched, least_gain):
    """Return the partner to change places with, and the gain; -1 for none.

    `weight` holds the traffic of `task` with every node.
    """
    source = state.node[task]
    partner, best = NOWHERE, least_gain
    for k in range(num_touched):
        node = touched[k]
        gain = weight[node] - weight[source]
        if node == source or gain <= least_gain or not state.target[state.kind[task], node]:
            continue
        other = state.first[node]
        while other != NOWHERE:
            if (
                state.target[state.kind[other], source]
                and fits_instead(state.load, state.room, task, other, node)
                and fits_instead(state.load, state.room, other, task, source)
            ):
                # gain(a) + gain(b) - 2 · rate(a, b): each gain counts the other where it was;
                # the rate is looked up only where the swap pays without it
                change = gain + drawn(state, other, source, node)
                if change > best:
                    change -= 2.0 * pair_rate(state, task, other)
                    if change > best and may_exchange(state, task, other):
                        partner, best = other, change
            other = state.after[other]
    return partner, best


@helper
def drawn(state, task, towards, away):
    """Traffic a task gains by going from one node to another."""
    total = 0.0
    for k in range(state.indptr[task], state.indptr[task + 1]):
        node = state.node[state.other[k]]
        if node == towards:
            total += state.rate[k]
        elif node == away:
            total -= state.rate[k]
    group = state.group[task]
    if group >= 0:
        for k in range(state.block_indptr[group], state.block_indptr[group + 1]):
            other = state.block_other[k]
            total += state.block_rate[k] * (state.tally[other, towards] - state.tally[other, away])
    return total


@helper
def may_leave(state, task, node):
    """Whether lower load bounds and what `may_come` asks let a task go to `node`."""
    source = state.node[task]
    for resource in range(state.load.shape[1]):
        load = state.load[task, resource]
        if load > 0.0 and load > state.spare[source, resource]:
            return False
    return may_come(state, task, node)


@helper
def may_come(state, task, node):
    """Whether the migration budget, sets and inflow let a task go to `node`."""
    if not affords(state.price, state.budget, task, moves_added(state, task, node), NOBODY, 0):
        return False
    return not state.guard.active or may_enter(state.guard, task, state.node[task], node, NOBODY)


@helper
def may_exchange(state, task, other):
    """Whether lower load bounds, budget, sets and inflow let two tasks change places."""
    source, node = state.node[task], state.node[other]
    for resource in range(state.load.shape[1]):
        growth = state.load[task, resource] - state.load[other, resource]
        if growth > 0.0 and growth > state.spare[source, resource]:
            return False
        if growth < 0.0 and -growth > state.spare[node, resource]:
            return False
    first, second = moves_added(state, task, node), moves_added(state, other, source)
    if not affords(state.price, state.budget, task, first, other, second):
        return False
    guard = state.guard
    return not guard.active or (
        may_enter(guard, task, source, node, other) and may_enter(guard, other, node, source, task)
    )


@helper
def moves_added(state, task, node):
    """1 if going to `node` makes the task a migrant, -1 if it brings it home, else 0."""
    return pays(state.guard, task, node) - pays(state.guard, task, state.node[task])


@helper
def exchange(state, task, other):
    """Let two tasks change places."""
    source, node = state.node[task], state.node[other]
    take(state, task)
    take(state, other)
    put(state, task, node)
    put(state, other, source)


@helper
def mark(state, task, dirty):
    """Note that a task moved: it and its partners are to be tried again."""
    dirty[task] = True
    for k in range(state.indptr[task], state.indptr[task + 1]):
        dirty[state.other[k]] = True
