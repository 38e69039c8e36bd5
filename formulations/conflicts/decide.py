"""Whether some rule instances can hold together: a placement, a proof (bounds), or neither."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, hstack

from formulations.conflicts.model import (
    Amounts,
    RowWriter,
    RuleModel,
    build,
    joined,
    shut_by_leaving,
)
from formulations.model_rows import Whereabouts, add_rule_rows
from optim.format.tables import TOGETHER
from optim.kernels.place_rules import no_rules, place_rules, placing_masks
from optim.rules import LIMITS, MOVE_RULES, SLOTS, Form, broken, budgets, inflow_limits
from optim.rules.base import labelled
from optim.rules.capacity import proof_slack
from optim.rules.placement import Placement
from optim.solvers.inprocess import dual_bound, solve_lp, solve_small_milp
from optim.solvers.interface import LinearTermination
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.conflicts.rule_instances import Atoms
    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.solvers.linear_model import LinearArrays

    Ids = NDArray[np.int64]


_PROVED = 1e-6
"""Of a row's mean coefficient: an excess that the duals prove and that is no rounding."""
_ACTIVE = 1e-9
_MOST_EXCESS = 1e9
"""No excess is larger; a bound that is finite lets duals prove with rounding."""
_WITNESSES = 6
_GROUP_SECONDS = 2.0
_COUNTED = ("sets", "allowed", "leaving")
"""Rules that clash by themselves where sets are in it, and are soon searched."""
_WHOLE_CELLS = 20_000  # Tasks × nodes up to which the whole model is searched.


@dataclass(frozen=True, eq=False)
class Answer:
    """What is known of some rule instances."""

    feasible: bool | None  # ``None`` where the time was up first.
    node: Ints | None = None  # (T,) a placement that the referee finds to keep them.
    #: Rule instances that clash already, where they do; all that was asked where a search proved
    #: it.
    core: Ids | None = None


