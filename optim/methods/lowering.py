"""Rules of one form written as another that every engine knows: counts of tasks as capacities.

``max_tasks``, sets that are to be apart on nodes, and slots that only count tasks say that at most
so many of some tasks are on a node. That is a capacity of a resource of which these tasks need one
each. ``max_load_distance`` says how much and how little of the first resource may be on a node, as
its mean is the same in every plan: a capacity and a lower bound. Written so, the rule holds in
every engine that keeps capacities, and tasks that it makes unequal are told apart by their loads.
The referee judges by the file's own rules.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.format.tables import APART, TOGETHER
from optim.rules import MAX_LOAD_DISTANCE, MAX_TASKS, MAX_TASKS_PER_SLOT, SETS, SLOTS
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats

MAX_COLUMNS = 32
"""Sets that become columns at most; more would make every engine slow."""


def lowered(instance: Instance, honours: frozenset[str]) -> Instance:
    """Return an equal problem without the rules that a method does not know and capacities say.

    Parameters
    ----------
    instance
        Returned itself where nothing is written anew.
    honours
        The rules that the method knows: they stay as they are.
    """
    columns, changed = [], instance
    if "max_tasks" not in honours and MAX_TASKS.present(instance) is not None:
        columns.append(_tasks_column(instance))
        changed = MAX_TASKS.dropped(changed)
    if not honours.intersection({"slots", "max_tasks_per_slot"}) and slots_count_tasks(instance):
        columns += _slots_column(instance)
        changed = MAX_TASKS_PER_SLOT.dropped(SLOTS.dropped(changed))
    if "sets" not in honours and SETS.present(instance) is not None:
        columns += _set_columns(instance, _as_columns(instance))
        changed = _without_sets(changed, _as_columns(instance))
    if columns:
        names, loads, rooms = zip(*columns, strict=True)
        changed = with_columns(changed, names, np.stack(loads, axis=1), np.stack(rooms, axis=1))
    distance = MAX_LOAD_DISTANCE.present(instance) is not None and instance.mean_load is not None
    distance = distance and not instance.crossing_cost[:, 0].any()  # the mean would not be fixed
    if distance and "max_load_distance" not in honours and "min_load" in honours:
        changed = _with_distance(MAX_LOAD_DISTANCE.dropped(changed), instance)
    return changed


def kept_lowered(honours: frozenset[str]) -> dict[str, str]:
    """Return the limits that a method keeps though it does not know them, each with when.

    Parameters
    ----------
    honours
        The rules that the method knows.
    """
    if "capacity" not in honours:
        return {}
    found = {"max_tasks": "", "sets": "that are apart on nodes"}
    found |= dict.fromkeys(("slots", "max_tasks_per_slot"), "that only count tasks")
    if "min_load" in honours:
        found["max_load_distance"] = "without crossing costs"
    if honours.intersection({"slots", "max_tasks_per_slot"}):
        honours |= {"slots", "max_tasks_per_slot"}
    return {name: when for name, when in found.items() if name not in honours}


def _tasks_column(instance: Instance) -> tuple[str, Floats, Floats]:
    most = instance.nodes.max_tasks
    return "max_tasks", np.ones(instance.num_tasks), np.where(most >= 0, most, np.inf)


def _with_distance(changed: Instance, instance: Instance) -> Instance:
    """Bound each node's load from both sides, leaving nodes from above only.

    The rule allows due ≤ (load + limit) · (1 + 10⁻⁹), a least load least ≤ load · (1 + 10⁻⁹): they
    are one for least = due − limit · (1 + 10⁻⁹).
    """
    nodes, limit, due = instance.nodes, instance.limits.max_load_distance, instance.due
    assert limit is not None
    most = due + limit
    least = np.where(instance.open_nodes, np.maximum(due - limit - slack(limit), 0.0), 0.0)
    load = instance.tasks.load[:, :1]
    made = with_columns(changed, ("load distance",), load, most[:, None])
    background = np.array(made.nodes.background)
    background[:, -1] = nodes.background[:, 0]
    floor = np.array(made.nodes.min_load)
    floor[:, -1] = least
    return replace(made, nodes=replace(made.nodes, background=background, min_load=floor))


def slots_count_tasks(instance: Instance) -> bool:
    """Whether slots only bound the number of tasks: no capacity or worker of theirs is set."""
    nodes, topologies = instance.nodes, instance.topologies
    if SLOTS.present(instance) is None and MAX_TASKS_PER_SLOT.present(instance) is None:
        return False
    plain = not np.isfinite(nodes.slot_capacity).any() and not (topologies.workers >= 0).any()
    lent = nodes.slots[nodes.slots > 0]  # where each topology has a slot, none is in another's way
    enough = len(_topologies_used(instance)) <= (lent.min() if len(lent) else np.inf)
    whole = instance.limits.max_tasks_per_slot is None
    return plain and (len(_topologies_used(instance)) <= 1 or (whole and bool(enough)))


def _topologies_used(instance: Instance) -> set[int]:
    operator = instance.tasks.operator
    return set(instance.operators.topology[operator[operator >= 0]].tolist()) - {-1}


def _slots_column(instance: Instance) -> Iterator[tuple[str, Floats, Floats]]:
    most, slots = instance.limits.max_tasks_per_slot, instance.nodes.slots
    each = np.inf if most is None else float(most)
    room = np.where(slots > 0, np.maximum(slots, 1) * each, np.where(slots == 0, 0.0, np.inf))
    if np.isfinite(room).any():
        yield "slots", np.ones(instance.num_tasks), room


def _as_columns(instance: Instance) -> Bools:
    """(S,) sets that become columns: apart on nodes, or of one task, which is always together."""
    table = instance.sets
    size = np.diff(table.indptr)
    apart = (table.rule == APART) & ~table.by_rack
    if (apart & (size > table.limit)).sum() > MAX_COLUMNS:
        apart = apart & (size <= table.limit)
    return np.asarray(apart | ((table.rule == TOGETHER) & (size <= 1)))


def with_set_columns(instance: Instance, some: Bools) -> Instance:
    """Write (S,) sets that are to be apart on nodes as capacities of resources."""
    columns = list(_set_columns(instance, some))
    if not columns:
        return instance
    names, loads, rooms = zip(*columns, strict=True)
    changed = _without_sets(instance, some)
    return with_columns(changed, names, np.stack(loads, axis=1), np.stack(rooms, axis=1))


def _set_columns(instance: Instance, some: Bools) -> Iterator[tuple[str, Floats, Floats]]:
    table = instance.sets
    binding = some & (np.diff(table.indptr) > table.limit)
    for i in np.flatnonzero(binding).tolist():
        load = np.zeros(instance.num_tasks)
        load[table.tasks_of(i)] = 1.0
        yield f"set {table.ids[i]}", load, np.full(instance.num_nodes, float(table.limit[i]))


def _without_sets(instance: Instance, gone: Bools) -> Instance:
    if not gone.any():
        return instance
    table = instance.sets
    if gone.all():
        return SETS.dropped(instance)
    return replace(instance, sets=table.only(np.flatnonzero(~gone)))


def _unlimited(max_load: Floats, more: int) -> Floats:
    """Add resources of which a task can use any amount."""
    return np.hstack([max_load, np.full((len(max_load), more), np.inf)])


def with_columns(
    instance: Instance, names: tuple[str, ...], load: Floats, room: Floats
) -> Instance:
    """Add resources: what tasks need of them, and what nodes have."""
    nodes, tasks, operators = instance.nodes, instance.tasks, instance.operators
    more = len(names)
    on_nodes, on_operators = (instance.num_nodes, more), (instance.num_operators, more)
    return replace(
        instance,
        resources=(*instance.resources, *names),
        nodes=replace(
            nodes,
            capacity=np.hstack([nodes.capacity, room]),
            min_load=np.hstack([nodes.min_load, np.zeros(on_nodes)]),
            background=np.hstack([nodes.background, np.zeros(on_nodes)]),
            slot_capacity=np.hstack([nodes.slot_capacity, np.full(on_nodes, np.inf)]),
        ),
        tasks=replace(
            tasks,
            load=np.hstack([tasks.load, load]),
            max_load=_unlimited(tasks.max_load, more) if tasks.limited else np.full((1, 1), np.inf),
        ),
        operators=replace(
            operators,
            group_load=np.hstack([operators.group_load, np.zeros(on_operators)]),
            group_load_given=np.hstack(
                [operators.group_load_given, np.zeros(on_operators, dtype=np.bool_)]
            ),
            max_load=_unlimited(operators.max_load, more),
            group_max_load=_unlimited(operators.group_max_load, more),
        ),
        crossing_cost=np.hstack([instance.crossing_cost, np.zeros((2, more))]),
        limits=replace(
            instance.limits,
            max_utilisation=np.concatenate([instance.limits.max_utilisation, np.ones(more)]),
        ),
    )
