"""Compiled search for a small load distance within a budget of migrations.

Great deluge by thresholds: nodes above a level are mended one after the other by the best move or
swap with a partner that stays below it; when none is left above, the level falls. A level that
cannot be reached is tried again from the best placement, some of whose migrants are sent home, or
shaken by random changes that keep the level.
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
    fits,
    gather,
    may_be,
    relocate,
    restore,
    worst,
)
from optim.util.compiled import helper, kernel

#: What a search remembers from slice to slice, by index.
BEST, STEP, FAILED, LEVEL = 0, 1, 2, 3

#: The first step down, as a part of the best load distance.
FIRST_STEP = 0.3


@kernel
def lower(
    fixed, state, start, best_place, memory, goals, levels, tries, partners, target, buffer_size
):
    """Aim at some levels from the start, then let it fall; return whether there is more to try.

    Parameters
    ----------
    fixed, state, start, best_place, memory
        The problem, the state, where the search began, the best placement so far, and what is
        remembered.
    goals
        Levels to aim at straight from the start before all others.
    levels
        Levels to try in this slice.
    tries
        Levels that may fail one after the other.
    partners
        Partner nodes to try for a node above the level.
    target
        Load distance that is good enough.
    buffer_size
        Key groups of a node that are looked at.
    """
    one, two = np.empty(buffer_size, np.int64), np.empty(buffer_size, np.int64)
    for at in range(len(goals) + levels):
        if at < len(goals):
            restore(fixed, state, start)
            mend_all(fixed, state, goals[at], partners, one, two)
            reached = worst(fixed, state)
            if reached < memory[BEST]:
                memory[BEST] = reached
                best_place[:] = state.place
            restore(fixed, state, best_place)
            continue
        best, failed = memory[BEST], int(memory[FAILED])
        if best <= target * (1.0 + 1e-6) + 1e-9 or failed >= tries:
            return False
        memory[LEVEL] += 1
        goal = max(target, best * (1.0 - memory[STEP]))
        if failed > 1:
            if failed % 4 == 0:
                shake(fixed, state, best, 1 + len(state.deviation) // 4, one)
            else:
                ruin(fixed, state, best, 1 + draw(state.random, 4), one)
        mend_all(fixed, state, goal, partners, one, two)
        reached = worst(fixed, state)
        if reached < best * (1.0 - 1e-9):
            memory[BEST] = reached
            best_place[:] = state.place
            memory[FAILED] = 0
        else:
            restore(fixed, state, best_place)
            memory[FAILED] += 1
            memory[STEP] = max(0.004, memory[STEP] * 0.6)
    return True


@helper
def mend_all(fixed, state, goal, partners, one, two):
    """Mend nodes above the goal until there are none (true) or none can be mended (false)."""
    n = len(state.deviation)
    donor = np.empty(n)
    for _ in range(60):
        for i in range(n):  # a leaving node gives before all others while it holds anything
            donor[i] = state.deviation[i]
            if fixed.leaving[i]:
                donor[i] = 1e300 if state.size[i] > 0 else -1e300
        order = np.argsort(donor, kind="mergesort")
        takers = order[~fixed.leaving[order]]
        hot, mended, turn = 0, 0, 0
        for at in range(n - 1, -1, -1):
            for side in range(2):  # from the highest down and from the lowest up in turn
                i = order[at] if side == 0 else order[n - 1 - at]
                over = state.deviation[i] > 0.0
                if over != (side == 0) or breach_of(fixed, i, state.deviation[i]) <= goal:
                    continue
                hot += 1
                ranked = takers if over else order
                if mend(fixed, state, i, goal, ranked, over, partners, turn, one, two):
                    mended += 1
                turn += 1
        if hot == 0:
            return True
        if mended == 0:
            return False
    return False


@helper
def mend(fixed, state, i, goal, ranked, over, partners, turn, one, two):
    """Make the best change between node i and some partners; return whether there was one."""
    n = len(ranked)
    count_i = gather(state, i, one)
    largest = 0.0
    for a in range(count_i):
        largest = max(largest, fixed.load[one[a]])
    # far from the goal a swap is never worth its two migrations: moves alone are tried
    far = breach_of(fixed, i, state.deviation[i]) - goal > 2.0 * largest and over
    best_score, best_k, best_l, best_j = 1e300, NOBODY, NOBODY, -1
    for attempt in range(min(2 * partners, n)):
        near = attempt < partners
        rank = (attempt + turn % 3) % n if near else draw(state.random, n)
        j = ranked[rank] if over else ranked[n - 1 - rank]
        if j == i:
            continue
        count_j = gather(state, j, two)
        score, k, other = best_exchange(
            fixed, state, i, j, goal, one, count_i, two, count_j, best_score, far
        )
        if score < best_score:
            best_score, best_k, best_l, best_j = score, k, other, j
    if best_j < 0:
        return False
    if best_k != NOBODY:
        relocate(fixed, state, best_k, best_j)
    if best_l != NOBODY:
        relocate(fixed, state, best_l, i)
    return True


@helper
def best_exchange(fixed, state, i, j, goal, one, count_i, two, count_j, limit, far):
    """Return the best score below `limit` of moving k from i to j and l from j to i, and both.

    Node i must come nearer to its share, and j may not leave the goal (or, above it already, not
    get worse). The score is what both lie less above the goal, per migration or cost it takes;
    changes that take none, or give some back, count as a quarter of one.
    """
    dev_i, dev_j = state.deviation[i], state.deviation[j]
    now_i = breach_of(fixed, i, dev_i)
    now_j = breach_of(fixed, j, dev_j)
    allowed_j = max(goal, now_j)
    best_k, best_l = NOBODY, NOBODY
    for a in range(-1, count_i):
        k = NOBODY if a < 0 else one[a]
        load_k, change_k, cost_k = 0.0, 0, 0.0
        if k != NOBODY:
            if not may_be(fixed, k, j):
                continue
            load_k = fixed.load[k]
            change_k = away(fixed, k, j) - away(fixed, k, i)
            cost_k = change_k * fixed.cost[k]
        for b in range(-1, 0 if far and k != NOBODY else count_j):
            other = NOBODY if b < 0 else two[b]
            shift = load_k if other == NOBODY else load_k - fixed.load[other]
            after_i = breach_of(fixed, i, dev_i - shift)
            if after_i >= now_i:
                continue
            after_j = breach_of(fixed, j, dev_j + shift)
            if after_j > allowed_j:
                continue
            change, cost = change_k, cost_k
            if other != NOBODY:
                change_l = away(fixed, other, i) - away(fixed, other, j)
                change += change_l
                cost += change_l * fixed.cost[other]
            if change > 0 and change > state.budget[MOVES]:
                continue
            if cost > 0.0 and cost > state.budget[COST]:
                continue
            effort = cost / fixed.typical_cost if fixed.has_cost else float(change)
            gain = now_i - max(after_i, goal) + max(now_j - goal, 0.0) - max(after_j - goal, 0.0)
            score = -gain / (0.25 + max(0.0, effort)) + 0.05 * max(after_i, after_j)
            if score >= limit:
                continue
            if other != NOBODY and not may_be(fixed, other, i):
                continue
            if not fits(fixed, state, i, j, k, other):
                continue
            limit, best_k, best_l = score, k, other
    return limit, best_k, best_l


@helper
def ruin(fixed, state, level, nodes, one):
    """Send the migrants of the worst node and of some random ones home, to free their budget."""
    n = len(state.deviation)
    chosen = np.zeros(n, np.bool_)
    for i in range(n):
        if breach_of(fixed, i, state.deviation[i]) >= level * (1.0 - 1e-9):
            chosen[i] = True
            break
    for _ in range(nodes):
        chosen[draw(state.random, n)] = True
    for k in range(len(fixed.load)):
        at, home = state.place[k], fixed.home[k]
        if at == home or not (chosen[at] or chosen[home]) or fixed.must_move[k]:
            continue
        if fits(fixed, state, at, home, k, NOBODY):
            relocate(fixed, state, k, home)


@helper
def shake(fixed, state, level, changes, one):
    """Make random moves and swaps that keep every node within the level and spend no budget."""
    n = len(state.deviation)
    for _ in range(changes):
        i, j = draw(state.random, n), draw(state.random, n)
        if i == j or state.size[i] == 0 or state.size[j] == 0:
            continue
        for _ in range(30):
            k = one[draw(state.random, gather(state, i, one))]
            other = one[draw(state.random, gather(state, j, one))]
            shift = fixed.load[k] - fixed.load[other]
            if breach_of(fixed, i, state.deviation[i] - shift) > level:
                continue
            if breach_of(fixed, j, state.deviation[j] + shift) > level:
                continue
            change = away(fixed, k, j) - away(fixed, k, i)
            change_l = away(fixed, other, i) - away(fixed, other, j)
            cost = change * fixed.cost[k] + change_l * fixed.cost[other]
            if change + change_l > max(0.0, state.budget[MOVES]):
                continue
            if cost > max(0.0, state.budget[COST]):
                continue
            if not (may_be(fixed, k, j) and may_be(fixed, other, i)):
                continue
            if fits(fixed, state, i, j, k, other):
                relocate(fixed, state, k, j)
                relocate(fixed, state, other, i)
                break


@kernel
def water_fill(fixed, state):
    """Fill like water: the largest key groups first, to the lowest node.

    Leaving nodes give first, then the most loaded; a key group goes to the staying node that lies
    lowest, while that does not lift it above the giver or above the highest.
    """
    t, n = len(fixed.load), len(state.deviation)
    order = np.argsort(-fixed.load, kind="mergesort")
    lowest = -1
    for stage in range(2):
        for at in range(t):
            k = order[at]
            a = state.place[k]
            if away(fixed, k, a) == 1 or state.budget[MOVES] < 1:
                continue
            if fixed.cost[k] > state.budget[COST] or (stage == 0 and not fixed.leaving[a]):
                continue
            lowest = -1
            for i in range(n):
                if fixed.leaving[i] or i == a:
                    continue
                if lowest < 0 or state.deviation[i] < state.deviation[lowest]:
                    lowest = i
            if lowest < 0 or not may_be(fixed, k, lowest):
                continue
            lifted = state.deviation[lowest] + fixed.load[k]
            top = state.deviation[a] if stage == 1 else -state.deviation[lowest]
            if lifted < top and fits(fixed, state, a, lowest, k, NOBODY):
                relocate(fixed, state, k, lowest)


@kernel
def drain(fixed, state, level):
    """Move what fits off the leaving nodes, largest first, without breaching the level."""
    order = np.argsort(-fixed.load, kind="mergesort")
    for at in range(len(order)):
        k = order[at]
        a = state.place[k]
        if not fixed.leaving[a]:
            continue
        change = 1 - away(fixed, k, a)
        if change > state.budget[MOVES] or change * fixed.cost[k] > state.budget[COST]:
            continue
        lowest = -1
        for i in range(len(state.deviation)):
            if fixed.leaving[i] or not may_be(fixed, k, i):
                continue
            if lowest >= 0 and state.deviation[i] >= state.deviation[lowest]:
                continue
            if fits(fixed, state, a, i, k, NOBODY):
                lowest = i
        if lowest >= 0 and state.deviation[lowest] + fixed.load[k] <= level:
            relocate(fixed, state, k, lowest)
