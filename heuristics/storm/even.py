"""``storm-even``: Storm's default scheduler (EvenScheduler), which knows neither loads nor rates.

A topology's executors, grouped by component, go round robin over its workers; its workers take
slots evenly over the nodes, nodes with most free slots first. Topologies are served in their order
in the file. `formulations.storm.problem` says what holds where the instance is silent.

The scheduler overloads nodes where even counts do: the plan is returned, and the referee reports
it.

Source: described in Aniello, Baldoni and Querzoni, "Adaptive online scheduling in Storm", DEBS
2013, section 2, doi:10.1145/2488222.2488267.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from formulations.storm.problem import scheduled_jobs
from optim.methods.registry import Method, Outcome
from optim.referee import Termination
from optim.rules.base import MEASURED, Form

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm.problem import StormJobs
    from optim.format.instance import Instance
    from optim.methods.registry import Request

    Integers = NDArray[np.int64]


def take_slots(
    free: NDArray[np.int64], used: NDArray[np.int64], wanted: int, among: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Take up to `wanted` free slots evenly over the nodes `among`; `free` and `used` are changed.

    The nodes stand by free slots, most first, ties by index; each round takes one slot of each.

    Returns node and slot number of each slot taken, in order.
    """
    order = among[np.argsort(-free[among], kind="stable")]
    left = free[order]
    nodes: list[int] = []
    numbers: list[int] = []
    taken = 0
    while len(nodes) < wanted and taken < left.max(initial=0):
        # each round takes one slot of every node that has one left
        for node in order[left > taken][: wanted - len(nodes)]:
            nodes.append(int(node))
            numbers.append(int(used[node]))
            used[node] += 1
            free[node] -= 1
        taken += 1
    return np.array(nodes, dtype=np.int64), np.array(numbers, dtype=np.int64)


def run(instance: Instance, request: Request) -> Outcome:
    """Schedule every topology; executors of a topology that gets no slot stay unplaced.

    Raises `UnsuitableMethod`: a component is in no topology, though the instance has some.
    """
    jobs = scheduled_jobs(instance, METHOD.name)
    free = jobs.slots.copy()
    used = np.zeros(instance.num_nodes, dtype=np.int64)
    node = np.full(instance.num_tasks, -1, dtype=np.int32)
    slot = np.full(instance.num_tasks, -1, dtype=np.int32)
    notes = []
    for name, tasks, workers, usable in zip(
        jobs.names, jobs.executors, jobs.workers, jobs.nodes, strict=True
    ):
        at, number = take_slots(free, used, int(workers), np.flatnonzero(usable))
        if len(at) < workers or not len(at):
            notes.append(f"{name}: {len(at)} free slots for {workers} workers")
        if len(at):
            turn = np.arange(len(tasks)) % len(at)
            node[tasks], slot[tasks] = at[turn], number[turn]
    return Outcome(Termination.HEURISTIC, node, slot, notes=notes)


METHOD = Method(
    name="storm-even",
    family="storm",
    kind="heuristic",
    objective="imc_gain",
    run=run,
    summary="Storm's default: executors round robin over workers, workers evenly over nodes",
    source="EvenScheduler of Apache Storm, as in Aniello et al., DEBS 2013, section 2",
    needs=("tasks", "nodes"),
    forms=frozenset({Form.SLOTS, Form.LEAVING, Form.NODE_COUNT}) | MEASURED,
    objectives=("imc_gain", "internode_traffic"),
    promises_feasibility=False,
)


# How many executors a slot holds, how many nodes a topology spreads over, who gets which slots.


def most_executors(executors: int, workers: int, alpha: float) -> int:
    """Return ⌊M(α)⌋, the most executors a slot may hold.

    ``M(α) = ⌈E/W⌉ + α (E − W + 1 − ⌈E/W⌉)`` with W = min(W, E): even at α = 0; at α = 1 one slot
    may hold all that the others can spare.

    Source: Aniello et al. 2013, section 3.

    Examples
    --------
    >>> [most_executors(10, 4, alpha) for alpha in (0.0, 0.5, 1.0)]
    [3, 5, 7]
    """
    least = -(-executors // workers)
    # the slack keeps 4.999999999 (a rounding error of 5) from becoming 4
    return least + math.floor(alpha * (executors - workers + 1 - least) + 1e-9)


def nodes_to_use(free: Integers, workers: int, node_spread: float) -> int:
    """Return over how many nodes a topology's slots go.

    ``least + ⌈node_spread (most − least)⌉``, where `least` nodes suffice when those with most free
    slots are taken, and `most` is min(nodes with a free slot, W).

    Examples
    --------
    >>> [nodes_to_use(np.array([4, 4, 2, 0]), 5, spread) for spread in (0.0, 0.5, 1.0)]
    [2, 3, 3]
    """
    usable = np.sort(free[free > 0])[::-1]
    if not len(usable):
        return 0
    enough = np.cumsum(usable) >= workers
    least = int(enough.argmax()) + 1 if enough.any() else len(usable)
    most = max(least, min(len(usable), workers))
    return least + math.ceil(node_spread * (most - least) - 1e-9)


def slots_within_reach(jobs: StormJobs) -> tuple[Integers, list[str]]:
    """Return how many slots each topology gets, served in order, and notes on those with too few.

    Where slots suffice for all, everyone gets its workers.
    """
    slots, notes = np.zeros(jobs.num_jobs, dtype=np.int64), []
    for j, (name, workers) in enumerate(zip(jobs.names, jobs.workers.tolist(), strict=True)):
        usable = jobs.nodes[j]
        taken = slots[(jobs.nodes & usable).any(axis=1)].sum()
        slots[j] = count = max(0, min(workers, int(jobs.slots[usable].sum() - taken)))
        if count < workers:
            notes.append(f"{name}: {count} free slots for {workers} workers")
    return slots, notes


def slot_limits(
    instance: Instance, executors: int, slots: int, alpha: float
) -> tuple[int, NDArray[np.float64]]:
    """Return how many executors, and (R,) how much load, any slot of a topology may hold.

    The instance's `max_tasks_per_slot` lowers ⌊M(α)⌋. Schedulers fill slots before they know the
    nodes, so a slot's capacity is the least of all nodes that stay.
    """
    most = most_executors(executors, slots, alpha)
    limit = instance.limits.max_tasks_per_slot
    if limit is not None:
        most = min(most, int(limit))
    stay = instance.open_nodes & (instance.nodes.slots != 0)
    capacity = np.full(instance.num_resources, np.inf)
    if stay.any():
        capacity = instance.nodes.slot_capacity[stay].min(axis=0)
    return most, capacity + 1e-9 * np.where(np.isfinite(capacity), np.abs(capacity), 0.0)
