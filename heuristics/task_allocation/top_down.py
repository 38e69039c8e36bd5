"""``top-down``: the group-aware allocator of the CIKM 2014 paper, Algorithms 3 to 5, as published.

Group pairs are taken by priority. A pair of which nothing stands yet is fused on one node, or
balanced splits of it are laid on one node after the other; a group whose partner stands is laid
beside it; two groups that stand whole on two nodes are fused by emptying one. What is left goes one
by one to the node with most room. Nothing is ever taken back, so that tight jobs may end with tasks
unplaced.

Source: Chatzistergiou and Viglas, "Fast heuristics for near-optimal task allocation in data stream
processing over clusters", CIKM 2014, sections 3.2 and 4, doi:10.1145/2661829.2661882.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heuristics.task_allocation.grouped_run import RELAXATIONS, run_on_groups
from optim.methods.registry import Method, Option, Outcome, Request
from optim.rules.base import LOADS

if TYPE_CHECKING:
    from heuristics.task_allocation.groups import GroupedJob
    from optim.format.instance import Instance
    from optim.format.tables import Ints

K_RULES = ("shrink", "give_up")


def place_groups(job: GroupedJob, priority: str = "significance", k_rule: str = "shrink") -> Ints:
    """Run topDown on a grouped job.

    Parameters
    ----------
    job
        Groups, traffic between them, room of the nodes.
    priority
        ``significance`` (Eq. 2) or ``imc``.
    k_rule
        When not one balanced split fits the best node: ``shrink`` the ratio until one does, or
        ``give_up`` and leave the rest of the pair to the single tasks.

    Returns
    -------
    ndarray of int32
        (T,) node of each task, -1 where it found none.
    """
    from heuristics.task_allocation.state import COUNT, GROUP, NODE
    from heuristics.task_allocation.top_down_kernel import top_down

    state = top_down(*job.arrays, job.priority(priority), K_RULES.index(k_rule))
    splits = state.splits[: state.filled[0]].astype(np.int64)
    return job.spread(splits[:, GROUP], splits[:, NODE], splits[:, COUNT])


def run(instance: Instance, request: Request) -> Outcome:
    """Place an instance's tasks; see the module's page for the readings behind the options."""
    options = request.options

    def place(job: GroupedJob, _: Instance | None) -> Ints:
        return place_groups(job, options["priority"], options["k_rule"])

    return run_on_groups(instance, request, place)


METHOD = Method(
    name="top-down",
    family="task allocation",
    kind="heuristic",
    objective="imc_gain",
    run=run,
    summary="Fuses group pairs by significance, splits groups only where it must; linear time",
    source="Chatzistergiou and Viglas, CIKM 2014, Algorithms 3-5",
    needs=("tasks", "nodes", "traffic"),
    forms=LOADS,
    options=(
        Option(
            "priority",
            "str",
            "significance",
            "order of the group pairs: traffic per processing cost (Eq. 2), or traffic",
            choices=("significance", "imc"),
        ),
        Option(
            "k_rule",
            "str",
            "shrink",
            "when no balanced split fits the best node: shrink the ratio until one fits, "
            "or give up and leave the pair to the single tasks",
            choices=K_RULES,
        ),
        *RELAXATIONS,
    ),
    constants={"host_walk": "all"},
)
