"""The paper's matrix U: each operator's share of the bandwidth that a node uses.

Source: Elastic Allocator, SOSE 2014, section IV-B, whose formula is damaged; read as: u_ij is the
share of operator j in what crosses node i's links, so that every row of a node that sends or
receives anything sums to 1, and B'_i = B0_i + sent_i · Σ_j u_ij.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats


def bandwidth_shares(instance: Instance, node: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return U, (N, T), and what crosses the border of each node, (N,), in units of the rates.

    Parameters
    ----------
    node
        (T,) node of each task, -1 for none; traffic with such a task is nowhere.
    """
    (u, v, rate), count = instance.pairs, instance.num_tasks
    across = (node[u] >= 0) & (node[v] >= 0) & (node[u] != node[v])
    sent = np.bincount(u[across], rate[across], count)
    sent += np.bincount(v[across], rate[across], count)
    share = np.zeros((instance.num_nodes, count))
    placed = np.flatnonzero(node >= 0)
    share[node[placed], placed] = sent[placed]
    total: Floats = share.sum(axis=1)
    np.divide(share, total[:, None], out=share, where=total[:, None] > 0)
    return share, total
