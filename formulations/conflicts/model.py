"""A linear model of the rules that hold, each row with the rule instances that it comes from.

    Σ_n x_tn = 1                                  every task on one node
    Σ_(moves) x_tn ≤ most                         migrations, and their cost

and the rows of nodes and slots (`formulations.conflicts.model`), of sets and inflow
(`formulations.model_rows`) and of links. Every feasible placement is among its points, so what it
excludes is excluded; a placement that it gives is feasible only if the referee says so. Bounds are
widened by the referee's tolerance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.model_rows import Crossings, Whereabouts, add_at_most, add_links, add_rule_rows
from optim.format.tables import APART, TOGETHER
from optim.kernels.place_rules import place_rules, placing_masks, slot_rules
from optim.rules import RULES, SLOTS, Form, budgets, most_restarts, node_counts
from optim.rules.capacity import proof_slack
from optim.rules.slot_assignment.groups import workers_of
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.conflicts.rule_instances import Atoms

    Ids = NDArray[np.int64]
    from collections.abc import Callable

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats
    from optim.rules.budget import Budget
    from optim.solvers.linear_model import RowBlock


# Rows that the models of rules have in common, whatever their columns stand for.
#
#     floor_nr ≤ Σ_t load_tr x_tn ≤ room_nr         capacity, least load, load distance
#     Σ_t x_tn ≤ most_n                             number of tasks
#     s_pn ≤ Σ_(t of p) x_tn ≤ most · s_pn          topology p has s_pn slots on n
#     Σ_p s_pn ≤ slots_n,  Σ_n s_pn = workers_p     how tasks share slots is left open
#
# A model says by `RowWriter.amounts` what of a measure its columns put on each node.


@dataclass(eq=False)
class RuleModel:
    """The model of some rule instances."""

    instance: Instance  # With only these rules.
    model: LinearModel  # Columns ``task × N + node`` come first.
    #: Rows of the model, of each a rule instance that it comes from, and by how much the row's
    #: bound grows with that rule's limit. Rows that come from none are of the structure; a row may
    #: come from several, without each of which it falls.
    owners: list[tuple[Ids, Ids, Floats]] = field(default_factory=list)
    #: Columns that are 0, of each the rule instance that says so, and whether it counts tasks.
    shut: list[tuple[Ids, Ids, Floats]] = field(default_factory=list)
    #: Reads (T,) nodes off a point, where columns are of groups of tasks.
    deal: Callable[[Floats], NDArray[np.int32]] | None = None

    def add_owners(self, block: RowBlock, ids: Any, factor: Any = 1.0) -> None:
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


def shut_by_leaving(instance: Instance) -> Bools:
    """(T, N) where a task may not go since the node leaves."""
    leaving, home = instance.nodes.leaving, instance.tasks.node
    if instance.limits.into_leaving or not leaving.any():
        return np.zeros((instance.num_tasks, instance.num_nodes), np.bool_)
    bound = ~((home >= 0) & leaving[home]) & instance.has_open_node
    return np.asarray(bound[:, None] & leaving[None, :])


class Amounts(NamedTuple):
    """What columns put on nodes: (E,) node, topology (-1 for none), column, and how much each."""

    node: Ids
    topology: Ids
    column: Ids
    value: Floats


class RowWriter(ABC):
    """Adds the rows of rules and notes whose they are.

    `atoms`, `subset`: the rule instances, and which of them hold.
    `loads`: the measures that are loads, with their resources; measure 0 is the number of tasks.
    """

    def __init__(self, rule_model: RuleModel, atoms: Atoms, subset: Ids) -> None:
        self.rule_model, self.atoms = rule_model, atoms
        self.instance, self.model = rule_model.instance, rule_model.model
        self.is_enforced = np.zeros(len(atoms), np.bool_)
        self.is_enforced[subset] = True
        self.loads: list[tuple[int, int]] = []

    @abstractmethod
    def amounts(self, measure: int) -> Amounts:
        """Return what of a measure the columns put on each node."""

    def enforced(self, rule: str, resource: int = -1) -> tuple[Ids, Ids]:
        """Return number and index of the rule instances of a sort that hold."""
        some = self.atoms.of(rule, resource)
        some = some[self.is_enforced[some]]
        return some, self.atoms.index[some]

    def enforced_budget(self, budget: Budget) -> Ids:
        """Return the number of the rule instance of a budget, if that holds."""
        ids, entry = self.enforced(budget.name)
        return ids[entry == budget.entry]

    def enforced_of_form(self, form: Form) -> tuple[Ids, Ids]:
        """Return number and index of the rule instances of a form that hold."""
        parts = [self.enforced(limit.name) for r in RULES if r.form is form for limit in r.limits]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def on_nodes(
        self, name: str, measure: int, at: Ids, lower: Any, upper: Any, ids: Ids, factor: Any = 1.0
    ) -> None:
        """Rows ``lower ≤ what of a measure is there ≤ upper``, one for each of some nodes."""
        number = np.full(self.instance.num_nodes, -1, np.int64)
        number[at] = np.arange(len(at))
        amounts = self.amounts(measure)
        rows = number[amounts.node]
        there = rows >= 0
        block = self.model.add_rows(
            name, lower, upper, rows[there], amounts.column[there], amounts.value[there], len(at)
        )
        self.rule_model.add_owners(block, ids, factor)

    def nodes(self) -> None:
        """Bounds of each node: capacity, least load, number of tasks, load distance."""
        instance, nodes = self.instance, self.instance.nodes
        for q, r in self.loads:
            background = nodes.background[:, r]
            ids, at = self.enforced("capacity", r)
            bound = nodes.capacity[at, r] * instance.limits.max_utilisation[r]
            room = bound + proof_slack(bound) - background[at]
            self.on_nodes("capacity", q, at, -np.inf, room, ids)
            if instance.crossing_cost[:, r].any():
                continue  # what crosses may add to least loads, by how much is not known here
            ids, at = self.enforced("min_load", r)
            floor = nodes.min_load[at, r]
            least = floor - proof_slack(floor) - background[at]
            self.on_nodes("min_load", q, at, least, np.inf, ids)
            if r == 0:
                self._distance(q)
        ids, at = self.enforced("max_tasks")
        self.on_nodes("max_tasks", 0, at, -np.inf, nodes.max_tasks[at].astype(float), ids)

    def _distance(self, measure: int) -> None:
        instance, limit = self.instance, self.instance.limits.max_load_distance
        ids, _ = self.enforced("max_load_distance")
        if not len(ids) or limit is None or instance.mean_load is None:
            return
        nodes = instance.nodes
        due, background = nodes.weight * instance.mean_load, nodes.background[:, 0]
        most = due + limit + 2 * proof_slack(due + limit) - background
        least = due - limit - 2 * proof_slack(np.maximum(due, limit)) - background
        least = np.where(instance.open_nodes, least, -np.inf)
        self.on_nodes("distance", measure, np.arange(len(due)), least, most, ids)

    def add_owners_of_sets(self, blocks: list[RowBlock]) -> None:
        """Note whose the rows of `formulations.model_rows` are."""
        ids, _ = self.enforced("sets")
        inflow, _ = self.enforced_of_form(Form.INFLOW)
        counts = node_counts(self.instance)
        for block in blocks:
            kind, _, number = block.name.rpartition("_")
            if block.name == "inflow":
                self.rule_model.add_owners(block, inflow)
            elif kind in ("apart", "together", "spread"):
                self.rule_model.add_owners(block, ids[int(number)])
            elif kind == "count":
                count = counts[int(number)]
                some, at = self.enforced(count.rule)
                self.rule_model.add_owners(block, some[at == count.entry])

    def slots(self) -> None:
        """What all slots of a node hold together; slots shared out among topologies."""
        nodes, most = self.instance.nodes, self.instance.limits.max_tasks_per_slot
        ids, at = self.enforced("slots")
        each, _ = self.enforced("max_tasks_per_slot")
        number = nodes.slots[at].astype(float)
        none = number == 0
        # one more slot may hold any number of tasks
        every = float(self.instance.num_tasks)
        self.on_nodes("no slots", 0, at[none], -np.inf, 0.0, ids[none], every)
        if len(each) and most is not None:
            self.on_nodes("slots × tasks", 0, at, -np.inf, number * most, ids, most)
            self.rule_model.add_owners(self.model.row_blocks[-1], each, number)
        for q, r in self.loads:
            capacity_ids, node = self.enforced("slot_capacity", r)
            bound = self._slot_bound(r)
            both = np.isin(at, node)
            other = capacity_ids[np.searchsorted(node, at[both])]
            room = number[both] * bound[at[both]]
            self.on_nodes("slot capacity", q, at[both], -np.inf, room, ids[both], bound[at[both]])
            self.rule_model.add_owners(self.model.row_blocks[-1], other, number[both])
        self._topologies(ids, at, number)

    def _slot_bound(self, r: int) -> Floats:
        """(N,) load that a slot may have, with the referee's tolerance."""
        bound = self.instance.nodes.slot_capacity[:, r]
        return np.asarray(bound + proof_slack(bound))

    def _topologies(self, ids: Ids, at: Ids, number: Floats) -> None:
        """Each slot serves one topology, and each topology fills its number of slots."""
        instance, model, n = self.instance, self.model, self.instance.num_nodes
        workers, which = self.enforced("workers")
        topology = np.asarray(SLOTS.task_key(instance))
        used, size = np.unique(topology[topology >= 0], return_counts=True)
        if not len(used) or not (len(ids) or len(workers)):
            return
        upper = np.repeat(size, n).reshape(len(used), n).astype(float)
        s = model.add_variables("slots", upper.shape, upper=upper, integer=True).indices

        def shared(name: str, measure: int, lower: float, slot: Any) -> RowBlock:
            amounts = self.amounts(measure)
            some = amounts.topology >= 0
            rows = np.searchsorted(used, amounts.topology[some]) * n + amounts.node[some]
            return model.add_sum(
                name, lower, np.inf if lower == 0 else 0.0, s.size,
                (rows, amounts.column[some], amounts.value[some]),
                (np.arange(s.size), s.ravel(), slot),
            )  # fmt: skip

        shared("a task in each slot", 0, 0.0, -1.0)
        shared("a slot where tasks are", 0, -np.inf, -np.repeat(size, n).astype(float))
        each, _ = self.enforced("max_tasks_per_slot")
        if len(each) and instance.limits.max_tasks_per_slot is not None:
            most = float(instance.limits.max_tasks_per_slot)
            self.rule_model.add_owners(
                shared("tasks a slot", 0, -np.inf, -most), each, np.repeat(size, n)
            )
        for q, r in self.loads:
            capacity_ids, _ = self.enforced("slot_capacity", r)
            if len(capacity_ids) == n:
                block = shared("load a slot", q, -np.inf, -np.tile(self._slot_bound(r), len(used)))
                self.rule_model.add_owners(
                    block, np.tile(capacity_ids, len(used)), np.repeat(size, n)
                )
        where = np.repeat(np.arange(len(at)), len(used))
        columns = s[:, at].T.ravel()
        self.rule_model.add_owners(
            model.add_rows("slots of nodes", -np.inf, number, where, columns, 1.0, len(at)), ids
        )
        there = np.isin(which, used)
        rows_of = np.searchsorted(used, which[there])
        wanted = np.minimum(instance.topologies.workers[which[there]], size[rows_of]).astype(float)
        where = np.repeat(np.arange(len(rows_of)), n)
        block = model.add_rows(
            "workers", wanted, wanted, where, s[rows_of].ravel(), 1.0, len(rows_of)
        )
        self.rule_model.add_owners(block, workers[there])


