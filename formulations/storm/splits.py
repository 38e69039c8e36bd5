"""A quick split of the executors that nodes hold into their workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.kernels.room import slot_room

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm.jobs import StormJobs
    from optim.format.instance import Instance

    Integers = NDArray[np.int64]


def greedy_split(instance: Instance, tasks: Integers, workers: int, node: int) -> Integers | None:
    """Return the worker of each executor, executors that talk most together; none proven best.

    The executors with least traffic get the workers that would stay empty.

    Returns
    -------
    ndarray or None
        (…,) worker of each of `tasks`; ``None`` where a slot's limits do not let it.
    """
    rate = instance.adjacency[tasks][:, tasks].toarray()
    order = np.argsort(-rate.sum(axis=1), kind="stable")
    limit = instance.limits.max_tasks_per_slot
    most = len(tasks) if limit is None else int(limit)
    room = slot_room(instance)[node]
    load = instance.tasks.load[tasks]
    worker = np.full(len(tasks), -1, dtype=np.int64)
    held, used = np.zeros(workers, dtype=np.int64), np.zeros((workers, load.shape[1]))
    for done, task in enumerate(order.tolist()):
        fits = (held < most) & (used + load[task] <= room).all(axis=1)
        empty = held == 0
        if len(tasks) - done <= int(empty.sum()):
            fits &= empty
        if not fits.any():
            return None
        with_each = np.bincount(worker[worker >= 0], rate[task][worker >= 0], workers)
        worker[task] = np.lexsort((np.arange(workers), held == 0, -with_each, ~fits))[0]
        held[worker[task]] += 1
        used[worker[task]] += load[task]
    return worker


def split_all(
    instance: Instance, jobs: StormJobs, node: Integers, workers: Integers
) -> Integers | None:
    """Return (T,) slots for (P, N) workers, each node's executors split greedily."""
    slot = np.full(instance.num_tasks, -1, dtype=np.int64)
    for n in range(instance.num_nodes):
        first = 0
        for p in range(jobs.num_jobs):
            tasks = np.flatnonzero((node == n) & (jobs.job == p))
            if not len(tasks):
                continue
            count = int(workers[p, n])
            split = greedy_split(instance, tasks, count, n) if count else None
            if split is None:
                return None
            slot[tasks] = split + first
            first += count
    return slot


def in_order(node: Integers, slot: Integers) -> Integers:
    """(T,) slots numbered anew: those of a node by their first executors."""
    width = int(slot.max(initial=0)) + 1
    _, first, where = np.unique(node * width + slot, return_index=True, return_inverse=True)
    order = np.lexsort((first, node[first]))
    number = np.empty(len(first), dtype=np.int64)
    at = node[first[order]]
    number[order] = np.arange(len(first)) - np.searchsorted(at, at)
    return number[where.reshape(-1)]
