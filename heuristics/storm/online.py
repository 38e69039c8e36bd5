"""``storm-online``: the traffic-based scheduler of Aniello et al., on measured loads and rates.

Phase 1, each topology by itself: executors that talk most share a slot, slots holding at most
⌊M(α)⌋ executors and γ times the mean load; every slot gets at least one. Phase 2, all topologies
together: slots that talk most share a node, within its free slots and its capacity, a topology
having at most so many slots on a node, and at least so many nodes, as δ and `node_spread` say.

Where no place keeps every limit, first those that only shape the schedule give way (γ; slots of a
topology on a node), then load limits: the plan is returned, and the referee reports it. Before a
capacity gives way, all is tried again with less γ, down to 1, so that slots are lighter.

Source: Aniello, Baldoni and Querzoni, "Adaptive online scheduling in Storm", DEBS 2013, section
3.2, doi:10.1145/2488222.2488267; the part of 3.2.3 that our text lacks after the description of the
authors' published scheduler.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.storm.problem import scheduled_jobs
from heuristics.storm.even import nodes_to_use, slot_limits, slots_within_reach
from heuristics.storm.offline import ALPHA, NODE_SPREAD
from heuristics.task_allocation.groups import stable_descending
from optim.figures.measures import slack
from optim.kernels.place_rules import placing_room
from optim.methods.reduce import shuffled_evenly
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Termination
from optim.rules.base import Form
from optim.util.compiled import helper, inlined, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm.problem import StormJobs
    from optim.format.instance import Instance
    from optim.format.tables import Bools
    from optim.methods.registry import Request

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


class Pairs(NamedTuple):
    """(K,) ordered pairs and their rates."""

    source: Integers
    target: Integers
    rate: Floats


class Neighbours(NamedTuple):
    """Who talks to whom, both directions added, in CSR form."""

    indptr: Integers
    indices: Integers
    rate: Floats


def directed_pairs(instance: Instance) -> Pairs:
    """Return all traffic as directed task pairs, each pair once, by descending rate.

    Ties, up to rounding, stand in order of their task numbers.

    Raises `InvalidInput`: there are more than `optim.format.traffic.MAX_PAIRS`.
    """
    _ = instance.pairs.u  # refuses sizes that are too large, with words
    source, target, rate = instance.flows.directed()
    key, where = np.unique(
        source.astype(np.int64) * instance.num_tasks + target, return_inverse=True
    )
    summed = np.bincount(where.reshape(-1), rate, len(key)).astype(np.float64)
    key, summed = key[summed > 0], summed[summed > 0]
    order = stable_descending(summed)
    u, v = np.divmod(key[order], max(1, instance.num_tasks))
    return Pairs(u, v, summed[order])


def neighbours(count: int, u: Integers, v: Integers, rate: Floats) -> Neighbours:
    """Return the neighbours of `count` things from pairs, each pair's directions added."""
    from scipy.sparse import coo_array

    ends = (np.concatenate([u, v]), np.concatenate([v, u]))
    matrix = coo_array((np.concatenate([rate, rate]), ends), shape=(count, count)).tocsr()
    matrix.sum_duplicates()
    return Neighbours(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data)


