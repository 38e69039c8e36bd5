"""``sets`` over slots: tasks that are to be apart, together or spread, as Storm asks of workers.

They bind whether or not a plan decides slots: where it does not, some assignment of each node's
tasks to its slots has to keep them with all other rules of slots (`optim.rules.slot_assignment`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.measures import slot_places
from optim.format.tables import APART, SPREAD, TOGETHER
from optim.rules.base import Form, Rows, Rule, violation
from optim.rules.sets import alike_in, loosened_sets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation


def _present(instance: Instance) -> str | None:
    table = instance.slot_sets
    return f'sets over "slot" (of {table.ids[0]})' if table.ids else None


def without_slot_sets(instance: Instance) -> Instance:
    return replace(instance, slot_sets=instance.slot_sets.only(np.zeros(0, dtype=np.int64)))


def _violations(placement: Placement) -> Iterator[Violation]:
    if not placement.instance.slot_sets.ids:
        return
    if placement.slot is not None:
        yield from _in_slots(placement.instance, placement.node, placement.slot)
    elif placement.slot_assignment.slot is None:
        yield from (v for v in placement.slot_assignment.shortage if v.rule == "slot_sets")


def _in_slots(instance: Instance, node: Ints, slot: Ints) -> Iterator[Violation]:
    table, place = instance.slot_sets, slot_places(node, slot)
    width = int(slot.max(initial=0)) + 1
    for i, name in enumerate(table.ids):
        at = place[table.tasks_of(i)]
        places, counts = np.unique(at[at >= 0], return_counts=True)
        rule, limit = table.rule[i], table.limit[i]
        if rule == APART:
            for p, count in zip(places[counts > limit], counts[counts > limit], strict=True):
                where = f"{name} apart: {instance.nodes.ids[p // width]}#{p % width}"
                yield violation("slot_sets", where, count, limit)
        elif rule == TOGETHER:
            if len(places) > 1:
                yield violation("slot_sets", f"{name} together: slots", len(places), 1)
        elif len(places) < limit:
            yield violation("slot_sets", f"{name} spread: slots", limit, len(places))


def _value(placement: Placement) -> Floats:
    """(S,) what each set has in the best of all slot assignments by itself, of nodes alone."""
    instance, table = placement.instance, placement.instance.slot_sets
    found = np.zeros(len(table.ids))
    slots = np.where(instance.nodes.slots < 0, np.inf, np.maximum(instance.nodes.slots, 1))
    for i, rule in enumerate(table.rule.tolist()):
        node = placement.node[table.tasks_of(i)]
        nodes, counts = np.unique(node[node >= 0], return_counts=True)
        if rule == APART:
            found[i] = np.ceil(counts / slots[nodes]).max(initial=0)
        elif rule == TOGETHER:
            found[i] = len(nodes)
        else:
            found[i] = -np.minimum(counts, slots[nodes]).sum()
    return found


def _limit(instance: Instance) -> NDArray[np.int64]:
    table = instance.slot_sets
    return np.where(table.rule == SPREAD, -table.limit, table.limit)


def _loosened(instance: Instance, mask: Bools, value: Any, placement: Placement | None) -> Instance:
    at = None if placement is None else placement.node
    places = None if at is None else (lambda _, tasks: at[tasks])
    return replace(instance, slot_sets=loosened_sets(instance.slot_sets, mask, value, places))


def _clash(placement: Placement) -> Floats:
    """(1,) whether sets cannot be assigned with all else, though each could by itself."""
    return np.array([float(any(True for _ in _violations(placement)))])


def _given_up(instance: Instance, mask: Bools, value: Any, placement: Placement | None) -> Instance:
    return without_slot_sets(instance)


def _proofs(instance: Instance) -> Iterator[Violation]:
    """A set of more tasks than slots may hold, to be spread over more, or of two topologies."""
    table, most = instance.slot_sets, instance.limits.max_tasks_per_slot
    slots = instance.nodes.slots
    number = np.inf if (slots < 0).any() else float(slots.sum())
    for i, name in enumerate(table.ids):
        tasks, rule, limit = table.tasks_of(i), table.rule[i], int(table.limit[i])
        operator = instance.tasks.operator[tasks]
        kinds = np.unique(instance.operators.topology[operator[operator >= 0]])
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
    present=_present,
    dropped=without_slot_sets,
    violations=_violations,
    proofs=_proofs,
    task_key=lambda instance: alike_in(instance.slot_sets, instance.num_tasks),
    rows=(
        Rows(_value, _limit, _loosened, whole=True),
        Rows(_clash, lambda instance: np.zeros(1), _given_up, whole=True),
    ),
)
