"""A linear model of the rules that hold, each row with the rule instances that it comes from.

    Σ_n x_tn = 1                                  every task on one node
    floor_nr ≤ Σ_t load_tr x_tn ≤ room_nr         capacity, least load, load distance
    Σ_t x_tn ≤ most_n                             number of tasks
    s_pn ≤ Σ_(t of p) x_tn ≤ most · s_pn          topology p has s_pn slots on n
    Σ_p s_pn ≤ slots_n,  Σ_n s_pn = workers_p     how tasks share slots is left open
    Σ_(moves) x_tn ≤ most                         migrations, and their cost

and the shared rows of sets and inflow (`formulations.rule_rows`) and of links. Every feasible
placement is among its points, so what it excludes is excluded; a placement that it gives is
feasible only if the referee says so. Bounds are widened by the referee's tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.rule_rows import Whereabouts, add_rule_rows
from formulations.task_allocation.model import add_links
from optim.moves.place_rules import place_rules
from optim.moves.room import placing_masks
from optim.rules import SLOTS
from optim.rules.capacity import proof_slack
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.conflicts.atoms import Atoms
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats
    from optim.solvers.linear_model import RowBlock

    Ids = NDArray[np.int64]

_LINK_ENTRIES = 400_000
"""Entries of the rows of links up to which these are written."""


@dataclass(eq=False)
class RuleModel:
    """The model of some rule instances.

    Attributes
    ----------
    instance
        With only these rules.
    model
        Columns ``task × N + node`` come first.
    owners
        Rows of the model, of each a rule instance that it comes from, and by how much the row's
        bound grows with that rule's limit. Rows that come from none are of the structure; a row may
        come from several, without each of which it falls.
    shut
        Columns that are 0, of each the rule instance that says so, and whether it counts tasks.
    deal
        Reads (T,) nodes off a point, where columns are of groups of tasks.
    """

    instance: Instance
    model: LinearModel
    owners: list[tuple[Ids, Ids, Floats]] = field(default_factory=list)
    shut: list[tuple[Ids, Ids, Floats]] = field(default_factory=list)
    deal: Callable[[Floats], NDArray[np.int32]] | None = None

    def own(self, block: RowBlock, ids: Any, factor: Any = 1.0) -> None:
        """Note whose the rows of a block are: of one rule instance, or of one each."""
        rows = np.arange(block.start, block.stop)
        factors = np.broadcast_to(np.asarray(factor, float), rows.shape)
        self.owners.append((rows, np.broadcast_to(ids, rows.shape), factors))

    def close(self, columns: Ids, ids: Any, counts: float = 1.0) -> None:
        """Note who says that columns are 0."""
        shape = columns.shape
        self.shut.append((columns, np.broadcast_to(ids, shape), np.full(shape, counts)))

    def place(self, x: Floats) -> NDArray[np.int32]:
        """Read (T,) nodes off a point; where it splits a task, the node with most of it."""
        if self.deal is not None:
            return self.deal(x)
        shape = self.instance.num_tasks, self.instance.num_nodes
        return np.asarray(x[: shape[0] * shape[1]].reshape(shape).argmax(axis=1), np.int32)


def joined(parts: list[tuple[Ids, Ids, Floats]]) -> tuple[Ids, Ids, Floats]:
    """Join triples of arrays to one triple."""
    none = np.zeros(0, np.int64)
    first, second, third = zip(*[(none, none, none.astype(float)), *parts], strict=True)
    return np.concatenate(first), np.concatenate(second), np.concatenate(third)


def build(atoms: Atoms, kept: Ids) -> RuleModel:
    """Write the rows of some rule instances."""
    instance = atoms.keep(kept.tolist())
    t, n = instance.num_tasks, instance.num_nodes
    kinds, by_kind, _ = placing_masks(instance)
    allowed, enterable = by_kind[kinds], ~shut_by_leaving(instance)
    model = LinearModel("rules")
    upper = (allowed & enterable).astype(float)
    x = model.add_variables("place", (t, n), upper=upper, integer=True).indices
    made = RuleModel(instance, model)
    task, node = np.nonzero(~allowed)
    made.close(x[task, node], atoms.list_of[task])
    if not enterable.all():
        made.close(x[~enterable], atoms.of("leaving"))
    model.add_rows("assign", 1.0, 1.0, np.repeat(np.arange(t), n), x.ravel(), 1.0, num_rows=t)
    writer = _Writer(made, atoms, kept, x)
    writer.loads()
    writer.counts()
    writer.slots()
    writer.budgets()
    writer.sets()
    writer.links()
    return made


def shut_by_leaving(instance: Instance) -> Bools:
    """(T, N) where a task may not go since the node leaves."""
    leaving, home = instance.nodes.leaving, instance.tasks.node
    if instance.limits.into_leaving or not leaving.any():
        return np.zeros((instance.num_tasks, instance.num_nodes), np.bool_)
    bound = ~((home >= 0) & leaving[home]) & instance.has_open_node
    return np.asarray(bound[:, None] & leaving[None, :])


class _Writer:
    """Adds the rows of each rule and notes whose they are."""

    def __init__(self, made: RuleModel, atoms: Atoms, kept: Ids, x: Ids) -> None:
        self.made, self.atoms, self.x = made, atoms, x
        self.instance, self.model = made.instance, made.model
        self.kept = np.zeros(len(atoms), np.bool_)
        self.kept[kept] = True

    def held(self, rule: str, resource: int = -1) -> tuple[Ids, Ids]:
        """Return number and index of the rule instances of a sort that hold."""
        some = self.atoms.of(rule, resource)
        some = some[self.kept[some]]
        return some, self.atoms.index[some]

    def on_nodes(
        self,
        name: str,
        nodes: Ids,
        weight: Floats,
        lower: Any,
        upper: Any,
        ids: Ids,
        factor: Any = 1.0,
    ) -> None:
        """Rows ``lower ≤ Σ_t weight_t x_tn ≤ upper``, one a node."""
        some = np.flatnonzero(weight)
        rows = np.repeat(np.arange(len(nodes)), len(some))
        columns = self.x[np.ix_(some, nodes)].T.ravel()
        weights = np.tile(weight[some], len(nodes))
        block = self.model.add_rows(name, lower, upper, rows, columns, weights, len(nodes))
        self.made.own(block, ids, factor)

    def loads(self) -> None:
        """Capacity and least load of each node; load distance."""
        instance, nodes = self.instance, self.instance.nodes
        for r in range(instance.num_resources):
            load, total = instance.tasks.load[:, r], instance.totals[r]
            ids, at = self.held("capacity", r)
            bound = nodes.capacity[at, r] * instance.limits.max_utilisation[r]
            room = bound + proof_slack(bound, total) - nodes.background[at, r]
            self.on_nodes("capacity", at, load, -np.inf, room, ids)
            if instance.crossing_cost[:, r].any():
                continue  # what crosses may add to least loads, by how much is not known here
            ids, at = self.held("min_load", r)
            floor = nodes.min_load[at, r]
            least = floor - proof_slack(floor, total) - nodes.background[at, r]
            self.on_nodes("min_load", at, load, least, np.inf, ids)
        ids, _ = self.held("max_load_distance")
        limit = instance.limits.max_load_distance
        if not len(ids) or limit is None or instance.mean_load is None:
            return
        if instance.crossing_cost[:, 0].any():
            return
        mean = nodes.weight * instance.mean_load - nodes.background[:, 0]
        far = limit + proof_slack(np.asarray(limit), instance.totals[0])
        least = np.where(instance.open_nodes, mean - far, -np.inf)
        every = np.arange(instance.num_nodes)
        self.on_nodes("distance", every, instance.tasks.load[:, 0], least, mean + far, ids)

    def counts(self) -> None:
        """Number of tasks on each node."""
        ids, at = self.held("max_tasks")
        most = self.instance.nodes.max_tasks[at].astype(float)
        self.on_nodes("max_tasks", at, np.ones(self.instance.num_tasks), -np.inf, most, ids)

    def slots(self) -> None:
        """What all slots of a node hold together; slots shared out among topologies."""
        instance, nodes = self.instance, self.instance.nodes
        most = instance.limits.max_tasks_per_slot
        ids, at = self.held("slots")
        each, _ = self.held("max_tasks_per_slot")
        number, ones = nodes.slots[at].astype(float), np.ones(instance.num_tasks)
        none = number == 0
        self.on_nodes("no slots", at[none], ones, -np.inf, 0.0, ids[none])
        if len(each) and most is not None:
            self.on_nodes("slots × tasks", at, ones, -np.inf, number * most, ids, most)
            self.made.own(self.model.row_blocks[-1], each, number)
        for r in range(instance.num_resources):
            own, node = self.held("slot_capacity", r)
            load = instance.tasks.load[:, r]
            bound = nodes.slot_capacity[:, r]
            bound = bound + proof_slack(bound, instance.totals[r])
            for atom, n in zip(own.tolist(), node.tolist(), strict=True):
                if (load > bound[n]).any():
                    large = (load > bound[n]).astype(float)
                    self.on_nodes("too large", np.array([n]), large, -np.inf, 0.0, np.array([atom]))
            both = np.isin(at, node)
            other = own[np.searchsorted(node, at[both])]
            room = number[both] * bound[at[both]]
            self.on_nodes(
                "slot capacity", at[both], load, -np.inf, room, ids[both], bound[at[both]]
            )
            self.made.own(self.model.row_blocks[-1], other, number[both])
        self._topologies(ids, at, number)

    def _topologies(self, ids: Ids, at: Ids, number: Floats) -> None:
        """Each slot serves one topology, and each topology fills its number of slots."""
        instance, model, n = self.instance, self.model, self.instance.num_nodes
        workers, which = self.held("workers")
        topology = np.asarray(SLOTS.task_key(instance))
        used = np.unique(topology[topology >= 0])
        if not len(used) or not (len(ids) or len(workers)):
            return
        size = np.bincount(topology[topology >= 0], minlength=int(used.max()) + 1)[used]
        shape = (len(used), n)
        s = model.add_variables(
            "slots", shape, upper=np.repeat(size, n).reshape(shape), integer=True
        ).indices
        row = np.searchsorted(used, topology)
        some = np.flatnonzero(topology >= 0)
        rows = (row[some][:, None] * n + np.arange(n)).ravel()
        every = np.arange(s.size)

        def shared(name: str, lower: float, weight: Floats, slot: Any) -> RowBlock:
            columns = np.concatenate([self.x[some].ravel(), s.ravel()])
            values = np.concatenate([np.repeat(weight[some], n), np.broadcast_to(slot, s.size)])
            upper = np.inf if lower == 0 else 0.0
            where = np.concatenate([rows, every])
            return model.add_rows(name, lower, upper, where, columns, values, s.size)

        ones = np.ones(instance.num_tasks)
        shared("a task in each slot", 0.0, ones, -1.0)
        shared("a slot where tasks are", -np.inf, ones, -np.repeat(size, n).astype(float))
        each, _ = self.held("max_tasks_per_slot")
        if len(each) and instance.limits.max_tasks_per_slot is not None:
            most = float(instance.limits.max_tasks_per_slot)
            self.made.own(shared("tasks a slot", -np.inf, ones, -most), each, np.repeat(size, n))
        for r in range(instance.num_resources):
            own, _ = self.held("slot_capacity", r)
            if len(own) == n:
                bound = instance.nodes.slot_capacity[:, r]
                bound = bound + proof_slack(bound, instance.totals[r])
                block = shared(
                    "load a slot", -np.inf, instance.tasks.load[:, r], -np.tile(bound, len(used))
                )
                self.made.own(block, np.tile(own, len(used)), np.repeat(size, n))
        columns = s[:, at].T.ravel()
        where = np.repeat(np.arange(len(at)), len(used))
        self.made.own(
            model.add_rows("slots of nodes", -np.inf, number, where, columns, 1.0, len(at)), ids
        )
        there = np.isin(which, used)
        rows_of = np.searchsorted(used, which[there])
        wanted = np.minimum(instance.topologies.workers[which[there]], size[rows_of]).astype(float)
        where = np.repeat(np.arange(len(rows_of)), n)
        block = model.add_rows(
            "workers", wanted, wanted, where, s[rows_of].ravel(), 1.0, len(rows_of)
        )
        self.made.own(block, workers[there])

    def budgets(self) -> None:
        """Migrations and their cost."""
        instance, limits = self.instance, self.instance.limits
        rules = place_rules(instance)
        task, node = np.divmod(np.arange(self.x.size), instance.num_nodes)
        pays = rules.pays(task, node)
        price = instance.tasks.migration_cost
        for name, cost, total in (
            ("max_migrations", np.ones(len(price)), 0.0),
            ("max_migration_cost", price, float(price.sum())),
        ):
            ids, _ = self.held(name)
            most = getattr(limits, name)
            if len(ids) and most is not None:
                bound = most + float(proof_slack(np.asarray(float(most)), np.asarray(total)))
                where = np.zeros(int(pays.sum()), np.int64)
                block = self.model.add_rows(
                    name, -np.inf, bound, where, self.x.ravel()[pays], cost[task[pays]], num_rows=1
                )
                self.made.own(block, ids)

    def sets(self) -> None:
        """Sets and inflow, by the shared rows."""
        t, n = self.x.shape
        task, node = np.divmod(np.arange(self.x.size), n)
        where = Whereabouts(
            task, node, self.x.ravel(), np.ones(self.x.size), np.full(t, -1, np.int64)
        )
        before = len(self.model.row_blocks)
        add_rule_rows(self.model, place_rules(self.instance), where)
        ids, _ = self.held("sets")
        inflow, _ = self.held("max_inflow")
        for block in self.model.row_blocks[before:]:
            kind, _, number = block.name.rpartition("_")
            if block.name == "max_inflow":
                self.made.own(block, inflow)
            elif kind in ("apart", "together", "spread"):
                self.made.own(block, ids[int(number)])

    def links(self) -> None:
        """Traffic that crosses each link, where that is not too much to write."""
        ids, _ = self.held("links")
        entries = len(ids) * len(self.instance.flows.directed()[2]) if len(ids) else 0
        if not 0 < entries * self.instance.num_nodes <= _LINK_ENTRIES:
            return
        before = len(self.model.row_blocks)
        add_links(self.model, self.instance, self.x, None, whole=False)
        blocks = [b for b in self.model.row_blocks[before:] if b.name.startswith("link ")]
        for block, atom in zip(blocks, ids, strict=True):
            self.made.own(block, atom)
