"""``even``: the Elastic Allocator's baseline, round robin over the slots, knowing no resources.

Slots stand in turn: the first of every node, then the second of every node, and so on; a node
without a number of slots has one. What runs already does not change the turn: the paper's Even
Scheduler "is still not aware of the resource consumption of the running task". Operators come in
topological order; a task that may not use a slot's node takes the next slot it may use.

Source: the Even Scheduler of the Elastic Allocator paper, SOSE 2014, section V.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.elastic.problem import fixed_nodes
from heuristics.elastic.gma import task_order
from optim.kernels.place_rules import placing_masks
from optim.methods.registry import Method, Outcome
from optim.referee import Termination
from optim.rules.base import MEASURED, Form

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.methods.registry import Request


def slot_nodes(instance: Instance) -> NDArray[np.int64]:
    """(S,) node of each slot in turn."""
    nodes = instance.nodes
    slots = np.where(nodes.slots < 0, 1, nodes.slots.astype(np.int64))
    slots[nodes.leaving] = 0
    node = np.repeat(np.arange(instance.num_nodes), slots)
    number = np.arange(len(node)) - np.repeat(np.cumsum(slots) - slots, slots)
    return node[np.lexsort((node, number))]


def run_even(instance: Instance, request: Request) -> Outcome:
    """Deal the tasks out; those for which there is no slot stay unplaced."""
    kind, _, target = placing_masks(instance)
    places = slot_nodes(instance)
    node = fixed_nodes(kind, target).astype(np.int32)
    turn = 0
    for t in task_order(instance):
        if node[t] >= 0 or not len(places):
            continue
        may = target[kind[t]]
        for step in range(len(places)):
            place = places[(turn + step) % len(places)]
            if may[place]:
                node[t] = place
                turn = (turn + step + 1) % len(places)
                break
    return Outcome(Termination.HEURISTIC, node=node)


EVEN = Method(
    name="even",
    family="elastic allocator",
    kind="heuristic",
    objective="used_capacity",
    run=run_even,
    summary="Round robin over the slots, knowing neither CPU nor bandwidth; a baseline",
    source="Elastic Allocator, SOSE 2014, section V (Storm's even scheduler)",
    needs=("tasks", "nodes", "capacity"),
    forms=frozenset({Form.MASK, Form.LEAVING, Form.SLOTS}) | MEASURED,
    objectives=("used_capacity", "cpu_deviation", "resource_deviation"),
    promises_feasibility=False,
)


# `random`: the Elastic Allocator's baseline, every task on a node drawn evenly, no checks.
#
# Running tasks stay; a task with allowed nodes is drawn among these.
#
# Source: the Random method of the Elastic Allocator paper, SOSE 2014, section V.


def run_random(instance: Instance, request: Request) -> Outcome:
    """Draw a node for every task, in the file's order, from the seed."""
    kind, _, target = placing_masks(instance)
    rng = np.random.default_rng(request.seed)
    draw = rng.random(instance.num_tasks)
    node = np.full(instance.num_tasks, -1, dtype=np.int32)
    for k, row in enumerate(target):
        places, tasks = np.flatnonzero(row), np.flatnonzero(kind == k)
        if len(places):
            node[tasks] = places[(draw[tasks] * len(places)).astype(np.int64)]
    return Outcome(Termination.HEURISTIC, node=node)


RANDOM = Method(
    name="random",
    family="elastic allocator",
    kind="heuristic",
    objective="used_capacity",
    run=run_random,
    summary="Every task on a node drawn evenly from the seed, knowing no resources; a baseline",
    source="Elastic Allocator, SOSE 2014, section V",
    needs=("tasks", "nodes", "capacity"),
    forms=frozenset({Form.MASK, Form.LEAVING}) | MEASURED,
    objectives=("used_capacity", "cpu_deviation", "resource_deviation"),
    promises_feasibility=False,
)
