"""The instance: one immutable placement problem, validated once, with its arrays derived once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput
from optim.format.build import build, inherited_max_load
from optim.format.document import (
    INSTANCE_ADAPTER,
    INSTANCE_FORMAT,
    LimitsDocument,
    checked,
    parse_json,
    refuse_other_kind,
    validate,
)
from optim.format.tables import APART, DIRECTIONS, SET_RULES, SPREAD
from optim.format.traffic import TaskPairs, Traffic
from optim.util.files import read_bytes, write_atomic
from optim.util.process import collection_paused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from scipy.sparse import csr_array

    from optim.format.document import InstanceDocument
    from optim.format.tables import (
        Bools,
        Floats,
        Ints,
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


@dataclass(frozen=True, eq=False, repr=False)
class Instance:
    """A placement problem.

    Build one with `Instance.load`, `Instance.from_json` or `Instance.from_dict`; all of these
    validate everything and report all problems at once. Arrays are read-only.

    Attributes
    ----------
    name, origin, units, labels
        What the file says about itself; carried through unread.
    resources
        R names; the first is the balanced one.
    nodes, tasks, operators, topologies, links, sets, slot_sets, limits
        The tables of `optim.format.tables`; sets over nodes or racks, and sets over slots.
    rate_driven
        Indices of the resources whose load grows with the input rate.
    crossing_cost
        (2, R) units of each resource that one unit of rate costs the node that sends it to another
        node, and the one that receives it.
    streams
        Traffic between operators.
    traffic
        Explicit directed task pairs.
    models, input_rate, vm_types
        The model-driven parts.
    """

    name: str
    origin: str
    units: Mapping[str, str]
    labels: Mapping[str, str]
    resources: tuple[str, ...]
    nodes: NodeTable
    tasks: TaskTable
    operators: OperatorTable
    topologies: TopologyTable
    links: LinkTable
    rate_driven: tuple[int, ...]
    crossing_cost: Floats
    sets: SetTable
    slot_sets: SetTable
    streams: tuple[Stream, ...]
    traffic: TrafficTable
    limits: Limits
    models: Mapping[str, tuple[ModelPoint, ...]]
    input_rate: float | None
    vm_types: tuple[VmType, ...]

    # -- in and out ------------------------------------------------------------------------------

    @classmethod
    def from_dict(cls, value: Any) -> Instance:
        """Validate a parsed document.

        Raises
        ------
        InvalidInput
            With every problem by path.
        """
        return cls._from_parsed([value], lambda parsed: validate(INSTANCE_ADAPTER, parsed))

    @classmethod
    def _from_parsed(
        cls, values: list[Any], check: Callable[[Any], InstanceDocument] | None = None
    ) -> Instance:
        """Build from the one document of a list; without `check` nobody else holds it."""
        refuse_other_kind(values[0], "streamplace.instance")
        with collection_paused():
            return cls(**build((check or checked)(values.pop())))

    @classmethod
    def from_json(cls, text: str | bytes) -> Instance:
        """Read an instance from JSON text.

        Raises
        ------
        InvalidInput
            Not JSON, duplicate keys, or anything the format does not allow.
        """
        with collection_paused():
            data = text.encode() if isinstance(text, str) else text
            return cls._from_parsed([parse_json(data)])

    @classmethod
    def load(cls, path: str | Path) -> Instance:
        """Read an instance from a ``.json`` or ``.json.gz`` file.

        Raises
        ------
        InvalidInput
            The file cannot be read, or its content cannot be taken.
        """
        data = read_bytes(path)
        try:
            with collection_paused():
                value = [parse_json(data)]
                del data  # a large file is given back before its content is checked
                return cls._from_parsed(value)
        except InvalidInput as error:
            raise error.within(str(path)) from None

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical document: fixed key order, defaults left out, groups preserved."""
        with collection_paused():
            return instance_document(self)

    def to_json(self) -> str:
        """Return the canonical JSON text; `sha256` is the hash of these bytes."""
        return self._canonical().decode()

    def save(self, path: str | Path) -> None:
        """Write the canonical JSON atomically; ``.gz`` packs it."""
        write_atomic(path, self._canonical())

    def _canonical(self) -> bytes:
        from pydantic_core import to_json

        return to_json(self.to_dict()) + b"\n"

    @cached_property
    def sha256(self) -> str:
        """Hash of the canonical JSON: two files that mean the same have the same."""
        return hashlib.sha256(self._canonical()).hexdigest()

    def replace(self, **changes: Any) -> Instance:
        """Return a new instance with top-level entries of the document replaced, as in a file.

        Raises
        ------
        InvalidInput
            With every problem by path.
        """
        return Instance.from_dict({**self.to_dict(), **changes})

    def __repr__(self) -> str:
        return (
            f"<Instance {self.name!r}: {self.num_tasks} tasks in {self.num_operators} operators, "
            f"{self.num_nodes} nodes>"
        )

    def _repr_html_(self) -> str:
        from optim.format.html import instance_html

        return instance_html(self)

    def with_values(self, table: str, **columns: Any) -> Instance:
        """Return the instance with other columns of a table (``nodes``, …, ``limits``)."""
        return replace(self, **{table: replace(getattr(self, table), **columns)})

    def with_max_load(self, max_load: Floats) -> Instance:
        """Return the instance with other ceilings of its tasks, (T, R) or (1, 1)."""
        none = np.full((self.num_operators, self.num_resources), np.inf)
        return replace(
            self,
            tasks=replace(self.tasks, max_load=max_load),
            operators=replace(self.operators, max_load=none, group_max_load=none),
        )

    def with_allowed(self, tasks: Iterable[int], rows: Sequence[Any]) -> Instance:
        """Return the instance in which these tasks, ascending, and no others have allowed nodes."""
        return self.with_values(
            "tasks",
            restricted=np.fromiter(tasks, dtype=np.int32),
            allowed_indptr=np.cumsum([0, *map(len, rows)]).astype(np.int32),
            allowed_indices=np.concatenate([*rows, []]).astype(np.int32),
        )

    # -- sizes -----------------------------------------------------------------------------------

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.nodes.ids)

    @property
    def num_tasks(self) -> int:
        """T."""
        return len(self.tasks.ids)

    @property
    def num_operators(self) -> int:
        """O."""
        return len(self.operators.ids)

    @property
    def num_resources(self) -> int:
        """R."""
        return len(self.resources)

    # -- derived once ----------------------------------------------------------------------------

    def tasks_of(self, operator: int) -> Ints:
        """Return the tasks of an operator in member order."""
        table = self.operators
        return table.task_indices[table.task_indptr[operator] : table.task_indptr[operator + 1]]

    @cached_property
    def task_topology(self) -> Ints:
        """(T,) topology of each task, -1 for none."""
        operator = self.tasks.operator
        return np.append(self.operators.topology, -1).astype(np.int32)[operator]  # -1 is the last

    @cached_property
    def headroom(self) -> Floats:
        """(N, R) load that may be placed: capacity × max_utilisation − background, or ``inf``."""
        return _frozen(self.nodes.capacity * self.limits.max_utilisation - self.nodes.background)

    @cached_property
    def thread_rates(self) -> Floats:
        """(T, D) multiple of the current input at which a task uses all it can of what that drives.

        ``inf`` where it never does; of no rows where no task has a ``max_load``.
        """
        driven = list(self.rate_driven)
        if not self.tasks.limited:
            return _frozen(np.zeros((0, len(driven))))
        load, most = self.tasks.load[:, driven], self.tasks.max_load[:, driven]
        return _frozen(np.divide(most, load, out=np.full(load.shape, np.inf), where=load > 0))

    @cached_property
    def open_nodes(self) -> Bools:
        """(N,) nodes that stay; constructive methods place only there."""
        return _frozen(~self.nodes.leaving)

    @cached_property
    def has_open_node(self) -> Bools:
        """(T,) whether a node that stays is among those a task may use."""
        has_open = np.full(self.num_tasks, bool(self.open_nodes.any()))
        table = self.tasks
        has_open[table.restricted] = table.any_allowed(self.open_nodes[table.allowed_indices])
        return _frozen(has_open)

    def allowed_mask(self, task: int) -> Bools:
        """(N,) where one task may go."""
        if not 0 <= task < self.num_tasks:
            raise IndexError(f"task {task} of {self.num_tasks}")
        # of its own type, or numpy would convert the whole array
        where = int(np.searchsorted(self.tasks.restricted, np.int32(task)))
        if where == len(self.tasks.restricted) or self.tasks.restricted[where] != task:
            return np.ones(self.num_nodes, dtype=np.bool_)
        mask = np.zeros(self.num_nodes, dtype=np.bool_)
        start, stop = self.tasks.allowed_indptr[where : where + 2]
        mask[self.tasks.allowed_indices[start:stop]] = True
        return mask

    @cached_property
    def flows(self) -> Traffic:
        """All traffic in the compact form the referee counts with."""
        rack = self.nodes.rack
        return Traffic.of(self.num_tasks, self.streams, self.traffic, self.tasks_of, rack)

    @cached_property
    def pairs(self) -> TaskPairs:
        """All traffic between pairs as undirected task pairs u < v, both directions added.

        Raises
        ------
        InvalidInput
            There are more than `optim.format.traffic.MAX_PAIRS`.
        """
        return TaskPairs(*(_frozen(column) for column in self.flows.pairs()))

    @cached_property
    def adjacency(self) -> csr_array[Any, tuple[int, int]]:
        """(T, T) symmetric sparse matrix of pair rates."""
        from scipy.sparse import coo_array

        u, v, rate = self.pairs
        both = (np.concatenate([rate, rate]), (np.concatenate([u, v]), np.concatenate([v, u])))
        return coo_array(both, shape=(self.num_tasks, self.num_tasks)).tocsr()

    @cached_property
    def partners(self) -> tuple[Ints, Ints, Floats]:
        """(T + 1,) starts, partners and rates: the rows of `adjacency`, before scipy is loaded."""
        u, v, rate = self.pairs
        task, other = np.concatenate([u, v]), np.concatenate([v, u])
        order = np.lexsort((other, task))
        starts = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=self.num_tasks))])
        return starts, other[order], np.concatenate([rate, rate])[order]

    @cached_property
    def total_traffic(self) -> float:
        """Sum of all rates between tasks."""
        return self.flows.total()

    @property
    def has_traffic(self) -> bool:
        """Whether any tasks communicate."""
        return self.total_traffic > 0

    @cached_property
    def has_current(self) -> bool:
        """Whether every task has a current node."""
        return self.num_tasks > 0 and bool((self.tasks.node >= 0).all())

    @cached_property
    def total_load(self) -> Floats:
        """(R,) load of all tasks."""
        return _frozen(self.tasks.load.sum(axis=0))

    @cached_property
    def totals(self) -> Floats:
        """(R,) load of all tasks and all background."""
        return _frozen(self.total_load + self.nodes.background.sum(axis=0))

    @cached_property
    def mean_load(self) -> float | None:
        """First resource's load a unit of weight of the staying nodes; ``None`` without any."""
        weight = float(self.nodes.weight[self.open_nodes].sum())
        return float(self.totals[0]) / weight if weight > 0 else None

    @cached_property
    def due(self) -> Floats:
        """(N,) share of the mean load that each node is due by its weight; 0 without a mean."""
        return _frozen(self.nodes.weight * (self.mean_load or 0.0))

    @cached_property
    def copy_nodes(self) -> dict[int, frozenset[int]]:
        """Task to the nodes that hold its state already; only tasks with such."""
        table = self.tasks
        ends = zip(table.copies_indptr[:-1].tolist(), table.copies_indptr[1:].tolist(), strict=True)
        rows = (frozenset(table.copies_indices[a:b].tolist()) for a, b in ends)
        return dict(zip(table.copied.tolist(), rows, strict=True))