# The model with a column for each task and node.

_LINK_ENTRIES = 400_000  # Entries of the rows of links up to which these are written.


def build(atoms: Atoms, subset: Ids) -> RuleModel:
    """Write the rows of some rule instances."""
    instance = atoms.keep(subset.tolist())
    t, n = instance.num_tasks, instance.num_nodes
    kinds, by_kind, _ = placing_masks(instance)
    allowed, enterable = by_kind[kinds], ~shut_by_leaving(instance)
    model = LinearModel("rules")
    upper = (allowed & enterable).astype(float)
    x = model.add_variables("place", (t, n), upper=upper, integer=True).indices
    rule_model = RuleModel(instance, model)
    task, node = np.nonzero(~allowed)
    rule_model.close(x[task, node], atoms.list_of[task])
    if not enterable.all():
        rule_model.close(x[~enterable], atoms.of("leaving"))
    model.add_rows("assign", 1.0, 1.0, np.repeat(np.arange(t), n), x.ravel(), 1.0, num_rows=t)
    writer = _Writer(rule_model, atoms, subset, x)
    writer.nodes()
    writer.too_large()
    writer.slots()
    writer.budgets()
    writer.restarts()
    writer.sets()
    writer.links()
    return rule_model


class _Writer(RowWriter):
    """Writes rows on a column for each task and node."""

    def __init__(self, rule_model: RuleModel, atoms: Atoms, subset: Ids, x: Ids) -> None:
        super().__init__(rule_model, atoms, subset)
        self.x = x
        self.loads = [(r + 1, r) for r in range(self.instance.num_resources)]
        self.topology = np.asarray(SLOTS.task_key(self.instance))

    def amounts(self, measure: int) -> Amounts:
        """Return what of a measure the columns put on each node."""
        t, n = self.x.shape
        weight = self.instance.tasks.load[:, measure - 1] if measure else np.ones(t)
        some = np.flatnonzero(weight)
        return Amounts(
            np.tile(np.arange(n), len(some)), np.repeat(self.topology[some], n),
            self.x[some].ravel(), np.repeat(weight[some], n),
        )  # fmt: skip

    def too_large(self) -> None:
        """No task where it exceeds a slot by itself."""
        for r in range(self.instance.num_resources):
            bound, load = self._slot_bound(r), self.instance.tasks.load[:, r]
            for atom, n in zip(*self.enforced("slot_capacity", r), strict=True):
                columns = self.x[load > bound[n], n]
                if len(columns):
                    self.rule_model.add_owners(
                        self.model.add_rows("too large", -np.inf, 0.0, 0, columns, 1.0, 1), atom
                    )

    def budgets(self) -> None:
        """Budgets of moves."""
        instance = self.instance
        rules = place_rules(instance)
        task, node = np.divmod(np.arange(self.x.size), instance.num_nodes)
        pays = rules.pays(task, node)
        for budget in budgets(instance):
            ids = self.enforced_budget(budget)
            if len(ids):
                bound = budget.limit + float(proof_slack(float(budget.limit)))
                paid = budget.weight[task[pays]]
                block = self.model.add_rows(
                    budget.name, -np.inf, bound, 0, self.x.ravel()[pays], paid, num_rows=1
                )
                self.rule_model.add_owners(block, ids)

    def restarts(self) -> None:
        """Slots that change: those whose tasks are not all on their node any more do, and one of
        those of a node, or a new one, where a task comes to it.
        """
        instance, most = self.instance, most_restarts(self.instance)
        ids, _ = self.enforced_of_form(Form.RESTARTS)
        running = workers_of(instance.tasks.node, instance.tasks.slot)
        if most is None or not len(ids) or not running:
            return
        goes_on = self.model.add_variables("goes on", len(running), upper=1.0, integer=True).indices
        worker = np.repeat(np.arange(len(running)), [len(w.tasks) for w in running])
        there = self.x[
            [t for w in running for t in w.tasks], [w.node for w in running for _ in w.tasks]
        ]
        add_at_most(self.model, "goes on", goes_on[worker], there, {})
        new = self.model.add_variables("new", self.x.shape[1], upper=1.0, integer=True).indices
        at = np.array([w.node for w in running])
        now = np.bincount(at, minlength=len(new))
        come = instance.tasks.node[:, None] != np.arange(len(new))
        task, node = np.nonzero(come)
        rows = np.arange(len(task))
        arrival, worker = np.nonzero(node[:, None] == at)
        self.model.add_sum(
            "comes", -np.inf, now[node].astype(float), len(rows), (rows, self.x[task, node], 1.0),
            (arrival, goes_on[worker], 1.0), (rows, new[node], -1.0),
        )  # fmt: skip
        bound = float(most - len(running))
        block = self.model.add_sum("restarts", -np.inf, bound, 1, (0, goes_on, -1.0), (0, new, 1.0))
        self.rule_model.add_owners(block, ids)

    def sets(self) -> None:
        """Sets and inflow, by the shared rows."""
        t, n = self.x.shape
        task, node = np.divmod(np.arange(self.x.size), n)
        where = Whereabouts(
            task, node, self.x.ravel(), np.ones(self.x.size), np.full(t, -1, np.int64)
        )
        before = len(self.model.row_blocks)
        add_rule_rows(self.model, place_rules(self.instance), where)
        self.add_owners_of_sets(self.model.row_blocks[before:])
        self._slot_sets(where)

    def _slot_sets(self, where: Whereabouts) -> None:
        """What sets over slots ask of nodes: one for all, or no more than their slots take."""
        table, slots = self.instance.slot_sets, self.instance.nodes.slots
        ids, _ = self.enforced("slot_sets")
        of_nodes, at = self.enforced("slots")
        joined = np.flatnonzero(table.rule == TOGETHER)
        nodes = slot_rules(replace(self.instance, slot_sets=table.only(joined)), len(slots))
        before = len(self.model.row_blocks)
        add_rule_rows(self.model, nodes, where)
        for block in self.model.row_blocks[before:]:
            self.rule_model.add_owners(block, ids[joined[int(block.name.rpartition("_")[2])]])
        for i in np.flatnonzero(table.rule == APART).tolist() if len(at) else ():
            columns, limit = self.x[table.tasks_of(i)][:, at], float(table.limit[i])
            rows = np.tile(np.arange(len(at)), len(columns))
            block = self.model.add_rows(
                "apart in slots", -np.inf, slots[at] * limit, rows, columns.ravel(), 1.0, len(at)
            )
            self.rule_model.add_owners(block, of_nodes, limit)
            self.rule_model.add_owners(block, np.full(len(at), ids[i]))

    def links(self) -> None:
        """Traffic that crosses each link, where that is not too much to write."""
        ids, _ = self.enforced("links")
        entries = len(ids) * len(self.instance.flows.directed()[2]) if len(ids) else 0
        if not 0 < entries * self.instance.num_nodes <= _LINK_ENTRIES:
            return
        before = len(self.model.row_blocks)
        add_links(Crossings(self.model, self.instance, self.x, None, whole=False))
        blocks = [b for b in self.model.row_blocks[before:] if b.name == "link"]
        for block, atom in zip(blocks, ids, strict=True):
            self.rule_model.add_owners(block, atom)
