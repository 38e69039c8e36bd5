"""``storm-even``: Storm's default scheduler (EvenScheduler), which knows neither loads nor rates.

A topology's executors, grouped by component, go round robin over its workers; its workers take
slots evenly over the nodes, nodes with most free slots first. Topologies are served in their order
in the file. Where the instance is silent: tasks without a topology form one of their own; a
topology without a number of workers gets one worker a node; a node without a number of slots offers
its even share of all workers.

The scheduler overloads nodes where even counts do: the plan is kept, and the referee says so.

Source: described in Aniello, Baldoni and Querzoni, "Adaptive online scheduling in Storm", DEBS
2013, section 2, doi:10.1145/2488222.2488267.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from optim.registry import Method, Outcome
from optim.results import Termination

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.instance import Instance
    from optim.registry import Request


def executors_of(instance: Instance) -> list[NDArray[np.int64]]:
    """Return the tasks of each topology, grouped by component, those without a topology last."""
    operator = instance.tasks.operator
    topology = np.full(instance.num_tasks, len(instance.topologies.ids))
    has_operator = operator >= 0
    given = instance.operators.topology[operator[has_operator]]
    topology[has_operator] = np.where(given >= 0, given, len(instance.topologies.ids))
    component = np.where(has_operator, operator, instance.num_operators)
    order = np.lexsort((instance.tasks.member, component, topology))
    bounds = np.searchsorted(topology[order], np.arange(len(instance.topologies.ids) + 2))
    return [order[start:stop] for start, stop in pairwise(bounds)]


def num_workers(instance: Instance, executors: list[NDArray[np.int64]]) -> list[int]:
    """Return min(W, E) of each topology, W being one worker a usable node where it is not given."""
    usable = instance.open_nodes & (instance.nodes.slots != 0)
    given = [int(w) for w in instance.topologies.workers] + [-1]
    return [
        min(len(tasks), workers if workers >= 0 else int(usable.sum()))
        for workers, tasks in zip(given, executors, strict=True)
    ]


def free_slots(instance: Instance, workers: list[int]) -> NDArray[np.int64]:
    """(N,) slots of the nodes that stay; where not given, an even share of all workers."""
    slots = instance.nodes.slots.astype(np.int64)
    slots[instance.nodes.leaving] = 0
    silent = slots < 0
    if silent.any():
        slots[silent] = -(-sum(workers) // int(instance.open_nodes.sum()))
    return slots


def take_slots(
    free: NDArray[np.int64], used: NDArray[np.int64], wanted: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Take up to `wanted` free slots evenly over the nodes; `free` and `used` are changed.

    The nodes stand by free slots, most first, ties by index; each round takes one slot of each.

    Returns
    -------
    tuple
        Node and slot number of each slot taken, in order.
    """
    order = np.argsort(-free, kind="stable")
    left = free[order]
    nodes: list[int] = []
    numbers: list[int] = []
    taken = 0
    while len(nodes) < wanted and taken < left.max(initial=0):
        for node in order[left > taken][: wanted - len(nodes)]:
            nodes.append(int(node))
            numbers.append(int(used[node]))
            used[node] += 1
            free[node] -= 1
        taken += 1
    return np.array(nodes, dtype=np.int64), np.array(numbers, dtype=np.int64)


def run(instance: Instance, request: Request) -> Outcome:
    """Schedule every topology; executors of a topology that gets no slot stay unplaced."""
    executors = executors_of(instance)
    workers = num_workers(instance, executors)
    free = free_slots(instance, workers)
    used = np.zeros(instance.num_nodes, dtype=np.int64)
    node = np.full(instance.num_tasks, -1, dtype=np.int32)
    slot = np.full(instance.num_tasks, -1, dtype=np.int32)
    notes = []
    for index, (tasks, wanted) in enumerate(zip(executors, workers, strict=True)):
        if not len(tasks):
            continue
        at, number = take_slots(free, used, wanted)
        if len(at) < wanted or not len(at):
            known = index < len(instance.topologies.ids)
            name = instance.topologies.ids[index] if known else "tasks without a topology"
            notes.append(f"{name}: {len(at)} free slots for {wanted} workers")
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
    honours=frozenset({"slots", "leaving"}),
    promises_feasibility=False,
)
