"""The linear model of Storm's problem: for rules and sizes that patterns do not cover.

A worker is a slot of a node, which is allocation A1 followed by A2. On the first level nodes alone
matter: executor t is on node n (x_tn), topology i has w_in workers there,

    x_tn ≤ w_in ≤ Σ_t x_tn,   Σ_n w_in = min(W_i, E_i),   Σ_i w_in ≤ S_n

(where the file gives no W_i, from 1 to E_i), and products of x count what stays on a node. On the
second level (and on both, where slots have a capacity, or sets are over slots) executor t is in
slot s of node n (y_tns), which runs topology i (v_ins).

Where only so many workers may restart, the first slots of a node are those that run now, c of them
with executors T_c (k_c: it goes on as it is), and the others new:

    k_c ≤ y_tc for t in T_c,   Σ_(t not in T_c) y_tc ≤ M (1 − k_c),
    Σ_c (1 − k_c) + Σ_(s new) Σ_i v_is ≤ limit

Solvers know sums to some digits of all traffic, which is too few where hardly any is between nodes.
Beside a plan of b between nodes, none that is better has a pair of more than b between nodes: such
pairs are held together, and the others are all traffic there is.

What stays of `local_first` streams has columns of its own, for nodes and for slots
(`formulations.model_rows.add_staying`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.model_rows import (
    Placing,
    RuleRows,
    Staying,
    Whereabouts,
    add_at_most,
    add_order,
    add_products,
    add_rule_rows,
    add_staying,
)
from formulations.storm.problem import slot_keys
from formulations.storm.split import in_order, in_order_now, split_all
from formulations.task_allocation.common import HONOURS, LINEAR_ONLY
from formulations.task_allocation.model import (
    SCALED_TOTAL,
    build,
    solve_exactly,
)
from formulations.task_allocation.slots import Workers, add_workers
from optim.errors import UnsuitableMethod
from optim.figures.measures import imc_gain_of, internode_of, slot_places
from optim.kernels.place_rules import slot_room, slot_rules
from optim.methods.registry import Outcome
from optim.referee import Termination
from optim.rules import kept_by, most_restarts
from optim.rules.slot_assignment import assign_slots
from optim.rules.slot_assignment.groups import Worker, workers_of
from optim.solvers import solve_linear

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm.problem import StormJobs
    from formulations.task_allocation.model import AllocationModel
    from optim.format.instance import Instance
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


def _none() -> Integers:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class WorkerModel:
    """The model and its columns; y, v, z and k are those of the formulas above."""

    allocation: AllocationModel  # Executors on nodes, and products: the first columns.
    workers: Integers  # (P, N) columns of w.
    #: Executor and place (an index into `places`) of each y; empty without slots.
    slot_task: Integers = field(default_factory=_none)
    slot_place: Integers = field(default_factory=_none)
    #: Columns of y; (P, places) columns of v.
    y: Integers = field(default_factory=_none)
    v: Integers = field(default_factory=_none)
    #: Columns of the products in slots, and the columns of y that each is a product of.
    z: Integers = field(default_factory=_none)
    z_u: Integers = field(default_factory=_none)
    z_v: Integers = field(default_factory=_none)
    places: Integers = field(default_factory=_none)  # (places, 2) node and slot.
    #: What of `local_first` streams stays in slots, where products in slots are there.
    near: Staying | None = None
    sets: RuleRows | None = None  # What rows of sets over slots added.
    #: The slots that run now, where restarts are counted: the first places of their nodes.
    running: tuple[Worker, ...] = ()
    #: Columns of k, one for each of `running` that has a place.
    goes_on: Integers = field(default_factory=_none)

    def read(self, x: Floats, num_tasks: int) -> tuple[Any, Any]:
        """Read (T,) node indices and, where there are slots, (T,) slots off a solution."""
        node = self.allocation.place(x)
        if not len(self.y):
            return node, None
        slot = np.full(num_tasks, -1, dtype=np.int64)
        chosen = np.flatnonzero(x[self.y] > 0.5)
        numbers = numbers_of(self.places, self.running)
        slot[self.slot_task[chosen]] = numbers[self.slot_place[chosen]]
        return node, slot

    def read_workers(self, x: Floats) -> Integers:
        """(P, N) workers."""
        return np.round(x[self.workers]).astype(np.int64)

    def write(self, job: Integers, node: Integers, slot: Integers) -> Floats:
        """Write (T,) node and slot indices as a full column vector."""
        # identical slots are numbered by their first executor, as the rows of `add_order` want it
        slot = in_order(node, slot, self.running)
        x = np.zeros(self.allocation.model.num_variables)
        first = self.allocation.vector(node.astype(np.int32))
        x[: len(first)] = first
        used = np.unique(np.column_stack([job, node, slot]), axis=0)
        np.add.at(x, self.workers[used[:, 0], used[:, 1]], 1.0)
        if len(self.y):
            at = self.places[self.slot_place]
            x[self.y] = (node[self.slot_task] == at[:, 0]) & (slot[self.slot_task] == at[:, 1])
            number = {(int(n), int(s)): i for i, (n, s) in enumerate(self.places)}
            for p, n, s in used.tolist():
                x[self.v[p, number[n, s]]] = 1.0
            x[self.z] = x[self.z_u] * x[self.z_v]
            pairs = zip(node.tolist(), slot.tolist(), strict=True)
            place = np.array([number[pair] for pair in pairs])
            if self.near is not None:
                self.near.complete(x, place)
            if self.sets is not None:
                self.sets.complete(x, place)
            ends = in_order_now(self.running)
            for column, worker, number_now in zip(self.goes_on, self.running, ends, strict=True):
                there = (node == worker.node) & (slot == number_now)
                x[column] = tuple(np.flatnonzero(there).tolist()) == worker.tasks
        return x


def numbers_of(places: Integers, running: tuple[Worker, ...]) -> Integers:
    """(places,) numbers that slots have in a plan: those that run now keep theirs."""
    taken: dict[int, list[int]] = {}
    for worker in running:
        taken.setdefault(worker.node, []).append(worker.slot)
    numbers = np.array(places[:, 1])
    for n, running_here in taken.items():
        at = np.flatnonzero(places[:, 0] == n)
        free = (
            number
            for number in range(len(at) + max(running_here) + 1)
            if number not in running_here
        )
        numbers[at] = [*running_here, *(next(free) for _ in range(len(at) - len(running_here)))]
    return numbers


def distinguishes_slots(instance: Instance, jobs: StormJobs) -> bool:
    """Whether slots are distinguished on the first level, too."""
    capacity = instance.nodes.slot_capacity[jobs.slots > 0]
    some = np.isfinite(capacity).any() or most_restarts(instance) is not None
    return bool(some or instance.slot_sets.ids)


def build_workers(
    instance: Instance,
    jobs: StormJobs,
    *,
    with_slots: bool,
    whole_products: bool,
    least_gain: float | None = None,
    between: float = math.inf,
) -> WorkerModel:
    """Build the model of one level.

    `with_slots`: whether slots are distinguished.
    `least_gain`: second level: traffic inside nodes that must be reached, in the instance's unit;
        the objective is then the traffic inside slots.
    `between`: first level: traffic between nodes of a plan. Pairs of more stay together, and only
        the others are in the objective.
    Raises `UnsuitableMethod`: too many products.
    """
    allocation = build(
        instance, alike=slot_keys(instance, jobs), whole_products=whole_products, star_rows=True
    )
    of_jobs = Workers(jobs.job, jobs.fewest, jobs.workers, jobs.slots)
    form = WorkerModel(allocation, add_workers(instance, allocation, of_jobs, whole=True))
    if with_slots:
        form = _add_slots(instance, jobs, form, whole_products, least_gain is not None)
    z, rate = allocation.traffic()
    total = instance.total_traffic
    if math.isfinite(between):
        total, rate = _hold_together(instance, allocation, between)
        allocation = replace(allocation, scale=total / SCALED_TOTAL)
        form = replace(form, allocation=allocation)
    scale = allocation.scale
    # max Σ r z / scale − total / scale = − (traffic between nodes) / scale
    if least_gain is None:
        allocation.model.set_objective(z, rate / scale)
    else:  # the objective of the first level becomes a row, and gives way to the second's
        least = least_gain / scale
        allocation.model.add_rows("first_level", least, np.inf, 0 * z, z, rate / scale, 1)
    # less the total: the figure is what does not stay together, and gaps are parts of that
    allocation.model.set_objective([], [], offset=-total / scale)
    return form


def lighter(instance: Instance, between: float) -> float:
    """Return the traffic of what may be apart where no more than that is: pairs, and senders."""
    rate, most = instance.pairs.rate, between * (1 + _SAME)
    near = sum(b.rate * len(b.sources) for b in instance.flows.local if b.rate <= most)
    return float(rate[rate <= most].sum()) + near


def _hold_together(
    instance: Instance, allocation: AllocationModel, between: float
) -> tuple[float, Floats]:
    """Hold pairs of more traffic together, x_un = x_vn; return total and rates of the others.

    Who sends more by a `local_first` stream has a receiver on its node, Σ_n y_in ≥ 1.
    """
    pairs, most = instance.pairs, between * (1 + _SAME)
    heavy = np.flatnonzero(pairs.rate > most)
    column = np.full((instance.num_tasks, instance.num_nodes), -1, dtype=np.int64)
    column[allocation.task, allocation.node] = np.arange(len(allocation.task))
    # a pair that alone exceeds all traffic between nodes of the incumbent is together in every
    # better plan
    either = np.stack([column[pairs.u[heavy]], column[pairs.v[heavy]]], axis=-1).reshape(-1, 2)
    row, side = np.nonzero(either >= 0)
    allocation.model.add_rows("held_together", 0.0, 0.0, row, either[row, side],
                             np.array([1.0, -1.0])[side], len(either))  # fmt: skip
    near, rate = allocation.local, allocation.traffic()[1]
    if near is not None:
        some = near.rate > most
        key = near.task[some] * len(near.receivers) + near.group[near.of[some]]
        distinct, row = np.unique(key, return_inverse=True)
        allocation.model.add_rows(
            "held_near", 1.0, np.inf, row, near.stays[some], 1.0, len(distinct)
        )
    return lighter(instance, between), np.where(rate <= most, rate, 0.0)


def _add_slots(
    instance: Instance, jobs: StormJobs, form: WorkerModel, whole: bool, objective: bool
) -> WorkerModel:
    """Add y and v and, where the second level is sought, products inside slots."""
    model = form.allocation.model
    task, node = form.allocation.task, form.allocation.node
    p = jobs.num_jobs
    running = _running(instance, jobs)
    now = np.bincount([w.node for w in running], minlength=instance.num_nodes)
    # all that run now, and beside them no more slots than all topologies together could fill
    each, slots = now + np.minimum(jobs.slots, jobs.workers.sum()), instance.nodes.slots
    each = np.where((now > 0) & (slots >= 0), np.maximum(np.minimum(each, slots), now), each)
    first = np.concatenate([[0], np.cumsum(each)])
    at = np.repeat(np.arange(len(each)), each)
    places = np.column_stack([at, np.arange(len(at)) - first[at]])
    of_x = np.repeat(np.arange(len(task)), each[node])
    start = np.concatenate([[0], np.cumsum(each[node])])[:-1]
    slot = np.arange(len(of_x)) - start[of_x]
    slot_task, slot_place = task[of_x], first[node[of_x]] + slot
    of_y = {"task": slot_task, **_of(places[slot_place])}
    y = model.add_variables("in_slot", len(of_x), upper=1.0, integer=True, of=of_y).indices
    of_v = {"topology": np.arange(p)[:, None], **_of(places)}
    v = model.add_variables("runs", (p, len(places)), upper=1.0, integer=True, of=of_v).indices
    # Σ_s y_tns = x_tn,  y_tns ≤ v_ins,  v_ins ≤ Σ_t y_tns
    every, job, cells = np.arange(len(task)), jobs.job[slot_task], np.arange(v.size)
    in_slot, on_node = (of_x, y, 1.0), (every, every, -1.0)
    of_x_columns = {"task": task, "node": node}
    model.add_sum("one_slot", 0.0, 0.0, len(task), in_slot, on_node, of=of_x_columns)
    add_at_most(model, "own_slot", y, v[job, slot_place], of_y)
    model.add_sum(
        "filled", 0.0, np.inf, v.size, (job * len(places) + slot_place, y, 1.0),
        (cells, v.ravel(), -1.0),
        of={"topology": cells // len(places), **_of(places[cells % len(places)])},
    )  # fmt: skip
    column = cells % len(places)
    model.add_rows(
        "one_topology", -np.inf, 1.0, column, v.ravel(), 1.0, len(places), of=_of(places)
    )
    of_slot = np.full((instance.num_tasks, len(places)), -1, dtype=np.int64)
    of_slot[slot_task, slot_place] = y
    # slots that run now are distinguished by what they hold; only the idle ones are identical
    alike = [at[ended:] for at, ended in zip(
        np.split(np.arange(len(places)), first[1:-1]), now, strict=True)]  # fmt: skip
    add_order(model, [at for at in alike if len(at)], of_slot)
    n = instance.num_nodes
    each_node = np.arange(p * n)
    model.add_sum(
        "counted", 0.0, 0.0, p * n,
        (cells // len(places) * n + places[column, 0], v.ravel(), 1.0),
        (each_node, form.workers.ravel(), -1.0),
        of={"topology": each_node // n, "node": each_node % n},
    )  # fmt: skip
    _slot_limits(instance, model, slot_task, slot_place, y, places)
    entries = Whereabouts(
        slot_task, slot_place, y, np.ones(len(y)), np.full(instance.num_tasks, -1)
    )
    sets = add_rule_rows(model, slot_rules(instance, len(places)), entries)
    goes_on = _restarts(instance, model, running, of_slot, places, v)
    z, z_u, z_v = _none(), _none(), _none()
    near = None
    if objective:
        z, z_u, z_v = _slot_products(instance, jobs, form.allocation, of_slot, places, whole)
        if instance.flows.local:
            task, place = np.nonzero(of_slot >= 0)
            placing = Placing.by_columns(of_slot[task, place], task, place, of_slot.shape)
            near = add_staying(model, instance.flows.local, placing, whole=whole, slots=places)
            model.set_objective(near.stays, near.rate / form.allocation.scale)
    return WorkerModel(
        form.allocation, form.workers, slot_task, slot_place, y, v, z, z_u, z_v, places, near, sets,
        running, goes_on,
    )  # fmt: skip


def _running(instance: Instance, jobs: StormJobs) -> tuple[Worker, ...]:
    """Return the slots that run now on nodes that stay, where restarts are counted."""
    if most_restarts(instance) is None:
        return ()
    workers = workers_of(instance.tasks.node, instance.tasks.slot)
    return tuple(worker for worker in workers if jobs.slots[worker.node] > 0)


def _restarts(
    instance: Instance,
    model: Any,
    running: tuple[Worker, ...],
    column: Integers,
    places: Integers,
    v: Integers,
) -> Integers:
    """Limit how many slots hold other executors than now; return the columns of k."""
    # k_c ≤ y_tc for t in T_c, y_tc ≤ 1 − k_c for the others; Σ_c (1 − k_c) + Σ_(s new) Σ_i v_is ≤
    # limit. Slots of nodes that are left count as ended
    most = most_restarts(instance)
    if most is None or not (instance.tasks.node >= 0).any():
        return _none()
    number = {(int(n), int(s)): i for i, (n, s) in enumerate(places)}
    at = [number[worker.node, s] for worker, s in zip(running, in_order_now(running), strict=True)]
    of = {"node": np.array([w.node for w in running], dtype=np.int64)}
    k = model.add_variables("goes_on", len(running), upper=1.0, integer=True, of=of).indices
    row: list[int] = []
    col: list[int] = []
    value: list[float] = []
    right: list[float] = []
    for c, (worker, place) in enumerate(zip(running, at, strict=True)):
        for t in range(instance.num_tasks):
            in_worker, y = t in worker.tasks, column[t, place]
            if not in_worker and y < 0:
                continue
            row += [len(right)] * (1 if y < 0 else 2)
            col += [k[c]] if y < 0 else [k[c], y]
            value += [1.0] if y < 0 else [1.0, -1.0 if in_worker else 1.0]
            right.append(0.0 if in_worker else 1.0)
    if right:
        model.add_rows(
            "worker_goes_on", -np.inf, np.array(right), np.array(row), np.array(col),
            np.array(value), len(right),
        )  # fmt: skip
    # ended slots Σ (1 − k) + slots that begin ≤ limit; those of left nodes have ended already
    new = np.setdiff1d(np.arange(len(places)), at)
    ended = len(workers_of(instance.tasks.node, instance.tasks.slot))
    begun = (0, v[:, new].ravel(), 1.0)
    model.add_sum("restarts", -np.inf, float(most - ended), 1, (0, k, -1.0), begun)
    return k


def _slot_limits(
    instance: Instance, model: Any, task: Integers, place: Integers, y: Integers, places: Integers
) -> None:
    """Executors and load of every slot."""
    limit = instance.limits.max_tasks_per_slot
    if limit is not None:
        model.add_rows(
            "tasks_in_slot", -np.inf, float(limit), place, y, 1.0, len(places), of=_of(places)
        )
    room = slot_room(instance)[places[:, 0]]
    for r in range(instance.num_resources):
        if np.isfinite(room[:, r]).any():
            load, most = instance.tasks.load[task, r], room[:, r]
            of = {**_of(places), "resource": r}
            model.add_rows("slot_capacity", -np.inf, most, place, y, load, len(places), of=of)


def _of(places: Integers) -> dict[str, Integers]:
    """Say of which slots variables or rows are."""
    return {"node": places[..., 0], "slot": places[..., 1]}


def _slot_products(
    instance: Instance,
    jobs: StormJobs,
    allocation: AllocationModel,
    column: Integers,
    places: Integers,
    whole: bool,
) -> tuple[Integers, Integers, Integers]:
    """Add products of executors of one topology in one slot."""
    pairs = instance.pairs
    of_one_topology = jobs.job[pairs.u] == jobs.job[pairs.v]
    u, v, rate = pairs.u[of_one_topology], pairs.v[of_one_topology], pairs.rate[of_one_topology]
    pair, at = np.nonzero((column[u] >= 0) & (column[v] >= 0))
    of = {"task": u[pair], "other": v[pair], **_of(places[at])}
    z = allocation.model.add_variables(
        "in_one_slot", len(pair), upper=1.0, integer=whole, objective=rate[pair] / allocation.scale,
        of=of,
    ).indices  # fmt: skip
    z_u, z_v = column[u[pair], at], column[v[pair], at]
    add_products(allocation.model, z, z_u, z_v, of)
    _within_nodes(instance, allocation, u[pair], v[pair], places[at, 0], z)
    return z, z_u, z_v


def _within_nodes(
    instance: Instance, allocation: AllocationModel, u: Any, v: Any, node: Integers, z: Integers
) -> None:
    """A pair is together in a slot of a node only if it is together on the node."""
    t, n = instance.num_tasks, instance.num_nodes
    existing, wanted = (
        (first.astype(np.int64) * t + second) * n + at
        for first, second, at in (
            (allocation.pair_task, allocation.pair_other, allocation.pair_node),
            (u, v, node),
        )
    )
    cell, row = np.unique(wanted, return_inverse=True)
    product = len(allocation.task) + np.searchsorted(existing, cell)
    allocation.model.add_sum(
        "slot_within_node", -np.inf, 0.0, len(cell), (row, z, 1.0),
        (np.arange(len(cell)), product, -1.0),
    )  # fmt: skip


# Storm's problem solved by the linearised form, level by level: bounded when it is stopped.

_FIRST_SHARE = 0.8
_GIVEN_UP = 1e-7
"""Part of all traffic that the row of the first level leaves to the solver's tolerance."""
_SAME = 1e-9  # Part of all traffic below which two plans are the same.
DIGITS = 1e-9  # Of all traffic: to so much solvers know what stays together.
_FEW = 1e-2  # Part of all traffic below which what is between nodes is sought again, alone.
_KEPT = kept_by(HONOURS | LINEAR_ONLY)
"""What a placement must keep exactly; slots are made for it afterwards."""


