"""Annealing for collocation under a load-distance cap, compiled.

A proposal moves one to a few key groups: one to its partner's node, mostly with another sent back
in exchange, both of a pair to a third node, one home again. Where that overdraws a budget, other
moved key groups are sent home until it does not. What exceeds the cap or a capacity costs a price
per unit, which rises while the search stays outside the limits and falls while it stays inside.

The budgets and allowed sets hold after every change; load distance, capacities, least loads, place
rules and the load left on leaving nodes may be exceeded on the way; the *excess* says by how much.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from formulations.rebalancing.balance.kernel import breach_of, carry, link, may_be, unlink
from optim.kernels.place_rules import Guard, broken, enter, overdrawn, pays, relevant
from optim.util.compiled import accepts, draw, helper, inlined, kernel, uniform

LONGEST = 24  # Most key groups that one proposal moves, those sent home for the budget included.

#: Steps after which price and temperature are set anew, and totals counted from scratch.
EVERY, RECOUNT = 256, 1 << 15

NONE = 1e-9  # Excess below this is rounding.
LOOK_AT = 64  # Key groups of a node that are looked at for an exchange.


@helper
def some_member(state, node):
    """Return a random key group of a node, -1 where there is none."""
    if state.size[node] == 0:
        return -1
    k = state.first[node]
    for _ in range(draw(state.random, min(state.size[node], LOOK_AT))):
        k = state.after[k]
    return k


@helper
def spread_node(state, under):
    """Return the least (or most) loaded of a few random nodes."""
    n = len(state.deviation)
    best = draw(state.random, n)
    for _ in range(draw(state.random, 4)):
        other = draw(state.random, n)
        if (state.deviation[other] < state.deviation[best]) == under:
            best = other
    return best


@helper
def best_return(fixed, state, arrived, other, source, target, price):
    """Return the key group of `target` that is best sent to `source` after `arrived` came from it.

    Judged by what both nodes exceed and by the traffic lost and won; -1 for none.
    """
    at_source = state.deviation[source] - fixed.load[arrived]
    at_target = state.deviation[target] + fixed.load[arrived]
    floor_source = -math.inf if fixed.leaving[source] else -fixed.cap
    floor_target = -math.inf if fixed.leaving[target] else -fixed.cap
    best, best_value = -1, -math.inf
    k = state.first[target]
    for _ in range(LOOK_AT):
        if k < 0:
            break
        load = fixed.load[k]
        one, two = at_source + load, at_target - load
        # what both nodes exceed of |deviation| ≤ cap; leaving ones have no lower side
        over = max(0.0, one - fixed.cap) + max(0.0, floor_source - one)
        over += max(0.0, two - fixed.cap) + max(0.0, floor_target - two)
        value = -price * over
        if value > best_value and k != arrived and k != other:
            value += gain_of(fixed, state, k, source) - gain_of(fixed, state, k, target)
            if value > best_value and may_be(fixed, k, source):
                best, best_value = k, value
        k = state.after[k]
    return best


@helper
def exchange(fixed, state, wanted, arrived, other, source, target, price):
    """Append one key group of `target` going to `source`: the best one, or a random one."""
    if draw(state.random, 3) > 0:
        k = best_return(fixed, state, arrived, other, source, target, price)
    else:
        k = some_member(state, target)
    if k in (-1, arrived, other):
        return
    want(wanted, k, source)


@helper
def want(wanted, k, node):
    """Append a move."""
    at = wanted[0, 0] + 1
    wanted[at, 0], wanted[at, 1] = k, node
    wanted[0, 0] = at


@helper
def moved_member(state, node, but):
    """Return a random key group of a node that is not at home; -1 where there is none."""
    member, seen = -1, 0
    k = state.first[node]
    for _ in range(LOOK_AT):
        if k < 0:
            break
        if k != but and state.moved_at[k] >= 0:
            seen += 1
            if draw(state.random, seen) == 0:
                member = k
        k = state.after[k]
    return member


@helper
def chain(fixed, state, arcs, wanted):
    """Let what arrived last push others on, from node to node along promising moves.

    Middle nodes keep about their load and every link may win traffic: where every node is near the
    cap and moves are few, such paths are what is worth them.
    """
    while wanted[0, 0] < len(wanted) - 1:
        last = wanted[0, 0]
        arrived, node = wanted[last, 0], wanted[last, 1]
        if state.deviation[node] + fixed.load[arrived] <= fixed.cap and draw(state.random, 4) > 0:
            return
        k, target = -1, -1
        if draw(state.random, 4) == 0:
            k = moved_member(state, node, arrived)
            if k >= 0:
                target = fixed.home[k]
        else:
            begin, number = arcs.start[node], arcs.start[node + 1] - arcs.start[node]
            for _ in range(3):
                if number == 0 or k >= 0:
                    break
                chance = uniform(state.random)
                # the square of a uniform draw prefers the first arcs, which promise most
                at = begin + np.int64(number * chance * chance)
                if state.place[arcs.task[at]] == node:
                    k, target = arcs.task[at], arcs.node[at]
        if k < 0:
            return
        for at in range(1, last + 1):
            if wanted[at, 0] == k:
                return
        want(wanted, k, target)


@helper
def propose(fixed, state, arcs, wanted, price):
    """Write down a proposal: ``wanted[0, 0]`` moves, key group and node each."""
    wanted[0, 0] = 0
    kind = draw(state.random, 20)
    # half of all proposals begin with a promising move, the best of them most often
    if len(arcs.best) > 0 and draw(state.random, 2) == 0:
        chance = uniform(state.random)
        at = arcs.best[np.int64(len(arcs.best) * chance * chance)]
        k, node = arcs.task[at], arcs.node[at]
        source = state.place[k]
        if source != node:
            want(wanted, k, node)
            if kind < 3:
                exchange(fixed, state, wanted, k, -1, source, node, price)
            elif kind < 17:
                chain(fixed, state, arcs, wanted)
    elif kind < 12 and len(fixed.source) > 0:
        of_pair(fixed, state, arcs, wanted, price, kind)
    elif kind < 16 and state.num_moved[0] > 0:
        # a key group that has moved: home, or on to another node
        k = state.moved[draw(state.random, state.num_moved[0])]
        node = fixed.home[k] if kind < 14 else spread_node(state, True)
        with_others(fixed, state, arcs, wanted, price, k, node)
    else:
        # from a full node to an empty one
        source, target = spread_node(state, False), spread_node(state, True)
        if source == target:
            target = draw(state.random, len(state.deviation))
        with_others(fixed, state, arcs, wanted, price, some_member(state, source), target)


@inlined
def of_pair(fixed, state, arcs, wanted, price, kind):
    """Propose one key group of a pair to the other's node, both to a third one, or apart again."""
    p = draw(state.random, len(fixed.source))
    u, v = fixed.source[p], fixed.target[p]
    if draw(state.random, 2) == 0:
        u, v = v, u
    source, target = state.place[u], state.place[v]
    if source == target:
        node = fixed.home[u] if draw(state.random, 2) == 0 else spread_node(state, True)
        want(wanted, u, node)
        if draw(state.random, 2) == 0:
            want(wanted, v, node)
    elif kind < 10:
        want(wanted, u, target)
        how = draw(state.random, 4)
        if how == 0:
            exchange(fixed, state, wanted, u, v, source, target, price)
        elif how < 3:
            chain(fixed, state, arcs, wanted)
    else:
        node = spread_node(state, True)
        if source != node:
            want(wanted, u, node)
        if target != node:
            want(wanted, v, node)
        if source != node and draw(state.random, 2) == 0:
            exchange(fixed, state, wanted, u, v, source, node, price)


