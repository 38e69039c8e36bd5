"""Simulated annealing where tasks talk to many: moves and swaps looked up in a table, compiled.

The table of node × task holds the traffic of each task with what stands on each node, and accepted
moves keep it up. A proposal costs one random number and at most five looks, and most are refused by
one comparison, before limits are asked.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from heuristics.task_allocation.anneal import carry, may_go
from optim.kernels.guard import NOBODY
from optim.kernels.state import NOWHERE, fits, fits_instead
from optim.util.compiled import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats

MOVES = np.uint64(77)
"""Proposals of 256 that move one task; the others swap two."""

ANYWHERE = np.uint64(13)
"""Of these, to any node, so that empty ones are found; the others to that of some task."""

_CHANCES = 4096
CHANCES = np.log((np.arange(_CHANCES) + 0.5) / _CHANCES)
"""Logarithms of what acceptance is drawn from: a loss of traffic is accepted up to minus one of
these times the temperature, as often as its exponential asks."""

# of 64 bits 22 choose the task, 22 the other, 12 the chance, 8 which of move and swap
_TASK, _OTHER, _CHANCE = np.uint64(42), np.uint64(20), np.uint64(8)
_BITS, _BELOW = np.uint64(22), np.uint64((1 << 22) - 1)
_CHANCE_BITS, _WHICH_BITS = np.uint64(_CHANCES - 1), np.uint64(255)

# the shifts of G. Marsaglia, "Xorshift RNGs", J. Stat. Softw. 8 (2003), doi:10.18637/jss.v008.i14
_LEFT, _RIGHT, _AGAIN = np.uint64(13), np.uint64(7), np.uint64(17)


def matrix_of(instance: Instance) -> Floats:
    """(T, T) traffic of the task pairs, both directions added."""
    flows, count = instance.flows, instance.num_tasks
    matrix = np.zeros((count, count))
    np.add.at(matrix, (flows.source, flows.target), flows.rate)
    for block in flows.blocks:
        matrix[np.ix_(block.sources, block.targets)] += block.pair_rate
    return matrix + matrix.T


def table_of(matrix: Floats, node: NDArray[Any], num_nodes: int) -> Floats:
    """(N, T) traffic of each task with what stands on each node; -1 is nowhere."""
    table = np.zeros((num_nodes, len(node)))
    np.add.at(table, node[node >= 0], matrix[node >= 0])
    return table


@kernel(steps=lambda proposals: 5 * proposals)
def anneal_by_table(state, matrix, table, chances, tasks, proposals, hot, cold, random):
    """Propose moves and swaps, worsening ones with a chance that falls.

    limits hold as by `optim.kernels.descent.descend`.

    Parameters
    ----------
    state
        Changes as by `heuristics.task_allocation.anneal.anneal`.
    matrix, table
        `matrix_of` the instance and `table_of` the placement; the latter changes in place.
    chances
        `CHANCES`.
    tasks
        The tasks that are proposed; others move by swaps only.
    proposals
        How many to make.
    hot, cold
        First and last temperature, in units of traffic.
    random
        (1,) of its generator (`optim.kernels.draws.seeded`); changes in place.

    Returns
    -------
    float
        Traffic gained, which may be negative.
    """
    at, room, load, target, kind = state.node, state.room, state.load, state.target, state.kind
    spare, price, budget, guard = state.spare, state.price, state.budget, state.guard
    num_chosen, num_tasks = np.uint64(len(tasks)), np.uint64(len(at))
    num_nodes = np.uint64(len(room))
    x = random[0]
    gained = 0.0
    temperature = hot
    step = (cold / hot) ** (1024.0 / max(proposals, 1024))
    for proposal in range(proposals):
        if proposal % 1024 == 1023:
            temperature *= step
        x ^= x << _LEFT
        x ^= x >> _RIGHT
        x ^= x << _AGAIN
        drawn = (x >> _OTHER) & _BELOW
        task = tasks[np.int64(((x >> _TASK) * num_chosen) >> _BITS)]
        other = np.int64((drawn * num_tasks) >> _BITS)
        least = chances[np.int64((x >> _CHANCE) & _CHANCE_BITS)] * temperature
        source, node = at[task], at[other]
        moving = (x & _WHICH_BITS) < MOVES
        if (x & _WHICH_BITS) < ANYWHERE:
            node = np.int64((drawn * num_nodes) >> _BITS)
        if node == source or min(node, source) == NOWHERE:
            continue
        change = table[node, task] - table[source, task]
        if not moving:
            change += table[source, other] - table[node, other] - 2.0 * matrix[task, other]
        if change < least or not target[kind[task], node]:
            continue
        if moving:
            other = NOBODY
            if not fits(load, room, task, node):
                continue
        elif (
            not target[kind[other], source]
            or not fits_instead(load, room, task, other, node)
            or not fits_instead(load, room, other, task, source)
        ):
            continue
        if not may_go(load, spare, price, budget, guard, at, task, other, node):
            continue
        gained += change
        carry(state, task, source, node)
        comes, leaves, row = table[node], table[source], matrix[task]
        if moving:
            for t in range(len(row)):
                comes[t] += row[t]
                leaves[t] -= row[t]
        else:
            carry(state, other, node, source)
            back = matrix[other]
            for t in range(len(row)):
                amount = row[t] - back[t]
                comes[t] += amount
                leaves[t] -= amount
    random[0] = x
    return gained