_LESS = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Parts of what γ exceeds 1 by that are tried, one after the other, before capacity gives way."""


def new_state(
    load: Floats,
    family: Integers,
    most: Integers,
    room: Floats,
    base: Floats,
    family_most: Integers,
    family_places: Integers,
    may: Bools,
    counts_load: bool = True,
) -> State:
    """Start the greedy with nothing placed; the arguments are those of `State`."""
    places, families = len(most), len(family_most)
    # copies: read-only or strided arrays would be types of their own to the compiler
    return State(
        np.array(load, dtype=np.float64),
        np.array(family, dtype=np.int64),
        np.array(most, dtype=np.int64),
        np.array(room, dtype=np.float64),
        np.array(base, dtype=np.float64),
        np.array(family_most, dtype=np.int64),
        np.array(family_places, dtype=np.int64),
        np.array(may, dtype=np.bool_),
        np.full(len(load), -1, dtype=np.int64),
        np.zeros(places, dtype=np.int64),
        np.zeros((places, load.shape[1])),
        np.zeros((families, places), dtype=np.int64),
        np.zeros(families, dtype=np.int64),
        np.bincount(family, minlength=families).astype(np.int64),
        int(counts_load),
        np.zeros(LEVELS, dtype=np.int64),
    )


def executors_into_slots(
    load: Floats, pairs: Pairs, num_slots: int, most: int, gamma: float, capacity: Floats
) -> tuple[Integers, int]:
    """Run phase 1 on one topology.

    `load`: (E, R) of the executors, which stand grouped by component.
    `pairs`: directed, heaviest first.
    `num_slots`, `most`: W, at most E; ⌊M(α)⌋.
    `gamma`: a slot's load is at most γ times the mean, where that is possible.
    `capacity`: (R,) of a slot where the instance bounds it.
    Returns (E,) slot of each executor (-1 where all hold `most`), and how many executors found none
        within γ.
    """
    ones = np.ones(num_slots, dtype=np.int64)
    soft = capacity.copy()
    # levels of limits: γ times the mean load, the capacity of a slot, none
    bound = gamma * float(load[:, 0].sum()) / num_slots
    soft[0] = min(soft[0], bound + float(slack(bound)))
    levels = np.stack([soft, capacity, np.full_like(capacity, np.inf)])
    room = np.repeat(levels[:, None, :], num_slots, axis=1)
    # empty slots are filled afterwards
    one = np.array([most]), np.array([1]), np.ones((1, num_slots), dtype=np.bool_)
    state = new_state(
        load, np.zeros(len(load), np.int64), most * ones, room, np.zeros(num_slots), *one
    )
    around = neighbours(len(load), *pairs)
    place_pairs(state, around, pairs.source, pairs.target)
    fill_empty_places(state, around)
    deal_the_rest(state)
    return state.place, int(state.relaxed[1:].sum())


def run(instance: Instance, request: Request) -> Outcome:
    """Schedule all topologies.

    Raises `UnsuitableMethod`: a component is in no topology, though the instance has some.
    """
    request, compiling = request.warmed(warm_up)
    began = time.perf_counter()
    jobs = scheduled_jobs(instance, METHOD.name)
    pairs = directed_pairs(instance)
    reach, notes = slots_within_reach(jobs)
    building = time.perf_counter() - began
    first_gamma = float(request.options["gamma"])
    schedule = None
    for gamma in _gammas(first_gamma):
        worker, first, late = _phase_1(instance, jobs, pairs, reach, request, gamma)
        node, slot, relaxed = _phase_2(instance, jobs, pairs, reach, worker, first, request)
        if schedule is None or not relaxed[2]:
            schedule = gamma, late, node, slot, relaxed
        if not relaxed[2]:
            break
    assert schedule is not None
    gamma, late, node, slot, relaxed = schedule
    if gamma != first_gamma:
        notes.append(f"gamma {gamma:g}: with {first_gamma:g} slots found no node with the capacity")
    if late:
        notes.append(f"{late} executors found no slot within gamma times the mean load")
    if relaxed[1]:
        notes.append(f"{relaxed[1]} slots found no node within delta and node_spread")
    if relaxed[2]:
        notes.append(f"{relaxed[2]} slots found no node with the capacity for them")
    return Outcome(
        Termination.HEURISTIC,
        node,
        slot,
        notes=notes,
        times={"compile": compiling, "build": building},
    )


def _gammas(gamma: float) -> list[float]:
    """Return the γ asked for, and those to try where slots of its load fit on no node."""
    return [1.0 + share * (gamma - 1.0) for share in (_LESS if gamma > 1.0 else _LESS[:1])]


def _phase_1(
    instance: Instance,
    jobs: StormJobs,
    pairs: Pairs,
    reach: Integers,
    request: Request,
    gamma: float,
) -> tuple[Integers, Integers, int]:
    """Return (T,) worker of each executor over all topologies, and each topology's first worker."""
    options = request.options
    worker = np.full(instance.num_tasks, -1, dtype=np.int64)
    first = np.concatenate([[0], np.cumsum(reach)])
    position = np.zeros(instance.num_tasks, dtype=np.int64)
    for tasks in jobs.executors:
        position[tasks] = np.arange(len(tasks))
    of = jobs.job[pairs.source]
    inside = of == jobs.job[pairs.target]
    late = 0
    for number, tasks in enumerate(jobs.executors):
        count = int(reach[number])
        if not count:
            continue
        most, capacity = slot_limits(instance, len(tasks), count, options["alpha"])
        of_topology = inside & (of == number)
        topology_pairs = Pairs(
            position[pairs.source[of_topology]],
            position[pairs.target[of_topology]],
            pairs.rate[of_topology],
        )
        place, over = executors_into_slots(
            instance.tasks.load[tasks], topology_pairs, count, most, gamma, capacity
        )
        worker[tasks] = np.where(place >= 0, place + first[number], -1)
        late += over
    return worker, first, late


