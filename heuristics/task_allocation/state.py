"""What the compiled task-allocation algorithms share: a partial placement of groups on nodes.

A *group* holds interchangeable tasks. Its placed tasks are stored as *splits* (group, node, count),
the sequence of splits and node allocations of the paper's Section 4, chained both by group and by
node, so that memory stays linear in tasks + nodes and moving a whole node costs as much as it
holds.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.util.compiled import helper, inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

NONE = -1  # End of a chain; also: no node.
NODE, GROUP, COUNT, NEXT_OF_GROUP, NEXT_OF_NODE = range(5)  # Columns of ``State.splits``.


class State(NamedTuple):
    """A partial placement; the arrays are changed in place."""

    load: NDArray[np.float64]  # (G, R) load of one task of each group.
    #: (G, N) where each group may go; shape (0, 0) when every group may go everywhere.
    allowed: NDArray[np.bool_]
    room: NDArray[np.float64]  # (N, R) what still fits each node, tolerance included.
    used: NDArray[np.float64]  # (N, R) what the placed tasks load each node with.
    close: float  # Differences of room up to this are ties: rounding must not pick the node.
    left: NDArray[np.int64]  # (G,) tasks of each group not yet placed.
    #: (tasks, 5) the splits in the order they were made: node, group, count, and the next split of
    #: the same group and on the same node (`NONE` at the end).
    splits: NDArray[np.int32]
    #: Where each chain of splits starts: the latest split.
    first_of_group: NDArray[np.int32]
    first_of_node: NDArray[np.int32]
    filled: NDArray[np.int64]  # (1,) how many splits there are.


@helper
def new_state(size, load, room, allowed):
    """Start with nothing placed.

    `size`, `load`, `room`, `allowed`: (G,) tasks, (G, R) load of one, (N, R) room of nodes, (G, N)
        or (0, 0) masks.
    """
    num_groups, num_nodes = len(size), room.shape[0]
    tasks = 0
    for group in range(num_groups):
        tasks += size[group]
    largest = 0.0
    for node in range(num_nodes):
        if room[node, 0] > largest and not np.isinf(room[node, 0]):
            largest = room[node, 0]
    return State(
        load,
        allowed,
        room.copy(),
        np.zeros(room.shape),
        1e-9 * largest,
        size.copy(),
        np.zeros((tasks, 5), np.int32),
        np.full(num_groups, NONE, np.int32),
        np.full(num_nodes, NONE, np.int32),
        np.zeros(1, np.int64),
    )


@inlined
def fits(load, allowed, room, first, num_first, second, num_second, node):
    """Whether so many tasks of two groups fit `node` together, on every resource."""
    enough = allowed.shape[0] == 0 or (
        allowed[first, node] and (num_second == 0 or allowed[second, node])
    )
    for resource in range(room.shape[1]):
        demand = num_first * load[first, resource] + num_second * load[second, resource]
        enough = enough and demand <= room[node, resource]
    return enough


@helper
def top_node(load, allowed, room, close, first, num_first, second, num_second):
    """Return the node with most room in the first resource among those where the demand fits, or
    -1.

    With one resource this is the top of the paper's node heap, or -1 when the demand does not fit
    there; with several the next nodes in that order are tried. Ties by index.
    """
    best = NONE
    least = -np.inf
    if room.shape[1] == 1 and allowed.shape[0] == 0:
        for node in range(room.shape[0]):
            if room[node, 0] > least:
                best = node
                least = room[node, 0] + close
        if best == NONE:  # no node has room at all, nor a place in the array
            return NONE
        needed = num_first * load[first, 0] + num_second * load[second, 0]
        return NONE if needed > room[best, 0] else best
    for node in range(room.shape[0]):
        if room[node, 0] > least and fits(
            load, allowed, room, first, num_first, second, num_second, node
        ):
            best = node
            least = room[node, 0] + close
    return best


@helper
def copies(load, room, first, second, num_second, node, most):
    """Return how often a task of `first` with `num_second` of `second` fits, at most `most`."""
    number = most
    for resource in range(room.shape[1]):
        demand = load[first, resource] + num_second * load[second, resource]
        if demand > 0.0 and number * demand > room[node, resource]:
            number = max(0, np.int64(np.floor(room[node, resource] / demand)))
    return number


@helper
def place(state, group, node, count):
    """Put `count` tasks of `group` on `node`."""
    split = state.filled[0]
    state.filled[0] = split + 1
    state.splits[split, NODE] = node
    state.splits[split, GROUP] = group
    state.splits[split, COUNT] = count
    state.splits[split, NEXT_OF_GROUP] = state.first_of_group[group]
    state.first_of_group[group] = split
    state.splits[split, NEXT_OF_NODE] = state.first_of_node[node]
    state.first_of_node[node] = split
    state.left[group] -= count
    for resource in range(state.room.shape[1]):
        demand = count * state.load[group, resource]
        state.room[node, resource] -= demand
        state.used[node, resource] += demand


@helper
def empty_into(state, source, target):
    """Move everything on `source` to `target` if it fits there; return whether it did (fusion)."""
    for resource in range(state.room.shape[1]):
        if state.used[source, resource] > state.room[target, resource]:
            return False
    split = state.first_of_node[source]
    while state.allowed.shape[0] > 0 and split != NONE:
        if not state.allowed[state.splits[split, GROUP], target]:
            return False
        split = state.splits[split, NEXT_OF_NODE]
    split = state.first_of_node[source]
    last = NONE
    while split != NONE:
        state.splits[split, NODE] = target
        last = split
        split = state.splits[split, NEXT_OF_NODE]
    if last != NONE:
        state.splits[last, NEXT_OF_NODE] = state.first_of_node[target]
        state.first_of_node[target] = state.first_of_node[source]
        state.first_of_node[source] = NONE
    for resource in range(state.room.shape[1]):
        moved = state.used[source, resource]
        state.room[target, resource] -= moved
        state.used[target, resource] += moved
        state.room[source, resource] += moved
        state.used[source, resource] = 0.0
    return True


@helper
def allocate_single_tasks(state):
    """Place what is left, costliest first, each on the node with most room (Algorithm 3).

    Stops at the first task that fits nowhere, as published. Returns whether everything was placed.
    """
    order = np.argsort(-state.load[:, 0], kind="mergesort")
    load, allowed, room, close = state.load, state.allowed, state.room, state.close
    for group in order:
        for _ in range(state.left[group]):
            node = top_node(load, allowed, room, close, group, 1, group, 0)
            if node == NONE:
                return False
            place(state, group, node, 1)
    return True
