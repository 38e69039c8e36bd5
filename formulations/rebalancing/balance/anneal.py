"""Annealing towards a load distance: whole plans of few migrations are rearranged.

Where the budget hardly suffices, a good plan spends each migration on two nodes at once, and a node
that is mended by itself takes what others need. So the energy is what all nodes lie beyond a goal,
a change takes migrations back and spends them elsewhere in one step, and what that puts beyond the
goal is mended in the same step, before it is judged.

A change is up to `MOST` key groups and the nodes that they go to. Budgets and allowed nodes are
asked before it is made, room and place rules after it. It is one array, and what is called in each
step gets bare arrays: a call counts references to each array of a tuple, which takes five times as
long as the step.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from formulations.rebalancing.balance.kernel import away, guard_of, may_be, relocate, worst
from optim.kernels.place_rules import broken as rules_broken
from optim.util.compiled import accepts, draw, helper, inlined, kernel

#: What a run remembers from slice to slice, by index.
GOAL, TEMPERATURE, COOLING, BEST, ENERGY = 0, 1, 2, 3, 4

MOST = 6  # Key groups in a change: two that free a migration, two that spend it, two that mend.

#: A change: how many key groups, how many nodes, and where those, their targets and nodes begin.
COUNT, NODES, TASK, TARGET, NODE = 0, 1, 2, 2 + MOST, 2 + 2 * MOST

LOOKS = 8  # Random nodes until one beyond the goal is found.
PROMISING = 4.0  # What is worse by less, in goals, is mended before it is judged.
STEPS, COOLED = 256, 0.99  # Steps at one temperature; the next goal, as a part of what is reached.


@kernel(steps=lambda slices: 30 * STEPS * slices)
def anneal(fixed, state, best_place, memory, slices):
    """Change the placement at falling temperatures, each of which is held for `STEPS` steps.

    `fixed`, `state`: the problem and the state.
    `best_place`: written with each placement of a load distance below ``memory[BEST]``.
    `memory`: goal, temperature, factor of cooling, the least load distance and the least energy.
    `slices`: temperatures.
    """
    leaving, load, home = fixed.leaving, fixed.load, fixed.home
    place, deviation, budget, random = state.place, state.deviation, state.budget, state.random
    n = len(deviation)
    begin, order = by_home(home, n)
    # key groups that are elsewhere, in any order, after how many they are
    position, moved = np.full(len(home), -1), np.zeros(len(home) + 1, np.int64)
    for k in range(len(home)):
        if place[k] != home[k]:
            note_move(home, place, position, moved, k)
    change, before = np.zeros(2 + 4 * MOST, np.int64), np.empty(2 * MOST)
    energy = 0.0
    for i in range(n):
        energy += over(leaving[i], deviation[i], memory[GOAL])
    for _ in range(slices):
        memory[TEMPERATURE] *= memory[COOLING]
        for _ in range(STEPS):
            goal = memory[GOAL]
            change[COUNT] = 0
            spends = draw(random, 2) == 0
            if spends:
                if budget[0] < 1.0 or draw(random, 2) == 0:
                    free(random, home, place, moved, change)
                    if change[COUNT] == 0:
                        continue
                if (change[COUNT] == 0 or draw(random, 16) > 0) and not spend(
                    random, leaving, load, home, place, deviation, begin, order, moved, change, goal
                ):
                    continue
            elif not rearrange(random, home, place, begin, order, moved, change, n):
                continue
            worse = carry_out(leaving, load, place, deviation, change, before, goal)
            if spends and 0.0 < worse < PROMISING * goal:
                worse += mend_change(
                    leaving, load, home, place, deviation, begin, order, moved, change, before, goal
                )
            accepted = accepts(random, worse, memory[TEMPERATURE])
            for b in range(change[NODES]):
                deviation[change[NODE + b]] = before[b]
            if not (accepted and is_allowed(fixed, state, change) and make(fixed, state, change)):
                continue
            for a in range(change[COUNT]):
                note_move(home, place, position, moved, change[TASK + a])
            energy += worse
            if energy >= memory[ENERGY]:
                continue
            memory[ENERGY] = energy
            reached = worst(fixed, state)
            if reached < memory[BEST]:
                memory[BEST] = reached
                best_place[:] = place
            if reached <= goal:
                memory[GOAL] = COOLED * reached
                energy = 0.0
                for i in range(n):
                    energy += over(leaving[i], deviation[i], memory[GOAL])
                memory[ENERGY] = energy


@helper
def by_home(home, n):
    """Return (N + 1,) where each node's key groups begin, and (T,) the key groups by home."""
    begin = np.zeros(n + 1, np.int64)
    for k in range(len(home)):
        begin[home[k] + 1] += 1
    for i in range(n):
        begin[i + 1] += begin[i]
    return begin, np.argsort(home, kind="mergesort")


