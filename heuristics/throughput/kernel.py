"""Annealing of the fullest places, compiled: moves and exchanges judged by what they change alone.

How full places are is summed up as Σ (u / reference)^POWER: the fullest count for nearly all, and
of two plans with the same worst place that is better whose next ones are emptier. A change touches
its two nodes, and the links of several nodes that enclose one of the two only.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.throughput.problem import NEVER, share_of
from optim.kernels.guard import NOBODY, affords, enter, may_enter, pays
from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CANDIDATES = 3


class Fixed(NamedTuple):
    """What a search never changes; T tasks, N nodes, P places, R resources, B full blocks.

    Attributes
    ----------
    load, cost
        (T, R) loads; (2, R) what a unit of traffic costs its sender and its receiver.
    hard, floor, room
        (N, R) largest, smallest load, and what saturates.
    link, barred
        (P, 3), (N,) as in `formulations.throughput.problem`.
    around_starts, around
        Links of several nodes that enclose each node, as places, in CSR form.
    inside
        (P - N, N) their nodes.
    starts, other, rate
        Neighbours of each task in CSR form; (E, 2) what it sends to them and what it receives.
    block_starts, blocks, block_rate
        Full blocks of each task in CSR form: 2·block where it sends, one more where it receives;
        (B,) rate of a pair.
    total
        (T, 2) all that a task sends, and receives.
    kind, may
        (T,) kind of restriction; (kinds, N) where tasks of it may be.
    price, budget
        (T, K) what a migration takes of each budget of moves; (K,) what there is of it.
    """

    load: NDArray[np.float64]
    cost: NDArray[np.float64]
    hard: NDArray[np.float64]
    floor: NDArray[np.float64]
    room: NDArray[np.float64]
    link: NDArray[np.float64]
    barred: NDArray[np.bool_]
    around_starts: NDArray[np.int64]
    around: NDArray[np.int64]
    inside: NDArray[np.bool_]
    starts: NDArray[np.int64]
    other: NDArray[np.int64]
    rate: NDArray[np.float64]
    block_starts: NDArray[np.int64]
    blocks: NDArray[np.int64]
    block_rate: NDArray[np.float64]
    total: NDArray[np.float64]
    kind: NDArray[np.int64]
    may: NDArray[np.bool_]
    price: NDArray[np.float64]
    budget: NDArray[np.float64]


class State(NamedTuple):
    """What a search changes in place.

    Attributes
    ----------
    node, held
        (T,) node of each task; (N,) tasks on each.
    used, crossing
        (N, R) loads of the tasks; (P, 2) what leaves and what enters each place.
    members
        (2·B, P) senders and receivers of each block in each place.
    full
        (P,) how full each place is.
    left
        (K,) of each budget of moves.
    """

    node: NDArray[np.int64]
    held: NDArray[np.int64]
    used: NDArray[np.float64]
    crossing: NDArray[np.float64]
    members: NDArray[np.int64]
    full: NDArray[np.float64]
    left: NDArray[np.float64]


@helper
def _fullness(fixed, used, held, p, leaves, enters):
    """How full a place would be; `used` is the row of a node, and not looked at for others."""
    noise = 1e-9
    leaves = leaves if leaves > noise else 0.0
    enters = enters if enters > noise else 0.0
    most = share_of(leaves, fixed.link[p, 0])
    most = max(most, share_of(enters, fixed.link[p, 1]))
    most = max(most, share_of(leaves + enters, fixed.link[p, 2]))
    if p < len(fixed.room):
        if fixed.barred[p] and held > 0:
            return NEVER
        if held > 0:
            for r in range(fixed.room.shape[1]):
                need = used[r] + fixed.cost[0, r] * leaves + fixed.cost[1, r] * enters
                most = max(most, share_of(need, fixed.room[p, r]))
    return most


@helper
def fits_node(fixed, used, p, leaves, enters):
    """Whether a node with these loads keeps what binds."""
    for r in range(fixed.hard.shape[1]):
        need = used[r] + fixed.cost[0, r] * max(0.0, leaves) + fixed.cost[1, r] * max(0.0, enters)
        if need > fixed.hard[p, r] or need < fixed.floor[p, r]:
            return False
    return True


@helper
def _with(fixed, state, task, p):
    """Return what a task sends to, and receives from, those in a place."""
    sent, got = 0.0, 0.0
    n = len(fixed.room)
    for e in range(fixed.starts[task], fixed.starts[task + 1]):
        at = state.node[fixed.other[e]]
        if at == p or (p >= n and at >= 0 and fixed.inside[p - n, at]):
            sent += fixed.rate[e, 0]
            got += fixed.rate[e, 1]
    for e in range(fixed.block_starts[task], fixed.block_starts[task + 1]):
        side = fixed.blocks[e]
        if side % 2 == 0:
            sent += fixed.block_rate[side // 2] * state.members[side + 1, p]
        else:
            got += fixed.block_rate[side // 2] * state.members[side - 1, p]
    return sent, got


@helper
def _moved(fixed, state, task, p, sign):
    """Return what leaves and enters a place once a task has joined (+1) or left (-1) it."""
    sent, got = _with(fixed, state, task, p)
    leaves = state.crossing[p, 0] + sign * (fixed.total[task, 0] - sent - got)
    enters = state.crossing[p, 1] + sign * (fixed.total[task, 1] - got - sent)
    return leaves, enters


@helper
def _touches(fixed, p, node):
    n = len(fixed.room)
    return fixed.inside[p - n, node]


@helper
def _power(full, reference):
    share = full / reference
    share = share if share < 1e6 else 1e6
    share *= share
    share *= share
    share *= share
    return share * share


@helper
def put(fixed, state, guard, task, target):
    """Move a task; counts, loads, traffic and fullness follow."""
    source = state.node[task]
    for sign, node, other in ((-1, source, target), (1, target, source)):
        leaves, enters = _moved(fixed, state, task, node, sign)
        state.crossing[node, 0], state.crossing[node, 1] = leaves, enters
        for e in range(fixed.around_starts[node], fixed.around_starts[node + 1]):
            p = fixed.around[e]
            if not _touches(fixed, p, other):
                leaves, enters = _moved(fixed, state, task, p, sign)
                state.crossing[p, 0], state.crossing[p, 1] = leaves, enters
    for sign, node, other in ((-1, source, target), (1, target, source)):
        for e in range(fixed.block_starts[task], fixed.block_starts[task + 1]):
            state.members[fixed.blocks[e], node] += sign
            for k in range(fixed.around_starts[node], fixed.around_starts[node + 1]):
                p = fixed.around[k]
                if not _touches(fixed, p, other):
                    state.members[fixed.blocks[e], p] += sign
        state.held[node] += sign
        for r in range(fixed.load.shape[1]):
            state.used[node, r] += sign * fixed.load[task, r]
    state.node[task] = target
    paid = pays(guard, task, target) - pays(guard, task, source)
    for b in range(state.left.shape[0]):
        state.left[b] -= paid * fixed.price[task, b]
    enter(guard, task, source, target)
    for node, other in ((source, target), (target, source)):
        _refill(fixed, state, node)
        for k in range(fixed.around_starts[node], fixed.around_starts[node + 1]):
            if not _touches(fixed, fixed.around[k], other):
                _refill(fixed, state, fixed.around[k])


@helper
def _refill(fixed, state, p):
    row = state.used[p] if p < len(fixed.room) else state.used[0]
    held = state.held[p] if p < len(fixed.room) else 0
    state.full[p] = _fullness(fixed, row, held, p, state.crossing[p, 0], state.crossing[p, 1])


@helper
def _sum_of(fixed, state, first, second, reference):
    """Sum up what a change between two nodes touches."""
    total = 0.0
    for node, other in ((first, second), (second, first)):
        total += _power(state.full[node], reference)
        for k in range(fixed.around_starts[node], fixed.around_starts[node + 1]):
            p = fixed.around[k]
            if not _touches(fixed, p, other):
                total += _power(state.full[p], reference)
    return total


@helper
def _worth(fixed, state, task, target, reference, scratch):
    """Return by how much the sum grows when a task moves; ``inf`` where a node's limits forbid."""
    source = state.node[task]
    total = -_sum_of(fixed, state, source, target, reference)
    for sign, node, other in ((-1, source, target), (1, target, source)):
        leaves, enters = _moved(fixed, state, task, node, sign)
        for r in range(len(scratch)):
            scratch[r] = state.used[node, r] + sign * fixed.load[task, r]
        if not fits_node(fixed, scratch, node, leaves, enters):
            return np.inf
        held = state.held[node] + sign
        total += _power(_fullness(fixed, scratch, held, node, leaves, enters), reference)
        for k in range(fixed.around_starts[node], fixed.around_starts[node + 1]):
            p = fixed.around[k]
            if not _touches(fixed, p, other):
                leaves, enters = _moved(fixed, state, task, p, sign)
                total += _power(_fullness(fixed, scratch, 0, p, leaves, enters), reference)
    return total


