"""State of a joint search, compiled: loads, collocated traffic, what exceeds limits, budgets left.

The budgets and allowed sets are kept by every change; load distance, capacities, least loads, place
rules and the load left on leaving nodes may be exceeded on the way; the *excess* says by how much.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formulations.rebalancing.search.state import breach_of, carry, draw, link, unlink
from optim.kernels.guard import Guard, broken, enter, pays, relevant
from optim.util.compiled import helper, inlined

if TYPE_CHECKING:
    import numpy as np

#: Indices into `JointState.total`: collocated traffic, excess, load on leaving nodes, budgets left.
GAIN, EXCESS, LEFT, MOVES, COST = 0, 1, 2, 3, 4


class JointFixed(NamedTuple):
    """What does not change during a search; names as in `BalanceProblem` and `JointProblem`.

    `unit` turns an excess of a resource into one of load, `each` a key group by which a place rule
    is broken; `cap` and `max_left` may be infinite.
    """

    load: np.ndarray
    cost: np.ndarray
    home: np.ndarray
    leaving: np.ndarray
    usage: np.ndarray
    unit: np.ndarray
    each: float
    row_of: np.ndarray
    must_move: np.ndarray
    allowed_indptr: np.ndarray
    allowed_nodes: np.ndarray
    start: np.ndarray
    partner: np.ndarray
    rate: np.ndarray
    source: np.ndarray
    target: np.ndarray
    into_leaving: bool
    cap: float
    max_left: float


class Arcs(NamedTuple):
    """Promising moves from home: (N + 1,) starts by home node, key group and target, best first.

    `best` orders them over all nodes.
    """

    start: np.ndarray
    task: np.ndarray
    node: np.ndarray
    best: np.ndarray


class JointState(NamedTuple):
    """What changes.

    (T,) place; (N,) deviation from the share; (N, E) room and spare; lists of key groups a node;
    the list of those that migrate and their place in it; the guard; totals; the random state.
    """

    place: np.ndarray
    deviation: np.ndarray
    room: np.ndarray
    spare: np.ndarray
    first: np.ndarray
    after: np.ndarray
    before: np.ndarray
    size: np.ndarray
    moved: np.ndarray
    moved_at: np.ndarray
    num_moved: np.ndarray
    guard: Guard
    total: np.ndarray
    random: np.ndarray


@helper
def uniform(random):
    """Return a random number in (0, 1)."""
    return (draw(random, 1 << 30) + 0.5) / (1 << 30)


@inlined
def node_excess(fixed, state, node):
    """Return by how much a node exceeds the cap on the distance and its resources."""
    amount = max(0.0, breach_of(fixed, node, state.deviation[node]) - fixed.cap)
    for e in range(len(fixed.unit)):
        short = max(0.0, -state.room[node, e]) + max(0.0, -state.spare[node, e])
        amount += fixed.unit[e] * short
    return amount


@inlined
def note_move(state, k, away):
    """Enter a key group into the list of those away from home, or take it out."""
    at = state.moved_at[k]
    if away and at < 0:
        state.moved_at[k] = state.num_moved[0]
        state.moved[state.num_moved[0]] = k
        state.num_moved[0] += 1
    elif not away and at >= 0:
        state.num_moved[0] -= 1
        last = state.moved[state.num_moved[0]]
        state.moved[at] = last
        state.moved_at[last] = at
        state.moved_at[k] = -1


@inlined
def gain_of(fixed, state, k, node):
    """Return the traffic of k with its partners on a node."""
    amount = 0.0
    for at in range(fixed.start[k], fixed.start[k + 1]):
        if state.place[fixed.partner[at]] == node:
            amount += fixed.rate[at]
    return amount


@inlined
def left_excess(fixed, state):
    """Return the load on leaving nodes above what may be left there."""
    return max(0.0, state.total[LEFT] - fixed.max_left)


@inlined
def relocate(fixed, state, k, target):
    """Move a key group, whatever it exceeds; all totals follow."""
    source = state.place[k]
    total = state.total
    total[GAIN] += gain_of(fixed, state, k, target) - gain_of(fixed, state, k, source)
    total[EXCESS] -= node_excess(fixed, state, source) + node_excess(fixed, state, target)
    total[EXCESS] -= left_excess(fixed, state)
    unlink(state, k, source)
    link(state, k, target)
    carry(fixed, state, k, source, target)
    if fixed.leaving[source]:
        total[LEFT] -= fixed.load[k]
    if fixed.leaving[target]:
        total[LEFT] += fixed.load[k]
    total[EXCESS] += node_excess(fixed, state, source) + node_excess(fixed, state, target)
    total[EXCESS] += left_excess(fixed, state)
    if state.guard.active:
        total[EXCESS] -= fixed.each * relevant(state.guard, k, source, target)
        enter(state.guard, k, source, target)
        total[EXCESS] += fixed.each * relevant(state.guard, k, source, target)
    change = pays(state.guard, k, target) - pays(state.guard, k, source)
    if change != 0:
        total[MOVES] -= change
        total[COST] -= change * fixed.cost[k]
        note_move(state, k, change > 0)


@helper
def count_totals(fixed, state):
    """Count gain, excess and load left from scratch: sums of differences drift."""
    twice, excess, left = 0.0, 0.0, 0.0
    for k in range(len(state.place)):
        twice += gain_of(fixed, state, k, state.place[k])
        if fixed.leaving[state.place[k]]:
            left += fixed.load[k]
    for node in range(len(state.deviation)):
        excess += node_excess(fixed, state, node)
    state.total[GAIN] = 0.5 * twice
    state.total[LEFT] = left
    if state.guard.active:
        excess += fixed.each * broken(state.guard)
    state.total[EXCESS] = excess + left_excess(fixed, state)
