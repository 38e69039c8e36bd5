"""An instance as Storm sees it: topologies, their executors, their workers, the free slots.

A topology of E executors that asks for W workers runs on min(W, E) of them, each of which takes one
slot of a node. Where the instance is silent, nothing is asked: a topology without a number of
workers may have any from 1 to E, a node without a number of slots has as many as it likes, tasks of
an instance without topologies form one of their own. Schedulers that go by such numbers take their
own: one worker a usable node, an even share of all workers as slots (`scheduled_jobs`).

Source: Aniello, Baldoni and Querzoni, "Adaptive online scheduling in Storm", DEBS 2013, section 3,
doi:10.1145/2488222.2488267.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.column_generation.problem import problem_of
from optim.errors import Problem, UnsuitableMethod
from optim.kernels.classes import node_classes, task_groups
from optim.kernels.node_choice import chosen_nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats

    Integers = NDArray[np.int64]
    from formulations.column_generation.problem import PatternProblem
    from optim.kernels.classes import NodeClasses, TaskGroups


NO_TOPOLOGY = "tasks without a topology"

_NAMED = 20


@dataclass(frozen=True, eq=False)
class StormJobs:
    """P topologies that have executors, and where their workers may go.

    Attributes
    ----------
    names
        Of the topologies, in the order of the file; a last one for an instance without any.
    executors
        For each the tasks, grouped by component.
    fewest, workers
        (P,) workers that a topology must and may have: both min(W, E) where the file says W.
    slots
        (N,) slots of the nodes that stay, of which no more than all workers are counted.
    job, nodes
        (T,) topology of each task; (P, N) nodes that schedulers choose it from.
    """

    names: tuple[str, ...]
    executors: tuple[Integers, ...]
    fewest: Integers
    workers: Integers
    slots: Integers
    job: Integers
    nodes: Bools

    @property
    def num_jobs(self) -> int:
        """P."""
        return len(self.names)


def storm_jobs(instance: Instance, method: str) -> StormJobs:
    """Read topologies, workers and slots off an instance.

    Parameters
    ----------
    method
        Named in errors.

    Raises
    ------
    UnsuitableMethod
        The instance has topologies, and some component or task is in none of them.
    """
    check_topologies(instance, method)
    executors = _executors_of(instance)
    held = [i for i, tasks in enumerate(executors) if len(tasks)]
    names = (*instance.topologies.ids, NO_TOPOLOGY)
    size = np.array([len(executors[i]) for i in held], dtype=np.int64)
    given = np.append(instance.topologies.workers, -1)[held].astype(np.int64)
    job = np.zeros(instance.num_tasks, dtype=np.int64)
    for number, i in enumerate(held):
        job[executors[i]] = number
    workers = np.where(given >= 0, np.minimum(given, size), size)
    slots = np.where(instance.nodes.slots < 0, workers.sum(), instance.nodes.slots)
    slots = np.where(instance.nodes.leaving, 0, np.minimum(slots, workers.sum()))
    return StormJobs(
        tuple(names[i] for i in held),
        tuple(executors[i] for i in held),
        np.where(given >= 0, workers, 1),
        workers,
        slots.astype(np.int64),
        job,
        np.ones((len(held), instance.num_nodes), dtype=np.bool_),
    )


def scheduled_jobs(instance: Instance, method: str) -> StormJobs:
    """Read the same with a number for everything, as schedulers want it that go by numbers.

    A topology without a number of workers gets one a usable node, a node without a number of slots
    its even share of all workers. Where nodes are counted, topologies choose among those that are
    chosen for them.

    Raises
    ------
    UnsuitableMethod
        As `storm_jobs`.
    """
    jobs = storm_jobs(instance, method)
    # without a usable node it is 1, for a slot to be missing
    usable = max(1, int((instance.open_nodes & (instance.nodes.slots != 0)).sum()))
    given = jobs.fewest == jobs.workers
    workers = np.where(given, jobs.workers, np.minimum(jobs.workers, usable))
    slots = instance.nodes.slots.astype(np.int64)
    slots[instance.nodes.leaving] = 0
    silent = slots < 0
    if silent.any():
        slots[silent] = -(-int(workers.sum()) // int(instance.open_nodes.sum()))
    part, chosen = chosen_nodes(instance)
    for usable, tasks in zip(jobs.nodes, jobs.executors, strict=True):
        usable[:] = chosen[np.unique(part[tasks])].all(axis=0)
    return replace(jobs, fewest=workers, workers=workers, slots=slots)


def slot_keys(instance: Instance, jobs: StormJobs) -> Floats:
    """(N, k) numbers in which nodes must be alike to be equal in their slots, too."""
    return np.column_stack([jobs.slots, instance.nodes.slot_capacity])


def check_topologies(instance: Instance, method: str) -> None:
    """Refuse components and tasks that belong to no topology where the instance has topologies.

    Raises
    ------
    UnsuitableMethod
        Naming each of the first ones, and what would help.
    """
    if not instance.topologies.ids:
        return
    remedy = f"give it a topology, one of {', '.join(instance.topologies.ids[:5])}"
    used = instance.operators.num_tasks > 0
    problems = [
        Problem(f"operators[{o}].topology", None, f"{instance.operators.ids[o]} is in none", remedy)
        for o in np.flatnonzero((instance.operators.topology < 0) & used)
    ]
    problems += [
        Problem(
            f"tasks[{t}].operator",
            None,
            f"{instance.tasks.ids[t]} has none, and so is in no topology, which {method} needs",
            "give it an operator that is in a topology",
        )
        for t in np.flatnonzero(instance.tasks.operator < 0)
    ]
    if len(problems) > _NAMED:
        rest = f"and {len(problems) - _NAMED} more components or tasks in no topology"
        problems = [*problems[:_NAMED], Problem("operators", None, rest, remedy)]
    if problems:
        raise UnsuitableMethod(problems)


def _executors_of(instance: Instance) -> list[Integers]:
    """Return the tasks of each topology, grouped by component, those without a topology last."""
    operator = instance.tasks.operator
    none = len(instance.topologies.ids)
    topology = np.full(instance.num_tasks, none)
    has_operator = operator >= 0
    given = instance.operators.topology[operator[has_operator]]
    topology[has_operator] = np.where(given >= 0, given, none)
    component = np.where(has_operator, operator, instance.num_operators)
    order = np.lexsort((instance.tasks.member, component, topology))
    bounds = np.searchsorted(topology[order], np.arange(none + 2))
    return [order[start:stop] for start, stop in pairwise(bounds)]


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