@helper
def affordable(fixed, state, guard, first, to_first, second, to_second):
    """Whether the moves of a task, and of another unless there is none, keep the budgets."""
    paid, back = pays(guard, first, to_first) - pays(guard, first, state.node[first]), 0
    if second != NOBODY:
        back = pays(guard, second, to_second) - pays(guard, second, state.node[second])
    return affords(fixed.price, state.left, first, paid, second, back)


@helper
def _fullest_task(state, count):
    """Return, of some random tasks, the one on the fullest node."""
    best = np.random.randint(count)  # noqa: NPY002
    for _ in range(_CANDIDATES):
        other = np.random.randint(count)  # noqa: NPY002
        if state.full[state.node[other]] > state.full[state.node[best]]:
            best = other
    return best


@helper
def _target_of(fixed, state, task):
    """Return a node to try: that of one whom the task talks to, or the emptiest of a few."""
    degree = fixed.starts[task + 1] - fixed.starts[task]
    if degree > 0 and np.random.random() < 0.5:  # noqa: NPY002
        return state.node[fixed.other[fixed.starts[task] + np.random.randint(degree)]]  # noqa: NPY002
    nodes = len(fixed.room)
    best = np.random.randint(nodes)  # noqa: NPY002
    if np.random.random() < 0.5:  # noqa: NPY002
        for _ in range(_CANDIDATES):
            other = np.random.randint(nodes)  # noqa: NPY002
            if state.full[other] < state.full[best]:
                best = other
    return best


