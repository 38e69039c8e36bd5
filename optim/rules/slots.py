"""``slots``: every task in a slot that exists, has room and serves one topology.

They bind whether or not a plan decides them: where it does not, each node's tasks must fit its
slots in some slot assignment (`optim.rules.slot_assignment`). Further on ``max_tasks_per_slot`` and
``max_workers_restarted``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.measures import over, slot_places, unknown_slots, workers_restarted
from optim.rules.base import (
    Form,
    Rule,
    Violation,
    all_over,
    always,
    column_limit,
    limit_rows,
    number_limit,
    number_rule,
    occupied_node_key,
    undecided,
    violation,
)
from optim.rules.budget import forced_moves
from optim.rules.sets import without_slot_sets
from optim.rules.slot_assignment import assign_slots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.rules.placement import Placement


def _present(instance: Instance) -> str | None:
    nodes, topologies = instance.nodes, instance.topologies
    if not instance.num_tasks:
        return None  # the machines of a plan that makes its own threads
    for field, is_set in (
        ("slots", nodes.slots >= 0),
        ("slot_capacity", np.isfinite(nodes.slot_capacity).any(axis=1)),
    ):
        if is_set.any():
            return f"nodes[].{field} (of {nodes.ids[int(np.flatnonzero(is_set)[0])]})"
    counted = np.flatnonzero(topologies.workers >= 0)
    return f"topologies[].workers (of {topologies.ids[counted[0]]})" if len(counted) else None


_FREE = all_over("nodes", slots=-1, slot_capacity=np.inf)
_WITHOUT_WORKERS = all_over("topologies", workers=-1)


def _violations(placement: Placement) -> Iterator[Violation]:
    instance, slot = placement.instance, placement.slot
    if slot is not None:
        yield from _in_slots(instance, placement.node, slot)
        yield from _topologies(instance, placement.node, slot)
    elif _needs_slots(instance) and placement.slot_assignment.slot is None:
        slot_rules = {"slots", "max_tasks_per_slot", *SLOTS.other_violations}
        yield from (v for v in placement.slot_assignment.shortage if v.rule in slot_rules)


def _needs_slots(instance: Instance) -> bool:
    """Whether a plan of nodes has to be assigned to slots."""
    most = instance.limits.max_tasks_per_slot
    return most is not None or bool(instance.slot_sets.ids) or _present(instance) is not None


def _in_slots(instance: Instance, node: Ints, slot: Ints) -> Iterator[Violation]:
    """Slot numbers exist, and each slot keeps its capacity."""
    nodes, ids = instance.nodes, instance.nodes.ids
    for t in np.flatnonzero((slot < 0) & (node >= 0)):
        yield Violation("slots", instance.tasks.ids[t], 1.0, 1.0, 0.0)
    placed = np.flatnonzero((slot >= 0) & (node >= 0))
    beyond = placed[(nodes.slots[node[placed]] >= 0) & (slot[placed] >= nodes.slots[node[placed]])]
    for t in beyond:
        where = f"{instance.tasks.ids[t]} on {ids[node[t]]}#{slot[t]}"
        yield violation("slots", where, slot[t] + 1, nodes.slots[node[t]])
    used, index = np.unique(slot_places(node, slot)[placed], return_inverse=True)
    width = int(slot.max(initial=0)) + 1
    at = used // width
    labels = [f"{ids[n]}#{s}" for n, s in zip(at, used % width, strict=True)]
    for r, resource in enumerate(instance.resources):
        load = np.bincount(index, instance.tasks.load[placed, r], minlength=len(used))
        capacity = nodes.slot_capacity[at, r]
        for k in np.flatnonzero(undecided(load, capacity, len(placed))):
            load[k] = math.fsum(instance.tasks.load[placed[index == k], r])
        for k in np.flatnonzero(over(load, capacity)):
            yield violation("slot_capacity", f"{labels[k]}.{resource}", load[k], capacity[k])
    limit = instance.limits.max_tasks_per_slot
    if limit is not None:
        counts = np.bincount(index, minlength=len(used))
        for k in np.flatnonzero(counts > limit):
            yield violation("max_tasks_per_slot", labels[k], counts[k], limit)


def _topologies(instance: Instance, node: Ints, slot: Ints) -> Iterator[Violation]:
    """A slot serves one topology; a topology of W workers and E tasks fills min(W, E) slots.

    Source: Aniello et al. 2013, section 3.2.2, constraint (2).
    """
    if not instance.topologies.ids:
        return
    topology = instance.task_topology
    place = slot_places(node, slot)
    has_both = (place >= 0) & (topology >= 0)
    pairs = np.unique(np.stack([place[has_both], topology[has_both]]), axis=1)
    width = int(slot.max(initial=0)) + 1
    shared, counts = np.unique(pairs[0], return_counts=True)
    for p, count in zip(shared[counts > 1], counts[counts > 1], strict=True):
        where = f"{instance.nodes.ids[p // width]}#{p % width}"
        yield violation("one_topology_a_slot", where, count, 1)
    for i, workers in enumerate(instance.topologies.workers):
        executors = int((topology == i).sum())
        if workers < 0 or executors == 0:
            continue
        used, wanted = int((pairs[1] == i).sum()), min(int(workers), executors)
        if used != wanted:
            yield violation("workers", instance.topologies.ids[i], used, wanted)


def _fill(placement: Placement) -> Floats:
    """(N, R) what slots of a node would have to hold at least: its largest task, or their share."""
    instance, node = placement.instance, placement.node
    slots = instance.nodes.slots
    largest = np.zeros_like(instance.nodes.slot_capacity)
    placed = np.flatnonzero(node >= 0)
    np.maximum.at(largest, node[placed], instance.tasks.load[placed])
    share = placement.brought / np.maximum(slots, 1)[:, None]
    return np.where(slots[:, None] > 0, np.maximum(largest, share), largest)


def _needed(placement: Placement) -> Floats:
    """(N,) slots that each node's tasks take at least; 0 where those that there are suffice."""
    instance = without_slot_sets(_WITHOUT_WORKERS(placement.instance))
    node, needed = placement.node, np.zeros(instance.num_nodes)
    if _present(instance) is None and instance.limits.max_tasks_per_slot is None:
        return needed
    if placement.slot_assignment.slot is not None:
        return needed
    for n in np.flatnonzero((instance.nodes.slots >= 0) & (placement.counts > 0)).tolist():
        there = np.where(node == n, n, -1).astype(node.dtype)
        for slots in range(int(instance.nodes.slots[n]), int(placement.counts[n]) + 1):
            if slots and assign_slots(_with_slots(instance, n, slots), there).slot is not None:
                needed[n] = slots
                break
    return needed