def _frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


# The canonical document of an instance: fixed key order, defaults left out, groups preserved.


def instance_document(instance: Instance) -> dict[str, Any]:
    """Return the document that, read again, gives an equal instance."""
    parts = {
        "format": INSTANCE_FORMAT,
        "name": instance.name,
        "origin": instance.origin,
        "units": dict(instance.units),
        "labels": dict(instance.labels),
        "resources": list(instance.resources),
        "nodes": _nodes(instance),
        "links": _links(instance),
        "rate_driven": None
        if instance.rate_driven == (0,)
        else [instance.resources[r] for r in instance.rate_driven],
        "crossing_cost": {
            name: _filled({"out": out or None, "in": into or None})
            for name, out, into in zip(
                instance.resources, *instance.crossing_cost.tolist(), strict=True
            )
            if out or into
        },
        "sets": [entry for _, entry in sorted(_sets(instance), key=itemgetter(0))],
        "topologies": _topologies(instance),
        "operators": _operators(instance),
        "tasks": _tasks(instance),
        "streams": _streams(instance),
        "traffic": _traffic(instance),
        "limits": _limits(instance),
        "models": {name: [p._asdict() for p in points] for name, points in instance.models.items()},
        "input_rate": instance.input_rate,
        "vm_types": [vm._asdict() for vm in instance.vm_types],
    }
    return {key: value for key, value in parts.items() if value not in (None, "", [], {})}


