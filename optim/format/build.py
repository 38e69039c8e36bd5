"""From a validated document to an `Instance`: cross references, spreading of groups, arrays.

All problems are collected; nothing is built while there is one.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.format.document import MAX_TASKS
from optim.format.tables import (
    APART,
    DIRECTIONS,
    NO_INDEX,
    SET_RULES,
    SPREAD,
    Limits,
    LinkTable,
    ModelPoint,
    NodeTable,
    OperatorTable,
    SetTable,
    Stream,
    TaskTable,
    TopologyTable,
    TrafficTable,
    VmType,
)
from optim.format.traffic import derived_load, same, stream_rate, tuple_rates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optim.format.document import InstanceDocument, SetDocument, StreamDocument
    from optim.format.tables import Floats, Ints

MAX_SHARE = 10  # Share of a capacity above which a number can only be meant in percent.
_NUMBER = re.compile(r"[+-]?\d+(\.0*)?")
"""What follows the slash in the id of a group's member, or is meant to."""
_CACHED = 2048  # Tasks read at once: the next column finds them in the processor's cache.
_MAX_ALLOWED = 100_000_000  # Entries of all ``allowed`` lists of groups, spread over their members.


def build(document: InstanceDocument) -> dict[str, Any]:
    """Turn a document into the fields of an instance.

    Raises `InvalidInput`: with every dangling reference, duplicate id, contradiction or cycle.
    """
    return _Builder(document).fields()


def inherited_max_load(operator: Ints, by_operator: Floats, by_group: Floats) -> Floats:
    """Return what one task can use by its operator alone, of (T,) tasks.

    (T, R); of shape (1, 1) where no operator says anything.
    """
    limits = np.where(np.isfinite(by_group), by_group, by_operator)
    if not np.isfinite(limits).any():
        return np.full((1, 1), np.inf)
    return np.vstack([limits, np.full((1, limits.shape[1]), np.inf)])[operator]  # -1 is the last


def _indices(values: Iterable[int | None]) -> Ints:
    return np.array([NO_INDEX if value is None else value for value in values], dtype=np.int32)


def _numbers(values: Iterable[float | None]) -> Floats:
    return np.array([*values], dtype=np.float64)  # None is nan


def _starts(lengths: Iterable[int]) -> Ints:
    """Return where the rows of a CSR form begin and end."""
    return np.concatenate([[0], np.cumsum([*lengths])]).astype(np.int32)


def _rows(lists: list[tuple[int, list[int]]]) -> tuple[Ints, Ints, Ints]:
    """Write lists of nodes a task in CSR form: the tasks, ascending; row ends; the nodes."""
    lists.sort()
    return (
        _indices(row for row, _ in lists),
        _starts(len(places) for _, places in lists),
        _indices(n for _, places in lists for n in places),
    )


class _Tasks:
    """The columns of tasks while they are filled."""

    def __init__(self, ids: tuple[str, ...], resources: int) -> None:
        count, self.ids = len(ids), ids
        self.load, self.given = np.zeros((count, resources)), np.zeros((count, resources), np.bool_)
        self.state, self.cost = np.full(count, np.nan), np.full(count, np.nan)
        self.operator, self.node, self.slot = (
            np.full(count, NO_INDEX, dtype=np.int32) for _ in range(3)
        )
        self.max_load: list[tuple[int, int, float]] = []
        self.allowed: list[tuple[int, list[int]]] = []
        self.copies: list[tuple[int, list[int]]] = []
        self.labels: dict[int, dict[str, str]] = {}