def _phase_2(
    instance: Instance,
    jobs: StormJobs,
    pairs: Pairs,
    reach: Integers,
    worker: Integers,
    first: Integers,
    request: Request,
) -> tuple[Integers, Integers, Integers]:
    """Return (T,) node and slot of each executor, and workers placed at each level of limits."""
    options = request.options
    count = int(first[-1])
    placed = worker >= 0
    load = np.zeros((count, instance.num_resources))
    np.add.at(load, worker[placed], instance.tasks.load[placed])
    between = _between(pairs, worker, count)
    room = placing_room(instance)
    family_most, family_places = _node_limits(jobs, reach, options["delta"], options["node_spread"])
    state = new_state(
        load,
        np.repeat(np.arange(jobs.num_jobs), reach),
        jobs.slots,
        np.stack([room, room, np.full_like(room, np.inf)]),
        instance.nodes.background[:, 0],
        family_most,
        family_places,
        jobs.nodes,
        not options["forget_node_load"],
    )
    around = neighbours(count, *between)
    place_pairs(state, around, between.source, between.target)
    put_the_rest(state, np.argsort(-load[:, 0], kind="stable"))
    at = np.append(state.place, -1)  # the last one is for executors without a worker
    number = np.zeros(count + 1, dtype=np.int64)
    taken = np.zeros(instance.num_nodes, dtype=np.int64)
    for w, n in enumerate(state.place.tolist()):
        if n >= 0:
            number[w] = taken[n]
            taken[n] += 1
    node = at[worker]
    slot = np.where(node >= 0, number[worker], -1)
    return node, slot, state.relaxed


def _between(pairs: Pairs, worker: Integers, count: int) -> Pairs:
    """Return the traffic between workers, both directions added, heaviest first."""
    a, b = worker[pairs.source], worker[pairs.target]
    apart = (a != b) & (a >= 0) & (b >= 0)
    low, high = np.minimum(a, b)[apart], np.maximum(a, b)[apart]
    key, where = np.unique(low * count + high, return_inverse=True)
    rate = np.bincount(where.reshape(-1), pairs.rate[apart], len(key)).astype(np.float64)
    order = stable_descending(rate)
    u, v = np.divmod(key[order], max(1, count))
    return Pairs(u, v, rate[order])


