"""From chosen patterns to executors on nodes and in slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.storm.patterns.split import MOST_STEPS, Splitter
from formulations.storm.splits import split_all

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
    """Return (T,) node and slot of each executor, nodes and executors of a class in order.

    Slots are those of the best split of each node; of a greedy one where the best takes too long.

    Parameters
    ----------
    counts, workers
        (N', C) executors of each class and (N', P) workers, usable nodes listed class by class.
    quick
        Split greedily.
    """
    node = np.full(instance.num_tasks, -1, dtype=np.int64)
    slot = np.full(instance.num_tasks, -1, dtype=np.int64)
    parts = None if quick else _parts(problem, counts, workers)
    members = [problem.groups.tasks_of(c) for c in range(problem.groups.num_groups)]
    taken = np.zeros(len(members), dtype=np.int64)
    for row, n in enumerate(problem.classes.members.tolist()):
        if parts is None:
            for c, count in enumerate(counts[row].tolist()):
                node[members[c][taken[c] : taken[c] + count]] = n
            taken += counts[row]
            continue
        for s, part in enumerate(parts[row]):
            for c, count in enumerate(part.tolist()):
                tasks = members[c][taken[c] : taken[c] + count]
                node[tasks], slot[tasks] = n, s
            taken += part
    if parts is None:
        table = np.zeros((jobs.num_jobs, instance.num_nodes), dtype=np.int64)
        table[:, problem.classes.members] = workers.T
        split = split_all(instance, jobs, node, table)
        assert split is not None
        slot = split
    return node, slot


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