class _Builder:
    """A document, the indices of its names, and what is wrong with it so far."""

    def __init__(self, document: InstanceDocument) -> None:
        self.document, self.problems = document, list[Problem]()
        self.resources = {name: r for r, name in enumerate(document.resources)}

    def fields(self) -> dict[str, Any]:
        """Return the fields of the instance."""
        document = self.document
        self._check_resources()
        self.nodes = self._nodes()
        topologies = self._topologies()
        links = self._links()
        self.operator_index = self.unique([o.id for o in document.operators], "operators")
        self.rates = tuple_rates(document, self.operator_index, self.refuse)
        self._spread_groups()
        self._read_tasks()
        self._derive_loads()
        self.tasks = self._task_table()
        self.operators = self._operator_table(topologies.ids)
        traffic = self._traffic()
        fields = {
            "name": document.name,
            "origin": document.origin,
            "units": dict(document.units),
            "labels": dict(document.labels),
            "resources": tuple(document.resources),
            "nodes": self.nodes,
            "tasks": self.tasks,
            "operators": self.operators,
            "topologies": topologies,
            "links": links,
            "traffic": traffic,
            "streams": self._streams(traffic),
            "limits": self._limits(),
            **dict(zip(("sets", "slot_sets"), self._sets(), strict=True)),
            "rate_driven": self._rate_driven(),
            "crossing_cost": self._crossing_cost(),
            "models": self._models(),
            "input_rate": document.input_rate,
            "vm_types": tuple(VmType(v.id, v.slots, v.price) for v in document.vm_types),
        }
        self.unique([v.id for v in document.vm_types], "vm_types")
        if self.problems:
            raise InvalidInput(self.problems)
        return fields

    def refuse(self, path: str, value: Any, reason: str, remedy: str = "") -> None:
        """Note a problem."""
        self.problems.append(Problem(path, value, reason, remedy))

    def find(self, index: Mapping[str, int], name: str, path: str, noun: str) -> int | None:
        """Return the index of a name; one that stands for nothing is a problem."""
        at = index.get(name)
        if at is None:
            self.refuse(path, name, f"is not the id of {noun}")
        return at

    def unique(self, names: Sequence[str], where: str) -> dict[str, int]:
        """Return name → index; a repeated name is a problem."""
        index = {name: i for i, name in enumerate(names)}
        if len(index) < len(names):
            first: dict[str, int] = {}
            for i, name in enumerate(names):
                if first.setdefault(name, i) != i:
                    reason = f"is also the id of {where}[{first[name]}]"
                    self.refuse(f"{where}[{i}].id", name, reason, "ids must be unique")
        return index

    def _resource(self, name: str, path: str) -> int | None:
        at = self.resources.get(name)
        if at is None:
            reason = f"is not in resources ({', '.join(self.resources)})"
            self.refuse(f"{path}.{name}", None, reason, "add it there")
        return at

    def _amounts(
        self, entry: Mapping[str, float], row: Any, path: str, is_given: Any = None
    ) -> None:
        """Write a resource → number mapping into a row; an unknown resource is a problem."""
        for name, value in entry.items():
            at = self._resource(name, path)
            if at is not None:
                row[at] = value
                if is_given is not None:
                    is_given[at] = True

    def _check_resources(self) -> None:
        seen: set[str] = set()
        for i, name in enumerate(self.document.resources):
            if name in seen:
                self.refuse(f"resources[{i}]", name, "stands twice", "keep one")
            if name == "links":
                self.refuse(f"resources[{i}]", name, "is reserved for max_utilisation", "rename it")
            seen.add(name)

    def _nodes(self) -> NodeTable:
        entries = self.document.nodes
        shape = (len(entries), len(self.document.resources))
        tables = {
            key: np.full(shape, missing)
            for key, missing in (
                ("capacity", np.inf), ("min_load", 0.0), ("background", 0.0),
                ("slot_capacity", np.inf),
            )
        }  # fmt: skip
        racks: dict[str, int] = {}
        for i, node in enumerate(entries):
            for key, table in tables.items():
                self._amounts(getattr(node, key), table[i], f"nodes[{i}].{key}")
            if node.rack is not None:
                racks.setdefault(node.rack, len(racks))
        self.unique([n.id for n in entries], "nodes")
        types = {vm.id: i for i, vm in enumerate(self.document.vm_types)}
        for i, node in enumerate(entries):
            if node.vm_type is not None:
                self.find(types, node.vm_type, f"nodes[{i}].vm_type", "a machine type")
        return NodeTable(
            ids=tuple(n.id for n in entries),
            **tables,
            weight=_numbers(n.weight for n in entries),
            slots=_indices(n.slots for n in entries),
            rack=_indices(racks.get(n.rack or "") for n in entries),
            rack_ids=tuple(racks),
            leaving=np.array([n.leaving for n in entries], dtype=np.bool_),
            max_tasks=_indices(n.max_tasks for n in entries),
            max_inflow=_indices(n.max_inflow for n in entries),
            vm_type=_indices(types.get(n.vm_type or "") for n in entries),
            labels={i: dict(n.labels) for i, n in enumerate(entries) if n.labels},
        )

    def _topologies(self) -> TopologyTable:
        entries = self.document.topologies
        ids = tuple(t.id for t in entries)
        self.unique(ids, "topologies")
        return TopologyTable(
            ids,
            _indices(t.workers for t in entries),
            _indices(t.exclusive_nodes for t in entries),
            np.zeros(len(ids), dtype=np.int32),
        )

    def _links(self) -> LinkTable:
        entries = self.document.links
        self.unique([link.id for link in entries], "links")
        members = []
        for i, link in enumerate(entries):
            indices = (
                self.find(self.nodes.index, name, f"links[{i}].nodes[{j}]", "a node")
                for j, name in enumerate(link.nodes)
            )
            here = [at for at in indices if at is not None]
            if len(set(here)) < len(here):
                self.refuse(f"links[{i}].nodes", link.id, "lists a node twice", "keep one")
            members.append(sorted(here))
        return LinkTable(
            ids=tuple(link.id for link in entries),
            node_indptr=_starts(map(len, members)),
            node_indices=_indices(itertools.chain(*members)),
            capacity=_numbers(link.capacity for link in entries),
            background=_numbers(link.background for link in entries),
            direction=_indices(DIRECTIONS.index(link.direction) for link in entries),
        )

    # Tasks: members of groups first, operator by operator, then the listed ones.

    def _spread_groups(self) -> None:
        """Lay out the columns and give every group member its even share."""
        operators, entries = self.document.operators, self.document.tasks
        self.sizes = [0 if o.group is None else o.group.tasks for o in operators]
        self.first = np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])
        grouped = int(self.first[-1])
        if grouped + len(entries) > MAX_TASKS:  # so that nothing further can be looked at
            reason = f"tasks are more than {MAX_TASKS}"
            raise InvalidInput(
                Problem("operators", grouped, reason, "merge tasks, or split the file")
            )
        names = [f"{o.id}/{i}" for o, size in zip(operators, self.sizes, strict=True)
                 for i in range(size)]  # fmt: skip
        members = {name: t for t, name in enumerate(names)} if entries else {}
        listed = [entry["id"] for entry in entries]
        self.rows = np.arange(len(listed))
        if names:
            self.rows = np.array([members.get(i, NO_INDEX) for i in listed], dtype=np.int64)
            extra = np.flatnonzero(self.rows < 0)
            self.rows[extra] = grouped + np.arange(len(extra))
            listed = [listed[i] for i in extra.tolist()]
        names += listed
        if len(set(names)) < len(names) or np.bincount(self.rows).max(initial=0) > 1:
            self.unique([entry["id"] for entry in entries], "tasks")
        self.columns = _Tasks(tuple(names), len(self.document.resources))
        self.columns.operator[:grouped] = np.repeat(np.arange(len(self.sizes)), self.sizes)
        self._spread_shares()

    def _spread_shares(self) -> None:
        columns, shape = self.columns, (len(self.sizes), len(self.document.resources))
        self.group_load, self.group_given = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
        self.group_state = np.full(len(self.sizes), np.nan)
        self.operator_max_load, self.group_max_load = np.full(shape, np.inf), np.full(shape, np.inf)
        self.group_allowed: list[tuple[int, ...] | None] = [None] * len(self.sizes)
        for o, operator in enumerate(self.document.operators):
            path, group = f"operators[{o}]", operator.group
            self._amounts(operator.max_load, self.operator_max_load[o], f"{path}.max_load")
            if group is None:
                continue
            path += ".group"
            self._amounts(group.max_load, self.group_max_load[o], f"{path}.max_load")
            self._amounts(group.load, self.group_load[o], f"{path}.load", self.group_given[o])
            members = slice(self.first[o], self.first[o + 1])
            columns.load[members] = self.group_load[o] / group.tasks
            columns.given[members] = self.group_given[o]
            if group.state is not None:
                self.group_state[o] = group.state
                columns.state[members] = group.state / group.tasks
            if group.allowed is not None:
                self.group_allowed[o] = tuple(self._read_nodes(group.allowed, f"{path}.allowed"))

    def _read_tasks(self) -> None:
        """Read the listed tasks: overrides of group members, and tasks of their own."""
        grouped, columns = int(self.first[-1]), self.columns
        if self._read_columns() and not grouped:
            return
        for i, (entry, row) in enumerate(zip(self.document.tasks, self.rows.tolist(), strict=True)):
            if "operator" in entry or row < grouped:
                self._read_operator(i, entry, row, grouped)
            elif grouped:
                self._check_member(i, entry["id"])
            if "load" in entry:
                path = f"tasks[{i}].load"
                self._amounts(entry["load"], columns.load[row], path, columns.given[row])
            for name, value in entry.get("max_load", {}).items():
                at = self._resource(name, f"tasks[{i}].max_load")
                if at is not None:
                    columns.max_load.append((row, at, value))
            if "node" in entry:
                self.find(self.nodes.index, entry["node"], f"tasks[{i}].node", "a node")
            if "slot" in entry:
                self._read_slot(i, entry, row)
            if "allowed" in entry:
                nodes = self._read_nodes(entry["allowed"], f"tasks[{i}].allowed")
                columns.allowed.append((row, nodes))
            if entry.get("copies"):
                nodes = self._read_nodes(entry["copies"], f"tasks[{i}].copies")
                columns.copies.append((row, nodes))
            if entry.get("labels"):
                columns.labels[row] = dict(entry["labels"])

    def _read_columns(self) -> bool:
        """Read what most tasks have, column by column; whether that is all, and all is known."""
        columns, keys, unknown = self.columns, set[str](), 0
        for start in range(0, len(self.rows), _CACHED):
            part = slice(start, start + _CACHED)
            entries, rows = self.document.tasks[part], self.rows[part]

            def fill(column: Any, values: list[Any], rows: Any = rows) -> Any:
                # None, a value that is left out, is nan, and whatever stood in the column stays
                numbers = _numbers(values)
                present = ~np.isnan(numbers)
                column[rows[present]] = numbers[present]
                return rows[present]

            keys = keys.union(*entries)
            for key, column in (("state", columns.state), ("migration_cost", columns.cost)):
                if key in keys:
                    fill(column, [entry.get(key) for entry in entries])
            places: list[Any] = [entry.get("node") for entry in entries]
            unknown += len(entries) - places.count(None)
            unknown -= len(fill(columns.node, [*map(self.nodes.index.get, places)]))
            loads = [entry.get("load", {}) for entry in entries]
            unknown += sum(map(len, loads))
            for name, r in self.resources.items():
                present = fill(columns.load[:, r], [load.get(name) for load in loads])
                columns.given[present, r] = True
                unknown -= len(present)
        return not unknown and keys <= {"id", "load", "state", "migration_cost", "node"}

    def _read_operator(self, i: int, entry: Any, row: int, grouped: int) -> None:
        name, path = entry.get("operator"), f"tasks[{i}].operator"
        at = None if name is None else self.find(self.operator_index, name, path, "an operator")
        if at is None:
            return
        if row < grouped and at != self.columns.operator[row]:
            owner = self.document.operators[self.columns.operator[row]].id
            reason = f"but the task's id makes it a member of the group of {owner}"
            self.refuse(path, name, reason, "rename the task, or correct operator")
        elif row >= grouped and self.sizes[at]:
            reason = f"has a group of {self.sizes[at]}; {entry['id']} is none of its members"
            remedy = f"use the ids {name}/0 … {name}/{self.sizes[at] - 1}, or enlarge the group"
            self.refuse(path, name, reason, remedy)
        else:
            self.columns.operator[row] = at

    def _check_member(self, i: int, name: str) -> None:
        """Refuse an id that is written as a group's member and is none: its number is wrong."""
        owner, _, number = name.rpartition("/")
        owner = owner.strip()
        at = self.operator_index.get(owner)
        if at is None or not self.sizes[at] or not _NUMBER.fullmatch(number.strip()):
            return
        size = self.sizes[at]
        reason = f"is no member of the group of {owner}, which has {size}, and has no operator"
        remedy = f"use {owner}/0 … {owner}/{size - 1}, enlarge the group, or rename the task"
        self.refuse(f"tasks[{i}].id", name, reason, remedy)

    def _read_slot(self, i: int, entry: Any, row: int) -> None:
        node = self.columns.node[row]
        slots = self.nodes.slots[node] if node >= 0 else NO_INDEX
        if node < 0:
            reason, remedy = "needs a node", "give node, or leave slot out"
        elif slots >= 0 and entry["slot"] >= slots:
            reason, remedy = f"is beyond the {slots} slots of {entry['node']}", "slots count from 0"
        else:
            self.columns.slot[row] = entry["slot"]
            return
        self.refuse(f"tasks[{i}].slot", entry["slot"], reason, remedy)

    def _read_nodes(self, names: list[str], path: str) -> list[int]:
        index = self.nodes.index
        indices = (self.find(index, name, f"{path}[{j}]", "a node") for j, name in enumerate(names))
        return sorted({at for at in indices if at is not None})

    def _derive_loads(self) -> None:
        """Fill the first resource from ``cpu_per_tuple`` where it is not given."""
        columns = self.columns
        for o in range(len(self.sizes)):
            derived = derived_load(self.document, o, self.rates, self.refuse)
            if derived is None:
                continue
            members = np.flatnonzero(columns.operator == o)
            missing = members[~columns.given[members, 0]]
            columns.load[missing, 0] = derived / max(1, len(members))
            # of a group the two are compared as totals (`derived_load`); tasks one by one only here
            listed = len(members) > 0 and self.sizes[o] == 0 and len(missing) == 0
            total = float(columns.load[members, 0].sum())
            if listed and not same(total, derived):
                name, path = self.document.operators[o].id, f"operators[{o}].cpu_per_tuple"
                reason = f"gives {derived:.9g}, but the loads of its tasks add up to {total:.9g}"
                self.refuse(path, name, reason, "give one of the two")

    def _allow_by_group(self) -> None:
        """Give members without a list of their own that of their group."""
        has_list = {row for row, _ in self.columns.allowed}
        most = 0
        for o, places in enumerate(self.group_allowed):
            if places is None:
                continue
            most += len(places) * self.sizes[o]
            if most > _MAX_ALLOWED:
                reason = f"entries for all members are more than {_MAX_ALLOWED}"
                remedy = "list fewer nodes, or mark the others with a resource that tasks need"
                self.refuse(f"operators[{o}].group.allowed", most, reason, remedy)
                return
            members = range(int(self.first[o]), int(self.first[o + 1]))
            self.columns.allowed += [(row, list(places)) for row in members if row not in has_list]

    def _task_table(self) -> TaskTable:
        self._allow_by_group()
        columns, operator = self.columns, self.columns.operator
        restricted, allowed_indptr, allowed_indices = _rows(columns.allowed)
        copied, copies_indptr, copies_indices = _rows(columns.copies)
        order = np.argsort(operator, kind="stable")
        self.order = order[operator[order] >= 0].astype(np.int32)
        self.per_operator = np.bincount(operator[self.order], minlength=len(self.sizes))
        # position of a task among those of its operator, in the order of the file
        starts = np.cumsum(self.per_operator) - self.per_operator
        member = np.full(len(operator), NO_INDEX, dtype=np.int32)
        member[self.order] = np.arange(len(self.order)) - np.repeat(starts, self.per_operator)
        # its own, else its group's, else its operator's
        max_load = inherited_max_load(operator, self.operator_max_load, self.group_max_load)
        if columns.max_load:
            max_load = np.array(np.broadcast_to(max_load, columns.load.shape))
            for row, at, value in columns.max_load:
                max_load[row, at] = value
        return TaskTable(
            ids=columns.ids,
            operator=operator,
            member=member,
            load=columns.load,
            max_load=max_load,
            state=columns.state,
            given_cost=columns.cost,
            node=columns.node,
            slot=columns.slot,
            restricted=restricted,
            allowed_indptr=allowed_indptr,
            allowed_indices=allowed_indices,
            copied=copied,
            copies_indptr=copies_indptr,
            copies_indices=copies_indices,
            labels=dict(sorted(columns.labels.items())),
        )

    def _operator_table(self, topology_ids: Sequence[str]) -> OperatorTable:
        entries = self.document.operators
        topology_index = {name: p for p, name in enumerate(topology_ids)}
        topology = [
            None if operator.topology is None
            else self.find(topology_index, operator.topology, f"operators[{o}].topology",
                           "a topology")
            for o, operator in enumerate(entries)
        ]  # fmt: skip
        bounds = ("min_parallelism", "max_parallelism", "key_groups")
        for o, entry in enumerate(entries):
            values = [(name, getattr(entry, name)) for name in bounds]
            bounds_given = [(name, value) for name, value in values if value is not None]
            for (low, least), (high, most) in itertools.combinations(bounds_given, 2):
                if least > most:
                    reason, remedy = f"is above {high}, {most}", "lower it, or raise the other"
                    self.refuse(f"operators[{o}].{low}", least, reason, remedy)
        return OperatorTable(
            ids=tuple(o.id for o in entries),
            role=tuple(o.role for o in entries),
            topology=_indices(topology),
            group_tasks=_indices(size or NO_INDEX for size in self.sizes),
            group_allowed=tuple(self.group_allowed),
            group_load=self.group_load,
            group_load_given=self.group_given,
            group_state=self.group_state,
            max_load=self.operator_max_load,
            group_max_load=self.group_max_load,
            **{name: _indices(getattr(o, name) for o in entries) for name in bounds},
            cpu_per_tuple=_numbers(o.cpu_per_tuple for o in entries),
            service_rate=_numbers(o.service_rate for o in entries),
            tuple_rate=self.rates,
            model=tuple(o.model for o in entries),
            task_indptr=_starts(self.per_operator),
            task_indices=self.order,
            labels={i: dict(o.labels) for i, o in enumerate(entries) if o.labels},
        )

    # Traffic.

    def _traffic(self) -> TrafficTable:
        entries = self.document.traffic
        index = self.tasks.index if entries else {}
        source = _indices(index.get(e[0]) for e in entries)
        target = _indices(index.get(e[1]) for e in entries)
        for column, side in ((0, source), (1, target)):
            for i in np.flatnonzero(side < 0):
                path = f"traffic[{i}][{column}]"
                self.refuse(path, entries[i][column], "is not the id of a task")
        for i in np.flatnonzero((source == target) & (source >= 0)):
            reason, remedy = "sends to itself", "a task never leaves its node"
            self.refuse(f"traffic[{i}]", entries[i][0], reason, remedy)
        # (sender, receiver) as one number: the pair is directed
        key = source.astype(np.int64) * max(1, len(self.tasks.ids)) + target
        first, counts = np.unique(key, return_index=True, return_counts=True)[1:]
        if (counts > 1).any():
            original = dict(zip(key[first].tolist(), first.tolist(), strict=True))
            repeated = np.setdiff1d(np.arange(len(key)), first)
            for i in repeated[(source[repeated] >= 0) & (target[repeated] >= 0)]:
                reason = f"repeats the pair of traffic[{original[int(key[i])]}]"
                self.refuse(f"traffic[{i}]", list(entries[i][:2]), reason, "add the rates up")
        return TrafficTable(source, target, _numbers(e[2] for e in entries))

    def _streams(self, traffic: TrafficTable) -> tuple[Stream, ...]:
        operators, replaced = self.operators, self._operator_pairs(traffic)
        has_tasks = len(self.tasks.ids) > 0
        built: list[Stream] = []
        seen: dict[tuple[int, int], int] = {}
        for i, entry in enumerate(self.document.streams):
            path = f"streams[{i}]"
            source, target = (
                self.find(operators.index, name, f"{path}.{key}", "an operator")
                for key, name in (("from", entry.source), ("to", entry.target))
            )
            if source is None or target is None:
                continue
            if source == target:
                reason = "runs from an operator to itself, which would pair a task with itself"
                remedy = "give such traffic as task pairs in traffic"
                self.refuse(path, entry.source, reason, remedy)
                continue
            if seen.setdefault((source, target), i) != i:
                reason = f"repeats the stream of streams[{seen[source, target]}]"
                self.refuse(path, f"{entry.source} → {entry.target}", reason, "add the rates up")
            stands = (source, target) in replaced
            rate = 0.0
            if entry.rate is not None or not (stands or not has_tasks):
                rate = stream_rate(self.document, i, operators.index, self.rates, self.refuse)
            senders, receivers = (int(operators.num_tasks[o]) for o in (source, target))
            if has_tasks and not stands:
                self._check_ends(path, entry, senders, receivers)
            weights = entry.sender_weights
            built.append(
                Stream(
                    source, target, rate,
                    np.nan if entry.selectivity is None else entry.selectivity,
                    np.nan if entry.tuple_bytes is None else entry.tuple_bytes,
                    entry.pattern, stands, entry.rate is not None,
                    None if weights is None else tuple(weights),
                )
            )  # fmt: skip
            if weights is not None:
                self._check_weights(path, entry, senders if has_tasks else None)
        return tuple(built)

    def _check_weights(self, path: str, entry: StreamDocument, senders: int | None) -> None:
        weights, reason, remedy = entry.sender_weights or [], "", ""
        if entry.pattern != "local_first":
            reason = f"is of local_first streams, and this one is {entry.pattern}"
            remedy = "give task pairs in traffic"
        elif senders is not None and len(weights) != senders:
            reason = f"is {len(weights)} numbers for the {senders} tasks of {entry.source}"
            remedy = "give one for each sending task, in their order"
        elif not max(weights, default=0.0) > 0:
            reason, remedy = "is 0 for every sending task", "leave it out where all send alike"
        if reason:
            self.refuse(f"{path}.sender_weights", weights[:5], reason, remedy)

    def _check_ends(self, path: str, entry: StreamDocument, a: int, b: int) -> None:
        for name, count in ((entry.source, a), (entry.target, b)):
            if count == 0:
                remedy = "give the operator a group, or tasks"
                self.refuse(path, name, "has no tasks to send or receive", remedy)
                return
        if entry.pattern == "one_to_one" and a != b:
            reason = f"needs as many senders as receivers; there are {a} and {b}"
            self.refuse(f"{path}.pattern", "one_to_one", reason, "use rescale or merge")

    def _operator_pairs(self, traffic: TrafficTable) -> set[tuple[int, int]]:
        """Pairs of operators between which task pairs are given."""
        between_tasks = (traffic.source >= 0) & (traffic.target >= 0)
        ends = np.stack([self.tasks.operator[side[between_tasks]]
                         for side in (traffic.source, traffic.target)])  # fmt: skip
        ends = np.unique(ends[:, (ends >= 0).all(axis=0)], axis=1)
        return set(zip(*ends.tolist(), strict=True))

    # Limits and what else stands beside the tables.

    def _limits(self) -> Limits:
        entry = self.document.limits
        share = np.ones(len(self.document.resources))
        rest = {name: value for name, value in entry.max_utilisation.items() if name != "links"}
        self._amounts(rest, share, "limits.max_utilisation")
        for name, value in entry.max_utilisation.items():
            if value > MAX_SHARE:
                reason = f"is a share of the capacity, and above {MAX_SHARE}"
                remedy = f"write {value / 100:g} for {value:g} percent"
                self.refuse(f"limits.max_utilisation.{name}", value, reason, remedy)
        restarts, tasks = entry.max_workers_restarted, self.tasks
        unknown = np.flatnonzero((tasks.node >= 0) & (tasks.slot < 0))
        if restarts is not None and len(unknown):
            first = tasks.ids[unknown[0]]
            reason = f"needs the slot of each task that has a node; {first} has none"
            remedy = "give tasks[].slot, or leave the limit out"
            self.refuse("limits.max_workers_restarted", restarts, reason, remedy)
        names = {each.name for each in fields(Limits)} & type(entry).model_fields.keys()
        plain = {name: getattr(entry, name) for name in names - {"max_utilisation"}}
        links = entry.max_utilisation.get("links", 1.0)
        return Limits(**plain, max_utilisation=share, max_link_utilisation=links)

    def _rate_driven(self) -> tuple[int, ...]:
        driven, resources = self.document.rate_driven, self.document.resources
        if driven is None:
            return (0,)
        for i, name in enumerate(driven):
            if name not in resources:
                reason = f"is not in resources ({', '.join(resources)})"
                self.refuse(f"rate_driven[{i}]", name, reason, "add it there")
            elif name in driven[:i]:
                self.refuse(f"rate_driven[{i}]", name, "stands twice", "keep one")
        return tuple(r for r, name in enumerate(resources) if name in driven)

    def _crossing_cost(self) -> Floats:
        """(2, R) units that a unit of rate costs its sender and its receiver."""
        cost = np.zeros((2, len(self.document.resources)))
        for name, entry in self.document.crossing_cost.items():
            at = self._resource(name, "crossing_cost")
            if at is not None:
                cost[:, at] = entry.out, entry.into
        cost.flags.writeable = False
        return cost

    def _models(self) -> dict[str, tuple[ModelPoint, ...]]:
        models = {}
        for name, points in self.document.models.items():
            ordered = sorted(points, key=lambda p: p.threads)
            for previous, point in itertools.pairwise(ordered):
                if previous.threads == point.threads:
                    self.refuse(f"models.{name}", point.threads, "threads stand twice", "keep one")
            models[name] = tuple(ModelPoint(p.threads, p.rate, p.cpu, p.memory) for p in ordered)
        for i, operator in enumerate(self.document.operators):
            if operator.model is not None and operator.model not in models:
                path = f"operators[{i}].model"
                self.refuse(path, operator.model, "is not in models", "add it there")
        return models

    def _sets(self) -> tuple[SetTable, SetTable]:
        """Resolve the members of every set: of those over nodes or racks, and those over slots."""
        entries = self.document.sets
        index = self.tasks.index if entries else {}
        self.unique([entry.id for entry in entries], "sets")
        members: list[list[int]] = []
        for i, entry in enumerate(entries):
            members.append(self._members(entry, f"sets[{i}]", index))
            self._check_use(entry, f"sets[{i}]")
        operators = self.operators.index
        table = SetTable(
            ids=tuple(entry.id for entry in entries),
            rule=_indices(SET_RULES.index(entry.rule) for entry in entries),
            by_rack=np.array([entry.over == "rack" for entry in entries], dtype=np.bool_),
            limit=_indices(e.at_most or e.at_least or 1 for e in entries),
            indptr=_starts(map(len, members)),
            members=_indices(itertools.chain(*members)),
            by_operator=_indices(operators.get(e.operator or "") for e in entries),
            entry=np.arange(len(entries), dtype=np.int32),
        )
        over_slots = np.array([entry.over == "slot" for entry in entries], dtype=np.bool_)
        return table.only(np.flatnonzero(~over_slots)), table.only(np.flatnonzero(over_slots))

    def _members(self, entry: SetDocument, path: str, index: dict[str, int]) -> list[int]:
        if (entry.operator is None) == (not entry.tasks):
            reason = "has no members" if entry.operator is None else "has both tasks and operator"
            self.refuse(path, entry.id, reason, "give tasks, or operator")
            return []
        if entry.operator is not None:
            table = self.operators
            at = self.find(table.index, entry.operator, f"{path}.operator", "an operator")
            if at is None:
                return []
            return sorted(
                table.task_indices[table.task_indptr[at] : table.task_indptr[at + 1]].tolist()
            )
        places = []
        for j, name in enumerate(entry.tasks):
            task = self.find(index, name, f"{path}.tasks[{j}]", "a task")
            if task is None:
                continue
            if name in entry.tasks[:j]:
                self.refuse(f"{path}.tasks[{j}]", name, "stands twice", "keep one")
            else:
                places.append(task)
        return sorted(places)

    def _check_use(self, entry: SetDocument, path: str) -> None:
        """Refuse numbers that a set's rule has no use for, or lacks, and racks that are unknown."""
        rule = SET_RULES.index(entry.rule)
        for name, value, of, words in (
            ("at_most", entry.at_most, APART, "apart"),
            ("at_least", entry.at_least, SPREAD, "spread"),
        ):
            if value is not None and rule != of:
                reason = f"has no meaning for the rule {entry.rule}"
                self.refuse(f"{path}.{name}", value, reason, f"only {words} takes it")
        if entry.at_least is None and rule == SPREAD:
            reason = "is missing: over how many places to spread"
            self.refuse(f"{path}.at_least", None, reason, "give a whole number from 1")
        without = np.flatnonzero(self.nodes.rack < 0)
        if entry.over == "rack" and len(without):
            reason = f"needs nodes[].rack; {self.nodes.ids[without[0]]} has none"
            self.refuse(f"{path}.over", "rack", reason, "give every node its rack")
