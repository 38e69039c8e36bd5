"""A complete or partial placement of groups as counts a node, and its elementary steps, compiled.

The gain of a node that holds ``y`` is ``Σ_{g<h} rate_gh y_g y_h + Σ_g rate_gg y_g (y_g − 1) / 2``.

Two nodes are re-optimised by the best way to split what both hold, a bounded depth-first search:
splitting ``c`` into ``x`` and ``c − x`` cuts ``Σ_{g<h} rate_gh (x_g (c_h − x_h) + x_h (c_g − x_g))
+ Σ_g rate_gg x_g (c_g − x_g)``. Every group that is fixed adds a part that is not negative, so a
branch ends when its cut reaches the best known one.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.util.compiled import helper

if TYPE_CHECKING:
    from numpy.typing import NDArray


TINY = 1e-12


class Counts(NamedTuple):
    """Counts a node; `room`, `spare`, `held`, `drawn` and `left` change in place.

    Attributes
    ----------
    load, rate
        (G, R) load of one task; (G, G) symmetric traffic of one task pair.
    allowed
        (G, N) where each group may go; shape (0, 0) for everywhere.
    room, spare
        (N, R) what may still come, and what may go before a lower bound breaks.
    held
        (N, G) tasks of each group on each node.
    drawn
        (N, G) traffic of one task of a group with all that stands on a node.
    left
        (G,) tasks not placed.
    """

    load: NDArray[np.float64]
    rate: NDArray[np.float64]
    allowed: NDArray[np.bool_]
    room: NDArray[np.float64]
    spare: NDArray[np.float64]
    held: NDArray[np.int64]
    drawn: NDArray[np.float64]
    left: NDArray[np.int64]


@helper
def new_counts(size, load, rate, room, spare, allowed):
    """Start with nothing placed."""
    shape = (room.shape[0], load.shape[0])
    return Counts(
        load,
        rate,
        allowed,
        room.copy(),
        spare.copy(),
        np.zeros(shape, np.int64),
        np.zeros(shape),
        size.copy(),
    )


@helper
def may_go(allowed, group, node):
    """Whether a group's tasks may be on a node."""
    return allowed.shape[0] == 0 or allowed[group, node]


@helper
def add(load, rate, room, spare, count, drawn, group, node, number):
    """Put `number` tasks of a group on a node; a negative number takes them off."""
    count[node, group] += number
    for other in range(rate.shape[0]):
        drawn[node, other] += number * rate[group, other]
    for resource in range(load.shape[1]):
        room[node, resource] -= number * load[group, resource]
        spare[node, resource] += number * load[group, resource]


@helper
def shift(counts, group, node, number):
    """`add` on a placement, and count what is left."""
    add(
        counts.load,
        counts.rate,
        counts.room,
        counts.spare,
        counts.held,
        counts.drawn,
        group,
        node,
        number,
    )
    counts.left[group] -= number


@helper
def gain_of(counts):
    """Traffic within the nodes."""
    total = 0.0
    for node in range(counts.held.shape[0]):
        for group in range(counts.held.shape[1]):
            number = counts.held[node, group]
            if number > 0:
                total += number * (counts.drawn[node, group] - counts.rate[group, group])
    return 0.5 * total


@helper
def traffic_between(count, drawn, first, second):
    """Traffic between two nodes."""
    total = 0.0
    for group in range(count.shape[1]):
        total += count[first, group] * drawn[second, group]
    return total


@helper
def room_for(counts, group, node, most):
    """How many tasks of a group fit a node, at most `most`."""
    if not may_go(counts.allowed, group, node):
        return 0
    number = most
    for resource in range(counts.load.shape[1]):
        load = counts.load[group, resource]
        if load > 0.0 and number * load > counts.room[node, resource]:
            number = max(0, np.int64(np.floor(counts.room[node, resource] / load)))
    return number


@helper
def clear_counts(counts, size):
    """Take everything off."""
    for node in range(counts.held.shape[0]):
        for group in range(counts.held.shape[1]):
            if counts.held[node, group] != 0:
                shift(counts, group, node, -counts.held[node, group])
        counts.drawn[node] = 0.0  # exactly, whatever rounding has left
    counts.left[:] = size


@helper
def load_counts(counts, table, size):
    """Set the placement to a (N, G) table; what it does not cover is left."""
    clear_counts(counts, size)
    for node in range(counts.held.shape[0]):
        for group in range(counts.held.shape[1]):
            if table[node, group] != 0:
                shift(counts, group, node, table[node, group])


class Scratch(NamedTuple):
    """Arrays of the search, made once: one entry a depth (group)."""

    groups: np.ndarray
    total: np.ndarray
    split: np.ndarray
    best: np.ndarray
    turn: np.ndarray
    cut: np.ndarray
    used: np.ndarray
    rest: np.ndarray


