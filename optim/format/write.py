"""The canonical document of an instance: fixed key order, defaults left out, groups preserved."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.format.build import inherited_max_load
from optim.format.document import INSTANCE_FORMAT, LimitsDocument
from optim.format.tables import APART, DIRECTIONS, SET_RULES, SPREAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from optim.format.instance import Instance
    from optim.format.tables import Floats


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
        _filled({"id": name, "workers": _given(workers), "exclusive_nodes": _given(nodes)})
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


def _given(value: Any) -> int | None:
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
            "slots": _given(table.slots[i]),
            "slot_capacity": amounts("slot_capacity", i, np.inf),
            "rack": table.rack_ids[table.rack[i]] if table.rack[i] >= 0 else None,
            "leaving": True if table.leaving[i] else None,
            "max_tasks": _given(table.max_tasks[i]),
            "max_inflow": _given(table.max_inflow[i]),
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
            "min_parallelism": _given(table.min_parallelism[o]),
            "max_parallelism": _given(table.max_parallelism[o]),
            "key_groups": _given(table.key_groups[o]),
            "labels": dict(table.labels.get(o, {})),
        }))  # fmt: skip
    return entries


def _tasks(instance: Instance) -> list[dict[str, Any]]:
    """Listed tasks, derived loads left out; of group members what differs from the even share."""
    table, operators, resources = instance.tasks, instance.operators, instance.resources
    grouped = np.zeros(instance.num_tasks, dtype=np.bool_)
    own = table.operator >= 0
    size = np.ones(instance.num_tasks)
    grouped[own] = operators.group_tasks[table.operator[own]] >= 0
    size[grouped] = operators.group_tasks[table.operator[grouped]]
    share = _even_share(instance, grouped, size)
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
    told = zip(rows.tolist(), *(column[rows].tolist() for column in columns), strict=True)
    for t, load, differs, state, new_state, cost, node, slot, operator in told:
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
    own = np.where(table.max_load != shared, table.max_load, np.inf)
    rows = np.flatnonzero(np.isfinite(own).any(axis=1)).tolist()
    return {t: _amounts(instance.resources, own[t], np.inf) for t in rows}


def _own_allowed(instance: Instance, grouped: Any) -> dict[int, int]:
    """Tasks whose ``allowed`` list is not just their group's, and its row in the table."""
    table, operators = instance.tasks, instance.operators
    found = {}
    for row, t in enumerate(table.restricted.tolist()):
        if grouped[t]:
            start, stop = table.allowed_indptr[row : row + 2]
            places = operators.group_allowed[table.operator[t]]
            if places == tuple(table.allowed_indices[start:stop].tolist()):
                continue
        found[t] = row
    return found


def _even_share(instance: Instance, grouped: Any, size: Floats) -> Floats:
    """Return (T, R) what a task has by its operator alone: its group's share, and derived CPU."""
    operators, table = instance.operators, instance.tasks
    share = np.zeros_like(table.load)
    share[grouped] = operators.group_load[table.operator[grouped]] / size[grouped, None]
    rows = np.flatnonzero(table.operator >= 0)
    at = table.operator[rows]
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
