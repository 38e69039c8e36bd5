"""Compiled kernel of Flux: passes over pairs of nodes, most loaded with least loaded.

Each node's key groups are a doubly linked list, so that a move costs the same at a million key
groups as at ten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Loads are compared up to this part of the mean share: rounding must not cause a move.
ROUNDING = 1e-12


@kernel
def flux(
    load: NDArray[np.float64],
    cost: NDArray[np.float64],
    home: NDArray[np.int64],
    weight: NDArray[np.float64],
    share: NDArray[np.float64],
    leaving: NDArray[np.bool_],
    node_load: NDArray[np.float64],
    usage: NDArray[np.float64],
    room: NDArray[np.float64],
    spare: NDArray[np.float64],
    row_of: NDArray[np.int64],
    allowed_indptr: NDArray[np.int64],
    allowed_nodes: NDArray[np.int64],
    max_moves: int,
    max_cost: float,
    max_passes: int,
) -> tuple[NDArray[np.int64], int]:
    """Return the placement and the number of passes.

    Parameters
    ----------
    load, cost, home
        (T,) of the key groups.
    weight, share, leaving
        (N,) capacity weight, load the node should have (0 for a leaving one), marked for removal.
    node_load
        (N,) load now, background included.
    usage, room, spare
        (T, E), (N, E), (N, E): load of the binding resources, what may still be added to a node,
        and what may be taken from it.
    row_of, allowed_indptr, allowed_nodes
        Where restricted key groups may go; row −1 is anywhere.
    max_moves, max_cost
        Budgets; a key group moves at most once, so moves and migrations are the same.
    max_passes
        Passes over all pairs.
    """
    t, n = load.shape[0], weight.shape[0]
    place = home.copy()
    load_now, room_now, spare_now = node_load.copy(), room.copy(), spare.copy()
    first, after, before = _lists(home, n)
    moves_left, cost_left, passes = max_moves, max_cost, 0
    rounding = ROUNDING * (np.abs(share).max() + 1.0)
    while moves_left > 0 and passes < max_passes and t > 0:
        passes += 1
        senders = np.argsort(-(load_now - share) / weight, kind="mergesort")
        receivers = senders[::-1]
        receivers = receivers[~leaving[receivers]]
        moved = 0
        for rank in range(min(n, receivers.shape[0])):
            a, b = senders[rank], receivers[rank]
            gap = (load_now[a] - share[a]) / weight[a] - (load_now[b] - share[b]) / weight[b]
            most = 2.0 * gap / (1.0 / weight[a] + 1.0 / weight[b])
            if a == b or most <= rounding:
                break
            k = _biggest(
                a, b, most - rounding, cost_left, first, after, load, cost, home, usage,
                room_now, spare_now, row_of, allowed_indptr, allowed_nodes,
            )  # fmt: skip
            if k < 0:
                continue
            _unlink(k, a, first, after, before)
            place[k] = b
            load_now[a] -= load[k]
            load_now[b] += load[k]
            for e in range(usage.shape[1]):
                room_now[a, e] += usage[k, e]
                spare_now[a, e] -= usage[k, e]
                room_now[b, e] -= usage[k, e]
                spare_now[b, e] += usage[k, e]
            cost_left -= cost[k]
            moves_left -= 1
            moved += 1
            if moves_left == 0:
                break
        if moved == 0:
            break
    return place, passes


@helper
def _lists(
    home: NDArray[np.int64], n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return first (N,), next and previous (T,) of each node's list of key groups, by index."""
    t = home.shape[0]
    first = np.full(n, -1, np.int64)
    after = np.full(t, -1, np.int64)
    before = np.full(t, -1, np.int64)
    for k in range(t - 1, -1, -1):
        i = home[k]
        after[k] = first[i]
        if first[i] >= 0:
            before[first[i]] = k
        first[i] = k
    return first, after, before


@helper
def _unlink(
    k: int,
    node: int,
    first: NDArray[np.int64],
    after: NDArray[np.int64],
    before: NDArray[np.int64],
) -> None:
    """Take a key group out of its node's list: a key group that has moved moves no more."""
    if before[k] >= 0:
        after[before[k]] = after[k]
    else:
        first[node] = after[k]
    if after[k] >= 0:
        before[after[k]] = before[k]


@helper
def _biggest(
    a: int,
    b: int,
    most: float,
    cost_left: float,
    first: NDArray[np.int64],
    after: NDArray[np.int64],
    load: NDArray[np.float64],
    cost: NDArray[np.float64],
    home: NDArray[np.int64],
    usage: NDArray[np.float64],
    room: NDArray[np.float64],
    spare: NDArray[np.float64],
    row_of: NDArray[np.int64],
    allowed_indptr: NDArray[np.int64],
    allowed_nodes: NDArray[np.int64],
) -> int:
    """Return the biggest key group of node a below `most` that may go to node b, −1 if none."""
    best, best_load = -1, 0.0
    k = first[a]
    while k >= 0:
        fits = best_load < load[k] < most and cost[k] <= cost_left
        if fits and row_of[k] >= 0:
            row = row_of[k]
            fits = False
            for at in range(allowed_indptr[row], allowed_indptr[row + 1]):
                if allowed_nodes[at] == b:
                    fits = True
                    break
        if fits:
            for e in range(usage.shape[1]):
                if usage[k, e] > room[b, e] or usage[k, e] > spare[a, e]:
                    fits = False
                    break
        if fits:
            best, best_load = k, load[k]
        k = after[k]
    return best
