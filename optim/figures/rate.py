"""How much input a placement carries, and what gives way first.

Loads and rates of an instance hold at its current input. With the input multiplied, the rate-driven
resources and the links grow with it; slots, memory and state do not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.figure import Figure
from optim.figures.measures import Placement, least_tasks
from optim.util.tolerance import over, slack

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints


_NAMED = 2


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
    lambda placement: placement.rate if np.isfinite(placement.rate) else None,
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


# What a placement still carries when any one node is lost.
#
# The tasks of the lost node start again elsewhere, the others stay. They are put one by one, the
# heaviest first, each on the node where the fullest rate-driven resource is least full with it, by
# the loads alone: among nodes that stay, that it may use, and where the resources that do not grow
# with the rate and `max_tasks` leave room. Traffic is not looked at when they are put, nor are
# sets, slots and budgets of moves; what crosses nodes and links afterwards counts in full.


def heaviest_first(instance: Instance) -> Ints:
    """(T,) tasks by the greatest share that one has of a rate-driven resource's load."""
    driven = list(instance.rate_driven)
    load, total = instance.tasks.load[:, driven], instance.total_load[driven]
    share = np.divide(load, total, out=np.zeros_like(load), where=total > 0).max(axis=1)
    return np.asarray(np.argsort(-np.round(share, 12), kind="stable"))


def spare_room(instance: Instance) -> Floats:
    """(N, R) headroom; with the tolerance where the rate does not drive a resource."""
    room = instance.headroom + slack(instance.nodes.capacity * instance.limits.max_utilisation)
    driven = list(instance.rate_driven)
    room[:, driven] = np.maximum(instance.headroom[:, driven], 0.0)
    return np.asarray(room)


def saturating_room(instance: Instance) -> tuple[Floats, Bools]:
    """(N, R) load that saturates, ``inf`` where none does; (N,) nodes where all is too much."""
    driven = list(instance.rate_driven)
    room = np.full((instance.num_nodes, instance.num_resources), np.inf)
    room[:, driven] = np.maximum(instance.headroom[:, driven], 0.0)
    most = (instance.nodes.capacity * instance.limits.max_utilisation)[:, driven]
    return room, np.asarray(over(instance.nodes.background[:, driven], most).any(axis=1))


def after_loss(instance: Instance, node: Ints, lost: int) -> Ints | None:
    """Return the placement after the loss of a node; ``None`` where a task finds no place."""
    return restarted(instance, np.where(node == lost, -1, node), lost)


def restarted(instance: Instance, node: Ints, lost: int = -1) -> Ints | None:
    """Return the placement whose tasks without a node have started again; ``None`` as above.

    Parameters
    ----------
    lost
        A node that holds none of them.
    """
    at, driven = np.array(node, dtype=np.int32), list(instance.rate_driven)
    count, room, placed = instance.num_nodes, spare_room(instance), node >= 0
    others = np.setdiff1d(np.arange(instance.num_resources), driven)
    used = np.stack(
        [np.bincount(at[placed], load, count) for load in instance.tasks.load[placed].T], axis=1
    )
    held = np.bincount(at[placed], minlength=count)
    most = np.where(instance.nodes.max_tasks >= 0, instance.nodes.max_tasks, np.inf)
    staying = instance.open_nodes & (np.arange(count) != lost)
    order = heaviest_first(instance)
    for t in order[~placed[order]].tolist():
        with_it = used + instance.tasks.load[t]
        fits = staying & instance.allowed_mask(t) & (held < most)
        fits &= (with_it[:, others] <= room[:, others]).all(axis=1)
        if not fits.any():
            return None
        need = with_it[:, driven]
        share = np.where(need > 0, np.inf, 0.0)
        np.divide(need, room[:, driven], out=share, where=(need > 0) & (room[:, driven] > 0))
        n = int(np.argmin(np.where(fits, np.round(share.max(axis=1), 9), np.inf)))
        n = n if fits[n] else int(np.argmax(fits))
        at[t] = n
        used[n], held[n] = with_it[n], held[n] + 1
    return at


def _worst(placement: Placement) -> float | None:
    instance, node = placement.instance, placement.node
    if not len(node) or node.min() < 0:
        return None
    worst = np.inf
    for lost in range(instance.num_nodes):
        after = after_loss(instance, node, lost) if placement.used[lost] else node
        if after is None:
            return 0.0
        worst = min(worst, Placement(instance, after).rate)
    return float(worst) if np.isfinite(worst) else None


RATE_AFTER_LOSS = Figure(
    "rate_after_loss",
    "rate after a loss",
    "sustainable rate that is left whichever single node is lost: its tasks start again, the "
    "heaviest first, each where the loads leave it most room, the others stay; 0 where one finds "
    "no place. Reckoned only where it is what is optimised",
    "multiple",
    _worst,
    sense="max",
    of_staying=True,
    hard=without_measured,
    costly=True,
)