@dataclass(eq=False)
class Judge:
    """Answers for subsets of the rule instances of one instance, and remembers."""

    atoms: Atoms  # The rule instances.
    seconds: float  # For all answers together.
    started: float = field(default_factory=time.perf_counter)
    calls: int = 0
    _answers: dict[bytes, Answer] = field(default_factory=dict)
    _witnesses: list[Ints] = field(default_factory=list)

    def left(self) -> float:
        """Seconds that are left."""
        return self.seconds - (time.perf_counter() - self.started)

    def ask(self, subset: Ids) -> Answer:
        """Decide whether rule instances can hold together."""
        subset = np.unique(subset)
        key = subset.tobytes()
        if key not in self._answers:
            self.calls += 1
            answer = self._decide(subset)
            if answer.feasible is None:
                return answer
            self._answers[key] = answer
        return self._answers[key]

    def _decide(self, subset: Ids) -> Answer:
        instance = self.atoms.keep(subset.tolist())
        home = instance.tasks.node
        placements = [*self._witnesses, *([home] if instance.has_current else [])]
        for node in placements:
            if not broken(Placement(instance, node)):
                return self._take(node)
        if self.left() <= 0:
            return Answer(None)
        # the cheapest proofs first: links of pinned tasks, sets on one node, sums over groups
        normal = self.atoms.normal
        core = forced_across(self.atoms, instance, subset)
        core = no_place_together(self.atoms, instance, subset) if core is None else core
        if core is not None:
            return Answer(False, core=core)
        groups = aggregate(normal, subset)
        if groups is not None:
            core, _ = relaxed(groups, self.left())
            if core is not None:
                return Answer(False, core=core)
        counted = np.intersect1d(subset, np.concatenate([self.atoms.of(name) for name in _COUNTED]))
        if len(instance.sets.ids) and len(counted) < len(subset):
            groups_of_sets = aggregate(normal, counted)
            if groups_of_sets is not None and searched(groups_of_sets, _GROUP_SECONDS)[0]:
                return Answer(False, core=counted)
        nowhere = np.full(instance.num_tasks, -1, np.int32)
        for node in (*placements[:1], nowhere):
            repaired = self._repaired(subset, node)
            if repaired is not None:
                return self._take(repaired)
        if groups is not None:
            ruled_out, point = searched(groups, min(_GROUP_SECONDS, self.left()))
            if ruled_out:
                return Answer(False, core=subset)
            repaired = None if point is None else self._repaired(subset, groups.place(point))
            if repaired is not None:
                return self._take(repaired)
        if instance.num_tasks * instance.num_nodes > _WHOLE_CELLS:
            return Answer(None)
        return self._by_whole_model(build(normal, subset), instance, subset)

    def _by_whole_model(self, rule_model: RuleModel, instance: Instance, subset: Ids) -> Answer:
        core, point = relaxed(rule_model, self.left())
        if core is not None:
            return Answer(False, core=core)
        if point is not None:
            placement = self._repaired(subset, rule_model.place(point))
            if placement is not None:
                return self._take(placement)
        if self.left() <= 0:
            return Answer(None)
        answer = solve_small_milp(rule_model.model, time_limit=self.left())
        if answer.termination is LinearTermination.INFEASIBLE:
            return Answer(False, core=subset)
        if answer.x is not None:
            placement = rule_model.place(answer.x)
            if not broken(Placement(instance, placement)):
                return self._take(placement)
        return Answer(None)

    def keeps(self, subset: Ids, node: Ints) -> bool:
        """Whether a placement keeps rule instances; one that does is remembered."""
        subset = np.unique(subset)
        if broken(Placement(self.atoms.keep(subset.tolist()), node)):
            return False
        self._answers[subset.tobytes()] = self._take(node)
        return True

    def _repaired(self, subset: Ids, node: Ints) -> Ints | None:
        """Repair a placement; ``None`` where it does not keep the rule instances then."""
        from optim.kernels.repair import repair

        repaired = repair(self.atoms.normal.keep(subset.tolist()), node).node
        if len(repaired) and repaired.min() < 0:
            return None
        return None if broken(Placement(self.atoms.keep(subset.tolist()), repaired)) else repaired

    def _take(self, node: Ints) -> Answer:
        self._witnesses.insert(0, node)
        del self._witnesses[_WITNESSES:]
        return Answer(True, node)


def searched(rule_model: RuleModel, seconds: float) -> tuple[bool, Floats | None]:
    """Return whether no point with whole numbers keeps all rows, and else one that does."""
    if seconds <= 0:
        return False, None
    arrays, unit = in_shares(rule_model.model.freeze())
    answer = solve_small_milp(arrays, time_limit=seconds)
    x = None if answer.x is None else answer.x * unit
    return answer.termination is LinearTermination.INFEASIBLE, x


def in_shares(arrays: LinearArrays) -> tuple[LinearArrays, Floats]:
    """Return a model whose fractional columns count in their upper bounds, and these units.

    Loads in bytes beside numbers of tasks are beyond a solver's tolerances: it has called a model
    infeasible that has a point. Units are powers of two, so that nothing is rounded.
    """
    large = ~arrays.integrality & (arrays.upper > 0) & np.isfinite(arrays.upper)
    unit = np.ones(arrays.num_variables)
    unit[large] = np.exp2(np.round(np.log2(arrays.upper[large])))
    scaled = replace(
        arrays, cost=arrays.cost * unit, lower=arrays.lower / unit, upper=arrays.upper / unit,
        matrix=csr_array(arrays.matrix.multiply(unit[None, :])),
    )  # fmt: skip
    return scaled, unit


def relaxed(rule_model: RuleModel, seconds: float) -> tuple[Ids | None, Floats | None]:
    """Solve the linear relaxation with an excess for each row of a rule.

    Returns rule instances that clash, where the duals prove that all excess cannot be 0; else a
        point without excess. Both ``None`` where neither came out.
    """
    program = elastic(rule_model)
    answer = solve_lp(**program, time_limit=max(seconds, 0.1))
    if answer.termination is not LinearTermination.OPTIMAL:
        return None, None
    assert answer.x is not None
    assert answer.row_duals is not None
    if dual_bound(**program, row_duals=answer.row_duals) <= _PROVED:
        return None, answer.x
    return _named(rule_model, program, answer.row_duals), None


