"""What a method may place where: room with the referee's tolerance, and the tasks' masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.measures import (
    distance_of_loads,
    link_loads,
    migrated_tasks,
    node_loads,
)
from optim.rules import budgets
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.budget import Budget


_USED = 0.999
"""Part of the referee's tolerance that a placement may use.

The rest, 1e-12 of the bound, is for adding up loads in another order than the referee: sums of
several thousand loads at worst, and of many millions as rounding usually falls.
"""


LARGE_SUMS = 0.5
"""Part of that for bounds on differences of sums that are much larger: links, load distance."""


def placing_slack(bound: Any) -> Any:
    """By how much a placement may exceed bounds on sums, background included."""
    return _USED * slack(bound)


def distance_room(limit: float, due: Floats) -> float:
    """Return a bound on the load distance with the tolerance that may be used.

    Parameters
    ----------
    due
        (N,) of each node, its share of the mean load. The rows of a node are load ≤ due + limit and
        due ≤ load + limit: what stands in them is at least as large as the larger of the two.
    """
    least = max(limit, float(due.min(initial=np.inf))) if len(due) else limit
    return limit + LARGE_SUMS * float(placing_slack(least))


def placing_room(instance: Instance) -> Floats:
    """(N, R) headroom with the tolerance that a placement may use."""
    bound = instance.nodes.capacity * instance.limits.max_utilisation
    return np.asarray(instance.headroom + placing_slack(bound))


def counted_loads(instance: Instance) -> tuple[Floats, Floats]:
    """(T, R') loads and (N, R') room; where nodes bound their number of tasks, one load is 1."""
    load, room, most = (
        np.array(instance.tasks.load),
        placing_room(instance),
        instance.nodes.max_tasks,
    )
    if not (most >= 0).any():
        return load, room
    # a number of tasks as a load of 1 each; half a task more, so that no rounding takes one away
    count = np.where(most >= 0, most + 0.5, np.inf)
    return np.hstack([load, np.ones((len(load), 1))]), np.column_stack([room, count])


def counted_floor(instance: Instance, width: int) -> Floats:
    """(N, R') load to place for `min_load`; nothing of a count of tasks."""
    floor = placing_floor(instance)
    more = np.full((len(floor), width - floor.shape[1]), -np.inf)
    return np.hstack([floor, more])


def slot_room(instance: Instance) -> Floats:
    """(N, R) load that one slot takes, tolerance included; ``inf`` for any."""
    bound = instance.nodes.slot_capacity
    return np.asarray(bound + placing_slack(bound))


def placing_floor(instance: Instance) -> Floats:
    """(N, R) load to place for `min_load`, the tolerance off; ``-inf`` for none."""
    least = instance.nodes.min_load
    bound = least - instance.nodes.background - placing_slack(least)
    return np.where((least > 0) & instance.open_nodes[:, None], bound, -np.inf)


def link_room(instance: Instance) -> Floats:
    """(L,) traffic with background that each link takes, tolerance included; ``inf`` for any."""
    bound = instance.links.capacity * instance.limits.max_link_utilisation
    return np.asarray(bound + LARGE_SUMS * placing_slack(bound))


def most_of(budget: Budget) -> float:
    """Return what migrations may take of a budget, with the tolerance that may be used."""
    return budget.limit + (0.0 if budget.whole else float(placing_slack(budget.limit)))


def move_budgets(instance: Instance) -> tuple[Floats, Floats]:
    """(T, K) what a migration of each task takes of each budget set; (K,) the most (`most_of`)."""
    found = budgets(instance)
    price = np.column_stack([np.zeros((instance.num_tasks, 0)), *(b.weight for b in found)])
    return np.ascontiguousarray(price), np.array([most_of(budget) for budget in found])


def at_the_edge(instance: Instance, node: Ints) -> bool:
    """Whether a feasible placement of all tasks uses more of the tolerance than methods may."""
    loads = node_loads(instance, node)
    placed = loads - instance.nodes.background
    if (placed > placing_room(instance)).any() or (placed < placing_floor(instance)).any():
        return True
    moved = migrated_tasks(instance, node)
    for budget in budgets(instance):
        spent = float(budget.weight[moved].sum())
        if spent > budget.limit + LARGE_SUMS * placing_slack(budget.limit):
            return True
    limits = instance.limits
    far, distance = limits.max_load_distance, distance_of_loads(instance, loads[:, 0])
    if far is not None and distance is not None and distance > distance_room(far, instance.due):
        return True
    return bool((link_loads(instance, node) > link_room(instance)).any())


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
    # a task that may only be on leaving nodes stays on these
    hopeless = ~target.any(axis=1)
    target[hopeless] = allowed[hopeless]
    return kinds, allowed, target
