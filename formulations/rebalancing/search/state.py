"""State of a rebalancing search, compiled: loads, lists of key groups per node, budgets, and moves.

A node's *breach* is what counts in the load distance: the deviation from its share, upwards only on
leaving nodes. Every change keeps budgets, capacities, least loads, allowed sets and place rules.

The fixed part of a search that asks has the arrays ``home``, ``leaving``, ``must_move``, ``row_of``
and the allowed sets as compressed rows.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optim.kernels.guard import Guard, enter, may_exchange
from optim.util.compiled import helper, inlined

#: Stands for "no key group" in a swap, which then is a move.
NOBODY = -1

#: Budgets left, by index.
MOVES, COST = 0, 1


class Fixed(NamedTuple):
    """What does not change during a search; names as in `BalanceProblem`.

    `guarded` says whether place rules are to be asked.
    """

    load: np.ndarray
    cost: np.ndarray
    home: np.ndarray
    share: np.ndarray
    leaving: np.ndarray
    usage: np.ndarray
    row_of: np.ndarray
    must_move: np.ndarray
    allowed_indptr: np.ndarray
    allowed_nodes: np.ndarray
    into_leaving: bool
    has_cost: bool
    typical_cost: float
    copies_indptr: np.ndarray
    copies: np.ndarray
    guarded: bool


class State(NamedTuple):
    """What changes: (T,) place, (N,) deviation, (N, E) room and spare, lists, budgets, guard."""

    place: np.ndarray
    deviation: np.ndarray
    room: np.ndarray
    spare: np.ndarray
    first: np.ndarray
    after: np.ndarray
    before: np.ndarray
    size: np.ndarray
    budget: np.ndarray
    rules: np.ndarray
    random: np.ndarray


@helper
def draw(random, below):
    """Return a random whole number of 0 … below − 1 (xorshift64*)."""
    x = random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    random[0] = x
    mixed = x * np.uint64(0x2545F4914F6CDD1D)
    return np.int64((mixed >> np.uint64(33)) % np.uint64(below))


@helper
def gather(state, node, buffer):
    """Copy a node's key groups into a buffer; return how many (at most its length)."""
    count = 0
    k = state.first[node]
    while k >= 0 and count < len(buffer):
        buffer[count] = k
        count += 1
        k = state.after[k]
    return count


@helper
def breach_of(fixed, node, deviation):
    """Return what a deviation counts on a node: upwards only where it is leaving."""
    if fixed.leaving[node]:
        return max(0.0, deviation)
    return abs(deviation)


@helper
def worst(fixed, state):
    """Return the load distance."""
    top = 0.0
    for i in range(len(state.deviation)):
        top = max(top, breach_of(fixed, i, state.deviation[i]))
    return top


@inlined
def away(fixed, k, node):
    """Return 1 where being on `node` counts as a migration of k."""
    for at in range(fixed.copies_indptr[k], fixed.copies_indptr[k + 1]):
        if fixed.copies[at] == node:
            return 0
    return 0 if fixed.home[k] == node else 1


@helper
def guard_of(state):
    """Return the guard of place rules; copies are looked up in it as if there were some."""
    return Guard(True, True, state.rules)


@helper
def lets(state, a, b, k, other):
    """Whether place rules let k leave a for b, and `other` b for a at the same time."""
    return may_exchange(guard_of(state), k, other, a, b)


@helper
def fits(fixed, state, a, b, k, other):
    """Whether k may leave a for b, and `other` b for a at the same time, by room and rules."""
    if fixed.guarded and not lets(state, a, b, k, other):
        return False
    for e in range(fixed.usage.shape[1]):
        shift = 0.0
        if k != NOBODY:
            shift += fixed.usage[k, e]
        if other != NOBODY:
            shift -= fixed.usage[other, e]
        if shift > 0.0 and (shift > state.room[b, e] or shift > state.spare[a, e]):
            return False
        if shift < 0.0 and (-shift > state.room[a, e] or -shift > state.spare[b, e]):
            return False
    return True


@inlined
def carry(fixed, state, k, source, target):
    """Enter a move into place, deviations and room."""
    state.place[k] = target
    state.deviation[source] -= fixed.load[k]
    state.deviation[target] += fixed.load[k]
    for e in range(fixed.usage.shape[1]):
        state.room[source, e] += fixed.usage[k, e]
        state.spare[source, e] -= fixed.usage[k, e]
        state.room[target, e] -= fixed.usage[k, e]
        state.spare[target, e] += fixed.usage[k, e]


@helper
def book(fixed, state, k, source, target):
    """Enter a move into place, deviations, room and budgets; lists are the caller's."""
    carry(fixed, state, k, source, target)
    if fixed.guarded:
        enter(guard_of(state), k, source, target)
    change = away(fixed, k, target) - away(fixed, k, source)
    state.budget[MOVES] -= change
    state.budget[COST] -= change * fixed.cost[k]


@helper
def relocate(fixed, state, k, target):
    """Move a key group, whatever it breaks."""
    source = state.place[k]
    unlink(state, k, source)
    link(state, k, target)
    book(fixed, state, k, source, target)


@helper
def restore(fixed, state, placement):
    """Go back to a placement."""
    for k in range(len(placement)):
        if state.place[k] != placement[k]:
            relocate(fixed, state, k, placement[k])


@inlined
def may_be(fixed, k, node):
    """Whether a key group may be on a node."""
    home = fixed.home[k]
    if node == home:
        return not fixed.must_move[k]
    if fixed.leaving[node] and not fixed.into_leaving and not fixed.leaving[home]:
        return False
    row = fixed.row_of[k]
    if row < 0:
        return True
    for at in range(fixed.allowed_indptr[row], fixed.allowed_indptr[row + 1]):
        if fixed.allowed_nodes[at] == node:
            return True
    return False


@inlined
def link(state, k, node):
    """Put a key group at the head of a node's list."""
    head = state.first[node]
    state.after[k] = head
    state.before[k] = -1
    if head >= 0:
        state.before[head] = k
    state.first[node] = k
    state.size[node] += 1


@inlined
def unlink(state, k, node):
    """Take a key group out of its node's list."""
    ahead, behind = state.before[k], state.after[k]
    if ahead >= 0:
        state.after[ahead] = behind
    else:
        state.first[node] = behind
    if behind >= 0:
        state.before[behind] = ahead
    state.size[node] -= 1