def elastic(rule_model: RuleModel) -> dict[str, Any]:
    """Return the relaxation in which rows of rules may be exceeded, to minimise by how much.

    An excess is counted in mean coefficients of its row, which is about in tasks; so is what finds
    no place at all.
    """
    arrays = rule_model.model.freeze()
    # placing may fall short, too: so the excess measures what fits nowhere
    placing = [b for b in rule_model.model.row_blocks if b.name in ("assign", "all")]
    placed = [np.arange(block.start, block.stop) for block in placing]
    rows = np.unique(np.concatenate([joined(rule_model.owners)[0], *placed]))
    matrix = csr_array(arrays.matrix)
    count = np.maximum(np.diff(matrix.indptr), 1)
    mean = np.asarray(abs(matrix).sum(axis=1)).ravel() / count
    unit = np.where(mean > 0, mean, 1.0)
    parts, number = [matrix], matrix.shape[1]
    for sign, bound in ((-1.0, arrays.row_upper), (1.0, arrays.row_lower)):
        some = rows[np.isfinite(bound[rows])]
        entries = (sign * unit[some], (some, np.arange(len(some))))
        parts.append(csr_array(entries, shape=(matrix.shape[0], len(some))))
    whole = csr_array(hstack(parts, format="csr"))
    more = whole.shape[1] - number
    return {
        "cost": np.concatenate([np.zeros(number), np.ones(more)]),
        "matrix": whole,
        "row_lower": arrays.row_lower,
        "row_upper": arrays.row_upper,
        "lower": np.concatenate([arrays.lower, np.zeros(more)]),
        "upper": np.concatenate([arrays.upper, np.full(more, _MOST_EXCESS)]),
    }


def _named(rule_model: RuleModel, program: dict[str, Any], duals: Floats) -> Ids:
    """Return the rule instances on which a proof by duals leans."""
    # of several that close a column one is enough: that which closes most
    rows, ids, _ = joined(rule_model.owners)
    columns, shut_by, _ = joined(rule_model.shut)
    active = np.abs(duals) > _ACTIVE
    rest = -(program["matrix"].T @ np.where(active, duals, 0.0))
    wanted = rest[columns] < -_ACTIVE
    columns, shut_by = columns[wanted], shut_by[wanted]
    if len(columns):
        often = np.bincount(shut_by)[shut_by]
        order = np.lexsort((shut_by, -often, columns))
        first = np.append(True, np.diff(columns[order]) > 0)
        shut_by = shut_by[order[first]]
    return np.unique(np.concatenate([ids[active[rows]], shut_by]))


# Rule instances that clash, reduced until each is needed: a deletion filter.

_ON_NODES = frozenset(limit.name for limit in LIMITS.values() if limit.table == "nodes")
_PARTS = (1, 2, 4)
_MOST = 8


def conflicts(judge: Judge) -> tuple[bool | None, list[Ids]]:
    """Find rule instances that cannot hold together.

    Returns whether all rule instances can hold together, ``None`` where that was not decided in
        time; and sets of them that cannot, no two of which share one. Each set is proved to clash,
        and of each of its members it was shown by a placement that without it the others do not.
    """
    cores: list[Ids] = []
    rest = np.arange(len(judge.atoms))
    verdict: bool | None = None
    while len(cores) < _MOST:
        answer = judge.ask(rest)
        if not cores:
            verdict = answer.feasible
        if answer.feasible is not False or answer.core is None:
            break
        core = minimal(judge, answer.core, searched=len(answer.core) == len(rest))
        if core is None:
            break
        cores.append(core)
        rest = np.setdiff1d(rest, core)
    return verdict, cores