@helper
def may_change(fixed, state, guard, task, target, other):
    """Whether a task may go to `target`, and `other`, where there is one, from there to its node.

    By where tasks may be, budgets and place rules; what nodes hold is not looked at.
    """
    source = state.node[task]
    swaps = other != NOBODY
    if target == source or not fixed.may[fixed.kind[task], target]:
        return False
    if swaps and not fixed.may[fixed.kind[other], source]:
        return False
    if not affordable(fixed, state, guard, task, target, other, source):
        return False
    if not guard.active:
        return True
    if not may_enter(guard, task, source, target, other):
        return False
    return not swaps or may_enter(guard, other, target, source, task)


@helper
def holds(fixed, state, node):
    """Whether a node keeps what binds."""
    leaves, enters = state.crossing[node, 0], state.crossing[node, 1]
    return fits_node(fixed, state.used[node], node, leaves, enters)


@kernel(steps=lambda steps: 50 * steps)
def anneal(fixed, state, guard, best, reference, hot, cold, steps, seed):
    """Walk a number of steps while it cools; the best placement is written to `best`.

    Returns
    -------
    float
        How full its fullest place is.
    """
    np.random.seed(seed)  # noqa: NPY002
    tasks = len(state.node)
    scratch = np.zeros(fixed.load.shape[1])
    highest = state.full.max()
    record = highest
    best[:] = state.node
    for step in range(steps):
        heat = hot * (cold / hot) ** (step / steps)
        task = _fullest_task(state, tasks)
        source = state.node[task]
        other = NOBODY
        if np.random.random() < 0.5:  # noqa: NPY002
            target = _target_of(fixed, state, task)
        else:
            other = np.random.randint(tasks)  # noqa: NPY002
            target = state.node[other]
        if not may_change(fixed, state, guard, task, target, other):
            continue
        before = max(state.full[source], state.full[target])
        if other == NOBODY:
            grown = _worth(fixed, state, task, target, reference, scratch)
            if grown > 0.0 and np.random.random() >= np.exp(-grown / heat):  # noqa: NPY002
                continue
            put(fixed, state, guard, task, target)
        else:
            grown = -_sum_of(fixed, state, source, target, reference)
            put(fixed, state, guard, task, target)
            put(fixed, state, guard, other, source)
            grown += _sum_of(fixed, state, source, target, reference)
            kept = holds(fixed, state, source) and holds(fixed, state, target)
            if not kept or (grown > 0.0 and np.random.random() >= np.exp(-grown / heat)):  # noqa: NPY002
                put(fixed, state, guard, other, target)
                put(fixed, state, guard, task, source)
                continue
        after = max(state.full[source], state.full[target])
        if len(state.full) > len(fixed.room):
            highest = state.full.max()
        elif after >= highest:
            highest = after
        elif before >= highest:
            highest = state.full.max()
        if highest < record * (1 - 1e-9):
            record = highest
            best[:] = state.node
    return record


@kernel(steps=lambda steps: 50 * steps)
def gather(fixed, state, guard, best, most, hot, cold, steps, seed):
    """Walk towards less traffic between nodes while no place is fuller than `most`.

    Returns
    -------
    float
        How much less there is in the best placement, which is written to `best`.
    """
    np.random.seed(seed)  # noqa: NPY002
    tasks, several = len(state.node), len(state.full) > len(fixed.room)
    grown, record = 0.0, 0.0
    best[:] = state.node
    for step in range(steps):
        heat = hot * (cold / hot) ** (step / steps)
        task = np.random.randint(tasks)  # noqa: NPY002
        source = state.node[task]
        other = NOBODY
        if np.random.random() < 0.5:  # noqa: NPY002
            target = _target_of(fixed, state, task)
        else:
            other = np.random.randint(tasks)  # noqa: NPY002
            target = state.node[other]
        if not may_change(fixed, state, guard, task, target, other):
            continue
        # of all nodes, only what leaves these two changes
        more = -(state.crossing[source, 0] + state.crossing[target, 0])
        put(fixed, state, guard, task, target)
        if other != NOBODY:
            put(fixed, state, guard, other, source)
        more += state.crossing[source, 0] + state.crossing[target, 0]
        kept = holds(fixed, state, source) and holds(fixed, state, target)
        kept = kept and state.full[source] <= most and state.full[target] <= most
        kept = kept and (not several or state.full.max() <= most)
        if not kept or (more > 0.0 and np.random.random() >= np.exp(-more / heat)):  # noqa: NPY002
            if other != NOBODY:
                put(fixed, state, guard, other, target)
            put(fixed, state, guard, task, source)
            continue
        grown += more
        if grown < record - 1e-9 * hot:
            record = grown
            best[:] = state.node
    return -record
