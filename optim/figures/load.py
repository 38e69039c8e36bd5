"""Figures of load: how far nodes are from their share of it, and how full they are."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.figure import Figure
from optim.util.tolerance import over

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.figures.measures import Placement
    from optim.format.instance import Instance
    from optim.format.tables import Floats


def _weightless(instance: Instance) -> str | None:
    if instance.total_load[0] > 0 or instance.crossing_cost[:, 0].any():
        return None
    return f"no task has a load of {instance.resources[0]}, the resource that is balanced"


def _mean(placement: Placement) -> float | None:
    if not placement.instance.crossing_cost[:, 0].any():
        return placement.instance.mean_load
    weight = float(placement.instance.nodes.weight[placement.instance.open_nodes].sum())
    return float(placement.loads[:, 0].sum()) / weight if weight > 0 else None


def _by_node(instance: Instance, table: Floats) -> dict[str, dict[str, float]]:
    names = instance.resources
    if not np.isnan(table).any():  # the usual case, and half of the time of judging a large plan
        rows = map(dict, map(zip, repeat(names), table.tolist()))
        return dict(zip(instance.nodes.ids, rows, strict=True))
    return {
        node: {n: v for n, v in zip(names, row, strict=True) if v == v}
        for node, row in zip(instance.nodes.ids, table.tolist(), strict=True)
    }


def _staying(placement: Placement, resource: int) -> Floats:
    """Shares in use of the staying nodes that have a capacity."""
    share = placement.shares[:, resource]
    return share[placement.instance.open_nodes & np.isfinite(share)]


def _slot_shares(placement: Placement) -> dict[str, dict[str, float]] | None:
    instance, slots = placement.instance, placement.slots
    if slots is None:
        return None
    found: dict[str, dict[str, float]] = {}
    for r, name in enumerate(instance.resources):
        load = np.bincount(slots.index, instance.tasks.load[slots.placed, r], minlength=len(slots))
        capacity = instance.nodes.slot_capacity[slots.node, r]
        for k in np.flatnonzero(np.isfinite(capacity) & (capacity > 0)):
            label = f"{instance.nodes.ids[slots.node[k]]}#{slots.number[k]}"
            found.setdefault(label, {})[name] = float(load[k] / capacity[k])
    return found or None


def _link_shares(placement: Placement) -> dict[str, float] | None:
    links = placement.instance.links
    if not links.ids:
        return None
    capacity = links.capacity
    return {
        name: float(placement.crossing[i] / capacity[i])
        for i, name in enumerate(links.ids)
        if capacity[i] > 0 and np.isfinite(capacity[i])
    }


def _highest(placement: Placement) -> float | None:
    known = placement.shares[np.isfinite(placement.shares)]
    return float(known.max()) if len(known) else None


def _deviations(placement: Placement) -> dict[str, float] | None:
    found = {}
    for r, name in enumerate(placement.instance.resources):
        share = _staying(placement, r)
        if len(share):
            found[name] = float(np.sqrt(((share - share.mean()) ** 2).sum()))
    return found or None


def _first_deviation(placement: Placement) -> float | None:
    return next(iter((_deviations(placement) or {}).values()), None)


def _resource_deviation(placement: Placement) -> float | None:
    nodes, links = _first_deviation(placement), _link_shares(placement)
    if nodes is None or not links:
        return None
    share = np.array(list(links.values()))
    return float(np.sqrt(nodes**2 + ((share - share.mean()) ** 2).sum()))


def _mean_deviation(placement: Placement) -> float | None:
    share = _staying(placement, 0)
    return float(np.abs(share - share.mean()).mean()) if len(share) else None


def _used_utilisation(placement: Placement) -> float | None:
    share = placement.shares[:, 0]
    used = placement.used & np.isfinite(share)
    capacity = placement.instance.nodes.capacity[used, 0]
    return float((share[used] * capacity).sum() / capacity.sum()) if capacity.sum() > 0 else None


def _used_capacity(placement: Placement) -> float | None:
    capacity = placement.instance.nodes.capacity[:, 0]
    if not np.isfinite(capacity).all() or capacity.sum() <= 0:
        return None
    return float(capacity[placement.used].sum() / capacity.sum())


def _within_distance(instance: Instance, value: float) -> Instance:
    """Return the instance with a bound on load distance, if it has none that is smaller."""
    known = instance.limits.max_load_distance
    least = value if known is None else min(value, known)
    return instance.with_values("limits", max_load_distance=least)


LOAD_DISTANCE = Figure(
    "load_distance",
    "load distance",
    "greatest distance of a node from its share of the load, in units of the first resource",
    "resource",
    lambda placement: placement.distance,
    sense="min",
    of_staying=True,
    reference="mean_load",
    percent=True,
    weighs_leaving=True,
    holding=_within_distance,
    constant=_weightless,
    question="How evenly the load is spread",
)
MEAN_LOAD = Figure(
    "mean_load",
    "mean load",
    "load of the first resource over the weights of the staying nodes: the share that load "
    "distance is counted from, and that its gap is in percent of",
    "resource",
    _mean,
    quiet=True,
)
UTILISATION = Figure(
    "utilisation",
    "utilisation",
    "node to resource to (background + load) / capacity, where there is a capacity",
    "table",
    lambda placement: _by_node(placement.instance, placement.shares),
    whole=False,
)
SLOT_UTILISATION = Figure(
    "slot_utilisation",
    "utilisation of slots",
    "the same of slots (`node#slot`)",
    "table",
    _slot_shares,
    whole=False,
)
LINK_UTILISATION = Figure(
    "link_utilisation",
    "utilisation of links",
    "link to (background + crossing traffic) / capacity",
    "table",
    _link_shares,
    whole=False,
)
MAX_UTILISATION = Figure(
    "max_utilisation",
    "highest utilisation",
    "greatest utilisation of a node, over all resources",
    "share",
    _highest,
    sense="min",
)
MAX_LINK_UTILISATION = Figure(
    "max_link_utilisation",
    "highest utilisation of a link",
    "greatest utilisation of a link",
    "share",
    lambda placement: max((_link_shares(placement) or {}).values(), default=None),
    sense="min",
)
DEVIATION = Figure(
    "deviation",
    "deviation",
    "resource to sqrt(Σ (u − ū)²) over the staying nodes with a capacity",
    "table",
    _deviations,
)
CPU_DEVIATION = Figure(
    "cpu_deviation",
    "deviation of the first resource",
    "deviation of the first resource that has one",
    "share",
    _first_deviation,
    sense="min",
    of_staying=True,
    quiet=True,
    former="deviation",
)
RESOURCE_DEVIATION = Figure(
    "resource_deviation",
    "deviation of nodes and links",
    "sqrt(Σ (u − ū)² of the first resource over the staying nodes + Σ (b − b̄)² over the links), of "
    "shares in use",
    "share",
    _resource_deviation,
    sense="min",
    of_staying=True,
    quiet=True,
)
MEAN_ABSOLUTE_DEVIATION = Figure(
    "mean_absolute_deviation",
    "mean absolute deviation",
    "mean |u − ū| of the first resource over the staying nodes with a capacity",
    "share",
    _mean_deviation,
    sense="min",
    of_staying=True,
    quiet=True,
    former="absolute_deviation",
)
USED_UTILISATION = Figure(
    "used_utilisation",
    "utilisation of used nodes",
    "load over capacity of the first resource, summed over the nodes in use",
    "share",
    _used_utilisation,
    sense="max",
    quiet=True,
)
USED_CAPACITY = Figure(
    "used_capacity",
    "capacity in use",
    "capacity of the first resource on the nodes in use, as a share of all nodes' capacity",
    "share",
    _used_capacity,
    sense="min",
    quiet=True,
    former="utilisation",
)
NODE_LOADS = Figure(
    "node_loads",
    "loads",
    "node to resource to background + load",
    "table",
    lambda placement: _by_node(placement.instance, placement.loads),
    whole=False,
)


_NAMED = 20
REASONS: list[Callable[[Any, int], str | None]] = []
"""What says whether a rule keeps a task where it is; the rules, which lie above, add theirs."""


def _staying_tasks(placement: Placement) -> Any:
    """Tasks on leaving nodes."""
    node, leaving = placement.node, placement.instance.nodes.leaving
    if not leaving.any():
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero((node >= 0) & leaving[node])


def _drained(placement: Placement) -> bool | None:
    if not placement.instance.nodes.leaving.any():
        return None
    return not len(_staying_tasks(placement))


def _undrained(placement: Placement) -> dict[str, Any] | None:
    """What stays on leaving nodes: the number, the reasons with theirs, and the first tasks."""
    instance, tasks = placement.instance, _staying_tasks(placement)
    if not len(tasks):
        return None
    reasons = [_why(placement, int(task)) for task in tasks]
    why = dict.fromkeys(reasons, 0)
    for reason in reasons:
        why[reason] += 1
    return {
        "count": len(tasks),
        "nodes": [instance.nodes.ids[n] for n in np.unique(placement.node[tasks])],
        "why": why,
        "tasks": [
            {
                "task": instance.tasks.ids[task],
                "node": instance.nodes.ids[placement.node[task]],
                "why": reason,
            }
            for task, reason in zip(tasks[:_NAMED], reasons, strict=False)
        ],
    }


def _why(placement: Placement, task: int) -> str:
    """Say what keeps a task where it is, as far as the instance and the plan alone show it."""
    instance, limits = placement.instance, placement.instance.limits
    if not instance.has_open_node[task]:
        return "allowed only there"
    used_up = next(filter(None, (reason(placement, task) for reason in REASONS)), None)
    if used_up is not None:
        return used_up
    open_nodes = instance.open_nodes & instance.allowed_mask(task)
    most = instance.nodes.capacity[open_nodes] * limits.max_utilisation
    needed = placement.loads[open_nodes] + instance.tasks.load[task]
    if over(needed, most).any(axis=1).all():
        return "no staying node has the capacity left"
    return "not proven necessary"


DRAINED = Figure(
    "drained",
    "leaving nodes empty",
    "whether the leaving nodes hold no task; unknown where no node leaves",
    "flag",
    _drained,
    quiet=True,
    whole=False,
)
UNDRAINED = Figure(
    "undrained",
    "not drained",
    "what stays on leaving nodes: `count`, `nodes`, `why` (reason to number of tasks) and the "
    f"first {_NAMED} `tasks`, each with `node` and `why`",
    "table",
    _undrained,
    whole=False,
)
