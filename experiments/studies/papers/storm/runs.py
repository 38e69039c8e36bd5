"""Runs of the tables that are no sweeps: instances built by hand, policies, times, latency.

Latency is simulated: every node serves the tuples of its executors one after another. What a tuple
costs an executor is its load by its rate, exponentially distributed; where it goes next is drawn by
the traffic. From executor to executor it takes nothing in a slot, `NEAR` of a network hop between
slots of a node, and a network hop between nodes. The paper does not give what that is: it is swept,
in mean times that a node works on a tuple. No real workload, no live cluster.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from experiments.generators import generate
from experiments.generators.kinds import instance
from heuristics.storm.even import most_executors
from optim import Plan, evaluate, solve
from optim.format.instance import Instance
from streamplace.policies.registry import read_planner

Row = dict[str, Any]

SCHEDULERS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("storm-even", {}),
    "offline": ("storm-offline", {"alpha": 0.2}),
    "online": ("storm-online", {"alpha": 0.2}),
}
"""Method and options; the paper gives no alpha."""


def rules(seed: int) -> Row:
    """How even the default is on a random cluster, whether all topologies get workers; M."""
    rng = np.random.default_rng(seed)
    nodes, slots = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    requested = [int(w) for w in rng.integers(1, 7, int(rng.integers(1, 4)))]
    executors = [int(e) for e in rng.integers(1, 12, len(requested))]
    instance = topologies(requested, executors, nodes, slots)
    result: Any = solve(instance, "storm-even")
    row: Row = {"slots": nodes * slots, "wanted": sum(map(min, requested, executors))}
    row["possible"] = result.plan is not None and "free slots for" not in " ".join(result.notes)
    if row["possible"]:
        node, slot = result.plan.node_indices(instance), result.plan.slot_indices(instance)
        uneven_executors, uneven_workers = [], []
        # executors are numbered through, topology by topology
        for first, count in zip(np.cumsum([0, *executors]), executors, strict=False):
            # workers of a topology: (node, slot) pairs with their numbers of executors
            pairs = np.stack([node, slot])[:, first : first + count]
            places, here = np.unique(pairs, axis=1, return_counts=True)
            # uneven: most less least, of executors in workers, and of workers on nodes
            uneven_executors.append(int(np.ptp(here)))
            uneven_workers.append(int(np.ptp(np.bincount(places[0], minlength=nodes))))
        row |= {"executors_uneven": max(uneven_executors), "workers_uneven": uneven_workers[0]}
    e, w = executors[0], min(requested[0], executors[0])
    bounds = {f"M{alpha}": most_executors(e, w, float(alpha)) for alpha in (0, 1)}
    return row | {"E": e, "W": w} | bounds


def built(busy_edge: float, scheduler: str) -> Row:
    """Traffic of two edges, of which the offline scheduler cannot recognise the near-idle one."""
    edges = [(0, 1, 1.0), (0, 2, busy_edge), (1, 3, 1.0)]
    result: Any = solve(topologies([2], [1] * 4, 2, 1, edges), SCHEDULERS[scheduler][0])
    return {"nodes_traffic": result.evaluation.internode_traffic}


def hertz(seed: int) -> Row:
    """Utilisation on nodes of other clocks, predicted in Hz and by the referee."""
    rng = np.random.default_rng(seed)
    clock = rng.choice([1.0, 1.5, 2.0, 3.0], 3) * 1000
    share = rng.uniform(2, 15, 12)  # percent of a 1 GHz node
    # percent of a 1 GHz node are tens of MHz
    instance = topologies([3], [12], 3, 1, loads=(share * 10).tolist(), capacity=clock.tolist())
    node = rng.integers(0, 3, 12).astype(np.int32)
    evaluation: Any = evaluate(instance, Plan.from_indices(instance, node))
    # percent of 1 GHz by GHz: a node of 2 GHz is used half as much
    use = np.array([(share[node == n] / (clock[n] / 1000)).sum() for n in range(3)])
    evaluated = 100 * np.array([evaluation.node_loads[f"n{n}"]["cpu"] for n in range(3)]) / clock
    worst = float(np.abs(use - evaluated).max())
    return {"largest_error": worst, "at_2_GHz": 10.0 * 1000 / 2000}


def trigger(what: str, seed: int, bound: float = 0.0) -> Row:
    """When the run-time loop reschedules on overload, and on less traffic."""
    return {"overload": overload, "traffic": less_traffic, "drift": drift}[what](seed, bound)


def overload(seed: int, window: float) -> Row:
    """Seconds after which an overload of a `window` is answered."""
    planner = policy(f"window={window},interval=0,period=30")
    instance = topologies(
        [2], [1] * 4, 2, 2, chain([5.0, 1.0, 5.0]), [6.0, 6.0, 1.0, 1.0], [10.0, 10.0], [0, 0, 1, 1]
    )
    memory: Any = {}
    for seconds in range(30, 600, 30):
        plan = planner.plan(instance, memory, 0, float(seconds))
        if "overloaded for" in plan.note:
            return {"fired_after": seconds}
        memory = plan.memory
    return {"fired_after": None}


def less_traffic(seed: int, gain: float) -> Row:
    """Percent less traffic that a new schedule has, and whether it is taken."""
    planner = policy(f"gain={gain},interval=0,alpha=1,delta=1")
    rng = np.random.default_rng(seed)
    rates = rng.uniform(1, 20, 7)
    now = place(planner.planner, of_rates(rates, np.arange(8) % 2))
    instance = of_rates(rates * rng.lognormal(0.0, 0.4, 7), now)
    taken, fresh = place(planner, instance), place(planner.planner, instance)
    before, after = crossing(instance, now), crossing(instance, fresh)
    return {"less": 100 * (before - after) / before, "taken": bool((taken != now).any())}


def drift(seed: int, _: float) -> Row:
    """Traffic between nodes over 40 periods: of the first schedule, and of the run-time loop's."""
    planner = policy("gain=10,interval=180,alpha=1,delta=1")
    rng = np.random.default_rng(seed)
    rates = rng.uniform(1, 20, 7)
    first: Any = None
    memory: Any = {}
    now = np.arange(8) % 2
    sums = np.zeros(2)
    for period in range(40):
        # a random walk on a log scale, a step a minute
        rates = np.clip(rates * rng.lognormal(0.0, 0.25, 7), 0.5, 60)
        if first is None:
            first = now = place(planner.planner, of_rates(rates, now))
        instance = of_rates(rates, now)
        plan = planner.plan(instance, memory, 0, 60.0 * period)
        now, memory = plan.deployment.node, plan.memory
        # both under the rates of now
        sums += [crossing(instance, first), crossing(instance, now)]
    return {"fixed": sums[0], "adaptive": sums[1]}


