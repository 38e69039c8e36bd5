"""Compiled search for a small load distance within a budget of migrations.

Great deluge by thresholds: nodes above a level are mended one after the other by the best move or
swap with a partner that stays below it; when none is left above, the level falls. A level that
cannot be reached is tried again from the best placement, some of whose migrants are sent home, or
shaken by random changes that keep the level.

A node's *breach* is what counts in the load distance: the deviation from its share, upwards only on
leaving nodes. Every change keeps budgets, capacities, least loads, allowed sets and place rules.

Relief mends place rules, capacities and least loads before anything else: first the moves are made
that mend sets and inflow. Then, node by node, the worst first, the change is made that takes most
of the breach away for each migration it takes, and of equal ones that which leaves the loads more
even.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optim.kernels.place_rules import (
    Guard,
    affords,
    enter,
    flooded,
    is_listed,
    may_exchange,
    relief_of,
)
from optim.kernels.place_rules import broken as rules_broken
from optim.util.compiled import draw, helper, inlined, kernel

BEST, STEP, FAILED, LEVEL = 0, 1, 2, 3  # What a search remembers from slice to slice, by index.
FIRST_STEP = 0.3  # The first step down, as a part of the best load distance.


@kernel(steps=lambda start, goals, levels: 0.6 * len(start) * (len(goals) + levels))
def lower(
    fixed, state, start, best_place, memory, goals, levels, tries, partners, target, buffer_size
):
    """Aim at some levels from the start, then let it fall; return whether there is more to try.

    `fixed`, `state`, `start`, `best_place`, `memory`: the problem, the state, where the search
        began, the best placement so far, and what is remembered.
    `goals`: levels to aim at straight from the start before all others.
    `levels`: levels to try in this slice.
    `tries`: levels that may fail one after the other.
    `partners`: partner nodes to try for a node above the level.
    `target`: load distance that is good enough.
    `buffer_size`: key groups of a node that are looked at.
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
        # steps shrink with each failure, by 0.6 and to 0.004 at least
        goal = max(target, best * (1.0 - memory[STEP]))
        if failed > 1:
            if failed % 4 == 0:
                shake(fixed, state, best, 1 + len(state.deviation) // 4, one)
            else:
                ruin(fixed, state, best, 1 + draw(state.random, 4))
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
        # stable, so that plain and compiled runs make the same choices
        order = np.argsort(donor, kind="mergesort")
        takers = order[~fixed.leaving[order]]
        num_above, num_mended, turn = 0, 0, 0
        for at in range(n - 1, -1, -1):
            for side in range(2):  # from the highest down and from the lowest up in turn
                i = order[at] if side == 0 else order[n - 1 - at]
                over = state.deviation[i] > 0.0
                if over != (side == 0) or breach_of(fixed, i, state.deviation[i]) <= goal:
                    continue
                num_above += 1
                ranked = takers if over else order
                if mend(fixed, state, i, goal, ranked, over, partners, turn, one, two):
                    num_mended += 1
                turn += 1
        if num_above == 0:
            return True
        if num_mended == 0:
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
    price, budget = fixed.price, state.budget
    efforts, uneven = fixed.effort, fixed.uneven
    dev_i, dev_j = state.deviation[i], state.deviation[j]
    now_i = breach_of(fixed, i, dev_i)
    now_j = breach_of(fixed, j, dev_j)
    allowed_j = max(goal, now_j)
    best_k, best_l = NOBODY, NOBODY
    for a in range(-1, count_i):
        k = NOBODY if a < 0 else one[a]
        load_k, change_k = 0.0, 0
        if k != NOBODY:
            if not may_be(fixed, k, j):
                continue
            load_k = fixed.load[k]
            change_k = away(fixed, k, j) - away(fixed, k, i)
        for b in range(-1, 0 if far and k != NOBODY else count_j):
            other = NOBODY if b < 0 else two[b]
            shift = load_k if other == NOBODY else load_k - fixed.load[other]
            after_i = breach_of(fixed, i, dev_i - shift)
            if after_i >= now_i:
                continue
            after_j = breach_of(fixed, j, dev_j + shift)
            if after_j > allowed_j:
                continue
            change_l = 0
            if other != NOBODY:
                change_l = away(fixed, other, i) - away(fixed, other, j)
            change = change_k + change_l
            if change > 0 and change > budget[0]:
                continue
            if uneven and not pays_unlike(price, budget, k, change_k, other, change_l):
                continue
            effort = effort_of(efforts, k, change_k, other, change_l) if uneven else float(change)
            gain = now_i - max(after_i, goal) + max(now_j - goal, 0.0) - max(after_j - goal, 0.0)
            # gain for each migration; among equals the second term, a twentieth, prefers even pairs
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
def ruin(fixed, state, level, nodes):
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
    price, budget = fixed.price, state.budget
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
            if not pays_for(price, budget, k, change, other, change_l):
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
    price, budget = fixed.price, state.budget
    t, n = len(fixed.load), len(state.deviation)
    order = np.argsort(-fixed.load, kind="mergesort")
    lowest = -1
    for stage in range(2):
        for at in range(t):
            k = order[at]
            a = state.place[k]
            if away(fixed, k, a) == 1 or not pays_for(price, budget, k, 1, NOBODY, 0):
                continue
            if stage == 0 and not fixed.leaving[a]:
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
            # stage 0 empties leaving nodes: no further above the share than the node now lies below
            top = state.deviation[a] if stage == 1 else -state.deviation[lowest]
            if lifted < top and fits(fixed, state, a, lowest, k, NOBODY):
                relocate(fixed, state, k, lowest)


@kernel
def drain(fixed, state, level):
    """Move what fits off the leaving nodes, largest first, without breaching the level."""
    price, budget = fixed.price, state.budget
    order = np.argsort(-fixed.load, kind="mergesort")
    for at in range(len(order)):
        k = order[at]
        a = state.place[k]
        if not fixed.leaving[a]:
            continue
        change = 1 - away(fixed, k, a)
        if not pays_for(price, budget, k, change, NOBODY, 0):
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


NOBODY = -1  # Stands for "no key group" in a swap, which then is a move.


class Fixed(NamedTuple):
    """What does not change during a search; names as in `BalanceProblem`.

    `guarded` says whether place rules are to be asked. `effort` is (T,) what a migration takes, in
    usual ones, `uneven` whether that differs; `least` (K,) the least price of each budget, of which
    the first counts migrations.
    """

    load: np.ndarray
    price: np.ndarray
    home: np.ndarray
    share: np.ndarray
    leaving: np.ndarray
    usage: np.ndarray
    row_of: np.ndarray
    must_move: np.ndarray
    allowed_indptr: np.ndarray
    allowed_nodes: np.ndarray
    into_leaving: bool
    effort: np.ndarray
    uneven: bool
    least: np.ndarray
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


class Placed(NamedTuple):
    """A placement, and what follows from it.

    (T,) place; (N,) deviation from the share; (N, E) room and spare; what is left of each budget;
    the guard of place rules.
    """

    place: np.ndarray
    deviation: np.ndarray
    room: np.ndarray
    spare: np.ndarray
    budget: np.ndarray
    guard: Guard


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


@inlined
def pays_for(price, budget, k, change, other, back):
    """Whether the budgets are enough for migrations more of k and of `other`: -1, 0 or 1 each."""
    if k == NOBODY:
        return other == NOBODY or affords(price, budget, other, back, NOBODY, 0)
    return affords(price, budget, k, change, other, back)


@inlined
def pays_unlike(price, budget, k, change, other, back):
    """Whether the budgets but the first, of which key groups take unlike amounts, are enough."""
    enough = True
    for b in range(1, budget.shape[0]):
        spent = 0.0
        if k != NOBODY:
            spent += change * price[k, b]
        if other != NOBODY:
            spent += back * price[other, b]
        enough = enough and (spent <= 0.0 or spent <= budget[b])
    return enough


@inlined
def effort_of(efforts, k, change, other, back):
    """Return what these migrations take, in usual ones."""
    total = 0.0
    if k != NOBODY:
        total += change * efforts[k]
    if other != NOBODY:
        total += back * efforts[other]
    return total


@helper
def is_spent(fixed, state):
    """Whether some budget is not enough for any migration."""
    some = False
    for b in range(state.budget.shape[0]):
        some = some or state.budget[b] < fixed.least[b]
    return some


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
    for b in range(state.budget.shape[0]):
        state.budget[b] -= change * fixed.price[k, b]


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


#: Partners of a node that are looked at: so many of the lowest, and as many random ones.
PARTNERS = 32

TINY = 1e-9  # Breaches below this part of a resource's mean use are rounding.


@kernel
def relieve(fixed, state, unit):
    """Mend what can be; it may fall short where budgets or room end.

    `unit`: (E,) what a breach of each resource counts.
    """
    n = len(state.deviation)
    if fixed.guarded:
        while rules_broken(guard_of(state)) > 0 and mend_rules(fixed, state, unit):
            pass
    # then loads: the worst node first; one that neither a move nor a swap helps is given up
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
    price, budget = fixed.price, state.budget
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
            if not pays_for(price, budget, k, change, NOBODY, 0):
                continue
            relief = relief_of(guard, k, i, j)
            if relief <= 0:
                continue
            worse = broken_by(fixed, state, j, 1.0, k, NOBODY, unit)
            worse += broken_by(fixed, state, i, -1.0, k, NOBODY, unit)
            # three levels in one number: rules mended less migrations, capacities, then the load
            score = 1e6 * (relief - change) - 1e3 * worse - state.deviation[j] / mean
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
    price, budget = fixed.price, state.budget
    efforts, uneven = fixed.effort, fixed.uneven
    n = len(state.deviation)
    order = np.argsort(state.deviation, kind="mergesort")
    count_i = gather(state, i, one)
    before_i = broken_by(fixed, state, i, 0.0, NOBODY, NOBODY, unit)
    mean = mean_load(fixed, n)
    best, best_k, best_l, best_j = 1e300, NOBODY, NOBODY, -1
    for attempt in range(min(n, 2 * PARTNERS)):
        # the lowest nodes first, then as many at random
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
                change, back, shift = 0, 0, 0.0
                if k != NOBODY:
                    change = away(fixed, k, j) - away(fixed, k, i)
                    shift = fixed.load[k]
                if other != NOBODY:
                    back = away(fixed, other, i) - away(fixed, other, j)
                    shift -= fixed.load[other]
                if change + back > 0 and change + back > budget[0]:
                    continue
                if uneven and not pays_unlike(price, budget, k, change, other, back):
                    continue
                after = broken_by(fixed, state, i, -1.0, k, other, unit)
                after += broken_by(fixed, state, j, 1.0, k, other, unit)
                if after >= before - TINY:
                    continue
                if fixed.guarded and not lets(state, i, j, k, other):
                    continue
                effort = float(change + back)
                if uneven:
                    effort = effort_of(efforts, k, change, other, back)
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
