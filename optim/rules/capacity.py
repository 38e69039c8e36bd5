"""``capacity``: background + load ≤ capacity × max_utilisation, each node and resource."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.rules.base import Form, Rows, Rule, node_violations, violation
from optim.rules.exact import node_loads
from optim.rules.violation import Violation
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats
    from optim.rules.placement import Placement

_CHUNK = 4_000_000
_NAMED = 20
ROUNDING = 1e-6
"""Part of the tolerance that is left to the referee's own rounding."""


def _present(instance: Instance) -> str | None:
    return "nodes[].capacity" if np.isfinite(instance.nodes.capacity).any() else None


def _dropped(instance: Instance) -> Instance:
    nodes = instance.nodes
    return replace(instance, nodes=replace(nodes, capacity=np.full_like(nodes.capacity, np.inf)))


def _violations(placement: Placement) -> Iterator[Violation]:
    instance = placement.instance
    available = _available(instance)
    loads = node_loads(placement, placement.loads, available)
    return node_violations(instance, "capacity", loads, available)


def _available(instance: Instance) -> Floats:
    return np.asarray(instance.nodes.capacity * instance.limits.max_utilisation)


def _loosened(
    instance: Instance, mask: Bools, value: Floats, placement: Placement | None
) -> Instance:
    nodes = instance.nodes
    capacity = np.where(mask, value / instance.limits.max_utilisation, nodes.capacity)
    return replace(instance, nodes=replace(nodes, capacity=capacity))


def proof_slack(bound: Any) -> Any:
    """What the referee lets a load exceed a bound by, and a little more for its rounding."""
    return (1 + ROUNDING) * slack(bound)


def _most(instance: Instance) -> Floats:
    """(N, R) load that may be placed; the tolerance is that of the bound, not of what is left."""
    bound = np.asarray(instance.nodes.capacity * instance.limits.max_utilisation)
    return instance.headroom + proof_slack(bound)


def _proofs(instance: Instance) -> Iterator[Violation]:
    yield from _background(instance)
    yield from _tasks_that_fit_nowhere(instance)
    yield from _total_demand(instance)


def _background(instance: Instance) -> Iterator[Violation]:
    """A node whose background alone exceeds what may be used."""
    for n, r in np.argwhere(_most(instance) < 0):
        where = f"{instance.nodes.ids[n]}.{instance.resources[r]} (background)"
        needed = float(instance.nodes.background[n, r])
        yield violation("capacity", where, needed, needed + float(instance.headroom[n, r]))


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
        count = len(lost) - _NAMED
        yield Violation("capacity", f"{count} more tasks", count, 1.0, 0.0)


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
    where = f"{where}.{instance.resources[r]}"
    return violation("capacity", where, load[r], instance.headroom[nodes[nearest], r])


def _total_demand(instance: Instance) -> Iterator[Violation]:
    """More load of a resource than all nodes together may take."""
    # the tolerance twice: once each node's own, once for sums over many tasks
    bound = np.asarray(instance.nodes.capacity * instance.limits.max_utilisation)
    twice = _most(instance) + proof_slack(bound)
    most = np.maximum(twice, 0.0).sum(axis=0)
    room = np.maximum(instance.headroom, 0.0).sum(axis=0)
    for r in np.flatnonzero(instance.total_load > most):
        where = f"all nodes.{instance.resources[r]}"
        yield violation("capacity", where, instance.total_load[r], room[r])


CAPACITY = Rule(
    name="capacity",
    field="nodes[].capacity",
    form=Form.NODE_CAPACITY,
    present=_present,
    dropped=_dropped,
    violations=_violations,
    proofs=_proofs,
    mended=True,
    rows=(Rows(lambda placement: placement.loads, _available, _loosened, plain=True),),
)
