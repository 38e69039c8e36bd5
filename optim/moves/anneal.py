"""Simulated annealing on the traffic between nodes, by moves and swaps towards partners, compiled.

Source: S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, "Optimization by simulated annealing", Science
220 (1983), doi:10.1126/science.220.4598.671, with the moves of `optim.moves.descent`.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from optim.moves.board import NOWHERE, fits, fits_instead, pair_rate, put, take
from optim.moves.descent import drawn, exchange, may_exchange, may_leave
from optim.util.compiled import helper, kernel

TRIES = 4
"""Partners asked for a swap before a proposal is given up."""


@kernel
def anneal(board, proposals, hot, cold, seed):
    """Propose moves towards partners, worsening ones with a chance that falls.

    Limits are kept as by `optim.moves.descent.descend`.

    Parameters
    ----------
    board
        Changed in place.
    proposals
        How many moves to propose.
    hot, cold
        First and last temperature, in units of traffic.
    seed
        Of the proposals.

    Returns
    -------
    float
        Traffic gained, which may be negative.
    """
    np.random.seed(seed)  # noqa: NPY002  the generator that compiled code has
    members, size, place = _member_lists(board)
    gained = 0.0
    temperature = hot
    step = (cold / hot) ** (1024.0 / max(proposals, 1024))
    num_tasks = len(board.node)
    for proposal in range(proposals):
        if proposal % 1024 == 1023:
            temperature *= step
        task = np.random.randint(num_tasks)  # noqa: NPY002
        node = _towards(board, task)
        source = board.node[task]
        if node == source or min(node, source) == NOWHERE:
            continue
        if not board.target[board.kind[task], node]:
            continue
        change = drawn(board, task, node, source)
        if fits(board.load, board.room, task, node):
            if (
                size[node] < members.shape[1]
                and _accepted(change, temperature)
                and may_leave(board, task, node)
            ):
                take(board, task)
                put(board, task, node)
                _relist(members, size, place, task, source, node)
                gained += change
            continue
        for _ in range(TRIES):
            if size[node] == 0:
                break
            other = members[node, np.random.randint(size[node])]  # noqa: NPY002
            if (
                board.target[board.kind[other], source]
                and fits_instead(board.load, board.room, task, other, node)
                and fits_instead(board.load, board.room, other, task, source)
            ):
                both = change + drawn(board, other, source, node)
                both -= 2.0 * pair_rate(board, task, other)
                if _accepted(both, temperature) and may_exchange(board, task, other):
                    exchange(board, task, other)
                    _trade(members, place, task, other, source, node)
                    gained += both
                break
    return gained


@helper
def _accepted(change, temperature):
    return change >= 0.0 or np.random.random() < np.exp(change / temperature)  # noqa: NPY002


@helper
def _towards(board, task):
    """Return the node of a random partner; of a random task when there is none."""
    start, stop = board.indptr[task], board.indptr[task + 1]
    if stop > start:
        return board.node[board.other[np.random.randint(start, stop)]]  # noqa: NPY002
    return board.node[np.random.randint(len(board.node))]  # noqa: NPY002


@helper
def _member_lists(board):
    """(N, M) tasks of each node, (N,) how many, (T,) position in its node's list."""
    num_nodes = board.room.shape[0]
    size = np.zeros(num_nodes, np.int64)
    for task in range(len(board.node)):
        if board.node[task] != NOWHERE:
            size[board.node[task]] += 1
    width = 2 * size.max() + 8
    members = np.empty((num_nodes, width), np.int32)
    place = np.zeros(len(board.node), np.int64)
    size[:] = 0
    for task in range(len(board.node)):
        node = board.node[task]
        if node != NOWHERE:
            members[node, size[node]] = task
            place[task] = size[node]
            size[node] += 1
    return members, size, place


@helper
def _relist(members, size, place, task, source, node):
    """Take a task from one list to another."""
    size[source] -= 1
    last = members[source, size[source]]
    members[source, place[task]] = last
    place[last] = place[task]
    members[node, size[node]] = task
    place[task] = size[node]
    size[node] += 1


@helper
def _trade(members, place, task, other, source, node):
    """Let two tasks change their places in two lists."""
    members[source, place[task]] = other
    members[node, place[other]] = task
    place[task], place[other] = place[other], place[task]
