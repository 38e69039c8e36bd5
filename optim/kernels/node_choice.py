"""Counts of nodes as lists of allowed nodes: nodes are chosen beforehand for tasks of each kind.

Tasks that may not share a node are of different *parts*. Each part is given nodes of its own, no
more than its counts allow, and whoever places its tasks on these keeps all counts without knowing
of them. Other choices may have better plans, or plans at all: this serves heuristics and starts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.kernels.room import placing_masks, placing_room
from optim.rules import node_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.node_count import NodeCount

_MOST = 20_000_000
"""Tasks × nodes up to which lists of allowed nodes are written down."""


def on_chosen_nodes(instance: Instance, near: Ints | None = None) -> Instance:
    """Return the instance whose tasks may only use the nodes chosen for their part.

    The same one where nothing counts nodes, or lists would be too long.

    Parameters
    ----------
    near
        (T,) nodes that are chosen before others, -1 for none; the current ones if left out.
    """
    t = instance.num_tasks
    if not node_counts(instance) or not 0 < t * instance.num_nodes <= _MOST:
        return instance
    kind, _, target = placing_masks(instance)
    part, chosen = chosen_nodes(instance, near)
    both, which = np.unique(np.stack([part, kind]), axis=1, return_inverse=True)
    masks = chosen[both[0]] & target[both[1]]
    rows = [np.flatnonzero(mask).astype(np.int32) for mask in masks]
    which = which.reshape(-1)
    tasks = replace(
        instance.tasks,
        restricted=np.arange(t, dtype=np.int32),
        allowed_indptr=np.append(0, masks.sum(axis=1)[which].cumsum()).astype(np.int32),
        allowed_indices=np.concatenate([rows[row] for row in which.tolist()]),
    )
    return replace(instance, tasks=tasks)


def chosen_nodes(instance: Instance, near: Ints | None = None) -> tuple[NDArray[np.int64], Bools]:
    """(T,) part of each task, and (P, N) nodes of each part; one of all nodes without counts."""
    counts, tasks = node_counts(instance), instance.tasks
    if not counts or not instance.num_tasks:
        return np.zeros(len(tasks.node), np.int64), np.ones((1, instance.num_nodes), dtype=np.bool_)
    kind, _, target = placing_masks(instance)
    home = tasks.node if near is None or (near < 0).all() else near
    return nodes_of_parts(counts, tasks.load, placing_room(instance), home, kind, target)


def nodes_of_parts(
    counts: Sequence[NodeCount],
    load: Floats,
    room: Floats,
    home: NDArray[Any],
    kind: NDArray[Any],
    may: Bools,
) -> tuple[NDArray[np.int64], Bools]:
    """Choose nodes for each part: the part with least room for its load is given the next one.

    That is a node on which most of its tasks that have none yet may be, then on which most of its
    tasks are now, others not counted, then the largest.

    Parameters
    ----------
    counts
        Bounds on numbers of nodes, one at least.
    load, room
        (T, R) and (N, R).
    home
        (T,) current nodes; -1 for none.
    kind, may
        (T,) kind of each task and (K, N) where tasks of a kind may be.

    Returns
    -------
    tuple
        (T,) part of each task, and (P, N) nodes of each part; a node is of one part at most.
    """
    masks = np.array([tasks for count in counts for tasks in count.groups])
    example, alike = np.unique(masks, axis=1, return_index=True, return_inverse=True)[1:]
    apart = np.zeros((len(example), len(example)), dtype=np.bool_)
    for first, second in (count.groups for count in counts if len(count.groups) > 1):
        pair = np.outer(first[example], second[example])
        apart |= pair | pair.T
    part = np.unique(apart, axis=0, return_inverse=True)[1].reshape(-1)[alike.reshape(-1)]
    parts, n = int(part.max()) + 1, len(room)
    single = [count for count in counts if len(count.groups) == 1]
    of = np.zeros((len(single), parts), dtype=np.bool_)
    for row, count in zip(of, single, strict=True):
        row[part[count.groups[0]]] = True
    left = np.array([count.limit for count in single], dtype=np.int64)
    share = _shares(part, parts, load, room)
    waiting = np.zeros((parts, len(may)), dtype=np.int64)
    np.add.at(waiting, (part, kind), 1)
    usable = (waiting > 0).astype(np.int64) @ may > 0
    there = np.zeros((parts, n), dtype=np.int64)
    np.add.at(there, (part[home >= 0], home[home >= 0]), 1)
    drawn = 2 * there - there.sum(axis=0)
    chosen, reached = np.zeros((parts, n), dtype=np.bool_), np.zeros(parts)
    free = np.ones(n, dtype=np.bool_)
    while True:
        able = (usable & free).any(axis=1) & ~of[left <= 0].any(axis=0)
        if not able.any():
            return part, chosen
        p = int(np.where(able, reached, np.inf).argmin())
        nodes = np.flatnonzero(usable[p] & free)
        best = np.lexsort((-share[p, nodes], -drawn[p, nodes], -(waiting[p] @ may[:, nodes])))[0]
        node = int(nodes[best])
        chosen[p, node], free[node] = True, False
        reached[p] += share[p, node]
        waiting[p, may[:, node]] = 0
        left -= of[:, p]


def _shares(part: NDArray[np.int64], parts: int, load: Floats, room: Floats) -> Floats:
    """(P, N) of the load of a part, how much a node has room for; 1 where it needs none."""
    needed = np.zeros((parts, load.shape[1]))
    np.add.at(needed, part, load)
    share = np.ones((parts, len(room)))
    for r in range(load.shape[1]):
        some = needed[:, r] > 0
        own = np.maximum(room[None, :, r], 0.0) / needed[some, r, None]
        share[some] = np.minimum(share[some], own)
    return share
