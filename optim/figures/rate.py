"""How much input a placement carries, and what gives way first.

Loads and rates of an instance hold at its present input. With the input multiplied, the rate-driven
resources and the links grow with it; slots, memory and state do not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.figure import Figure

if TYPE_CHECKING:
    from optim.figures.placement import Placement
    from optim.format.instance import Instance

_NAMED = 2


def _sustained(placement: Placement) -> float | None:
    least = min(placement.node_rates.min(initial=np.inf), placement.link_rates.min(initial=np.inf))
    return float(least) if np.isfinite(least) else None


def _saturation(placement: Placement) -> list[dict[str, Any]] | None:
    """Name what is full first, and next: of a node that with the least rate."""
    instance = placement.instance
    rates = np.concatenate([placement.node_rates.min(axis=1, initial=np.inf), placement.link_rates])
    found: list[dict[str, Any]] = []
    for i in np.argsort(rates, kind="stable")[:_NAMED].tolist():
        if not np.isfinite(rates[i]):
            break
        if i < instance.num_nodes:
            r = instance.rate_driven[int(placement.node_rates[i].argmin())]
            where = {"node": instance.nodes.ids[i], "resource": instance.resources[r]}
        else:
            where = {"link": instance.links.ids[i - instance.num_nodes]}
        found.append({**where, "rate": float(rates[i])})
    return found or None


def without_measured(instance: Instance) -> Instance:
    """Return the instance without the limits that the rate measures.

    They are the capacities of the rate-driven resources and of the links.
    """
    nodes, links = instance.nodes, instance.links
    capacity = np.array(nodes.capacity)
    capacity[:, list(instance.rate_driven)] = np.inf
    return replace(
        instance,
        nodes=replace(nodes, capacity=capacity),
        links=replace(links, capacity=np.full(len(links.ids), np.inf)),
    )


def carrying(instance: Instance, rate: float) -> Instance:
    """Return the instance in which the plans are feasible that carry so much of the present input.

    Rather than loads and traffic times the rate, what may be used beside the background is divided
    by it; that of resources which the rate does not drive stays.
    """
    nodes, links, limits = instance.nodes, instance.links, instance.limits
    driven = np.isin(np.arange(instance.num_resources), instance.rate_driven)
    left = links.capacity * limits.max_link_utilisation - links.background
    with np.errstate(divide="ignore", invalid="ignore"):
        capacity = (instance.headroom / rate + nodes.background) / limits.max_utilisation
        most = (left / rate + links.background) / limits.max_link_utilisation
    capacity = np.where(driven & (instance.headroom > 0), capacity, nodes.capacity)
    return replace(
        instance,
        nodes=replace(nodes, capacity=capacity),
        links=replace(links, capacity=np.where(left > 0, most, links.capacity)),
    )


SUSTAINABLE_RATE = Figure(
    "sustainable_rate",
    "sustainable rate",
    "multiple of the present input rate at which the first rate-driven resource of a node in use, "
    "or the first link, is full; unknown where none ever is",
    "multiple",
    _sustained,
    sense="max",
    hard=without_measured,
)
SATURATION = Figure(
    "saturation",
    "full first",
    "what is full first as the input grows, and next: `node` and `resource`, or `link`, and the "
    "`rate` at which it is, as a multiple of the present one",
    "table",
    _saturation,
)