def minimal(judge: Judge, core: Ids, *, searched: bool = True) -> Ids | None:
    """Return a minimal part of rule instances that clash; ``None`` where time was up first.

    `searched`: whether the proof names no part of what was asked: then halves and quarters are left
        out first.
    """
    answer = judge.ask(core)
    if answer.feasible is not False:
        return None
    assert answer.core is not None
    core = answer.core
    for parts in _PARTS if searched else _PARTS[:1]:
        core = _without_parts(judge, core, parts)
    needed: dict[int, Ints] = {}
    while True:
        waiting = [a for a in core.tolist() if a not in needed]
        if not waiting:
            return core
        atom = waiting[0]
        rest = core[core != atom]
        node = _exchanged(judge, rest, atom, needed)
        if node is None:
            answer = judge.ask(rest)
            if answer.feasible is None:
                return None
            if answer.feasible is False:
                assert answer.core is not None
                core = answer.core
                continue
            node = answer.node
        assert node is not None
        needed[atom] = node


def _without_parts(judge: Judge, core: Ids, parts: int) -> Ids:
    """Leave out whole sorts, then halves and quarters of them, where the rest clashes as well."""
    for kind in range(len(judge.atoms.kinds)):
        for part in range(parts):
            some = core[judge.atoms.kind[core] == kind]
            if len(some) < 2 * parts and parts > 1:
                break
            chunk = np.array_split(some, parts)[part]
            if not len(chunk) or len(chunk) == len(core):
                continue
            answer = judge.ask(np.setdiff1d(core, chunk))
            if answer.feasible is False and answer.core is not None:
                core = answer.core
    return core


def _exchanged(judge: Judge, rest: Ids, atom: int, needed: dict[int, Ints]) -> Ints | None:
    """Turn the placement that breaks the same rule on another node into one that breaks it here."""
    atoms = judge.atoms
    kind = atoms.kind[atom]
    if atoms.kinds[kind].rule not in _ON_NODES:
        return None
    alike = [a for a in needed if atoms.kind[a] == kind]
    if not alike:
        return None
    here, there = atoms.index[atom], atoms.index[alike[-1]]
    node = needed[alike[-1]]
    swapped = np.where(node == here, there, np.where(node == there, here, node)).astype(np.int32)
    gathered = np.where(node == there, here, node).astype(np.int32)
    return next((moved for moved in (swapped, gathered) if judge.keeps(rest, moved)), None)


# The rules on groups of like tasks: a small model that any placement keeps to: a quick proof.
#
# Tasks that may go to the same nodes and stand in the same sets are one group. Of each the model
# knows how much of every measure (number, load of each resource, cost of moving) is on each node,
# and of tasks with a current node how much of it stays:
#
#     Σ_n in_gnq + Σ_h stay_ghq = total_gq
#     a count c of tasks has at least the c smallest and at most the c largest loads
#
# What tasks weigh one by one is lost, so it excludes less than the whole model, in milliseconds.


_MOST_COLUMNS = 60_000
_MOST_PATTERNS = 100
_TANGENTS = 8


def aggregate(atoms: Atoms, subset: Ids) -> RuleModel | None:
    """Write rows of rule instances on groups of tasks; ``None`` where these are too many."""
    instance = atoms.keep(subset.tolist())
    writer = _Writer(atoms, subset, instance)
    if writer.num_groups * instance.num_nodes * len(writer.weights) > _MOST_COLUMNS:
        return None
    writer.columns()
    writer.nodes()
    writer.budgets()
    writer.sets()
    writer.slots()
    writer.rule_model.deal = writer.deal
    return writer.rule_model


