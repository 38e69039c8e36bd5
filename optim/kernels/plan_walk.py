"""Annealing of a placement for any objective, compiled: moves, exchanges, chains and groups.

What a change touches is reckoned anew: its nodes, and the links around them. Figures that are the
greatest value of a node or link are followed together with the sum of the 16th powers of all, so
that a plan whose next values are smaller is the better one of two with the same greatest. Limits
that are broken cost an amount for each broken row, which may be so for a while; only where a task
may be at all is never broken. A placement becomes the incumbent only where it violates nothing.

How to read the indices: `i` holds all whole numbers, `x` all others (`plan_state` says why), and
``i[PART]`` is where a part begins. So ``i[i[NODE] + task]`` is the node of a task,
``x[i[USED] + n * resources + r]`` the load of resource r on node n. Traffic is in pairs: at
``2 * p`` what leaves place p, at ``2 * p + 1`` what enters it. A *place* is a node or a rack; a
*side* the senders (even) or receivers (odd) of a stream that all its pairs of tasks share evenly,
so that counts of its members suffice and pairs are not listed.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from optim.kernels.place_rules import broken, enter, pays, relevant
from optim.kernels.plan_state import MOST_TASKS, propose
from optim.util.compiled import accepts

from optim.kernels.plan_state import (  # isort: skip
    AFTER, AGGREGATES, ALL_CROSSING, ALL_TRAFFIC, ALL_WEIGHT, AMOUNT, AROUND, AROUND_STARTS,
    BACKGROUND, BEFORE, BROKEN_AT, BUDGETS, CAPACITY, COST, CROSSING, DEVIATION_KINDS, DIRECTION,
    EACH, FIGURES, FIGURE_KINDS, FIRST, FIRST_OF, FLOOR, FURTHER, GREATEST_KINDS, GROWS, HEAT,
    HELD, INSIDE, INSIDE_OF, KIND, K_COST, K_DEVIATION, K_DISTANCE, K_INSIDE, K_LINK, K_LOSS,
    K_MEAN_DEVIATION, K_MOVES, K_RESOURCE_DEVIATION, K_SHARE, K_USED, K_USED_CAPACITY,
    K_USED_SHARE, LEAVES, LEFT, LEVELS, LINKS, LINKS_AT, LINK_BACKGROUND, LINK_BROKEN_AT,
    LINK_CAPACITY, LINK_LEFT, LINK_ROOM, LINK_STARTS, LOAD, MAY, MEAN, MEAN_MOVES, MEMBERS,
    MISPLACED, MOST, MOST_DISTANCE, MOST_HELD, MOVES, NODE, NODES, NODE_SUM_KINDS, NOTHING,
    ONLY_INSIDE, ORDER, OTHER, PAIRED, PARAMETERS, PLACES, POWERS, PRICE, RATE, RATE_KINDS,
    RATE_ROOM, REFERENCE, RESOURCES, ROOM, ROWS, SCALE, SECOND_OF, SIDES, SIDE_RATE, SIDE_STARTS,
    SIDE_TASKS, SIDE_TASKS_STARTS, SPARE, SPENT, STARTS, STAYS, TAKEN, TASKS, THREADS, TOLL,
    TOTAL, TRAFFIC, USED, VALUES, WEIGHT, WEIGHTS, WIDTH,
)  # fmt: skip
from optim.util.compiled import helper, inlined, kernel

NEVER = 1e30  # Of what carries nothing: a need without room.
_NOISE = 1e-9
_NOTHING = 1e-12
"""Traffic, and load, up to which there is none: what sums leave that cancel."""
_HIGHEST = 3.0  # Times the reference up to which powers are distinguished.

#: Places in the parameters of `walk`: first and last temperature, number of steps, level, weight of
#: the objective, price of violations, share of the sum of powers, 1 where no step is to be taken,
#: 1 where it is to stop at the first better placement.
(HOT, COLD, STEPS, LEVEL, AIM, PRICE_OF_BROKEN, BLEND, STILL, STOPS) = range(9)
NUM_PARAMETERS = 9


@inlined
def power(value, reference):
    """The 16th power of a value in parts of a reference."""
    share = value / reference
    share = share if share < _HIGHEST else _HIGHEST
    # x^16 by four squarings: the 16-norm of n values is at most n^(1/16) times the greatest
    share *= share
    share *= share
    share *= share
    return share * share


@helper
def clear(values, begin, count, zero):
    """Set some numbers to nothing; a loop, which numba compiles ten times as fast as a slice."""
    for at in range(begin, begin + count):
        values[at] = zero


@helper
def _fill(i, x, guard):
    """Add up everything from the nodes of the tasks; the guard is of the same placement."""
    tasks, nodes, resources, places = i[TASKS], i[NODES], i[RESOURCES], i[PLACES]
    node, may, kind = i[NODE], i[MAY], i[KIND]
    # empty lists and sums
    for n in range(nodes):
        i[i[HELD] + n], i[i[FIRST] + n] = 0, -1
    clear(x, 0, i[AGGREGATES] + EACH * i[FIGURES], 0.0)
    clear(x, i[VALUES], 2 * i[FIGURES] * i[WIDTH], 0.0)
    clear(x, i[USED], nodes * resources, 0.0)
    clear(x, i[CROSSING], 2 * places, 0.0)
    clear(x, i[BROKEN_AT], nodes, 0.0)
    clear(x, i[TAKEN], i[BUDGETS], 0.0)
    clear(x, i[LINK_BROKEN_AT], i[LINKS], 0.0)
    clear(i, i[MEMBERS], i[AROUND_STARTS] - i[MEMBERS], 0)
    # each task adds its loads, its price if it moved, and itself to the sides that it is on
    for task in range(tasks):
        at = i[node + task]
        link_in(i, task, at)
        for r in range(resources):
            x[i[USED] + at * resources + r] += x[i[LOAD] + task * resources + r]
        if pays(guard, task, at) > 0:
            x[MOVES] += 1.0
            x[SPENT] += x[i[PRICE] + task]
            for b in range(i[BUDGETS]):
                x[i[TAKEN] + b] += x[i[TOLL] + task * i[BUDGETS] + b]
        # odd: tasks may be put here; 2: a leaving node, for tasks from leaving nodes alone
        if i[may + i[kind + task] * nodes + at] % 2 == 0:
            x[LEFT] += 1.0
        _list_sides(i, task, at, 1)
    if i[TRAFFIC] != NOTHING:
        _fill_traffic(i, x)
    if guard.active:
        x[MISPLACED] = broken(guard)
    # what rows and figures make of these sums; the mean first, distances are from it
    load_mean(i, x)
    for n in range(nodes):
        refresh(i, x, n)
    for p in range(places):
        _settle_links(i, x, p)


@helper
def _fill_traffic(i, x):
    """Add up what crosses each place, and what stays inside nodes."""
    nodes, places = i[NODES], i[PLACES]
    for task in range(i[TASKS]):
        at = i[i[NODE] + task]
        for e in range(i[i[STARTS] + task], i[i[STARTS] + task + 1]):
            to = i[i[NODE] + i[i[OTHER] + e]]
            sent, received = x[i[RATE] + 2 * e], x[i[RATE] + 2 * e + 1]
            if to != at:
                x[i[CROSSING] + 2 * at] += sent
                x[i[CROSSING] + 2 * at + 1] += received
            for k in range(i[i[AROUND_STARTS] + at], i[i[AROUND_STARTS] + at + 1]):
                p = i[i[AROUND] + k]
                if i[i[INSIDE_OF] + (p - nodes) * nodes + to] == 0:
                    x[i[CROSSING] + 2 * p] += sent
                    x[i[CROSSING] + 2 * p + 1] += received
    # streams by counts: s senders here, r of R receivers here: rate * s * (R - r) leaves
    for side in range(0, i[PAIRED], 2):
        senders = i[i[SIDE_TASKS_STARTS] + side + 1] - i[i[SIDE_TASKS_STARTS] + side]
        receivers = i[i[SIDE_TASKS_STARTS] + side + 2] - i[i[SIDE_TASKS_STARTS] + side + 1]
        rate = x[i[SIDE_RATE] + side // 2]
        for p in range(places):
            send, take = i[i[MEMBERS] + side * places + p], i[i[MEMBERS] + (side + 1) * places + p]
            x[i[CROSSING] + 2 * p] += rate * send * (receivers - take)
            x[i[CROSSING] + 2 * p + 1] += rate * take * (senders - send)
    # what leaves no node stays inside
    inside = x[i[PARAMETERS] + EACH * i[FIGURES] + ALL_TRAFFIC]
    for n in range(nodes):
        inside -= x[i[CROSSING] + 2 * n]
    for side in range(i[PAIRED], i[SIDE_TASKS] - i[SIDE_TASKS_STARTS] - 1, 2):
        for n in range(nodes):  # what crosses of it is in no sum of crossing traffic
            if i[i[MEMBERS] + (side + 1) * places + n] == 0:
                inside -= x[i[SIDE_RATE] + side // 2] * i[i[MEMBERS] + side * places + n]
    x[INSIDE] = inside


@inlined
def link_in(i, task, at):
    """Put a task first in the list of its node."""
    head = i[i[FIRST] + at]
    i[i[AFTER] + task] = head
    i[i[BEFORE] + task] = -1
    if head >= 0:
        i[i[BEFORE] + head] = task
    i[i[FIRST] + at] = task
    i[i[HELD] + at] += 1


@inlined
def link_out(i, task, at):
    """Take a task out of the list of its node."""
    ahead, behind = i[i[BEFORE] + task], i[i[AFTER] + task]
    if ahead < 0:
        i[i[FIRST] + at] = behind
    else:
        i[i[AFTER] + ahead] = behind
    if behind >= 0:
        i[i[BEFORE] + behind] = ahead
    i[i[HELD] + at] -= 1


@helper
def load_mean(i, x):
    """Reckon the mean load of the first resource."""
    total, resources = 0.0, i[RESOURCES]
    for n in range(i[NODES]):
        # mean = Σ (background + need) / Σ weight of staying nodes, as in load_distance's definition
        total += need_of(i, x, n, 0) + x[i[BACKGROUND] + n * resources]
    weight = x[i[PARAMETERS] + EACH * i[FIGURES] + ALL_WEIGHT]
    x[MEAN] = total / weight if weight > 0.0 else 0.0


@inlined
def need_of(i, x, n, r):
    """Load that the tasks of a node bring, with what their traffic costs."""
    resources = i[RESOURCES]
    # need = Σ load + cost out · rate that leaves + cost in · rate that enters
    need = x[i[USED] + n * resources + r]
    if i[TRAFFIC] == ALL_CROSSING:
        leaves, enters = x[i[CROSSING] + 2 * n], x[i[CROSSING] + 2 * n + 1]
        if leaves > _NOISE:
            need += x[i[COST] + r] * leaves
        if enters > _NOISE:
            need += x[i[COST] + resources + r] * enters
    return need


@inlined
def share_of(need, room):
    """Return a need over the room for it."""
    if need <= 0.0 or room == np.inf:
        return 0.0
    return need / room if room > 0.0 else NEVER


@inlined
def value_at(i, k, where):
    """Where the value is that a figure has at a node or link."""
    return i[VALUES] + (2 * k + 1) * i[WIDTH] + where


@helper
def note(i, x, k, where, value):
    """Note what a figure has at a node or link; each row of values is a tree of greatest ones."""
    # leaves at width … 2·width - 1, the parent of a is a // 2, and the greatest of all is at 1
    width, tree = i[WIDTH], i[VALUES] + 2 * k * i[WIDTH]
    at, reference = width + where, x[i[PARAMETERS] + EACH * k + REFERENCE]
    old = x[tree + at]
    if value == old:
        return
    x[tree + at] = value
    x[i[AGGREGATES] + EACH * k + POWERS] += power(value, reference) - power(old, reference)
    # up the tree, as long as the greatest of a pair changes
    while at > 1:
        value = max(x[tree + at], x[tree + (at ^ 1)])
        at //= 2
        if x[tree + at] == value:
            return
        x[tree + at] = value


@helper
def refresh(i, x, n):
    """Reckon anew what a node breaks, and what figures have there."""
    resources, limits = i[RESOURCES], i[PARAMETERS] + EACH * i[FIGURES]
    row, num_tasks = n * resources, i[i[HELD] + n]
    # room: what the limits allow; capacity: shares in use; rate room: what the input may fill
    amount, fullest, highest, worst = 0.0, 0.0, 0.0, 0.0
    for r in range(resources):
        need = need_of(i, x, n, r)
        room, floor = x[i[ROOM] + row + r], x[i[FLOOR] + row + r]
        if need > room:
            amount += (need - room) * x[i[SCALE] + r]
        elif need < floor:
            amount += (floor - need) * x[i[SCALE] + r]
        fullest = max(fullest, share_of(need, room))
        if x[i[CAPACITY] + row + r] > 0.0:
            highest = max(highest, (need + x[i[BACKGROUND] + row + r]) / x[i[CAPACITY] + row + r])
        if num_tasks > 0:
            most = x[i[RATE_ROOM] + row + r]
            worst = NEVER if most < 0.0 else max(worst, share_of(need, most))
    # load distance: |load - weight * mean| of nodes that stay, the excess alone of leaving ones
    off = need_of(i, x, n, 0) + x[i[BACKGROUND] + row] - x[i[WEIGHT] + n] * x[MEAN]
    distance = abs(off) if i[i[STAYS] + n] != 0 else max(off, 0.0)
    far = x[limits + MOST_DISTANCE]
    if distance > far:
        amount += (distance - far) * x[i[SCALE]]
    # each figure notes its value here; the last one says which nodes moves are drawn from
    heat = fullest
    for k in range(i[FIGURES]):
        kind = i[i[FIGURE_KINDS] + k]
        if kind == K_DISTANCE:
            note(i, x, k, n, distance)
            heat = off / max(x[i[WEIGHT] + n], 1e-300)
        elif kind == K_SHARE:
            note(i, x, k, n, highest)
            heat = highest
        elif kind in RATE_KINDS:
            note(i, x, k, n, worst)
            heat = worst
        elif kind in NODE_SUM_KINDS:
            _note_further(i, x, k, kind, n)
    x[i[HEAT] + n] = heat
    old = x[i[BROKEN_AT] + n]
    # amounts are sums, and off by rounding: what is broken is counted in whole rows
    x[AMOUNT] += amount - old
    x[ROWS] += (1.0 if amount > 0.0 else 0.0) - (1.0 if old > 0.0 else 0.0)
    x[i[BROKEN_AT] + n] = amount


@helper
def _note_further(i, x, k, kind, n):
    """Note a figure of sums over nodes; `VALUES` holds what the node had of it."""
    parameters, base = i[PARAMETERS] + EACH * k, i[AGGREGATES] + EACH * k
    at, num_tasks = value_at(i, k, n), i[i[HELD] + n]
    row = n * i[RESOURCES]
    value = x[at]
    if kind == K_USED:
        now = num_tasks * 1.0
        x[base + FURTHER] += (1.0 if now > 0.0 else 0.0) - (1.0 if value > 0.0 else 0.0)
        # Σ sqrt(tasks held / usual): concave, so that a few tasks on many nodes cost most
        usual = x[parameters + FIRST_OF]
        x[base + POWERS] += np.sqrt(min(1.0, now / usual)) - np.sqrt(min(1.0, value / usual))
        x[at] = now
    elif kind == K_USED_CAPACITY:
        now = x[i[CAPACITY] + row] if num_tasks > 0 else 0.0
        now = now if now < np.inf else 0.0
        x[base + FURTHER] += now - value
        x[at] = now
    elif kind == K_USED_SHARE:
        room = x[i[CAPACITY] + row]
        now = 0.0
        if num_tasks > 0 and 0.0 < room < np.inf:
            now = need_of(i, x, n, 0) + x[i[BACKGROUND] + row]
        x[base + FURTHER] += now - value
        x[at] = now
    elif kind in (K_DEVIATION, K_RESOURCE_DEVIATION):
        # about a value near the mean, so that squares of large numbers do not cancel
        r, usual = int(x[parameters + FIRST_OF]), x[parameters + SECOND_OF]
        now = 0.0
        if _deviates(i, x, n, r):
            now = _share(i, x, n, r) - usual
        x[base + POWERS] += now * now - value * value
        x[at] = now
    elif kind == K_MEAN_DEVIATION:
        x[at] = _share(i, x, n, 0) if _deviates(i, x, n, 0) else 0.0


@helper
def _deviates(i, x, n, r):
    """Whether a node counts in deviations: it stays, and has a capacity, or none and no load."""
    capacity = x[i[CAPACITY] + n * i[RESOURCES] + r]
    none = (
        capacity == 0.0
        and need_of(i, x, n, r) + x[i[BACKGROUND] + n * i[RESOURCES] + r] <= _NOTHING
    )
    return i[i[STAYS] + n] != 0 and (none or 0.0 < capacity < np.inf)


@helper
def _share(i, x, n, r):
    """The share of a node's capacity that is in use; 0 of no capacity."""
    row = n * i[RESOURCES] + r
    capacity = x[i[CAPACITY] + row]
    return (need_of(i, x, n, r) + x[i[BACKGROUND] + row]) / capacity if capacity > 0.0 else 0.0


