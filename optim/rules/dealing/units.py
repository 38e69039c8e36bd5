"""What sets over slots make of tasks: those to be together are one unit, sets apart are columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.format.tables import APART, SPREAD, TOGETHER
from optim.rules.base import violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.rules.violation import Violation

    Numbers = NDArray[np.int64]


class Units:
    """The tasks that a dealing moves as one: U units.

    Attributes
    ----------
    of
        (T,) unit of each task.
    first
        (U,) its first task.
    node, topology
        (U,) of each, -1 for none.
    task_topology
        (T,) topology of each task.
    """

    def __init__(self, instance: Instance, node: Ints) -> None:
        self.instance, self.placed = instance, node >= 0
        operator, table = instance.tasks.operator, instance.slot_sets
        topology = np.full(instance.num_tasks, -1, dtype=np.int64)
        topology[operator >= 0] = instance.operators.topology[operator[operator >= 0]]
        self.of = self.first = np.arange(instance.num_tasks)
        self.node, self.topology = node, topology
        self._task_node, self.task_topology = node, topology
        joined = [self._members(i) for i in np.flatnonzero(table.rule == TOGETHER).tolist()]
        if any(len(tasks) > 1 for tasks in joined):
            self._join([tasks for tasks in joined if len(tasks) > 1])

    def _members(self, i: int) -> Numbers:
        """Return the members of a set that are somewhere."""
        tasks = self.instance.slot_sets.tasks_of(i)
        return tasks[self.placed[tasks]].astype(np.int64)

    def _join(self, joined: list[Numbers]) -> None:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        count = self.instance.num_tasks
        u, v = (np.concatenate([t[k : len(t) - 1 + k] for t in joined]) for k in (0, 1))
        graph = coo_array((np.ones(len(u)), (u, v)), shape=(count, count))
        label = connected_components(graph, directed=False)[1]
        self.first, self.of = np.unique(label, return_index=True, return_inverse=True)[1:]
        topology = np.full(len(self.first), -1, dtype=np.int64)
        np.maximum.at(topology, self.of, self.task_topology)
        self.node, self.topology = self._task_node[self.first], topology

    def sums(self, values: Floats) -> Floats:
        """(U, D) sums of (T, D) values."""
        if self.of is self.first:
            return values
        found = np.zeros((len(self.first), values.shape[1]))
        np.add.at(found, self.of, values)
        return found

    def clash(self) -> Iterator[Violation]:
        """Sets that are to be together on several nodes, or of several topologies."""
        table = self.instance.slot_sets
        for i in np.flatnonzero(table.rule == TOGETHER).tolist():
            tasks = self._members(i)
            nodes, kinds = np.unique(self._task_node[tasks]), self.task_topology[tasks]
            kinds = np.unique(kinds[kinds >= 0])
            if len(nodes) > 1:
                yield violation("slot_sets", f"{table.ids[i]} together: nodes", len(nodes), 1)
            elif len(kinds) > 1:
                yield violation("slot_sets", f"{table.ids[i]} together: topologies", len(kinds), 1)
            elif len(tasks) and (kinds != self.topology[self.of[tasks[0]]]).any():
                where = f"{table.ids[i]} together, and with others: topologies"
                yield violation("slot_sets", where, 2, 1)

    def apart(self) -> Iterator[tuple[int, int, Numbers, Numbers]]:
        """Sets that no slot of a node may hold altogether: set, node, units and their members."""
        table = self.instance.slot_sets
        for i in np.flatnonzero(table.rule == APART).tolist():
            units, members = np.unique(self.of[self._members(i)], return_counts=True)
            at = self.node[units]
            held = np.bincount(at, members, minlength=1)
            for n in np.flatnonzero(held > table.limit[i]).tolist():
                yield i, n, units[at == n], members[at == n]

    def spread(self) -> Iterator[tuple[int, Numbers]]:
        """Sets that stand on fewer nodes than they are to fill slots, and their units."""
        table = self.instance.slot_sets
        for i in np.flatnonzero(table.rule == SPREAD).tolist():
            units = np.unique(self.of[self._members(i)])
            if len(np.unique(self.node[units])) < table.limit[i]:
                yield i, units