@helper
def new_scratch(num_groups, num_resources):
    """Make the arrays."""
    return Scratch(
        np.zeros(num_groups, np.int64),
        np.zeros(num_groups, np.int64),
        np.zeros(num_groups, np.int64),
        np.zeros(num_groups, np.int64),
        np.zeros(num_groups, np.int64),
        np.zeros(num_groups + 1),
        np.zeros((num_groups + 1, num_resources)),
        np.zeros((num_groups + 1, num_resources)),
    )


@helper
def split_pair(counts, first, second, scratch, most_steps, least_gain):
    """Split what two nodes hold as well as the search finds; return the traffic gained.

    Parameters
    ----------
    counts
        Changed in place.
    first, second
        The nodes.
    scratch
        From `new_scratch`.
    most_steps
        Branches tried at most; when they run out the best split so far is taken.
    least_gain
        Smallest improvement that counts.
    """
    current = traffic_between(counts.held, counts.drawn, first, second)
    if current <= least_gain:
        return 0.0
    depth = _prepare(counts, first, second, scratch)
    best = _search(
        counts.load,
        counts.rate,
        counts.allowed,
        counts.room,
        counts.spare,
        counts.held,
        first,
        second,
        depth,
        scratch.groups,
        scratch.total,
        scratch.split,
        scratch.best,
        scratch.turn,
        scratch.cut,
        scratch.used,
        scratch.rest,
        current - least_gain,
        most_steps,
    )
    if best < 0.0:
        return 0.0
    for level in range(depth):
        group = scratch.groups[level]
        change = scratch.best[level] - counts.held[first, group]
        if change != 0:
            shift(counts, group, first, change)
            shift(counts, group, second, -change)
    return current - best


@helper
def _prepare(counts, first, second, scratch):
    """List the groups both nodes hold, those with most tasks first; sum up their loads."""
    depth = 0
    for group in range(counts.held.shape[1]):
        total = counts.held[first, group] + counts.held[second, group]
        if total > 0:
            level = depth
            while level > 0 and scratch.total[level - 1] < total:
                scratch.total[level] = scratch.total[level - 1]
                scratch.groups[level] = scratch.groups[level - 1]
                level -= 1
            scratch.total[level] = total
            scratch.groups[level] = group
            depth += 1
    num_resources = counts.load.shape[1]
    for resource in range(num_resources):
        scratch.rest[depth, resource] = 0.0
    for level in range(depth - 1, -1, -1):
        for resource in range(num_resources):
            load = scratch.total[level] * counts.load[scratch.groups[level], resource]
            scratch.rest[level, resource] = scratch.rest[level + 1, resource] + load
    return depth


@helper
def _search(
    load,
    rate,
    allowed,
    room,
    spare,
    count,
    first,
    second,
    depth,
    groups,
    total,
    split,
    best_split,
    turn,
    cut,
    used,
    rest,
    limit,
    most_steps,
):
    """Return the least cut found below `limit`, its split in `best_split`; -1 when there is none.

    `used` at a depth is the load that the splits above it put on the first node.
    """
    num_resources = load.shape[1]
    most, least = np.empty(num_resources), np.empty(num_resources)
    for resource in range(num_resources):
        held = 0.0
        for group in range(load.shape[0]):
            held += count[first, group] * load[group, resource]
        # what the first node may hold, and what it must so that the second is not overloaded
        most[resource] = held + min(room[first, resource], spare[second, resource])
        least[resource] = held - min(spare[first, resource], room[second, resource])
        # each bound has a slack of its own: that of an unbounded node would lift the other's bound
        most[resource] += TINY * (abs(most[resource]) + rest[0, resource])
        least[resource] -= TINY * (abs(least[resource]) + rest[0, resource])
        used[0, resource] = 0.0
    best = -1.0
    level = 0
    cut[0] = 0.0
    turn[0] = 0
    steps = 0
    while level >= 0:
        group = groups[level]
        if turn[level] > total[level] or steps >= most_steps:
            level -= 1
            continue
        # both ends first: splits that keep a group whole cut least
        number = turn[level] // 2 if turn[level] % 2 == 0 else total[level] - turn[level] // 2
        turn[level] += 1
        steps += 1
        if number > 0 and not may_go(allowed, group, first):
            continue
        if number < total[level] and not may_go(allowed, group, second):
            continue
        possible = True
        for resource in range(num_resources):
            on_first = used[level, resource] + number * load[group, resource]
            used[level + 1, resource] = on_first
            if on_first > most[resource] or on_first + rest[level + 1, resource] < least[resource]:
                possible = False
        if not possible:
            continue
        added = rate[group, group] * number * (total[level] - number)
        for above in range(level):
            other = groups[above]
            added += rate[group, other] * (
                number * (total[above] - split[above]) + split[above] * (total[level] - number)
            )
        if cut[level] + added >= limit:
            continue
        split[level] = number
        if level == depth - 1:
            limit = cut[level] + added
            best = limit
            for k in range(depth):
                best_split[k] = split[k]
        else:
            level += 1
            cut[level] = cut[level - 1] + added
            turn[level] = 0
    return best
