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

from typing import TYPE_CHECKING

import numpy as np

from formulations.storm.problem import scheduled_jobs
from optim.methods.registry import Method, Outcome
from optim.referee.result import Termination
from optim.rules.base import MEASURED, Form

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.methods.registry import Request


def take_slots(
    free: NDArray[np.int64], used: NDArray[np.int64], wanted: int, among: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Take up to `wanted` free slots evenly over the nodes `among`; `free` and `used` are changed.

    The nodes stand by free slots, most first, ties by index; each round takes one slot of each.

    Returns
    -------
    tuple
        Node and slot number of each slot taken, in order.
    """
    order = among[np.argsort(-free[among], kind="stable")]
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
    """Schedule every topology; executors of a topology that gets no slot stay unplaced.

    Raises
    ------
    UnsuitableMethod
        A component is in no topology, though the instance has some.
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
