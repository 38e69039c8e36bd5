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

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.storm.problem import scheduled_jobs
from heuristics.storm.even import nodes_to_use, slot_limits, slots_within_reach
from heuristics.storm.offline import ALPHA, NODE_SPREAD
from heuristics.task_allocation.groups import stable_descending
from optim.kernels.room import placing_room
from optim.methods.reduce import shuffled_evenly
from optim.methods.registry import Method, Option, Outcome
from optim.referee.result import Termination
from optim.rules.base import Form
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm.problem import StormJobs
    from heuristics.storm.online_kernel import State
    from optim.format.instance import Instance
    from optim.format.tables import Bools
    from optim.methods.registry import Request

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]


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

    Raises
    ------
    InvalidInput
        There are more than `optim.format.traffic.MAX_PAIRS`.
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
    """Start the greedy with nothing placed; the arguments are those of `online_kernel.State`."""
    from heuristics.storm.online_kernel import LEVELS, State

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

    Parameters
    ----------
    load
        (E, R) of the executors, which stand grouped by component.
    pairs
        Directed, heaviest first.
    num_slots, most
        W, at most E; ⌊M(α)⌋.
    gamma
        A slot's load is at most γ times the mean, where that is possible.
    capacity
        (R,) of a slot where the instance bounds it.

    Returns
    -------
    tuple
        (E,) slot of each executor (-1 where all hold `most`), and how many executors found none
        within γ.
    """
    from heuristics.storm import online_kernel

    ones = np.ones(num_slots, dtype=np.int64)
    soft = capacity.copy()
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
    online_kernel.place_pairs(state, around, pairs.source, pairs.target)
    online_kernel.fill_empty_places(state, around)
    online_kernel.deal_the_rest(state)
    return state.place, int(state.relaxed[1:].sum())


def run(instance: Instance, request: Request) -> Outcome:
    """Schedule all topologies.

    Raises
    ------
    UnsuitableMethod
        A component is in no topology, though the instance has some.
    """
    request, compiling = request.warmed(warm_up)
    began = time.perf_counter()
    jobs = scheduled_jobs(instance, METHOD.name)
    pairs = directed_pairs(instance)
    reach, notes = slots_within_reach(jobs)
    building = time.perf_counter() - began
    asked = float(request.options["gamma"])
    found = None
    for gamma in _gammas(asked):
        worker, first, late = _phase_1(instance, jobs, pairs, reach, request, gamma)
        node, slot, relaxed = _phase_2(instance, jobs, pairs, reach, worker, first, request)
        if found is None or not relaxed[2]:
            found = gamma, late, node, slot, relaxed
        if not relaxed[2]:
            break
    assert found is not None
    gamma, late, node, slot, relaxed = found
    if gamma != asked:
        notes.append(f"gamma {gamma:g}: with {asked:g} slots found no node with the capacity")
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


def _gammas(asked: float) -> list[float]:
    """Return the γ asked for, and those to try where slots of its load fit on no node."""
    return [1.0 + share * (asked - 1.0) for share in (_LESS if asked > 1.0 else _LESS[:1])]


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
        own = inside & (of == number)
        mine = Pairs(position[pairs.source[own]], position[pairs.target[own]], pairs.rate[own])
        place, over = executors_into_slots(
            instance.tasks.load[tasks], mine, count, most, gamma, capacity
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
    from heuristics.storm import online_kernel

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
    online_kernel.place_pairs(state, around, between.source, between.target)
    online_kernel.put_the_rest(state, np.argsort(-load[:, 0], kind="stable"))
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
        spare = max(0, workers - nodes + 1 - least)
        most.append(least + math.ceil(delta * spare - 1e-9))
        places.append(nodes)
    return np.array(most, dtype=np.int64), np.array(places, dtype=np.int64)


def warm_up() -> None:
    """Compile the kernels, or load them from the cache, on a tiny job."""
    from heuristics.storm import online_kernel

    u, v, rate = np.array([0, 1]), np.array([1, 2]), np.array([2.0, 1.0])
    load, inf = np.ones((3, 1)), np.full(1, np.inf)
    executors_into_slots(load, Pairs(u, v, rate), 2, 2, 1.5, inf)
    two = np.full(1, 2)
    state = new_state(
        load, np.zeros(3, np.int64), np.full(2, 2), np.full((3, 2, 1), np.inf), np.zeros(2), two,
        two, np.ones((1, 2), dtype=np.bool_),
    )  # fmt: skip
    around: Neighbours = neighbours(3, u, v, rate)
    online_kernel.place_pairs(state, around, u, v)
    online_kernel.put_the_rest(state, np.arange(3))


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
