"""``random``: the Elastic Allocator's baseline, every task on a node drawn evenly, no checks.

Running tasks stay; a task with allowed nodes is drawn among these.

Source: the Random method of the Elastic Allocator paper, SOSE 2014, section V.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.kernels.room import placing_masks
from optim.methods.registry import Method, Outcome
from optim.referee.result import Termination
from optim.rules.base import MEASURED, Form

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.methods.registry import Request


def run(instance: Instance, request: Request) -> Outcome:
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


METHOD = Method(
    name="random",
    family="elastic allocator",
    kind="heuristic",
    objective="used_capacity",
    run=run,
    summary="Every task on a node drawn evenly from the seed, knowing no resources; a baseline",
    source="Elastic Allocator, SOSE 2014, section V",
    needs=("tasks", "nodes", "capacity"),
    forms=frozenset({Form.MASK, Form.LEAVING}) | MEASURED,
    objectives=("used_capacity", "cpu_deviation", "resource_deviation"),
    promises_feasibility=False,
)
