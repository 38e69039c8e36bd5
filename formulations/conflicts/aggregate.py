"""The rules on groups of like tasks: a small model that any placement keeps to: a quick proof.

Tasks that may go to the same nodes and stand in the same sets are one group. Of each the model
knows how much of every measure (number, load of each resource, cost of moving) is on each node, and
of tasks with a current node how much of it stays:

    Σ_n in_gnq + Σ_h stay_ghq = total_gq
    a count c of tasks has at least the c smallest and at most the c largest loads

What tasks weigh one by one is lost, so it excludes less than the whole model, in milliseconds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.conflicts.model import RuleModel, shut_by_leaving
from formulations.rule_rows import Whereabouts, add_rule_rows
from optim.format.tables import TOGETHER
from optim.moves.place_rules import no_rules, place_rules
from optim.moves.room import placing_masks
from optim.rules import SLOTS
from optim.rules.base import labelled
from optim.rules.capacity import proof_slack
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.conflicts.atoms import Atoms
    from optim.format.instance import Instance
    from optim.format.tables import Floats
    from optim.solvers.linear_model import RowBlock

    Ids = NDArray[np.int64]

_MOST_COLUMNS = 60_000
_MOST_PATTERNS = 100
_TANGENTS = 8


def aggregate(atoms: Atoms, kept: Ids) -> RuleModel | None:
    """Write rows of rule instances on groups of tasks; ``None`` where these are too many."""
    instance = atoms.keep(kept.tolist())
    writer = _Writer(atoms, kept, instance)
    if writer.num_groups * instance.num_nodes * len(writer.weights) > _MOST_COLUMNS:
        return None
    writer.columns()
    writer.nodes()
    writer.budgets()
    writer.sets()
    writer.slots()
    writer.made.deal = writer.deal
    return writer.made


class _Writer:
    """Groups tasks and writes their rows."""

    def __init__(self, atoms: Atoms, kept: Ids, instance: Instance) -> None:
        self.atoms, self.instance = atoms, instance
        self.kept = np.zeros(len(atoms), np.bool_)
        self.kept[kept] = True
        self.model = LinearModel("groups")
        self.made = RuleModel(instance, self.model)
        self.used = [r for r in range(instance.num_resources) if self._of_resource(r)]
        price = instance.tasks.migration_cost
        costed = len(self.held("max_migration_cost")[0]) > 0
        columns = [np.ones(instance.num_tasks), *(instance.tasks.load[:, r] for r in self.used)]
        self.weights = [*columns, price] if costed else columns
        self.cost = len(columns) if costed else -1
        self._group()

    def held(self, rule: str, resource: int = -1) -> tuple[Ids, Ids]:
        """Return number and index of the rule instances of a sort that hold."""
        some = self.atoms.of(rule, resource)
        some = some[self.kept[some]]
        return some, self.atoms.index[some]

    def _of_resource(self, r: int) -> bool:
        names = ("capacity", "min_load", "slot_capacity")
        distance = r == 0 and len(self.held("max_load_distance")[0]) > 0
        return distance or any(len(self.held(name, r)[0]) for name in names)

    def _group(self) -> None:
        """Number groups of tasks that masks, sets and budgets do not tell apart."""
        instance, table = self.instance, self.instance.sets
        t = instance.num_tasks
        counted = any(
            len(self.held(name)[0])
            for name in ("max_migrations", "max_migration_cost", "max_inflow")
        )
        home = instance.tasks.node
        free = np.isin(np.arange(t), instance.tasks.copied)
        self.stays = counted & (home >= 0) & ~free
        kinds, by_kind, _ = placing_masks(instance)
        closed = shut_by_leaving(instance)
        misfit, self.misfits = self._misfits(by_kind[kinds])
        of_sets: list[list[int]] = [[] for _ in range(t)]
        for i in range(len(table.ids)):
            for task in table.tasks_of(i).tolist():
                alone = -2 - task if table.rule[i] == TOGETHER else i
                of_sets[task].append(alone)
        topology = np.asarray(SLOTS.task_key(instance))
        key = np.column_stack([
            kinds, closed.any(axis=1), self.stays, misfit, labelled(map(tuple, of_sets)), topology,
            self.atoms.list_of * (kinds > 0),
        ])  # fmt: skip
        _, first, group = np.unique(key, axis=0, return_index=True, return_inverse=True)
        self.first, self.group = first, group.reshape(-1)
        self.num_groups = len(first)
        self.allowed, self.closed = by_kind[kinds][first], closed[first]
        self.misfit, self.list_of, self.topology = (
            misfit[first],
            self.atoms.list_of[first],
            topology[first],
        )

    def _misfits(self, allowed: NDArray[np.bool_]) -> tuple[Ids, list[tuple[Ids, Ids]]]:
        """Return (T,) pattern of the nodes that each task alone exceeds, and whose that is."""
        instance, nodes = self.instance, self.instance.nodes
        owner = np.full((instance.num_tasks, instance.num_nodes), -1, np.int64)
        for r in self.used:
            ids, at = self.held("capacity", r)
            bound = nodes.capacity[at, r] * instance.limits.max_utilisation[r]
            room = bound + proof_slack(bound, instance.totals[r]) - nodes.background[at, r]
            over = instance.tasks.load[:, r][:, None] > room[None, :]
            owner[:, at] = np.where(over, ids[None, :], owner[:, at])
        rows = np.flatnonzero((owner >= 0).any(axis=1))
        pattern = np.zeros(instance.num_tasks, np.int64)
        known: dict[bytes, int] = {}
        found: list[tuple[Ids, Ids]] = [(rows[:0], rows[:0])]
        for task in rows.tolist():
            key = owner[task].tobytes()
            if key not in known and len(found) <= _MOST_PATTERNS:
                known[key] = len(found)
                at = np.flatnonzero(owner[task] >= 0)
                found.append((at, owner[task, at]))
            pattern[task] = known.get(key, 0)
        return pattern, found

    def columns(self) -> None:
        """What of each group comes to each node, and what stays."""
        n, model = self.instance.num_nodes, self.model
        may = self.allowed & ~self.closed
        for g in range(self.num_groups):
            may[g, self.misfits[self.misfit[g]][0]] = False
        home = self.instance.tasks.node
        pairs = np.unique(np.column_stack([self.group, home])[self.stays], axis=0).reshape(-1, 2)
        self.pair_group, self.pair_node = pairs[:, 0], pairs[:, 1]
        pair = {tuple(p): k for k, p in enumerate(pairs.tolist())}
        of_pair = np.array(
            [pair[g, h] for g, h in zip(self.group[self.stays], home[self.stays], strict=True)],
            np.int64,
        )
        self.come, self.stay, self.size = [], [], []
        at_home = self.allowed[self.pair_group, self.pair_node]
        for q, weight in enumerate(self.weights):
            total = np.bincount(self.group, weight, self.num_groups)
            upper = np.where(may, total[:, None], 0.0)
            whole = q == 0
            come = model.add_variables("come", may.shape, upper=upper, integer=whole).indices
            size = np.bincount(of_pair, weight[self.stays], len(pairs))
            upper = np.where(at_home, size, 0.0)
            stay = model.add_variables("stay", len(pairs), upper=upper, integer=whole).indices
            self.come.append(come)
            self.stay.append(stay)
            self.size.append(size)
            rows = np.concatenate([np.repeat(np.arange(self.num_groups), n), self.pair_group])
            columns = np.concatenate([come.ravel(), stay])
            model.add_rows("all", total, total, rows, columns, 1.0, self.num_groups)
            self._shut(come, stay, ~at_home)
            if q > 0:
                self._couple(q, of_pair)

    def _shut(self, come: Ids, stay: Ids, away: NDArray[np.bool_]) -> None:
        group, node = np.nonzero(~self.allowed)
        counts = float(not self.come[1:])
        self.made.close(come[group, node], self.list_of[group], counts)
        if self.closed.any():
            self.made.close(come[self.closed], self.held("leaving")[0], counts)
        self.made.close(stay[away], self.list_of[self.pair_group[away]], counts)
        for g in np.flatnonzero(self.misfit).tolist():
            at, ids = self.misfits[self.misfit[g]]
            self.made.close(come[g, at], ids, 0.0)

    def _couple(self, q: int, of_pair: Ids) -> None:
        """A number of tasks has no less than the smallest loads, and no more than the largest."""
        weight, n = self.weights[q], self.instance.num_nodes
        most, least = np.zeros(self.num_groups), np.full(self.num_groups, np.inf)
        np.maximum.at(most, self.group, weight)
        np.minimum.at(least, self.group, weight)
        cells = self.come[q].size
        for name, factor, lower, upper in (
            ("most", most, -np.inf, 0.0),
            ("least", least, 0.0, np.inf),
        ):
            rows, columns = (
                np.tile(np.arange(cells), 2),
                np.concatenate([self.come[q].ravel(), self.come[0].ravel()]),
            )
            values = np.concatenate([np.ones(cells), -np.repeat(factor, n)])
            self.model.add_rows(name, lower, upper, rows, columns, values, cells)
        weights = weight[self.stays]
        for k in range(len(self.pair_group)):
            self._curve(q, k, np.sort(weights[of_pair == k]))

    def _curve(self, q: int, k: int, ascending: Floats) -> None:
        """Tangents of the sums of the smallest and of the largest loads of one home."""
        size = len(ascending)
        at = np.unique(np.linspace(0, size - 1, min(size, _TANGENTS)).astype(np.int64))
        for values, lower in ((ascending, True), (ascending[::-1], False)):
            sums = np.concatenate([[0.0], np.cumsum(values)])
            bound = sums[at] - at * values[at]
            rows = np.tile(np.arange(len(at)), 2)
            columns = np.repeat([self.stay[q][k], self.stay[0][k]], len(at))
            factor = np.concatenate([np.ones(len(at)), -values[at]])
            slack = 1e-9 * float(sums[-1])
            low, high = (bound - slack, np.inf) if lower else (-np.inf, bound + slack)
            self.model.add_rows("curve", low, high, rows, columns, factor, len(at))

    def deal(self, x: Floats) -> NDArray[np.int32]:
        """Give each node as many tasks of each group as a point says, whichever they are."""
        node = np.full(self.instance.num_tasks, -1, np.int32)
        home, n = self.instance.tasks.node, self.instance.num_nodes
        for k, (g, h) in enumerate(zip(self.pair_group, self.pair_node, strict=True)):
            here = np.flatnonzero(self.stays & (self.group == g) & (home == h))
            node[here[: round(float(x[self.stay[0][k]]))]] = h
        for g in range(self.num_groups):
            rest = np.flatnonzero((self.group == g) & (node < 0))
            counts = np.maximum(np.round(x[self.come[0][g]]), 0).astype(np.int64)
            places = np.repeat(np.arange(n), counts)[: len(rest)]
            node[rest[: len(places)]] = places
        return node

    def on_nodes(
        self, name: str, q: int, at: Ids, lower: Any, upper: Any, ids: Ids, factor: Any = 1.0
    ) -> None:
        """Rows of what of a measure is on some nodes."""
        number = np.full(self.instance.num_nodes, -1, np.int64)
        number[at] = np.arange(len(at))
        stays = number[self.pair_node] >= 0
        rows = np.concatenate([
            np.tile(np.arange(len(at)), self.num_groups), number[self.pair_node[stays]]
        ])  # fmt: skip
        columns = np.concatenate([self.come[q][:, at].ravel(), self.stay[q][stays]])
        block = self.model.add_rows(name, lower, upper, rows, columns, 1.0, len(at))
        self.made.own(block, ids, factor)

    def nodes(self) -> None:
        """Bounds of each node: capacity, least load, number of tasks, load distance."""
        instance, nodes = self.instance, self.instance.nodes
        for q, r in enumerate(self.used, start=1):
            total, background = instance.totals[r], nodes.background[:, r]
            ids, at = self.held("capacity", r)
            bound = nodes.capacity[at, r] * instance.limits.max_utilisation[r]
            room = bound + proof_slack(bound, total) - background[at]
            self.on_nodes("capacity", q, at, -np.inf, room, ids)
            if instance.crossing_cost[:, r].any():
                continue
            ids, at = self.held("min_load", r)
            floor = nodes.min_load[at, r]
            least = floor - proof_slack(floor, total) - background[at]
            self.on_nodes("min_load", q, at, least, np.inf, ids)
        ids, at = self.held("max_tasks")
        self.on_nodes("max_tasks", 0, at, -np.inf, nodes.max_tasks[at].astype(float), ids)
        self._distance()

    def _distance(self) -> None:
        instance, limit = self.instance, self.instance.limits.max_load_distance
        ids, _ = self.held("max_load_distance")
        crossing = instance.crossing_cost[:, 0].any()
        if not len(ids) or limit is None or instance.mean_load is None or crossing:
            return
        mean = instance.nodes.weight * instance.mean_load - instance.nodes.background[:, 0]
        far = limit + proof_slack(np.asarray(limit), instance.totals[0])
        least = np.where(instance.open_nodes, mean - far, -np.inf)
        self.on_nodes("distance", 1, np.arange(instance.num_nodes), least, mean + far, ids)

    def budgets(self) -> None:
        """What does not stay, moves: in all, by cost, and onto each node."""
        limits = self.instance.limits
        for name, q in (("max_migrations", 0), ("max_migration_cost", self.cost)):
            ids, _ = self.held(name)
            most = getattr(limits, name)
            if len(ids) and most is not None and len(self.pair_group):
                total = float(self.size[q].sum())
                slack = float(proof_slack(np.asarray(float(most)), np.asarray(total))) if q else 0.0
                rows = np.zeros(len(self.pair_group), np.int64)
                block = self.model.add_rows(
                    name, total - most - slack, np.inf, rows, self.stay[q], 1.0, num_rows=1
                )
                self.made.own(block, ids)
        ids, at = self.held("max_inflow")
        moving = np.unique(self.pair_group)
        if len(ids) and len(moving):
            most = self.instance.nodes.max_inflow[at].astype(float)
            rows = np.tile(np.arange(len(at)), len(moving))
            columns = self.come[0][np.ix_(moving, at)].ravel()
            block = self.model.add_rows("inflow", -np.inf, most, rows, columns, 1.0, len(at))
            self.made.own(block, ids)

    def sets(self) -> None:
        """Sets, by the shared rows; tasks that are to be together are groups of one."""
        ids, _ = self.held("sets")
        if not len(ids):
            return
        table, n = self.instance.sets, self.instance.num_nodes
        groups = [np.unique(self.group[table.tasks_of(i)]) for i in range(len(table.ids))]
        whole = place_rules(self.instance)
        nobody = no_rules(np.full(self.num_groups, -1, np.int64), n)
        rules = replace(
            nobody,
            rule=whole.rule,
            limit=whole.limit,
            place=whole.place,
            indptr=np.concatenate([[0], np.cumsum([len(g) for g in groups])]).astype(np.int64),
            members=np.concatenate(groups).astype(np.int64),
        )
        group, node = np.divmod(np.arange(self.come[0].size), n)
        group, node = (
            np.concatenate([group, self.pair_group]),
            np.concatenate([node, self.pair_node]),
        )
        columns = np.concatenate([self.come[0].ravel(), self.stay[0]])
        base = np.full(self.num_groups, -1, np.int64)
        before = len(self.model.row_blocks)
        add_rule_rows(
            self.model, rules, Whereabouts(group, node, columns, np.ones(len(group)), base)
        )
        for block in self.model.row_blocks[before:]:
            kind, _, number = block.name.rpartition("_")
            if kind in ("apart", "together", "spread"):
                self.made.own(block, ids[int(number)])

    def slots(self) -> None:
        """What all slots of a node hold together; slots shared out among topologies."""
        instance, nodes = self.instance, self.instance.nodes
        most = instance.limits.max_tasks_per_slot
        ids, at = self.held("slots")
        each, _ = self.held("max_tasks_per_slot")
        number = nodes.slots[at].astype(float)
        none = number == 0
        self.on_nodes("no slots", 0, at[none], -np.inf, 0.0, ids[none])
        if len(each) and most is not None:
            self.on_nodes("slots × tasks", 0, at, -np.inf, number * most, ids, most)
            self.made.own(self.model.row_blocks[-1], each, number)
        for q, r in enumerate(self.used, start=1):
            own, node = self.held("slot_capacity", r)
            bound = nodes.slot_capacity[:, r]
            bound = bound + proof_slack(bound, instance.totals[r])
            both = np.isin(at, node)
            other = own[np.searchsorted(node, at[both])]
            room = number[both] * bound[at[both]]
            self.on_nodes("slot capacity", q, at[both], -np.inf, room, ids[both], bound[at[both]])
            self.made.own(self.model.row_blocks[-1], other, number[both])
        self._topologies(ids, at, number)

    def _topologies(self, ids: Ids, at: Ids, number: Floats) -> None:
        """Each slot serves one topology, and each topology fills its number of slots."""
        instance, model, n = self.instance, self.model, self.instance.num_nodes
        workers, which = self.held("workers")
        used = np.unique(self.topology[self.topology >= 0])
        if not len(used) or not (len(ids) or len(workers)):
            return
        whole = np.asarray(SLOTS.task_key(instance))
        size = np.array([(whole == p).sum() for p in used])
        upper = np.repeat(size, n).reshape(len(used), n).astype(float)
        s = model.add_variables("slots", upper.shape, upper=upper, integer=True).indices
        row = np.searchsorted(used, self.topology)
        some = np.flatnonzero(self.topology >= 0)
        stays = self.topology[self.pair_group] >= 0

        def shared(name: str, q: int, lower: float, slot: Any) -> RowBlock:
            here = (row[some][:, None] * n + np.arange(n)).ravel()
            there = row[self.pair_group[stays]] * n + self.pair_node[stays]
            rows = np.concatenate([here, there, np.arange(s.size)])
            amounts = np.concatenate([self.come[q][some].ravel(), self.stay[q][stays]])
            values = np.concatenate([np.ones(len(amounts)), np.broadcast_to(slot, s.size)])
            upper = np.inf if lower == 0 else 0.0
            return model.add_rows(
                name, lower, upper, rows, np.concatenate([amounts, s.ravel()]), values, s.size
            )

        shared("a task in each slot", 0, 0.0, -1.0)
        shared("a slot where tasks are", 0, -np.inf, -np.repeat(size, n).astype(float))
        each, _ = self.held("max_tasks_per_slot")
        if len(each) and instance.limits.max_tasks_per_slot is not None:
            most = float(instance.limits.max_tasks_per_slot)
            self.made.own(shared("tasks a slot", 0, -np.inf, -most), each, np.repeat(size, n))
        for q, r in enumerate(self.used, start=1):
            own, _ = self.held("slot_capacity", r)
            if len(own) == n:
                bound = instance.nodes.slot_capacity[:, r]
                bound = bound + proof_slack(bound, instance.totals[r])
                block = shared("load a slot", q, -np.inf, -np.tile(bound, len(used)))
                self.made.own(block, np.tile(own, len(used)), np.repeat(size, n))
        where = np.repeat(np.arange(len(at)), len(used))
        block = model.add_rows(
            "slots of nodes", -np.inf, number, where, s[:, at].T.ravel(), 1.0, len(at)
        )
        self.made.own(block, ids)
        there = np.isin(which, used)
        rows_of = np.searchsorted(used, which[there])
        wanted = np.minimum(instance.topologies.workers[which[there]], size[rows_of]).astype(float)
        where = np.repeat(np.arange(len(rows_of)), n)
        block = model.add_rows(
            "workers", wanted, wanted, where, s[rows_of].ravel(), 1.0, len(rows_of)
        )
        self.made.own(block, workers[there])
