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
    room_for,
    shift,
)
from heuristics.task_allocation.pair_split import new_scratch, split_pair
from heuristics.task_allocation.pattern_greedy import fill_by_patterns
from optim.util.compiled import helper, kernel


@kernel
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
        (S,) as `share` of `pattern_greedy.fill_by_patterns`.
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
