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
from typing import TYPE_CHECKING

import numpy as np

from formulations.conflicts.model import Amounts, RowWriter, RuleModel, shut_by_leaving
from formulations.rule_rows import Whereabouts, add_rule_rows
from optim.format.tables import TOGETHER
from optim.kernels.place_rules import no_rules, place_rules
from optim.kernels.room import placing_masks
from optim.rules import COUNTING, SLOTS, budgets
from optim.rules.base import labelled
from optim.rules.capacity import proof_slack
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.conflicts.rule_instances import Atoms
    from optim.format.instance import Instance
    from optim.format.tables import Floats

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


class _Writer(RowWriter):
    """Groups tasks and writes their rows."""

    def __init__(self, atoms: Atoms, kept: Ids, instance: Instance) -> None:
        super().__init__(RuleModel(instance, LinearModel("groups")), atoms, kept)
        used = [r for r in range(instance.num_resources) if self._of_resource(r)]
        self.loads = list(enumerate(used, start=1))
        columns = [np.ones(instance.num_tasks), *(instance.tasks.load[:, r] for r in used)]
        paid = [b for b in budgets(instance) if len(self.held(b.name)[0])]
        self.weights = [*columns, *(budget.weight for budget in paid)]
        self.paid = list(enumerate(paid, start=len(columns)))
        self._group()

    def _of_resource(self, r: int) -> bool:
        names = ("capacity", "min_load", "slot_capacity")
        distance = r == 0 and len(self.held("max_load_distance")[0]) > 0
        return distance or any(len(self.held(name, r)[0]) for name in names)

    def _group(self) -> None:
        """Number groups of tasks that masks, sets and budgets do not distinguish."""
        instance, table = self.instance, self.instance.sets
        t = instance.num_tasks
        counted = any(len(self.held(rule.name)[0]) for rule in COUNTING)
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
        for _, r in self.loads:
            ids, at = self.held("capacity", r)
            bound = nodes.capacity[at, r] * instance.limits.max_utilisation[r]
            room = bound + proof_slack(bound) - nodes.background[at, r]
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

    def amounts(self, measure: int) -> Amounts:
        """Return what of a measure the columns put on each node."""
        come, stay, n = self.come[measure], self.stay[measure], self.instance.num_nodes
        column = np.concatenate([come.ravel(), stay])
        return Amounts(
            np.concatenate([np.tile(np.arange(n), self.num_groups), self.pair_node]),
            np.concatenate([np.repeat(self.topology, n), self.topology[self.pair_group]]),
            column, np.ones(len(column)),
        )  # fmt: skip

    def budgets(self) -> None:
        """What does not stay, moves: what that takes of each budget, and onto each node."""
        for q, budget in self.paid if len(self.pair_group) else ():
            roof = budget.limit + (0.0 if budget.whole else float(proof_slack(budget.limit)))
            rows = np.zeros(len(self.pair_group), np.int64)
            block = self.model.add_rows(
                budget.name, float(self.size[q].sum()) - roof, np.inf, rows, self.stay[q], 1.0,
                num_rows=1,
            )  # fmt: skip
            self.made.own(block, self.held(budget.name)[0])
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
        self.own_sets(self.model.row_blocks[before:])


# Conflicts that need no model: links that pinned tasks overload, sets that fit no node.


def forced_across(atoms: Atoms, instance: Instance, kept: Ids) -> Ids | None:
    """Find a link that pinned tasks alone overload: its rule instance and their lists."""
    held = np.intersect1d(kept, atoms.of("links"))
    if not len(held):
        return None
    links = instance.links
    kinds, allowed, _ = placing_masks(instance)
    source, target, rate = instance.flows.directed()
    for atom in held.tolist():
        i = int(atoms.index[atom])
        inside = np.zeros(instance.num_nodes, np.bool_)
        inside[links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]]] = True
        held_in = ~np.any(allowed & ~inside, axis=1)[kinds]
        held_out = ~np.any(allowed & inside, axis=1)[kinds]
        out, into = held_in[source] & held_out[target], held_out[source] & held_in[target]
        counts = (out & (links.direction[i] != 2)) | (into & (links.direction[i] != 1))
        bound = links.capacity[i] * instance.limits.max_link_utilisation
        most = bound + 2 * proof_slack(bound)
        if links.background[i] + rate[counts].sum() > most:
            lists = atoms.list_of[np.concatenate([source[counts], target[counts]])]
            lists = np.intersect1d(lists, kept)
            return np.union1d(lists, [atom])
    return None


def no_place_together(atoms: Atoms, instance: Instance, kept: Ids) -> Ids | None:
    """Find a set that no node may have, or holds, together: its rule instance, and why of each."""
    sets = np.intersect1d(kept, atoms.of("sets"))
    if not len(sets):
        return None
    kinds, by_kind, _ = placing_masks(instance)
    for number, atom in enumerate(sets.tolist()):
        if instance.sets.rule[number] != TOGETHER or instance.sets.by_rack[number]:
            continue
        tasks = instance.sets.tasks_of(number)
        why = np.full(instance.num_nodes, -1, np.int64)
        for rule, r, room in _rooms(atoms, instance):
            own = np.intersect1d(kept, atoms.of(rule, r))
            at = atoms.index[own]
            load = instance.tasks.load[tasks, r].sum() if r >= 0 else float(len(tasks))
            why[at] = np.where(load > room[at], own, why[at])
        for task in tasks.tolist():
            why[~by_kind[kinds[task]]] = atoms.list_of[task]
        if (why >= 0).all():
            return np.union1d(why, [atom])
    return None


def _rooms(atoms: Atoms, instance: Instance) -> list[tuple[str, int, NDArray[np.float64]]]:
    """Return what each node holds at most, by rule."""
    nodes = instance.nodes
    bound = nodes.capacity * instance.limits.max_utilisation
    room = bound + 2 * proof_slack(bound) - nodes.background
    found = [("capacity", r, room[:, r]) for r in range(instance.num_resources)]
    return [("max_tasks", -1, nodes.max_tasks.astype(np.float64) + 0.5), *found]
