"""What the Elastic Allocator's methods place on: order, fixed operators, room, links.

Running queries are tasks with one node to go to; they stand before anything is placed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optim.format.demand import topological_order
from optim.kernels.room import placing_masks, placing_room
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Board:
    """An instance as the allocator sees it.

    Attributes
    ----------
    order
        (T,) tasks in the order in which they are taken.
    fixed
        (T,) node of each running task, -1 for those to place.
    kind, target
        (T,) kind of restriction; (K, N) nodes a kind may be put on.
    room
        (N, R) load that may be placed, half of the referee's tolerance included.
    link_indptr, link_of
        Links of each node, CSR form.
    link_room
        (L,) traffic a link may carry, background included.
    """

    order: NDArray[np.int64]
    fixed: NDArray[np.int64]
    kind: Ints
    target: Bools
    room: Floats
    link_indptr: NDArray[np.int64]
    link_of: NDArray[np.int64]
    link_room: Floats


def board_of(instance: Instance) -> Board:
    """Lay out an instance for the allocator."""
    kind, _, target = placing_masks(instance)
    indptr, link_of = links_of_nodes(instance)
    return Board(
        order=task_order(instance),
        fixed=fixed_nodes(kind, target),
        kind=kind,
        target=target,
        room=placing_room(instance),
        link_indptr=indptr,
        link_of=link_of,
        link_room=link_room(instance),
    )


def fixed_nodes(kind: Ints, target: Bools) -> NDArray[np.int64]:
    """(T,) the only node a task may go to, -1 where it has a choice."""
    single = target.sum(axis=1) == 1
    return np.where(single[kind], target.argmax(axis=1)[kind], -1).astype(np.int64)


def task_order(instance: Instance) -> NDArray[np.int64]:
    """(T,) tasks in topological order of their operators, then by member.

    Operators on or behind a cycle follow in the file's order, tasks without an operator last.
    """
    count = instance.num_operators
    edges = {(s.source, s.target) for s in instance.streams}
    operator, member = instance.tasks.operator, instance.tasks.member
    pairs = zip(operator[instance.traffic.source], operator[instance.traffic.target], strict=True)
    edges |= {(int(a), int(b)) for a, b in pairs if a >= 0 and b >= 0 and a != b}
    sorted_first = topological_order(count, sorted(edges))
    rank = np.full(count + 1, 2 * count + 1)
    rank[:count] = count + np.arange(count)
    rank[sorted_first] = np.arange(len(sorted_first))
    return np.lexsort((np.arange(instance.num_tasks), member, rank[operator])).astype(np.int64)


def links_of_nodes(instance: Instance) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the links of each node, in CSR form."""
    links = instance.links
    link = np.repeat(np.arange(len(links.ids)), np.diff(links.node_indptr))
    order = np.argsort(links.node_indices, kind="stable")
    counts = np.bincount(links.node_indices, minlength=instance.num_nodes)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return indptr, link[order].astype(np.int64)


def link_room(instance: Instance) -> Floats:
    """(L,) traffic a link may carry, background included, half the referee's tolerance added."""
    bound = instance.links.capacity * instance.limits.max_link_utilisation
    return np.asarray(bound + 0.5 * slack(bound), dtype=np.float64)
