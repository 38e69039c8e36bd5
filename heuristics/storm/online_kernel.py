"""The greedy of the online scheduler, compiled: things that talk are put together in places.

Both phases are this one algorithm. In the first, executors go into the slots of their topology; in
the second, the filled slots of all topologies go onto nodes.

Pairs come heaviest first. Of a pair of which nothing stands, both go to the least loaded place that
can take both, else each to the least loaded that can take it. Else up to three places count: where
one stands, where the other stands, and the least loaded one that can take the heavier; of all
ordered choices of two the one with least traffic between places wins, the first found if they tie.

Source: Aniello et al. 2013, section 3.2.3 (the rest of which follows the description of the
authors' published scheduler).
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.util.compiled import helper, inlined, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOWHERE = -1
LEVELS = 3
"""0: every limit; 1: without the limits that only shape a schedule; 2: without load limits."""


class State(NamedTuple):
    """What is placed; the arrays are changed in place.

    Attributes
    ----------
    load
        (I, R) of the things.
    family
        (I,) topology of each thing.
    most
        (B,) things a place holds.
    room
        (levels, B, R) load a place may hold, tolerance included.
    base
        (B,) load that a place starts with, which only ranks places.
    family_most
        (F,) things of a topology at one place.
    family_places, may
        (F,) fewest places that a topology is to use; (F, B) which it may use.
    place
        (I,) where each thing is, `NOWHERE` for none.
    held, used
        (B,) things and (B, R) load at each place.
    held_of, places_of, left_of
        (F, B) things of a topology at each place; (F,) places it uses, and things not yet placed.
    counts_load
        1, or 0 for the slip of the published code: load is never added up.
    relaxed
        (levels,) things that found a place only at that level.
    """

    load: NDArray[np.float64]
    family: NDArray[np.int64]
    most: NDArray[np.int64]
    room: NDArray[np.float64]
    base: NDArray[np.float64]
    family_most: NDArray[np.int64]
    family_places: NDArray[np.int64]
    may: NDArray[np.bool_]
    place: NDArray[np.int64]
    held: NDArray[np.int64]
    used: NDArray[np.float64]
    held_of: NDArray[np.int64]
    places_of: NDArray[np.int64]
    left_of: NDArray[np.int64]
    counts_load: int
    relaxed: NDArray[np.int64]


@inlined
def can_take(state, place, thing, level):
    """Whether a place has room for one more thing."""
    family = state.family[thing]
    fits = state.held[place] < state.most[place] and state.may[family, place]
    if level == 0:
        here = state.held_of[family, place]
        fits = fits and here < state.family_most[family]
        # together only while enough are left to open the places that are still to be used
        within_reach = state.places_of[family] + state.left_of[family] - 1
        fits = fits and (here == 0 or within_reach >= state.family_places[family])
    for resource in range(state.load.shape[1]):
        load = state.used[place, resource] + state.load[thing, resource]
        fits = fits and load <= state.room[level, place, resource]
    return fits


@helper
def put(state, thing, place):
    """Put a thing that is nowhere."""
    family = state.family[thing]
    state.place[thing] = place
    state.held[place] += 1
    if state.held_of[family, place] == 0:
        state.places_of[family] += 1
    state.left_of[family] -= 1
    state.held_of[family, place] += 1
    if state.counts_load:
        for resource in range(state.load.shape[1]):
            state.used[place, resource] += state.load[thing, resource]


@helper
def take(state, thing):
    """Take a thing away from where it is."""
    family, place = state.family[thing], state.place[thing]
    state.place[thing] = NOWHERE
    state.held[place] -= 1
    state.left_of[family] += 1
    state.held_of[family, place] -= 1
    if state.held_of[family, place] == 0:
        state.places_of[family] -= 1
    if state.counts_load:
        for resource in range(state.load.shape[1]):
            state.used[place, resource] -= state.load[thing, resource]
            if state.held[place] == 0:  # what rounding leaves must not rank places
                state.used[place, resource] = 0.0


@inlined
def comes_first(load, held, known_load, known_held):
    """Whether a place is less loaded than the known one; the one with fewer things if they tie."""
    slack = 1e-12 * (abs(load) + abs(known_load))
    return load < known_load - slack or (load <= known_load + slack and held < known_held)


@helper
def least_loaded(state, thing, other, level):
    """Return the least loaded place that can take a thing, or `NOWHERE`; the first if they tie.

    Where `other` is no `NOWHERE`, the one that can take both.
    """
    held, used, base = state.held, state.used, state.base
    best, best_load, best_held = NOWHERE, np.inf, 0
    for place in range(len(held)):
        load, holds = base[place] + used[place, 0], held[place]
        if best != NOWHERE and not comes_first(load, holds, best_load, best_held):
            continue
        fits = can_take(state, place, thing, level)
        if fits and other != NOWHERE:
            put(state, thing, place)
            fits = can_take(state, place, other, level)
            take(state, thing)
        if fits:
            best, best_load, best_held = place, load, holds
    return best


@helper
def put_alone(state, thing):
    """Put a thing at the least loaded place, limits given up one after the other."""
    for level in range(LEVELS):
        place = least_loaded(state, thing, NOWHERE, level)
        if place != NOWHERE:
            put(state, thing, place)
            state.relaxed[level] += 1
            return


@helper
def traffic_with(state, neighbours, thing, other, places, count, found):
    """Add up a thing's traffic with what stands at each of `count` places, `other` left out."""
    for i in range(count):
        found[i] = 0.0
    for k in range(neighbours.indptr[thing], neighbours.indptr[thing + 1]):
        partner = neighbours.indices[k]
        if partner != other and state.place[partner] != NOWHERE:
            for i in range(count):
                if state.place[partner] == places[i]:
                    found[i] += neighbours.rate[k]


