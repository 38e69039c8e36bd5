"""The elastic operator allocation problem as its exact models see it.

Tasks with one node to go to are running queries: they are part of what the nodes and links carry.
The others, F of them, are free. Of a set of free tasks on a node, everything follows: its load, the
traffic inside the node, and with it what crosses the node's uplink.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from optim.figures.measures import node_loads
from optim.moves.room import (
    LARGE_SUMS,
    placing_floor,
    placing_masks,
    placing_room,
    placing_slack,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class SharedLink:
    """A link of several nodes, a rack's uplink.

    Attributes
    ----------
    nodes
        Its nodes.
    room
        Traffic it may carry beside its background.
    inside
        Traffic between running tasks behind it.
    """

    nodes: Ints
    room: float
    inside: float


@dataclass(frozen=True, eq=False)
class EoaProblem:
    """An instance in the terms of the model; N nodes, R resources, F free tasks.

    Attributes
    ----------
    instance
        Where it comes from.
    free, fixed
        (F,) free tasks; (T,) node of each running task, -1 for free ones.
    may, load
        (F, N) where a free task may go; (F, R) its load.
    room, floor
        (N, R) load of free tasks that a node takes at most and at least, tolerance included.
    base
        (N,) background + running load of the first resource.
    occupied
        (N,) nodes that hold a running task.
    u, v, rate
        Communicating pairs of free tasks, by position in `free`.
    degree, beside
        (F,) all traffic of a free task; (F, N) its traffic with the running tasks of each node.
    incident, inside
        (N,) all traffic of a node's running tasks; the part of it between them.
    uplink
        (N,) traffic a node's own links may carry beside their background.
    shared
        Links of several nodes.
    """

    instance: Instance
    free: NDArray[np.int64]
    fixed: NDArray[np.int64]
    may: Bools
    load: Floats
    room: Floats
    floor: Floats
    base: Floats
    occupied: Bools
    u: Ints
    v: Ints
    rate: Floats
    degree: Floats
    beside: Floats
    incident: Floats
    inside: Floats
    uplink: Floats
    shared: tuple[SharedLink, ...]

    @property
    def num_free(self) -> int:
        """F."""
        return len(self.free)

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.instance.num_nodes

    @cached_property
    def capacity_share(self) -> Floats:
        """(N,) capacity of the first resource as a share of all nodes'."""
        capacity = self.instance.nodes.capacity[:, 0]
        total = float(capacity.sum())
        return capacity / total if total > 0 else np.zeros(len(capacity))

    @cached_property
    def traffic(self) -> Floats:
        """(F, F) traffic between free tasks, symmetric."""
        table = np.zeros((self.num_free, self.num_free))
        table[self.u, self.v] = self.rate
        return table + table.T

    @cached_property
    def home(self) -> Ints:
        """(F,) current node of each free task, -1 for none."""
        return self.instance.tasks.node[self.free]

    @cached_property
    def budgets(self) -> tuple[tuple[str, float, Floats], ...]:
        """Migration limits that are set: name, what free tasks may spend, (F,) cost of a move."""
        limits, tasks = self.instance.limits, self.instance.tasks
        running = np.flatnonzero(self.fixed >= 0)
        moved = running[(tasks.node[running] >= 0) & (tasks.node[running] != self.fixed[running])]
        found = []
        for name, most, cost in (
            ("max_migrations", limits.max_migrations, np.ones(len(tasks.ids))),
            ("max_migration_cost", limits.max_migration_cost, tasks.migration_cost),
        ):
            if most is not None:
                left = most + float(placing_slack(most, cost.sum())) - float(cost[moved].sum())
                found.append((name, left, cost[self.free]))
        return tuple(found)

    @cached_property
    def prices(self) -> Floats:
        """(F, B) cost of a move of each free task under each of the budgets."""
        return np.column_stack([price for _, _, price in self.budgets])

    @cached_property
    def even_mean(self) -> float | None:
        """Mean share of CPU in use where it is the same for every placement, else ``None``.

        It is where all nodes that tasks may go to stay and have equal capacity.
        """
        counted = self.instance.open_nodes
        capacity = self.instance.nodes.capacity[:, 0]
        reached = self.may.any(axis=0)
        if not counted.any() or (reached & ~counted).any() or (capacity[counted] <= 0).any():
            return None
        if self.num_free and len(np.unique(capacity[reached])) > 1:
            return None
        share = float((self.base[counted] / capacity[counted]).sum())
        if self.num_free:
            share += float(self.load[:, 0].sum()) / float(capacity[reached].max())
        return share / int(counted.sum())

    def placement(self, place: Ints) -> Ints:
        """(T,) node indices from (F,) ones."""
        node = self.fixed.astype(np.int32)
        node[self.free] = place
        return node


