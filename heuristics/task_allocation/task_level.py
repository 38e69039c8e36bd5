"""``task-level``: the task-pair allocator of the CIKM 2014 paper, Algorithms 1 to 3, as published.

Task pairs are taken by the priority of their group pair. A pair of which nothing stands goes on the
last node used, or on the node with most room when the group pair changed or it does not fit there;
a task whose partner stands joins it; where both stand, the smaller of their nodes is emptied into
the other if everything fits. What is left goes one by one to the node with most room.

Source: Chatzistergiou and Viglas, CIKM 2014, section 3.2, doi:10.1145/2661829.2661882.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heuristics.task_allocation.grouped_run import RELAXATIONS, run_on_groups
from heuristics.task_allocation.task_pairs import PAIR_ORDERS, pair_runs, uneven_pairs
from optim.methods.registry import Method, Option, Outcome, Request
from optim.rules.base import LOADS

if TYPE_CHECKING:
    from heuristics.task_allocation.groups import GroupedJob
    from heuristics.task_allocation.task_pairs import UnevenPairs
    from optim.format.instance import Instance
    from optim.format.tables import Ints


def place_pairs(
    job: GroupedJob,
    priority: str = "group_imc",
    pair_order: str = "shuffled",
    seed: int = 0,
    uneven: UnevenPairs | None = None,
) -> Ints:
    """Run taskLevel on a grouped job.

    Parameters
    ----------
    job
        Groups, traffic between them, room of the nodes.
    priority
        ``task_imc``, ``group_imc`` or ``significance``: traffic of a task pair, of its group pair,
        or the latter per unit of processing cost (Eq. 2).
    pair_order
        Order of the task pairs of a group pair that carry the same traffic: ``row`` by row,
        ``column`` by column, ``diagonal`` (every task once before any comes twice), or
        ``shuffled``.
    seed
        Of the shuffling.
    uneven
        Task pairs of those group pairs whose task pairs differ in traffic.

    Returns
    -------
    ndarray of int32
        (T,) node of each task, -1 where it found none.
    """
    from heuristics.task_allocation.task_level_kernel import task_level

    rule = "imc" if priority == "group_imc" else priority
    runs = pair_runs(job, uneven, rule, pair_order, seed)
    return job.to_tasks(task_level(*job.arrays, runs, PAIR_ORDERS.index(pair_order), seed))


def run(instance: Instance, request: Request) -> Outcome:
    """Place an instance's tasks."""
    options = request.options

    def place(job: GroupedJob, own: Instance | None) -> Ints:
        uneven = None if own is None else uneven_pairs(own, job)
        return place_pairs(job, options["priority"], options["pair_order"], request.seed, uneven)

    return run_on_groups(instance, request, place)


METHOD = Method(
    name="task-level",
    family="task allocation",
    kind="heuristic",
    objective="imc_gain",
    run=run,
    summary="Collocates task pairs by priority, one after the other; quadratic time",
    source="Chatzistergiou and Viglas, CIKM 2014, Algorithms 1-3",
    needs=("tasks", "nodes", "traffic"),
    forms=LOADS,
    options=(
        Option(
            "priority",
            "str",
            "group_imc",
            "traffic of the task pair, of its group pair, or the latter per processing cost",
            choices=("task_imc", "group_imc", "significance"),
        ),
        Option(
            "pair_order",
            "str",
            "shuffled",
            "order of the task pairs within a group pair",
            choices=PAIR_ORDERS,
        ),
        *RELAXATIONS,
    ),
)