@helper
def rate_between(neighbours, u, v):
    """Return the rate of two things, both directions."""
    for k in range(neighbours.indptr[u], neighbours.indptr[u + 1]):
        if neighbours.indices[k] == v:
            return neighbours.rate[k]
    return 0.0


@helper
def candidate_places(state, u, v, places):
    """Write where u stands, where v stands and the least loaded place; return how many differ."""
    heavier = v if state.load[v, 0] > state.load[u, 0] else u
    third = least_loaded(state, heavier, NOWHERE, 0)
    count = 0
    for place in (state.place[u], state.place[v], third):
        known = place == NOWHERE
        for i in range(count):
            known = known or places[i] == place
        if not known:
            places[count] = place
            count += 1
    return count


@helper
def put_together(state, neighbours, u, v, places, with_u, with_v):
    """Place a pair of which at least one thing stands, by the best of up to nine choices."""
    count = candidate_places(state, u, v, places)
    traffic_with(state, neighbours, u, v, places, count, with_u)
    traffic_with(state, neighbours, v, u, places, count, with_v)
    between = rate_between(neighbours, u, v)
    old_u, old_v = state.place[u], state.place[v]
    if old_u != NOWHERE:
        take(state, u)
    if old_v != NOWHERE:
        take(state, v)
    best, best_u, best_v = -1.0, NOWHERE, NOWHERE
    for i in range(count):
        for j in range(count):
            gain = with_u[i] + with_v[j] + (between if i == j else 0.0)
            if gain <= best + 1e-12 * abs(best):
                continue
            # what stands may stay, even where a limit had to be given up for it
            if places[i] == old_u and places[j] == old_v:
                best, best_u, best_v = gain, places[i], places[j]
            elif can_take(state, places[i], u, 0):
                put(state, u, places[i])
                if can_take(state, places[j], v, 0):
                    best, best_u, best_v = gain, places[i], places[j]
                take(state, u)
    if best_u == NOWHERE:
        best_u, best_v = old_u, old_v
    for thing, place in ((u, best_u), (v, best_v)):
        if place != NOWHERE:
            put(state, thing, place)
    for thing in (u, v):
        if state.place[thing] == NOWHERE:
            put_alone(state, thing)


@kernel
def place_pairs(state, neighbours, source, target):
    """Place every thing that talks, the pairs in the order given.

    Parameters
    ----------
    state
        Changed.
    neighbours
        `heuristics.storm.online.Neighbours` of the things.
    source, target
        (K,) the pairs, heaviest first.
    """
    places = np.empty(3, np.int64)
    with_u, with_v = np.empty(3), np.empty(3)
    for k in range(len(source)):
        u, v = source[k], target[k]
        if state.place[u] != NOWHERE or state.place[v] != NOWHERE:
            put_together(state, neighbours, u, v, places, with_u, with_v)
            continue
        place = least_loaded(state, u, v, 0)
        if place == NOWHERE:
            put_alone(state, u)
            put_alone(state, v)
        else:
            put(state, u, place)
            put(state, v, place)
            state.relaxed[0] += 2


@kernel
def fill_empty_places(state, neighbours):
    """Give each empty place the one thing whose move costs least traffic, where one can spare it.

    A place that holds a single thing keeps it.
    """
    num_things = len(state.place)
    inside = np.zeros(num_things)
    for thing in range(num_things):
        for k in range(neighbours.indptr[thing], neighbours.indptr[thing + 1]):
            if state.place[thing] == state.place[neighbours.indices[k]]:
                inside[thing] += neighbours.rate[k]
    for empty in range(len(state.held)):
        if state.held[empty] > 0:
            continue
        best = NOWHERE
        for thing in range(num_things):
            place = state.place[thing]
            if place != NOWHERE and state.held[place] > 1:
                cheaper = best == NOWHERE or inside[thing] < inside[best] * (1 - 1e-12)
                if cheaper:
                    best = thing
        if best == NOWHERE:
            return
        for k in range(neighbours.indptr[best], neighbours.indptr[best + 1]):
            if state.place[neighbours.indices[k]] == state.place[best]:
                inside[neighbours.indices[k]] -= neighbours.rate[k]
        take(state, best)
        put(state, best, empty)
        inside[best] = 0.0


@kernel
def deal_the_rest(state):
    """Put what talks to nobody one after the other where fewest things are (the default way)."""
    for thing in range(len(state.place)):
        if state.place[thing] != NOWHERE:
            continue
        best = NOWHERE
        for place in range(len(state.held)):
            fewer = best == NOWHERE or state.held[place] < state.held[best]
            if fewer and state.held[place] < state.most[place]:
                best = place
        if best != NOWHERE:
            put(state, thing, best)


@kernel
def put_the_rest(state, order):
    """Put things that talk to nobody each at the least loaded place, in the order given."""
    for thing in order:
        if state.place[thing] == NOWHERE:
            put_alone(state, thing)
