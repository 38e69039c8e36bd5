"""Algorithms 4 and 5 of the CIKM 2014 paper, compiled, on plain arrays."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from heuristics.task_allocation.state import (
    COUNT,
    NEXT_OF_GROUP,
    NODE,
    NONE,
    allocate_single_tasks,
    copies,
    empty_into,
    new_state,
    place,
    top_node,
)
from optim.util.compiled import helper, kernel

SHRINK, GIVE_UP = 0, 1


@kernel
def top_down(size, load, room, allowed, edge_u, edge_v, order, k_rule):
    """Run topDown (Algorithm 4).

    Parameters
    ----------
    size, load, room, allowed
        As for `heuristics.task_allocation.state.new_state`.
    edge_u, edge_v
        (E,) the group pairs.
    order
        (E,) indices of the pairs, most urgent first.
    k_rule
        What happens when not one balanced split fits the best node: SHRINK or GIVE_UP.

    Returns
    -------
    State
        The placement; ``left`` is what fits nowhere.
    """
    state = new_state(size, load, room, allowed)
    start = room - state.used
    weight = np.zeros(room.shape[0], np.int64)
    for edge in order:
        u, v = edge_u[edge], edge_v[edge]
        if state.left[u] > 0 and state.left[v] > 0:
            _allocate_pair(state, u, v, k_rule)
        elif state.left[v] > 0:
            _allocate_second(state, u, v, weight)
        elif state.left[u] > 0:
            _allocate_second(state, v, u, weight)
        else:
            _fuse(state, u, v, start)
    allocate_single_tasks(state)
    return state


@helper
def _allocate_pair(state, u, v, k_rule):
    """Algorithm 5 in mode "both": fuse what is unplaced of the pair, or slice balanced splits."""
    while state.left[u] > 0 and state.left[v] > 0:
        node = top_node(
            state.load, state.allowed, state.room, state.close, u, state.left[u], v, state.left[v]
        )
        if node != NONE:
            place(state, u, node, state.left[u])
            place(state, v, node, state.left[v])
            return
        small, large = (u, v) if state.left[u] <= state.left[v] else (v, u)
        ratio = state.left[large] // state.left[small]
        node = top_node(state.load, state.allowed, state.room, state.close, small, 1, large, ratio)
        if node == NONE and k_rule == SHRINK:
            ratio, node = _shrunk(state, small, large, ratio)
        if node == NONE:
            return
        number = copies(state.load, state.room, small, large, ratio, node, state.left[small])
        place(state, small, node, number)
        place(state, large, node, number * ratio)


@helper
def _shrunk(state, small, large, ratio):
    """Return the largest smaller ratio whose split fits a node, and the node; -1 for none."""
    # loads are sums, so what fits with some ratio fits with every smaller one: bisection
    low, high = 0, ratio
    best = NONE
    while high - low > 1:
        middle = (low + high) // 2
        node = top_node(state.load, state.allowed, state.room, state.close, small, 1, large, middle)
        if node == NONE:
            high = middle
        else:
            low, best = middle, node
    return low, best


@helper
def _allocate_second(state, placed, other, weight):
    """Algorithm 5 in mode "second": put `other` beside `placed`, host by host by expected gain."""
    hosts = 0
    split = state.first_of_group[placed]
    while split != NONE:
        node = state.splits[split, NODE]
        if weight[node] == 0:
            hosts += 1
        weight[node] += state.splits[split, COUNT]
        split = state.splits[split, NEXT_OF_GROUP]
    for _ in range(hosts):
        best = _heaviest_host(state, placed, weight)
        weight[best] = -weight[best]
        if state.left[other] > 0 and (state.allowed.shape[0] == 0 or state.allowed[other, best]):
            number = copies(state.load, state.room, other, other, 0, best, state.left[other])
            if number > 0:
                place(state, other, best, number)
        if state.left[other] == 0:
            break
    split = state.first_of_group[placed]
    while split != NONE:
        weight[state.splits[split, NODE]] = 0
        split = state.splits[split, NEXT_OF_GROUP]


@helper
def _heaviest_host(state, placed, weight):
    """Return the host of `placed` not yet tried that holds most of it; ties by index."""
    # every task of the partner gains traffic in proportion to what stands there (line 14)
    best = NONE
    split = state.first_of_group[placed]
    while split != NONE:
        node = state.splits[split, NODE]
        if weight[node] > 0 and (
            best == NONE
            or weight[node] > weight[best]
            or (weight[node] == weight[best] and node < best)
        ):
            best = node
        split = state.splits[split, NEXT_OF_GROUP]
    return best


@helper
def _fuse(state, u, v, start):
    """Lines 19-24: both groups stand whole on a node each; empty the smaller into the other."""
    first, second = _only_host(state, u), _only_host(state, v)
    if min(first, second) == NONE or first == second:
        return
    if start[second, 0] >= start[first, 0]:
        first, second = second, first
    empty_into(state, second, first)


@helper
def _only_host(state, group):
    """Return the node that holds the whole group, or -1 when several do."""
    split = state.first_of_group[group]
    node = NONE
    while split != NONE:
        if node != NONE and state.splits[split, NODE] != node:
            return NONE
        node = state.splits[split, NODE]
        split = state.splits[split, NEXT_OF_GROUP]
    return node
