"""From a validated document to an `Instance`: cross references, spreading of groups, arrays.

All problems are collected; nothing is built while there is one.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.format.build_tasks import build_operators_and_tasks
from optim.format.demand import stream_rate, tuple_rates
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
    SetTable,
    Stream,
    TopologyTable,
    TrafficTable,
    VmType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optim.format.document import InstanceDocument, SetDocument
    from optim.format.tables import Floats, Ints, OperatorTable, TaskTable

_UNKNOWN_NODE = "is not the id of a node"


def build(document: InstanceDocument) -> dict[str, Any]:
    """Turn a document into the fields of an instance.

    Raises
    ------
    InvalidInput
        With every dangling reference, duplicate id, contradiction or cycle.
    """
    problems: list[Problem] = []
    resources = tuple(document.resources)
    _check_resources(resources, problems)
    nodes = _nodes(document, resources, problems)
    topologies = TopologyTable(
        tuple(t.id for t in document.topologies),
        np.array([t.workers or NO_INDEX for t in document.topologies], dtype=np.int32),
        np.array([t.exclusive_nodes or NO_INDEX for t in document.topologies], dtype=np.int32),
        np.zeros(len(document.topologies), dtype=np.int32),
    )
    unique(topologies.ids, "topologies", problems)
    links = _links(document, nodes, problems)
    operator_index = unique([o.id for o in document.operators], "operators", problems)
    rates = tuple_rates(document, operator_index, problems)
    operators, tasks = build_operators_and_tasks(
        document, nodes, operator_index, topologies.ids, rates, problems
    )
    traffic = _traffic(document, tasks, problems)
    streams = _streams(document, operators, tasks, traffic, rates, problems)
    limits = _limits(document, resources, problems)
    _check_restarts(limits, tasks, problems)
    sets, slot_sets = build_sets(document, nodes, operators, tasks, problems)
    rate_driven = _rate_driven(document, resources, problems)
    crossing_cost = _crossing_cost(document, resources, problems)
    models = _models(document, problems)
    unique([v.id for v in document.vm_types], "vm_types", problems)
    if problems:
        raise InvalidInput(problems)
    return {
        "name": document.name,
        "origin": document.origin,
        "units": dict(document.units),
        "labels": dict(document.labels),
        "resources": resources,
        "nodes": nodes,
        "tasks": tasks,
        "operators": operators,
        "topologies": topologies,
        "links": links,
        "rate_driven": rate_driven,
        "crossing_cost": crossing_cost,
        "sets": sets,
        "slot_sets": slot_sets,
        "streams": streams,
        "traffic": traffic,
        "limits": limits,
        "models": models,
        "input_rate": document.input_rate,
        "vm_types": tuple(VmType(v.id, v.slots, v.price) for v in document.vm_types),
    }


def unique(names: Sequence[str], where: str, problems: list[Problem]) -> dict[str, int]:
    """Return name → index; a repeated name is a problem."""
    index = {name: i for i, name in enumerate(names)}
    if len(index) < len(names):
        first: dict[str, int] = {}
        for i, name in enumerate(names):
            if first.setdefault(name, i) != i:
                reason = f"is also the id of {where}[{first[name]}]"
                problems.append(Problem(f"{where}[{i}].id", name, reason, "ids must be unique"))
    return index


def amounts(
    entry: Mapping[str, float],
    resource_index: Mapping[str, int],
    row: Floats,
    path: str,
    problems: list[Problem],
) -> None:
    """Write a resource → number mapping into a row; an unknown resource is a problem."""
    for name, value in entry.items():
        at = resource_index.get(name)
        if at is None:
            known = ", ".join(resource_index)
            problems.append(
                Problem(f"{path}.{name}", None, f"is not in resources ({known})", "add it there")
            )
        else:
            row[at] = value


def _check_resources(resources: tuple[str, ...], problems: list[Problem]) -> None:
    seen: set[str] = set()
    for i, name in enumerate(resources):
        if name in seen:
            problems.append(Problem(f"resources[{i}]", name, "stands twice", "keep one"))
        if name == "links":
            problems.append(
                Problem(f"resources[{i}]", name, "is reserved for max_utilisation", "rename it")
            )
        seen.add(name)


def _nodes(
    document: InstanceDocument, resources: tuple[str, ...], problems: list[Problem]
) -> NodeTable:
    entries = document.nodes
    shape = (len(entries), len(resources))
    capacity, slot_capacity = np.full(shape, np.inf), np.full(shape, np.inf)
    min_load, background = np.zeros(shape), np.zeros(shape)
    resource_index = {name: r for r, name in enumerate(resources)}
    racks: dict[str, int] = {}
    rack = np.full(len(entries), NO_INDEX, dtype=np.int32)
    for i, node in enumerate(entries):
        for key, table in (
            ("capacity", capacity),
            ("min_load", min_load),
            ("background", background),
            ("slot_capacity", slot_capacity),
        ):
            amounts(getattr(node, key), resource_index, table[i], f"nodes[{i}].{key}", problems)
        if node.rack is not None:
            rack[i] = racks.setdefault(node.rack, len(racks))
    unique([n.id for n in entries], "nodes", problems)
    return NodeTable(
        ids=tuple(n.id for n in entries),
        capacity=capacity,
        min_load=min_load,
        background=background,
        weight=np.array([n.weight for n in entries], dtype=np.float64),
        slots=_counts([n.slots for n in entries]),
        slot_capacity=slot_capacity,
        rack=rack,
        rack_ids=tuple(racks),
        leaving=np.array([n.leaving for n in entries], dtype=np.bool_),
        max_tasks=_counts([n.max_tasks for n in entries]),
        max_inflow=_counts([n.max_inflow for n in entries]),
        vm_type=_vm_types(document, problems),
        labels={i: dict(n.labels) for i, n in enumerate(entries) if n.labels},
    )


def _vm_types(document: InstanceDocument, problems: list[Problem]) -> Ints:
    index = {vm.id: i for i, vm in enumerate(document.vm_types)}
    for i, node in enumerate(document.nodes):
        if node.vm_type is not None and node.vm_type not in index:
            reason = "is not the id of a machine type"
            problems.append(Problem(f"nodes[{i}].vm_type", node.vm_type, reason))
    return _counts([index.get(n.vm_type or "") for n in document.nodes])


def _links(document: InstanceDocument, nodes: NodeTable, problems: list[Problem]) -> LinkTable:
    unique([link.id for link in document.links], "links", problems)
    members: list[int] = []
    indptr = [0]
    for i, link in enumerate(document.links):
        here = []
        for j, name in enumerate(link.nodes):
            at = nodes.index.get(name)
            if at is None:
                problems.append(Problem(f"links[{i}].nodes[{j}]", name, _UNKNOWN_NODE))
            else:
                here.append(at)
        if len(set(here)) < len(here):
            problems.append(Problem(f"links[{i}].nodes", link.id, "lists a node twice", "keep one"))
        members += sorted(here)
        indptr.append(len(members))
    return LinkTable(
        ids=tuple(link.id for link in document.links),
        node_indptr=np.array(indptr, dtype=np.int32),
        node_indices=np.array(members, dtype=np.int32),
        capacity=np.array([link.capacity for link in document.links], dtype=np.float64),
        background=np.array([link.background for link in document.links], dtype=np.float64),
        direction=np.array([DIRECTIONS.index(x.direction) for x in document.links], dtype=np.int32),
    )


def _counts(values: list[int | None]) -> Ints:
    return np.array([NO_INDEX if value is None else value for value in values], dtype=np.int32)


def _traffic(document: InstanceDocument, tasks: TaskTable, problems: list[Problem]) -> TrafficTable:
    entries = document.traffic
    index = tasks.index if entries else {}
    source = np.array([index.get(e[0], NO_INDEX) for e in entries], dtype=np.int32)
    target = np.array([index.get(e[1], NO_INDEX) for e in entries], dtype=np.int32)
    rate = np.array([e[2] for e in entries], dtype=np.float64)
    for column, side in ((0, source), (1, target)):
        for i in np.flatnonzero(side < 0):
            name = entries[i][column]
            problems.append(Problem(f"traffic[{i}][{column}]", name, "is not the id of a task"))
    for i in np.flatnonzero((source == target) & (source >= 0)):
        problems.append(
            Problem(
                f"traffic[{i}]", entries[i][0], "sends to itself", "a task never leaves its node"
            )
        )
    key = source.astype(np.int64) * max(1, len(tasks.ids)) + target
    first, counts = np.unique(key, return_index=True, return_counts=True)[1:]
    if (counts > 1).any():
        original = dict(zip(key[first].tolist(), first.tolist(), strict=True))
        repeated = np.setdiff1d(np.arange(len(key)), first)
        for i in repeated[(source[repeated] >= 0) & (target[repeated] >= 0)]:
            at = original[int(key[i])]
            reason = f"repeats the pair of traffic[{at}]"
            problems.append(
                Problem(f"traffic[{i}]", list(entries[i][:2]), reason, "add the rates up")
            )
    return TrafficTable(source, target, rate)


def _streams(
    document: InstanceDocument,
    operators: OperatorTable,
    tasks: TaskTable,
    traffic: TrafficTable,
    rates: Floats,
    problems: list[Problem],
) -> tuple[Stream, ...]:
    replaced = _operator_pairs(traffic, tasks)
    has_tasks = len(tasks.ids) > 0
    built: list[Stream] = []
    seen: dict[tuple[int, int], int] = {}
    for i, entry in enumerate(document.streams):
        ends = []
        for key, name in (("from", entry.source), ("to", entry.target)):
            at = operators.index.get(name)
            if at is None:
                problems.append(
                    Problem(f"streams[{i}].{key}", name, "is not the id of an operator")
                )
            else:
                ends.append(at)
        if len(ends) < 2:
            continue
        source, target = ends
        if source == target:
            problems.append(
                Problem(
                    f"streams[{i}]",
                    entry.source,
                    "runs from an operator to itself, which would pair a task with itself",
                    "give such traffic as task pairs in traffic",
                )
            )
            continue
        if seen.setdefault((source, target), i) != i:
            reason = f"repeats the stream of streams[{seen[source, target]}]"
            problems.append(
                Problem(
                    f"streams[{i}]", f"{entry.source} → {entry.target}", reason, "add the rates up"
                )
            )
        stands = (source, target) in replaced
        if entry.rate is None and (stands or not has_tasks):
            rate = 0.0
        else:
            rate = stream_rate(document, i, operators.index, rates, problems)
        if has_tasks and not stands:
            _check_ends(i, entry, (source, target), operators, problems)
        built.append(
            Stream(
                source,
                target,
                rate,
                np.nan if entry.selectivity is None else entry.selectivity,
                np.nan if entry.tuple_bytes is None else entry.tuple_bytes,
                entry.pattern,
                stands,
                entry.rate is not None,
                None if entry.sender_weights is None else tuple(entry.sender_weights),
            )
        )
        _check_weights(i, entry, int(operators.num_tasks[source]), has_tasks, problems)
    return tuple(built)


def _check_weights(
    i: int, entry: Any, senders: int, has_tasks: bool, problems: list[Problem]
) -> None:
    weights = entry.sender_weights
    if weights is None:
        return
    reason = remedy = ""
    if entry.pattern != "local_first":
        reason = f"is of local_first streams, and this one is {entry.pattern}"
        remedy = "give task pairs in traffic"
    elif has_tasks and len(weights) != senders:
        reason = f"is {len(weights)} numbers for the {senders} tasks of {entry.source}"
        remedy = "give one for each sending task, in their order"
    elif not max(weights, default=0.0) > 0:
        reason, remedy = "says of no task that it sends", "leave it out where all send alike"
    if reason:
        problems.append(Problem(f"streams[{i}].sender_weights", weights[:5], reason, remedy))


def _check_ends(
    i: int, entry: Any, ends: tuple[int, int], operators: OperatorTable, problems: list[Problem]
) -> None:
    a, b = (int(operators.num_tasks[o]) for o in ends)
    for name, count in ((entry.source, a), (entry.target, b)):
        if count == 0:
            problems.append(
                Problem(
                    f"streams[{i}]",
                    name,
                    "has no tasks to send or receive",
                    "give the operator a group, or tasks",
                )
            )
            return
    if entry.pattern == "one_to_one" and a != b:
        problems.append(
            Problem(
                f"streams[{i}].pattern",
                "one_to_one",
                f"needs as many senders as receivers; there are {a} and {b}",
                "use rescale or merge",
            )
        )


def _operator_pairs(traffic: TrafficTable, tasks: TaskTable) -> set[tuple[int, int]]:
    known = (traffic.source >= 0) & (traffic.target >= 0)
    if not known.any():
        return set()
    source = tasks.operator[traffic.source[known]].astype(np.int64)
    target = tasks.operator[traffic.target[known]].astype(np.int64)
    both = (source >= 0) & (target >= 0)
    width = int(max(source.max(initial=0), target.max(initial=0))) + 1
    keys = np.unique(source[both] * width + target[both])
    return {(int(k) // width, int(k) % width) for k in keys}


MAX_SHARE = 10
"""Share of a capacity above which a number can only be meant in percent."""


def _limits(
    document: InstanceDocument, resources: tuple[str, ...], problems: list[Problem]
) -> Limits:
    entry = document.limits
    share = np.ones(len(resources))
    links = entry.max_utilisation.get("links", 1.0)
    rest = {name: value for name, value in entry.max_utilisation.items() if name != "links"}
    index = {name: r for r, name in enumerate(resources)}
    amounts(rest, index, share, "limits.max_utilisation", problems)
    for name, value in entry.max_utilisation.items():
        if value > MAX_SHARE:
            reason = f"is a share of the capacity, and above {MAX_SHARE}"
            remedy = f"write {value / 100:g} for {value:g} percent"
            problems.append(Problem(f"limits.max_utilisation.{name}", value, reason, remedy))
    return Limits(
        max_migrations=entry.max_migrations,
        max_migration_cost=entry.max_migration_cost,
        max_migration_state=entry.max_migration_state,
        max_load_distance=entry.max_load_distance,
        max_tasks_per_slot=entry.max_tasks_per_slot,
        max_nodes_used=entry.max_nodes_used,
        max_workers_restarted=entry.max_workers_restarted,
        max_inflow=entry.max_inflow,
        max_utilisation=share,
        max_link_utilisation=links,
    )


def _check_restarts(limits: Limits, tasks: TaskTable, problems: list[Problem]) -> None:
    """Refuse a limit on restarts where it is not known in which slots tasks are now."""
    if limits.max_workers_restarted is None:
        return
    unknown = np.flatnonzero((tasks.node >= 0) & (tasks.slot < 0))
    if len(unknown):
        reason = f"needs the slot of each task that has a node; {tasks.ids[unknown[0]]} has none"
        remedy = "give tasks[].slot, or leave the limit out"
        path = "limits.max_workers_restarted"
        problems.append(Problem(path, limits.max_workers_restarted, reason, remedy))


def _rate_driven(
    document: InstanceDocument, resources: tuple[str, ...], problems: list[Problem]
) -> tuple[int, ...]:
    if document.rate_driven is None:
        return (0,)
    for i, name in enumerate(document.rate_driven):
        if name not in resources:
            known = ", ".join(resources)
            reason = f"is not in resources ({known})"
            problems.append(Problem(f"rate_driven[{i}]", name, reason, "add it there"))
        elif name in document.rate_driven[:i]:
            problems.append(Problem(f"rate_driven[{i}]", name, "stands twice", "keep one"))
    return tuple(r for r, name in enumerate(resources) if name in document.rate_driven)


def _crossing_cost(
    document: InstanceDocument, resources: tuple[str, ...], problems: list[Problem]
) -> Floats:
    """(2, R) units that a unit of rate costs its sender and its receiver."""
    cost, index = np.zeros((2, len(resources))), {name: r for r, name in enumerate(resources)}
    for row, side in zip(cost, ("out", "into"), strict=True):
        told = {name: getattr(entry, side) for name, entry in document.crossing_cost.items()}
        amounts(told, index, row, "crossing_cost", problems if side == "out" else [])
    cost.flags.writeable = False
    return cost


def _models(
    document: InstanceDocument, problems: list[Problem]
) -> dict[str, tuple[ModelPoint, ...]]:
    models = {}
    for name, points in document.models.items():
        ordered = sorted(points, key=lambda p: p.threads)
        for previous, point in itertools.pairwise(ordered):
            if previous.threads == point.threads:
                problems.append(
                    Problem(f"models.{name}", point.threads, "threads stand twice", "keep one")
                )
        models[name] = tuple(ModelPoint(p.threads, p.rate, p.cpu, p.memory) for p in ordered)
    _check_models_used(document.operators, models, problems)
    return models


def _check_models_used(
    operators: Iterable[Any], models: Mapping[str, Any], problems: list[Problem]
) -> None:
    for i, operator in enumerate(operators):
        if operator.model is not None and operator.model not in models:
            problems.append(
                Problem(f"operators[{i}].model", operator.model, "is not in models", "add it there")
            )


# Sets of tasks.


def build_sets(
    document: InstanceDocument,
    nodes: NodeTable,
    operators: OperatorTable,
    tasks: TaskTable,
    problems: list[Problem],
) -> tuple[SetTable, SetTable]:
    """Resolve the members of every set; whatever is wrong is added to the problems.

    Returns
    -------
    tuple
        Sets over nodes or racks, and sets over slots.
    """
    entries = document.sets
    index = tasks.index if entries else {}
    first: dict[str, int] = {}
    members: list[list[int]] = []
    for i, entry in enumerate(entries):
        path = f"sets[{i}]"
        if first.setdefault(entry.id, i) != i:
            reason = f"is also the id of sets[{first[entry.id]}]"
            problems.append(Problem(f"{path}.id", entry.id, reason, "ids must be unique"))
        members.append(_members(entry, path, operators, index, problems))
        problems += _misused(entry, path, nodes)
    rule = np.array([SET_RULES.index(entry.rule) for entry in entries], dtype=np.int32)
    lengths = [len(tasks_of_set) for tasks_of_set in members]
    table = SetTable(
        ids=tuple(entry.id for entry in entries),
        rule=rule,
        by_rack=np.array([entry.over == "rack" for entry in entries], dtype=np.bool_),
        limit=np.array([e.at_most or e.at_least or 1 for e in entries], dtype=np.int32),
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        members=np.array([t for tasks_of_set in members for t in tasks_of_set], dtype=np.int32),
        by_operator=np.array(
            [
                NO_INDEX if e.operator is None else operators.index.get(e.operator, NO_INDEX)
                for e in entries
            ],
            dtype=np.int32,
        ),
        entry=np.arange(len(entries), dtype=np.int32),
    )
    over_slots = np.array([entry.over == "slot" for entry in entries], dtype=np.bool_)
    return table.only(np.flatnonzero(~over_slots)), table.only(np.flatnonzero(over_slots))


def _members(
    entry: SetDocument,
    path: str,
    operators: OperatorTable,
    index: dict[str, int],
    problems: list[Problem],
) -> list[int]:
    if (entry.operator is None) == (not entry.tasks):
        reason = "has no members" if entry.operator is None else "has both tasks and operator"
        problems.append(Problem(path, entry.id, reason, "give tasks, or operator"))
        return []
    if entry.operator is not None:
        at = operators.index.get(entry.operator)
        if at is None:
            reason = "is not the id of an operator"
            problems.append(Problem(f"{path}.operator", entry.operator, reason))
            return []
        found = operators.task_indices[operators.task_indptr[at] : operators.task_indptr[at + 1]]
        return sorted(found.tolist())
    places = []
    for j, name in enumerate(entry.tasks):
        task = index.get(name)
        if task is None:
            problems.append(Problem(f"{path}.tasks[{j}]", name, "is not the id of a task"))
        elif name in entry.tasks[:j]:
            problems.append(Problem(f"{path}.tasks[{j}]", name, "stands twice", "keep one"))
        else:
            places.append(task)
    return sorted(places)


def _misused(entry: SetDocument, path: str, nodes: NodeTable) -> list[Problem]:
    rule = SET_RULES.index(entry.rule)
    found = []
    if entry.at_most is not None and rule != APART:
        reason = f"is of no use to {entry.rule}"
        found.append(Problem(f"{path}.at_most", entry.at_most, reason, "only apart takes it"))
    if entry.at_least is not None and rule != SPREAD:
        reason = f"is of no use to {entry.rule}"
        found.append(Problem(f"{path}.at_least", entry.at_least, reason, "only spread takes it"))
    if entry.at_least is None and rule == SPREAD:
        reason = "is missing: over how many places to spread"
        found.append(Problem(f"{path}.at_least", None, reason, "give a whole number from 1"))
    without = np.flatnonzero(nodes.rack < 0)
    if entry.over == "rack" and len(without):
        reason = f"needs nodes[].rack; {nodes.ids[without[0]]} has none"
        found.append(Problem(f"{path}.over", "rack", reason, "give every node its rack"))
    return found
