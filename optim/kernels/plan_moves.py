"""Moves of a search for any objective: a task, an exchange, a chain, a group, a whole node.

Tasks are taken from the hottest nodes more often than from others, and go where those are whom they
talk to, home, to the coldest nodes, or anywhere.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from optim.kernels.draws import draw, uniform
from optim.kernels.guard import LISTED, RULE, SIZE, TOGETHER
from optim.kernels.guard import STARTS as SET_STARTS
from optim.kernels.plan_state import (
    AFTER,
    FIRST,
    HEAT,
    HELD,
    HOME,
    NODE,
    NODES,
    NOTHING,
    OTHER,
    SIDE_STARTS,
    SIDE_TASKS,
    SIDE_TASKS_STARTS,
    SIDES,
    STARTS,
    TASKS,
    TRAFFIC,
)
from optim.util.compiled import helper

MOST_TASKS = 64
"""Tasks that one move takes along at most."""
_TRIES = 3


@helper
def _hot_task(i, x, random):
    """Return, of some random tasks, the one on the hottest node."""
    best = draw(random, i[TASKS])
    for _ in range(_TRIES):
        other = draw(random, i[TASKS])
        if x[i[HEAT] + i[i[NODE] + other]] > x[i[HEAT] + i[i[NODE] + best]]:
            best = other
    return best


@helper
def _partner(i, task, random):
    """Return a random task that this one talks to; -1 for none."""
    begin, end = i[i[STARTS] + task], i[i[STARTS] + task + 1]
    first, last = i[i[SIDE_STARTS] + task], i[i[SIDE_STARTS] + task + 1]
    if end > begin and (last == first or uniform(random) < 0.5):
        return i[i[OTHER] + begin + draw(random, end - begin)]
    if last > first:
        side = i[i[SIDES] + first + draw(random, last - first)]
        side = side + 1 if side % 2 == 0 else side - 1
        low, high = i[i[SIDE_TASKS_STARTS] + side], i[i[SIDE_TASKS_STARTS] + side + 1]
        return i[i[SIDE_TASKS] + low + draw(random, high - low)]
    return -1


@helper
def _target(i, x, task, random):
    """Return a node to try: a partner's, the task's home, the coldest of a few, or any."""
    u = uniform(random)
    if i[TRAFFIC] != NOTHING and u < 0.45:
        partner = _partner(i, task, random)
        if partner >= 0:
            return i[i[NODE] + partner]
    home = i[i[HOME] + task]
    if u < 0.6 and home >= 0 and home != i[i[NODE] + task]:
        return home
    best = draw(random, i[NODES])
    if u < 0.85:
        for _ in range(_TRIES):
            other = draw(random, i[NODES])
            if x[i[HEAT] + other] < x[i[HEAT] + best]:
                best = other
    return best


@helper
def _one_of(i, node, random):
    """Return one of the first tasks of a node's list; -1 where it holds none."""
    held = i[i[HELD] + node]
    if held == 0:
        return -1
    task = i[i[FIRST] + node]
    for _ in range(draw(random, min(held, 12))):
        task = i[i[AFTER] + task]
    return task


@helper
def propose(i, x, guard, random, tasks, targets):
    """Write tasks and where they go to; return how many, 0 for none."""
    task = _hot_task(i, x, random) if uniform(random) < 0.6 else draw(random, i[TASKS])
    source = i[i[NODE] + task]
    u = uniform(random)
    if u < 0.25:  # exchange with any task
        other = draw(random, i[TASKS])
        tasks[0], targets[0] = task, i[i[NODE] + other]
        tasks[1], targets[1] = other, source
        return 2
    target = _target(i, x, task, random)
    tasks[0], targets[0] = task, target
    if u < 0.6:
        return 1
    if u < 0.85:  # exchange, or chain, with a task of the node to go to
        other = _one_of(i, target, random)
        if other < 0:
            return 1
        tasks[1], targets[1] = other, source
        if u < 0.78:
            return 2
        targets[1] = _target(i, x, other, random)
        return 2
    if guard.active and u < 0.93:  # all that are to be together with it
        count = _set_of(guard.ints, task, random, tasks)
        if count > 1:
            for t in range(count):
                targets[t] = target
            return count
    if u < 0.96:  # together with one of the same node
        other = _partner(i, task, random) if i[TRAFFIC] != NOTHING else _one_of(i, source, random)
        if other >= 0 and other != task and i[i[NODE] + other] == source:
            tasks[1], targets[1] = other, target
            return 2
        return 1
    if u < 0.98 and i[i[HELD] + source] <= MOST_TASKS // 2:  # empty a node
        count, other = 0, i[i[FIRST] + source]
        scatter = uniform(random) < 0.5
        while other >= 0:
            tasks[count] = other
            targets[count] = _target(i, x, other, random) if scatter else target
            count += 1
            other = i[i[AFTER] + other]
        return count
    if i[i[HELD] + source] + i[i[HELD] + target] <= MOST_TASKS:  # exchange all of two nodes
        count = 0
        for step in range(2):
            here, there = (source, target) if step == 0 else (target, source)
            other = i[i[FIRST] + here]
            while other >= 0:
                tasks[count], targets[count] = other, there
                count += 1
                other = i[i[AFTER] + other]
        return count
    return 1


@helper
def _set_of(g, task, random, tasks):
    """Write the tasks that are to be together with one, by a random set; return how many."""
    begin, end = g[g[SET_STARTS] + task], g[g[SET_STARTS] + task + 1]
    if end == begin:
        return 0
    s = g[g[LISTED] + begin + draw(random, end - begin)]
    if g[g[RULE] + s] != TOGETHER or g[g[SIZE] + s] > MOST_TASKS:
        return 0
    count = 0
    for other in range(g[LISTED] - g[SET_STARTS] - 1):
        for at in range(g[g[SET_STARTS] + other], g[g[SET_STARTS] + other + 1]):
            if g[g[LISTED] + at] == s:
                tasks[count] = other
                count += 1
    return count
