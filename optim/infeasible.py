"""Quick proofs that no plan can exist, with the figures that show it.

Each of these is a necessary condition that the referee's rules imply, so what is found is a proof;
finding nothing proves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.evaluation import Violation
from optim.measures import slack_allowed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.instance import Instance
    from optim.tables import Bools, Floats

_CHUNK = 4_000_000
_NAMED = 20


def quick_proofs(instance: Instance) -> list[Violation]:
    """Return reasons why the instance is infeasible; an empty list says nothing either way."""
    if instance.num_tasks == 0 or instance.num_nodes == 0:
        return []
    return [
        *_background(instance),
        *_tasks_that_fit_nowhere(instance),
        *_total_demand(instance),
        *_total_minimum(instance),
        *_slots(instance),
    ]


def fits(load: Floats, headroom: Floats) -> Bools:
    """Whether loads (…, R) fit headrooms (…, R) on every resource, rounding allowed."""
    slack = slack_allowed(np.where(np.isfinite(headroom), headroom, 0.0))
    return (load <= headroom + slack).all(axis=-1)


def _background(instance: Instance) -> Iterator[Violation]:
    """A node, or link, whose background alone exceeds what may be used."""
    for n, r in np.argwhere(~fits_each(np.zeros(()), instance.headroom)):
        where = f"{instance.nodes.ids[n]}.{instance.resources[r]} (background)"
        needed = float(instance.nodes.background[n, r])
        available = needed + float(instance.headroom[n, r])
        yield Violation("capacity", where, needed - available, needed, available)
    room = instance.links.capacity * instance.limits.max_link_utilisation
    for i in np.flatnonzero(~fits_each(instance.links.background, room)):
        needed, available = float(instance.links.background[i]), float(room[i])
        where = f"{instance.links.ids[i]} (background)"
        yield Violation("links", where, needed - available, needed, available)


def fits_each(load: Floats, headroom: Floats) -> Bools:
    """Elementwise `fits`."""
    slack = slack_allowed(np.where(np.isfinite(headroom), headroom, 0.0))
    return np.asarray(load <= headroom + slack)


def _tasks_that_fit_nowhere(instance: Instance) -> Iterator[Violation]:
    """A task that no node it may use could hold even if it were alone there."""
    restricted = np.zeros(instance.num_tasks, dtype=np.bool_)
    restricted[instance.tasks.restricted] = True
    free = np.flatnonzero(~restricted)
    rooms = np.unique(instance.headroom, axis=0)
    loads, which = np.unique(instance.tasks.load[free], axis=0, return_inverse=True)
    hopeless = np.zeros(len(loads), dtype=np.bool_)
    step = max(1, _CHUNK // max(1, rooms.size))
    for start in range(0, len(loads), step):
        part = loads[start : start + step, None, :]
        hopeless[start : start + step] = ~fits(part, rooms[None, :, :]).any(axis=1)
    lost = free[hopeless[which.reshape(-1)]].tolist()
    for task in instance.tasks.restricted.tolist():
        places = instance.headroom[instance.allowed_mask(task)]
        if not fits(instance.tasks.load[task], places).any():
            lost.append(task)
    for task in lost[:_NAMED]:
        yield _nearest_miss(instance, task)
    if len(lost) > _NAMED:
        yield Violation(
            "capacity", f"{len(lost) - _NAMED} more tasks", len(lost) - _NAMED, 1.0, 0.0
        )


def _nearest_miss(instance: Instance, task: int) -> Violation:
    """Name the node that comes nearest to holding the task, and the resource it lacks most."""
    nodes = np.flatnonzero(instance.allowed_mask(task))
    load = instance.tasks.load[task]
    lack = load - instance.headroom[nodes]
    nearest = int(np.argmin(lack.max(axis=1)))
    r = int(np.argmax(lack[nearest]))
    where = f"{instance.tasks.ids[task]} fits no node; nearest {instance.nodes.ids[nodes[nearest]]}"
    available = float(instance.headroom[nodes[nearest], r])
    amount = float(lack[nearest, r])
    return Violation(
        "capacity", f"{where}.{instance.resources[r]}", amount, float(load[r]), available
    )


def _total_demand(instance: Instance) -> Iterator[Violation]:
    """More load of a resource than all nodes together may take."""
    room = np.maximum(instance.headroom, 0.0).sum(axis=0)
    for r in np.flatnonzero(
        ~fits_each(instance.total_load, room * (1 + 1e-9) + 1e-6 * instance.num_nodes)
    ):
        needed, available = float(instance.total_load[r]), float(room[r])
        where = f"all nodes.{instance.resources[r]}"
        yield Violation("capacity", where, needed - available, needed, available)


def _total_minimum(instance: Instance) -> Iterator[Violation]:
    """Lower load bounds that all load together cannot reach."""
    least = np.where(instance.open_nodes[:, None], instance.nodes.min_load, 0.0)
    missing = np.maximum(least - instance.nodes.background, 0.0).sum(axis=0)
    slack = 1e-6 * instance.num_nodes
    for r in np.flatnonzero(~fits_each(missing, instance.total_load * (1 + 1e-9) + slack)):
        needed, available = float(missing[r]), float(instance.total_load[r])
        where = f"all nodes.{instance.resources[r]}"
        yield Violation("min_load", where, needed - available, needed, available)


def _slots(instance: Instance) -> Iterator[Violation]:
    """More tasks than all slots may hold."""
    limit = instance.limits.max_tasks_per_slot
    if limit is None or (instance.nodes.slots < 0).any():
        return
    room = float(instance.nodes.slots.sum()) * limit
    if instance.num_tasks > room:
        needed = float(instance.num_tasks)
        yield Violation("max_tasks_per_slot", "all slots", needed - room, needed, room)
