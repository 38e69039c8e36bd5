"""The search on groups: a portfolio of constructions, re-optimised node pairs, kicks; compiled."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from heuristics.task_allocation.counts import (
    clear_counts,
    gain_of,
    load_counts,
    may_go,
    new_counts,
    new_scratch,
    room_for,
    shift,
    split_pair,
)
from optim.util.compiled import helper, kernel


@kernel(steps=lambda rounds, room, size: 57 * rounds * len(room) * len(size))
def search_counts(
    size,
    load,
    rate,
    room,
    spare,
    allowed,
    shares,
    starts,
    rounds,
    strength,
    most_steps,
    least_gain,
    seed,
    pool,
):
    """Construct, re-optimise and kick.

    Every construction (patterns by each of `shares`, and each of `starts`) is settled: its node
    pairs are re-optimised. The best is then kicked.

    Parameters
    ----------
    size, load, rate, room, spare, allowed
        As for `heuristics.task_allocation.counts.new_counts`, nothing placed.
    shares
        (S,) as `share` of `fill_by_patterns`.
    starts
        (M, N, G) complete placements to start from; they keep all bounds.
    rounds
        Kicks to try.
    strength
        A kick moves this many tasks, the next ones two, three and four times as many, and so on.
    most_steps
        Branches tried when two nodes are re-optimised, or a pattern is built.
    least_gain
        Smallest improvement that counts.
    seed
        Of the kicks.
    pool
        (P, G) filled with the contents of nodes of settled placements, as many as there is room
        for; a row of which the first entry is negative is free.

    Returns
    -------
    tuple
        Gain, (N, G) counts of the best complete placement, and index of the construction it came
        from; index -1 and gain -1 when no construction was complete.
    """
    np.random.seed(seed)  # noqa: NPY002  the generator that compiled code has
    num_nodes = room.shape[0]
    scratch = new_scratch(len(size), load.shape[1])
    changed = np.zeros(num_nodes, np.int64)  # when a node last changed
    checked = np.zeros((num_nodes, num_nodes), np.int64)  # and a pair was last looked at
    own = _own_traffic(size, rate)
    counts = new_counts(size, load, rate, room, spare, allowed)
    best = counts.held.copy()
    best_gain, best_index, clock, pooled = -1.0, -1, 0, 0
    built = len(shares) + len(starts)
    for step in range(built + rounds):
        clock += 1
        since = clock
        if step < len(shares):
            clear_counts(counts, size)
            fill_by_patterns(counts, own, shares[step], most_steps)
        elif step < built:
            load_counts(counts, starts[step - len(shares)], size)
        else:
            if best_index < 0:
                break
            if step == built:
                load_counts(counts, best, size)
                checked[:] = clock - 1
            kick(counts, changed, clock, strength * (1 + (step - built) % 4))
        if step < built:
            if counts.left.sum() > 0 or not _floors_kept(counts):
                continue
            changed[:] = clock
        clock = settle(counts, scratch, changed, checked, clock, most_steps, least_gain)
        pooled = _collect(counts, changed, since, pool, pooled)
        gain = gain_of(counts)
        if gain > best_gain + least_gain:
            best_gain = gain
            best_index = step if step < built else best_index
            best[:] = counts.held
        elif step >= built and gain < best_gain - least_gain:
            clock += 1
            _restore(counts, best, changed, clock)
    return best_gain, best, best_index


@helper
def _collect(counts, changed, since, pool, pooled):
    """Copy the contents of nodes that changed since a time into the pool; return its size."""
    for node in range(len(changed)):
        if changed[node] >= since and pooled < len(pool) and counts.held[node].sum() > 0:
            pool[pooled] = counts.held[node]
            pooled += 1
    return pooled


@helper
def _restore(counts, table, changed, clock):
    """Go back to a placement, noting which nodes change."""
    for node in range(len(changed)):
        for group in range(table.shape[1]):
            number = table[node, group] - counts.held[node, group]
            if number != 0:
                shift(counts, group, node, number)
                changed[node] = clock


@helper
def _floors_kept(counts):
    """Whether every node meets its lower bounds."""
    kept = True
    for node in range(counts.spare.shape[0]):
        kept = kept and _may_lose(counts, node)
    return kept


@helper
def _own_traffic(size, rate):
    """(G,) all traffic of one task of each group."""
    own = np.zeros(len(size))
    for group in range(len(size)):
        for other in range(len(size)):
            own[group] += rate[group, other] * size[other]
        own[group] -= rate[group, group]
    return own


@helper
def settle(counts, scratch, changed, checked, clock, most_steps, least_gain):
    """Re-optimise pairs of nodes until no pair can be bettered; return the clock."""
    num_nodes = counts.held.shape[0]
    improved = True
    while improved:
        improved = False
        for first in range(num_nodes):
            for second in range(first + 1, num_nodes):
                if max(changed[first], changed[second]) <= checked[first, second]:
                    continue
                checked[first, second] = clock
                if split_pair(counts, first, second, scratch, most_steps, least_gain) > 0.0:
                    clock += 1
                    changed[first] = clock
                    changed[second] = clock
                    checked[first, second] = clock
                    improved = True
    return clock


@helper
def kick(counts, changed, clock, strength):
    """Move random tasks to random nodes, in exchange for a random task where they do not fit."""
    num_nodes = counts.held.shape[0]
    done = 0
    for _ in range(20 * strength):
        if done == strength:
            return
        source, target = np.random.randint(num_nodes), np.random.randint(num_nodes)  # noqa: NPY002
        group = _random_task(counts, source)
        if source == target or group < 0 or not may_go(counts.allowed, group, target):
            continue
        other = _random_task(counts, target)
        shift(counts, group, source, -1)
        if room_for(counts, group, target, 1) == 1 and _may_lose(counts, source):
            shift(counts, group, target, 1)
        else:
            if other < 0 or other == group or not _swapped(counts, group, other, source, target):
                shift(counts, group, source, 1)
                continue
        changed[source] = clock
        changed[target] = clock
        done += 1


@helper
def _random_task(counts, node):
    """Return the group of a random task on a node; -1 if it is empty."""
    total = 0
    for group in range(counts.held.shape[1]):
        total += counts.held[node, group]
    if total == 0:
        return -1
    pick = np.random.randint(total)  # noqa: NPY002
    for group in range(counts.held.shape[1]):
        pick -= counts.held[node, group]
        if pick < 0:
            return group
    return -1


@helper
def _may_lose(counts, node):
    """Whether a node still meets its lower bounds."""
    kept = True
    for resource in range(counts.spare.shape[1]):
        kept = kept and counts.spare[node, resource] >= 0.0
    return kept


@helper
def _swapped(counts, group, other, source, target):
    """Put a task of `group`, taken off `source`, on `target` for one of `other`, if that fits."""
    if not may_go(counts.allowed, other, source):
        return False
    shift(counts, other, target, -1)
    if room_for(counts, group, target, 1) == 1:
        shift(counts, group, target, 1)
        if room_for(counts, other, source, 1) == 1:
            shift(counts, other, source, 1)
            if _may_lose(counts, source) and _may_lose(counts, target):
                return True
            shift(counts, other, source, -1)
        shift(counts, group, target, -1)
    shift(counts, other, target, 1)
    return False


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
