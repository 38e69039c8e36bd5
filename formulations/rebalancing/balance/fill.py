"""Compiled search for large problems: move from high to low nodes, then mend what is left.

Both work towards a goal, a load distance to stay within, and spend each migration once: nodes are
brought within the goal one after the other instead of lowering all step by step.

Key groups are numbered by (home, load), so those of a node that are still at home are a range of
numbers; those that came from elsewhere are in a linked list, in order of their load too. What two
nodes may exchange is then found by walking along both at once.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from formulations.rebalancing.balance.kernel import (
    NOBODY,
    away,
    book,
    breach_of,
    draw,
    effort_of,
    fits,
    is_spent,
    may_be,
    pays_for,
    pays_unlike,
    unlink,
)
from optim.util.compiled import helper, inlined, kernel

#: Exchanges in a row that may mend one node, and key groups to look at in a window of loads.
STEPS, WINDOW = 8, 3

#: Nodes of a large problem that are looked at for a partner of one node.
SCAN = 1_000

#: What it counts, in goals, that an exchange brings a node within the goal: two at once are best.
DONE = 0.5


@helper
def enlist(fixed, state, k, node):
    """Put a key group from elsewhere into a node's list, which is sorted by load."""
    ahead, behind = -1, state.first[node]
    while behind >= 0 and fixed.load[behind] < fixed.load[k]:
        ahead, behind = behind, state.after[behind]
    state.after[k] = behind
    state.before[k] = ahead
    if behind >= 0:
        state.before[behind] = k
    if ahead >= 0:
        state.after[ahead] = k
    else:
        state.first[node] = k


@helper
def transfer(fixed, state, k, target):
    """Move a key group, whatever it breaks."""
    source = state.place[k]
    if source != fixed.home[k]:
        unlink(state, k, source)
    else:
        state.size[source] -= 1
    if target != fixed.home[k]:
        enlist(fixed, state, k, target)
    state.size[target] += 1
    book(fixed, state, k, source, target)


@helper
def line_up(fixed, begin, state, node, buffer, offset):
    """Write a node's key groups into a buffer by ascending load; return how many.

    Where there are more than the buffer holds, every so many is taken, from `offset` on.
    """
    stride = 1 + state.size[node] // len(buffer)
    count, seen = 0, offset % stride
    at, end = begin[node], begin[node + 1]
    other = state.first[node]
    while True:
        while at < end and state.place[at] != node:
            at += 1
        if at < end and (other < 0 or fixed.load[at] <= fixed.load[other]):
            k = at
            at += 1
        elif other >= 0:
            k = other
            other = state.after[other]
        else:
            return count
        if seen % stride == 0 and count < len(buffer):
            buffer[count] = k
            count += 1
        seen += 1


@kernel
def set_to(fixed, state, placement):
    """Go back to a placement."""
    for k in range(len(placement)):
        if state.place[k] != placement[k]:
            transfer(fixed, state, k, placement[k])


@kernel
def fill(fixed, begin, state, goal, rounds):
    """Move the largest key groups from the highest nodes to the lowest, in rounds.

    In a round the highest giver is paired with the lowest taker, the second with the second, and so
    on. Return whether another round may find something to move.
    """
    n = len(state.deviation)
    height = np.empty(n)
    for _ in range(rounds):
        above = 2.0 * (np.abs(state.deviation).max() + abs(goal)) + 1.0  # all staying nodes
        for i in range(n):
            height[i] = state.deviation[i]
            if fixed.leaving[i] and state.size[i] > 0:
                height[i] += above
        order = np.argsort(height, kind="mergesort")
        givers, takers = 0, 0
        while givers < n and height[order[n - 1 - givers]] > goal:
            givers += 1
        lowest = np.empty(n, np.int64)
        for at in range(n):
            if not fixed.leaving[order[at]] and height[order[at]] < 0.0:
                lowest[takers] = order[at]
                takers += 1
        if takers == 0 or givers == 0:
            return False
        moves = 0
        pairs, more = min(givers, takers), max(givers, takers)
        if 4 * pairs < more:  # a few nodes against many: they take part several times a round
            pairs = more
        for pair in range(pairs):
            if is_spent(fixed, state):
                return False
            i = order[n - 1 - pair % givers]
            j = lowest[pair % takers]
            moves += give(fixed, begin, state, i, j, goal)
        if moves == 0:
            return False
    return True