@inlined
def with_others(fixed, state, arcs, wanted, price, k, node):
    """Propose a move, if it is one, at times with another back, or with others pushed on."""
    if k >= 0 and state.place[k] != node:
        source = state.place[k]
        want(wanted, k, node)
        how = draw(state.random, 3)
        if how == 0:
            exchange(fixed, state, wanted, k, -1, source, node, price)
        elif how == 1:
            chain(fixed, state, arcs, wanted)


@helper
def returning(state, log, count):
    """Return a moved key group to send home: mostly one from the node that got one back last."""
    if count > 0 and draw(state.random, 4) > 0:
        last = log[count - 1, 0]
        node = state.place[last] if draw(state.random, 4) > 0 else log[draw(state.random, count), 1]
        member = moved_member(state, node, last)
        if member >= 0:
            return member
    return state.moved[draw(state.random, state.num_moved[0])]


@helper
def state_at(fixed, start, seed):
    """Return the state of a placement."""
    place, deviation, room, spare, budget, guard = start
    tasks, nodes = len(place), len(deviation)
    state = JointState(
        place.copy(),
        deviation.copy(),
        room.copy(),
        spare.copy(),
        np.full(nodes, -1, np.int64),
        np.full(tasks, -1, np.int64),
        np.full(tasks, -1, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(tasks, np.int64),
        np.full(tasks, -1, np.int64),
        np.zeros(1, np.int64),
        guard,
        budget.copy(),
        np.zeros(3),
        np.full(1, np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1), np.uint64),
    )
    for k in range(tasks):
        link(state, k, place[k])
        if pays(guard, k, place[k]) > 0:
            note_move(state, k, True)
    count_totals(fixed, state)
    return state