def policy(settings: str) -> Any:
    """Return the run-time loop with settings; its `planner` reschedules always."""
    return read_planner(f"storm-trigger:{settings}", 0)


def place(planner: Any, instance: Instance) -> Any:
    """(T,) nodes that a policy plans at the start."""
    return planner.plan(instance, {}, 0, 0.0).deployment.node


def of_rates(rates: Any, at: Any) -> Instance:
    """Build a chain of eight executors that are somewhere, by the rates between them."""
    return topologies([4], [1] * 8, 2, 2, chain(rates.tolist()), at=np.asarray(at).tolist())


def crossing(instance: Instance, node: Any) -> float:
    """Return the traffic between nodes."""
    nodes = np.asarray(node, dtype=np.int32)
    return float(instance.total_traffic - instance.flows.collocated(nodes, instance.num_nodes))


def chain(rates: Sequence[float]) -> list[tuple[int, int, float]]:
    """Return the edges of a chain."""
    return [(i, i + 1, rate) for i, rate in enumerate(rates)]


def topologies(
    workers: list[int],
    executors: list[int],
    nodes: int,
    slots: int,
    edges: Sequence[tuple[int, int, float]] = (),
    loads: Sequence[float] = (),
    capacity: Sequence[float] = (),
    at: Sequence[int] = (),
) -> Instance:
    """Build topologies of one component each, or with edges one topology of all components."""
    of = [i for i, count in enumerate(executors) for _ in range(count)]
    tasks: list[Row] = [
        {"id": f"c{c}/{t - of.index(c)}", "operator": f"c{c}", "load": {"cpu": 1.0}}
        for t, c in enumerate(of)
    ]
    for task, load in zip(tasks, loads, strict=False):
        task["load"] = {"cpu": load}
    for task, n in zip(tasks, at, strict=False):
        task["node"] = f"n{n}"
    room = capacity or [1e6] * nodes
    one = len(workers) == 1
    return instance(
        "built", "by hand",
        nodes=[{"id": f"n{n}", "slots": slots, "capacity": {"cpu": room[n]}} for n in range(nodes)],
        topologies=[{"id": f"t{i}", "workers": w} for i, w in enumerate(workers)],
        operators=[
            {"id": f"c{i}", "topology": f"t{0 if one else i}"} for i in range(len(executors))
        ],
        tasks=tasks,
        streams=[{"from": f"c{a}", "to": f"c{b}", "rate": rate} for a, b, rate in edges],
    )  # fmt: skip


def sizes(replication: int, seed: int) -> Row:
    """Seconds and traffic of online and of the exact model. Sweeps measure no processor time."""
    instance = generate("storm_reference", stages=3, replication=str(replication), seed=seed)
    row: Row = {}
    for name, method, options in (
        ("online", "storm-online", {"alpha": 0.2}),
        ("few_nodes", "storm-online", {"alpha": 0.2, "delta": 1.0, "node_spread": 0.0}),
        ("exact", "storm-milp", {"time_limit": 5, "threads": 1}),
    ):
        began = time.process_time()
        result: Any = solve(instance, method, **options)
        row[f"{name}_s"] = time.process_time() - began
        feasible = result.evaluation is not None and result.evaluation.feasible
        row[name] = result.evaluation.internode_traffic if feasible else None
    return {"executors": instance.num_tasks, **row, "proved": result.termination.value == "optimal"}


