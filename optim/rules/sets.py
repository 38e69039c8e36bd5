"""Where tasks may be: ``sets`` that are apart, together or spread; ``allowed``; ``leaving``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.measures import entered_leaving, slot_places
from optim.format.tables import APART, SPREAD, TOGETHER
from optim.rules.base import Form, Limit, Rows, Rule, Violation, labelled, violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints, SetTable
    from optim.rules.placement import Placement


def places_of(instance: Instance, i: int) -> Ints:
    """(N,) number of the place that each node is, or is in, for a set."""
    if instance.sets.by_rack[i]:
        return instance.nodes.rack
    return np.arange(instance.num_nodes, dtype=np.int32)


def _dropped(instance: Instance) -> Instance:
    return replace(instance, sets=instance.sets.only(np.zeros(0, dtype=np.int64)))


def crowds(
    owner: NDArray[Any], place: NDArray[Any], num_sets: int, num_places: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(S,) most members of each set on one place, and (S,) places that it uses.

    `owner`, `place`: (M,) set of each member, and the place that it is on.
    """
    # (set, place) as one number
    keys, counts = np.unique(owner.astype(np.int64) * num_places + place, return_counts=True)
    most, of = np.zeros(num_sets, dtype=np.int64), keys // max(1, num_places)
    np.maximum.at(most, of, counts)
    return most, np.bincount(of, minlength=num_sets).astype(np.int64)


