"""The state of a placement under compiled moves, and the elementary steps on it.

Names in the kernels: a *task* stands on a *node* or nowhere (-1). `room` is what still fits (it is
negative on an overloaded node), `spare` what may leave before a lower load bound breaks.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.kernels.place_rules import (
    counted_floor,
    counted_loads,
    enter,
    make_guard,
    move_budgets,
    pays,
    place_rules,
    placing_masks,
)
from optim.util.compiled import helper, inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.kernels.place_rules import Guard

    Rows = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]

NOWHERE = np.int64(-1)
"""Typed, as are the arrays that hold tasks and nodes: for each mix of types numba compiles anew."""


class State(NamedTuple):
    """A placement and all that its moves need; `node` … `budget` change in place."""

    #: (T, R) loads; (T,) kind of restriction; (K, N) where tasks of a kind may be put.
    load: NDArray[np.float64]
    kind: NDArray[np.int32]
    target: NDArray[np.bool_]
    #: (T,) current node (-1 none); (T, K) what leaving it takes of each budget of moves.
    home: NDArray[np.int64]
    price: NDArray[np.float64]
    #: Task pairs in CSR form, each in both directions.
    indptr: NDArray[np.int64]
    other: NDArray[np.int32]
    rate: NDArray[np.float64]
    #: Full streams between groups of tasks, stored whole: (T,) group (-1 none), and CSR over groups
    #: of the rate of one task pair.
    group: NDArray[np.int32]
    block_indptr: NDArray[np.int64]
    block_other: NDArray[np.int32]
    block_rate: NDArray[np.float64]
    #: (T,) placement; (N, R) what may come; (N, R) what may go.
    node: NDArray[np.int64]
    room: NDArray[np.float64]
    spare: NDArray[np.float64]
    tally: NDArray[np.int64]  # (groups, N) tasks of each group on each node.
    #: (N,), (T,), (T,) chains of the tasks on each node.
    first: NDArray[np.int64]
    after: NDArray[np.int64]
    before: NDArray[np.int64]
    #: (K,) what is left of each budget of moves, negative when exceeded.
    budget: NDArray[np.float64]
    guard: Guard  # Sets and inflow.

    def placement(self) -> Ints:
        """(T,) the placement as the rest of the program knows it; a copy."""
        return self.node.astype(np.int32)


def state_of(instance: Instance, node: Ints) -> State:
    """Return a state with the tasks where `node` says; -1 is nowhere."""
    num_tasks, num_nodes = instance.num_tasks, instance.num_nodes
    kind, _, target = placing_masks(instance)
    indptr, other, rate = _sparse_pairs(instance)
    group, (block_indptr, block_other, block_rate) = _blocks(instance)
    load, room = counted_loads(instance)
    rules, (price, budget) = place_rules(instance), move_budgets(instance)
    state = State(
        load=load,
        kind=kind,
        target=target,
        home=instance.tasks.node.astype(np.int64),
        price=price,
        indptr=indptr,
        other=other,
        rate=rate,
        group=group,
        block_indptr=block_indptr,
        block_other=block_other,
        block_rate=block_rate,
        node=np.full(num_tasks, NOWHERE, dtype=np.int64),
        room=room,
        spare=-counted_floor(instance, room.shape[1]),
        tally=np.zeros((len(block_indptr) - 1, num_nodes), dtype=np.int64),
        first=np.full(num_nodes, NOWHERE, dtype=np.int64),
        after=np.full(num_tasks, NOWHERE, dtype=np.int64),
        before=np.full(num_tasks, NOWHERE, dtype=np.int64),
        budget=budget,
        guard=make_guard(rules, node.astype(np.int64)),
    )
    # everything that `put` would do task by task, by sums over arrays
    placed = np.flatnonzero(node >= 0)
    at = node[placed].astype(np.int64)
    loads = _sums(state.load[placed], at, num_nodes)
    state.room[:] -= loads
    state.spare[:] += loads
    state.node[:] = node
    grouped = state.group[placed] >= 0
    np.add.at(state.tally, (state.group[placed[grouped]], at[grouped]), 1)
    moved = placed[rules.pays(placed, at)]
    state.budget[:] -= state.price[moved].sum(axis=0)
    _chain(state, placed, at)
    return state


def _sparse_pairs(instance: Instance) -> Rows:
    """CSR of the single task pairs; those of full blocks are left to the blocks."""
    flows = instance.flows
    return _rows(flows.source, flows.target, flows.rate, instance.num_tasks)


def _rows(u: Any, v: Any, rate: Any, size: int) -> Rows:
    """Merge undirected pairs into CSR rows, each pair in both directions.

    Pairs without traffic are left out: `connections` takes a weight of 0 for a node not yet met.
    """
    from scipy.sparse import coo_array

    ends = np.concatenate([u, v]), np.concatenate([v, u])
    matrix = coo_array((np.concatenate([rate, rate]), ends), shape=(size, size)).tocsr()
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return (
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        matrix.data.astype(np.float64),
    )


def _blocks(instance: Instance) -> tuple[Ints, Rows]:
    """Group tasks by the full blocks they take part in; a block pairs two groups (operators)."""
    group = np.full(instance.num_tasks, NOWHERE, dtype=np.int32)
    count = 0
    ends: list[tuple[int, int]] = []
    for block in instance.flows.blocks:
        for side in (block.sources, block.targets):
            if group[side[0]] == NOWHERE:
                group[side] = count
                count += 1
        ends.append((int(group[block.sources[0]]), int(group[block.targets[0]])))
    pairs = np.array(ends, dtype=np.int64).reshape(-1, 2)
    rate = np.array([block.pair_rate for block in instance.flows.blocks], dtype=np.float64)
    return group, _rows(pairs[:, 0], pairs[:, 1], rate, count)


def _sums(load: Floats, at: NDArray[np.int64], num_nodes: int) -> Floats:
    sums = np.zeros((num_nodes, load.shape[1]))
    for resource in range(load.shape[1]):
        sums[:, resource] = np.bincount(at, load[:, resource], minlength=num_nodes)
    return sums


def _chain(state: State, placed: NDArray[np.int64], at: NDArray[np.int64]) -> None:
    order = placed[np.argsort(at, kind="stable")]
    same = state.node[order[1:]] == state.node[order[:-1]]
    state.after[order[:-1][same]] = order[1:][same]
    state.before[order[1:][same]] = order[:-1][same]
    starts = order[np.concatenate([[True], ~same])] if len(order) else order
    state.first[state.node[starts]] = starts


@inlined
def fits(load, room, task, node):
    """Whether a task fits what room a node has, on every resource."""
    enough = True
    for resource in range(load.shape[1]):
        enough = enough and load[task, resource] <= room[node, resource]
    return enough


@inlined
def fits_instead(load, room, task, leaver, node):
    """Whether a task fits a node once `leaver` has left it."""
    enough = True
    for resource in range(load.shape[1]):
        needed = load[task, resource] - load[leaver, resource]
        enough = enough and needed <= room[node, resource]
    return enough


@helper
def put(state, task, node):
    """Put a task that is nowhere on a node."""
    state.node[task] = node
    for resource in range(state.load.shape[1]):
        state.room[node, resource] -= state.load[task, resource]
        state.spare[node, resource] += state.load[task, resource]
    if state.group[task] >= 0:
        state.tally[state.group[task], node] += 1
    # first in the doubly linked list of the node's tasks
    head = state.first[node]
    state.after[task] = head
    state.before[task] = NOWHERE
    if head != NOWHERE:
        state.before[head] = task
    state.first[node] = task
    if pays(state.guard, task, node) > 0:
        for b in range(state.budget.shape[0]):
            state.budget[b] -= state.price[task, b]
    if state.guard.active:
        enter(state.guard, task, NOWHERE, node)


@helper
def take(state, task):
    """Take a task off its node."""
    node = state.node[task]
    state.node[task] = NOWHERE
    for resource in range(state.load.shape[1]):
        state.room[node, resource] += state.load[task, resource]
        state.spare[node, resource] -= state.load[task, resource]
    if state.group[task] >= 0:
        state.tally[state.group[task], node] -= 1
    # out of the list of the node's tasks
    ahead, behind = state.before[task], state.after[task]
    if ahead == NOWHERE:
        state.first[node] = behind
    else:
        state.after[ahead] = behind
    if behind != NOWHERE:
        state.before[behind] = ahead
    if pays(state.guard, task, node) > 0:
        for b in range(state.budget.shape[0]):
            state.budget[b] += state.price[task, b]
    if state.guard.active:
        enter(state.guard, task, node, NOWHERE)


@helper
def connection(state, task, node):
    """Traffic between a task and what stands on a node (itself not counted)."""
    total = 0.0
    for k in range(state.indptr[task], state.indptr[task + 1]):
        if state.node[state.other[k]] == node:
            total += state.rate[k]
    # streams in which all pairs have one rate: by the number of the other group's tasks here
    group = state.group[task]
    if group >= 0:
        for k in range(state.block_indptr[group], state.block_indptr[group + 1]):
            total += state.block_rate[k] * state.tally[state.block_other[k], node]
    return total


@helper
def connections(state, task, weight, touched):
    """Traffic between a task and every node.

    `weight` (N,) must be all zero and is filled; the nodes met are listed in `touched`; returns
    their number. Call `clear` afterwards.
    """
    num_touched = 0
    for k in range(state.indptr[task], state.indptr[task + 1]):
        node = state.node[state.other[k]]
        if node != NOWHERE:
            if weight[node] == 0.0:
                touched[num_touched] = node
                num_touched += 1
            weight[node] += state.rate[k]
    group = state.group[task]
    if group >= 0:
        for k in range(state.block_indptr[group], state.block_indptr[group + 1]):
            other, rate = state.block_other[k], state.block_rate[k]
            for node in range(state.room.shape[0]):
                if state.tally[other, node] > 0:
                    if weight[node] == 0.0:
                        touched[num_touched] = node
                        num_touched += 1
                    weight[node] += rate * state.tally[other, node]
    return num_touched


@helper
def clear(weight, touched, num_touched):
    """Set `weight` back to zero."""
    for k in range(num_touched):
        weight[touched[k]] = 0.0


@helper
def pair_rate(state, task, partner):
    """Traffic between two tasks; a binary search in the shorter row, then the blocks."""
    if (
        state.indptr[task + 1] - state.indptr[task]
        > state.indptr[partner + 1] - state.indptr[partner]
    ):
        task, partner = partner, task
    total = 0.0
    low, high = state.indptr[task], state.indptr[task + 1]
    # partners of a row ascend
    while low < high:
        middle = (low + high) // 2
        if state.other[middle] < partner:
            low = middle + 1
        else:
            high = middle
    if low < state.indptr[task + 1] and state.other[low] == partner:
        total += state.rate[low]
    group, wanted = state.group[task], state.group[partner]
    if group >= 0 and wanted >= 0:
        for k in range(state.block_indptr[group], state.block_indptr[group + 1]):
            if state.block_other[k] == wanted:
                total += state.block_rate[k]
    return total
