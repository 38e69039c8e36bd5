"""Storm's problem solved by the linearised form, level by level: bounded when it is stopped."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.storm.model import build_workers
from formulations.storm.splits import greedy_split
from optim.figures.measures import imc_gain_of, slot_places
from optim.rules.dealing import deal
from optim.solvers import solve_linear

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm.jobs import StormJobs
    from formulations.storm.model import WorkerModel
    from optim.format.instance import Instance
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution

    Integers = NDArray[np.int64]

_FIRST_SHARE = 0.8
_GIVEN_UP = 1e-7
"""Part of all traffic that the row of the first level leaves to the solver's tolerance."""
_SAME = 1e-9
"""Part of all traffic below which two plans are the same."""


@dataclass(eq=False)
class Direct:
    """What the solver came to.

    Attributes
    ----------
    termination
        Of the first level.
    node, slot
        (T,) indices; ``None`` without a plan.
    bound, slot_bound
        Proven upper bounds of the traffic inside nodes and inside slots; ``None`` for none.
    start_accepted, solver, notes, trace, build_seconds
        As in an outcome; the trace tells traffic between nodes.
    """

    termination: str = "time_limit"
    node: Any = None
    slot: Any = None
    bound: float | None = None
    slot_bound: float | None = None
    start_accepted: bool | None = None
    solver: str | None = None
    notes: list[str] = field(default_factory=list)
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    build_seconds: float = 0.0


def solve_direct(
    instance: Instance,
    jobs: StormJobs,
    request: Request,
    start: tuple[Integers, Integers] | None,
) -> Direct:
    """Solve both levels; `start` is (T,) node and slot indices that keep every rule.

    Raises
    ------
    UnsuitableMethod
        The model would be too large.
    """
    answer = Direct()
    capacity = instance.nodes.slot_capacity[jobs.slots > 0]
    bounded = bool(np.isfinite(capacity).any())
    model = _build(instance, jobs, request, bounded, None)
    remaining = request.remaining()
    limit = None if remaining is None else remaining * _FIRST_SHARE
    built = request.elapsed()
    solution = _solve(model, jobs, request, start, limit)
    answer.build_seconds = built + solution.build_seconds
    _first_level(instance, jobs, answer, model, solution, start, built)
    later = request.options["second_level"] and answer.termination in ("optimal", "gap_reached")
    if answer.node is not None and later and request.remaining() != 0.0:
        _second_level(instance, jobs, request, answer)
    return answer


def _first_level(
    instance: Instance,
    jobs: StormJobs,
    answer: Direct,
    model: WorkerModel,
    solution: LinearSolution,
    start: tuple[Integers, Integers] | None,
    built: float,
) -> None:
    scale, total = model.placement.scale, instance.total_traffic
    answer.termination, answer.solver = str(solution.termination), solution.solver
    answer.start_accepted = solution.warm_start_accepted
    if solution.message:
        answer.notes.append(solution.message)
    if solution.bound is not None:
        answer.bound = min(solution.bound * scale, total)
    answer.trace = [
        (
            s + built,
            None if v is None else total - v * scale,
            None if b is None else total - b * scale,
        )
        for s, v, b in solution.trace
    ]
    if start is not None:
        answer.node, answer.slot = start
    if solution.x is None:
        return
    node, slot = model.read(solution.x, instance.num_tasks)
    if slot is None:
        slot = split_all(instance, jobs, node, model.read_workers(solution.x))
    if slot is None:
        slot = deal(instance, node.astype(np.int32)).slot
    if slot is None:
        answer.notes.append("the solver's plan does not split into slots")
        return
    if answer.node is None or imc_gain_of(instance, node) > imc_gain_of(instance, answer.node):
        answer.node, answer.slot = node.astype(np.int64), slot


def _second_level(instance: Instance, jobs: StormJobs, request: Request, answer: Direct) -> None:
    """Lower the traffic between slots, that between nodes kept."""
    from optim.errors import UnsuitableMethod

    reached, total = imc_gain_of(instance, answer.node), instance.total_traffic
    try:
        model = _build(instance, jobs, request, True, reached - _GIVEN_UP * total)
    except UnsuitableMethod:
        answer.notes.append("traffic between slots: best effort, the model would be too large")
        return
    start = None if answer.slot is None else (answer.node, answer.slot)
    solution = _solve(model, jobs, request, start, request.remaining())
    if str(solution.termination) != "optimal":
        answer.notes.append(f"traffic between slots: best effort, {solution.termination}")
    if solution.bound is not None and math.isfinite(solution.bound):
        answer.slot_bound = solution.bound * model.placement.scale
    if solution.x is None:
        return
    node, slot = model.read(solution.x, instance.num_tasks)
    same = imc_gain_of(instance, node) >= reached - _SAME * total
    more = slot_gain(instance, node, slot) - slot_gain(instance, answer.node, answer.slot)
    if same and more > _SAME * total:
        answer.node, answer.slot = node.astype(np.int64), slot


def slot_gain(instance: Instance, node: Any, slot: Any) -> float:
    """Return the traffic inside slots."""
    place = slot_places(np.asarray(node), np.asarray(slot, dtype=np.int64))
    _, index = np.unique(place, return_inverse=True)
    return float(instance.flows.collocated(index.astype(np.int32), int(index.max(initial=0)) + 1))


def split_all(instance: Instance, jobs: StormJobs, node: Any, workers: Integers) -> Integers | None:
    """Return (T,) slots for (P, N) workers, each node's executors split greedily."""
    slot = np.full(instance.num_tasks, -1, dtype=np.int64)
    for n in range(instance.num_nodes):
        first = 0
        for p in range(jobs.num_jobs):
            count = int(workers[p, n])
            tasks = np.flatnonzero((node == n) & (jobs.job == p))
            if count == 0 or not len(tasks):
                if len(tasks):
                    return None
                continue
            split = greedy_split(instance, tasks, count, n)
            if split is None:
                return None
            slot[tasks] = split + first
            first += count
    return slot


def _build(
    instance: Instance,
    jobs: StormJobs,
    request: Request,
    with_slots: bool,
    least_gain: float | None,
) -> WorkerModel:
    return build_workers(
        instance,
        jobs,
        with_slots=with_slots,
        whole_products=request.solver == "cp-sat",
        most_products=request.options["most_products"],
        least_gain=least_gain,
    )


def _solve(
    model: WorkerModel,
    jobs: StormJobs,
    request: Request,
    start: tuple[Integers, Integers] | None,
    time_limit: float | None,
) -> LinearSolution:
    vector = None
    if start is not None:
        vector = model.write(jobs.job, *start)
    return solve_linear(
        model.placement.model,
        request.solver or "highs",
        time_limit=time_limit,
        gap=request.gap,
        seed=request.seed,
        threads=request.threads,
        warm_start=vector,
    )
