"""Rules of what nodes and links carry, and one task: linear in the loads and crossing traffic.

``capacity``: background + load ≤ capacity × max_utilisation, each node and resource. Further on
``max_utilisation``, ``max_load``, ``min_load``, ``links``, ``crossing_cost`` and
``max_load_distance``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.figures.measures import least_tasks, over, slack
from optim.format.parallelism import bounds_of
from optim.rules.base import (
    Form,
    Limit,
    Rows,
    Rule,
    Violation,
    all_over,
    always,
    column_limit,
    first_of,
    labelled,
    limit_rows,
    node_load,
    node_loads,
    node_violations,
    number_limit,
    number_rule,
    terms_of,
    undecided,
    violation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats
    from optim.rules.placement import Placement

_CHUNK = 4_000_000
_NAMED = 20
ROUNDING = 1e-6
"""Part of the tolerance that is left to the referee's own rounding."""


def _present(instance: Instance) -> str | None:
    return "nodes[].capacity" if np.isfinite(instance.nodes.capacity).any() else None


def _violations(placement: Placement) -> Iterator[Violation]:
    instance = placement.instance
    available = _available(instance)
    loads = node_loads(placement, placement.loads, available)
    return node_violations(instance, "capacity", loads, available)


def _available(instance: Instance) -> Floats:
    return np.asarray(instance.nodes.capacity * instance.limits.max_utilisation)


NO_NODE = "fits no node"
"""In the remark of a violation: it is of a task that is too large for each node alone."""


def proof_slack(bound: Any) -> Any:
    """What the referee lets a load exceed a bound by, and a little more for its rounding."""
    return (1 + ROUNDING) * slack(bound)


def _most(instance: Instance) -> Floats:
    """(N, R) load that may be placed; the tolerance is that of the bound, not of what is left."""
    return instance.headroom + proof_slack(_available(instance))


def _proofs(instance: Instance) -> Iterator[Violation]:
    yield from _background(instance)
    yield from _tasks_that_fit_nowhere(instance)
    yield from _total_demand(instance)


def _background(instance: Instance) -> Iterator[Violation]:
    """A node whose background alone exceeds what may be used."""
    for n, r in np.argwhere(_most(instance) < 0):
        where = f"{instance.nodes.ids[n]}.{instance.resources[r]}"
        needed = float(instance.nodes.background[n, r])
        most = needed + float(instance.headroom[n, r])
        yield violation("capacity", where, needed, most, "background")


