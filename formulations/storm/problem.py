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

from formulations.column_generation.problem import Pool, Rows, problem_of
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
    """P topologies that have executors, and where their workers may go."""

    #: Of the topologies, in the order of the file; a last one for an instance without any.
    names: tuple[str, ...]
    executors: tuple[Integers, ...]  # For each the tasks, grouped by component.
    #: (P,) workers that a topology must and may have: both min(W, E) where the file says W.
    fewest: Integers
    workers: Integers
    #: (N,) slots of the nodes that stay, of which no more than all workers are counted.
    slots: Integers
    #: (T,) topology of each task; (P, N) nodes that schedulers choose it from.
    job: Integers
    nodes: Bools

    @property
    def num_jobs(self) -> int:
        """P."""
        return len(self.names)


def storm_jobs(instance: Instance, method: str) -> StormJobs:
    """Read topologies, workers and slots off an instance.

    Raises `UnsuitableMethod`: the instance has topologies, and some component or task is in none of
        them.
    """
    check_topologies(instance, method)
    executors = _executors_of(instance)
    nonempty = [i for i, tasks in enumerate(executors) if len(tasks)]
    names = (*instance.topologies.ids, NO_TOPOLOGY)
    size = np.array([len(executors[i]) for i in nonempty], dtype=np.int64)
    declared = np.append(instance.topologies.workers, -1)[nonempty].astype(np.int64)
    job = np.zeros(instance.num_tasks, dtype=np.int64)
    for number, i in enumerate(nonempty):
        job[executors[i]] = number
    workers = np.where(declared >= 0, np.minimum(declared, size), size)
    slots = np.where(instance.nodes.slots < 0, workers.sum(), instance.nodes.slots)
    slots = np.where(instance.nodes.leaving, 0, np.minimum(slots, workers.sum()))
    return StormJobs(
        tuple(names[i] for i in nonempty),
        tuple(executors[i] for i in nonempty),
        np.where(declared >= 0, workers, 1),
        workers,
        slots.astype(np.int64),
        job,
        np.ones((len(nonempty), instance.num_nodes), dtype=np.bool_),
    )


def scheduled_jobs(instance: Instance, method: str) -> StormJobs:
    """Read the same with a number for everything, as schedulers want it that go by numbers.

    A topology without a number of workers gets one a usable node, a node without a number of slots
    its even share of all workers. Where nodes are counted, topologies choose among those that are
    chosen for them.

    Raises `UnsuitableMethod`: as `storm_jobs`.
    """
    jobs = storm_jobs(instance, method)
    # without a usable node it is 1, for a slot to be missing
    usable = max(1, int((instance.open_nodes & (instance.nodes.slots != 0)).sum()))
    has_number = jobs.fewest == jobs.workers
    workers = np.where(has_number, jobs.workers, np.minimum(jobs.workers, usable))
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

    Raises `UnsuitableMethod`: naming each of the first ones, and what would help.
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
    of_operator = instance.operators.topology[operator[has_operator]]
    topology[has_operator] = np.where(of_operator >= 0, of_operator, none)
    component = np.where(has_operator, operator, instance.num_operators)
    order = np.lexsort((instance.tasks.member, component, topology))
    bounds = np.searchsorted(topology[order], np.arange(none + 2))
    return [order[start:stop] for start, stop in pairwise(bounds)]


