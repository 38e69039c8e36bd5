"""``naive``: the fusion-style baseline of the CIKM 2014 paper, section 3.1.

Task pairs by their own decreasing traffic fill one node after the other, nodes by capacity; the
second task of a half-placed pair joins the first where it fits; single tasks come last, first fit.

Source: Chatzistergiou and Viglas, CIKM 2014, section 3.1, doi:10.1145/2661829.2661882.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heuristics.task_allocation.groups import RELAXATIONS, run_on_groups
from heuristics.task_allocation.task_pairs import pair_runs, uneven_pairs
from optim.methods.reduce import shuffled_evenly
from optim.methods.registry import Method, Outcome, Request
from optim.rules.base import LOADS, Form

if TYPE_CHECKING:
    from heuristics.task_allocation.groups import GroupedJob
    from heuristics.task_allocation.task_pairs import UnevenPairs
    from optim.format.instance import Instance
    from optim.format.tables import Ints


def place_pairs(job: GroupedJob, uneven: UnevenPairs | None = None) -> Ints:
    """Run the naive algorithm on a grouped job; return (T,) nodes, -1 where a task found none."""
    from heuristics.task_allocation.task_level import naive

    return job.to_tasks(naive(*job.arrays, pair_runs(job, uneven, "task_imc", "row", 0)))


def run(instance: Instance, request: Request) -> Outcome:
    """Place an instance's tasks."""

    def place(job: GroupedJob, uneven_instance: Instance | None) -> Ints:
        return place_pairs(
            job, None if uneven_instance is None else uneven_pairs(uneven_instance, job)
        )

    return run_on_groups(instance, request, place)


METHOD = Method(
    name="naive",
    family="task allocation",
    kind="heuristic",
    objective="imc_gain",
    run=shuffled_evenly(run),
    summary="Fills node after node with the task pairs of most traffic",
    source="Chatzistergiou and Viglas, CIKM 2014, section 3.1",
    needs=("tasks", "nodes", "traffic"),
    forms=LOADS | {Form.LOCAL_FIRST},
    options=RELAXATIONS,
)