def _topologies(instance: Instance) -> list[dict[str, Any]]:
    table = instance.topologies
    columns = zip(table.ids, table.workers, table.exclusive_nodes, strict=True)
    return [
        _filled(
            {
                "id": name,
                "workers": _number_or_none(workers),
                "exclusive_nodes": _number_or_none(nodes),
            }
        )
        for name, workers, nodes in columns
    ]


def _filled(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if value is not None and value != {}}


def _amounts(resources: Sequence[str], row: Floats, default: float) -> dict[str, float]:
    return {
        name: value for name, value in zip(resources, row.tolist(), strict=True) if value != default
    }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _number_or_none(value: Any) -> int | None:
    return int(value) if value >= 0 else None


def _nodes(instance: Instance) -> list[dict[str, Any]]:
    table, resources = instance.nodes, instance.resources

    def amounts(key: str, i: int, default: float) -> dict[str, float]:
        return _amounts(resources, getattr(table, key)[i], default)

    return [
        _filled({
            "id": name,
            "capacity": amounts("capacity", i, np.inf),
            "min_load": amounts("min_load", i, 0.0),
            "background": amounts("background", i, 0.0),
            "weight": None if table.weight[i] == 1 else float(table.weight[i]),
            "slots": _number_or_none(table.slots[i]),
            "slot_capacity": amounts("slot_capacity", i, np.inf),
            "rack": table.rack_ids[table.rack[i]] if table.rack[i] >= 0 else None,
            "leaving": True if table.leaving[i] else None,
            "max_tasks": _number_or_none(table.max_tasks[i]),
            "max_inflow": _number_or_none(table.max_inflow[i]),
            "vm_type": instance.vm_types[table.vm_type[i]].id if table.vm_type[i] >= 0 else None,
            "labels": dict(table.labels.get(i, {})),
        })
        for i, name in enumerate(table.ids)
    ]  # fmt: skip


