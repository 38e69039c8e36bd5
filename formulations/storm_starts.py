"""Starts of the exact model: placements whose nodes can be split into the right workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.imc_common import relabelled
from formulations.storm_direct import split_all
from formulations.storm_jobs import alike_in_slots
from optim.grouping import node_classes
from optim.measures import imc_gain_of
from optim.referee import evaluate_indices
from optim.solvers.inprocess import solve_lp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm_jobs import StormJobs
    from optim.instance import Instance
    from optim.registry import Request

    Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Start:
    """(T,) node and slot indices that keep every rule, and whether it is the warm start."""

    node: Integers
    slot: Integers
    given: bool


def feasible_start(instance: Instance, jobs: StormJobs, request: Request) -> Start | None:
    """Return the better of the warm start and the current placement, where one keeps every rule.

    Slots are made anew: a start says nodes only. Nothing starts on a leaving node.
    """
    candidates = [] if request.warm_start is None else [(np.asarray(request.warm_start), True)]
    if instance.has_current:
        candidates.append((instance.tasks.node, False))
    best: Start | None = None
    for node, given in candidates:
        start = _with_slots(instance, jobs, node.astype(np.int64), given)
        if start is not None and (best is None or _gain(instance, start) > _gain(instance, best)):
            best = start
    return best


def _gain(instance: Instance, start: Start) -> float:
    return imc_gain_of(instance, start.node.astype(np.int32))


def _with_slots(instance: Instance, jobs: StormJobs, node: Integers, given: bool) -> Start | None:
    if node.min(initial=0) < 0 or not instance.open_nodes[node].all():
        return None
    if alike_in_slots(instance, jobs):  # the linearised form numbers identical nodes
        node = relabelled(node.astype(np.int32), node_classes(instance)).astype(np.int64)
    workers = workers_of(instance, jobs, node)
    if workers is None:
        return None
    slot = split_all(instance, jobs, node, workers)
    if slot is None:
        return None
    judged = evaluate_indices(instance, node.astype(np.int32), slot.astype(np.int32))
    return Start(node, slot, given) if judged.feasible else None


def workers_of(instance: Instance, jobs: StormJobs, node: Integers) -> Integers | None:
    """(P, N) workers that nodes need for their executors: exact and within slots, if that is."""
    p, n = jobs.num_jobs, instance.num_nodes
    held = np.zeros((p, n))
    np.add.at(held, (jobs.job, node), 1.0)
    limit = instance.limits.max_tasks_per_slot
    low = (held > 0).astype(np.float64) if limit is None else np.ceil(held / limit)
    high = np.minimum(held, jobs.slots[None, :])
    if (low > high).any():
        return None
    matrix = np.vstack([np.kron(np.eye(p), np.ones(n)), np.kron(np.ones(p), np.eye(n))])
    lower = np.concatenate([jobs.workers, np.full(n, -np.inf)]).astype(np.float64)
    upper = np.concatenate([jobs.workers, jobs.slots]).astype(np.float64)
    # a transport problem: its vertices are whole
    answer = solve_lp(np.zeros(p * n), matrix, lower, upper, low.ravel(), high.ravel())
    return None if answer.x is None else np.round(answer.x).astype(np.int64).reshape(p, n)
