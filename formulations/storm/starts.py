"""Starts of the exact model: placements whose nodes can be split into the right workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.storm.jobs import slot_keys
from formulations.storm.patterns.slots import transported
from formulations.storm.splits import in_order, split_all
from formulations.task_allocation.common import relabelled
from optim.figures.measures import imc_gain_of
from optim.kernels.classes import node_classes
from optim.kernels.room import at_the_edge
from optim.referee.evaluate import evaluate_indices
from optim.rules.dealing import deal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm.jobs import StormJobs
    from optim.format.instance import Instance
    from optim.methods.registry import Request

    Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Start:
    """(T,) node and slot indices that keep every rule, and whether the warm start keeps them."""

    node: Integers
    slot: Integers
    given: bool


def feasible_start(
    instance: Instance, jobs: StormJobs, request: Request, *, heuristics: bool = False
) -> Start | None:
    """Return the best start that keeps every rule: the warm start, the current placement.

    Slots are made anew where a start says nodes only. Nothing starts on a leaving node.

    Parameters
    ----------
    heuristics
        Run those of the family, too.
    """
    candidates: list[tuple[Any, Any, bool]] = []
    if request.warm_start is not None:
        candidates.append((request.warm_start, None, True))
    if instance.has_current and not request.cold:
        candidates.append((instance.tasks.node, None, False))
    held = request.start() if heuristics else None
    if held is not None:
        candidates.append((held.node, held.slot, False))
    best: Start | None = None
    kept = False
    for node, slot, given in candidates:
        start = _with_slots(instance, jobs, np.asarray(node, dtype=np.int64), slot)
        if start is not None and (best is None or _gain(instance, start) > _gain(instance, best)):
            best = start
        kept |= start is not None and given
    return None if best is None else Start(best.node, best.slot, kept)


def _gain(instance: Instance, start: Start) -> float:
    return imc_gain_of(instance, start.node.astype(np.int32))


def _with_slots(instance: Instance, jobs: StormJobs, node: Integers, slot: Any) -> Start | None:
    if node.min(initial=0) < 0 or not instance.open_nodes[node].all():
        return None
    # the linearised form numbers identical nodes
    classes = node_classes(instance, slot_keys(instance, jobs))
    node = relabelled(node.astype(np.int32), classes).astype(np.int64)
    for dealt in (slot, _split(instance, jobs, node), deal(instance, node.astype(np.int32)).slot):
        if dealt is None:
            continue
        used = in_order(node, np.asarray(dealt, dtype=np.int64))
        judged = evaluate_indices(instance, node.astype(np.int32), used.astype(np.int32))
        if judged.feasible and not at_the_edge(instance, node.astype(np.int32)):
            return Start(node, used, False)
    return None


def _split(instance: Instance, jobs: StormJobs, node: Integers) -> Integers | None:
    """Split the executors of each node into workers, those that talk most together."""
    workers = workers_of(instance, jobs, node)
    return None if workers is None else split_all(instance, jobs, node, workers)


def workers_of(instance: Instance, jobs: StormJobs, node: Integers) -> Integers | None:
    """(P, N) workers that nodes need for their executors: exact and within slots, if that is."""
    p, n = jobs.num_jobs, instance.num_nodes
    held = np.zeros((p, n), dtype=np.int64)
    np.add.at(held, (jobs.job, node), 1)
    limit = instance.limits.max_tasks_per_slot
    low = (held > 0).astype(np.int64) if limit is None else -(-held // limit)
    return transported(low, np.minimum(held, jobs.slots), jobs.fewest, jobs.workers, jobs.slots)
