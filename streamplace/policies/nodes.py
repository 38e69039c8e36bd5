"""The nodes that there are: those of an instance, copies added since, some of them leaving."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.rules.capacity import refuse_local_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints, Limits, LinkTable, NodeTable, TaskTable

    Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Cluster:
    """Which nodes there are."""

    ids: tuple[str, ...]  # Names of the nodes.
    base: tuple[int, ...]  # For each the node of the instance it is, or is a copy of.
    leaving: tuple[bool, ...]  # Whether it is marked for removal.

    @classmethod
    def of(cls, instance: Instance) -> Cluster:
        """Return the nodes of an instance."""
        leaving = tuple(bool(flag) for flag in instance.nodes.leaving)
        return cls(instance.nodes.ids, tuple(range(instance.num_nodes)), leaving)

    def __len__(self) -> int:
        return len(self.ids)

    def grown(self, names: Sequence[str], template: int) -> Cluster:
        """Return the cluster with copies more of a node of the instance (its index)."""
        count = len(names)
        base, leaving = (*self.base, *[template] * count), (*self.leaving, *[False] * count)
        return Cluster((*self.ids, *names), base, leaving)

    def marked(self, nodes: Iterable[int], leaving: bool = True) -> Cluster:
        """Return the cluster with nodes marked for removal, or recalled."""
        flags = list(self.leaving)
        for node in nodes:
            flags[node] = leaving
        return replace(self, leaving=tuple(flags))

    def without(self, dropped: NDArray[np.bool_]) -> tuple[Cluster, NDArray[np.int64]]:
        """Return the cluster without some nodes, and (N,) the new index of each old one (or -1)."""
        keep = np.flatnonzero(~dropped).tolist()
        new = np.full(len(self.ids), -1, dtype=np.int64)
        new[keep] = np.arange(len(keep))
        rows: Any = ([column[i] for i in keep] for column in (self.ids, self.base, self.leaving))
        ids, base, leaving = map(tuple, rows)
        return Cluster(ids, base, leaving), new


def on_cluster(
    instance: Instance,
    cluster: Cluster,
    load: Floats,
    node: NDArray[np.int64],
    limits: Limits,
    slot: Ints | None = None,
) -> Instance:
    """Return an instance on the nodes there are now.

    Added nodes are like the one they are copies of: its capacity and background, and a task allowed
    there is allowed on them. Links keep the nodes they list.

    `instance`: as recorded, or as it was before its nodes changed.
    `load`: (T, R) measured loads.
    `node`: (T,) current place, index in the cluster.
    `limits`: with the budgets that hold.
    `slot`: (T,) current slot; none where left out.
    """
    base = np.array(cluster.base, dtype=np.int64)
    slot = np.full(len(node), -1, dtype=np.int32) if slot is None else slot
    return replace(
        instance,
        nodes=_nodes(instance.nodes, cluster, base),
        tasks=_tasks(instance.tasks, base, load, node, slot),
        links=_links(instance, cluster, base),
        limits=limits,
    )


def _nodes(table: NodeTable, cluster: Cluster, base: NDArray[np.int64]) -> NodeTable:
    columns = {f.name: getattr(table, f.name) for f in fields(table)}
    changes: dict[str, Any] = {
        name: value[base] for name, value in columns.items() if isinstance(value, np.ndarray)
    }
    changes["ids"] = cluster.ids
    changes["leaving"] = np.array(cluster.leaving, dtype=np.bool_)
    changes["labels"] = {
        i: table.labels[b] for i, b in enumerate(cluster.base) if b in table.labels
    }
    return replace(table, **changes)


def _tasks(
    table: TaskTable, base: NDArray[np.int64], load: Floats, node: NDArray[np.int64], slot: Ints
) -> TaskTable:
    allowed_indptr, allowed_indices = _now(table.allowed_indptr, table.allowed_indices, base)
    copies_indptr, copies_indices = _now(table.copies_indptr, table.copies_indices, base)
    return replace(
        table,
        load=load.copy(),
        node=node.astype(np.int32),
        slot=slot,
        allowed_indptr=allowed_indptr,
        allowed_indices=allowed_indices,
        copies_indptr=copies_indptr,
        copies_indices=copies_indices,
    )


def _now(indptr: Ints, indices: Ints, base: NDArray[np.int64]) -> tuple[Ints, Ints]:
    """Lists of nodes in CSR form, as lists of the nodes there are now."""
    ends = zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True)
    # a copy is listed wherever the node is that it is a copy of
    rows = [np.flatnonzero(np.isin(base, indices[start:stop])) for start, stop in ends]
    counts = [len(row) for row in rows]
    return (
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        np.concatenate([np.zeros(0, np.int32), *rows]).astype(np.int32),
    )


def _links(instance: Instance, cluster: Cluster, base: NDArray[np.int64]) -> LinkTable:
    table = instance.links
    if not len(table.ids):
        return table
    originals = [i for i, name in enumerate(cluster.ids) if name == instance.nodes.ids[base[i]]]
    index = {int(base[i]): i for i in originals}
    members, indptr = [], [0]
    for link in range(len(table.ids)):
        listed = table.node_indices[table.node_indptr[link] : table.node_indptr[link + 1]]
        members += [index[int(n)] for n in listed if int(n) in index]
        indptr.append(len(members))
    return replace(
        table,
        node_indptr=np.array(indptr, dtype=np.int32),
        node_indices=np.array(members, dtype=np.int32),
    )


# What runs where, whole or split in two, and the load that makes: serialisation included.


@dataclass(frozen=True, eq=False)
class Deployment:
    """Where key groups run."""

    places: Integers  # (T, 2) node indices; twice the same where a key group is not split.
    share: Floats  # (T,) part of a key group's tuples that goes to its first place.
    #: (N,) load that merging partial states costs on each node, or ``None`` for none.
    merge: Floats | None = None

    @classmethod
    def whole(cls, node: Any) -> Deployment:
        """Return a deployment of undivided key groups from (T,) node indices."""
        first = np.asarray(node, dtype=np.int64)
        return cls(np.column_stack([first, first]), np.ones(len(first)))

    @property
    def node(self) -> Integers:
        """(T,) first places: the placement, where nothing is split."""
        return self.places[:, 0]

    @property
    def placement(self) -> Ints:
        """(T,) the same, as placements of an instance are."""
        return self.node.astype(np.int32)

    @property
    def is_whole(self) -> bool:
        """Whether no key group is split."""
        return bool((self.places[:, 0] == self.places[:, 1]).all())

    @property
    def shares(self) -> Floats:
        """(T, 2) part of the tuples at each place."""
        return np.column_stack([self.share, 1.0 - self.share])

    def moved_to(self, new_index: Integers) -> Deployment:
        """Return the deployment after nodes were renumbered."""
        merge = None
        if self.merge is not None:
            keep = np.flatnonzero(new_index >= 0)
            merge = np.zeros(len(keep))
            merge[new_index[keep]] = self.merge[keep]
        return Deployment(new_index[self.places], self.share, merge)


@dataclass(frozen=True)
class CostModel:
    """What moving data costs, in units of the first resource."""

    #: Load per unit of rate that leaves a node, on the sender's side and the receiver's.
    serialise: float = 0.0
    deserialise: float = 0.0
    #: Load per unit of migration cost, on both nodes, in the period of the move.
    migration: float = 0.0


def crossing_load(instance: Instance, deployment: Deployment, costs: CostModel) -> Floats:
    """(T, 2) load of serialisation that each key group has at each of its places.

    A tuple from key group i to j crosses when the place of i that sent it and the place of j that
    receives it lie on different nodes; which place of a split key group takes part is independent.
    """
    extra = np.zeros(deployment.places.shape)
    if costs.serialise == 0 and costs.deserialise == 0:
        return extra
    refuse_local_first(instance, "costs of serialisation are of pairs of tasks")
    flows, places, shares = instance.flows, deployment.places, deployment.shares
    for a, b, part, same in _parts(instance, deployment):
        crossing = np.where(same, 0.0, part)
        np.add.at(extra[:, a], flows.source, costs.serialise * crossing)
        np.add.at(extra[:, b], flows.target, costs.deserialise * crossing)
    for block in flows.blocks:
        senders = mass_by_node(instance, deployment, block.sources)
        receivers = mass_by_node(instance, deployment, block.targets)
        for a in range(2):
            # pairs of a block have one rate: what is on other nodes = all - what is here
            elsewhere = len(block.targets) - receivers[places[block.sources, a]]
            cost = costs.serialise * block.pair_rate * elsewhere
            extra[block.sources, a] += cost * shares[block.sources, a]
            elsewhere = len(block.sources) - senders[places[block.targets, a]]
            cost = costs.deserialise * block.pair_rate * elsewhere
            extra[block.targets, a] += cost * shares[block.targets, a]
    return extra


def _parts(instance: Instance, deployment: Deployment) -> Iterator[tuple[int, int, Floats, Bools]]:
    """Yield each pair of places of senders and receivers: its rates, and where both are one."""
    flows, places, shares = instance.flows, deployment.places, deployment.shares
    for a in range(2):
        for b in range(2):
            part = shares[flows.source, a] * shares[flows.target, b] * flows.rate
            yield a, b, part, places[flows.source, a] == places[flows.target, b]


def mass_by_node(instance: Instance, deployment: Deployment, tasks: Any) -> Floats:
    """(N,) number of some key groups on each node, split ones in parts."""
    places, shares = deployment.places[tasks], deployment.shares[tasks]
    counted = np.bincount(places.ravel(), shares.ravel(), instance.num_nodes)
    return counted.astype(np.float64)


def collocated_traffic(instance: Instance, deployment: Deployment) -> float:
    """Return the traffic that stays on its node."""
    flows = instance.flows
    if deployment.is_whole:
        return flows.collocated(deployment.placement, instance.num_nodes)
    refuse_local_first(instance, "traffic of key groups that are split is of pairs of tasks")
    gain = 0.0
    for _, _, part, same in _parts(instance, deployment):
        gain += float(part[same].sum())
    for block in flows.blocks:
        senders = mass_by_node(instance, deployment, block.sources)
        gain += block.pair_rate * float(senders @ mass_by_node(instance, deployment, block.targets))
    return gain


def node_loads(instance: Instance, deployment: Deployment, costs: CostModel) -> Floats:
    """(N,) load of the first resource: background, key groups, serialisation and merging.

    `instance`: with the loads of the key groups as they are without serialisation.
    `deployment`, `costs`: what runs where, and what crossing traffic costs.
    """
    parts = deployment.shares * instance.tasks.load[:, :1]
    parts += crossing_load(instance, deployment, costs)
    counted = np.bincount(deployment.places.ravel(), parts.ravel(), instance.num_nodes)
    loads = instance.nodes.background[:, 0] + counted
    return loads if deployment.merge is None else loads + deployment.merge


def measured_load(instance: Instance, deployment: Deployment, costs: CostModel) -> Floats:
    """(T, R) loads as the statistics of the period show them: serialisation is the key group's."""
    load = instance.tasks.load.copy()
    load[:, 0] += crossing_load(instance, deployment, costs).sum(axis=1)
    return load
