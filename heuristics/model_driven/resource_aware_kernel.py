"""Algorithm 5 compiled, on plain arrays."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from optim.util.compiled import helper, kernel

FIRST, MOST_FREE, LEAST_FREE = 0, 1, 2


@kernel
def map_threads(order, threads, first, cpu, memory, sizes, cores, weights, rule, tolerance):
    """Map all threads.

    Parameters
    ----------
    order
        (O,) tasks in the order of a sweep.
    threads, first
        (O,) threads of each task, and the number of its first one.
    cpu, memory
        (O,) use of a thread, shares of a slot.
    sizes, cores
        (V,) slots in use and cores of each machine; all stand in one rack.
    weights
        Of memory, CPU and network in the distance.
    rule
        Slot of a machine: FIRST with the memory, MOST_FREE or LEAST_FREE.
    tolerance
        By how much a use may exceed what is free.

    Returns
    -------
    tuple
        (Q,) machine and slot of each thread, -1 where left, and the task that failed or -1.
    """
    num_threads = threads.sum()
    start = np.zeros(len(sizes) + 1, np.int64)
    start[1:] = np.cumsum(sizes)
    free_cpu = cores.astype(np.float64)
    free_memory = cores.astype(np.float64)
    slot_memory = np.ones(start[-1])
    roomiest = np.ones(len(sizes))
    node = np.full(num_threads, -1, np.int64)
    slot = np.full(num_threads, -1, np.int64)
    done = np.zeros(len(threads), np.int64)
    reference = 0
    placed = 0
    open_to = np.arange(len(sizes))  # machines that may still take a thread of some task
    while placed < num_threads:
        for task in order:
            if done[task] == threads[task]:
                continue
            c, m = cpu[task], memory[task]
            best, least = -1, np.inf
            for v in open_to:
                if free_cpu[v] + tolerance < c or roomiest[v] + tolerance < m:
                    continue
                hop = 0.0 if v == reference else 0.5
                distance = (
                    weights[0] * (free_memory[v] - m) ** 2
                    + weights[1] * (free_cpu[v] - c) ** 2
                    + weights[2] * hop
                )
                if distance < least:
                    best, least = v, distance
            if best < 0:
                return node, slot, task
            at = _slot_of(slot_memory, start[best], start[best + 1], m - tolerance, rule)
            slot_memory[at] -= m
            free_cpu[best] -= c
            free_memory[best] -= m
            roomiest[best] = slot_memory[start[best] : start[best + 1]].max()
            thread = first[task] + done[task]
            node[thread], slot[thread] = best, at - start[best]
            done[task] += 1
            placed += 1
            reference = best
        open_to = _still_open(open_to, free_cpu, roomiest, threads, done, cpu, memory, tolerance)
    return node, slot, -1


@helper
def _still_open(open_to, free_cpu, roomiest, threads, done, cpu, memory, tolerance):
    """Machines with the CPU and memory of the least thread left; the others never take one."""
    least_cpu, least_memory = np.inf, np.inf
    for task in range(len(threads)):
        if done[task] < threads[task]:
            least_cpu, least_memory = min(least_cpu, cpu[task]), min(least_memory, memory[task])
    count = 0
    for v in open_to:
        if free_cpu[v] + tolerance >= least_cpu and roomiest[v] + tolerance >= least_memory:
            open_to[count] = v
            count += 1
    return open_to[:count]


@helper
def _slot_of(free, begin, end, needed, rule):
    """Slot of a machine with the memory, by the rule; there is one."""
    found = -1
    for s in range(begin, end):
        if free[s] < needed:
            continue
        better = found < 0
        if not better and rule == MOST_FREE:
            better = free[s] > free[found]
        elif not better and rule == LEAST_FREE:
            better = free[s] < free[found]
        if better:
            found = s
        if rule == FIRST:
            break
    return found
