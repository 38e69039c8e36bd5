"""The rules a plan must keep; one function a rule, each returning its violations with figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optim.evaluation import Violation
from optim.measures import (
    distance_of_loads,
    entered_leaving,
    link_loads,
    moved_tasks,
    slack_allowed,
    slot_places,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.instance import Instance
    from optim.tables import Floats, Ints


def check_rules(
    instance: Instance, node: Ints, slot: Ints | None, loads: Floats
) -> list[Violation]:
    """Return every violation of a placement; none means feasible.

    Parameters
    ----------
    node, slot
        (T,) indices, -1 where missing; `slot` is ``None`` when the plan decides no slots.
    loads
        (N, R) background + load.
    """
    found = [
        *_placed(instance, node),
        *_allowed(instance, node),
        *_leaving(instance, node),
        *_capacity(instance, loads),
        *_min_load(instance, loads),
        *_links(instance, node),
        *_migrations(instance, node),
        *_load_distance(instance, loads),
    ]
    if slot is not None:
        found += [*_slots(instance, node, slot), *_topologies(instance, node, slot)]
    elif instance.limits.max_tasks_per_slot is not None:
        limit = float(instance.limits.max_tasks_per_slot)
        found.append(Violation("max_tasks_per_slot", "plan decides no slots", 0.0, 0.0, limit))
    return found


def _over(needed: Any, available: Any) -> Any:
    return needed > available + slack_allowed(np.where(np.isfinite(available), available, 0.0))


def _violation(rule: str, where: str, needed: float, available: float) -> Violation:
    needed, available = float(needed), float(available)
    return Violation(rule, where, abs(needed - available), needed, available)


def _placed(instance: Instance, node: Ints) -> Iterator[Violation]:
    """Every task has a node."""
    for t in np.flatnonzero(node < 0):
        yield Violation("placed", instance.tasks.ids[t], 1.0, 1.0, 0.0)


def _allowed(instance: Instance, node: Ints) -> Iterator[Violation]:
    """A task with an ``allowed`` list is on one of its nodes."""
    table = instance.tasks
    at = node[table.restricted]
    there = table.allowed_indices == np.repeat(at, np.diff(table.allowed_indptr))
    for t in table.restricted[~table.any_allowed(there) & (at >= 0)]:
        where = f"{table.ids[t]} on {instance.nodes.ids[node[t]]}"
        yield Violation("allowed", where, 1.0, 1.0, 0.0)


def _leaving(instance: Instance, node: Ints) -> Iterator[Violation]:
    """Nothing comes onto a leaving node but from another, or where no allowed one stays."""
    for t in np.flatnonzero(entered_leaving(instance, node)):
        where = f"{instance.tasks.ids[t]} on {instance.nodes.ids[node[t]]}"
        yield Violation("leaving", where, 1.0, 1.0, 0.0)


def _capacity(instance: Instance, loads: Floats) -> Iterator[Violation]:
    """background + load ≤ capacity × max_utilisation, each node and resource."""
    available = instance.nodes.capacity * instance.limits.max_utilisation
    for n, r in np.argwhere(_over(loads, available)):
        where = f"{instance.nodes.ids[n]}.{instance.resources[r]}"
        yield _violation("capacity", where, loads[n, r], available[n, r])


def _min_load(instance: Instance, loads: Floats) -> Iterator[Violation]:
    """background + load ≥ min_load on every staying node, an empty one too."""
    least = np.where(instance.open_nodes[:, None], instance.nodes.min_load, 0.0)
    for n, r in np.argwhere(_over(least, loads)):
        where = f"{instance.nodes.ids[n]}.{instance.resources[r]}"
        yield _violation("min_load", where, least[n, r], loads[n, r])


def _links(instance: Instance, node: Ints) -> Iterator[Violation]:
    """background + crossing traffic ≤ capacity × max_utilisation.links, each link."""
    if not instance.links.ids:
        return
    loads = link_loads(instance, node)
    available = instance.links.capacity * instance.limits.max_link_utilisation
    for i in np.flatnonzero(_over(loads, available)):
        yield _violation("links", instance.links.ids[i], loads[i], available[i])


def _migrations(instance: Instance, node: Ints) -> Iterator[Violation]:
    """Moves and their cost keep within the budget."""
    limits = instance.limits
    if limits.max_migrations is None and limits.max_migration_cost is None:
        return
    moved = moved_tasks(instance, node)
    if limits.max_migrations is not None and len(moved) > limits.max_migrations:
        yield _violation("max_migrations", "limits", len(moved), limits.max_migrations)
    if limits.max_migration_cost is not None:
        cost = instance.tasks.migration_cost[moved].sum()
        if _over(cost, limits.max_migration_cost):
            yield _violation("max_migration_cost", "limits", cost, limits.max_migration_cost)


def _load_distance(instance: Instance, loads: Floats) -> Iterator[Violation]:
    """Load distance ≤ max_load_distance."""
    limit = instance.limits.max_load_distance
    if limit is None:
        return
    distance = distance_of_loads(instance, loads[:, 0])
    if distance is not None and _over(distance, limit):
        yield _violation("max_load_distance", "limits", distance, limit)


def _slots(instance: Instance, node: Ints, slot: Ints) -> Iterator[Violation]:
    """Slot numbers exist, and each slot keeps its capacity and its number of tasks."""
    nodes, ids = instance.nodes, instance.nodes.ids
    for t in np.flatnonzero((slot < 0) & (node >= 0)):
        yield Violation("slots", instance.tasks.ids[t], 1.0, 1.0, 0.0)
    placed = np.flatnonzero((slot >= 0) & (node >= 0))
    beyond = placed[(nodes.slots[node[placed]] >= 0) & (slot[placed] >= nodes.slots[node[placed]])]
    for t in beyond:
        where = f"{instance.tasks.ids[t]} on {ids[node[t]]}#{slot[t]}"
        yield _violation("slots", where, slot[t] + 1, nodes.slots[node[t]])
    place = slot_places(node, slot)[placed]
    width = int(slot.max(initial=0)) + 1
    used, index = np.unique(place, return_inverse=True)
    at = used // width
    labels = [f"{ids[n]}#{s}" for n, s in zip(at, used % width, strict=True)]
    for r, resource in enumerate(instance.resources):
        load = np.bincount(index, instance.tasks.load[placed, r], minlength=len(used))
        capacity = nodes.slot_capacity[at, r]
        for k in np.flatnonzero(_over(load, capacity)):
            yield _violation("slot_capacity", f"{labels[k]}.{resource}", load[k], capacity[k])
    limit = instance.limits.max_tasks_per_slot
    if limit is not None:
        counts = np.bincount(index, minlength=len(used))
        for k in np.flatnonzero(counts > limit):
            yield _violation("max_tasks_per_slot", labels[k], counts[k], limit)


def _topologies(instance: Instance, node: Ints, slot: Ints) -> Iterator[Violation]:
    """A slot serves one topology; a topology of W workers and E tasks fills min(W, E) slots.

    Source: Aniello et al. 2013, section 3.2.2, constraint (2).
    """
    if not instance.topologies.ids:
        return
    operator = instance.tasks.operator
    topology = np.full(instance.num_tasks, -1, dtype=np.int32)
    topology[operator >= 0] = instance.operators.topology[operator[operator >= 0]]
    place = slot_places(node, slot)
    known = (place >= 0) & (topology >= 0)
    pairs = np.unique(np.stack([place[known], topology[known]]), axis=1)
    width = int(slot.max(initial=0)) + 1
    shared, counts = np.unique(pairs[0], return_counts=True)
    for p, count in zip(shared[counts > 1], counts[counts > 1], strict=True):
        where = f"{instance.nodes.ids[p // width]}#{p % width}"
        yield _violation("one_topology_a_slot", where, count, 1)
    for i, workers in enumerate(instance.topologies.workers):
        executors = int((topology == i).sum())
        if workers < 0 or executors == 0:
            continue
        used, wanted = int((pairs[1] == i).sum()), min(int(workers), executors)
        if used != wanted:
            yield _violation("workers", instance.topologies.ids[i], used, wanted)
