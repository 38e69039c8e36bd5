"""Building a placement node by node, each node with the best pattern of what is left, compiled."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from heuristics.task_allocation.counts import may_go, room_for, shift
from optim.util.compiled import helper


@helper
def fill_by_patterns(counts, own, share, most_steps):
    """Give every node, most room first, the pattern of the best score; return whether all fit.

    Parameters
    ----------
    counts
        Nothing placed; changed in place.
    own
        (G,) all traffic of one task of each group.
    share
        The score of a pattern is the traffic within it minus this share of what its tasks have in
        all: 0 prefers much traffic, 1/2 prefers tasks that bring all their traffic along.
    most_steps
        Patterns looked at a node at most.
    """
    num_nodes, num_groups = counts.held.shape
    best = np.zeros(num_groups, np.int64)
    taken = np.zeros(num_nodes, np.bool_)
    for _ in range(num_nodes):
        node = -1
        for other in range(num_nodes):
            if not taken[other] and (node < 0 or counts.room[other, 0] > counts.room[node, 0]):
                node = other
        taken[node] = True
        if _best_pattern(counts, own, share, node, most_steps, best):
            for group in range(num_groups):
                if best[group] > 0:
                    shift(counts, group, node, best[group])
    return place_left(counts)


@helper
def _best_pattern(counts, own, share, node, most_steps, best):
    """Find the pattern of best score that fits a node, depth-first; return whether one gains."""
    num_groups, num_resources = counts.load.shape
    picked = np.zeros(num_groups, np.int64)
    value = np.zeros(num_groups + 1)
    inside = np.zeros(num_groups + 1)
    used = np.zeros((num_groups + 1, num_resources))
    following = np.zeros(num_groups + 1, np.int64)
    level, steps = 0, 0
    found, best_value = False, -np.inf
    following[0] = _most(counts, 0, node, used[0])
    while level >= 0:
        if following[level] < 0 or steps >= most_steps:
            level -= 1
            continue
        steps += 1
        number = following[level]
        following[level] -= 1
        gain = 0.5 * counts.rate[level, level] * number * (number - 1)
        for above in range(level):
            gain += counts.rate[level, above] * number * picked[above]
        picked[level] = number
        inside[level + 1] = inside[level] + gain
        value[level + 1] = value[level] + gain - share * number * own[level]
        for resource in range(num_resources):
            used[level + 1, resource] = (
                used[level, resource] + number * counts.load[level, resource]
            )
        if level == num_groups - 1:
            if inside[num_groups] > 0.0 and value[num_groups] > best_value:
                best_value, found = value[num_groups], True
                for group in range(num_groups):
                    best[group] = picked[group]
        else:
            level += 1
            following[level] = _most(counts, level, node, used[level])
    return found


@helper
def _most(counts, group, node, used):
    """How many tasks of a group are left and still fit beside what the pattern holds."""
    if not may_go(counts.allowed, group, node):
        return 0
    number = counts.left[group]
    for resource in range(counts.load.shape[1]):
        load = counts.load[group, resource]
        if load > 0.0:
            free = counts.room[node, resource] - used[resource]
            if number * load > free:
                number = max(0, np.int64(np.floor(free / load)))
    return number


@helper
def place_left(counts):
    """Place what is left, costliest group first, each task where it gains most; return whether all
    fit.

    Ties go to the node with least room.
    """
    complete = True
    done = np.zeros(len(counts.left), np.bool_)
    for _ in range(len(done)):
        group = -1
        for other in range(len(done)):
            costlier = group < 0 or counts.load[other, 0] > counts.load[group, 0]
            if costlier and not done[other]:
                group = other
        done[group] = True
        while counts.left[group] > 0:
            best = -1
            for node in range(counts.held.shape[0]):
                if room_for(counts, group, node, 1) == 1 and (
                    best < 0
                    or counts.drawn[node, group] > counts.drawn[best, group]
                    or (
                        counts.drawn[node, group] == counts.drawn[best, group]
                        and counts.room[node, 0] < counts.room[best, 0]
                    )
                ):
                    best = node
            if best < 0:
                complete = False
                break
            shift(counts, group, best, 1)
    return complete
