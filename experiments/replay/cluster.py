"""The nodes of a replay: those of the recording, copies added since, some of them leaving."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints, LinkTable, NodeTable, TaskTable


@dataclass(frozen=True)
class Cluster:
    """Which nodes there are.

    Attributes
    ----------
    ids
        Names of the nodes.
    base
        For each the node of the recording it is, or is a copy of.
    leaving
        Whether it is marked for removal.
    added
        How many nodes were added so far, those dropped again included: names are never used twice.
    """

    ids: tuple[str, ...]
    base: tuple[int, ...]
    leaving: tuple[bool, ...]
    added: int = 0

    @classmethod
    def of(cls, instance: Instance) -> Cluster:
        """Return the nodes of the first period."""
        leaving = tuple(bool(flag) for flag in instance.nodes.leaving)
        return cls(instance.nodes.ids, tuple(range(instance.num_nodes)), leaving)

    def __len__(self) -> int:
        return len(self.ids)

    def grown(self, count: int, template: int) -> Cluster:
        """Return the cluster with `count` copies more of a node of the recording (its index)."""
        names: list[str] = []
        number = self.added
        while len(names) < count:
            number += 1
            name = f"added-{number}"
            if name not in self.ids:
                names.append(name)
        base, leaving = (*self.base, *[template] * count), (*self.leaving, *[False] * count)
        return Cluster((*self.ids, *names), base, leaving, number)

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
        return replace(self, ids=ids, base=base, leaving=leaving), new


def on_cluster(
    period: Instance, cluster: Cluster, load: Floats, node: NDArray[np.int64], limits: Any
) -> Instance:
    """Return a period's instance on the nodes there are now.

    Added nodes are like the one they are copies of: its capacity and background of the period, and
    a key group allowed there is allowed on them. Links keep the nodes they list.

    Parameters
    ----------
    period
        As recorded.
    cluster
        The nodes.
    load
        (T, R) measured loads.
    node
        (T,) current place, index in the cluster.
    limits
        Budgets of the replay, an `optim.format.tables.Limits`.
    """
    base = np.array(cluster.base, dtype=np.int64)
    return replace(
        period,
        nodes=_nodes(period.nodes, cluster, base),
        tasks=_tasks(period.tasks, base, load, node),
        links=_links(period.links, cluster, base),
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
    table: TaskTable, base: NDArray[np.int64], load: Floats, node: NDArray[np.int64]
) -> TaskTable:
    allowed_indptr, allowed_indices = _now(table.allowed_indptr, table.allowed_indices, base)
    copies_indptr, copies_indices = _now(table.copies_indptr, table.copies_indices, base)
    return replace(
        table,
        load=load.copy(),
        node=node.astype(np.int32),
        slot=np.full(len(node), -1, dtype=np.int32),
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


def _links(table: LinkTable, cluster: Cluster, base: NDArray[np.int64]) -> LinkTable:
    if not len(table.ids):
        return table
    own = [i for i, name in enumerate(cluster.ids) if not name.startswith("added-")]
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