@dataclass(frozen=True, eq=False)
class StormProblem:
    """C classes of executors, K classes of nodes, P topologies."""

    #: Classes of executors, alike in their topology, too; of nodes, alike in their slots, too; and
    #: the problem in their counts.
    groups: TaskGroups
    classes: NodeClasses
    inner: PatternProblem
    #: (C,) topology of a class of executors; (K,) slots of one node.
    job: Integers
    slots: Integers
    #: (P,) workers that a topology must and may have: equal where the file gives their number.
    fewest: Integers
    workers: Integers
    per_slot: int | None  # Most executors in a slot, ``None`` for any number.

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

    def of_jobs(self, counts: Integers) -> Integers:
        """(P, M) executors of each topology in (M, C) counts."""
        return np.stack([counts[:, self.job == p].sum(axis=1) for p in range(self.num_jobs)])

    def least_workers(self, of_job: NDArray[Any]) -> NDArray[Any]:
        """How many workers hold so many executors of a topology (any shape) at least."""
        if self.per_slot is None:
            return (of_job > 0).astype(of_job.dtype)
        most = min(self.per_slot, np.iinfo(of_job.dtype).max)
        return np.asarray(-(-of_job // of_job.dtype.type(most)))


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


MOST_COMPONENTS = 10  # Components that are distinguished: their subsets are looked at one by one.

_STEPS, _CLOSE = 100, 1e-6
"""Steps of the search for prices, and the part of all traffic that a further one must promise."""
_SPREAD, _SLACK, _ROUNDING = 1e-9, 1e-7, 1e-6
"""Added to densities so that no system is singular; by how much a point may lie outside a face;
what is added to the bound, as a part of all traffic, for doubles."""


@dataclass(frozen=True, eq=False)
class Densities:
    """The relaxation for one resource; traffic and load are parts of all traffic and all load."""

    density: Floats  # (C, C) most traffic of two executors for each load of one and of the other.
    loads: Floats  # (C,) load of each component.
    #: (K,) load that a node of each class has room for; how many nodes there are of it.
    room: Floats
    nodes: Floats


def density_bound(instance: Instance, problem: StormProblem, seconds: float) -> float | None:
    """Return traffic that no placement has more of inside nodes; ``None`` where nothing is known.

    `problem`: classes of nodes and topologies are read; its classes of executors need not be few.
    `seconds`: of the wall clock; whenever they are over, there is a bound.
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
    columns: list[list[Floats]] = [[] for _ in range(kinds)]
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
            columns[k] += points
        best = min(best, bound)
        if time.perf_counter() > ends:
            break
        answer = _master(relaxed, density, columns)
        if answer is None or best - answer[0] < _CLOSE:
            break
        price = answer[1]
    return best


def _fullest(density: Floats, price: Floats, room: float) -> tuple[float, list[Floats]]:
    """Return the most that a node is worth at these prices, and loads that come near to it."""
    values, points = [0.0], [np.zeros(len(price))]
    for stationary in _stationary(density, price, room):
        inside = (stationary >= -_SLACK * room).all(axis=1) & (
            stationary.sum(axis=1) <= room * (1 + _SLACK)
        )
        for q in stationary[inside]:
            values.append(float(0.5 * q @ density @ q - price @ q))
            points.append(np.maximum(q, 0.0))
    order = np.argsort(values)[::-1]
    return values[int(order[0])], [points[i] for i in order[:5].tolist()]


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
    relaxed: Densities, density: Floats, columns: list[list[Floats]]
) -> tuple[float, Floats] | None:
    """Solve the linear program over some loads; what it places wrongly costs all traffic."""
    points = np.array([q for some in columns for q in some])
    kinds, parts = len(columns), len(relaxed.loads)
    of = np.repeat(np.arange(kinds), [len(some) for some in columns])
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


# Every vector of counts a node may hold, listed once: its traffic inside, its load, who may.


@dataclass(frozen=True, eq=False)
class States:
    """S vectors of counts; number s stands for counts (s // stride) % (size + 1)."""

    #: (C,) executors of each class, and what one of them adds to the number of a state.
    size: Integers
    stride: Integers
    gain: Floats  # (S,) scaled traffic among the executors.
    of_job: NDArray[Any]  # (P, S) executors of each topology.
    fitting: tuple[Integers, ...]  # For each class of nodes the states that such a node can hold.

    def counts(self, state: Integers) -> Integers:
        """Return (…, C) counts of states."""
        if (self.size == 1).all():  # bits: shifts are much cheaper than divisions
            return (np.asarray(state)[..., None] >> np.arange(len(self.size))) & 1
        return (np.asarray(state)[..., None] // self.stride) % (self.size + 1)

    def number(self, counts: Integers) -> Integers:
        """Return the numbers of (…, C) counts."""
        return np.asarray(counts) @ self.stride

    def pool(self, node_class: int, state: Integers) -> Pool:
        """Return states as patterns of a class of nodes."""
        kinds = np.full(len(state), node_class, dtype=np.int64)
        return Pool(self.counts(state), kinds, self.gain[state])


class StateListing:
    """The states as a list to price from, under rows of workers."""

    def __init__(self, states: States, rows: WorkerRows) -> None:
        self.states, self.rows = states, rows
        self.largest_gain = float(states.gain.max(initial=0.0))
        self.lengths = [len(fitting) for fitting in states.fitting]

    def values(self, price: Floats, side: Floats, *, gainless: bool) -> list[Floats]:
        """Return for each class of nodes the value of the states that fit it."""
        states = self.states
        value = -outer_sum(states.size, price)
        if not gainless:
            value += states.gain
        return [
            value[fitting] - self.rows.priced(k, side) for k, fitting in enumerate(states.fitting)
        ]

    def pool(self, node_class: int, at: Integers) -> Pool:
        """Return patterns by their place among the fitting states."""
        return self.states.pool(node_class, self.states.fitting[node_class][at])


def list_states(problem: StormProblem) -> States:
    """List all states of a problem and find which nodes can hold them."""
    inner = problem.inner
    is_job = (problem.job == np.arange(problem.num_jobs)[:, None]).astype(np.float64)
    of_job = np.stack([outer_sum(inner.sizes, each) for each in is_job]).astype(_short(problem))
    fitting = tuple(_fitting(problem, of_job, k) for k in range(inner.num_node_classes))
    gain = inner_gain(inner.sizes, inner.rate)
    return States(inner.sizes, strides(inner.sizes), gain, of_job, fitting)


def _short(problem: StormProblem) -> type[Any]:
    """Return the integers that hold counts of executors: millions of states have one each."""
    return np.int16 if problem.inner.sizes.sum() < 2**15 else np.int32


def strides(size: Integers) -> Integers:
    """(C,) what one executor of each class adds to the number of a state."""
    return np.concatenate([[1], np.cumprod(size + 1)[:-1]]).astype(np.int64)


def inner_gain(size: Integers, rate: Floats) -> Floats:
    """(S,) traffic among the executors of every state."""
    gain = np.zeros(1)
    for c, most in enumerate(size.tolist()):
        count = np.arange(most + 1, dtype=np.float64)
        # what one more executor of this class has with those listed already
        partner = outer_sum(size[:c], rate[c, :c])
        within_class = rate[c, c] * count * (count - 1) / 2
        gain = (gain[None, :] + count[:, None] * partner[None, :] + within_class[:, None]).ravel()
    return gain


def outer_sum(size: Integers, weight: Floats) -> Floats:
    """Return Σ_c weight_c count_c for every state of these classes."""
    total = np.zeros(1)
    for count, w in zip(size.tolist(), weight.tolist(), strict=True):
        total = (total[None, :] + w * np.arange(count + 1.0)[:, None]).ravel()
    return total


def _fitting(problem: StormProblem, of_job: NDArray[Any], k: int) -> Integers:
    """Return the states that a node of class k can hold."""
    inner = problem.inner
    fits = np.ones(of_job.shape[1], dtype=np.bool_)
    for r in range(inner.load.shape[1]):
        limit, least = inner.limit[k, r], inner.least[k, r]
        if np.isfinite(limit) or np.isfinite(least):
            load = outer_sum(inner.sizes, inner.load[:, r])
            fits &= (load <= limit) & (load >= least)
    barred = (inner.most[k] == 0).astype(np.float64)
    if barred.any():
        fits &= outer_sum(inner.sizes, barred) == 0
    fits &= problem.least_workers(of_job).sum(axis=0) <= problem.slots[k]
    return np.flatnonzero(fits)


MAX_TOPOLOGIES = 5  # With given numbers of workers: there are 2^P rows of these.

_VIOLATION = 0.02


class WorkerRows(Rows):
    """Rows over the states that nodes can hold: workers, and cuts.

    Workers. Of a pattern with a set of topologies, topology i may have from ``low_i`` to ``high_i``
    workers, all together at most the node's slots. That every topology gets exactly W_i of them
    over all nodes holds if and only if, for every set A of topologies that have such a W_i,

        Σ_p Σ_{i in A} low_i(p) λ_p  ≤  Σ_{i in A} W_i  ≤  Σ_p most_A(p) λ_p,
        most_A = min(Σ_{i in A} high_i, slots − Σ_{i not in A} low_i),

    since such sets of workers are generalised polymatroids, whose sums are described by the sums of
    their bounds. So no pattern needs a copy for every number of workers. A topology with any number
    from 1 to E has no rows: none of its own, since ``low ≤ E`` and all executors have a place; and
    in A it would add Σ low_i(p) λ_p ≥ 1 to the right side at least, and 1 to the left.

    Cuts. Of three classes of executors, ⌊(sum of their counts)/2⌋ summed over the patterns is at
    most ⌊(sum of their sizes)/2⌋ (Chvátal-Gomory with multipliers 1/2; for single executors: no two
    patterns hold two of the same three).

    `empty`: how many nodes must hold nothing; ``None`` for any number.
    """

    def __init__(self, problem: StormProblem, states: States) -> None:
        """Write the rows of workers."""
        jobs = problem.exact_jobs.tolist()
        self._sets = [list(a) for n in range(1, len(jobs) + 1) for a in combinations(jobs, n)]
        needed = [float(problem.workers[a].sum()) for a in self._sets]
        super().__init__(
            lower=np.concatenate([np.full(len(jobs), -np.inf), needed]),
            upper=np.concatenate([problem.workers[jobs], np.full(len(needed), np.inf)]),
        )
        self.problem, self.states = problem, states
        self._triples: list[tuple[int, ...]] = []
        self._table = [
            self._of_workers(states.of_job[:, fitting], problem.slots[k]).astype(_short(problem))
            for k, fitting in enumerate(states.fitting)
        ]
        self.empty: int | None = None

    def of(self, pool: Pool) -> Floats:
        """(M, P) coefficients of patterns."""
        counts, of_job = pool.counts, self.problem.of_jobs(pool.counts)
        parts = [self._of_workers(of_job, self.problem.slots[pool.node_class])]
        if self.empty is not None:
            parts += [np.tile((counts.sum(axis=1) == 0).astype(np.int64), (2, 1))]
        parts += [counts[:, list(triple)].sum(axis=1)[None, :] // 2 for triple in self._triples]
        return np.concatenate(parts).astype(np.float64)

    def _of_workers(self, of_job: NDArray[Any], slots: Integers) -> NDArray[Any]:
        """(rows, P) coefficients from (jobs, P) executors and the slots of the nodes."""
        low, high = self.problem.least_workers(of_job), np.minimum(of_job, slots)
        most = [
            np.minimum(high[a].sum(axis=0), slots - np.delete(low, a, axis=0).sum(axis=0))
            for a in self._sets
        ]
        return np.vstack([low[self.problem.exact_jobs], *most])

    def hold(self, pool: Pool) -> bool:
        """Whether patterns keep the rows and find slots on their nodes."""
        least = self.problem.least_workers(self.problem.of_jobs(pool.counts)).sum(axis=0)
        return bool((least <= self.problem.slots[pool.node_class]).all()) and super().hold(pool)

    def priced(self, k: int, price: Floats) -> Floats:
        """Return the price of the states that fit nodes of class k, at the rows' prices."""
        total = np.zeros(self._table[k].shape[1])
        for row in np.flatnonzero(price):
            total += price[row] * self._table[k][row]
        return total

    def fix_empty(self, count: int) -> None:
        """Demand that exactly so many nodes hold nothing; before any cuts."""
        self.empty = count
        for lower, upper in ((-np.inf, float(count)), (float(count), np.inf)):
            self._append(lower, upper, [fitting == 0 for fitting in self.states.fitting])

    def _append(self, lower: float, upper: float, rows: list[NDArray[np.bool_]]) -> None:
        self.lower, self.upper = np.append(self.lower, lower), np.append(self.upper, upper)
        for k, row in enumerate(rows):
            self._table[k] = np.vstack([self._table[k], row.astype(self._table[k].dtype)])

    def add_cuts(self, counts: Integers, value: Floats, most: int) -> int:
        """Add the cuts that a fractional solution violates most.

        `counts`, `value`: (…, C) counts and values of the patterns it uses.
        Returns how many were added.
        """
        size = self.problem.inner.sizes
        violated = []
        for triple in combinations(range(len(size)), 3):
            if triple in self._triples:
                continue
            chosen = list(triple)
            bound = int(size[chosen].sum()) // 2
            over = float(value @ (counts[:, chosen].sum(axis=1) // 2)) - bound
            if over > _VIOLATION:
                violated.append((-over, triple, bound))
        violated.sort()
        for _, triple, bound in violated[:most]:
            self._triples.append(triple)
            states = self.states
            rows = [states.counts(f)[:, list(triple)].sum(axis=1) // 2 for f in states.fitting]
            self._append(-np.inf, float(bound), rows)
        return min(most, len(violated))
