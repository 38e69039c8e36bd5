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

import time
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.column_generation.problem import problem_of
from optim.errors import Problem, UnsuitableMethod
from optim.kernels.classes import node_classes, task_groups
from optim.kernels.place_rules import chosen_nodes
from optim.solvers.inprocess import solve_lp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from formulations.column_generation.problem import PatternProblem
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats
    from optim.kernels.classes import NodeClasses, TaskGroups

    Integers = NDArray[np.int64]


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


# A bound on the traffic inside nodes where executors are too unlike to list what a node may hold.
#
# Two executors exchange at most ρ × load × load', with one ρ for each two components. So a node
# holds no more traffic than a quadratic form of the loads that it holds of each component, whose
# greatest value over what fits is found face by face. Prices on the components' loads tie the nodes
# together. The argument is in ``docs/proofs/density-bound.md``.


MOST_COMPONENTS = 10
"""Components that are distinguished: their subsets are looked at one by one."""

_STEPS, _CLOSE = 100, 1e-6
"""Steps of the search for prices, and the part of all traffic that a further one must promise."""
_SPREAD, _SLACK, _ROUNDING = 1e-9, 1e-7, 1e-6
"""Added to densities so that no system is singular; by how much a point may lie outside a face;
what is added to the bound, as a part of all traffic, for doubles."""


@dataclass(frozen=True, eq=False)
class Densities:
    """The relaxation for one resource; traffic is a part of all traffic, load a part of all load.

    Attributes
    ----------
    density
        (C, C) most traffic of two executors for each load of one and of the other.
    loads
        (C,) load of each component.
    room, nodes
        (K,) load that a node of each class has room for; how many nodes there are of it.
    """

    density: Floats
    loads: Floats
    room: Floats
    nodes: Floats


def density_bound(instance: Instance, problem: StormProblem, seconds: float) -> float | None:
    """Return traffic that no placement has more of inside nodes; ``None`` where nothing is known.

    Parameters
    ----------
    problem
        Classes of nodes and topologies are read; its classes of executors need not be few.
    seconds
        Of the wall clock; whenever they are over, there is a bound.
    """
    total, ends = instance.total_traffic, time.perf_counter() + seconds
    # of local_first streams all may stay
    near = sum(block.rate * len(block.sources) for block in instance.flows.local)
    best = np.inf
    for resource in range(instance.num_resources):
        relaxed = densities(instance, problem, resource)
        if relaxed is not None and (best == np.inf or time.perf_counter() < ends):
            best = min(best, priced(relaxed, ends) + _ROUNDING)
    return None if best >= 1.0 - near / max(total, near, 1e-300) else best * total + near


def densities(instance: Instance, problem: StormProblem, resource: int) -> Densities | None:
    """Return the relaxation for a resource; ``None`` where it bounds nothing."""
    load, room = instance.tasks.load[:, resource], problem.classes.room[:, resource]
    whole, traffic = float(load.sum()), instance.total_traffic
    if traffic <= 0.0 or not (load > 0.0).all() or not np.isfinite(room).all():
        return None
    of = _components(instance, problem)
    u, v, rate = instance.pairs
    density = np.zeros((int(of.max()) + 1,) * 2)
    share = (rate / traffic) / (load[u] / whole) / (load[v] / whole)
    for a, b in ((of[u], of[v]), (of[v], of[u])):
        np.maximum.at(density, (a, b), share)
    return Densities(
        density,
        np.bincount(of, weights=load / whole).astype(np.float64),
        np.maximum(0.0, room) / whole,
        problem.classes.sizes.astype(np.float64),
    )