@helper
def note_move(home, place, position, moved, k):
    """Enter whether a key group is elsewhere into the list of those that are.

    `moved`: how many, and these.
    `position`: (T,) where in it each of them is; -1 for the others.
    """
    at, count = position[k], moved[0]
    if place[k] != home[k] and at < 0:
        moved[0], moved[count + 1], position[k] = count + 1, k, count + 1
    elif place[k] == home[k] and at >= 0:
        last = moved[count]
        moved[at], position[last] = last, at
        moved[0], position[k] = count - 1, -1


@inlined
def over(is_leaving, deviation, goal):
    """Return by how much a node of that deviation lies beyond the goal."""
    return max(0.0, (deviation if is_leaving or deviation > 0.0 else -deviation) - goal)


@inlined
def add(change, k, target):
    """Add a key group to a change."""
    at = change[COUNT]
    change[TASK + at], change[TARGET + at] = k, target
    change[COUNT] = at + 1


@helper
def is_in(change, k):
    """Whether a key group is in a change."""
    found = False
    for a in range(change[COUNT]):
        found = found or change[TASK + a] == k
    return found


@helper
def rearrange(random, home, place, begin, order, moved, change, n):
    """Write a random change of as many migrations; return whether there is one."""
    if moved[0] == 0:
        return False
    k, kind = moved[1 + draw(random, moved[0])], draw(random, 5)
    if kind < 2:  # another key group of the same node goes in its stead
        first, last = begin[home[k]], begin[home[k] + 1]
        other = order[first + draw(random, last - first)]
        if place[other] != home[k]:
            return False
        add(change, k, home[k])
        add(change, other, place[k])
    elif kind == 2:  # it goes elsewhere
        j = draw(random, n)
        if j in (place[k], home[k]):
            return False
        add(change, k, j)
    else:  # two change places
        other = moved[1 + draw(random, moved[0])]
        if place[k] == place[other]:
            return False
        add(change, k, place[other])
        add(change, other, place[k])
    return True


@helper
def free(random, home, place, moved, change):
    """Send a random migrant home, if any; mostly what came to that home goes on in its place."""
    if moved[0] == 0:
        return
    k = moved[1 + draw(random, moved[0])]
    add(change, k, home[k])
    if draw(random, 4) == 0:
        return
    offset = draw(random, moved[0])
    for a in range(moved[0]):
        other = moved[1 + (a + offset) % moved[0]]
        if place[other] == home[k]:
            if home[other] != place[k]:
                add(change, other, place[k])
            return


@helper
def spend(random, leaving, load, home, place, deviation, begin, order, moved, change, goal):
    """Add a migration that brings a node nearer to the goal; return whether there is one."""
    n = len(deviation)
    i = draw(random, n)
    for _ in range(LOOKS):
        if over(leaving[i], deviation[i], goal) > 0.0:
            break
        i = draw(random, n)
    here = deviation_after(load, place, deviation, change, i)
    if draw(random, 2) == 0:  # a migrant ends at i, from where another goes on in its stead
        if moved[0] == 0:
            return False
        k = moved[1 + draw(random, moved[0])]
        target, at = place[k], -1
        for a in range(change[COUNT]):
            if change[TASK + a] == k:
                target, at = change[TARGET + a], a
        if home[k] in (target, i) or target == i:
            return False
        there = deviation_after(load, place, deviation, change, target) - load[k]
        source, here = i, here + load[k]
        if at < 0:
            add(change, k, i)
        else:
            change[TARGET + at] = i
    else:
        j = draw(random, n)
        if j == i:
            return False
        there = deviation_after(load, place, deviation, change, j)
        source, target = i, j
        if here <= 0.0:
            source, target, here, there = j, i, there, here
    # the key group of the source after which both lie nearest
    best, chosen = np.inf, -1
    for a in range(begin[source], begin[source + 1]):
        k = order[a]
        if place[k] == source:
            value = over(leaving[source], here - load[k], goal)
            value += over(leaving[target], there + load[k], goal)
            if value < best:
                best, chosen = value, k
    if chosen < 0:
        return False
    add(change, chosen, target)
    return True


@helper
def deviation_after(load, place, deviation, change, node):
    """Return a node's deviation after a change that is not carried out."""
    after = deviation[node]
    for a in range(change[COUNT]):
        k = change[TASK + a]
        if place[k] == node:
            after -= load[k]
        if change[TARGET + a] == node:
            after += load[k]
    return after


