"""Figures of load: how far nodes are from their share of it, and how full they are."""

from __future__ import annotations

from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.figure import Figure
from optim.figures.measures import Placement, least_tasks, over, slack

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints


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
    shares: dict[str, dict[str, float]] = {}
    for r, name in enumerate(instance.resources):
        load = np.bincount(slots.index, instance.tasks.load[slots.placed, r], minlength=len(slots))
        capacity = instance.nodes.slot_capacity[slots.node, r]
        for k in np.flatnonzero(np.isfinite(capacity) & (capacity > 0)):
            label = f"{instance.nodes.ids[slots.node[k]]}#{slots.number[k]}"
            shares.setdefault(label, {})[name] = float(load[k] / capacity[k])
    return shares or None


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
    shares = placement.shares[np.isfinite(placement.shares)]
    return float(shares.max()) if len(shares) else None


def _from_mean(share: Floats) -> Floats:
    """Return shares less their mean; what rounding alone makes is 0, or an even plan has a gap."""
    distance = share - share.mean()
    distance[np.abs(distance) <= len(share) * np.finfo(float).eps * np.abs(share).max()] = 0.0
    return distance


def _deviations(placement: Placement) -> dict[str, float] | None:
    deviations = {}
    for r, name in enumerate(placement.instance.resources):
        share = _staying(placement, r)
        if len(share):
            deviations[name] = float(np.sqrt((_from_mean(share) ** 2).sum()))
    return deviations or None


def _first_deviation(placement: Placement) -> float | None:
    return next(iter((_deviations(placement) or {}).values()), None)


def _resource_deviation(placement: Placement) -> float | None:
    nodes, links = _first_deviation(placement), _link_shares(placement)
    if nodes is None or not links:
        return None
    share = np.array(list(links.values()))
    return float(np.sqrt(nodes**2 + (_from_mean(share) ** 2).sum()))


def _mean_deviation(placement: Placement) -> float | None:
    share = _staying(placement, 0)
    return float(np.abs(_from_mean(share)).mean()) if len(share) else None


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
    limit_now = instance.limits.max_load_distance
    least = value if limit_now is None else min(value, limit_now)
    return instance.with_values("limits", max_load_distance=least)


LOAD_DISTANCE = Figure(
    "load_distance",
    "load distance",
    "greatest distance of a node from its share of the load, in units of the first resource",
    "resource",
    lambda placement: placement.distance,
    sense="min",
    local_first=True,
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
    local_first=True,
)
MAX_LINK_UTILISATION = Figure(
    "max_link_utilisation",
    "highest utilisation of a link",
    "greatest utilisation of a link",
    "share",
    lambda placement: max((_link_shares(placement) or {}).values(), default=None),
    sense="min",
    local_first=True,
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
    local_first=True,
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
    local_first=True,
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
    local_first=True,
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
    local_first=True,
    quiet=True,
)
USED_CAPACITY = Figure(
    "used_capacity",
    "capacity in use",
    "capacity of the first resource on the nodes in use, as a share of all nodes' capacity",
    "share",
    _used_capacity,
    sense="min",
    local_first=True,
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
    tasks_by_reason = dict.fromkeys(reasons, 0)
    for reason in reasons:
        tasks_by_reason[reason] += 1
    return {
        "count": len(tasks),
        "nodes": [instance.nodes.ids[n] for n in np.unique(placement.node[tasks])],
        "why": tasks_by_reason,
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


# How much input a placement carries, and what gives way first.
#
# Loads and rates of an instance hold at its current input. With the input multiplied, the
# rate-driven resources and the links grow with it; slots, memory and state do not.

_SATURATED = 2


def _saturation(placement: Placement) -> list[dict[str, Any]] | None:
    """Name what is the bottleneck, and the next one: of a node, or an operator, that with the least
    rate.
    """
    instance, driven = placement.instance, placement.instance.rate_driven
    bottlenecks: list[dict[str, Any]] = []
    for t in _first_threads(placement):
        r, o = driven[int(instance.thread_rates[t].argmin())], int(instance.tasks.operator[t])
        where = {"task": instance.tasks.ids[t], "resource": instance.resources[r]}
        place = {"operator": instance.operators.ids[o], **where} if o >= 0 else where
        count, twice = least_tasks(instance, t, r, 2.0)
        rate = float(placement.thread_rates[t])
        bottlenecks.append({**place, "rate": rate, "tasks": count, "tasks_at_twice": twice})
    rates = np.concatenate([placement.node_rates.min(axis=1, initial=np.inf), placement.link_rates])
    for i in np.argsort(rates, kind="stable")[:_SATURATED].tolist():
        if not np.isfinite(rates[i]):
            break
        if i < instance.num_nodes:
            r = driven[int(placement.node_rates[i].argmin())]
            where = {"node": instance.nodes.ids[i], "resource": instance.resources[r]}
        else:
            where = {"link": instance.links.ids[i - instance.num_nodes]}
        bottlenecks.append({**where, "rate": float(rates[i])})
    return sorted(bottlenecks, key=lambda entry: entry["rate"])[:_SATURATED] or None


def _first_threads(placement: Placement) -> list[int]:
    """Return the tasks that reach their capacity first and next, of any one operator the first
    alone.
    """
    rates, first_task = placement.thread_rates, dict[int, int]()
    if not len(rates):
        return []
    # of equal rates the first task; a task without an operator stands for itself
    operator = placement.instance.tasks.operator
    for t in np.argsort(rates, kind="stable").tolist():
        if len(first_task) == _SATURATED or not np.isfinite(rates[t]):
            break
        first_task.setdefault(int(operator[t]) if operator[t] >= 0 else -1 - t, t)
    return list(first_task.values())


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
        # background + rate · load <= capacity · u is load <= (capacity · u - background) / rate
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
    local_first=True,
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

    `lost`: a node that holds none of them.
    """
    at, driven = np.array(node, dtype=np.int32), list(instance.rate_driven)
    count, room, placed = instance.num_nodes, spare_room(instance), node >= 0
    others = np.setdiff1d(np.arange(instance.num_resources), driven)
    used = np.stack(
        [np.bincount(at[placed], load, count) for load in instance.tasks.load[placed].T], axis=1
    )
    num_tasks = np.bincount(at[placed], minlength=count)
    most = np.where(instance.nodes.max_tasks >= 0, instance.nodes.max_tasks, np.inf)
    staying = instance.open_nodes & (np.arange(count) != lost)
    order = heaviest_first(instance)
    for t in order[~placed[order]].tolist():
        with_it = used + instance.tasks.load[t]
        fits = staying & instance.allowed_mask(t) & (num_tasks < most)
        fits &= (with_it[:, others] <= room[:, others]).all(axis=1)
        if not fits.any():
            return None
        need = with_it[:, driven]
        share = np.where(need > 0, np.inf, 0.0)
        np.divide(need, room[:, driven], out=share, where=(need > 0) & (room[:, driven] > 0))
        # nine digits, so that sums in another order choose the same node
        n = int(np.argmin(np.where(fits, np.round(share.max(axis=1), 9), np.inf)))
        n = n if fits[n] else int(np.argmax(fits))
        at[t] = n
        used[n], num_tasks[n] = with_it[n], num_tasks[n] + 1
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
    local_first=True,
    of_staying=True,
    hard=without_measured,
    costly=True,
)