@helper
def refresh_link(i, x, p, link):
    """Reckon anew what a link of a place breaks, and what figures have there."""
    nodes = i[NODES]
    # direction of a link: 0 both, 1 out, 2 in
    direction = i[i[DIRECTION] + link]
    leaves, enters = x[i[CROSSING] + 2 * p], x[i[CROSSING] + 2 * p + 1]
    need = 0.0
    if direction != 2 and leaves > _NOISE:
        need += leaves
    if direction != 1 and enters > _NOISE:
        need += enters
    load = need + x[i[LINK_BACKGROUND] + link]
    room = x[i[LINK_ROOM] + link]
    amount = 0.0
    if load > room:
        scale = x[i[PARAMETERS] + EACH * i[FIGURES] + ALL_TRAFFIC]
        # in parts of an average task's traffic, as `SCALE` has loads in parts of an average load
        amount = (load - room) * i[TASKS] / max(scale, 1e-300)
    old = x[i[LINK_BROKEN_AT] + link]
    x[AMOUNT] += amount - old
    x[ROWS] += (1.0 if amount > 0.0 else 0.0) - (1.0 if old > 0.0 else 0.0)
    x[i[LINK_BROKEN_AT] + link] = amount
    for k in range(i[FIGURES]):
        kind = i[i[FIGURE_KINDS] + k]
        share = load / x[i[LINK_CAPACITY] + link]
        if kind == K_LINK:
            note(i, x, k, nodes + link, share)
        elif kind in RATE_KINDS:
            note(i, x, k, nodes + link, share_of(need, x[i[LINK_LEFT] + link]))
        elif kind == K_RESOURCE_DEVIATION:
            x[value_at(i, k, nodes + link)] = share


