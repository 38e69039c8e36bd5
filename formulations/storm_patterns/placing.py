"""From chosen patterns to executors on nodes and in slots, and from a placement to patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.storm_direct import split_all
from formulations.storm_patterns.master import Columns
from formulations.storm_patterns.splitting import MOST_STEPS, Splitter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm_jobs import StormJobs
    from formulations.storm_patterns.closing import Chosen
    from formulations.storm_patterns.master import Master
    from formulations.storm_patterns.problem import StormProblem
    from optim.instance import Instance

    Integers = NDArray[np.int64]


def place(
    instance: Instance, jobs: StormJobs, problem: StormProblem, chosen: Chosen
) -> tuple[Integers, Integers]:
    """Return (T,) node and slot of each executor, nodes and executors of a class in order.

    Slots are those of the best split of each node; of a greedy one where the best takes too long.
    """
    assert chosen.counts is not None
    assert chosen.workers is not None
    assert chosen.node_class is not None
    order = np.argsort(chosen.node_class, kind="stable")
    counts, workers = chosen.counts[order], chosen.workers[order]
    at = np.concatenate(problem.nodes)
    node = np.full(instance.num_tasks, -1, dtype=np.int64)
    slot = np.full(instance.num_tasks, -1, dtype=np.int64)
    parts = _parts(problem, counts, workers)
    taken = np.zeros(problem.num_classes, dtype=np.int64)
    for row, n in enumerate(at.tolist()):
        if parts is None:
            for c, count in enumerate(counts[row].tolist()):
                node[problem.members[c][taken[c] : taken[c] + count]] = n
            taken += counts[row]
            continue
        for s, part in enumerate(parts[row]):
            for c, count in enumerate(part.tolist()):
                tasks = problem.members[c][taken[c] : taken[c] + count]
                node[tasks], slot[tasks] = n, s
            taken += part
    if parts is None:
        table = np.zeros((jobs.num_jobs, instance.num_nodes), dtype=np.int64)
        table[:, at] = workers.T
        split = split_all(instance, jobs, node, table)
        assert split is not None
        slot = split
    return node, slot


def _parts(problem: StormProblem, counts: Integers, workers: Integers) -> list[Integers] | None:
    """Return for each node (its workers, C) counts, or ``None`` where that would take too long."""
    splitters = [Splitter(problem, p) for p in range(len(problem.workers))]
    work = sum(s.steps(counts, workers[:, p]) for p, s in enumerate(splitters))
    if work > MOST_STEPS:
        return None
    for p, splitter in enumerate(splitters):
        splitter.prepare(counts, workers[:, p])
    return [
        np.concatenate([s.parts(counts[row], int(k)) for s, k in zip(splitters, w, strict=True)])
        for row, w in enumerate(workers)
    ]


def columns_of(master: Master, node: Integers) -> Columns | None:
    """Return the columns of a placement; ``None`` when its patterns do not fit."""
    problem = master.problem
    classes, positions = [], []
    for k, nodes in enumerate(problem.nodes):
        for n in nodes.tolist():
            counts = np.array([(node[m] == n).sum() for m in problem.members], dtype=np.int64)
            state = int(master.states.number(counts))
            fitting = master.states.fitting[k]
            position = int(np.searchsorted(fitting, state))
            if position == len(fitting) or fitting[position] != state:
                return None
            classes.append(k)
            positions.append(position)
    return Columns(np.array(classes, dtype=np.int64), np.array(positions, dtype=np.int64))
