"""The placement of executors on nodes, interchangeable executors and nodes put into classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.patterns.problem import problem_of
from optim.kernels.classes import node_classes, task_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.patterns.problem import PatternProblem
    from formulations.storm.jobs import StormJobs
    from optim.format.instance import Instance
    from optim.kernels.classes import NodeClasses, TaskGroups

    Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StormProblem:
    """C classes of executors, K classes of nodes, P topologies.

    Attributes
    ----------
    groups, classes, inner
        Classes of executors, alike in their topology, too; of nodes, alike in their slots, too; and
        the problem in their counts.
    job, slots
        (C,) topology of a class of executors; (K,) slots of one node.
    fewest, workers
        (P,) workers that a topology must and may have: equal where the file gives their number.
    per_slot
        Most executors in a slot, ``None`` for any number.
    """

    groups: TaskGroups
    classes: NodeClasses
    inner: PatternProblem
    job: Integers
    slots: Integers
    fewest: Integers
    workers: Integers
    per_slot: int | None

    @property
    def num_jobs(self) -> int:
        """P."""
        return len(self.workers)

    @property
    def exact_jobs(self) -> Integers:
        """Topologies whose number of workers is given."""
        return np.flatnonzero(self.fewest == self.workers)

    @property
    def num_states(self) -> int:
        """Vectors of counts there are, feasible or not."""
        states = 1
        for size in self.inner.sizes.tolist():
            states *= size + 1
        return states

    def least_workers(self, of_job: NDArray[Any]) -> NDArray[Any]:
        """How many workers hold so many executors of a topology (any shape) at least."""
        if self.per_slot is None:
            return (of_job > 0).astype(of_job.dtype)
        return np.asarray(-(-of_job // of_job.dtype.type(min(self.per_slot, 32767))))


def make_problem(instance: Instance, jobs: StormJobs) -> StormProblem:
    """Find the classes of an instance and count in them."""
    groups, classes = task_groups(instance, jobs.job), node_classes(instance, jobs.slots)
    limit = instance.limits.max_tasks_per_slot
    return StormProblem(
        groups,
        classes,
        problem_of(instance, groups, classes),
        jobs.job[groups.members[groups.indptr[:-1]]],
        jobs.slots[classes.members[classes.indptr[:-1]]],
        jobs.fewest,
        jobs.workers,
        None if limit is None else int(limit),
    )