HOPS = (1.0, 2.0, 4.0, 8.0, 16.0)
NEAR = 0.25
TUPLES, WARM_UP = 2_000, 400
RANDOM = 2  # Placements at random beside those of the schedulers.


def latency(seed: int) -> Iterator[dict[str, Any]]:
    """Yield traffic between nodes and mean latency, by placement and cost of a hop."""
    instance = generate("storm_reference", seed=seed, stages=4, replication="2")
    places: dict[str, Any] = {}
    for name, (method, options) in SCHEDULERS.items():
        result: Any = solve(instance, method, **options)
        places[name] = (result.plan.node_indices(instance), result.plan.slot_indices(instance))
    rng = np.random.default_rng(seed)
    node, slot = places["default"]
    for number in range(RANDOM):
        # the default's slots, dealt out anew: as many executors on each
        turned = rng.permutation(instance.num_tasks)
        places[f"random {number}"] = node[turned], slot[turned]
    for name, (node, slot) in places.items():
        crossing = node[instance.traffic.source] != node[instance.traffic.target]
        share = 100.0 * float(instance.traffic.rate[crossing].sum() / instance.total_traffic)
        load = np.bincount(node, instance.tasks.load[:, 0], instance.num_nodes)
        for hop in HOPS:
            mean = simulated(instance, node, slot, hop, np.random.default_rng([seed, 1]))
            figures = {"nodes_traffic": share, "fullest": load.max() / load.mean(), "latency": mean}
            shown = {key: float(f"{value:.5g}") for key, value in figures.items()}
            yield {"scheduler": name, "hop": hop, **shown}


def simulated(
    instance: Instance,
    node: NDArray[np.int32],
    slot: NDArray[np.int32],
    hop: float,
    rng: np.random.Generator,
) -> float:
    """Return the mean latency of tuples from spout to sink, in times of work on a tuple."""
    table = instance.traffic
    size = (instance.num_tasks, instance.num_tasks)
    traffic = csr_array((table.rate, (table.source, table.target)), shape=size)
    received: NDArray[np.float64] = np.asarray(traffic.sum(axis=0)).ravel()
    sent: NDArray[np.float64] = np.asarray(traffic.sum(axis=1)).ravel()
    # (T,) tuples/s of an executor: those that it receives, of a spout those that it sends
    rate = np.where(received > 0, received, sent)
    work = instance.tasks.load[:, 0] / instance.nodes.capacity[node, 0] / np.maximum(rate, 1e-12)
    # mean time of work on a tuple, the unit of hops and of latency
    unit = float((work * rate).sum() / rate.sum())
    spouts = np.flatnonzero((received == 0) & (sent > 0))
    first = np.cumsum(sent[spouts]) / sent[spouts].sum()
    starts = np.cumsum(rng.exponential(1.0 / sent[spouts].sum(), TUPLES))
    begun = spouts[np.minimum(np.searchsorted(first, rng.random(TUPLES)), len(spouts) - 1)]
    rows = list(itertools.pairwise(traffic.indptr))
    follows = [traffic.indices[a:b].tolist() for a, b in rows]
    shares = [(np.cumsum(traffic.data[a:b]) / max(sent[e], 1e-12)).tolist()
              for e, (a, b) in enumerate(rows)]  # fmt: skip
    # a tuple passes each executor at most once: so many draws are enough
    drawn = iter(rng.exponential(size=TUPLES * instance.num_tasks).tolist())
    chosen = iter(rng.random(TUPLES * instance.num_tasks).tolist())
    places, slots, works = node.tolist(), slot.tolist(), work.tolist()
    free = [0.0] * instance.num_nodes
    took = np.zeros(TUPLES)
    events = list(zip(starts.tolist(), range(TUPLES), begun.tolist(), strict=True))
    heapq.heapify(events)
    while events:
        at, k, executor = heapq.heappop(events)
        place = places[executor]
        # one server a node, first come, first served; service times are exponential
        done = max(free[place], at) + works[executor] * next(drawn)
        free[place] = done
        onwards = follows[executor]
        if not onwards:
            took[k] = done - starts[k]
            continue
        # rounding may leave the last cumulated share just below 1
        number = bisect.bisect(shares[executor], next(chosen))
        following = onwards[min(number, len(onwards) - 1)]
        near = NEAR if slots[following] != slots[executor] else 0.0
        far = 1.0 if places[following] != place else near
        heapq.heappush(events, (done + far * hop * unit, k, following))
    # the first tuples meet empty queues
    return float(took[WARM_UP:].mean() / unit)