def are_broken(
    rule: NDArray[Any], limit: NDArray[Any], most: NDArray[np.int64], used: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """(S,) whether a set is broken, by what `crowds` counts."""
    spread = np.where(rule == TOGETHER, used > 1, used < limit)
    return np.where(rule == APART, most > limit, spread)


def _counts(placement: Placement) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(S,) most members of each set on one place, and (S,) places that it uses."""
    instance, table = placement.instance, placement.instance.sets
    owner = np.repeat(np.arange(len(table.ids)), np.diff(table.indptr))
    node = placement.node[table.members]
    owner, node = owner[node >= 0], node[node >= 0]
    place = np.where(table.by_rack[owner], instance.nodes.rack[node], node)
    size = max(instance.num_nodes, len(instance.nodes.rack_ids))
    return crowds(owner, place, len(table.ids), size)


def _broken_sets(placement: Placement) -> list[int]:
    table = placement.instance.sets
    return np.flatnonzero(are_broken(table.rule, table.limit, *_counts(placement))).tolist()


def _violations(placement: Placement) -> Iterator[Violation]:
    instance, table = placement.instance, placement.instance.sets
    for i in _broken_sets(placement) if table.ids else ():
        node = placement.node[table.tasks_of(i)]
        at = places_of(instance, i)[node[node >= 0]]
        named, kind = [f"on {name}" for name in instance.nodes.ids], "nodes"
        if table.by_rack[i]:
            named, kind = [f"on rack {name}" for name in instance.nodes.rack_ids], "racks"
        yield from _of_set("sets", table, i, at, kind, named.__getitem__)


def _of_set(
    rule: str, table: SetTable, i: int, at: Ints, kind: str, place_name: Callable[[int], str]
) -> Iterator[Violation]:
    """What a set breaks whose members stand at some places of a kind."""
    name, limit = table.ids[i], table.limit[i]
    places, counts = np.unique(at, return_counts=True)
    if table.rule[i] == APART:
        for place, count in zip(places[counts > limit], counts[counts > limit], strict=True):
            yield violation(rule, f"{name} {place_name(place)}", count, limit)
    elif table.rule[i] == TOGETHER:
        if len(places) > 1:
            yield violation(rule, f"{name} together: {kind}", len(places), 1)
    elif len(places) < limit:
        yield violation(rule, f"{name} spread: {kind}", limit, len(places))


def _value(placement: Placement) -> NDArray[np.int64]:
    (most, used), rule = _counts(placement), placement.instance.sets.rule
    return np.where(rule == APART, most, np.where(rule == TOGETHER, used, -used))


def _limit(instance: Instance) -> NDArray[np.int64]:
    table = instance.sets
    either = np.where(table.rule == TOGETHER, 1, -table.limit)
    return np.where(table.rule == APART, table.limit, either)


def _loosened(
    instance: Instance, mask: NDArray[np.bool_], value: Any, placement: Placement | None
) -> Instance:
    places = partial(places_of, instance)
    return replace(instance, sets=_loosened_sets(instance.sets, mask, value, placement, places))


def _loosened_sets(
    table: SetTable,
    mask: NDArray[np.bool_],
    value: Any,
    placement: Placement | None,
    place: Callable[[int], Ints],
) -> SetTable:
    """Give sets that are apart or spread other limits; drop or split those to be together.

    With a placement whoever is in one `place` of a set, (N,) of each node, stays together.
    """
    limit = np.where(mask & (table.rule != TOGETHER), np.abs(value), table.limit)
    table = replace(table, limit=limit.astype(table.limit.dtype))
    rows: list[int] = []
    members: list[Ints] = []
    for i, loose in enumerate((mask & (table.rule == TOGETHER)).tolist()):
        parts = [table.tasks_of(i)]
        if loose:
            parts = []
            if placement is not None:
                # -1, nowhere, is a place apart from all nodes
                at = np.append(place(i), -1)[placement.node[table.tasks_of(i)]]
                parts = [table.tasks_of(i)[at == where] for where in np.unique(at).tolist()]
                parts = [part for part in parts if len(part) > 1]
        rows += [i] * len(parts)
        members += parts
    return table.only(np.array(rows, dtype=np.int64), members)


def _proofs(instance: Instance) -> Iterator[Violation]:
    """A set of more tasks than all places may hold, or to be spread over more than there are."""
    table = instance.sets
    racks, nodes = len(np.unique(instance.nodes.rack)), instance.num_nodes
    columns = (table.ids, np.diff(table.indptr), table.by_rack, table.rule, table.limit)
    for name, size, by_rack, rule, limit in zip(*(list(c) for c in columns), strict=True):
        count = racks if by_rack else nodes
        if rule == APART and size > count * limit:
            yield violation("sets", f"{name} apart: all places", size, count * limit)
        elif rule not in (APART, TOGETHER) and limit > min(size, count):
            yield violation("sets", f"{name} spread: places", limit, min(size, count))


def _limits_of(name: str, rise: Callable[[Instance, Instance], Any]) -> tuple[Limit, ...]:
    """Return the limits of the sets of a table: one that has none is given up."""

    def value(instance: Instance) -> Ints:
        table: SetTable = getattr(instance, name)
        return table.limit

    def written(instance: Instance, values: Ints) -> Instance:
        table = getattr(instance, name)
        table = replace(table, limit=np.asarray(values, table.limit.dtype))
        return replace(instance, **{name: table.only(np.flatnonzero(values >= 0))})

    return (
        Limit(
            name,
            name,
            value,
            lambda instance: np.ones(len(getattr(instance, name).ids), np.bool_),
            written,
            unset=-1,
            least=lambda instance: getattr(instance, name).rule == SPREAD,
            lowest=1,
            whole=True,
            rise=rise,
        ),
    )


def _rise(instance: Instance, loose: Instance) -> Floats:
    """What limits of sets are raised by: of those that are gone, by all tasks."""
    row_of = {name: k for k, name in reversed(list(enumerate(loose.sets.ids)))}
    at = np.array([row_of.get(name, -1) for name in instance.sets.ids], np.int64)
    if not len(loose.sets.ids):
        return np.full(len(at), float(instance.num_tasks))
    higher = np.abs(loose.sets.limit[at] - instance.sets.limit)
    return np.where(at < 0, instance.num_tasks, higher).astype(np.float64)


def alike_in(table: SetTable, num_tasks: int) -> NDArray[np.int64]:
    """(T,) numbers in which tasks of the same sets are alike."""
    of: list[list[int]] = [[] for _ in range(num_tasks)]
    for i in range(len(table.ids)):
        for task in table.tasks_of(i).tolist():
            of[task].append(i)
    return labelled(map(tuple, of))


SETS = Rule(
    name="sets",
    field="sets",
    form=Form.SETS,
    present=lambda instance: f"sets (of {instance.sets.ids[0]})" if instance.sets.ids else None,
    dropped=_dropped,
    violations=_violations,
    proofs=_proofs,
    repairable=True,
    task_key=lambda instance: alike_in(instance.sets, instance.num_tasks),
    node_key=lambda instance: instance.nodes.rack if instance.sets.by_rack.any() else None,
    rows=(Rows(_value, _limit, _loosened, whole=True),),
    limits=_limits_of("sets", _rise),
)


# ``sets`` over slots: tasks that are to be apart, together or spread, as Storm asks of workers.
#
# They bind whether or not a plan decides slots: where it does not, some assignment of each node's
# tasks to its slots has to keep them with all other rules of slots (`optim.rules.slot_assignment`).


def _slot_sets_present(instance: Instance) -> str | None:
    table = instance.slot_sets
    return f'sets over "slot" (of {table.ids[0]})' if table.ids else None


def without_slot_sets(instance: Instance) -> Instance:
    return replace(instance, slot_sets=instance.slot_sets.only(np.zeros(0, dtype=np.int64)))


def _slot_sets_violations(placement: Placement) -> Iterator[Violation]:
    if not placement.instance.slot_sets.ids:
        return
    if placement.slot is not None:
        yield from _in_slots(placement.instance, placement.node, placement.slot)
    elif placement.slot_assignment.slot is None:
        yield from (v for v in placement.slot_assignment.shortage if v.rule == "slot_sets")


def _in_slots(instance: Instance, node: Ints, slot: Ints) -> Iterator[Violation]:
    table, place = instance.slot_sets, slot_places(node, slot)
    width, ids = int(slot.max(initial=0)) + 1, instance.nodes.ids
    for i in range(len(table.ids)):
        at = place[table.tasks_of(i)]
        yield from _of_set(
            "slot_sets", table, i, at[at >= 0], "slots",
            lambda p: f"apart: {ids[p // width]}#{p % width}",
        )  # fmt: skip


def _slot_sets_value(placement: Placement) -> Floats:
    """(S,) what each set has in the best of all slot assignments by itself, of nodes alone."""
    instance, table = placement.instance, placement.instance.slot_sets
    values = np.zeros(len(table.ids))
    slots = np.where(instance.nodes.slots < 0, np.inf, np.maximum(instance.nodes.slots, 1))
    for i, rule in enumerate(table.rule.tolist()):
        node = placement.node[table.tasks_of(i)]
        nodes, counts = np.unique(node[node >= 0], return_counts=True)
        if rule == APART:
            # members spread over the slots of their node: the fullest slot has ⌈members / slots⌉
            values[i] = np.ceil(counts / slots[nodes]).max(initial=0)
        elif rule == TOGETHER:
            values[i] = len(nodes)
        else:
            # a node fills no more slots than it has, or than members stand there
            values[i] = -np.minimum(counts, slots[nodes]).sum()
    return values


def _slot_sets_limit(instance: Instance) -> NDArray[np.int64]:
    table = instance.slot_sets
    return np.where(table.rule == SPREAD, -table.limit, table.limit)


def _slot_sets_loosened(
    instance: Instance, mask: Bools, value: Any, placement: Placement | None
) -> Instance:
    nodes = np.arange(instance.num_nodes, dtype=np.int32)
    some = _loosened_sets(instance.slot_sets, mask, value, placement, lambda _: nodes)
    return replace(instance, slot_sets=some)


def _clash(placement: Placement) -> Floats:
    """(1,) whether sets cannot be assigned with all else, though each could by itself."""
    return np.array([float(any(True for _ in _slot_sets_violations(placement)))])


def _given_up(instance: Instance, mask: Bools, value: Any, placement: Placement | None) -> Instance:
    return without_slot_sets(instance)


def _slot_sets_proofs(instance: Instance) -> Iterator[Violation]:
    """A set of more tasks than slots may hold, to be spread over more, or of two topologies."""
    table, most = instance.slot_sets, instance.limits.max_tasks_per_slot
    slots = instance.nodes.slots
    number = np.inf if (slots < 0).any() else float(slots.sum())
    for i, name in enumerate(table.ids):
        tasks, rule, limit = table.tasks_of(i), table.rule[i], int(table.limit[i])
        kinds = np.unique(instance.task_topology[tasks])
        kinds = kinds[kinds >= 0]
        if rule == APART and len(tasks) > number * limit:
            yield violation("slot_sets", f"{name} apart: all slots", len(tasks), number * limit)
        elif rule == TOGETHER and len(kinds) > 1:
            yield violation("slot_sets", f"{name} together: topologies", len(kinds), 1)
        elif rule == TOGETHER and most is not None and len(tasks) > most:
            yield violation("slot_sets", f"{name} together: tasks in a slot", len(tasks), most)
        elif rule == SPREAD and limit > min(len(tasks), number):
            available = min(len(tasks), number)
            yield violation("slot_sets", f"{name} spread: slots", limit, available)


SLOT_SETS = Rule(
    name="slot_sets",
    field='sets[].over = "slot"',
    form=Form.SLOT_SETS,
    present=_slot_sets_present,
    dropped=without_slot_sets,
    violations=_slot_sets_violations,
    proofs=_slot_sets_proofs,
    task_key=lambda instance: alike_in(instance.slot_sets, instance.num_tasks),
    rows=(
        Rows(_slot_sets_value, _slot_sets_limit, _slot_sets_loosened, whole=True),
        Rows(_clash, lambda instance: np.zeros(1), _given_up, whole=True),
    ),
    limits=_limits_of("slot_sets", lambda instance, _: np.zeros(len(instance.slot_sets.ids))),
)


# ``allowed``: a task with a list of allowed nodes is on one of these.


def _allowed_present(instance: Instance) -> str | None:
    restricted = instance.tasks.restricted
    return f"tasks[].allowed (of {instance.tasks.ids[restricted[0]]})" if len(restricted) else None


def _allowed_dropped(instance: Instance) -> Instance:
    everywhere = (None,) * len(instance.operators.ids)
    return instance.with_allowed((), ()).with_values("operators", group_allowed=everywhere)


def _allowed_violations(placement: Placement) -> Iterator[Violation]:
    instance, node = placement.instance, placement.node
    table = instance.tasks
    at = node[table.restricted]
    there = table.allowed_indices == np.repeat(at, np.diff(table.allowed_indptr))
    for t in table.restricted[~table.any_allowed(there) & (at >= 0)]:
        where = f"{table.ids[t]} on {instance.nodes.ids[node[t]]}"
        yield Violation("allowed", where, 1.0, 1.0, 0.0)


ALLOWED = Rule(
    name="allowed",
    field="tasks[].allowed",
    form=Form.MASK,
    present=_allowed_present,
    dropped=_allowed_dropped,
    violations=_allowed_violations,
    repairable=True,
)


# ``leaving``: nothing comes onto a leaving node but from another, or what may only go there.


def _leaving_present(instance: Instance) -> str | None:
    leaving = np.flatnonzero(instance.nodes.leaving)
    if not len(leaving) or instance.limits.into_leaving:
        return None
    return f"nodes[].leaving (of {instance.nodes.ids[leaving[0]]})"


def _leaving_violations(placement: Placement) -> Iterator[Violation]:
    instance, node = placement.instance, placement.node
    for t in np.flatnonzero(entered_leaving(instance, node)):
        where = f"{instance.tasks.ids[t]} on {instance.nodes.ids[node[t]]}"
        yield Violation("leaving", where, 1.0, 1.0, 0.0)


LEAVING = Rule(
    name="leaving",
    field="nodes[].leaving",
    form=Form.LEAVING,
    present=_leaving_present,
    dropped=lambda instance: instance.with_values("limits", into_leaving=True),
    violations=_leaving_violations,
    repairable=True,
)
