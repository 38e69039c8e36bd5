"""The nodes that there are: those of an instance, copies added since, some of them leaving."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints, Limits, LinkTable, NodeTable, TaskTable


@dataclass(frozen=True)
class Cluster:
    """Which nodes there are.

    Attributes
    ----------
    ids
        Names of the nodes.
    base
        For each the node of the instance it is, or is a copy of.
    leaving
        Whether it is marked for removal.
    """

    ids: tuple[str, ...]
    base: tuple[int, ...]
    leaving: tuple[bool, ...]

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

    Parameters
    ----------
    instance
        As recorded, or as it was before its nodes changed.
    cluster
        The nodes.
    load
        (T, R) measured loads.
    node
        (T,) current place, index in the cluster.
    limits
        With the budgets that hold.
    slot
        (T,) current slot; none where left out.
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
    own = [i for i, name in enumerate(cluster.ids) if name == instance.nodes.ids[base[i]]]
    index = {int(base[i]): i for i in own}
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
