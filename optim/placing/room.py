"""What a method may place where: room with the referee's tolerance, and the tasks' masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optim.measures import (
    distance_of_loads,
    link_loads,
    moved_tasks,
    node_loads,
    slack_allowed,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.instance import Instance
    from optim.tables import Bools, Floats, Ints


_USED = 0.999
"""Part of the referee's tolerance that a placement may use.

The rest, 1e-12 of a bound and 1e-9, is for adding up loads in another order than the referee: sums
of several thousand loads at worst, and of many millions as rounding usually falls.
"""


LARGE_SUMS = 0.5
"""Part of that for bounds on differences of sums that are much larger: links, load distance."""


def placing_slack(bound: Any) -> Any:
    """By how much a placement may exceed bounds (any shape) on sums no larger than they are."""
    return _USED * slack_allowed(np.where(np.isfinite(bound), bound, 0.0))


def placing_room(instance: Instance) -> Floats:
    """(N, R) headroom with the tolerance that a placement may use."""
    bound = instance.nodes.capacity * instance.limits.max_utilisation
    return np.asarray(instance.headroom + placing_slack(bound))


def slot_room(instance: Instance) -> Floats:
    """(N, R) load that one slot takes, tolerance included; ``inf`` for any."""
    bound = instance.nodes.slot_capacity
    return np.asarray(bound + placing_slack(bound))


def placing_floor(instance: Instance) -> Floats:
    """(N, R) load to place for `min_load`, the tolerance off; ``-inf`` for none."""
    least = instance.nodes.min_load
    bound = least - instance.nodes.background - placing_slack(least)
    return np.where((least > 0) & instance.open_nodes[:, None], bound, -np.inf)


def at_the_edge(instance: Instance, node: Ints) -> bool:
    """Whether a feasible placement of all tasks uses more of the tolerance than methods may."""
    loads = node_loads(instance, node)
    placed = loads - instance.nodes.background
    if (placed > placing_room(instance)).any() or (placed < placing_floor(instance)).any():
        return True
    limits = instance.limits
    cost = float(instance.tasks.migration_cost[moved_tasks(instance, node)].sum())
    room = instance.links.capacity * limits.max_link_utilisation
    figures = [
        (link_loads(instance, node), room),
        (distance_of_loads(instance, loads[:, 0]), limits.max_load_distance),
        (cost, limits.max_migration_cost),
    ]
    return any(
        bool(np.any(np.asarray(value) > np.asarray(most) + LARGE_SUMS * placing_slack(most)))
        for value, most in figures
        if value is not None and most is not None
    )


def restriction_kinds(instance: Instance) -> tuple[Ints, list[NDArray[np.int32]]]:
    """Number the different sets of allowed nodes.

    Returns
    -------
    tuple
        (T,) kind of each task, 0 for "everywhere"; and the nodes of kinds 1, 2, ….
    """
    kinds = np.zeros(instance.num_tasks, dtype=np.int32)
    known: dict[bytes, int] = {}
    sets: list[NDArray[np.int32]] = []
    table = instance.tasks
    for k, task in enumerate(table.restricted):
        places = np.sort(
            table.allowed_indices[table.allowed_indptr[k] : table.allowed_indptr[k + 1]]
        )
        key = places.tobytes()
        if key not in known:
            known[key] = len(sets) + 1
            sets.append(places)
        kinds[task] = known[key]
    return kinds, sets


def placing_masks(instance: Instance) -> tuple[Ints, Bools, Bools]:
    """Return where tasks may be put, by kind.

    Returns
    -------
    tuple
        (T,) kind of each task; (K, N) allowed by kind; (K, N) where new tasks go: the allowed nodes
        that stay, or all allowed ones when none of them stays.
    """
    kinds, sets = restriction_kinds(instance)
    allowed = np.ones((len(sets) + 1, instance.num_nodes), dtype=np.bool_)
    for kind, places in enumerate(sets, start=1):
        allowed[kind] = False
        allowed[kind, places] = True
    target = allowed & instance.open_nodes
    hopeless = ~target.any(axis=1)
    target[hopeless] = allowed[hopeless]
    return kinds, allowed, target
