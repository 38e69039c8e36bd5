"""METIS k-way partitioning.

Source: Karypis and Kumar, "A fast and high quality multilevel scheme for partitioning irregular
graphs", SIAM J. Sci. Comput. 20(1), 1998, doi:10.1137/S1064827595287997.

An optional package. Source: Gottesbüren et al., "Scalable high-quality hypergraph partitioning",
ACM Transactions on Algorithms 20(1), 2024, doi:10.1145/3626527.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import Problem, UnsuitableMethod
from optim.util.silence import c_stdout_silenced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heuristics.task_allocation.graph_partition.weighted_graph import WeightedGraph

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