@kernel(steps=lambda steps: 65 * steps)
def anneal(fixed, start, arcs, seed, best, best_value, steps, cooling, price, for_left):
    """Anneal for some steps from a placement.

    `start`, `arcs`: the placement (`Placed`), and promising moves.
    `best`, `best_value`: (T,) best feasible placement so far and its value (-inf for none); both
        are stored.
    `steps`, `cooling`: number of steps, and what part of the whole cooling they are.
    `price`: of a unit of excess to begin with.
    `for_left`: whether the aim is to empty leaving nodes instead of collocation.
    Returns placement at the end, value of the best one, price and totals at the end.
    """
    hot, cold, begin, end = cooling
    state = state_at(fixed, start, seed)
    total = state.total
    wanted = np.zeros((12, 2), np.int64)
    log = np.zeros((LONGEST, 2), np.int64)
    least, most = 0.02 * price, 100.0 * price
    inside = 0
    temperature = hot
    now = 0.0
    for step in range(steps):
        if step % EVERY == 0:
            done = begin + (end - begin) * step / steps
            temperature = hot * (cold / hot) ** done
            if step > 0:
                # the price of a unit of excess holds the walk at the edge of the limits
                if inside > 0.5 * EVERY:
                    price = max(least, price * 0.93)
                elif inside < 0.25 * EVERY:
                    price = min(most, price * 1.08)
            inside = 0
            if step % RECOUNT == 0:
                count_totals(fixed, state)
            aim = -total[LEFT] if for_left else total[GAIN]
            now = aim - price * total[EXCESS]
        propose(fixed, state, arcs, wanted, price)
        count, at, tries = 0, 1, 0
        while True:
            if at <= wanted[0, 0]:
                k, node = wanted[at, 0], wanted[at, 1]
                at += 1
            # the proposal is made; what it overdraws is paid by sending others home
            elif overdrawn(state.budget):
                tries += 1
                if tries > 2 * LONGEST or count == LONGEST or state.num_moved[0] == 0:
                    break
                k = returning(state, log, count)
                node = fixed.home[k]
                in_log = False
                for other in range(count):
                    in_log = in_log or log[other, 0] == k
                if in_log:
                    continue
            else:
                break
            if state.place[k] != node and may_be(fixed, k, node):
                log[count, 0], log[count, 1] = k, state.place[k]
                relocate(fixed, state, k, node)
                count += 1
        if count > 0:
            aim = -total[LEFT] if for_left else total[GAIN]
            new = aim - price * total[EXCESS]
            if not overdrawn(state.budget) and accepts(state.random, now - new, temperature):
                now = new
                if total[EXCESS] <= NONE and aim > best_value + 1e-9 * abs(best_value):
                    best_value = aim
                    best[:] = state.place
            else:
                for back in range(count - 1, -1, -1):
                    relocate(fixed, state, log[back, 0], log[back, 1])
        if total[EXCESS] <= NONE:
            inside += 1
    return state.place, best_value, price, total


#: Indices into `JointState.total`: collocated traffic, excess, load on leaving nodes.
GAIN, EXCESS, LEFT = 0, 1, 2


class JointFixed(NamedTuple):
    """What does not change during a search; names as in `BalanceProblem` and `JointProblem`.

    `unit` turns an excess of a resource into one of load, `each` a key group by which a place rule
    is broken; `cap` and `max_left` may be infinite.
    """

    load: np.ndarray
    price: np.ndarray
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


class Cooling(NamedTuple):
    """First and last temperature of a whole cooling, in units of the aim, and a part of it."""

    hot: float
    cold: float
    begin: float
    end: float


class JointState(NamedTuple):
    """What changes.

    (T,) place; (N,) deviation from the share; (N, E) room and spare; lists of key groups a node;
    the list of those that migrate and their place in it; the guard; what is left of each budget;
    totals; the random state.
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
    budget: np.ndarray
    total: np.ndarray
    random: np.ndarray


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
    # the list has no gaps: the last entry takes the place of one that leaves
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
    # the excess of both nodes is subtracted before the move and added after it: O(E) a move
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
        for b in range(state.budget.shape[0]):
            state.budget[b] -= change * fixed.price[k, b]
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
