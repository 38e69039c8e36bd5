"""The graph a partitioner sees: integer weights for tasks, pairs and blocks, one number a task.

Partitioners balance one weight a vertex. With several resources the weights are added, each
resource in proportion to how tight it is; what that leaves out is repaired afterwards.

Source: Karypis and Kumar, "A fast and high quality multilevel scheme for partitioning irregular
graphs", SIAM J. Sci. Comput. 20(1), 1998, doi:10.1137/S1064827595287997.

An optional package. Source: Gottesbüren et al., "Scalable high-quality hypergraph partitioning",
ACM Transactions on Algorithms 20(1), 2024, doi:10.1145/3626527.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import Problem, UnsuitableMethod
from optim.kernels.room import placing_room
from optim.util.process import c_stdout_silenced

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


_LARGEST_FACTOR = 300


def metis_parts(
    graph: WeightedGraph, nodes: NDArray[np.int64], seed: int, shuffle: bool
) -> NDArray[np.int64]:
    """Partition into one part a node, sizes in proportion to the nodes' room.

    Parameters
    ----------
    graph
        What to cut.
    nodes
        (K,) the nodes to make parts for.
    seed
        Of METIS, and of the order of the vertices when `shuffle`.
    shuffle
        Renumber the vertices first, which gives METIS another start (its own seed hardly does).

    Returns
    -------
    ndarray of int64
        (T,) position in `nodes` of each task. Parts may exceed their node's room.
    """
    import pymetis

    size = len(graph.task_weight)
    if len(nodes) == 1:
        return np.zeros(size, dtype=np.int64)
    order = np.random.default_rng(seed).permutation(size) if shuffle else np.arange(size)
    if shuffle:
        graph = graph.permuted(order)
    room = graph.node_weight[nodes].astype(np.float64)
    spare = room.sum() / max(1.0, float(graph.task_weight.sum())) - 1.0
    options = pymetis.Options(seed=seed, ufactor=int(np.clip(1000 * spare, 1, _LARGEST_FACTOR)))
    equal = room.max() == room.min()
    with c_stdout_silenced():  # METIS complains there of bisections that leave a side empty
        found = pymetis.part_graph(
            len(nodes),
            pymetis.CSRAdjacency(graph.indptr, graph.other),
            vweights=graph.task_weight,
            eweights=graph.pair_weight,
            tpwgts=None if equal else _shares(room),
            options=options,
            recursive=False,  # bisection with a loose ufactor overloads the parts
        )
    parts = np.empty(size, dtype=np.int64)
    parts[order] = found.vertex_part
    return parts


def _shares(room: NDArray[np.float64]) -> list[float]:
    shares = room / room.sum()
    shares[-1] = max(0.0, 1.0 - shares[:-1].sum())
    return [float(share) for share in shares]


PRESETS = {
    "deterministic": "DETERMINISTIC",
    "deterministic_quality": "DETERMINISTIC_QUALITY",
    # does not repeat exactly: benchmarks only
    "highest_quality": "HIGHEST_QUALITY",
}


def _package() -> Any:
    try:
        import mtkahypar
    except ImportError:
        raise UnsuitableMethod(
            Problem(
                "--option engine",
                "mtkahypar",
                "needs the package mtkahypar, which is not installed",
                "pip install mtkahypar, or take engine=metis",
            )
        ) from None
    return mtkahypar


@cache
def _initialised(threads: int) -> Any:
    return _package().initialize(threads, False)


def mtkahypar_parts(
    graph: WeightedGraph,
    nodes: NDArray[np.int64],
    fixed: NDArray[np.int64],
    seed: int,
    threads: int,
    preset: str,
) -> NDArray[np.int64]:
    """Partition into one block a node, none heavier than the node's room.

    Parameters
    ----------
    graph, nodes, seed
        As for METIS.
    fixed
        (T,) position in `nodes` a task is bound to, -1 for free ones.
    threads
        Threads; they do not change the result.
    preset
        Key of `PRESETS`.

    Returns
    -------
    ndarray of int64
        (T,) position in `nodes` of each task.

    Raises
    ------
    UnsuitableMethod
        The package is not installed.
    """
    package = _package()
    size = len(graph.task_weight)
    if len(nodes) == 1:
        return np.zeros(size, dtype=np.int64)
    engine = _initialised(threads)
    context = engine.context_from_preset(getattr(package.PresetType, PRESETS[preset]))
    context.set_partitioning_parameters(len(nodes), 0.03, package.Objective.CUT)
    context.set_individual_target_block_weights(_limits(graph, nodes).tolist())
    context.logging = False
    package.set_seed(seed)
    row = np.repeat(np.arange(size), np.diff(graph.indptr))
    once = row < graph.other
    edges = list(zip(row[once].tolist(), graph.other[once].tolist(), strict=True))
    weights = graph.pair_weight[once].tolist()
    built = engine.create_graph(
        context, size, len(edges), edges, graph.task_weight.tolist(), weights
    )
    if (fixed >= 0).any():
        built.add_fixed_vertices(fixed.tolist(), len(nodes))
    return np.array(built.partition(context).get_partition(), dtype=np.int64)


def _limits(graph: WeightedGraph, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Room of each block; raised in proportion where rounding left less than all tasks weigh."""
    room = np.maximum(1, graph.node_weight[nodes])
    needed = int(graph.task_weight.sum())
    if int(room.sum()) >= needed:
        return room
    return np.ceil(room * (needed / room.sum())).astype(np.int64) + 1
