"""Operators and tasks of an instance: groups spread evenly, overrides applied, columns filled."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.format.demand import derived_load, same
from optim.format.document import MAX_TASKS
from optim.format.tables import NO_INDEX, NodeTable, OperatorTable, TaskTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.format.document import InstanceDocument
    from optim.format.tables import Floats, Ints

_NUMBER = re.compile(r"[+-]?\d+(\.0*)?")
"""What follows the slash in the id of a group's member, or is meant to."""
_MAX_ALLOWED = 100_000_000
"""Entries of all ``allowed`` lists of groups, spread over their members."""


def build_operators_and_tasks(
    document: InstanceDocument,
    nodes: NodeTable,
    operator_index: dict[str, int],
    topology_ids: Sequence[str],
    rates: Floats,
    problems: list[Problem],
) -> tuple[OperatorTable, TaskTable]:
    """Build both tables; group members come first, operator by operator, then the listed tasks.

    Raises
    ------
    InvalidInput
        The groups add up to more than `MAX_TASKS`, so that nothing further can be looked at.
    """
    work = _Columns(document, nodes, operator_index, rates, problems)
    work.spread_groups()
    work.read_tasks()
    work.derive_loads()
    tasks = work.table()
    return _operator_table(document, work, tasks, topology_ids), tasks


