"""METIS k-way partitioning.

Source: Karypis and Kumar, "A fast and high quality multilevel scheme for partitioning irregular
graphs", SIAM J. Sci. Comput. 20(1), 1998, doi:10.1137/S1064827595287997.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