def _links(instance: Instance) -> list[dict[str, Any]]:
    table, ids = instance.links, instance.nodes.ids
    starts = table.node_indptr
    return [
        _filled({
            "id": name,
            "nodes": [ids[n] for n in table.node_indices[starts[i] : starts[i + 1]]],
            "capacity": float(table.capacity[i]),
            "background": float(table.background[i]),
            "direction": DIRECTIONS[table.direction[i]] if table.direction[i] else None,
        })
        for i, name in enumerate(table.ids)
    ]  # fmt: skip


def _sets(instance: Instance) -> Iterator[tuple[int, dict[str, Any]]]:
    """Write sets over nodes and racks, then those over slots, each with its place in the file."""
    tables = ((instance.sets, None), (instance.slot_sets, "slot"))
    for (table, over), i in ((of, i) for of in tables for i in range(len(of[0].ids))):
        rule, operator, limit = int(table.rule[i]), int(table.by_operator[i]), int(table.limit[i])
        tasks = [instance.tasks.ids[t] for t in table.tasks_of(i)]
        entry = {
            "id": table.ids[i],
            "tasks": tasks if operator < 0 else None,
            "operator": instance.operators.ids[operator] if operator >= 0 else None,
            "rule": SET_RULES[rule],
            "over": "rack" if table.by_rack[i] else over,
            "at_most": limit if rule == APART and limit != 1 else None,
            "at_least": limit if rule == SPREAD else None,
        }
        yield int(table.entry[i]), _filled(entry)