class _Writer(RowWriter):
    """Groups tasks and writes their rows."""

    def __init__(self, atoms: Atoms, subset: Ids, instance: Instance) -> None:
        super().__init__(RuleModel(instance, LinearModel("groups")), atoms, subset)
        used = [r for r in range(instance.num_resources) if self._of_resource(r)]
        self.loads = list(enumerate(used, start=1))
        columns = [np.ones(instance.num_tasks), *(instance.tasks.load[:, r] for r in used)]
        paid = [b for b in budgets(instance) if len(self.enforced_budget(b))]
        self.weights = [*columns, *(budget.weight for budget in paid)]
        self.paid = list(enumerate(paid, start=len(columns)))
        self._group()

    def _of_resource(self, r: int) -> bool:
        names = ("capacity", "min_load", "slot_capacity")
        distance = r == 0 and len(self.enforced("max_load_distance")[0]) > 0
        return distance or any(len(self.enforced(name, r)[0]) for name in names)

    def _group(self) -> None:
        """Number groups of tasks that masks, sets and budgets do not distinguish."""
        instance, table = self.instance, self.instance.sets
        t = instance.num_tasks
        counted = any(len(self.enforced(rule.name)[0]) for rule in MOVE_RULES)
        home = instance.tasks.node
        free = np.isin(np.arange(t), instance.tasks.copied)
        self.stays = counted & (home >= 0) & ~free
        kinds, by_kind, _ = placing_masks(instance)
        closed = shut_by_leaving(instance)
        misfit, self.misfits = self._misfits()
        of_sets: list[list[int]] = [[] for _ in range(t)]
        for i in range(len(table.ids)):
            for task in table.tasks_of(i).tolist():
                # tasks to be together are groups of one: a group may be split over nodes
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
        self.misfit, self.topology = misfit[first], topology[first]
        self.list_of = self.atoms.list_of[first]

    def _misfits(self) -> tuple[Ids, list[tuple[Ids, Ids]]]:
        """Return (T,) pattern of the nodes that each task alone exceeds, and whose that is."""
        instance, nodes = self.instance, self.instance.nodes
        owner = np.full((instance.num_tasks, instance.num_nodes), -1, np.int64)
        for _, r in self.loads:
            ids, at = self.enforced("capacity", r)
            bound = nodes.capacity[at, r] * instance.limits.max_utilisation[r]
            room = bound + proof_slack(bound) - nodes.background[at, r]
            over = instance.tasks.load[:, r][:, None] > room[None, :]
            owner[:, at] = np.where(over, ids[None, :], owner[:, at])
        rows = np.flatnonzero((owner >= 0).any(axis=1))
        pattern = np.zeros(instance.num_tasks, np.int64)
        number_of: dict[bytes, int] = {}
        patterns: list[tuple[Ids, Ids]] = [(rows[:0], rows[:0])]
        for task in rows.tolist():
            key = owner[task].tobytes()
            if key not in number_of and len(patterns) <= _MOST_PATTERNS:
                number_of[key] = len(patterns)
                at = np.flatnonzero(owner[task] >= 0)
                patterns.append((at, owner[task, at]))
            pattern[task] = number_of.get(key, 0)
        return pattern, patterns

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
        self.rule_model.close(come[group, node], self.list_of[group], counts)
        if self.closed.any():
            self.rule_model.close(come[self.closed], self.enforced("leaving")[0], counts)
        self.rule_model.close(stay[away], self.list_of[self.pair_group[away]], counts)
        for g in np.flatnonzero(self.misfit).tolist():
            at, ids = self.misfits[self.misfit[g]]
            self.rule_model.close(come[g, at], ids, 0.0)

    def _couple(self, q: int, of_pair: Ids) -> None:
        """A number of tasks has no less than the smallest loads, and no more than the largest."""
        weight, n = self.weights[q], self.instance.num_nodes
        most, least = np.zeros(self.num_groups), np.full(self.num_groups, np.inf)
        np.maximum.at(most, self.group, weight)
        np.minimum.at(least, self.group, weight)
        cells = self.come[q].size
        rows = np.tile(np.arange(cells), 2)
        columns = np.concatenate([self.come[q].ravel(), self.come[0].ravel()])
        for name, factor, lower, upper in (
            ("most", most, -np.inf, 0.0), ("least", least, 0.0, np.inf),
        ):  # fmt: skip
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
            ceiling = budget.limit + (0.0 if budget.integral else float(proof_slack(budget.limit)))
            least = float(self.size[q].sum()) - ceiling
            block = self.model.add_rows(
                budget.name, least, np.inf, 0, self.stay[q], 1.0, num_rows=1
            )
            self.rule_model.add_owners(block, self.enforced_budget(budget))
        ids, at = self.enforced_of_form(Form.INFLOW)
        moving, limits = np.unique(self.pair_group), inflow_limits(self.instance)
        if len(ids) and len(moving) and limits is not None:
            most = limits[at].astype(float)
            rows = np.tile(np.arange(len(at)), len(moving))
            columns = self.come[0][np.ix_(moving, at)].ravel()
            block = self.model.add_rows("inflow", -np.inf, most, rows, columns, 1.0, len(at))
            self.rule_model.add_owners(block, ids)

    def sets(self) -> None:
        """Sets, by the shared rows; tasks that are to be together are groups of one."""
        ids, _ = self.enforced("sets")
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
        group = np.concatenate([group, self.pair_group])
        node = np.concatenate([node, self.pair_node])
        columns = np.concatenate([self.come[0].ravel(), self.stay[0]])
        base = np.full(self.num_groups, -1, np.int64)
        before = len(self.model.row_blocks)
        add_rule_rows(
            self.model, rules, Whereabouts(group, node, columns, np.ones(len(group)), base)
        )
        self.add_owners_of_sets(self.model.row_blocks[before:])


