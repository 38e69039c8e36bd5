"""A complete or partial placement of groups as counts a node, and its elementary steps, compiled.

The gain of a node that holds ``y`` is ``Σ_{g<h} rate_gh y_g y_h + Σ_g rate_gg y_g (y_g − 1) / 2``.
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