class _Columns:
    """The task columns while they are filled."""

    def __init__(
        self,
        document: InstanceDocument,
        nodes: NodeTable,
        operator_index: dict[str, int],
        rates: Floats,
        problems: list[Problem],
    ) -> None:
        self.document, self.nodes, self.problems = document, nodes, problems
        self.operator_index, self.rates = operator_index, rates
        self.resources = {name: r for r, name in enumerate(document.resources)}
        self.sizes = [0 if o.group is None else o.group.tasks for o in document.operators]
        self.first = np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])
        if self.first[-1] + len(document.tasks) > MAX_TASKS:
            raise InvalidInput(
                Problem("operators", int(self.first[-1]), f"tasks are more than {MAX_TASKS}")
            )

    def spread_groups(self) -> None:
        """Lay out the columns and give every group member its even share."""
        names: list[str] = []
        for operator, size in zip(self.document.operators, self.sizes, strict=True):
            names.extend(f"{operator.id}/{i}" for i in range(size))
        self.members = {name: t for t, name in enumerate(names)} if self.document.tasks else {}
        listed = [entry["id"] for entry in self.document.tasks]
        self.rows = np.arange(len(listed))
        extra = self.rows
        if names:
            self.rows = np.array([self.members.get(i, NO_INDEX) for i in listed], dtype=np.int64)
            extra = np.flatnonzero(self.rows < 0)
            self.rows[extra] = len(names) + np.arange(len(extra))
            listed = [listed[i] for i in extra.tolist()]
        names += listed
        self.ids = tuple(names)
        self._check_ids()
        count = len(names)
        self.load = np.zeros((count, len(self.document.resources)))
        self.given = np.zeros((count, len(self.document.resources)), dtype=np.bool_)
        self.state, self.cost = np.full(count, np.nan), np.full(count, np.nan)
        self.operator = np.full(count, NO_INDEX, dtype=np.int32)
        self.node = np.full(count, NO_INDEX, dtype=np.int32)
        self.slot = np.full(count, NO_INDEX, dtype=np.int32)
        self.max_load: list[tuple[int, int, float]] = []
        self.allowed: list[tuple[int, list[int]]] = []
        self.copies: list[tuple[int, list[int]]] = []
        self.group_allowed: list[tuple[int, ...] | None] = [None] * len(self.sizes)
        self.labels: dict[int, dict[str, str]] = {}
        self.operator[: self.first[-1]] = np.repeat(np.arange(len(self.sizes)), self.sizes)
        self._spread_shares()

    def _check_ids(self) -> None:
        if len(set(self.ids)) == len(self.ids) and np.bincount(self.rows).max(initial=0) <= 1:
            return
        seen: dict[str, int] = {}
        for i, entry in enumerate(self.document.tasks):
            if seen.setdefault(entry["id"], i) != i:
                reason = f"is also the id of tasks[{seen[entry['id']]}]"
                problem = Problem(f"tasks[{i}].id", entry["id"], reason, "ids must be unique")
                self.problems.append(problem)

    def _spread_shares(self) -> None:
        self.group_load = np.zeros((len(self.sizes), len(self.document.resources)))
        self.group_given = np.zeros(self.group_load.shape, dtype=np.bool_)
        self.group_state = np.full(len(self.sizes), np.nan)
        self.operator_max_load = np.full(self.group_load.shape, np.inf)
        self.group_max_load = np.full(self.group_load.shape, np.inf)
        for o, operator in enumerate(self.document.operators):
            group = operator.group
            limits = [(operator.max_load, self.operator_max_load[o], f"operators[{o}].max_load")]
            if group is not None:
                path = f"operators[{o}].group.max_load"
                limits.append((group.max_load, self.group_max_load[o], path))
            for told, row, path in limits:
                for name, value in told.items():
                    at = self._resource(name, path)
                    if at is not None:
                        row[at] = value
            if group is None:
                continue
            for name, value in group.load.items():
                at = self._resource(name, f"operators[{o}].group.load")
                if at is not None:
                    self.group_load[o, at], self.group_given[o, at] = value, True
            members = slice(self.first[o], self.first[o + 1])
            self.load[members] = self.group_load[o] / group.tasks
            self.given[members] = self.group_given[o]
            if group.state is not None:
                self.group_state[o] = group.state
                self.state[members] = group.state / group.tasks
            if group.allowed is not None:
                path = f"operators[{o}].group.allowed"
                self.group_allowed[o] = tuple(self._read_nodes(group.allowed, path))

    def _resource(self, name: str, path: str) -> int | None:
        at = self.resources.get(name)
        if at is None:
            known = ", ".join(self.resources)
            problem = Problem(
                f"{path}.{name}", None, f"is not in resources ({known})", "add it there"
            )
            self.problems.append(problem)
        return at

    def read_tasks(self) -> None:
        """Read the listed tasks: overrides of group members, and tasks of their own."""
        grouped = int(self.first[-1])
        node_index, resources = self.nodes.index, self.resources
        for i, (entry, row) in enumerate(zip(self.document.tasks, self.rows.tolist(), strict=True)):
            if "operator" in entry or row < grouped:
                self._read_operator(i, entry, row, grouped)
            elif grouped:
                self._check_member(i, entry["id"])
            for name, value in entry.get("load", {}).items():
                at = resources.get(name)
                if at is None:
                    self._resource(name, f"tasks[{i}].load")
                else:
                    self.load[row, at], self.given[row, at] = value, True
            for name, value in entry.get("max_load", {}).items():
                at = self._resource(name, f"tasks[{i}].max_load")
                if at is not None:
                    self.max_load.append((row, at, value))
            if "state" in entry:
                self.state[row] = entry["state"]
            if "migration_cost" in entry:
                self.cost[row] = entry["migration_cost"]
            if "node" in entry:
                at = node_index.get(entry["node"])
                if at is None:
                    reason = "is not the id of a node"
                    self.problems.append(Problem(f"tasks[{i}].node", entry["node"], reason))
                else:
                    self.node[row] = at
            if "slot" in entry:
                self._read_slot(i, entry, row)
            if "allowed" in entry:
                nodes = self._read_nodes(entry["allowed"], f"tasks[{i}].allowed")
                self.allowed.append((row, nodes))
            if entry.get("copies"):
                nodes = self._read_nodes(entry["copies"], f"tasks[{i}].copies")
                self.copies.append((row, nodes))
            if entry.get("labels"):
                self.labels[row] = dict(entry["labels"])

    def _read_operator(self, i: int, entry: Any, row: int, grouped: int) -> None:
        name = entry.get("operator")
        if name is None:
            return
        at = self.operator_index.get(name)
        path = f"tasks[{i}].operator"
        if at is None:
            self.problems.append(Problem(path, name, "is not the id of an operator"))
        elif row < grouped and at != self.operator[row]:
            owner = self.document.operators[self.operator[row]].id
            reason = f"but the task's id makes it a member of the group of {owner}"
            self.problems.append(
                Problem(path, name, reason, "rename the task, or correct operator")
            )
        elif row >= grouped and self.sizes[at]:
            reason = f"has a group of {self.sizes[at]}; {entry['id']} is none of its members"
            remedy = f"use the ids {name}/0 … {name}/{self.sizes[at] - 1}, or enlarge the group"
            self.problems.append(Problem(path, name, reason, remedy))
        else:
            self.operator[row] = at

    def _check_member(self, i: int, name: str) -> None:
        """Refuse an id that is written as a group's member and is none: its number is wrong."""
        owner, _, number = name.rpartition("/")
        at = self.operator_index.get(owner.strip())
        if at is None or not self.sizes[at] or not _NUMBER.fullmatch(number.strip()):
            return
        owner, size = owner.strip(), self.sizes[at]
        reason = f"is no member of the group of {owner}, which has {size}, and has no operator"
        remedy = f"use {owner}/0 … {owner}/{size - 1}, enlarge the group, or rename the task"
        self.problems.append(Problem(f"tasks[{i}].id", name, reason, remedy))

    def _read_slot(self, i: int, entry: Any, row: int) -> None:
        slots = self.nodes.slots[self.node[row]] if self.node[row] >= 0 else NO_INDEX
        if self.node[row] < 0:
            reason, remedy = "needs a node", "give node, or leave slot out"
        elif slots >= 0 and entry["slot"] >= slots:
            reason, remedy = f"is beyond the {slots} slots of {entry['node']}", "slots count from 0"
        else:
            self.slot[row] = entry["slot"]
            return
        self.problems.append(Problem(f"tasks[{i}].slot", entry["slot"], reason, remedy))

    def _read_nodes(self, names: list[str], path: str) -> list[int]:
        places = []
        for j, name in enumerate(names):
            at = self.nodes.index.get(name)
            if at is None:
                self.problems.append(Problem(f"{path}[{j}]", name, "is not the id of a node"))
            else:
                places.append(at)
        return sorted(set(places))

    def _allow_by_group(self) -> None:
        """Give members without a list of their own that of their group."""
        own = {row for row, _ in self.allowed}
        most = 0
        for o, places in enumerate(self.group_allowed):
            if places is None:
                continue
            most += len(places) * self.sizes[o]
            if most > _MAX_ALLOWED:
                self.problems.append(
                    Problem(
                        f"operators[{o}].group.allowed",
                        most,
                        f"entries for all members are more than {_MAX_ALLOWED}",
                        "list fewer nodes, or mark the others with a resource that tasks need",
                    )
                )
                return
            members = range(int(self.first[o]), int(self.first[o + 1]))
            self.allowed += [(row, list(places)) for row in members if row not in own]

    def derive_loads(self) -> None:
        """Fill the first resource from ``cpu_per_tuple`` where it is not given."""
        for o in range(len(self.sizes)):
            derived = derived_load(self.document, o, self.rates, self.problems)
            if derived is None:
                continue
            members = np.flatnonzero(self.operator == o)
            missing = members[~self.given[members, 0]]
            self.load[missing, 0] = derived / max(1, len(members))
            listed = len(members) > 0 and self.sizes[o] == 0 and len(missing) == 0
            total = float(self.load[members, 0].sum())
            if listed and not same(total, derived):
                name = self.document.operators[o].id
                self.problems.append(
                    Problem(
                        f"operators[{o}].cpu_per_tuple",
                        name,
                        f"gives {derived:.9g}, but the loads of its tasks add up to {total:.9g}",
                        "give one of the two",
                    )
                )

    def table(self) -> TaskTable:
        """Return the finished task table."""
        self._allow_by_group()
        restricted, allowed_indptr, allowed_indices = _rows(self.allowed)
        copied, copies_indptr, copies_indices = _rows(self.copies)
        member = np.full(len(self.ids), NO_INDEX, dtype=np.int32)
        order = np.argsort(self.operator, kind="stable")
        self.order = order[self.operator[order] >= 0].astype(np.int32)
        self.per_operator = np.bincount(self.operator[self.order], minlength=len(self.sizes))
        starts = np.cumsum(self.per_operator) - self.per_operator
        member[self.order] = np.arange(len(self.order)) - np.repeat(starts, self.per_operator)
        return TaskTable(
            ids=self.ids,
            operator=self.operator,
            member=member,
            load=self.load,
            max_load=self._max_load(),
            state=self.state,
            given_cost=self.cost,
            node=self.node,
            slot=self.slot,
            restricted=restricted,
            allowed_indptr=allowed_indptr,
            allowed_indices=allowed_indices,
            copied=copied,
            copies_indptr=copies_indptr,
            copies_indices=copies_indices,
            labels=dict(sorted(self.labels.items())),
        )

    def _max_load(self) -> Floats:
        """(T, R) what each task can use: its own, else its group's, else its operator's."""
        shared = inherited_max_load(self.operator, self.operator_max_load, self.group_max_load)
        if not self.max_load:
            return shared
        found = np.array(np.broadcast_to(shared, self.load.shape))
        for row, at, value in self.max_load:
            found[row, at] = value
        return found


