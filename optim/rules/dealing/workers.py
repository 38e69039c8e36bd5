"""Spreading the slots that topologies fill over the nodes: a flow with lower bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.rules.dealing.groups import short

if TYPE_CHECKING:
    from optim.rules.dealing.groups import Groups, Numbers
    from optim.rules.violation import Violation


class Spread(NamedTuple):
    """(G,) numbers of slots that meet slots and workers, or what is short."""

    slots: Numbers | None
    shortage: tuple[Violation, ...] = ()


def spread(
    groups: Groups, least: Numbers, most: Numbers, slots: Numbers, wanted: Numbers
) -> Spread:
    """Raise least numbers of slots (G,) up to `most` until every topology fills those `wanted`.

    Nodes have (N,) `slots`. The answer is exact for these numbers.
    """
    used = groups.on_nodes(least)
    over = np.flatnonzero(used > slots).tolist()
    if over:
        return Spread(
            None, tuple(short("slots", groups.node_id(n), used[n], slots[n]) for n in over)
        )
    filled, wanted = groups.of_topologies(least), wanted[:-1]
    names = groups.instance.topologies.ids
    over = np.flatnonzero((wanted >= 0) & (filled > wanted)).tolist()
    if over:
        return Spread(None, tuple(short("workers", names[i], filled[i], wanted[i]) for i in over))
    missing = np.where(wanted >= 0, wanted - filled, 0)
    given = np.zeros_like(least)
    edges = np.flatnonzero(groups.counted & (most > least) & (slots > used)[groups.node])
    given[edges], few = flow(
        missing,
        groups.topology[edges],
        groups.node[edges],
        (most - least)[edges],
        slots - used,
    )
    if len(few):
        needed, lack = wanted[few].sum(), (missing - groups.of_topologies(given))[few].sum()
        return Spread(None, (short("workers", groups.topology_ids(few), needed, needed - lack),))
    return Spread(least + given)


def flow(
    missing: Numbers, topology: Numbers, node: Numbers, most: Numbers, room: Numbers
) -> tuple[Numbers, Numbers]:
    """Give slots on nodes to topologies, never more than these miss: a largest flow.

    Parameters
    ----------
    missing, room
        (P,) what each topology wants, (N,) what each node has.
    topology, node, most
        (E,) who may take how many where.

    Returns
    -------
    tuple
        (E,) slots given; and the topologies that together get too few, none if all is given.
    """
    if not missing.any() or not len(topology):
        return np.zeros(len(topology), dtype=np.int64), np.flatnonzero(missing)
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    kinds, size = len(missing), len(missing) + len(room) + 2
    source, sink = size - 2, size - 1
    start = np.concatenate([np.full(kinds, source), topology, kinds + np.arange(len(room))])
    end = np.concatenate([np.arange(kinds), kinds + node, np.full(len(room), sink)])
    capacity = np.concatenate([missing, most, room]).astype(np.int32)
    graph = csr_array((capacity, (start, end)), shape=(size, size))
    result = maximum_flow(graph, source, sink)
    given = np.asarray(result.flow[topology, kinds + node]).astype(np.int64)
    if result.flow_value == missing.sum():
        return given, np.zeros(0, dtype=np.int64)
    left = csr_array(graph - result.flow)
    left.eliminate_zeros()
    reached = breadth_first_order(left, source, return_predecessors=False)
    return given, np.sort(reached[reached < kinds]).astype(np.int64)