@helper
def give(fixed, begin, state, i, j, goal):
    """Move the best key group of i to j that leaves neither beyond the goal; return how many."""
    price, budget = fixed.price, state.budget
    most = goal - state.deviation[j]
    if not fixed.leaving[i]:
        most = min(most, state.deviation[i] + goal)
    if most <= 0.0:
        return 0
    best, best_score, largest = NOBODY, 0.0, 0.0
    # heaviest first: key groups at home are numbered by ascending load
    for k in range(begin[i + 1] - 1, begin[i] - 1, -1):  # what came from elsewhere stays
        if state.place[k] != i:
            continue
        largest = max(largest, fixed.load[k])
        if fixed.load[k] > most or not may_be(fixed, k, j):
            continue
        if not pays_for(price, budget, k, away(fixed, k, j), NOBODY, 0):
            continue
        score = fixed.load[k]
        if fixed.uneven:
            score /= 0.05 + fixed.effort[k]
        if score > best_score and fits(fixed, state, i, j, k, NOBODY):
            best, best_score = k, score
            if not fixed.uneven:
                break
    if best == NOBODY:
        return 0
    s = fixed.load[best]
    # a small key group is worth a migration only where it ends the need of one of both
    done = state.deviation[j] + s >= -goal or (
        not fixed.leaving[i] and state.deviation[i] - s <= goal
    )
    if s < 0.5 * largest and not done and not fixed.uneven:
        return 0
    transfer(fixed, state, best, j)
    return 1


@kernel
def ranges(fixed, begin, state):
    """Return (2, N) the least and the greatest load of each node's key groups."""
    least_and_most = np.empty((2, len(state.deviation)))
    for node in range(len(state.deviation)):
        note_range(fixed, begin, state, least_and_most, node)
    return least_and_most


@helper
def note_range(fixed, begin, state, span, node):
    """Write the least and the greatest load of a node's key groups; inf and -inf of none."""
    least, most = np.inf, -np.inf
    at, end = begin[node], begin[node + 1]
    while at < end and state.place[at] != node:
        at += 1
    if at < end:
        least = fixed.load[at]
        end -= 1
        while state.place[end] != node:
            end -= 1
        most = fixed.load[end]
    k = state.first[node]
    if k >= 0:
        least = min(least, fixed.load[k])
    while k >= 0:
        most = max(most, fixed.load[k])
        k = state.after[k]
    span[0, node], span[1, node] = least, most


@kernel
def by_height(state):
    """Return the nodes from the lowest deviation to the highest."""
    return np.argsort(state.deviation, kind="mergesort")


