"""Simulated annealing on the traffic between nodes, by moves and swaps, compiled.

For tasks that talk to few: the few are looked at; for those that talk to many there is
`heuristics.task_allocation.anneal_table`. What runs for every proposal stands in the kernel itself:
a call counts references to every array it is given. Tasks are proposed in turn, not drawn: their
rows are read in order, which the cache serves, and each is tried as often as the others.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from optim.kernels.descent import drawn
from optim.kernels.draws import accepts, draw
from optim.kernels.guard import NOBODY, affords, enter, may_enter, pays
from optim.kernels.state import NOWHERE, fits, fits_instead, pair_rate
from optim.util.compiled import helper, kernel

TRIES = 4
"""Partners asked for a swap before a proposal is given up."""


@kernel(steps=lambda proposals: 20 * proposals)
def anneal(state, tasks, proposals, hot, cold, random):
    """Propose moves and swaps, worsening ones with a chance that falls.

    limits hold as by `optim.kernels.descent.descend`.

    Parameters
    ----------
    state
        `node`, `room`, `spare`, `tally`, `budget` and `guard` change in place; the chains of tasks
        do not, so a new state is to be made for what needs these.
    tasks
        The tasks that are proposed, in turn from a random one; others move by swaps only.
    proposals
        How many to make.
    hot, cold
        First and last temperature, in units of traffic.
    random
        Of the proposals (`optim.kernels.draws.seeded`); changes in place.

    Returns
    -------
    float
        Traffic gained, which may be negative.
    """
    at, room, load, target, kind = state.node, state.room, state.load, state.target, state.kind
    spare, price, budget, guard = state.spare, state.price, state.budget, state.guard
    indptr, partner = state.indptr, state.other
    members, size, place = _member_lists(at, len(room))
    gained = 0.0
    temperature = hot
    turn = draw(random, len(tasks))
    step = (cold / hot) ** (1024.0 / max(proposals, 1024))
    for proposal in range(proposals):
        if proposal % 1024 == 1023:
            temperature *= step
        task = tasks[turn]
        turn = turn + 1 if turn + 1 < len(tasks) else 0
        source = at[task]
        start, stop = indptr[task], indptr[task + 1]
        if stop == start:
            node = at[draw(random, len(at))]
        else:
            node = at[partner[start + draw(random, stop - start)]]
        if node == source or min(node, source) == NOWHERE or not target[kind[task], node]:
            continue
        change = drawn(state, task, node, source)
        other = NOBODY
        if not fits(load, room, task, node) or size[node] == members.shape[1]:
            for _ in range(TRIES if size[node] > 0 else 0):
                found = members[node, draw(random, size[node])]
                if (
                    target[kind[found], source]
                    and fits_instead(load, room, task, found, node)
                    and fits_instead(load, room, found, task, source)
                ):
                    other = found
                    break
            if other == NOBODY:
                continue
            change += drawn(state, other, source, node) - 2.0 * pair_rate(state, task, other)
        if not accepts(random, -change, temperature):
            continue
        if not may_go(load, spare, price, budget, guard, at, task, other, node):
            continue
        gained += change
        for k in range(1 if other == NOBODY else 2):
            mover, leaves, comes = (task, source, node) if k == 0 else (other, node, source)
            carry(state, mover, leaves, comes)
        if other == NOBODY:
            size[source] -= 1
            last = members[source, size[source]]
            members[source, place[task]] = last
            place[last] = place[task]
            members[node, size[node]] = task
            place[task] = size[node]
            size[node] += 1
        else:
            members[source, place[task]] = other
            members[node, place[other]] = task
            place[task], place[other] = place[other], place[task]
    return gained


@helper
def carry(state, task, source, node):
    """Let a task go from one node to another in all that is counted but the chains."""
    state.node[task] = node
    for resource in range(state.load.shape[1]):
        amount = state.load[task, resource]
        state.room[source, resource] += amount
        state.room[node, resource] -= amount
        state.spare[source, resource] -= amount
        state.spare[node, resource] += amount
    if state.group[task] >= 0:
        state.tally[state.group[task], source] -= 1
        state.tally[state.group[task], node] += 1
    paid = pays(state.guard, task, node) - pays(state.guard, task, source)
    for b in range(state.budget.shape[0]):
        state.budget[b] -= paid * state.price[task, b]
    if state.guard.active:
        enter(state.guard, task, source, node)


@helper
def may_go(load, spare, price, budget, guard, at, task, other, node):
    """Whether lower bounds, budget, sets and inflow let a task go, and `other` come for it."""
    source = at[task]
    for resource in range(load.shape[1]):
        growth = load[task, resource]
        if other != NOBODY:
            growth -= load[other, resource]
        if growth > 0.0 and growth > spare[source, resource]:
            return False
        if growth < 0.0 and -growth > spare[node, resource]:
            return False
    if budget.shape[0] > 0:
        paid, back = pays(guard, task, node) - pays(guard, task, source), 0
        if other != NOBODY:
            back = pays(guard, other, source) - pays(guard, other, node)
        if not affords(price, budget, task, paid, other, back):
            return False
    if not guard.active:
        return True
    if not may_enter(guard, task, source, node, other):
        return False
    return other == NOBODY or may_enter(guard, other, node, source, task)


@helper
def _member_lists(at, num_nodes):
    """(N, M) tasks of each node, (N,) how many, (T,) position in its node's list."""
    size = np.zeros(num_nodes, np.int64)
    for node in at:
        if node != NOWHERE:
            size[node] += 1
    members = np.empty((num_nodes, 2 * size.max() + 8), np.int32)
    place = np.zeros(len(at), np.int64)
    size[:] = 0
    for task in range(len(at)):
        node = at[task]
        if node != NOWHERE:
            members[node, size[node]] = task
            place[task] = size[node]
            size[node] += 1
    return members, size, place