def _tasks_that_fit_nowhere(instance: Instance) -> Iterator[Violation]:
    """A task that no node it may use could hold even if it were alone there."""
    restricted = np.zeros(instance.num_tasks, dtype=np.bool_)
    restricted[instance.tasks.restricted] = True
    free = np.flatnonzero(~restricted)
    most = _most(instance)
    # nearly all fit a node with the most room for some resource; of the others nodes with equal
    # room are asked once, and equal loads once
    for n in np.unique(np.argsort(most, axis=0)[-1:]):
        free = free[~_fits(instance.tasks.load[free], most[n])]
    rooms = np.unique(most, axis=0)
    loads, which = np.unique(instance.tasks.load[free], axis=0, return_inverse=True)
    fits_nowhere = np.zeros(len(loads), dtype=np.bool_)
    step = max(1, _CHUNK // max(1, rooms.size))
    for start in range(0, len(loads), step):
        part = loads[start : start + step, None, :]
        fits_nowhere[start : start + step] = ~_fits(part, rooms[None, :, :]).any(axis=1)
    misfits = free[fits_nowhere[which.reshape(-1)]].tolist()
    misfits += _restricted_that_fit_nowhere(instance, most)
    for task in misfits[:_NAMED]:
        yield _nearest_miss(instance, task)
    if len(misfits) > _NAMED:
        count = len(misfits) - _NAMED
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
    misfits: list[int] = table.restricted[~table.any_allowed(fits)].tolist()
    return misfits


def _fits(load: Floats, most: Floats) -> Bools:
    """Whether loads (…, R) keep what may be placed (…, R) on every resource."""
    return np.asarray((load <= most).all(axis=-1))


def _nearest_miss(instance: Instance, task: int) -> Violation:
    """Name the node that comes nearest to holding the task, and the resource it lacks most."""
    nodes = np.flatnonzero(instance.allowed_mask(task))
    load = instance.tasks.load[task]
    shortage = load - instance.headroom[nodes]
    nearest = int(np.argmin(shortage.max(axis=1)))
    r = int(np.argmax(shortage[nearest]))
    remark = f"{NO_NODE}; nearest {instance.nodes.ids[nodes[nearest]]}"
    where = f"{instance.tasks.ids[task]}.{instance.resources[r]}"
    return violation("capacity", where, load[r], instance.headroom[nodes[nearest], r], remark)


def _total_demand(instance: Instance) -> Iterator[Violation]:
    """More load of a resource than all nodes together may take."""
    # the tolerance twice: once each node's own, once for sums over many tasks
    twice = _most(instance) + proof_slack(_available(instance))
    most = np.maximum(twice, 0.0).sum(axis=0)
    room = np.maximum(instance.headroom, 0.0).sum(axis=0)
    for r in np.flatnonzero(instance.total_load > most):
        where = f"all nodes.{instance.resources[r]}"
        yield violation("capacity", where, instance.total_load[r], room[r])


_CAPACITIES = column_limit(
    "nodes",
    "capacity",
    lambda nodes: np.isfinite(nodes.capacity),
    np.inf,
    share=lambda instance: instance.limits.max_utilisation,
    unit="load",
)
CAPACITY = Rule(
    name="capacity",
    field="nodes[].capacity",
    form=Form.NODE_CAPACITY,
    present=_present,
    dropped=all_over("nodes", capacity=np.inf),
    violations=_violations,
    proofs=_proofs,
    repairable=True,
    rows=(limit_rows(_CAPACITIES, lambda placement: placement.loads, any_limit=True),),
    limits=(_CAPACITIES,),
)


# ``max_utilisation``: the share of capacities, of nodes and links, that may be used.
#
# What exceeds it is reported as a violation of the capacity; dropping it leaves the capacities
# whole.


MAX_UTILISATION = Rule(
    name="max_utilisation",
    field="limits.max_utilisation",
    form=Form.SHARE,
    present=lambda instance: None,  # methods that keep capacities keep shares of them
    dropped=lambda instance: instance.with_values(
        "limits", max_utilisation=np.ones(instance.num_resources), max_link_utilisation=1.0
    ),
)


# ``max_load``: what one task can use of a resource, wherever it runs: it is one thread.
#
# No placement changes it, so that it is satisfied by all or by none; what breaks it is a proof that
# no plan exists. Tasks that differ in nothing else are equal: whether they are exchanged matters to
# nothing.


def _max_load_present(instance: Instance) -> str | None:
    tasks = instance.tasks
    if not tasks.limited:
        return None
    first = int(np.flatnonzero(np.isfinite(tasks.max_load).any(axis=1))[0])
    return f"max_load (of {tasks.ids[first]})"


def above(instance: Instance) -> list[tuple[int, int]]:
    """Return (task, resource) above what the task can use: of each operator the one most above."""
    tasks = instance.tasks
    if not tasks.limited:
        return []
    excess = np.where(over(tasks.load, tasks.max_load), tasks.load - tasks.max_load, 0.0)
    worst: dict[tuple[int, int], int] = {}
    for t, r in np.argwhere(excess > 0).tolist():
        o = int(tasks.operator[t])
        key = (o if o >= 0 else -1 - t, r)
        if excess[t, r] > excess[worst.setdefault(key, t), r]:
            worst[key] = t
    return [(t, r) for (_, r), t in worst.items()]


def _violations_of_tasks(instance: Instance) -> Iterator[Violation]:
    """The task of each operator that is most above what it can use, and the remedy."""
    tasks = instance.tasks
    for t, r in above(instance):
        where, remark = f"{tasks.ids[t]}.{instance.resources[r]}", _remedy(instance, t, r)
        yield violation("max_load", where, tasks.load[t, r], tasks.max_load[t, r], remark)


def _limit(instance: Instance) -> Floats:
    return np.broadcast_to(instance.tasks.max_load, instance.tasks.load.shape)


def _max_load_loosened(
    instance: Instance, mask: Bools, value: Floats, placement: Placement | None
) -> Instance:
    return instance.with_max_load(np.where(mask, value, _limit(instance)))


def _remedy(instance: Instance, task: int, resource: int) -> str:
    operator = int(instance.tasks.operator[task])
    count, least = least_tasks(instance, task, resource)
    if least is None and not float(instance.tasks.max_load[task, resource]) > 0:
        return "it can use none"
    if resource not in instance.rate_driven:
        return "the input does not drive it: each task needs it in full, however many there are"
    if least is None:
        return f"{instance.operators.ids[operator]} has too few key_groups for any number of tasks"
    if operator < 0:
        return f"it is one task; needs at least {least}"
    now = f"{instance.operators.ids[operator]} has {count} task" + "s" * (count != 1)
    if least <= count:
        return f"{now}, enough if they shared its load evenly"
    most = bounds_of(instance, operator)[1]
    bound = f", above its max_parallelism of {most}" if most is not None and least > most else ""
    return f"{now}; needs at least {least}{bound}"


MAX_LOAD = Rule(
    name="max_load",
    field="tasks[].max_load",
    form=Form.TASK,
    present=_max_load_present,
    dropped=lambda instance: instance.with_max_load(np.full((1, 1), np.inf)),
    violations=lambda placement: _violations_of_tasks(placement.instance),
    proofs=_violations_of_tasks,
    rows=(Rows(lambda placement: placement.instance.tasks.load, _limit, _max_load_loosened),),
)


# ``min_load``: background + load ≥ min_load on every staying node, an empty one too.


def _least(instance: Instance) -> Floats:
    """(N, R) least load; 0 on leaving nodes."""
    return np.where(instance.open_nodes[:, None], instance.nodes.min_load, 0.0)


def _min_load_violations(placement: Placement) -> Iterator[Violation]:
    instance, least = placement.instance, _least(placement.instance)
    loads = node_loads(placement, least, placement.loads)
    for n, r in np.argwhere(over(least, loads)):
        where = f"{instance.nodes.ids[n]}.{instance.resources[r]}"
        yield violation("min_load", where, least[n, r], loads[n, r])


def _min_load_proofs(instance: Instance) -> Iterator[Violation]:
    """Lower load bounds that all load together cannot reach."""
    least = _least(instance)
    # what crosses nodes loads them, too: at most all traffic
    most = instance.total_load + instance.total_traffic * instance.crossing_cost.sum(axis=0)
    missing = np.maximum(least - instance.nodes.background, 0.0).sum(axis=0)
    short = least - 2 * proof_slack(least) - instance.nodes.background
    proven = np.maximum(short, 0.0).sum(axis=0)
    for r in np.flatnonzero(proven > most):
        where = f"all nodes.{instance.resources[r]}"
        yield violation("min_load", where, missing[r], most[r])


_LEAST_LOADS = Limit(
    "min_load",
    "nodes",
    lambda instance: instance.nodes.min_load,
    lambda instance: _least(instance) > 0,
    lambda instance, values: instance.with_values("nodes", min_load=values),
    unset=0.0,
    least=always,
    lowest=0.0,
    unit="load",
)
MIN_LOAD = Rule(
    name="min_load",
    field="nodes[].min_load",
    form=Form.NODE_FLOOR,
    present=first_of("nodes", "nodes[].min_load", lambda of: (of.min_load > 0).any(axis=1)),
    dropped=all_over("nodes", min_load=0.0),
    violations=_min_load_violations,
    proofs=_min_load_proofs,
    repairable=True,
    rows=(limit_rows(_LEAST_LOADS, lambda placement: -placement.loads, any_limit=True),),
    limits=(_LEAST_LOADS,),
)


# ``links``: background + crossing traffic ≤ capacity × max_utilisation.links, each link.


def _links_present(instance: Instance) -> str | None:
    return "links[].capacity" if np.isfinite(instance.links.capacity).any() else None


def _links_available(instance: Instance) -> Floats:
    return np.asarray(instance.links.capacity * instance.limits.max_link_utilisation)


def _links_violations(placement: Placement) -> Iterator[Violation]:
    instance = placement.instance
    if not instance.links.ids:
        return
    # sums are added up anew, exactly, only where rounding could decide
    loads, available = np.array(placement.crossing), _links_available(instance)
    for i in np.flatnonzero(undecided(loads, available, terms_of(instance))):
        loads[i] = _added_up(placement, int(i))
    for i in np.flatnonzero(over(loads, available)):
        yield violation("links", instance.links.ids[i], loads[i], available[i])


def _added_up(placement: Placement, link: int) -> float:
    """Return the load of a link, correctly rounded."""
    links = placement.instance.links
    flows, count = placement.instance.flows, placement.instance.num_nodes
    source, target, rate = flows.directed()
    listed = links.node_indices[links.node_indptr[link] : links.node_indptr[link + 1]]
    inside = np.append(np.isin(np.arange(count), listed), False)
    out, into = inside[placement.node[source]], inside[placement.node[target]]
    both = (placement.node[source] >= 0) & (placement.node[target] >= 0)
    counts = (out & ~into & (links.direction[link] != 2)) | (
        into & ~out & (links.direction[link] != 1)
    )
    leaves, enters = flows.local_crossing(placement.node, count, inside[:-1].astype(np.int32), 2)
    also = [leaves[1] * (links.direction[link] != 2), enters[1] * (links.direction[link] != 1)]
    return math.fsum([*rate[counts & both], *also, float(links.background[link])])


def _links_proofs(instance: Instance) -> Iterator[Violation]:
    """A link whose background alone exceeds what may be used."""
    room, background = _links_available(instance), instance.links.background
    least = background - proof_slack(room)
    for i in np.flatnonzero(least > room):
        yield violation("links", instance.links.ids[i], background[i], room[i], "background")


def _sent(instance: Instance) -> Floats:
    """(T,) what tasks send, as a share of the most: it distinguishes those that exchange as much.

    What leaves some nodes is what their tasks send less what stays among them, in both directions.
    """
    source, _, rate = instance.flows.directed()
    sent = np.bincount(source, rate, instance.num_tasks)
    return np.round(sent / max(float(sent.max(initial=0.0)), 1e-300), 12)


def _links_task_key(instance: Instance) -> Floats | None:
    links = instance.links
    one_way = (np.isfinite(links.capacity) & (links.direction != 0)).any()
    return _sent(instance) if one_way else None


def _node_key(instance: Instance) -> NDArray[np.int64]:
    """Nodes behind the same links are equal, and nodes with an equal link of their own."""
    links = instance.links
    behind: list[list[object]] = [[] for _ in range(instance.num_nodes)]
    for i in np.flatnonzero(np.isfinite(links.capacity)).tolist():
        nodes = links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]].tolist()
        link_key = (links.capacity[i], links.background[i], int(links.direction[i]))
        for n in nodes:
            behind[n].append(link_key if len(nodes) == 1 else (i,))
    return labelled(tuple(sorted(some, key=repr)) for some in behind)


