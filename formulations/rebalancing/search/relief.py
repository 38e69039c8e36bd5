"""Relief, compiled: mend place rules, capacities and least loads before anything else.

The searches keep what holds, and balance only loads; a placement that breaks a limit is not mended
by them. First the moves are made that mend sets and inflow. Then, node by node, the worst first,
the change is made that takes most of the breach away for each migration it takes, and of equal ones
that which leaves the loads more even.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from formulations.rebalancing.search.state import (
    COST,
    MOVES,
    NOBODY,
    away,
    breach_of,
    draw,
    gather,
    guard_of,
    lets,
    may_be,
    relocate,
)
from optim.kernels.guard import broken as rules_broken
from optim.kernels.guard import flooded, is_listed, relief_of
from optim.util.compiled import helper, kernel

#: Partners of a node that are looked at: so many of the lowest, and as many random ones.
PARTNERS = 32

#: Breaches below this part of a resource's mean use are rounding.
TINY = 1e-9


@kernel
def relieve(fixed, state, unit):
    """Mend what can be; it may fall short where budgets or room end.

    Parameters
    ----------
    fixed, state
        The problem and the state, which is changed.
    unit
        (E,) what a breach of each resource counts.
    """
    n = len(state.deviation)
    if fixed.guarded:
        while rules_broken(guard_of(state)) > 0 and mend_rules(fixed, state, unit):
            pass
    given_up = np.zeros(n, np.bool_)
    buffer = np.empty((2, len(fixed.load)), np.int64)
    while True:
        worst, most = -1, TINY
        for i in range(n):
            broken = broken_by(fixed, state, i, 0.0, NOBODY, NOBODY, unit)
            if broken > most and not given_up[i]:
                worst, most = i, broken
        if worst < 0:
            return
        done = relieve_node(fixed, state, worst, unit, buffer[0], buffer[1], False)
        if not done:
            done = relieve_node(fixed, state, worst, unit, buffer[0], buffer[1], True)
        given_up[worst] = not done


@helper
def mean_load(fixed, n):
    """Return the mean load of a node; summed in order, as numpy's own sum is not."""
    total = 0.0
    for load in fixed.load:
        total += load
    return max(1e-300, total / n)


@helper
def mend_rules(fixed, state, unit):
    """Make the move that mends most of the sets and inflow; return whether there was one.

    Of equal ones the move that breaks less of capacities and least loads, then the lowest node.
    """
    guard, n = guard_of(state), len(state.deviation)
    mean = mean_load(fixed, n)
    best, best_k, best_j = -1e300, NOBODY, -1
    for k in range(len(fixed.load)):
        i = state.place[k]
        if not is_listed(guard, k) and flooded(guard, i) == 0:
            continue
        for j in range(n):
            if j == i or not may_be(fixed, k, j):
                continue
            change = away(fixed, k, j) - away(fixed, k, i)
            if change > 0 and change > state.budget[MOVES]:
                continue
            if change > 0 and change * fixed.cost[k] > state.budget[COST]:
                continue
            mended = relief_of(guard, k, i, j)
            if mended <= 0:
                continue
            worse = broken_by(fixed, state, j, 1.0, k, NOBODY, unit)
            worse += broken_by(fixed, state, i, -1.0, k, NOBODY, unit)
            score = 1e6 * (mended - change) - 1e3 * worse - state.deviation[j] / mean
            if score > best:
                best, best_k, best_j = score, k, j
    if best_j < 0:
        return False
    relocate(fixed, state, best_k, best_j)
    return True


@helper
def broken_by(fixed, state, node, sign, k, other, unit):
    """Return by how much a node breaks its limits once k comes (sign 1) or goes (−1), other back.

    A sign of 0 asks for the node as it is. Leaving nodes have no least load.
    """
    total = 0.0
    for e in range(len(unit)):
        change = 0.0
        if k != NOBODY:
            change += sign * fixed.usage[k, e]
        if other != NOBODY:
            change -= sign * fixed.usage[other, e]
        total += unit[e] * max(0.0, change - state.room[node, e])
        total += unit[e] * max(0.0, -change - state.spare[node, e])
    return total


@helper
def relieve_node(fixed, state, i, unit, one, two, swaps):
    """Make the best move (or swap) between node i and some partners; return whether there was."""
    n = len(state.deviation)
    order = np.argsort(state.deviation, kind="mergesort")
    count_i = gather(state, i, one)
    before_i = broken_by(fixed, state, i, 0.0, NOBODY, NOBODY, unit)
    mean = mean_load(fixed, n)
    best, best_k, best_l, best_j = 1e300, NOBODY, NOBODY, -1
    for attempt in range(min(n, 2 * PARTNERS)):
        near = attempt < PARTNERS or n <= 2 * PARTNERS
        j = order[attempt] if near else draw(state.random, n)
        if j == i:
            continue
        count_j = gather(state, j, two)
        before = before_i + broken_by(fixed, state, j, 0.0, NOBODY, NOBODY, unit)
        for a in range(0 if swaps else -1, count_i):
            k = NOBODY if a < 0 else one[a]
            if k != NOBODY and not may_be(fixed, k, j):
                continue
            # a move to j, a move from j, or a swap
            for b in range(0 if swaps or a < 0 else -1, count_j if swaps or a < 0 else 0):
                other = NOBODY if b < 0 else two[b]
                change, cost, shift = 0, 0.0, 0.0
                if k != NOBODY:
                    step = away(fixed, k, j) - away(fixed, k, i)
                    change, cost, shift = step, step * fixed.cost[k], fixed.load[k]
                if other != NOBODY:
                    step = away(fixed, other, i) - away(fixed, other, j)
                    change, cost = change + step, cost + step * fixed.cost[other]
                    shift -= fixed.load[other]
                if change > 0 and change > state.budget[MOVES]:
                    continue
                if cost > 0.0 and cost > state.budget[COST]:
                    continue
                after = broken_by(fixed, state, i, -1.0, k, other, unit)
                after += broken_by(fixed, state, j, 1.0, k, other, unit)
                if after >= before - TINY:
                    continue
                if fixed.guarded and not lets(state, i, j, k, other):
                    continue
                effort = cost / fixed.typical_cost if fixed.has_cost else float(change)
                high = max(
                    breach_of(fixed, i, state.deviation[i] - shift),
                    breach_of(fixed, j, state.deviation[j] + shift),
                )
                score = (after - before) / before / (0.25 + max(0.0, effort)) + 0.05 * high / mean
                if score >= best or (other != NOBODY and not may_be(fixed, other, i)):
                    continue
                best, best_k, best_l, best_j = score, k, other, j
    if best_j < 0:
        return False
    if best_k != NOBODY:
        relocate(fixed, state, best_k, best_j)
    if best_l != NOBODY:
        relocate(fixed, state, best_l, i)
    return True