def _with_slots(instance: Instance, n: Any, slots: Any) -> Instance:
    number = np.array(instance.nodes.slots)
    number[n] = slots
    return instance.with_values("nodes", slots=number)


_NUMBER = column_limit("nodes", "slots", lambda of: of.slots >= 0, -1, whole=True)
_SIZE = column_limit(
    "nodes", "slot_capacity", lambda of: np.isfinite(of.slot_capacity), np.inf, unit="load"
)
_WORKERS = column_limit(
    "topologies", "workers", lambda of: of.workers >= 0, -1, least=always, lowest=1, whole=True
)
SLOTS = Rule(
    name="slots",
    field="nodes[].slots",
    form=Form.SLOTS,
    present=_present,
    dropped=lambda instance: _WITHOUT_WORKERS(_FREE(instance)),
    violations=_violations,
    other_violations=("slot_capacity", "one_topology_a_slot", "workers"),
    task_key=lambda instance: instance.task_topology,
    node_key=lambda instance: np.column_stack([instance.nodes.slots, instance.nodes.slot_capacity]),
    rows=(limit_rows(_SIZE, _fill), limit_rows(_NUMBER, _needed)),
    limits=(_NUMBER, _SIZE, _WORKERS),
)


# ``max_tasks_per_slot``: a slot holds at most so many tasks (judged with the slots).


def _proofs(instance: Instance) -> Iterator[Violation]:
    """More tasks than all slots may hold."""
    limit = instance.limits.max_tasks_per_slot
    if limit is None or (instance.nodes.slots < 0).any():
        return
    room = float(instance.nodes.slots.sum()) * limit
    if np.isfinite(room) and instance.num_tasks > room:
        yield violation("max_tasks_per_slot", "all slots", instance.num_tasks, room)


MAX_TASKS_PER_SLOT = number_rule(
    number_limit("max_tasks_per_slot", whole=True),
    Form.SLOT_COUNT,
    proofs=_proofs,
    node_key=lambda instance: instance.nodes.slots,
)


# ``max_workers_restarted``: at most so many slots hold other tasks than now.
#
# A worker, the process in a slot of a node, restarts whole where its set of tasks changes: one that
# is emptied and one that is new count like one that is changed. Slots differ by their numbers
# (`tasks[].slot`). Where no task is anywhere yet, nothing restarts.
#
# The rule binds whether or not a plan decides slots: where it does not, some assignment of each
# node's tasks to its slots has to keep it with all other rules of slots
# (`optim.rules.slot_assignment`).


NAME = "max_workers_restarted"


def _max_workers_restarted_violations(placement: Placement) -> Iterator[Violation]:
    instance = placement.instance
    most = instance.limits.max_workers_restarted
    if most is None:
        return
    unknown = len(unknown_slots(instance))
    if unknown:
        yield violation(NAME, "tasks whose slot now is unknown", unknown, 0)
    elif placement.slot is None:
        if placement.slot_assignment.slot is None:
            yield from (v for v in placement.slot_assignment.shortage if v.rule == NAME)
    else:
        restarted = workers_restarted(instance, placement.node, placement.slot)
        if restarted is not None and restarted > most:
            yield violation(NAME, "limits", restarted, most)


def _max_workers_restarted_proofs(instance: Instance) -> Iterator[Violation]:
    """Slots of tasks that may not stay change, and one at least where a task is nowhere yet."""
    most, tasks = instance.limits.max_workers_restarted, instance.tasks
    if most is None or not (tasks.node >= 0).any() or len(unknown_slots(instance)):
        return
    leave = forced_moves(instance, with_copies=False)
    slots = len(np.unique(np.column_stack([tasks.node[leave], tasks.slot[leave]]), axis=0))
    least = max(slots, int((tasks.node < 0).any()))
    if least > most:
        yield violation(NAME, "slots of tasks that may not stay", least, most)


MAX_WORKERS_RESTARTED = number_rule(
    number_limit(NAME, whole=True),
    Form.RESTARTS,
    violations=_max_workers_restarted_violations,
    proofs=_max_workers_restarted_proofs,
    # slots that begin are of one topology each, though nothing else counts slots
    task_key=lambda of: np.column_stack([of.tasks.node, of.tasks.slot, of.task_topology]),
    node_key=occupied_node_key,
    restarts=lambda instance: instance.limits.max_workers_restarted,
)