def _operators(instance: Instance) -> list[dict[str, Any]]:
    table, resources = instance.operators, instance.resources
    entries = []
    for o, name in enumerate(table.ids):
        group, topology, places = None, table.topology[o], table.group_allowed[o]
        if table.group_tasks[o] >= 0:
            load = zip(resources, table.group_load[o], table.group_load_given[o], strict=True)
            group = _filled({
                "tasks": int(table.group_tasks[o]),
                "load": {resource: float(value) for resource, value, given in load if given},
                "max_load": _amounts(resources, table.group_max_load[o], np.inf),
                "state": _number(table.group_state[o]),
                "allowed": places and [instance.nodes.ids[n] for n in places],
            })  # fmt: skip
        entries.append(_filled({
            "id": name,
            "topology": instance.topologies.ids[topology] if topology >= 0 else None,
            "role": None if table.role[o] == "operator" else table.role[o],
            "group": group,
            "max_load": _amounts(resources, table.max_load[o], np.inf),
            "cpu_per_tuple": _number(table.cpu_per_tuple[o]),
            "service_rate": _number(table.service_rate[o]),
            "model": table.model[o],
            "min_parallelism": _number_or_none(table.min_parallelism[o]),
            "max_parallelism": _number_or_none(table.max_parallelism[o]),
            "key_groups": _number_or_none(table.key_groups[o]),
            "labels": dict(table.labels.get(o, {})),
        }))  # fmt: skip
    return entries


def _tasks(instance: Instance) -> list[dict[str, Any]]:
    """Listed tasks, derived loads left out; of group members what differs from the even share."""
    table, operators, resources = instance.tasks, instance.operators, instance.resources
    grouped = np.zeros(instance.num_tasks, dtype=np.bool_)
    has_operator = table.operator >= 0
    size = np.ones(instance.num_tasks)
    grouped[has_operator] = operators.group_tasks[table.operator[has_operator]] >= 0
    size[grouped] = operators.group_tasks[table.operator[grouped]]
    share = _even_share(instance, grouped, size)
    # compared bit by bit: both are the same division of the group's total
    load_differs = table.load != share
    state_share = np.full(instance.num_tasks, np.nan)
    state_share[grouped] = operators.group_state[table.operator[grouped]] / size[grouped]
    state_differs = ~(
        (table.state == state_share) | (np.isnan(table.state) & np.isnan(state_share))
    )
    listed = ~grouped | load_differs.any(axis=1) | state_differs | ~np.isnan(table.given_cost)
    listed |= (table.node >= 0) | (table.slot >= 0)
    limits = _own_max_load(instance)
    listed[list(limits)] = True
    allowed = _own_allowed(instance, grouped)
    copies = {t: row for row, t in enumerate(table.copied.tolist())}
    for some in (allowed, copies, table.labels):
        listed[list(some)] = True
    rows = np.flatnonzero(listed)
    entries = []
    columns = (table.load, load_differs, table.state, state_differs, table.given_cost, table.node,
               table.slot, table.operator)  # fmt: skip
    lines = zip(rows.tolist(), *(column[rows].tolist() for column in columns), strict=True)
    for t, load, differs, state, new_state, cost, node, slot, operator in lines:
        entry: dict[str, Any] = {"id": table.ids[t]}
        if operator >= 0 and not grouped[t]:
            entry["operator"] = operators.ids[operator]
        shown = {r: v for r, v, d in zip(resources, load, differs, strict=True) if d}
        if shown:
            entry["load"] = shown
        if t in limits:
            entry["max_load"] = limits[t]
        if new_state and state == state:
            entry["state"] = state
        if cost == cost:
            entry["migration_cost"] = cost
        if node >= 0:
            entry["node"] = instance.nodes.ids[node]
        if slot >= 0:
            entry["slot"] = slot
        if t in allowed:
            start, stop = table.allowed_indptr[allowed[t] : allowed[t] + 2]
            entry["allowed"] = [instance.nodes.ids[n] for n in table.allowed_indices[start:stop]]
        if t in copies:
            start, stop = table.copies_indptr[copies[t] : copies[t] + 2]
            entry["copies"] = [instance.nodes.ids[n] for n in table.copies_indices[start:stop]]
        if t in table.labels:
            entry["labels"] = dict(table.labels[t])
        entries.append(entry)
    return entries