@helper
def carry_out(leaving, load, place, deviation, change, before, goal):
    """Enter a change into the deviations alone; return by how much they are worse."""
    change[NODES] = 0
    touch(place, deviation, change, before, 0)
    worse = 0.0
    for b in range(change[NODES]):
        i = change[NODE + b]
        worse -= over(leaving[i], deviation[i], goal)
    shift_by(load, place, deviation, change, 0)
    for b in range(change[NODES]):
        i = change[NODE + b]
        worse += over(leaving[i], deviation[i], goal)
    return worse


@helper
def touch(place, deviation, change, before, first):
    """Note the nodes of a change, from its key group `first` on, as they are."""
    for a in range(2 * first, 2 * change[COUNT]):
        node = place[change[TASK + a // 2]] if a % 2 == 0 else change[TARGET + a // 2]
        count, known = change[NODES], False
        for b in range(count):
            known = known or change[NODE + b] == node
        if not known:
            change[NODE + count], before[count] = node, deviation[node]
            change[NODES] = count + 1


@helper
def shift_by(load, place, deviation, change, first):
    """Enter a change, from its key group `first` on, into the deviations."""
    for a in range(first, change[COUNT]):
        k = change[TASK + a]
        deviation[place[k]] -= load[k]
        deviation[change[TARGET + a]] += load[k]


@helper
def mend_change(leaving, load, home, place, deviation, begin, order, moved, change, before, goal):
    """Add the best exchange of two key groups for the node that a change leaves farthest off.

    Return by how much it is better: at most 0.
    """
    x, most = -1, 0.0
    for b in range(change[NODES]):
        i = change[NODE + b]
        value = over(leaving[i], deviation[i], goal)
        if value > most:
            x, most = i, value
    best, one, other, goes, comes = -1e-12, -1, -1, -1, -1
    for a in range(moved[0] if x >= 0 else 0):
        k = moved[1 + a]
        i, j = home[k], place[k]
        if x not in (i, j) or is_in(change, k):
            continue
        # another of the same node in its stead
        now = over(leaving[i], deviation[i], goal) + over(leaving[j], deviation[j], goal)
        for b in range(begin[i], begin[i + 1]):
            p = order[b]
            if place[p] != i:
                continue
            shift = load[k] - load[p]
            value = over(leaving[i], deviation[i] + shift, goal) - now
            value += over(leaving[j], deviation[j] - shift, goal)
            if value < best and not is_in(change, p):
                best, one, other, goes, comes = value, k, p, i, j
        if j != x:
            continue
        # another migrant in its place
        for b in range(moved[0]):
            p = moved[1 + b]
            j = place[p]
            if j in (x, i) or home[p] == x:
                continue
            shift = load[p] - load[k]
            value = over(leaving[x], deviation[x] + shift, goal) - most
            value += over(leaving[j], deviation[j] - shift, goal)
            value -= over(leaving[j], deviation[j], goal)
            if value < best and not is_in(change, p):
                best, one, other, goes, comes = value, k, p, j, x
    if one < 0:
        return 0.0
    first = change[COUNT]
    add(change, one, goes)
    add(change, other, comes)
    touch(place, deviation, change, before, first)
    shift_by(load, place, deviation, change, first)
    return best


@helper
def is_allowed(fixed, state, change):
    """Whether budgets and allowed nodes permit a change."""
    for a in range(change[COUNT]):
        if not may_be(fixed, change[TASK + a], change[TARGET + a]):
            return False
    for b in range(len(state.budget)):
        spent = 0.0
        for a in range(change[COUNT]):
            k = change[TASK + a]
            more = away(fixed, k, change[TARGET + a]) - away(fixed, k, state.place[k])
            spent += more * fixed.price[k, b]
        if spent > 0.0 and spent > state.budget[b]:
            return False
    return True


@helper
def make(fixed, state, change):
    """Make a change, and take it back where it breaks room or rules; return whether it stays."""
    count = change[COUNT]
    source, before = np.empty(count, np.int64), np.empty(2 * count)
    for a in range(count):
        k, target = change[TASK + a], change[TARGET + a]
        source[a] = state.place[k]
        before[2 * a], before[2 * a + 1] = state.deviation[source[a]], state.deviation[target]
        relocate(fixed, state, k, target)
    if not breaks(fixed, state, change):
        return True
    for a in range(count - 1, -1, -1):
        k, target = change[TASK + a], change[TARGET + a]
        relocate(fixed, state, k, source[a])
        # to the last digit
        state.deviation[source[a]], state.deviation[target] = before[2 * a], before[2 * a + 1]
    return False


@helper
def breaks(fixed, state, change):
    """Whether a change that is made breaks capacities, least loads or place rules."""
    for b in range(change[NODES]):
        i = change[NODE + b]
        for e in range(fixed.usage.shape[1]):
            if state.room[i, e] < 0.0 or state.spare[i, e] < 0.0:
                return True
    return fixed.guarded and rules_broken(guard_of(state)) > 0
