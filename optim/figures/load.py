"""Figures of load: how far nodes are from their share of it, and how full they are."""

from __future__ import annotations

from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from optim.figures.figure import Figure

if TYPE_CHECKING:
    from optim.figures.placement import Placement
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


def _highest_link(placement: Placement) -> float | None:
    return max((_link_shares(placement) or {}).values(), default=None)


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
    return replace(instance, limits=replace(instance.limits, max_load_distance=least))


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
    _highest_link,
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