_LINK_CAPACITIES = Limit(
    "links",
    "links",
    lambda instance: instance.links.capacity,
    lambda instance: np.isfinite(instance.links.capacity),
    lambda instance, values: instance.with_values("links", capacity=values),
    share=lambda instance: instance.limits.max_link_utilisation,
    unit="rate",
)
LINKS = Rule(
    name="links",
    field="links[].capacity",
    form=Form.LINK_CAPACITY,
    present=_links_present,
    dropped=all_over("links", capacity=np.inf),
    violations=_links_violations,
    proofs=_links_proofs,
    task_key=_links_task_key,
    node_key=_node_key,
    rows=(limit_rows(_LINK_CAPACITIES, lambda placement: placement.crossing, any_limit=True),),
    limits=(_LINK_CAPACITIES,),
)


# ``crossing_cost``: what crosses nodes loads them; no limit of its own, but a part of all loads.
#
# Capacity, least loads and load distance are of loads that depend on who is with whom. Engines that
# add up the loads of tasks alone do not see that, and refuse.


def _crossing_cost_present(instance: Instance) -> str | None:
    if not instance.crossing_cost.any():
        return None
    resource = int(np.flatnonzero(instance.crossing_cost.any(axis=0))[0])
    return f"crossing_cost (of {instance.resources[resource]})"