class Direct:
    """The linearised form of one instance.

    `outcome`: what came of it, without figures; its trace reports traffic between nodes.
    `bound`, `slot_bound`: proven upper bounds of the traffic inside nodes and inside slots;
        ``None`` for none.
    `of`: the traffic of which `bound` leaves `DIGITS` open: all there is, or that of the pairs
        which may be apart.
    """

    def __init__(
        self,
        instance: Instance,
        jobs: StormJobs,
        request: Request,
        start: tuple[Integers, Integers] | None,
    ) -> None:
        """Begin with (T,) node and slot indices that keep every rule, or with nothing."""
        self.instance, self.jobs, self.request = instance, jobs, request
        self.outcome = Outcome(Termination.TIME_LIMIT)
        self.bound: float | None = None
        self.slot_bound: float | None = None
        self.of = instance.total_traffic
        if start is not None:
            self._take(*start)

    def solve(self) -> None:
        """Solve both levels.

        Raises
        ------
        UnsuitableMethod
            The model would be too large.
        """
        outcome = self.outcome
        model = self._build(distinguishes_slots(self.instance, self.jobs), None)
        self._first_level(model)
        proven = outcome.termination in (Termination.OPTIMAL, Termination.GAP_REACHED)
        if proven:
            self.sharpen()
            self._second_level()

    def sharpen(self) -> None:
        """Bound the little that is between nodes to its own digits, from the incumbent.

        Raises `UnsuitableMethod`: the model would be too large.
        """
        instance, outcome = self.instance, self.outcome
        if outcome.node is None or self.request.remaining() == 0.0:
            return
        between = internode_of(instance, outcome.node.astype(np.int32))
        rest = lighter(instance, between)
        # worth it only if what may be apart is so little that its own digits are finer
        if between <= 0 or between >= _FEW * self.of or rest >= _FEW * self.of:
            return
        model = build_workers(
            instance, self.jobs, with_slots=distinguishes_slots(instance, self.jobs),
            whole_products=self.request.solver == "cp-sat", between=between,
        )  # fmt: skip
        solution = self._ask(model)
        if solution.termination != "optimal" or solution.bound is None:
            return
        # heavier pairs are together in every better plan, so the bound of the rest is one of the
        # whole
        self.bound = instance.total_traffic + min(0.0, solution.bound * model.allocation.scale)
        self.of = rest
        self._read(model, solution)

    def _take(self, node: Any, slot: Any) -> None:
        self.outcome.node, self.outcome.slot = node.astype(np.int64), slot
        self.request.offer(node, slot)

    def _first_level(self, model: WorkerModel) -> None:
        instance, outcome, built = self.instance, self.outcome, self.request.elapsed()
        scale, total = model.allocation.scale, instance.total_traffic
        solution = self._ask(model, _FIRST_SHARE)
        outcome.termination = Termination(str(solution.termination))
        outcome.solver, outcome.times["build"] = solution.solver, built + solution.build_seconds
        if self.request.warm_start is not None:
            outcome.warm_start_accepted = solution.warm_start_accepted
        outcome.notes += [solution.message] if solution.message else []
        if solution.bound is not None:
            self.bound = min(total + solution.bound * scale, total)

        def between(value: float | None) -> float | None:
            return None if value is None else -value * scale

        outcome.trace = [(s + built, between(v), between(b)) for s, v, b in solution.trace]
        if solution.x is not None:
            self._read(model, solution)

    def _read(self, model: WorkerModel, solution: LinearSolution) -> None:
        """Take a solution's plan if it is better than the incumbent."""
        instance, outcome = self.instance, self.outcome
        assert solution.x is not None
        node, slot = model.read(solution.x, instance.num_tasks)
        if slot is None:
            slot = split_all(instance, self.jobs, node, model.read_workers(solution.x))
        if slot is None:
            slot = assign_slots(instance, node).slot
        if slot is None:
            outcome.notes.append("the solver's plan does not split into slots")
        elif outcome.node is None or imc_gain_of(instance, node) > imc_gain_of(
            instance, outcome.node
        ):
            self._take(node, slot)

    def _second_level(self) -> None:
        """Lower the traffic between slots, that between nodes fixed."""
        instance, outcome = self.instance, self.outcome
        if self.request.remaining() == 0.0 or outcome.node is None:
            return
        reached, total = imc_gain_of(instance, outcome.node), instance.total_traffic
        try:
            model = self._build(True, reached - _GIVEN_UP * total)
        except UnsuitableMethod:
            outcome.notes.append("traffic between slots: best effort, the model would be too large")
            return
        solution = self._ask(model)
        if solution.termination != "optimal":
            outcome.notes.append(f"traffic between slots: best effort, {solution.termination}")
        if solution.bound is not None and math.isfinite(solution.bound):
            self.slot_bound = total + solution.bound * model.allocation.scale
        if solution.x is None:
            return
        node, slot = model.read(solution.x, instance.num_tasks)
        # the row of the first level was loosened by a tolerance: the plan must still be as good
        # there
        same = imc_gain_of(instance, node) >= reached - _SAME * total
        before = interslot_of(instance, outcome.node, outcome.slot)
        more = before - interslot_of(instance, node, slot)
        if same and more > _SAME * total:
            self._take(node, slot)

    def _build(self, with_slots: bool, least_gain: float | None) -> WorkerModel:
        return build_workers(
            self.instance, self.jobs, with_slots=with_slots,
            whole_products=self.request.solver == "cp-sat", least_gain=least_gain,
        )  # fmt: skip

    def _ask(self, model: WorkerModel, share: float = 1.0) -> LinearSolution:
        """Solve a model in a share of the time that is left, from the incumbent."""
        request, node, slot = self.request, self.outcome.node, self.outcome.slot
        has_start = node is not None and slot is not None
        start = model.write(self.jobs.job, node, slot) if has_start else None  # type: ignore[arg-type]

        def solve() -> LinearSolution:
            settings, solver = request.solving(share), request.solver or "highs"
            return solve_linear(model.allocation.model, solver, warm_start=start, **settings)

        return solve_exactly(self.instance, model.allocation, _KEPT, request, solve)[0]


def interslot_of(instance: Instance, node: Any, slot: Any) -> float:
    """Return the traffic between slots."""
    place = slot_places(np.asarray(node), np.asarray(slot, dtype=np.int64))
    _, index = np.unique(place, return_inverse=True)
    return instance.flows.apart(index.astype(np.int32), int(index.max(initial=0)) + 1)