def _components(instance: Instance, problem: StormProblem) -> Integers:
    """(T,) component of each executor; the smallest ones are one where there are too many."""
    keys = np.column_stack([problem.job[problem.groups.group], instance.tasks.operator])
    of = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(-np.bincount(of), kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.minimum(np.arange(len(order)), MOST_COMPONENTS - 1)
    return rank[of]


def priced(relaxed: Densities, ends: float) -> float:
    """Return the least bound that prices of a column generation give, as a part of all traffic."""
    kinds, parts = len(relaxed.nodes), len(relaxed.loads)
    spread = _SPREAD * max(1.0, float(relaxed.density.max()))
    # any numbers above 0 do; these are of no pattern
    odd = np.sqrt(2.0 + np.arange(parts * parts)).reshape(parts, parts) % 1.0
    density = relaxed.density + spread * (odd + odd.T)
    price = np.zeros(parts)
    held: list[list[Floats]] = [[] for _ in range(kinds)]
    best = np.inf
    # a face whose system is nearly singular may be missed by as much as was added to densities
    missed = 10.0 * spread * float(relaxed.nodes @ relaxed.room**2)
    for _ in range(_STEPS):
        bound = float(price @ relaxed.loads) + missed
        for k in range(kinds):
            try:
                value, points = _fullest(density, price, float(relaxed.room[k]))
            except np.linalg.LinAlgError:  # a face was not looked at: no bound
                return best
            bound += float(relaxed.nodes[k]) * value
            held[k] += points
        best = min(best, bound)
        if time.perf_counter() > ends:
            break
        answer = _master(relaxed, density, held)
        if answer is None or best - answer[0] < _CLOSE:
            break
        price = answer[1]
    return best


def _fullest(density: Floats, price: Floats, room: float) -> tuple[float, list[Floats]]:
    """Return the most that a node is worth at these prices, and loads that come near to it."""
    worth, points = [0.0], [np.zeros(len(price))]
    for found in _stationary(density, price, room):
        inside = (found >= -_SLACK * room).all(axis=1) & (found.sum(axis=1) <= room * (1 + _SLACK))
        for q in found[inside]:
            worth.append(float(0.5 * q @ density @ q - price @ q))
            points.append(np.maximum(q, 0.0))
    order = np.argsort(worth)[::-1]
    return worth[int(order[0])], [points[i] for i in order[:5].tolist()]


def _stationary(density: Floats, price: Floats, room: float) -> Iterator[Floats]:
    """Yield (M, C) stationary points of all faces of the loads that fit, of one dimension each."""
    parts = len(price)
    for size in range(1, parts + 1):
        faces = np.array(list(combinations(range(parts), size)))
        form = density[faces[:, :, None], faces[:, None, :]]
        bordered = np.zeros((len(faces), size + 1, size + 1))
        bordered[:, :size, :size] = form
        bordered[:, size, :size] = bordered[:, :size, size] = 1.0
        right = np.concatenate([price[faces], np.full((len(faces), 1), room)], axis=1)
        rows = np.arange(len(faces))[:, None]
        for matrix, side in ((form, price[faces]), (bordered, right)):
            points = np.zeros((len(faces), parts))
            points[rows, faces] = np.linalg.solve(matrix, side[:, :, None])[:, :size, 0]
            yield points


def _master(
    relaxed: Densities, density: Floats, held: list[list[Floats]]
) -> tuple[float, Floats] | None:
    """Solve the linear program over some loads; what it places wrongly costs all traffic."""
    points = np.array([q for some in held for q in some])
    kinds, parts = len(held), len(relaxed.loads)
    of = np.repeat(np.arange(kinds), [len(some) for some in held])
    wrong = np.diag(relaxed.loads)
    placed = np.hstack([points.T, wrong, -wrong])
    whole = np.hstack([of[None, :] == np.arange(kinds)[:, None], np.zeros((kinds, 2 * parts))])
    gain = 0.5 * np.einsum("pi,ij,pj->p", points, density, points)
    cost = np.concatenate([-gain, np.ones(2 * parts)])
    answer = solve_lp(
        cost, np.vstack([placed, whole]), np.concatenate([relaxed.loads, np.full(kinds, -np.inf)]),
        np.concatenate([relaxed.loads, relaxed.nodes]), np.zeros(len(cost)),
        np.full(len(cost), np.inf),
    )  # fmt: skip
    if answer.objective is None or answer.row_duals is None:
        return None
    return -answer.objective, -answer.row_duals[:parts]