def eoa_problem(instance: Instance) -> EoaProblem:
    """Put an instance into the terms of the model."""
    kind, _, target = placing_masks(instance)
    fixed = _fixed(kind, target)
    free = np.flatnonzero(fixed < 0)
    standing = fixed.astype(np.int32)
    running = node_loads(instance, standing)
    placed = running - instance.nodes.background
    room, floor = _bounds(instance)
    n = instance.num_nodes
    position = np.full(instance.num_tasks, -1, dtype=np.int64)
    position[free] = np.arange(len(free))
    u, v, rate = instance.pairs
    both = (fixed[u] < 0) & (fixed[v] < 0)
    degree = np.zeros(instance.num_tasks)
    degree += np.bincount(u, rate, instance.num_tasks)
    degree += np.bincount(v, rate, instance.num_tasks)
    beside = np.zeros((len(free), n))
    for here, there in ((u, v), (v, u)):
        mixed = (fixed[here] < 0) & (fixed[there] >= 0)
        np.add.at(beside, (position[here[mixed]], fixed[there[mixed]]), rate[mixed])
    stands = fixed >= 0
    same = stands[u] & (fixed[u] == fixed[v])
    return EoaProblem(
        instance=instance,
        free=free,
        fixed=fixed,
        may=target[kind[free]],
        load=instance.tasks.load[free],
        room=room - placed,
        floor=floor - placed,
        base=running[:, 0],
        occupied=np.bincount(fixed[stands], minlength=n) > 0,
        u=position[u[both]].astype(np.int32),
        v=position[v[both]].astype(np.int32),
        rate=rate[both],
        degree=degree[free],
        beside=beside,
        incident=np.bincount(fixed[stands], degree[stands], n).astype(np.float64),
        inside=np.bincount(fixed[u[same]], rate[same], n).astype(np.float64),
        uplink=_uplinks(instance),
        shared=_shared(instance, fixed),
    )


def _fixed(kind: Ints, target: Bools) -> NDArray[np.int64]:
    single = target.sum(axis=1) == 1
    return np.where(single[kind], target.argmax(axis=1)[kind], -1).astype(np.int64)


def _bounds(instance: Instance) -> tuple[Floats, Floats]:
    """(N, R) most and least load to place; a bound on load distance is one on every node.

    The mean that it is measured from does not depend on where tasks are.
    """
    room, floor = placing_room(instance).copy(), placing_floor(instance).copy()
    most, stay = instance.limits.max_load_distance, instance.open_nodes
    if most is not None and stay.any():
        background, weight = instance.nodes.background[:, 0], instance.nodes.weight
        total = float(background.sum() + instance.total_load[0])
        aim = weight * total / float(weight[stay].sum())
        slack = most + LARGE_SUMS * float(placing_slack(most, instance.totals[0]))
        room[:, 0] = np.minimum(room[:, 0], aim + slack - background)
        low = np.where(stay, aim - slack - background, -np.inf)
        floor[:, 0] = np.maximum(floor[:, 0], low)
    return room, floor


def _link_rooms(instance: Instance) -> Floats:
    """(L,) traffic each link may carry beside its background, tolerance included."""
    bound = instance.links.capacity * instance.limits.max_link_utilisation
    return np.asarray(
        bound
        + LARGE_SUMS * placing_slack(bound, instance.total_crossing)
        - instance.links.background
    )


def _uplinks(instance: Instance) -> Floats:
    """(N,) least room of the links that serve a node alone."""
    links, rooms = instance.links, _link_rooms(instance)
    least = np.full(instance.num_nodes, np.inf)
    single = np.flatnonzero(np.diff(links.node_indptr) == 1)
    np.minimum.at(least, links.node_indices[links.node_indptr[single]], rooms[single])
    return least


def _shared(instance: Instance, fixed: NDArray[np.int64]) -> tuple[SharedLink, ...]:
    links, rooms = instance.links, _link_rooms(instance)
    u, v, rate = instance.pairs
    found = []
    for i in np.flatnonzero((np.diff(links.node_indptr) > 1) & np.isfinite(rooms)):
        nodes = links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]]
        if len(nodes) == instance.num_nodes and rooms[i] >= 0:
            continue  # nothing can cross it
        behind = np.zeros(instance.num_nodes + 1, dtype=np.bool_)
        behind[nodes] = True  # the last entry is for -1
        both = behind[fixed[u]] & behind[fixed[v]]
        found.append(SharedLink(nodes, float(rooms[i]), float(rate[both].sum())))
    return tuple(found)