@helper
def _with(i, x, task, p):
    """Return what a task, which is on no list of sides, sends to and gets from those in a place."""
    sent, received, nodes = 0.0, 0.0, i[NODES]
    for e in range(i[i[STARTS] + task], i[i[STARTS] + task + 1]):
        at = i[i[NODE] + i[i[OTHER] + e]]
        if at == p or (p >= nodes and i[i[INSIDE_OF] + (p - nodes) * nodes + at] != 0):
            sent += x[i[RATE] + 2 * e]
            received += x[i[RATE] + 2 * e + 1]
    for e in range(i[i[SIDE_STARTS] + task], i[i[SIDE_STARTS] + task + 1]):
        side = i[i[SIDES] + e]
        if side >= i[PAIRED]:
            continue
        rate = x[i[SIDE_RATE] + side // 2]
        if side % 2 == 0:
            sent += rate * i[i[MEMBERS] + (side + 1) * i[PLACES] + p]
        else:
            received += rate * i[i[MEMBERS] + (side - 1) * i[PLACES] + p]
    return sent, received


@helper
def _shift_inside(i, x, task, source, target):
    """Follow what stays inside nodes as a task moves that is on no list of sides."""
    change = 0.0
    for e in range(i[i[STARTS] + task], i[i[STARTS] + task + 1]):
        at = i[i[NODE] + i[i[OTHER] + e]]
        if at == source:
            change -= x[i[RATE] + 2 * e] + x[i[RATE] + 2 * e + 1]
        elif at == target:
            change += x[i[RATE] + 2 * e] + x[i[RATE] + 2 * e + 1]
    for e in range(i[i[SIDE_STARTS] + task], i[i[SIDE_STARTS] + task + 1]):
        side = i[i[SIDES] + e]
        if side >= i[PAIRED]:
            continue
        row = i[MEMBERS] + (side + 1 if side % 2 == 0 else side - 1) * i[PLACES]
        change += x[i[SIDE_RATE] + side // 2] * (i[row + target] - i[row + source])
    x[INSIDE] += change


@helper
def _shift_local(i, x, task, source, target):
    """Follow what stays of `local_first` streams as a task moves that is on no list of sides."""
    change = 0.0
    for e in range(i[i[SIDE_STARTS] + task], i[i[SIDE_STARTS] + task + 1]):
        side = i[i[SIDES] + e]
        if side < i[PAIRED]:
            continue
        rate = x[i[SIDE_RATE] + side // 2]
        other = i[MEMBERS] + (side + 1 if side % 2 == 0 else side - 1) * i[PLACES]
        if side % 2 == 0:
            change += rate * (min(1, i[other + target]) - min(1, i[other + source]))
            continue
        # it matters where it is the first, or last, receiver
        members = i[MEMBERS] + side * i[PLACES]
        if i[members + target] == 0:
            change += rate * i[other + target]
        if i[members + source] == 0:
            change -= rate * i[other + source]
    x[INSIDE] += change


@helper
def _shift_crossing(i, x, task, source, target):
    """Follow what crosses places as a task moves that is on no list of sides."""
    nodes = i[NODES]
    # first out of the source's places, then into the target's; a place with both sees no change
    for step in range(2):
        here, there = (source, target) if step == 0 else (target, source)
        sign = -1.0 if step == 0 else 1.0
        sent, received = _with(i, x, task, here)
        leaves = sign * (x[i[TOTAL] + 2 * task] - sent - received)
        x[i[CROSSING] + 2 * here] += leaves
        x[i[CROSSING] + 2 * here + 1] += sign * (x[i[TOTAL] + 2 * task + 1] - received - sent)
        x[INSIDE] -= leaves
        for k in range(i[i[AROUND_STARTS] + here], i[i[AROUND_STARTS] + here + 1]):
            p = i[i[AROUND] + k]
            if i[i[INSIDE_OF] + (p - nodes) * nodes + there] == 0:
                sent, received = _with(i, x, task, p)
                x[i[CROSSING] + 2 * p] += sign * (x[i[TOTAL] + 2 * task] - sent - received)
                x[i[CROSSING] + 2 * p + 1] += sign * (x[i[TOTAL] + 2 * task + 1] - received - sent)


@helper
def _list_sides(i, task, at, sign):
    """Enter a task into the lists of sides of its node and the places around, or take it out."""
    for e in range(i[i[SIDE_STARTS] + task], i[i[SIDE_STARTS] + task + 1]):
        row = i[MEMBERS] + i[i[SIDES] + e] * i[PLACES]
        i[row + at] += sign
        for k in range(i[i[AROUND_STARTS] + at], i[i[AROUND_STARTS] + at + 1]):
            i[row + i[i[AROUND] + k]] += sign


@helper
def shift(i, x, guard, task, target):
    """Move a task; loads, traffic, lists, budgets and sets follow, nodes are not refreshed."""
    source, resources, nodes = i[i[NODE] + task], i[RESOURCES], i[NODES]
    # the task is on no list of sides while its traffic is followed: it sends nothing to itself
    if i[TRAFFIC] != NOTHING:
        _list_sides(i, task, source, -1)
        if i[TRAFFIC] == ONLY_INSIDE:
            _shift_inside(i, x, task, source, target)
        else:
            _shift_crossing(i, x, task, source, target)
        if i[SIDE_TASKS] - i[SIDE_TASKS_STARTS] - 1 > i[PAIRED]:
            _shift_local(i, x, task, source, target)
        _list_sides(i, task, target, 1)
    for r in range(resources):
        load = x[i[LOAD] + task * resources + r]
        x[i[USED] + source * resources + r] -= load
        x[i[USED] + target * resources + r] += load
    link_out(i, task, source)
    link_in(i, task, target)
    paid = pays(guard, task, target) - pays(guard, task, source)
    x[MOVES] += paid
    x[SPENT] += paid * x[i[PRICE] + task]
    for b in range(i[BUDGETS]):
        x[i[TAKEN] + b] += paid * x[i[TOLL] + task * i[BUDGETS] + b]
    row = i[MAY] + i[i[KIND] + task] * nodes
    x[LEFT] += (i[row + source] % 2 - i[row + target] % 2) * 1.0
    if guard.active:
        before = relevant(guard, task, source, target)
        enter(guard, task, source, target)
        x[MISPLACED] += relevant(guard, task, source, target) - before
    i[i[NODE] + task] = target


@helper
def settle(i, x, touched, count):
    """Reckon anew what some nodes have, and the links around them."""
    # where crossing traffic costs CPU, the mean load moves and with it every distance
    every = i[MEAN_MOVES] != 0
    if every:
        load_mean(i, x)
    for t in range(i[NODES] if every else count):
        refresh(i, x, t if every else touched[t])
    for t in range(count if i[LINKS] > 0 else 0):
        n, begin = touched[t], i[AROUND_STARTS] + touched[t]
        for k in range(i[begin] - 1, i[begin + 1]):
            _settle_links(i, x, n if k < i[begin] else i[i[AROUND] + k])


@helper
def _settle_links(i, x, p):
    for k in range(i[i[LINK_STARTS] + p], i[i[LINK_STARTS] + p + 1]):
        refresh_link(i, x, p, i[i[LINKS_AT] + k])


@helper
def _restart_at(i, x, task, lost_node):
    """Return the node on which a task of a lost node starts again; -1 for none."""
    best, least, nodes, resources = -1, np.inf, i[NODES], i[RESOURCES]
    for n in range(nodes):
        if n == lost_node or i[i[STAYS] + n] == 0 or i[i[HELD] + n] >= i[i[MOST_HELD] + n]:
            continue
        full, fits = 0.0, i[i[MAY] + i[i[KIND] + task] * nodes + n] % 2 != 0
        for r in range(resources):
            need = x[i[USED] + n * resources + r] + x[i[LOAD] + task * resources + r]
            room = x[i[SPARE] + n * resources + r]
            if i[i[GROWS] + r] == 0:
                fits = fits and need <= room
            elif need > 0.0:
                full = max(full, need / room if room > 0.0 else np.inf)
        # sums in another order must give the same node: nine digits, then the first by index
        full = np.round(full * 1e9)
        if fits and (best < 0 or full < least):
            best, least = n, full
    return best


@helper
def _after_losses(i, x, guard, k):
    """Return how full the fullest place is after the loss of any node, and a sum of powers."""
    greatest, powers, nodes, tasks = 0.0, 0.0, i[NODES], i[TASKS]
    root, reference = i[VALUES] + 2 * k * i[WIDTH] + 1, x[i[PARAMETERS] + EACH * k + REFERENCE]
    # sums are put back from a copy, as moving tasks back would leave rounding
    restarted, touched, saved = (
        np.zeros(tasks, np.int64),
        np.zeros(nodes, np.int64),
        np.empty(len(x)),
    )
    for at in range(len(x)):
        saved[at] = x[at]
    for lost_node in range(nodes):
        count, seen, all_restart = 0, 0, True
        # its tasks restart one by one, the heaviest first, each where it fills a node least
        for at in range(tasks if i[i[HELD] + lost_node] > 0 else 0):
            task = i[i[ORDER] + at]
            if i[i[NODE] + task] != lost_node:
                continue
            target = _restart_at(i, x, task, lost_node)
            if target < 0:
                all_restart = False
                break
            shift(i, x, guard, task, target)
            restarted[count] = task
            count += 1
            if not is_among(touched, seen, target):
                touched[seen] = target
                seen += 1
        high = NEVER
        if all_restart:
            touched[seen] = lost_node
            settle(i, x, touched, seen + 1)
            high = x[root]
        for at in range(count - 1, -1, -1):
            shift(i, x, guard, restarted[at], lost_node)
        for at in range(len(x)):
            x[at] = saved[at]
        greatest = max(greatest, high)
        powers += power(high, reference)
    return greatest, powers


@inlined
def is_among(some, count, one):
    """Whether one of the first of some numbers is this."""
    among = False
    for at in range(count):
        among = among or some[at] == one
    return among


@helper
def figure_of(i, x, guard, k, blend):
    """Return the value of a figure, and what leads a search to it."""
    kind, base, parameters = (
        i[i[FIGURE_KINDS] + k],
        i[AGGREGATES] + EACH * k,
        i[PARAMETERS] + EACH * k,
    )
    if kind == K_INSIDE:
        value = x[parameters + FIRST_OF] + x[parameters + SECOND_OF] * x[INSIDE]
        return value, value
    if kind == K_MOVES:
        return x[MOVES], x[MOVES]
    if kind == K_COST:
        return x[SPENT], x[SPENT]
    if kind == K_USED:
        value = x[base + FURTHER]
        return value, (1.0 - blend) * value + blend * x[base + POWERS]
    if kind == K_USED_CAPACITY:
        value = x[base + FURTHER] / x[parameters + FIRST_OF]
        return value, value
    if kind == K_USED_SHARE:
        return _used_share(i, x, k)
    if kind in DEVIATION_KINDS:
        value = _deviation(i, x, k, kind)
        return value, value
    greatest, powers = x[i[VALUES] + 2 * k * i[WIDTH] + 1], x[base + POWERS]
    if kind == K_LOSS:
        greatest, powers = _after_losses(i, x, guard, k)
        x[base + FURTHER] = greatest
    smooth = greatest
    if blend > 0.0:
        # smooth = (1 - b) · max + b · (Σ value^16)^(1/16)
        part = blend if greatest < NEVER else 1.0  # what never is reports nothing of the rest
        root = np.sqrt(np.sqrt(np.sqrt(np.sqrt(max(0.0, powers)))))
        smooth = (1.0 - part) * greatest + part * root * x[parameters + REFERENCE]
    if kind in RATE_KINDS:
        # rate = 1 / share of the fullest row, and no more than what one thread sustains
        threads = x[parameters + THREADS]
        return 1.0 / max(greatest, threads, 1e-30), 1.0 / max(smooth, threads, 1e-30)
    return greatest, smooth


@helper
def _used_share(i, x, k):
    room, base = 0.0, i[AGGREGATES] + EACH * k
    for n in range(i[NODES]):
        capacity = x[i[CAPACITY] + n * i[RESOURCES]]
        if i[i[HELD] + n] > 0 and capacity < np.inf:
            room += capacity
    value = x[base + FURTHER] / room if room > 0.0 else 0.0
    return value, value


@helper
def _deviation(i, x, k, kind):
    """Return a deviation of nodes, and of links where it is of both."""
    base, nodes = i[AGGREGATES] + EACH * k, i[NODES]
    parameters, at = i[PARAMETERS] + EACH * k, value_at(i, k, 0)
    r = 0 if kind == K_MEAN_DEVIATION else int(x[parameters + FIRST_OF])
    count, total = 0.0, 0.0
    for n in range(nodes):
        if _deviates(i, x, n, r):
            count += 1.0
            total += x[at + n]
    if count == 0.0:
        return 0.0
    mean = total / count
    if kind == K_MEAN_DEVIATION:
        off = 0.0
        for n in range(nodes):
            if _deviates(i, x, n, 0):
                off += abs(x[at + n] - mean)
        return off / count
    # Σ (u - mean)² = Σ u² - n · mean², of u that are differences from the usual share
    squares = max(0.0, x[base + POWERS] - count * mean * mean)
    if kind == K_DEVIATION:
        return np.sqrt(squares)
    count, total = 0.0, 0.0
    for link in range(i[LINKS]):
        if x[i[LINK_CAPACITY] + link] < np.inf:
            count += 1.0
            total += x[at + nodes + link]
    for link in range(i[LINKS]):
        if x[i[LINK_CAPACITY] + link] < np.inf:
            off = x[at + nodes + link] - total / count
            squares += off * off
    return np.sqrt(squares)


@helper
def measure(i, x, guard, levels, blend, level):
    """Write the levels of the placement; return what leads a search to the given one."""
    figures, lead = i[FIGURES], 0.0
    for j in range(i[LEVELS]):
        levels[j] = 0.0
    for k in range(figures):
        value, smooth = figure_of(i, x, guard, k, blend)
        for j in range(i[LEVELS]):
            weight = x[i[WEIGHTS] + j * figures + k]
            if weight != 0.0:
                levels[j] += weight * value
                if j == level:
                    lead += weight * smooth
    return lead


@helper
def _normalise_powers(i, x):
    """Normalise powers of values by the greatest now; return whether that changes any."""
    changes = False
    for k in range(i[FIGURES]):
        kind, at = i[i[FIGURE_KINDS] + k], i[PARAMETERS] + EACH * k + REFERENCE
        if kind in GREATEST_KINDS:
            greatest = x[i[VALUES] + 2 * k * i[WIDTH] + 1]
            if kind == K_LOSS:
                greatest = x[i[AGGREGATES] + EACH * k + FURTHER]
            if 0.0 < greatest < NEVER and x[at] != greatest:
                x[at], changes = greatest, True
    return changes


@inlined
def over_budget(i, x):
    """By how much the budgets of moves are exceeded, in usual moves."""
    amount = 0.0
    for b in range(i[BUDGETS]):
        # taken / moves is what an average move takes
        taken, most = x[i[TAKEN] + b], x[i[MOST] + b]
        if taken > most:
            amount += (taken - most) * max(1.0, x[MOVES]) / taken
    return amount


@helper
def _better(i, x, levels, record, noise):
    """Whether a placement is better than the record: fewer tasks left, then level by level."""
    if x[LEFT] != record[i[LEVELS]]:
        return x[LEFT] < record[i[LEVELS]]
    for j in range(i[LEVELS]):
        if abs(levels[j] - record[j]) > noise[j] + 1e-9 * abs(record[j]):
            return levels[j] < record[j]
    return False


@helper
def _allowed(i, tasks, targets, count):
    """Whether all tasks may be where they go, and at least one moves."""
    nodes, moves = i[NODES], False
    for t in range(count):
        may = i[i[MAY] + i[i[KIND] + tasks[t]] * nodes + targets[t]]
        if may == 0 or (may == 2 and i[i[LEAVES] + tasks[t]] == 0):
            return False
        moves = moves or i[i[NODE] + tasks[t]] != targets[t]
    return moves


@helper
def _move_all(i, x, guard, tasks, targets, sources, touched, count):
    """Move tasks, and reckon anew what they touch; their sources are written."""
    seen = 0
    # all tasks at once: nodes that several of them touch are refreshed once
    for t in range(count):
        sources[t] = i[i[NODE] + tasks[t]]
        if sources[t] == targets[t]:
            continue
        shift(i, x, guard, tasks[t], targets[t])
        for step in range(2):
            n = sources[t] if step == 0 else targets[t]
            if not is_among(touched, seen, n):
                touched[seen] = n
                seen += 1
    settle(i, x, touched, seen)


def _steps_of(i, parameters):
    """Estimate the steps of a walk: after each of its own, all tasks restart once for a loss."""
    losses = K_LOSS in i[i[FIGURE_KINDS] : i[FIGURE_KINDS] + i[FIGURES]]
    return parameters[STEPS] * (50 + (3.0 * i[TASKS] * i[NODES] * i[RESOURCES] if losses else 0))


@kernel(steps=_steps_of)
def walk(i, x, guard, random, parameters, best, record, noise, keep, change):
    """Walk a number of steps while it cools; the best placement is written to `best`.

    `i`, `x`, `guard`: the state, of which only the nodes of the tasks and the guard are to be of a
        placement: all else is added up first. Changed in place.
    `random`: of the choices (`seeded`).
    `parameters`: (NUM_PARAMETERS,), at the places `HOT` to `STOPS`.
    `best`: (T,) output: the best placement that breaks nothing, where one beats the record.
    `record`: (levels + 1,) levels of the best so far, and tasks left where they may not stay;
        changed.
    `noise`: (levels,) differences that are rounding.
    `keep`: (2, levels) price of any difference by which an earlier level is worse than its record,
        and of each unit of it.
    `change`: (5 + levels,) output, added up: steps that broke nothing, steps taken, the sum of the
        changes of what leads the search and their number, steps proposed, and sums of changes of
        the levels; of no steps, the levels.
    Returns whether a placement was written.
    """
    level, blend, still = int(parameters[LEVEL]), parameters[BLEND], parameters[STILL] != 0.0
    steps, aim, price = int(parameters[STEPS]), parameters[AIM], parameters[PRICE_OF_BROKEN]
    levels, before = np.zeros(i[LEVELS]), np.zeros(i[LEVELS])
    tasks, targets = np.zeros(MOST_TASKS, np.int64), np.zeros(MOST_TASKS, np.int64)
    sources, touched = np.zeros(MOST_TASKS, np.int64), np.zeros(2 * MOST_TASKS, np.int64)
    written, lead, again = False, 0.0, True
    # references of the powers depend on the values, and loss on the powers' reference: till stable
    while again:
        _fill(i, x, guard)
        lead = measure(i, x, guard, before, blend, level)
        again = _normalise_powers(i, x)
    if steps == 0:
        for j in range(i[LEVELS]):
            change[5 + j] = before[j]
    energy = _energy(i, x, before, lead, record, keep, level, aim, price)
    stops = parameters[STOPS] != 0.0
    if not stops and _is_whole(i, x) and _better(i, x, before, record, noise):
        written = True
        _take(i, x, best, before, record)
    # geometric cooling: after k of n steps hot · (cold / hot)^(k / n)
    heat, cooling = parameters[HOT], 1.0
    if steps > 0 and parameters[HOT] > 0.0:
        cooling = (parameters[COLD] / parameters[HOT]) ** (1.0 / steps)
    for _ in range(steps):
        if written and stops:
            break
        heat *= cooling
        change[4] += 1.0
        # a move that is not accepted is taken back by the same move in the other direction
        count = propose(i, x, guard, random, tasks, targets)
        if not _allowed(i, tasks, targets, count):
            continue
        _move_all(i, x, guard, tasks, targets, sources, touched, count)
        now = measure(i, x, guard, levels, blend, level)
        after = _energy(i, x, levels, now, record, keep, level, aim, price)
        grown = after - energy
        # a probe: nothing moves; sizes of changes are added up, for temperatures and prices
        if still:
            change[2] += abs(now - lead)
            change[3] += 1.0
            for j in range(i[LEVELS]):
                change[5 + j] += abs(levels[j] - before[j])
        if still or not accepts(random, grown, heat):
            _move_all(i, x, guard, tasks, sources, targets, touched, count)
            continue
        energy = after
        change[1] += 1.0
        if _is_whole(i, x):
            change[0] += 1.0
            if _better(i, x, levels, record, noise):
                written = True
                _take(i, x, best, levels, record)
                energy = _energy(i, x, levels, now, record, keep, level, aim, price)
    return written


@helper
def _is_whole(i, x):
    """Whether the placement breaks nothing."""
    return x[ROWS] < 0.5 and x[MISPLACED] < 0.5 and over_budget(i, x) == 0.0


@helper
def _energy(i, x, levels, lead, record, keep, level, aim, price):
    """What the walk makes small."""
    energy = aim * lead
    # levels before the one that is searched keep their record, at a price
    for j in range(level):
        worse = levels[j] - record[j]
        if worse > 1e-9 * abs(record[j]):
            energy += keep[0, j] + keep[1, j] * worse
    # a tenth of an average task for each broken row, so that the last small excess is worth mending
    rows = x[ROWS] if x[ROWS] > 0.5 else 0.0
    amount = x[AMOUNT] if rows > 0.0 else 0.0
    return energy + price * (amount + 0.1 * rows + x[MISPLACED] + over_budget(i, x) + 2.0 * x[LEFT])


@helper
def _take(i, x, best, levels, record):
    """Write the placement down as the best."""
    for task in range(i[TASKS]):
        best[task] = i[i[NODE] + task]
    for j in range(i[LEVELS]):
        record[j] = levels[j]
    record[i[LEVELS]] = x[LEFT]