@kernel(steps=lambda order: 300 * len(order))
def mend_some(fixed, begin, state, goal, order, span, partners, patience, buffer_size, first, work):
    """Bring nodes above the goal within it, the farthest first, by moves and swaps with others.

    `fixed`, `begin`, `state`: the problem, where each node's key groups begin, and the state.
    `goal`: load distance to stay within.
    `order`: nodes from the lowest to the highest at the start of this pass.
    `span`: (2, N) least and greatest load of each node's key groups; updated with each change.
    `partners`: nodes to look at for an exchange, the most promising first, and as many at random
        where none was found.
    `patience`: nodes that may stay above the goal before the rest of the pass is left out.
    `buffer_size`: key groups of a node that are looked at.
    `first`, `work`: where in the order to go on, and after how many nodes above the goal to return.
    Returns nodes above the goal met, those mended, and where to go on: N at the end of the pass.
    """
    n = len(state.deviation)
    one, two = np.empty(buffer_size, np.int64), np.empty(buffer_size, np.int64)
    near, promise = np.empty(partners, np.int64), np.empty(partners)
    num_above, num_mended, at = 0, 0, first
    while at < n and num_above < work and num_above - num_mended <= patience:
        side = at % 2  # from the highest down and from the lowest up in turn
        i = order[n - 1 - at // 2] if side == 0 else order[at // 2]
        at += 1
        over = state.deviation[i] > 0.0
        if over != (side == 0) or breach_of(fixed, i, state.deviation[i]) <= goal:
            continue
        num_above += 1
        for _ in range(STEPS):
            count = most_promising(fixed, state, i, goal, span, near, promise)
            if not mend_node(
                fixed, begin, state, i, goal, span, near, promise, count, num_above, one, two
            ):
                break
            if breach_of(fixed, i, state.deviation[i]) <= goal:
                num_mended += 1
                break
    return num_above, num_mended, at


@helper
def most_promising(fixed, state, i, goal, span, near, promise):
    """Write the nodes whose exchange with i may score best, the best first; return how many.

    The promise is the score of `exchange` if some key groups had just the loads that it takes. In
    large problems some nodes in a row are looked at, so that not all use up the same key groups.
    """
    n, count = len(state.deviation), 0
    now = state.deviation[i]
    sign = 1.0 if now > 0.0 else -1.0  # as if i were above its share
    now *= sign
    least_i, most_i = span[0, i], span[1, i]
    room_i = np.inf if sign > 0.0 and fixed.leaving[i] else now + goal
    j = draw(state.random, n) if n > SCAN else 0
    for _ in range(min(n, SCAN)):
        j = j + 1 if j + 1 < n else 0
        off = sign * state.deviation[j]
        room, breach = room_i, abs(off)
        if not fixed.leaving[j]:
            if off >= goal:
                continue
            room = min(room, max(goal, breach) - off)  # j within the goal, or no worse than it is
        elif sign > 0.0:
            if off >= goal or not fixed.into_leaving:
                continue
            room, breach = min(room, goal - off), max(0.0, off)
        else:
            breach = max(0.0, -off)
        if j == i:
            continue
        if sign > 0.0:
            single, largest, widest = least_i, most_i, most_i - span[0, j]
        else:
            single, largest, widest = span[0, j], span[1, j], span[1, j] - least_i
        best, wrong = 1e300, now + max(breach - goal, 0.0)
        for swap in range(2):
            shift = min(room, widest if swap else largest)
            if shift <= 0.0 or (not swap and single > room):
                continue
            left_i, left_j = abs(now - shift), abs(off + shift)
            gain = wrong - max(left_i, goal) - max(left_j - goal, 0.0)
            if gain > 0.0:
                if left_i <= goal:
                    gain += DONE * goal
                if left_j <= goal < breach:
                    gain += DONE * goal
                best = min(best, 0.05 * max(left_i, left_j) - gain / (1.25 + swap))
        if best >= 1e300 or (count == len(near) and best >= promise[count - 1]):
            continue
        count = min(count + 1, len(near))
        at = count - 1
        while at > 0 and promise[at - 1] > best:
            near[at], promise[at] = near[at - 1], promise[at - 1]
            at -= 1
        near[at], promise[at] = j, best
    return count


@helper
def mend_node(fixed, begin, state, i, goal, span, near, promise, count, turn, one, two):
    """Make the best exchange of node i with some partners; return whether there was one."""
    n, partners = len(state.deviation), len(near)
    over = state.deviation[i] > 0.0
    count_i = line_up(fixed, begin, state, i, one, turn)
    best_score, best_k, best_l, best_j = 1e300, NOBODY, NOBODY, -1
    for attempt in range(count + partners):
        if attempt < count:
            if promise[attempt] >= best_score:
                break
            j = near[attempt]
        elif best_j >= 0:
            break
        else:
            j = draw(state.random, n)
        if j == i or (over and fixed.leaving[j] and not fixed.into_leaving):
            continue
        dev_j = state.deviation[j]
        if (over and dev_j >= goal) or (not over and dev_j <= -goal and not fixed.leaving[j]):
            continue  # no room on that side
        count_j = line_up(fixed, begin, state, j, two, turn)
        if over:
            score, k, other = exchange(
                fixed, state, i, j, True, goal, one, count_i, two, count_j, best_score
            )
        else:
            score, k, other = exchange(
                fixed, state, j, i, False, goal, two, count_j, one, count_i, best_score
            )
        if score < best_score:
            best_score, best_k, best_l, best_j = score, k, other, j
    if best_j < 0:
        return False
    giver, taker = (i, best_j) if over else (best_j, i)
    transfer(fixed, state, best_k, taker)
    if best_l != NOBODY:
        transfer(fixed, state, best_l, giver)
    note_range(fixed, begin, state, span, i)
    note_range(fixed, begin, state, span, best_j)
    return True


@helper
def exchange(fixed, state, a, b, hot_gives, goal, one, count_a, two, count_b, limit):
    """Return the best score below `limit` of a giving k to b and taking l back, and both.

    Both lists are sorted, so the l that keep the shift of load within what is wanted are a window
    that only rises with k.
    """
    price, budget = fixed.price, state.budget
    efforts, uneven = fixed.effort, fixed.uneven
    a_leaves, b_leaves = fixed.leaving[a], fixed.leaving[b]
    dev_a, dev_b = state.deviation[a], state.deviation[b]
    now_a, now_b = breach_of(fixed, a, dev_a), breach_of(fixed, b, dev_b)
    least, most = shifts(a_leaves, dev_a, now_a, dev_b, now_b, hot_gives, goal)
    best_k, best_l = NOBODY, NOBODY
    if most <= 0.0 or count_a == 0:
        return limit, best_k, best_l
    # far from the goal a swap is never worth its two migrations: moves alone are tried
    far = least > 2.0 * fixed.load[one[count_a - 1]]
    # the least shift that brings both within the goal, where one may
    full = min(max(dev_a - goal, -goal - dev_b), most)
    low, end = 0, 0
    for p in range(count_a):
        k = one[p]
        load_k = fixed.load[k]
        # from `low` on the shift is within `most`, before `end` it is enough: both rise with k
        while low < count_b and load_k - fixed.load[two[low]] > most:
            low += 1
        while end < count_b and load_k - fixed.load[two[end]] >= full:
            end += 1
        last = max(low, end - 1)
        if (load_k > most and (far or last >= count_b)) or not may_be(fixed, k, b):
            continue
        change_k = away(fixed, k, b) - away(fixed, k, a)
        for q in range(-1, 0 if far else WINDOW):
            if q < 0:
                other, shift = NOBODY, load_k
                if shift > most:
                    continue
            else:
                # the least shift that is enough first: key groups of extreme loads are few
                if last - q < low or last >= count_b:
                    break
                other = two[last - q]
                shift = load_k - fixed.load[other]
                if shift <= 0.0:
                    break
            left_a, left_b = dev_a - shift, dev_b + shift
            after_a = max(0.0, left_a) if a_leaves else abs(left_a)
            after_b = max(0.0, left_b) if b_leaves else abs(left_b)
            gain = gain_of(now_a, after_a, now_b, after_b, goal)
            if gain <= 0.0:
                continue
            change_l = 0
            if other != NOBODY:
                change_l = away(fixed, other, a) - away(fixed, other, b)
            change = change_k + change_l
            if change > 0 and change > budget[0]:
                continue
            if uneven and not pays_unlike(price, budget, k, change_k, other, change_l):
                continue
            effort = effort_of(efforts, k, change_k, other, change_l) if uneven else float(change)
            score = -gain / (0.25 + max(0.0, effort)) + 0.05 * max(after_a, after_b)
            if score >= limit:
                continue
            if other != NOBODY and not may_be(fixed, other, a):
                continue
            if not fits(fixed, state, a, b, k, other):
                continue
            limit, best_k, best_l = score, k, other
    return limit, best_k, best_l


@inlined
def shifts(a_leaves, dev_a, now_a, dev_b, now_b, hot_gives, goal):
    """Return the least and the most load that a may give to b.

    It brings the hot node within the goal, and does not take its partner out of it.
    """
    if hot_gives:
        least = dev_a - goal
        most = max(goal, now_b) - dev_b if dev_b <= goal else goal - dev_b
        allowed = goal
    else:
        least = -goal - dev_b
        most = goal - dev_b
        allowed = max(goal, now_a)
    return least, most if a_leaves else min(most, dev_a + allowed)


@inlined
def gain_of(now_a, after_a, now_b, after_b, goal):
    """Return what both lie less beyond the goal; `DONE` goals more for each that is then within."""
    gain = max(now_a - goal, 0.0) - max(after_a - goal, 0.0)
    gain += max(now_b - goal, 0.0) - max(after_b - goal, 0.0)
    if gain > 0.0:
        if after_a <= goal < now_a:
            gain += DONE * goal
        if after_b <= goal < now_b:
            gain += DONE * goal
    return gain