def _crossing_cost_task_key(instance: Instance) -> Floats | None:
    out, into = instance.crossing_cost
    return None if (out == into).all() else _sent(instance)


CROSSING_COST = Rule(
    name="crossing_cost",
    field="crossing_cost",
    form=Form.CROSSING,
    present=_crossing_cost_present,
    dropped=lambda instance: replace(instance, crossing_cost=np.zeros_like(instance.crossing_cost)),
    task_key=_crossing_cost_task_key,
)


# ``max_load_distance``: the load distance of a plan keeps below a bound.


def _max_load_distance_violations(placement: Placement) -> Iterator[Violation]:
    """Load ≤ due + limit on every node, due ≤ load + limit on those that stay."""
    instance, distance = placement.instance, placement.distance
    limit = instance.limits.max_load_distance
    if limit is None or distance is None:
        return
    load, terms = placement.loads[:, 0], terms_of(instance) + 2 * instance.num_nodes
    due, stay = _due(instance, load), instance.open_nodes
    near = undecided(load, due + limit, terms) | undecided(due, load + limit, terms)
    if near.any():
        load = np.array([node_load(placement, n, 0) for n in range(instance.num_nodes)])
        due = _due(instance, load)
    if over(load, due + limit).any() or over(due, load + limit)[stay].any():
        yield violation("max_load_distance", "limits", distance, limit)


