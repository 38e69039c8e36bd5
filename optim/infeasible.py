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
_ROUNDING = 1e-6
"""Part of the tolerance that is left to the referee's own rounding."""


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


def _slack(bound: Floats) -> Floats:
    """What the referee lets a load exceed a bound by, and a little more for its rounding."""
    return np.asarray((1 + _ROUNDING) * slack_allowed(np.where(np.isfinite(bound), bound, 0.0)))


def _bounds(instance: Instance) -> Floats:
    """(N, R) what a node may carry, background included; ``inf`` for no bound."""
    return np.asarray(instance.nodes.capacity * instance.limits.max_utilisation)


def _most(instance: Instance) -> Floats:
    """(N, R) load that may be placed; the tolerance is that of the bound, not of what is left."""
    return instance.headroom + _slack(_bounds(instance))


def _background(instance: Instance) -> Iterator[Violation]:
    """A node, or link, whose background alone exceeds what may be used."""
    for n, r in np.argwhere(_most(instance) < 0):
        where = f"{instance.nodes.ids[n]}.{instance.resources[r]} (background)"
        needed = float(instance.nodes.background[n, r])
        available = needed + float(instance.headroom[n, r])
        yield Violation("capacity", where, needed - available, needed, available)
    room = instance.links.capacity * instance.limits.max_link_utilisation
    for i in np.flatnonzero(instance.links.background > room + _slack(room)):
        needed, available = float(instance.links.background[i]), float(room[i])
        where = f"{instance.links.ids[i]} (background)"
        yield Violation("links", where, needed - available, needed, available)


def _tasks_that_fit_nowhere(instance: Instance) -> Iterator[Violation]:
    """A task that no node it may use could hold even if it were alone there."""
    restricted = np.zeros(instance.num_tasks, dtype=np.bool_)
    restricted[instance.tasks.restricted] = True
    free = np.flatnonzero(~restricted)
    most = _most(instance)
    rooms = np.unique(most, axis=0)
    loads, which = np.unique(instance.tasks.load[free], axis=0, return_inverse=True)
    hopeless = np.zeros(len(loads), dtype=np.bool_)
    step = max(1, _CHUNK // max(1, rooms.size))
    for start in range(0, len(loads), step):
        part = loads[start : start + step, None, :]
        hopeless[start : start + step] = ~_fits(part, rooms[None, :, :]).any(axis=1)
    lost = free[hopeless[which.reshape(-1)]].tolist()
    lost += _restricted_that_fit_nowhere(instance, most)
    for task in lost[:_NAMED]:
        yield _nearest_miss(instance, task)
    if len(lost) > _NAMED:
        yield Violation(
            "capacity", f"{len(lost) - _NAMED} more tasks", len(lost) - _NAMED, 1.0, 0.0
        )


def _restricted_that_fit_nowhere(instance: Instance, most: Floats) -> list[int]:
    """Tasks that none of their allowed nodes could hold."""
    table = instance.tasks
    owner = np.repeat(table.restricted, np.diff(table.allowed_indptr))
    fits = np.zeros(len(owner), dtype=np.bool_)
    step = max(1, _CHUNK // instance.num_resources)
    for start in range(0, len(owner), step):
        part = slice(start, start + step)
        fits[part] = _fits(table.load[owner[part]], most[table.allowed_indices[part]])
    found: list[int] = table.restricted[~table.any_allowed(fits)].tolist()
    return found


def _fits(load: Floats, most: Floats) -> Bools:
    """Whether loads (…, R) keep what may be placed (…, R) on every resource."""
    return np.asarray((load <= most).all(axis=-1))


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
    # the tolerance twice: once each node's own, once for sums over many tasks
    most = np.maximum(_most(instance) + _slack(_bounds(instance)), 0.0).sum(axis=0)
    room = np.maximum(instance.headroom, 0.0).sum(axis=0)
    for r in np.flatnonzero(instance.total_load > most):
        needed, available = float(instance.total_load[r]), float(room[r])
        where = f"all nodes.{instance.resources[r]}"
        yield Violation("capacity", where, needed - available, needed, available)


def _total_minimum(instance: Instance) -> Iterator[Violation]:
    """Lower load bounds that all load together cannot reach."""
    least = np.where(instance.open_nodes[:, None], instance.nodes.min_load, 0.0)
    missing = np.maximum(least - instance.nodes.background, 0.0).sum(axis=0)
    short = least - 2 * _slack(least) - instance.nodes.background
    proven = np.maximum(short, 0.0).sum(axis=0)
    for r in np.flatnonzero(proven > instance.total_load):
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
