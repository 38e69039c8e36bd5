"""mt-KaHyPar with its deterministic preset and a weight limit for every block.

An optional package. Source: Gottesbüren et al., "Scalable high-quality hypergraph partitioning",
ACM Transactions on Algorithms 20(1), 2024, doi:10.1145/3626527.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import Problem, UnsuitableMethod

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heuristics.task_allocation.graph_partition.weighted_graph import WeightedGraph

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
