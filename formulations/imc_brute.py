"""`imc-brute`: every assignment tried, the judge of the others on small instances.

There is no bounding, only symmetry: identical nodes are opened in order of their numbers, and tasks
of one class of interchangeable tasks take nodes in ascending order. Both can be had at once: give
the freshly opened nodes of a class of tasks the lowest free numbers, then sort its tasks.
"""

from __future__ import annotations

import math
import time
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from formulations.imc_common import HONOURS, why_nothing_fits
from optim.compiled import kernel
from optim.errors import Problem, UnsuitableMethod
from optim.grouping import TaskGroups, node_classes, task_groups
from optim.registry import Method, Option, Outcome
from optim.results import Termination

if TYPE_CHECKING:
    from optim.grouping import NodeClasses
    from optim.instance import Instance
    from optim.registry import Request

MOST_TASKS = 64


@kernel
def enumerate_all(rate, load, room, floor, may, group, node_class, most):  # type: ignore[no-untyped-def]
    """Try all assignments, tasks in order.

    Parameters
    ----------
    rate
        (T, T) symmetric traffic of pairs.
    load, room, floor
        (T, R), (N, R), (N, R).
    may
        (T, N) where tasks may go.
    group
        (T,) class of interchangeable tasks, contiguous; -1 tells a task apart from all others.
    node_class
        (N,) class of identical nodes, -1 for unusable ones.
    most
        Partial assignments to look at before giving up.

    Returns
    -------
    tuple
        Best gain (``-inf`` for none), its (T,) nodes, partial assignments looked at (above
        ``most``: given up).
    """
    num_tasks, num_nodes = may.shape
    num_resources = load.shape[1]
    node = np.full(num_tasks, -1, dtype=np.int64)
    used = np.zeros((num_nodes, num_resources))
    held = np.zeros(num_nodes, dtype=np.int64)
    gain = np.zeros(num_tasks + 1)
    best = -np.inf
    best_node = node.copy()
    seen = 0
    t = 0
    while t >= 0:
        if t == num_tasks:
            enough = True
            for n in range(num_nodes):
                for r in range(num_resources):
                    if node_class[n] >= 0 and used[n, r] < floor[n, r]:
                        enough = False
            if enough and gain[t] - best > 1e-12 * abs(gain[t]):
                best = gain[t]
                best_node[:] = node
            t -= 1
            continue
        n = node[t]
        if n >= 0:
            held[n] -= 1
            for r in range(num_resources):
                used[n, r] -= load[t, r]
        elif t > 0 and group[t] >= 0 and group[t] == group[t - 1]:
            n = node[t - 1] - 1  # not before the one that is its equal
        n += 1
        while n < num_nodes:
            fits = may[t, n] and node_class[n] >= 0
            if fits and held[n] == 0:  # only the first empty node of its class
                for m in range(n):
                    if node_class[m] == node_class[n] and held[m] == 0:
                        fits = False
                        break
            if fits:
                for r in range(num_resources):
                    if used[n, r] + load[t, r] > room[n, r]:
                        fits = False
            if fits:
                break
            n += 1
        if n == num_nodes:
            node[t] = -1
            t -= 1
            continue
        seen += 1
        if seen > most:
            return best, best_node, seen
        node[t] = n
        held[n] += 1
        total = gain[t]
        for r in range(num_resources):
            used[n, r] += load[t, r]
        for s in range(t):
            if node[s] == n:
                total += rate[s, t]
        t += 1
        gain[t] = total
        if t < num_tasks:
            node[t] = -1
    return best, best_node, seen


def run(instance: Instance, request: Request) -> Outcome:
    """Try all assignments of an instance.

    Raises
    ------
    UnsuitableMethod
        There are more than ``max_assignments``.
    """
    compiled = _warm_up()
    groups, classes = task_groups(instance), node_classes(instance)
    most, merge = request.options["max_assignments"], bool(request.options["merge_tasks"])
    _check_size(instance, groups, classes, most, merge=merge)
    order = groups.members.astype(np.int64)
    usable = classes.node_class >= 0
    room = np.full((instance.num_nodes, instance.num_resources), np.inf)
    floor = np.full(room.shape, -np.inf)
    of = classes.node_class[classes.members]
    room[classes.members], floor[classes.members] = classes.room[of], classes.floor[of]
    may = np.zeros((instance.num_tasks, instance.num_nodes), dtype=np.bool_)
    may[:, usable] = classes.target[groups.kind[groups.group]][:, classes.node_class[usable]]
    rate = instance.adjacency.toarray()
    label = groups.group if merge else np.full(instance.num_tasks, -1)
    best, found, seen = enumerate_all(
        np.ascontiguousarray(rate[np.ix_(order, order)]), instance.tasks.load[order], room, floor,
        may[order], label[order].astype(np.int64), classes.node_class.astype(np.int64), most,
    )  # fmt: skip
    if seen > most:
        raise _too_many(f"more than {most:,}")
    outcome = Outcome(Termination.OPTIMAL, times={"compile": compiled})
    outcome.notes.append(f"{seen:,} partial assignments")
    if best == -np.inf:
        outcome.termination = Termination.INFEASIBLE
        outcome.reasons = why_nothing_fits(instance)
        return outcome
    outcome.node = np.full(instance.num_tasks, -1, dtype=np.int32)
    outcome.node[order] = found
    outcome.claimed = outcome.bound = float(best)
    return outcome


def least_assignments(groups: TaskGroups, classes: NodeClasses, *, merge: bool) -> float:
    """Return log10 of a number of assignments that there are at least, symmetry broken.

    All assignments, over the number of ways to rename nodes (and tasks) within their classes.
    Capacities are not looked at.
    """
    open_nodes = [
        max(1, int(classes.sizes[classes.target[kind]].sum())) for kind in groups.kind[groups.group]
    ]
    total = sum(math.log10(count) for count in open_nodes)
    total -= sum(math.lgamma(int(n) + 1) / math.log(10) for n in classes.sizes)
    if merge:
        total -= sum(math.lgamma(int(n) + 1) / math.log(10) for n in groups.sizes)
    return max(0.0, total)


def _check_size(
    instance: Instance, groups: TaskGroups, classes: NodeClasses, most: int, *, merge: bool
) -> None:
    least = least_assignments(groups, classes, merge=merge)
    if instance.num_tasks > MOST_TASKS or least > math.log10(most):
        raise _too_many(f"at least 10^{least:.1f} ({instance.num_tasks} tasks)")


def _too_many(count: str) -> UnsuitableMethod:
    return UnsuitableMethod(
        Problem(
            "imc-brute",
            None,
            f"would try {count} assignments",
            "use imc-exact, or raise max_assignments if you can wait",
        )
    )


def _warm_up() -> float:
    began = time.perf_counter()
    _compile()
    return time.perf_counter() - began


@cache
def _compile() -> None:
    one = np.ones((1, 1))
    enumerate_all(
        one, one, one, one, one > 0, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), 10
    )


METHOD = Method(
    name="imc-brute",
    family="task allocation",
    kind="exact",
    objective="imc_gain",
    run=run,
    summary="All assignments, identical nodes and tasks counted once; a judge for small instances",
    source="",
    honours=HONOURS,
    options=(
        Option(
            "max_assignments",
            "int",
            50_000_000,
            "refuse when there are more (partial assignments that fit count)",
            minimum=1,
        ),
        Option("merge_tasks", "bool", True, "count interchangeable tasks once"),
    ),
    empties_leaving=True,
)
