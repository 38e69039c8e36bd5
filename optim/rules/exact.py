"""Sums of a row without rounding, where rounding would decide whether the row is violated.

A plain sum of m terms, none of them negative, is off by m · 2⁻⁵³ of itself at most. So a row is
added up again, correctly rounded, only where it lies that near to the end of its tolerance: as good
as never, and whatever the number of tasks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.util.tolerance import slack

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats
    from optim.rules.placement import Placement

_EPSILON = 2.0**-52


def undecided(needed: Any, available: Any, terms: int) -> Bools:
    """Whether rounding of a sum of so many terms could decide if it exceeds what is available."""
    edge = np.asarray(available + slack(available))
    off = np.abs(np.where(np.isfinite(edge), needed - edge, np.inf))
    return np.asarray(off < (terms + 4) * _EPSILON * np.asarray(needed))


def total(values: Floats, available: float) -> float:
    """Return a sum, correctly rounded where that decides."""
    plain = float(values.sum())
    return math.fsum(values) if undecided(plain, available, len(values)) else plain


def terms_of(instance: Instance) -> int:
    """Return how many terms the load of a node or link has at most."""
    flows = instance.flows
    own = len(flows.rate) + len(flows.blocks) + (instance.num_nodes + 2) * len(flows.local)
    return instance.num_tasks + own + 1


def node_load(placement: Placement, n: int, r: int) -> float:
    """Return what a node has of a resource, correctly rounded."""
    instance = placement.instance
    own = instance.tasks.load[placement.node == n, r]
    parts = [instance.nodes.background[n : n + 1, r], own]
    out, into = instance.crossing_cost[:, r]
    if out or into:
        source, target, rate = instance.flows.directed()
        source, target = placement.node[source], placement.node[target]
        apart = (source != target) & (source >= 0) & (target >= 0)
        parts += [out * rate[apart & (source == n)], into * rate[apart & (target == n)]]
        also = instance.flows.local_crossing(placement.node, instance.num_nodes)
        parts.append(np.array([out * also[0][n], into * also[1][n]]))
    return math.fsum(np.concatenate(parts))


def node_loads(placement: Placement, needed: Floats, available: Floats) -> Floats:
    """Return (N, R) loads of a placement, correctly rounded in rows where that decides.

    Parameters
    ----------
    needed, available
        (N, R) sides of the rows; the loads are one of them.
    """
    rows = np.argwhere(undecided(needed, available, terms_of(placement.instance)))
    if not len(rows):
        return placement.loads
    loads = np.array(placement.loads)
    for n, r in rows.tolist():
        loads[n, r] = node_load(placement, n, r)
    return loads
