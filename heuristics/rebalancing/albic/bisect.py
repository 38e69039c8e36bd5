"""Balanced partitioning of some key groups by METIS, fit for small and lopsided graphs.

Source: Karypis and Kumar, "Multilevel algorithms for multi-constraint graph partitioning", SC 1998,
which both ALBIC and COLA name.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.util.c_stdout import c_stdout_silenced

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from heuristics.rebalancing.albic.scores import Indices
    from optim.format.tables import Floats

_MOST = 2**28
"""Sums of integer weights stay below this, so that METIS's 32 bits hold them."""


def balanced_parts(
    adjacency: csr_array[Any, tuple[int, int]],
    members: Indices,
    weight: Floats,
    num_parts: int,
    seed: int,
) -> list[Indices]:
    """Cut some key groups into parts of about even weight with little traffic between them.

    METIS may leave parts empty where few vertices are heavy; the key groups are then dealt out,
    heaviest first, each to the lightest part.

    Parameters
    ----------
    adjacency
        (T, T) symmetric pair rates.
    members
        The key groups to cut.
    weight
        (len(members),) their weights.
    num_parts
        At least 2, at most as many as there are members.
    seed
        Of METIS.

    Returns
    -------
    list of ndarray
        `num_parts` parts, none empty, members in ascending order, by first member.
    """
    label = _metis(adjacency[members][:, members], weight, num_parts, seed)
    if len(np.unique(label)) < num_parts:
        label = _dealt(weight, num_parts)
    parts = [members[label == k] for k in range(num_parts)]
    return sorted(parts, key=lambda part: int(part[0]))


def _metis(
    graph: csr_array[Any, tuple[int, int]], weight: Floats, num_parts: int, seed: int
) -> NDArray[np.int64]:
    import pymetis

    if num_parts == len(weight):
        return np.arange(num_parts)
    graph.sort_indices()
    rates = graph.data * (_MOST / max(float(graph.data.sum()), 1e-300))
    weights = weight * (_MOST / max(float(weight.sum()), 1e-300))
    with c_stdout_silenced():  # METIS complains there of bisections that leave a side empty
        found = pymetis.part_graph(
            num_parts,
            pymetis.CSRAdjacency(graph.indptr.astype(np.int32), graph.indices.astype(np.int32)),
            vweights=np.maximum(1, np.round(weights)).astype(np.int64),
            eweights=np.maximum(1, np.round(rates)).astype(np.int64),
            options=pymetis.Options(seed=seed),
            recursive=num_parts <= 8,  # as METIS advises
        )
    return np.array(found.vertex_part, dtype=np.int64)


def _dealt(weight: Floats, num_parts: int) -> NDArray[np.int64]:
    """Label each member, heaviest first, with the lightest part so far; none stays empty."""
    label = np.zeros(len(weight), dtype=np.int64)
    parts = [(0.0, 0, k) for k in range(num_parts)]
    for member in np.argsort(-weight, kind="stable").tolist():
        total, count, part = heapq.heappop(parts)
        label[member] = part
        heapq.heappush(parts, (total + float(weight[member]), count + 1, part))
    return label