def inherited_max_load(operator: Ints, by_operator: Floats, by_group: Floats) -> Floats:
    """Return what one task can use by its operator alone, of (T,) tasks.

    (T, R); of shape (1, 1) where no operator says anything.
    """
    limits = np.where(np.isfinite(by_group), by_group, by_operator)
    if not np.isfinite(limits).any():
        return np.full((1, 1), np.inf)
    return np.vstack([limits, np.full((1, limits.shape[1]), np.inf)])[operator]  # -1 is the last


def _rows(lists: list[tuple[int, list[int]]]) -> tuple[Ints, Ints, Ints]:
    """Write lists of nodes a task in CSR form: the tasks, ascending; row ends; the nodes."""
    lists.sort()
    lengths = [len(places) for _, places in lists]
    return (
        np.array([row for row, _ in lists], dtype=np.int32),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        np.array([n for _, places in lists for n in places], dtype=np.int32),
    )


def _operator_table(
    document: InstanceDocument, work: _Columns, tasks: TaskTable, topology_ids: Sequence[str]
) -> OperatorTable:
    topology_index = {name: p for p, name in enumerate(topology_ids)}
    topology = np.full(len(document.operators), NO_INDEX, dtype=np.int32)
    for o, operator in enumerate(document.operators):
        if operator.topology is None:
            continue
        topology[o] = topology_index.get(operator.topology, NO_INDEX)
        if topology[o] == NO_INDEX:
            reason = "is not the id of a topology"
            work.problems.append(Problem(f"operators[{o}].topology", operator.topology, reason))

    def column(key: str) -> Floats:
        values = [getattr(o, key) for o in document.operators]
        return np.array([np.nan if v is None else v for v in values], dtype=np.float64)

    return OperatorTable(
        ids=tuple(o.id for o in document.operators),
        role=tuple(o.role for o in document.operators),
        topology=topology,
        group_tasks=np.array([s or NO_INDEX for s in work.sizes], dtype=np.int32),
        group_allowed=tuple(work.group_allowed),
        group_load=work.group_load,
        group_load_given=work.group_given,
        group_state=work.group_state,
        max_load=work.operator_max_load,
        group_max_load=work.group_max_load,
        **_parallelism(document, work.problems),
        cpu_per_tuple=column("cpu_per_tuple"),
        service_rate=column("service_rate"),
        tuple_rate=work.rates,
        model=tuple(o.model for o in document.operators),
        task_indptr=np.concatenate([[0], np.cumsum(work.per_operator)]).astype(np.int32),
        task_indices=work.order,
        labels={i: dict(o.labels) for i, o in enumerate(document.operators) if o.labels},
    )


def _parallelism(document: InstanceDocument, problems: list[Problem]) -> dict[str, Ints]:
    """Read the bounds of the number of tasks; those that contradict are problems."""
    names = ("min_parallelism", "max_parallelism", "key_groups")
    for o, entry in enumerate(document.operators):
        told = [(name, getattr(entry, name)) for name in names]
        given = [(name, value) for name, value in told if value is not None]
        for (low, least), (high, most) in itertools.combinations(given, 2):
            if least > most:
                reason, remedy = f"is above {high}, {most}", "lower it, or raise the other"
                problems.append(Problem(f"operators[{o}].{low}", least, reason, remedy))
    return {
        name: np.array([getattr(o, name) or NO_INDEX for o in document.operators], dtype=np.int32)
        for name in names
    }
