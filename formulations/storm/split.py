"""The best split of the executors that a node holds of a topology into so many workers.

``best(q, k) = max over parts t ≤ q of gain(t) + best(q − t, k − 1)``, every part at least one
executor and at most what a slot holds; of equal splits one is looked at by demanding that t holds
an executor of the first class that q has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.storm.problem import inner_gain, strides
from optim.kernels.classes import deal, matched, staying_order
from optim.kernels.place_rules import slot_room
from optim.rules.slot_assignment.groups import flow
from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.storm.problem import StormJobs, StormProblem
    from optim.format.instance import Instance
    from optim.rules.slot_assignment.groups import Worker

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

MOST_STEPS = 1e9  # Parts of parts that are looked at, above which a split is not made.


@helper
def first_part(size, stride, state, count, part):  # type: ignore[no-untyped-def]
    """Write the digits of a state and its first part; return the first class it has."""
    first = -1
    for c in range(len(size)):
        count[c] = (state // stride[c]) % (size[c] + 1)
        part[c] = 0
        if first < 0 and count[c] > 0:
            first = c
    if first >= 0:
        part[first] = 1
    return first


@helper
def next_part(count, part, first):  # type: ignore[no-untyped-def]
    """Count one further; whether there is a next part."""
    for c in range(len(count)):
        if part[c] < count[c]:
            part[c] += 1
            return True
        part[c] = 1 if c == first else 0
    return False


@kernel(steps=lambda needed: 0.2 * needed.size)
def fill_splits(size, stride, gain, largest, needed):  # type: ignore[no-untyped-def]
    """Fill the tables of the best splits.

    `size`, `stride`, `gain`: of the topology's classes of executors and its states.
    `largest`: most executors in a slot.
    `needed`: (workers + 1, S) which splits are asked for; changed.
    Returns (workers + 1, S) best gain inside the slots, -inf where there is none; and the first
        part.
    """
    most, num_states = needed.shape[0] - 1, needed.shape[1]
    count = np.zeros(len(size), np.int64)
    part = np.zeros(len(size), np.int64)
    best = np.full(needed.shape, -np.inf)
    choice = np.full(needed.shape, -1, np.int64)
    # which splits are needed, from the most workers down: each state loses one worker's part
    for workers in range(most, 1, -1):
        for state in range(num_states):
            if not needed[workers, state]:
                continue
            first = first_part(size, stride, state, count, part)
            total = count.sum()
            more = first >= 0
            while more:
                num_in_part = part.sum()
                if num_in_part <= largest and total - num_in_part >= workers - 1:
                    number = 0
                    for c in range(len(size)):
                        number += part[c] * stride[c]
                    needed[workers - 1, state - number] = True
                more = next_part(count, part, first)
    for state in range(num_states):
        if needed[1, state]:
            first_part(size, stride, state, count, part)
            if 0 < count.sum() <= largest:
                best[1, state] = gain[state]
                choice[1, state] = state
    for workers in range(2, most + 1):
        for state in range(num_states):
            if not needed[workers, state]:
                continue
            first = first_part(size, stride, state, count, part)
            total = count.sum()
            more = first >= 0
            while more:
                num_in_part = part.sum()
                if num_in_part <= largest and total - num_in_part >= workers - 1:
                    number = 0
                    for c in range(len(size)):
                        number += part[c] * stride[c]
                    value = gain[number] + best[workers - 1, state - number]
                    if value > best[workers, state]:
                        best[workers, state] = value
                        choice[workers, state] = number
                more = next_part(count, part, first)
    return best, choice


class Splitter:
    """Splits the executors of one topology.

    `classes`: the topology's classes of executors.
    """

    def __init__(self, problem: StormProblem, job: int) -> None:
        self.classes = np.flatnonzero(problem.job == job)
        self.size = problem.inner.sizes[self.classes]
        self.stride = strides(self.size)
        rate = problem.inner.rate[np.ix_(self.classes, self.classes)]
        self._gain = inner_gain(self.size, rate)
        limit = problem.per_slot
        self._largest = int(self.size.sum()) if limit is None else limit

    def steps(self, counts: Integers, workers: Integers) -> float:
        """Bound the work for (…, C) counts and (…,) workers from above."""
        distinct = np.unique(np.column_stack([counts[:, self.classes], workers]), axis=0)
        executors = distinct[:, :-1].astype(np.float64)
        pairs = np.prod((executors + 1) * (executors + 2) / 2, axis=1)
        single = np.prod(executors + 1, axis=1)
        layers = distinct[:, -1].astype(np.float64)
        return float((single * (layers >= 2) + pairs * np.maximum(0, layers - 2)).sum())

    def prepare(self, counts: Integers, workers: Integers) -> None:
        """Make the tables for (…, C) counts and (…,) workers."""
        states = counts[:, self.classes] @ self.stride
        needed = np.zeros((max(1, int(workers.max(initial=1))) + 1, len(self._gain)), np.bool_)
        needed[workers, states] = True
        self._best, self._choice = fill_splits(
            self.size, self.stride, self._gain, self._largest, needed
        )

    def gain(self, counts: Integers, workers: Integers) -> Floats:
        """Return the best gain inside slots; 0 where there is nothing to split."""
        states = counts[:, self.classes] @ self.stride
        return np.where(workers > 0, self._best[workers, states], 0.0)

    def parts(self, counts: Integers, workers: int) -> Integers:
        """(workers, C) counts of each worker in the best split of (C,) counts."""
        state = int(counts[self.classes] @ self.stride)
        table = np.zeros((workers, len(counts)), dtype=np.int64)
        for row, left in enumerate(range(workers, 0, -1)):
            part = int(self._choice[left, state])
            table[row, self.classes] = (part // self.stride) % (self.size + 1)
            state -= part
        return table


def warm_up() -> None:
    """Compile the kernel, or load it from the cache."""
    size = np.array([1, 1])
    needed = np.zeros((3, 4), dtype=np.bool_)
    needed[2, 3] = True
    fill_splits(size, np.array([1, 2]), np.zeros(4), 2, needed)


# A quick split of the executors that nodes hold into their workers.


def greedy_split(instance: Instance, tasks: Integers, workers: int, node: int) -> Integers | None:
    """Return the worker of each executor, executors that talk most together; none proven best.

    The executors with least traffic get the workers that would stay empty.

    Returns (…,) worker of each of `tasks`; ``None`` where a slot's limits do not let it.
    """
    rate = instance.adjacency[tasks][:, tasks].toarray()
    order = np.argsort(-rate.sum(axis=1), kind="stable")
    limit = instance.limits.max_tasks_per_slot
    most = len(tasks) if limit is None else int(limit)
    room = slot_room(instance)[node]
    load = instance.tasks.load[tasks]
    worker = np.full(len(tasks), -1, dtype=np.int64)
    executors, used = np.zeros(workers, dtype=np.int64), np.zeros((workers, load.shape[1]))
    for done, task in enumerate(order.tolist()):
        fits = (executors < most) & (used + load[task] <= room).all(axis=1)
        empty = executors == 0
        # no worker may stay empty: the last executors go to those that are
        if len(tasks) - done <= int(empty.sum()):
            fits &= empty
        if not fits.any():
            return None
        with_each = np.bincount(worker[worker >= 0], rate[task][worker >= 0], workers)
        worker[task] = np.lexsort((np.arange(workers), executors == 0, -with_each, ~fits))[0]
        executors[worker[task]] += 1
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


def in_order_now(running: Sequence[Worker]) -> list[int]:
    """Return the numbers that slots that run now have among those of their nodes, in order."""
    begins: dict[int, int] = {}
    for k, worker in enumerate(running):
        begins.setdefault(worker.node, k)
    return [k - begins[worker.node] for k, worker in enumerate(running)]


def in_order(node: Integers, slot: Integers, running: Sequence[Worker] = ()) -> Integers:
    """(T,) slots numbered anew: those of a node by their first executors.

    `running`: slots, by node and number, that come first, whether they hold executors or not.
    """
    width = int(slot.max(initial=0)) + 1
    _, first, where = np.unique(node * width + slot, return_index=True, return_inverse=True)
    order = np.lexsort((first, node[first]))
    number = np.empty(len(first), dtype=np.int64)
    if running:
        number_now = {
            (w.node, w.slot): s for w, s in zip(running, in_order_now(running), strict=True)
        }
        ends = np.bincount([w.node for w in running], minlength=int(node.max()) + 1)
        for k in order.tolist():
            n = int(node[first[k]])
            at_now = number_now.get((n, int(slot[first[k]])))
            number[k] = ends[n] if at_now is None else at_now
            ends[n] += at_now is None
        return number[where.reshape(-1)]
    at = node[first[order]]
    number[order] = np.arange(len(first)) - np.searchsorted(at, at)
    return number[where.reshape(-1)]


def spread_workers(problem: StormProblem, counts: Integers) -> Integers:
    """(N, P) workers of nodes with these counts: as many as each topology asks for."""
    executors = problem.of_jobs(counts)
    slots = problem.slots[problem.inner.class_of_node()]
    answer = transported(
        problem.least_workers(executors),
        np.minimum(executors, slots),
        problem.fewest,
        problem.workers,
        slots,
    )
    if answer is None:
        raise ValueError("no whole workers for these counts")
    return answer.T


def transported(
    low: Integers, high: Integers, fewest: Integers, most: Integers, slots: Integers
) -> Integers | None:
    """Return (P, N) whole numbers between low and high, their sums within bounds; the least ones.

    `low`, `high`: (P, N) bounds of each.
    `fewest`, `most`: (P,) bounds of each topology's sum.
    `slots`: (N,) bound of each node's sum.
    """
    missing = np.maximum(fewest - low.sum(axis=1), 0)
    room = slots - low.sum(axis=0)
    if (low > high).any() or (low.sum(axis=1) > most).any() or (room < 0).any():
        return None
    job, node = np.nonzero((high > low) & (room > 0))
    # from the least numbers up, a maximum flow adds what topologies still miss
    added, short = flow(missing, job, node, (high - low)[job, node], room)
    answer = low.copy()
    answer[job, node] += added
    return None if len(short) else answer


# From chosen patterns to executors on nodes and in slots.


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

    `counts`, `workers`: (N', C) executors of each class and (N', P) workers, usable nodes listed
        class by class.
    `quick`: split greedily.
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
    running = np.zeros_like(parts)
    np.add.at(running, (before[stayed], group[stayed]), 1)
    left = parts[matched(parts, running)]
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
