"""How much input a placement carries, and what gives way first.

Loads and rates of an instance hold at its current input. With the input multiplied, the rate-driven
resources and the links grow with it; slots, memory and state do not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.figure import Figure
from optim.figures.measures import least_tasks

if TYPE_CHECKING:
    from optim.figures.placement import Placement
    from optim.format.instance import Instance

_NAMED = 2


def _sustained(placement: Placement) -> float | None:
    return placement.rate if np.isfinite(placement.rate) else None


def _saturation(placement: Placement) -> list[dict[str, Any]] | None:
    """Name what is the bottleneck, and the next one: of a node, or an operator, that with the least
    rate.
    """
    instance, driven = placement.instance, placement.instance.rate_driven
    found: list[dict[str, Any]] = []
    for t in _first_threads(placement):
        r, o = driven[int(instance.thread_rates[t].argmin())], int(instance.tasks.operator[t])
        where = {"task": instance.tasks.ids[t], "resource": instance.resources[r]}
        told = {"operator": instance.operators.ids[o], **where} if o >= 0 else where
        count, twice = least_tasks(instance, t, r, 2.0)
        rate = float(placement.thread_rates[t])
        found.append({**told, "rate": rate, "tasks": count, "tasks_at_twice": twice})
    rates = np.concatenate([placement.node_rates.min(axis=1, initial=np.inf), placement.link_rates])
    for i in np.argsort(rates, kind="stable")[:_NAMED].tolist():
        if not np.isfinite(rates[i]):
            break
        if i < instance.num_nodes:
            r = driven[int(placement.node_rates[i].argmin())]
            where = {"node": instance.nodes.ids[i], "resource": instance.resources[r]}
        else:
            where = {"link": instance.links.ids[i - instance.num_nodes]}
        found.append({**where, "rate": float(rates[i])})
    return sorted(found, key=lambda entry: entry["rate"])[:_NAMED] or None


def _first_threads(placement: Placement) -> list[int]:
    """Return the tasks that reach their capacity first and next, of any one operator the first
    alone.
    """
    rates, found = placement.thread_rates, dict[int, int]()
    if not len(rates):
        return []
    # of equal rates the first task; a task without an operator stands for itself
    operator = np.where(
        placement.instance.tasks.operator >= 0, placement.instance.tasks.operator, -1
    )
    for t in np.argsort(rates, kind="stable").tolist():
        if len(found) == _NAMED or not np.isfinite(rates[t]):
            break
        found.setdefault(int(operator[t]) if operator[t] >= 0 else -1 - t, t)
    return list(found.values())


def without_measured(instance: Instance) -> Instance:
    """Return the instance without the limits that the rate measures.

    They are the capacities of the rate-driven resources and of the links, and what one task can
    use of these resources.
    """
    nodes, links, driven = instance.nodes, instance.links, list(instance.rate_driven)
    capacity = np.array(nodes.capacity)
    capacity[:, driven] = np.inf
    if instance.tasks.limited:
        most = np.array(instance.tasks.max_load)
        most[:, driven] = np.inf
        instance = instance.with_max_load(most)
    return replace(
        instance,
        nodes=replace(nodes, capacity=capacity),
        links=replace(links, capacity=np.full(len(links.ids), np.inf)),
    )


def carrying(instance: Instance, rate: float) -> Instance:
    """Return the instance in which the plans are feasible that carry so much of the current input.

    Rather than loads and traffic times the rate, what may be used beside the background is divided
    by it, and so is what one task can use; that of resources which the rate does not drive stays.
    """
    nodes, links, limits = instance.nodes, instance.links, instance.limits
    driven = np.isin(np.arange(instance.num_resources), instance.rate_driven)
    left = links.capacity * limits.max_link_utilisation - links.background
    with np.errstate(divide="ignore", invalid="ignore"):
        capacity = (instance.headroom / rate + nodes.background) / limits.max_utilisation
        most = (left / rate + links.background) / limits.max_link_utilisation
    capacity = np.where(driven & (instance.headroom > 0), capacity, nodes.capacity)
    if instance.tasks.limited:
        most_each = instance.tasks.max_load
        instance = instance.with_max_load(np.where(driven, most_each / rate, most_each))
    return replace(
        instance,
        nodes=replace(nodes, capacity=capacity),
        links=replace(links, capacity=np.where(left > 0, most, links.capacity)),
    )


SUSTAINABLE_RATE = Figure(
    "sustainable_rate",
    "sustainable rate",
    "multiple of the current input rate at which the first rate-driven resource of a node in use, "
    "the first link, or the first task (its `max_load`), is full; unknown where none ever is",
    "multiple",
    _sustained,
    sense="max",
    hard=without_measured,
    holding=carrying,
)
SATURATION = Figure(
    "saturation",
    "bottleneck",
    "the bottleneck as the input grows, and the next one: `node` and `resource`, `link`, or, where "
    "a task uses all that it can, `operator`, `task`, `resource`, how many `tasks` there are and "
    "how many twice the current input needs (`tasks_at_twice`); and the `rate` at which it is, as "
    "a multiple of the current one",
    "table",
    _saturation,
)
