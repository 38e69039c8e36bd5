"""The paper's view of an instance: groups of equal tasks, traffic between groups, nodes with room.

Source: Chatzistergiou and Viglas, CIKM 2014, section 2.1 (groups, Eq. 1) and section 5 (a group
whose tasks differ is cut into groups of equal ones).

The relaxations of section 5 of the CIKM 2014 paper are a step each. *Granularity*: tasks of all
groups are recut to one size, the greatest common divisor of group costs and node capacities, so
that they fill nodes exactly. This makes another instance, with another number of tasks a group.
*Capacity normalisation* and *even groups* change only what the algorithms see of an instance: nodes
as whole multiples of the weakest one, and groups of unlike tasks as groups of nearly like ones.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.format.traffic import MAX_PAIRS
from optim.kernels.place_rules import placing_room, restriction_kinds
from optim.methods.registry import Option, Outcome, Request
from optim.referee import Termination

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints

NO_RESTRICTION = np.zeros((0, 0), dtype=np.bool_)
"""Stands for "every group may go everywhere" in the kernels."""


@dataclass(frozen=True, eq=False)
class GroupedJob:
    """What the group-aware algorithms work on."""

    size: NDArray[np.int64]  # (G,) tasks in each group.
    load: Floats  # (G, R) load of one task of each group.
    #: Tasks of each group by increasing index, CSR form.
    member_indptr: NDArray[np.int64]
    members: NDArray[np.int64]
    #: (M,) the nodes that may be used (leaving ones are not); all node indices below count these.
    nodes: NDArray[np.int64]
    room: Floats  # (M, R) what may be placed on each (`optim.kernels.place_rules.placing_room`).
    allowed: Bools  # (G, M) where each group may go, or shape (0, 0) for everywhere.
    #: (E,) group pairs u < v and the traffic between them, both directions together.
    edge_u: NDArray[np.int64]
    edge_v: NDArray[np.int64]
    edge_rate: Floats

    @property
    def num_groups(self) -> int:
        """G."""
        return len(self.size)

    @property
    def group_load(self) -> Floats:
        """(G,) processing cost of each whole group: load of the first resource."""
        return self.size * self.load[:, 0]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What the published allocators are compiled for: groups, room and pairs of groups."""
        return self.size, self.load, self.room, self.allowed, self.edge_u, self.edge_v

    def priority(self, rule: str) -> NDArray[np.int64]:
        """Return the pairs, most urgent first; ties by group index.

        `rule`: ``imc``: by traffic. ``significance``: by Eq. 2, traffic per unit of processing cost
            of both groups. ``task_imc``: by traffic of one task pair.
        """
        return stable_descending(self.urgency(rule))

    def urgency(self, rule: str) -> Floats:
        """(E,) the figure that `priority` orders by."""
        rate, u, v = self.edge_rate, self.edge_u, self.edge_v
        if rule == "imc":
            return rate
        if rule == "task_imc":
            return rate / (self.size[u] * self.size[v])
        cost = self.group_load[u] + self.group_load[v]
        return np.divide(rate, cost, out=np.full(len(rate), np.inf), where=cost > 0)

    def to_tasks(self, node_of_member: NDArray[np.int64]) -> NDArray[np.int32]:
        """Turn node positions of the tasks in group order (-1 unplaced) into (T,) node indices."""
        placed = np.full(len(self.members), -1, dtype=np.int32)
        has_node = node_of_member >= 0
        placed[self.members[has_node]] = self.nodes[node_of_member[has_node]]
        return placed

    def spread(
        self, group: NDArray[np.int64], node: NDArray[np.int64], count: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Hand out splits (group, node position, count) to the tasks of the groups, in order.

        Returns (T,) node index of each task; -1 for those that no split covers.
        """
        by_group = np.argsort(group, kind="stable")
        owner = np.repeat(group[by_group], count[by_group])
        target = np.repeat(node[by_group], count[by_group])
        first = np.searchsorted(owner, np.arange(self.num_groups))
        within = np.arange(len(owner)) - first[owner]
        positions = np.full(len(self.members), -1, dtype=np.int64)
        positions[self.member_indptr[owner] + within] = target
        return self.to_tasks(positions)


def stable_descending(key: Floats) -> NDArray[np.int64]:
    """Order by decreasing key; equal up to rounding (1e-12 of the largest) means tied, by index."""
    finite = np.isfinite(key)
    largest = np.abs(key[finite]).max(initial=0.0)
    scaled = key.copy()
    if largest > 0:
        # sums in another order differ in the last digits, and must not change the order
        scaled[finite] = np.round(key[finite] / largest, 12)
    return np.argsort(-scaled, kind="stable")


def grouped_job(instance: Instance, *, margin: float = 0.0, normalise: bool = False) -> GroupedJob:
    """Derive groups, group traffic and room from an instance.

    A group is an operator; where an operator's tasks differ in load or in allowed nodes, each kind
    of them is a group of its own. A task without an operator is a group of one.

    `margin`: loads of tasks of one group may differ by this share; the greatest counts for all
        (`heuristics.task_allocation.groups.even_kinds`).
    `normalise`: take nodes as whole multiples of the weakest.
    Raises `InvalidInput`: streams between unlike tasks make more pairs of groups than
        `optim.format.traffic.MAX_PAIRS`.
    """
    loads = instance.tasks.load if margin == 0 else _levelled_loads(instance, margin)
    group, size = _group_of_tasks(instance, loads)
    members = np.argsort(group, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(size)])
    first = members[indptr[:-1]]
    nodes = np.flatnonzero(instance.open_nodes)
    room = placing_room(instance)[nodes]
    edge_u, edge_v, edge_rate = _group_traffic(instance, group, len(size))
    return GroupedJob(
        size=size,
        load=np.ascontiguousarray(loads[first]),
        member_indptr=indptr,
        members=members,
        nodes=nodes,
        room=np.ascontiguousarray(normalised_room(room) if normalise else room),
        allowed=_allowed(instance, first, nodes),
        edge_u=edge_u,
        edge_v=edge_v,
        edge_rate=edge_rate,
    )


def _levelled_loads(instance: Instance, margin: float) -> Floats:
    """(T, R) loads, within each operator raised to the greatest of nearly equal ones."""
    loads = np.array(instance.tasks.load)
    for operator in range(instance.num_operators):
        tasks = instance.tasks_of(operator)
        kind, largest = even_kinds(loads[tasks], margin)
        loads[tasks] = largest[kind]
    return loads


def _group_of_tasks(
    instance: Instance, loads: Floats
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(T,) group of each task, numbered by first task; (G,) sizes."""
    tasks = instance.tasks
    operator = tasks.operator.astype(np.int64)
    alone = operator < 0
    operator[alone] = instance.num_operators + np.flatnonzero(alone)
    columns: list[Any] = [operator, restriction_kinds(instance)[0]]
    for resource in range(instance.num_resources):
        columns.append(np.unique(loads[:, resource], return_inverse=True)[1])
    kinds, kind = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    first = np.full(len(kinds), instance.num_tasks)
    np.minimum.at(first, kind, np.arange(instance.num_tasks))
    rank = np.empty(len(kinds), dtype=np.int64)
    # groups are numbered by their first task
    rank[np.argsort(first)] = np.arange(len(kinds))
    group = rank[kind]
    return group, np.bincount(group, minlength=len(kinds))


def _allowed(instance: Instance, first: NDArray[np.int64], nodes: NDArray[np.int64]) -> Bools:
    if not len(instance.tasks.restricted):
        return NO_RESTRICTION
    mask = np.ones((len(first), len(nodes)), dtype=np.bool_)
    for group in np.flatnonzero(np.isin(first, instance.tasks.restricted)):
        mask[group] = instance.allowed_mask(int(first[group]))[nodes]
    return mask


def _group_traffic(
    instance: Instance, group: NDArray[np.int64], num_groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Traffic between different groups: (E,) u < v sorted, and their rates."""
    flows = instance.flows
    source, target = [group[flows.source]], [group[flows.target]]
    rate: list[Any] = [flows.rate]
    count = len(flows.rate)
    for block in flows.blocks:
        senders, num_senders = np.unique(group[block.sources], return_counts=True)
        receivers, num_receivers = np.unique(group[block.targets], return_counts=True)
        count += len(senders) * len(receivers)
        if count > MAX_PAIRS:
            reason = f"between {num_groups} groups of unlike tasks make more than {MAX_PAIRS} pairs"
            raise InvalidInput(Problem("streams", count, reason, "take --option margin=0.1 or so"))
        source.append(np.repeat(senders, len(receivers)))
        target.append(np.tile(receivers, len(senders)))
        rate.append(np.outer(num_senders, num_receivers).ravel() * block.pair_rate)
    a, b, c = np.concatenate(source), np.concatenate(target), np.concatenate(rate)
    between = (a != b) & (c > 0)
    low, high = np.minimum(a, b)[between], np.maximum(a, b)[between]
    key, where = np.unique(low * num_groups + high, return_inverse=True)
    u, v = np.divmod(key, max(1, num_groups))
    return u, v, np.bincount(where, c[between], len(key)).astype(np.float64)


def balanced(job: GroupedJob, alpha: float) -> GroupedJob:
    """Return the job with room for at most alpha times the mean load of each resource on a node.

    Source: section 2.2, where the capacity of each node is set to that.
    """
    mean = (job.size[:, None] * job.load).sum(axis=0) / max(1, len(job.nodes))
    most = alpha * mean * (1 + 1e-9)  # the tolerance that a capacity has
    return replace(job, room=np.ascontiguousarray(np.minimum(job.room, most)))


def tiny_job() -> GroupedJob:
    """Return two groups of one task on one node: something to compile kernels on."""
    ones = np.ones(2, dtype=np.int64)
    return GroupedJob(
        size=ones,
        load=np.ones((2, 1)),
        member_indptr=np.arange(3),
        members=np.arange(2),
        nodes=np.zeros(1, dtype=np.int64),
        room=np.full((1, 1), 2.0),
        allowed=NO_RESTRICTION,
        edge_u=np.zeros(1, dtype=np.int64),
        edge_v=np.ones(1, dtype=np.int64),
        edge_rate=np.ones(1),
    )


_UNIT = 1e6
"""Costs and capacities are whole multiples of a millionth, for the greatest common divisor."""

MOST_TASKS = 1_000_000


def common_granularity(instance: Instance) -> float:
    """Return the greatest common divisor of group costs and node capacities, first resource.

    Raises `InvalidInput`: there is no group with a cost, or none of them nor a capacity reaches a
        millionth.
    """
    costs = [
        float(instance.tasks.load[instance.tasks_of(o), 0].sum())
        for o in range(instance.num_operators)
    ]
    room = instance.headroom[instance.open_nodes, 0]
    values = [v for v in [*costs, *room[np.isfinite(room)].tolist()] if v > 0]
    if not any(costs):
        raise InvalidInput(Problem("operators", None, "have no group with a load"))
    grain = gcd(*(round(v * _UNIT) for v in values)) / _UNIT
    if grain == 0:
        reason = f"have no cost nor capacity that reaches {1 / _UNIT:g}"
        raise InvalidInput(Problem("operators", max(costs), reason, "take a smaller unit"))
    return grain


def recut(instance: Instance, most_tasks: int = MOST_TASKS) -> Instance:
    """Return the job with all groups cut into tasks of the common granularity.

    Group costs, states and streams stay; groups without cost keep their tasks.

    `instance`: its tasks are all in group form, without entries of their own, and its streams
        `full`.
    `most_tasks`: refuse to make more than this.
    Raises `InvalidInput`: tasks are listed one by one, a stream is not full, or too many tasks
        would come out.
    """
    document = instance.to_dict()
    problems = _not_recut(document)
    if problems:
        raise InvalidInput(problems)
    grain = common_granularity(instance)
    total = 0
    for at, entry in enumerate(document["operators"]):
        cost = float(instance.tasks.load[instance.tasks_of(at), 0].sum())
        if cost > 0:
            entry["group"]["tasks"] = max(1, round(cost / grain))
        total += entry["group"]["tasks"]
    if total > most_tasks:
        reason = f"tasks of {grain:g} would come out, more than {most_tasks}"
        raise InvalidInput(Problem("operators", total, reason, "round costs and capacities"))
    return instance.replace(operators=document["operators"])


def _not_recut(document: dict[str, Any]) -> list[Problem]:
    problems = []
    if document.get("tasks") or document.get("traffic"):
        reason = "are given one by one; only groups can be cut anew"
        problems.append(Problem("tasks", None, reason, "use the group form"))
    for i, stream in enumerate(document.get("streams", [])):
        if stream.get("pattern", "full") != "full":
            reason = "ties single tasks together; only full streams can be cut anew"
            problems.append(Problem(f"streams[{i}].pattern", stream["pattern"], reason))
    for i, entry in enumerate(document.get("operators", [])):
        if "group" not in entry:
            problems.append(Problem(f"operators[{i}].group", None, "is missing"))
    return problems


def normalised_room(room: Floats) -> Floats:
    """Round room down to whole multiples of the weakest node's, each resource by itself.

    `room`: (N, R); unbounded and empty room stays as it is.
    """
    normal = room.copy()
    for resource in range(room.shape[1]):
        column = room[:, resource]
        bounded = np.isfinite(column) & (column > 0)
        if bounded.any():
            weakest = column[bounded].min()
            multiple = np.floor(column[bounded] / weakest * (1 + 1e-12))
            normal[bounded, resource] = np.minimum(multiple * weakest, column[bounded])
    return normal


def even_kinds(load: Floats, margin: float) -> tuple[NDArray[np.int64], Floats]:
    """Cut the tasks of one group into subgroups of nearly equal cost, in one linear scan.

    A task joins the first subgroup whose first task differs from it by at most the margin on
    every resource; else it opens one.

    `load`: (T, R) of the group's tasks.
    `margin`: greatest difference, as a share of the subgroup's first task.
    Returns (T,) subgroup of each task, and (K, R) greatest load in each: what is safe to count
        with.
    """
    kind = np.zeros(len(load), dtype=np.int64)
    first: list[Floats] = []
    for task, row in enumerate(load):
        for k, reference in enumerate(first):
            if (np.abs(row - reference) <= margin * np.abs(reference) + 1e-12).all():
                kind[task] = k
                break
        else:
            kind[task] = len(first)
            first.append(row)
    largest = np.zeros((len(first), load.shape[1]))
    np.maximum.at(largest, kind, load)
    return kind, largest


# The frame of the three published allocators: compile, group, place, report the times.

RELAXATIONS = (
    Option(
        "margin",
        "float",
        0.0,
        "even groups: loads within a group may differ by this share, the greatest counts for all",
        minimum=0.0,
        maximum=10.0,
    ),
    Option(
        "normalise",
        "bool",
        False,
        "capacity normalisation: nodes as whole multiples of the weakest",
    ),
    Option(
        "alpha",
        "float",
        None,
        "balance mode: a node holds at most this many times the mean load",
        minimum=1.0,
    ),
)
"""Options of the published algorithms: sections 5 and 2.2 of the paper."""


def run_on_groups(
    instance: Instance, request: Request, place: Callable[[GroupedJob, Instance | None], Ints]
) -> Outcome:
    """Place an instance's tasks with an allocator of grouped jobs.

    `instance`, `request`: as a method gets them; the options ``margin``, ``normalise`` and
        ``alpha`` are read here.
    `place`: returns the (T,) node of each task, -1 where it found none; called first with a tiny
        job of no instance, which compiles it.
    """
    began = time.perf_counter()
    place(tiny_job(), None)  # compiles the kernel, or loads it
    compiled = time.perf_counter()
    options = request.options
    job = grouped_job(instance, margin=options["margin"], normalise=options["normalise"])
    if options["alpha"] is not None:
        job = balanced(job, options["alpha"])
    times = {"compile": compiled - began, "build": time.perf_counter() - compiled}
    return Outcome(Termination.HEURISTIC, place(job, instance), times=times)
