"""Slots in the model of task allocation: what linear rows of nodes say of them.

Which slot of a node a task is in is no variable. Of a placement that has a slot assignment all rows
here hold; one that keeps them all may still have none, and is cut off (`model.solve_exactly`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.model_rows import add_at_most
from optim.figures.measures import over
from optim.format.tables import APART, SPREAD, TOGETHER
from optim.rules.placement import Placement
from optim.rules.slot_assignment import slot_slack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.task_allocation.model import AllocationModel
    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints


class Workers(NamedTuple):
    """How many slots topologies fill, and nodes have."""

    job: NDArray[Any]  # (T,) topology of each task, -1 for a task that may be in any slot.
    #: (P,) slots that each topology fills in all.
    fewest: NDArray[Any]
    most: NDArray[Any]
    slots: NDArray[Any]  # (N,) slots of each node; may be infinite.


def workers_of_slots(instance: Instance) -> Workers:
    """Return what topologies fill: min(W_k, E_k) slots, from 1 to E_k where W_k is not given."""
    job, declared, slots = instance.task_topology, instance.topologies.workers, instance.nodes.slots
    size = np.bincount(job[job >= 0], minlength=len(declared))
    most = np.where(declared >= 0, np.minimum(declared, size), size)
    fewest = np.where(declared >= 0, most, np.minimum(size, 1))
    return Workers(job, fewest, most, np.where(slots < 0, np.inf, slots))


def add_workers(
    instance: Instance, allocation: AllocationModel, workers: Workers, *, whole: bool
) -> NDArray[np.int64]:
    """Add w_kn, the slots of node n that topology k fills; return their (P, N) columns.

    x_tn ≤ w_kn ≤ Σ_(t in k) x_tn,  Σ_n w_kn = min(W_k, E_k),  Σ_k w_kn ≤ S_n and, where slots hold
    m tasks at most, Σ_(t in k) x_tn ≤ m w_kn. Between whole bounds w is whole in a flow.

    `whole`: whether w is declared whole.
    """
    model, n, p = allocation.model, instance.num_nodes, len(workers.most)
    x = np.flatnonzero(workers.job[allocation.task] >= 0)
    task, node = allocation.task[x], allocation.node[x]
    job = workers.job[task]
    upper = np.minimum(workers.slots[None, :], workers.most[:, None]).astype(np.float64)
    at = {"topology": np.arange(p)[:, None], "node": np.arange(n)}
    w = model.add_variables("workers", (p, n), upper=upper, integer=whole, of=at).indices
    add_at_most(model, "at_work", x, w[job, node], {"task": task, "node": node})
    cells = np.arange(p * n)
    each = {"topology": cells // n, "node": cells % n}
    tasks_there, workers_there = (job * n + node, x, 1.0), (cells, w.ravel())
    # w_kn ≤ Σ_t x_tn, and Σ_t x_tn ≤ m · w_kn
    model.add_sum("none_idle", 0.0, np.inf, p * n, tasks_there, (*workers_there, -1.0), of=each)
    limit = instance.limits.max_tasks_per_slot
    if limit is not None:
        capped = *workers_there, -float(limit)
        model.add_sum("max_tasks_per_slot", -np.inf, 0.0, p * n, tasks_there, capped, of=each)
    least, most = workers.fewest.astype(np.float64), workers.most.astype(np.float64)
    of = {"topology": np.arange(p)}
    model.add_rows("workers", least, most, cells // n, w.ravel(), 1.0, p, of=of)
    room = workers.slots.astype(np.float64)
    model.add_rows("slots", -np.inf, room, cells % n, w.ravel(), 1.0, n, of={"node": np.arange(n)})
    return w


class SlotRows:
    """Rows of everything that slots limit, and the columns that they add.

    `instance`: with its slots.
    `allocation`: a model of the instance without them; rows are added to it.
    `whole_only`: whether the solver takes no continuous variables.
    """

    def __init__(
        self, instance: Instance, allocation: AllocationModel, *, whole_only: bool = False
    ) -> None:
        self.instance, self.allocation = instance, allocation
        self.work = workers_of_slots(instance)
        self.loose = self.work.job < 0
        sets, limit = instance.slot_sets, instance.limits.max_tasks_per_slot
        self.sized = np.isfinite(instance.nodes.slot_capacity)
        whole = whole_only or limit is not None or bool(sets.ids) or bool(self.sized.any())
        self.filled = add_workers(instance, allocation, self.work, whole=whole)
        self.stands: list[tuple[Ints, NDArray[Any]]] = []  # members of a set, and (N,) columns
        self._add_sizes()
        for i, rule in enumerate(sets.rule.tolist()):
            members, most = sets.tasks_of(i), int(sets.limit[i])
            if rule == APART:
                self._add_apart(members, most)
            elif rule == TOGETHER:
                self._add_together(members)
            elif rule == SPREAD:
                self._add_spread(members, most, whole=whole_only)

    def complete(self, x: Floats, node: Ints) -> None:
        """Set the added columns of a solution vector, if the slot assignment is known."""
        slot = Placement(self.instance, node).slot_assignment.slot
        if slot is None:
            return
        place, job = np.column_stack([node, slot]), self.work.job

        def slots(tasks: NDArray[Any]) -> NDArray[Any]:
            used = np.unique(place[tasks], axis=0)[:, 0]
            return np.bincount(used, minlength=self.instance.num_nodes)

        for k, columns in enumerate(self.filled):
            x[columns] = slots(np.flatnonzero(job == k))
        for members, columns in self.stands:
            x[columns] = slots(members)

    def _add_sizes(self) -> None:
        """x_tn = 0 where l_t > c_n;  Σ_(t in k) l_t x_tn ≤ c_n w_kn, c_n a slot's capacity."""
        model, task, node = self.allocation.model, self.allocation.task, self.allocation.node
        instance, job = self.instance, self.work.job
        load, room = instance.tasks.load, instance.nodes.slot_capacity
        too_large = over(load[task], room[node]).any(axis=1)
        large = np.flatnonzero(too_large)
        if len(large):
            of = {"task": task[large], "node": node[large]}
            model.add_rows("no_slot", 0.0, 0.0, np.arange(len(large)), large, 1.0, of=of)
        p, n = self.filled.shape
        cells, each = np.arange(p * n), room + slot_slack(instance)
        x = np.flatnonzero((job[task] >= 0) & ~too_large)
        row = job[task[x]] * n + node[x]
        for r in np.flatnonzero(self.sized.any(axis=0)).tolist():
            bound = self.sized[:, r]
            some, bounded = bound[node[x]], bound[cells % n]
            loads = (row[some], x[some], load[task[x[some]], r])
            slots = (cells[bounded], self.filled.ravel()[bounded], -each[cells[bounded] % n, r])
            of = {"topology": cells // n, "node": cells % n}
            model.add_sum("slot_capacity", -np.inf, 0.0, p * n, loads, slots, of=of)

    def _on_nodes(self, members: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Node and column of all x_tn of some tasks."""
        x = np.flatnonzero(np.isin(self.allocation.task, members))
        return self.allocation.node[x], x

    def _add_apart(self, members: Ints, most: int) -> None:
        """Σ_(t in S and k) x_tn ≤ a w_kn;  Σ_(t in S) x_tn ≤ a S_n."""
        model, n = self.allocation.model, self.instance.num_nodes
        row = np.arange(n)
        at, x = self._on_nodes(members)
        if np.isfinite(self.work.slots).any():
            model.add_rows("apart_in_slots", -np.inf, most * self.work.slots, at, x, 1.0, n)
        job = self.work.job[members]
        for k in np.unique(job[job >= 0]).tolist():
            at, x = self._on_nodes(members[job == k])
            terms = (at, x, 1.0), (row, self.filled[k], -float(most))
            model.add_sum("apart_in_slots", -np.inf, 0.0, n, *terms)

    def _add_together(self, members: Ints) -> None:
        """x_tn = x_un: what is in one slot is on one node."""
        n = self.instance.num_nodes
        first = self._on_nodes(members[:1])
        for t in members[1:].tolist():
            other = self._on_nodes(np.array([t]))
            of_first, of_other = (*first, 1.0), (*other, -1.0)
            self.allocation.model.add_sum("in_one_slot", 0.0, 0.0, n, of_first, of_other)

    def _add_spread(self, members: Ints, least: int, *, whole: bool) -> None:
        """v_n ≤ S_n, v_n ≤ Σ_(t in S) x_tn, v_n ≤ Σ_(k of S) w_kn, Σ_n v_n ≥ least."""
        model, n = self.allocation.model, self.instance.num_nodes
        row = np.arange(n)
        upper = np.minimum(self.work.slots, len(members)).astype(np.float64)
        v = model.add_variables(
            "slots_of_set", n, upper=upper, integer=whole, of={"node": row}
        ).indices
        self.stands.append((members, v))
        at, x = self._on_nodes(members)
        model.add_sum("spread_in_slots", 0.0, np.inf, n, (at, x, 1.0), (row, v, -1.0))
        job = np.unique(self.work.job[members])
        if job.min() >= 0:
            terms = (row[None, :], self.filled[job], 1.0), (row, v, -1.0)
            model.add_sum("spread_in_slots", 0.0, np.inf, n, *terms)
        model.add_rows("spread_in_slots", float(least), np.inf, 0 * row, v, 1.0, 1)
