"""Compiled kernel: all sets of free tasks that one node can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.compiled import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


@kernel
def node_patterns(
    load: NDArray[np.float64],
    traffic: NDArray[np.float64],
    degree: NDArray[np.float64],
    beside: NDArray[np.float64],
    tasks: NDArray[np.int64],
    before: NDArray[np.int64],
    room: NDArray[np.float64],
    floor: NDArray[np.float64],
    incident: float,
    inside: float,
    uplink: float,
    most: int,
    most_steps: int,
) -> tuple[NDArray[np.uint64], NDArray[np.float64], int]:
    """List the sets of tasks within a node's room whose traffic its uplink carries.

    Sets grow task by task, so that a set over a room is never extended; what crosses the uplink
    may fall when a task joins its partners, so that is asked of finished sets only.

    Parameters
    ----------
    load, traffic, degree, beside
        (F, R), (F, F), (F,), (F,): of all free tasks, `beside` towards this node's running tasks.
    tasks
        Tasks that may go there, ascending.
    before
        (F,) the task alike that a set must hold before it may hold this one, -1 for none.
    room, floor
        (R,) bounds of the free load.
    incident, inside, uplink
        Traffic of the running tasks, the part between them, and what may cross.
    most, most_steps
        Sets to return, and to look at, at most.

    Returns
    -------
    tuple
        (P,) bit sets; (P, 3) load of the first resource, traffic inside, all traffic of the tasks;
        and how many there are, -1 when it is more than allowed.
    """
    resources, count = load.shape[1], len(tasks)
    size = 1024
    bits = np.zeros(size, dtype=np.uint64)
    figures = np.zeros((size, 3))
    chosen = np.zeros(count + 1, dtype=np.int64)
    following = np.zeros(count + 2, dtype=np.int64)
    loads = np.zeros((count + 2, resources))
    within, around = np.zeros(count + 2), np.zeros(count + 2)
    sets = np.zeros(count + 2, dtype=np.uint64)
    within[0], around[0] = inside, incident
    for r in range(resources):
        if room[r] < 0.0:
            return bits[:0], figures[:0], 0
    depth, found, steps = 0, 0, 0
    fresh = True
    while depth >= 0:
        if fresh:
            steps += 1
            if steps > most_steps:
                return bits[:0], figures[:0], -1
            legal = around[depth] - 2.0 * within[depth] <= uplink
            for r in range(resources):
                if loads[depth, r] < floor[r]:
                    legal = False
            if legal:
                if found == most:
                    return bits[:0], figures[:0], -1
                if found == size:
                    larger, more = np.zeros(2 * size, dtype=np.uint64), np.zeros((2 * size, 3))
                    larger[:size], more[:size] = bits, figures
                    bits, figures, size = larger, more, 2 * size
                bits[found] = sets[depth]
                figures[found, 0] = loads[depth, 0]
                figures[found, 1], figures[found, 2] = within[depth], around[depth]
                found += 1
        if following[depth] == count:
            depth -= 1
            fresh = False
            continue
        t = tasks[following[depth]]
        following[depth] += 1
        fits = before[t] < 0 or bool((sets[depth] >> np.uint64(before[t])) & np.uint64(1))
        for r in range(resources * int(fits)):
            loads[depth + 1, r] = loads[depth, r] + load[t, r]
            if loads[depth + 1, r] > room[r] and load[t, r] > 0.0:
                fits = False
        if not fits:
            fresh = False
            continue
        gain = beside[t]
        for i in range(depth):
            gain += traffic[t, chosen[i]]
        chosen[depth] = t
        within[depth + 1] = within[depth] + gain
        around[depth + 1] = around[depth] + degree[t]
        sets[depth + 1] = sets[depth] | (np.uint64(1) << np.uint64(t))
        following[depth + 1] = following[depth]
        depth += 1
        fresh = True
    return bits[:found].copy(), figures[:found].copy(), found