def _node_limits(
    jobs: StormJobs, reach: Integers, delta: float, node_spread: float
) -> tuple[Integers, Integers]:
    """Return (P,) most slots of a topology on a node, and the fewest nodes it is to use."""
    most, places = [], []
    for workers, usable in zip(reach.tolist(), jobs.nodes, strict=True):
        nodes = nodes_to_use(jobs.slots[usable], workers, node_spread)
        least = -(-workers // max(1, nodes))
        # ⌈W/K⌉ slots a node at δ = 0; at δ = 1 all but one for each of the other K − 1 nodes
        spare = max(0, workers - nodes + 1 - least)
        most.append(least + math.ceil(delta * spare - 1e-9))
        places.append(nodes)
    return np.array(most, dtype=np.int64), np.array(places, dtype=np.int64)


def warm_up() -> None:
    """Compile the kernels, or load them from the cache, on a tiny job."""
    u, v, rate = np.array([0, 1]), np.array([1, 2]), np.array([2.0, 1.0])
    load, inf = np.ones((3, 1)), np.full(1, np.inf)
    executors_into_slots(load, Pairs(u, v, rate), 2, 2, 1.5, inf)
    two = np.full(1, 2)
    state = new_state(
        load, np.zeros(3, np.int64), np.full(2, 2), np.full((3, 2, 1), np.inf), np.zeros(2), two,
        two, np.ones((1, 2), dtype=np.bool_),
    )  # fmt: skip
    around: Neighbours = neighbours(3, u, v, rate)
    place_pairs(state, around, u, v)
    put_the_rest(state, np.arange(3))


METHOD = Method(
    name="storm-online",
    family="storm",
    kind="heuristic",
    objective="internode_traffic",
    run=shuffled_evenly(run),
    summary="Executors that talk most share a slot, slots that talk most share a node",
    source="Aniello, Baldoni and Querzoni, DEBS 2013, section 3.2",
    needs=("tasks", "nodes"),
    forms=frozenset(
        {Form.SLOTS, Form.NODE_CAPACITY, Form.LEAVING, Form.SLOT_COUNT, Form.NODE_COUNT}
        | {Form.LOCAL_FIRST}
    ),
    options=(
        ALPHA,
        Option(
            "gamma",
            "float",
            1.5,
            "most load of a slot, in mean loads of the topology's slots",
            minimum=1.0,
        ),
        Option(
            "delta",
            "float",
            0.0,
            "slots of a topology on one node: from 0 (even) to 1 (all it can spare)",
            minimum=0.0,
            maximum=1.0,
        ),
        NODE_SPREAD,
        Option(
            "forget_node_load",
            "bool",
            False,
            "the slip of the published code: the load of a node is never added up",
        ),
    ),
    promises_feasibility=False,
)


# The greedy of the online scheduler, compiled: things that talk are put together in places.
#
# Both phases are this one algorithm. In the first, executors go into the slots of their topology;
# in the second, the filled slots of all topologies go onto nodes.
#
# Pairs come heaviest first. Of a pair of which nothing stands, both go to the least loaded place
# that can take both, else each to the least loaded that can take it. Else up to three places
# count: where one stands, where the other stands, and the least loaded one that can take the
# heavier; of all ordered choices of two the one with least traffic between places wins, the first
# found if they tie.
#
# Source: Aniello et al. 2013, section 3.2.3 (the rest of which follows the description of the
# authors' published scheduler).

NOWHERE = -1
LEVELS = 3
"""0: every limit; 1: without the limits that only shape a schedule; 2: without load limits."""


class State(NamedTuple):
    """What is placed; the arrays are changed in place."""

    load: NDArray[np.float64]  # (I, R) of the things.
    family: NDArray[np.int64]  # (I,) topology of each thing.
    most: NDArray[np.int64]  # (B,) things a place holds.
    room: NDArray[np.float64]  # (levels, B, R) load a place may hold, tolerance included.
    base: NDArray[np.float64]  # (B,) load that a place starts with, which only ranks places.
    family_most: NDArray[np.int64]  # (F,) things of a topology at one place.
    #: (F,) fewest places that a topology is to use; (F, B) which it may use.
    family_places: NDArray[np.int64]
    may: NDArray[np.bool_]
    place: NDArray[np.int64]  # (I,) where each thing is, `NOWHERE` for none.
    #: (B,) things and (B, R) load at each place.
    num_things: NDArray[np.int64]
    used: NDArray[np.float64]
    #: (F, B) things of a topology at each place; (F,) places it uses, and things not yet placed.
    num_of_family: NDArray[np.int64]
    places_of: NDArray[np.int64]
    left_of: NDArray[np.int64]
    counts_load: int  # 1, or 0 for the slip of the published code: load is never added up.
    relaxed: NDArray[np.int64]  # (levels,) things that found a place only at that level.


@inlined
def can_take(state, place, thing, level):
    """Whether a place has room for one more thing."""
    family = state.family[thing]
    fits = state.num_things[place] < state.most[place] and state.may[family, place]
    if level == 0:
        here = state.num_of_family[family, place]
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
    state.num_things[place] += 1
    if state.num_of_family[family, place] == 0:
        state.places_of[family] += 1
    state.left_of[family] -= 1
    state.num_of_family[family, place] += 1
    if state.counts_load:
        for resource in range(state.load.shape[1]):
            state.used[place, resource] += state.load[thing, resource]


@helper
def take(state, thing):
    """Take a thing away from where it is."""
    family, place = state.family[thing], state.place[thing]
    state.place[thing] = NOWHERE
    state.num_things[place] -= 1
    state.left_of[family] += 1
    state.num_of_family[family, place] -= 1
    if state.num_of_family[family, place] == 0:
        state.places_of[family] -= 1
    if state.counts_load:
        for resource in range(state.load.shape[1]):
            state.used[place, resource] -= state.load[thing, resource]
            if state.num_things[place] == 0:  # what rounding leaves must not rank places
                state.used[place, resource] = 0.0


@inlined
def comes_first(load, num_things, best_load, best_num):
    """Whether a place is less loaded than the known one; the one with fewer things if they tie."""
    slack = 1e-12 * (abs(load) + abs(best_load))
    return load < best_load - slack or (load <= best_load + slack and num_things < best_num)


@helper
def least_loaded(state, thing, other, level):
    """Return the least loaded place that can take a thing, or `NOWHERE`; the first if they tie.

    Where `other` is no `NOWHERE`, the one that can take both.
    """
    num_things, used, base = state.num_things, state.used, state.base
    best, best_load, best_num = NOWHERE, np.inf, 0
    for place in range(len(num_things)):
        load, holds = base[place] + used[place, 0], num_things[place]
        if best != NOWHERE and not comes_first(load, holds, best_load, best_num):
            continue
        fits = can_take(state, place, thing, level)
        if fits and other != NOWHERE:
            put(state, thing, place)
            fits = can_take(state, place, other, level)
            take(state, thing)
        if fits:
            best, best_load, best_num = place, load, holds
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
def traffic_with(state, neighbours, thing, other, places, count, traffic):
    """Add up a thing's traffic with what stands at each of `count` places, `other` left out."""
    for i in range(count):
        traffic[i] = 0.0
    for k in range(neighbours.indptr[thing], neighbours.indptr[thing + 1]):
        partner = neighbours.indices[k]
        if partner != other and state.place[partner] != NOWHERE:
            for i in range(count):
                if state.place[partner] == places[i]:
                    traffic[i] += neighbours.rate[k]


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
        skip = place == NOWHERE
        for i in range(count):
            skip = skip or places[i] == place
        if not skip:
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

    `state`: changed.
    `neighbours`: `Neighbours` of the things.
    `source`, `target`: (K,) the pairs, heaviest first.
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
    for empty in range(len(state.num_things)):
        if state.num_things[empty] > 0:
            continue
        best = NOWHERE
        for thing in range(num_things):
            place = state.place[thing]
            if place != NOWHERE and state.num_things[place] > 1:
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
        for place in range(len(state.num_things)):
            fewer = best == NOWHERE or state.num_things[place] < state.num_things[best]
            if fewer and state.num_things[place] < state.most[place]:
                best = place
        if best != NOWHERE:
            put(state, thing, best)


@kernel
def put_the_rest(state, order):
    """Put things that talk to nobody each at the least loaded place, in the order given."""
    for thing in order:
        if state.place[thing] == NOWHERE:
            put_alone(state, thing)
