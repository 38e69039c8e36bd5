"""The search on groups: a portfolio of constructions, re-optimised node pairs, kicks; compiled."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from heuristics.task_allocation.counts import (
    gain_of,
    load_counts,
    may_go,
    new_counts,
    room_for,
    shift,
)
from heuristics.task_allocation.pair_split import new_scratch, split_pair
from heuristics.task_allocation.pattern_greedy import fill_by_patterns
from heuristics.task_allocation.state import COUNT, GROUP, NODE
from heuristics.task_allocation.top_down_kernel import SHRINK, WALK_ALL, top_down
from optim.compiled import helper, kernel


@kernel
def search_counts(
    size,
    load,
    rate,
    room,
    spare,
    allowed,
    edge_u,
    edge_v,
    orders,
    shares,
    starts,
    rounds,
    strength,
    most_steps,
    least_gain,
    seed,
):
    """Construct, re-optimise and kick.

    Every construction (topDown by each of `orders`, patterns by each of `shares`, and each of
    `starts`) is settled: its node pairs are re-optimised. The best is then kicked.

    Parameters
    ----------
    size, load, rate, room, spare, allowed
        As for `heuristics.task_allocation.counts.new_counts`, nothing placed.
    edge_u, edge_v, orders
        (E,) group pairs and (K, E) orders of them for topDown.
    shares
        (S,) as `share` of `pattern_greedy.fill_by_patterns`.
    starts
        (M, N, G) complete placements to start from; they keep all bounds.
    rounds
        Kicks to try.
    strength
        Tasks that a kick moves.
    most_steps
        Branches tried when two nodes are re-optimised, or a pattern is built.
    least_gain
        Smallest improvement that counts.
    seed
        Of the kicks.

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
    empty = counts.count.copy()
    best = counts.count.copy()
    best_gain, best_index, clock = -1.0, -1, 0
    for index in range(len(orders) + len(shares) + len(starts)):
        if index < len(orders):
            load_counts(counts, empty, size)
            state = top_down(
                size, load, room, allowed, edge_u, edge_v, orders[index], SHRINK, WALK_ALL
            )
            _load_splits(counts, state)
            complete = counts.left.sum() == 0
        elif index < len(orders) + len(shares):
            load_counts(counts, empty, size)
            share = shares[index - len(orders)]
            complete = fill_by_patterns(counts, own, share, most_steps)
        else:
            load_counts(counts, starts[index - len(orders) - len(shares)], size)
            complete = True
        if not complete or not _floors_kept(counts):
            continue
        clock += 1
        changed[:] = clock
        clock = settle(counts, scratch, changed, checked, clock, most_steps, least_gain)
        gain = gain_of(counts)
        if gain > best_gain + least_gain:
            best_gain, best_index = gain, index
            best[:] = counts.count
    if best_index >= 0 and rounds > 0:
        clock += 1
        changed[:] = clock
        checked[:] = clock
        load_counts(counts, best, size)
        best_gain = _kicked(
            counts,
            best,
            best_gain,
            scratch,
            changed,
            checked,
            clock,
            rounds,
            strength,
            most_steps,
            least_gain,
        )
    return best_gain, best, best_index


@helper
def _kicked(
    counts,
    best,
    best_gain,
    scratch,
    changed,
    checked,
    clock,
    rounds,
    strength,
    most_steps,
    least_gain,
):
    """Iterated local search from a settled placement; `best` follows, its gain is returned."""
    num_nodes = len(changed)
    for _ in range(rounds):
        clock += 1
        kick(counts, changed, clock, strength)
        clock = settle(counts, scratch, changed, checked, clock, most_steps, least_gain)
        gain = gain_of(counts)
        if gain > best_gain + least_gain:
            best_gain = gain
            best[:] = counts.count
        elif gain < best_gain - least_gain:
            clock += 1
            for node in range(num_nodes):
                for group in range(best.shape[1]):
                    if counts.count[node, group] != best[node, group]:
                        changed[node] = clock
            _restore(counts, best, changed, clock)
    return best_gain


@helper
def _restore(counts, table, changed, clock):
    """Take back what changed since `table`."""
    for node in range(len(changed)):
        if changed[node] == clock:
            for group in range(table.shape[1]):
                number = table[node, group] - counts.count[node, group]
                if number != 0:
                    shift(counts, group, node, number)


@helper
def _load_splits(counts, state):
    """Take over what topDown placed."""
    for split in range(state.filled[0]):
        shift(
            counts,
            state.splits[split, GROUP],
            state.splits[split, NODE],
            state.splits[split, COUNT],
        )


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
    num_nodes = counts.count.shape[0]
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
    num_nodes = counts.count.shape[0]
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
    for group in range(counts.count.shape[1]):
        total += counts.count[node, group]
    if total == 0:
        return -1
    pick = np.random.randint(total)  # noqa: NPY002
    for group in range(counts.count.shape[1]):
        pick -= counts.count[node, group]
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
