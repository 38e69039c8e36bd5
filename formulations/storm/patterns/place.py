"""From chosen patterns to executors on nodes and in slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.storm.patterns.split import MOST_STEPS, Splitter
from formulations.storm.splits import split_all
from optim.kernels.deal import deal, matched, staying_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm.jobs import StormJobs
    from formulations.storm.patterns.problem import StormProblem
    from optim.format.instance import Instance

    Integers = NDArray[np.int64]


def place(
    instance: Instance,
    jobs: StormJobs,
    problem: StormProblem,
    counts: Integers,
    workers: Integers,
    *,
    quick: bool = False,
) -> tuple[Integers, Integers]:
    """Return (T,) node and slot of each executor: of equal nodes and executors, most stay.

    Slots are those of the best split of each node; of a greedy one where the best takes too long.

    Parameters
    ----------
    counts, workers
        (N', C) executors of each class and (N', P) workers, usable nodes listed class by class.
    quick
        Split greedily.
    """
    near = instance.tasks.node
    node = deal(problem.groups, problem.classes, counts, near).astype(np.int64)
    order = staying_order(problem.groups, problem.classes, counts, near)
    counts, workers = counts[order], workers[order]
    parts = None if quick else _parts(problem, counts, workers)
    if parts is None:
        table = np.zeros((jobs.num_jobs, instance.num_nodes), dtype=np.int64)
        table[:, problem.classes.members] = workers.T
        split = split_all(instance, jobs, node, table)
        assert split is not None
        return node, split
    slot = np.full(instance.num_tasks, -1, dtype=np.int64)
    before = np.where(near == node, instance.tasks.slot, -1)
    for n, of_slots in zip(problem.classes.members.tolist(), parts, strict=True):
        tasks = np.flatnonzero(node == n)
        idle = np.zeros((int(jobs.slots[n]) - len(of_slots), of_slots.shape[1]), dtype=np.int64)
        group = problem.groups.group[tasks].astype(np.int64)
        slot[tasks] = _slots(group, before[tasks], np.concatenate([of_slots, idle]))
    return node, slot


def _slots(group: Integers, before: Integers, parts: Integers) -> Integers:
    """Return the slots of a node's executors, given (slots, C) counts; most keep their slot."""
    stayed = (before >= 0) & (before < len(parts))
    held = np.zeros_like(parts)
    np.add.at(held, (before[stayed], group[stayed]), 1)
    left = parts[matched(parts, held)]
    slot = np.full(len(group), -1, dtype=np.int64)
    for i in np.flatnonzero(stayed):
        if left[before[i], group[i]] > 0:
            left[before[i], group[i]] -= 1
            slot[i] = before[i]
    for i in np.flatnonzero(slot < 0):
        slot[i] = int(np.argmax(left[:, group[i]] > 0))
        left[slot[i], group[i]] -= 1
    return slot


def _parts(problem: StormProblem, counts: Integers, workers: Integers) -> list[Integers] | None:
    """Return for each node (its workers, C) counts, or ``None`` where that would take too long."""
    splitters = [Splitter(problem, p) for p in range(problem.num_jobs)]
    work = sum(s.steps(counts, workers[:, p]) for p, s in enumerate(splitters))
    if work > MOST_STEPS:
        return None
    for p, splitter in enumerate(splitters):
        splitter.prepare(counts, workers[:, p])
    return [
        np.concatenate([s.parts(counts[row], int(k)) for s, k in zip(splitters, w, strict=True)])
        for row, w in enumerate(workers)
    ]