def _due(instance: Instance, load: Floats) -> Floats:
    """(N,) share of all load that each node is due by its weight."""
    weight = instance.nodes.weight
    return np.asarray(weight * (math.fsum(load) / math.fsum(weight[instance.open_nodes])))


def _value(placement: Placement) -> Floats:
    return np.array(-np.inf if placement.distance is None else placement.distance)


def _max_load_distance_node_key(instance: Instance) -> Floats:
    nodes = instance.nodes
    return np.column_stack([nodes.weight, nodes.background[:, 0], nodes.leaving])


_FARTHEST = number_limit("max_load_distance", unit="resource")
MAX_LOAD_DISTANCE = number_rule(
    _FARTHEST,
    Form.DISTANCE,
    violations=_max_load_distance_violations,
    node_key=_max_load_distance_node_key,
    rows=(limit_rows(_FARTHEST, _value, any_limit=True),),
)


def _max_tasks_violations(placement: Placement) -> Iterator[Violation]:
    instance, most = placement.instance, placement.instance.nodes.max_tasks
    if (most < 0).all():
        return
    counts = placement.counts
    for n in np.flatnonzero((most >= 0) & (counts > most)):
        yield violation("max_tasks", instance.nodes.ids[n], counts[n], most[n])


def _max_tasks_proofs(instance: Instance) -> Iterator[Violation]:
    most = instance.nodes.max_tasks
    if (most >= 0).all() and instance.num_tasks > most.sum():
        yield violation("max_tasks", "all nodes", instance.num_tasks, most.sum())


_MOST_TASKS = column_limit("nodes", "max_tasks", lambda of: of.max_tasks >= 0, -1, whole=True)
MAX_TASKS = Rule(
    name="max_tasks",
    field="nodes[].max_tasks",
    form=Form.TASK_COUNT,
    present=first_of("nodes", "nodes[].max_tasks", lambda of: of.max_tasks >= 0),
    dropped=all_over("nodes", max_tasks=-1),
    violations=_max_tasks_violations,
    proofs=_max_tasks_proofs,
    repairable=True,
    node_key=lambda instance: instance.nodes.max_tasks,
    rows=(limit_rows(_MOST_TASKS, lambda placement: placement.counts, any_limit=True),),
    limits=(_MOST_TASKS,),
)


def _local_first_present(instance: Instance) -> str | None:
    some = any(stream.pattern == "local_first" for stream in instance.streams)
    if not some or not instance.flows.local:
        return None
    targets = instance.flows.local[0].targets
    ids, end = instance.operators.ids, int(instance.tasks.operator[targets[0]])
    return f"streams[].pattern = local_first (to {ids[end]})"


def _sent_over_links(instance: Instance) -> str | None:
    words = _local_first_present(instance)
    if words is None:
        return None
    if instance.crossing_cost.any():
        return f"{words} with crossing_cost"
    return f"{words} with links[].capacity" if np.isfinite(instance.links.capacity).any() else None


def _local_first_dropped(instance: Instance) -> Instance:
    streams = tuple(
        stream._replace(pattern="full", sender_weights=None)
        if stream.pattern == "local_first"
        else stream
        for stream in instance.streams
    )
    return replace(instance, streams=streams)


def refuse_local_first(instance: Instance, cause: str) -> None:
    """Refuse an instance with such streams, for what knows pairs of tasks only.

    Raises `InvalidInput`: with why that is.
    """
    words = _local_first_present(instance)
    if words is not None:
        reason = f"sends to whoever is near, and {cause}"
        raise InvalidInput(Problem(words, None, reason, "give the stream another pattern"))


LOCAL_FIRST = Rule(
    name="local_first",
    field="streams[].pattern",
    form=Form.LOCAL_FIRST,
    present=_local_first_present,
    dropped=_local_first_dropped,
)
LOCAL_FIRST_LINKS = Rule(
    name="local_first_links",
    field="streams[].pattern",
    form=Form.LOCAL_FIRST_LINKS,
    present=_sent_over_links,
    dropped=_local_first_dropped,
    node_key=lambda instance: instance.nodes.rack,
)