# Conflicts that need no model: links that pinned tasks overload, sets that fit no node.


def forced_across(atoms: Atoms, instance: Instance, subset: Ids) -> Ids | None:
    """Find a link that pinned tasks alone overload: its rule instance and their lists."""
    limited = np.intersect1d(subset, atoms.of("links"))
    if not len(limited):
        return None
    links = instance.links
    kinds, allowed, _ = placing_masks(instance)
    source, target, rate = instance.flows.directed()
    for atom in limited.tolist():
        i = int(atoms.index[atom])
        inside = np.zeros(instance.num_nodes, np.bool_)
        inside[links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]]] = True
        confined_inside = ~np.any(allowed & ~inside, axis=1)[kinds]
        confined_outside = ~np.any(allowed & inside, axis=1)[kinds]
        out, into = (
            confined_inside[source] & confined_outside[target],
            confined_outside[source] & confined_inside[target],
        )
        counts = (out & (links.direction[i] != 2)) | (into & (links.direction[i] != 1))
        bound = links.capacity[i] * instance.limits.max_link_utilisation
        most = bound + 2 * proof_slack(bound)
        if links.background[i] + rate[counts].sum() > most:
            lists = atoms.list_of[np.concatenate([source[counts], target[counts]])]
            lists = np.intersect1d(lists, subset)
            return np.union1d(lists, [atom])
    return None


def no_place_together(atoms: Atoms, instance: Instance, subset: Ids) -> Ids | None:
    """Find a set that no node may have, or holds, together: its rule instance, and why of each."""
    sets = np.intersect1d(subset, atoms.of("sets"))
    if not len(sets):
        return None
    kinds, by_kind, _ = placing_masks(instance)
    for number, atom in enumerate(sets.tolist()):
        if instance.sets.rule[number] != TOGETHER or instance.sets.by_rack[number]:
            continue
        tasks = instance.sets.tasks_of(number)
        excluded_by = np.full(instance.num_nodes, -1, np.int64)
        for rule, r, room in _rooms(instance):
            limits = np.intersect1d(subset, atoms.of(rule, r))
            at = atoms.index[limits]
            load = instance.tasks.load[tasks, r].sum() if r >= 0 else float(len(tasks))
            excluded_by[at] = np.where(load > room[at], limits, excluded_by[at])
        for task in tasks.tolist():
            excluded_by[~by_kind[kinds[task]]] = atoms.list_of[task]
        if (excluded_by >= 0).all():
            return np.union1d(excluded_by, [atom])
    return None


def _rooms(instance: Instance) -> list[tuple[str, int, NDArray[np.float64]]]:
    """Return what each node holds at most, by rule."""
    nodes = instance.nodes
    bound = nodes.capacity * instance.limits.max_utilisation
    room = bound + 2 * proof_slack(bound) - nodes.background
    by_resource = [("capacity", r, room[:, r]) for r in range(instance.num_resources)]
    return [("max_tasks", -1, nodes.max_tasks.astype(np.float64) + 0.5), *by_resource]
