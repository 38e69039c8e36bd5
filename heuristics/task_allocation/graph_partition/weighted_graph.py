"""The graph a partitioner sees: integer weights for tasks, pairs and blocks, one number a task.

Partitioners balance one weight a vertex. With several resources the weights are added, each
resource in proportion to how tight it is; what that leaves out is repaired afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optim.moves.room import placing_room

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats

_MOST = 2**30
"""Sums of integer weights stay below this, so that 32 bits hold them."""

ROOM_TO_MOVE = 1.03
"""Parts are asked for so that together they offer this much of the load: room for good cuts."""


@dataclass(frozen=True, eq=False)
class WeightedGraph:
    """A job as a graph.

    Attributes
    ----------
    indptr, other
        CSR form, each pair in both directions.
    pair_weight
        (2 E,) integer rates, at least 1.
    task_weight
        (T,) integer loads, rounded up.
    node_weight
        (N,) integer room of every node, rounded down; 0 on leaving ones, where others stay.
    """

    indptr: NDArray[np.int32]
    other: NDArray[np.int32]
    pair_weight: NDArray[np.int32]
    task_weight: NDArray[np.int64]
    node_weight: NDArray[np.int64]

    def permuted(self, order: NDArray[np.int64]) -> WeightedGraph:
        """Return the same graph with its vertices in another order: another start for an engine."""
        from scipy.sparse import csr_array

        size = len(self.task_weight)
        matrix = csr_array((self.pair_weight, self.other, self.indptr), shape=(size, size))
        matrix = matrix[order][:, order]
        matrix.sort_indices()
        return WeightedGraph(
            matrix.indptr.astype(np.int32),
            matrix.indices.astype(np.int32),
            matrix.data.astype(np.int32),
            self.task_weight[order],
            self.node_weight,
        )


def weighted_graph(instance: Instance) -> WeightedGraph:
    """Derive the graph of an instance.

    Raises
    ------
    InvalidInput
        There are more task pairs than are spread out.
    """
    matrix = instance.adjacency
    load, room = scalar_loads(instance)
    scale = _MOST / 2 / max(load.sum(), room.sum(), 1e-300)
    rates = matrix.data * (_MOST / max(matrix.data.sum(), 1e-300))
    return WeightedGraph(
        indptr=matrix.indptr.astype(np.int32),
        other=matrix.indices.astype(np.int32),
        pair_weight=np.maximum(1, np.round(rates)).astype(np.int32),
        task_weight=np.ceil(load * scale).astype(np.int64),
        node_weight=np.floor(room * scale).astype(np.int64),
    )


def scalar_loads(instance: Instance) -> tuple[Floats, Floats]:
    """Return (T,) one load a task and (N,) one room a node, both in shares of the total load.

    Each resource counts by its tightness: total load over total room of the staying nodes (of all,
    where none stays). Where no resource is bounded, tasks count equally and every node has room for
    all.
    """
    stay = instance.open_nodes
    usable = stay if stay.any() else np.ones(instance.num_nodes, dtype=np.bool_)
    total = instance.total_load
    room = np.maximum(placing_room(instance), 0.0)
    room = np.where(np.isfinite(room), room, total)
    room[~usable] = 0.0
    offered = room.sum(axis=0)
    bounded = np.isfinite(instance.headroom).any(axis=0) & (total > 0)
    if not bounded.any():
        load = np.full(instance.num_tasks, 1.0 / max(1, instance.num_tasks))
        return load, np.where(usable, 1.0, 0.0)
    tightness = total[bounded] / np.maximum(offered[bounded], 1e-300)
    factor = tightness / tightness.sum() / total[bounded]
    return instance.tasks.load[:, bounded] @ factor, room[:, bounded] @ factor


def part_nodes(instance: Instance, graph: WeightedGraph, extra: int = 0) -> NDArray[np.int64]:
    """Return the nodes to ask parts for: the largest that hold 1.03 of the load, and `extra` more.

    Nodes that must hold something (a lower load bound, or a task with no other node) are always
    among them. Largest first, ties by index; one staying node where none has room.
    """
    weight = graph.node_weight
    order = np.argsort(-weight, kind="stable")
    order = order[weight[order] > 0]
    if not len(order):  # no staying node has room for anything: one takes all, and repair goes on
        return np.argmax(instance.open_nodes, keepdims=True)
    if extra == 0 and (instance.total_load <= placing_room(instance)[order[0]]).all():
        count = 1
    else:
        needed = int(graph.task_weight.sum())
        held = np.cumsum(weight[order])
        count = int(np.searchsorted(held, ROOM_TO_MOVE * needed)) + 1 + extra
    chosen = np.zeros(instance.num_nodes, dtype=np.bool_)
    chosen[order[:count]] = True
    chosen |= (instance.nodes.min_load > 0).any(axis=1) & (weight > 0)
    table = instance.tasks
    single = np.flatnonzero(np.diff(table.allowed_indptr) == 1)
    chosen[table.allowed_indices[table.allowed_indptr[single]]] = True
    return order[chosen[order]]