def _own_max_load(instance: Instance) -> dict[int, dict[str, float]]:
    """Tasks whose ``max_load`` is not just their group's or operator's, and what differs."""
    table, operators = instance.tasks, instance.operators
    if not table.limited:
        return {}
    shared = inherited_max_load(table.operator, operators.max_load, operators.group_max_load)
    differing = np.where(table.max_load != shared, table.max_load, np.inf)
    rows = np.flatnonzero(np.isfinite(differing).any(axis=1)).tolist()
    return {t: _amounts(instance.resources, differing[t], np.inf) for t in rows}


def _own_allowed(instance: Instance, grouped: Any) -> dict[int, int]:
    """Tasks whose ``allowed`` list is not just their group's, and its row in the table."""
    table, operators = instance.tasks, instance.operators
    row_of = {}
    for row, t in enumerate(table.restricted.tolist()):
        if grouped[t]:
            start, stop = table.allowed_indptr[row : row + 2]
            places = operators.group_allowed[table.operator[t]]
            if places == tuple(table.allowed_indices[start:stop].tolist()):
                continue
        row_of[t] = row
    return row_of


def _even_share(instance: Instance, grouped: Any, size: Floats) -> Floats:
    """Return (T, R) what a task has by its operator alone: its group's share, and derived CPU."""
    operators, table = instance.operators, instance.tasks
    share = np.zeros_like(table.load)
    share[grouped] = operators.group_load[table.operator[grouped]] / size[grouped, None]
    rows = np.flatnonzero(table.operator >= 0)
    at = table.operator[rows]
    # cpu_per_tuple × tuple rate, shared by the tasks
    derived = operators.cpu_per_tuple[at] * operators.tuple_rate[at] / operators.num_tasks[at]
    use = ~operators.group_load_given[at, 0] & ~np.isnan(derived)
    share[rows[use], 0] = derived[use]
    return share


def _streams(instance: Instance) -> list[dict[str, Any]]:
    names = instance.operators.ids
    return [
        _filled(
            {
                "from": names[s.source],
                "to": names[s.target],
                "rate": s.rate if s.given else None,
                "selectivity": _number(s.selectivity),
                "tuple_bytes": _number(s.tuple_bytes),
                "pattern": None if s.pattern == "full" else s.pattern,
                "sender_weights": None if s.sender_weights is None else [*s.sender_weights],
            }
        )
        for s in instance.streams
    ]


def _traffic(instance: Instance) -> list[list[Any]]:
    ids, table = instance.tasks.ids, instance.traffic
    columns = zip(table.source.tolist(), table.target.tolist(), table.rate.tolist(), strict=True)
    return [[ids[s], ids[t], rate] for s, t, rate in columns]


def _limits(instance: Instance) -> dict[str, Any]:
    limits = instance.limits
    share = _amounts(instance.resources, limits.max_utilisation, 1.0)
    if limits.max_link_utilisation != 1:
        share["links"] = limits.max_link_utilisation
    names = LimitsDocument.model_fields
    return _filled({name: getattr(limits, name) for name in names} | {"max_utilisation": share})
