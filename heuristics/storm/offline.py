"""``storm-offline``: the topology-based scheduler of Aniello et al., before anything has run.

It knows which component feeds which, and neither loads nor rates. Components are taken in an order
that keeps the streams; the executors of each go into the slots that hold executors of those that
feed it directly, least filled first, at most ⌊M(α)⌋ a slot. From the component with index above
⌊β·C⌋ on, empty slots come first, so that every worker is used. A topology's slots go round robin to
its nodes, those with most free slots first.

The scheduler overloads nodes where it must: the plan is returned, and the referee reports it.

Source: Aniello, Baldoni and Querzoni, "Adaptive online scheduling in Storm", DEBS 2013, section
3.1, doi:10.1145/2488222.2488267.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

import numpy as np

from formulations.storm.problem import scheduled_jobs
from heuristics.storm.even import nodes_to_use, slot_limits, slots_within_reach, take_slots
from optim.errors import Problem, UnsuitableMethod
from optim.format.traffic import find_cycle
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Termination
from optim.rules.base import MEASURED, Form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools
    from optim.methods.registry import Request

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]


def component_edges(instance: Instance) -> list[tuple[int, int]]:
    """Return which operators feed which, by streams and by single pairs, sorted; no loops."""
    edges = {(s.source, s.target) for s in instance.streams}
    operator, pairs = instance.tasks.operator, instance.traffic
    ends = np.stack([operator[pairs.source], operator[pairs.target]])
    edges |= {(int(a), int(b)) for a, b in np.unique(ends, axis=1).T}
    return sorted((a, b) for a, b in edges if a != b and min(a, b) >= 0)


def check_acyclic(instance: Instance, method: str) -> None:
    """Refuse a cycle of components.

    Raises `UnsuitableMethod`: naming the components of one.
    """
    cycle = find_cycle(instance.num_operators, component_edges(instance))
    if cycle:
        names = [instance.operators.ids[o] for o in [*cycle, cycle[0]]]
        reason = f"needs streams without a cycle; {' → '.join(names)} is one"
        remedy = "leave out the stream back, or use storm-online, which follows traffic alone"
        raise UnsuitableMethod(Problem(method, None, reason, remedy))


def linearised(components: list[int], edges: list[tuple[int, int]]) -> list[int]:
    """Return the components in an order that keeps the edges, of those ready the first in the file.

    Source: Aniello et al. 2013, section 3.1 (φ; ties are free there).

    Examples
    --------
    >>> linearised([0, 1, 2, 3], [(2, 0), (2, 1), (0, 3), (1, 3)])
    [2, 0, 1, 3]
    """
    inside = set(components)
    # Kahn's algorithm with a heap: of those ready the first in the file
    waiting = dict.fromkeys(components, 0)
    after: dict[int, list[int]] = {c: [] for c in components}
    for a, b in edges:
        if a in inside and b in inside:
            waiting[b] += 1
            after[a].append(b)
    ready = [c for c in components if waiting[c] == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        component = heapq.heappop(ready)
        order.append(component)
        for b in after[component]:
            waiting[b] -= 1
            if waiting[b] == 0:
                heapq.heappush(ready, b)
    return order


def fill_slots(
    components: Sequence[Integers],
    feeders: Sequence[Sequence[int]],
    load: Floats,
    num_slots: int,
    most: int,
    capacity: Floats,
    beta: float,
) -> Integers:
    """Put the executors of a topology into slots.

    `components`: c arrays of executors (rows of `load`) in the order φ.
    `feeders`: for each component the positions in φ of those that feed it directly.
    `load`, `capacity`: (E, R) load of the executors and (R,) of a slot, which binds only where the
        instance bounds slots.
    `num_slots`: W, at most the number of executors.
    `most`: ⌊M(α)⌋.
    `beta`: from the component with index above ⌊β·C⌋ (counted from 1) on, empty slots come first.
    Returns (E,) slot of each executor; -1 where every slot holds `most`. A slot's capacity gives
        way where it must.
    """
    executors_in = np.zeros(num_slots, dtype=np.int64)
    used = np.zeros((num_slots, load.shape[1]))
    holds = np.zeros((len(components), num_slots), dtype=np.bool_)
    slot = np.full(len(load), -1, dtype=np.int64)
    first_forced = math.floor(beta * len(components) + 1e-9)
    left = len(load)
    for position, executors in enumerate(components):
        has_feeder = holds[list(feeders[position])].any(axis=0)
        for executor in executors:
            fits = (executors_in < most) & (used + load[executor] <= capacity).all(axis=1)
            empty = executors_in == 0
            # the last executors fill the empty slots whatever β says: each worker must be used
            forced = position >= first_forced or left <= int(empty.sum())
            left -= 1
            # by preference; the capacity of a slot gives way last
            for choice in (empty & forced & fits, has_feeder & fits, fits, executors_in < most):
                if choice.any():
                    chosen = np.flatnonzero(choice)
                    best = chosen[executors_in[chosen].argmin()]
                    slot[executor] = best
                    executors_in[best] += 1
                    used[best] += load[executor]
                    holds[position, best] = True
                    break
    return slot


def run(instance: Instance, request: Request) -> Outcome:
    """Schedule every topology in the order of the file.

    Raises `UnsuitableMethod`: components feed each other in a circle, or one is in no topology,
        though there are some.
    """
    options = request.options
    jobs = scheduled_jobs(instance, METHOD.name)
    check_acyclic(instance, METHOD.name)
    edges = component_edges(instance)
    reach, notes = slots_within_reach(jobs)
    free = jobs.slots.copy()
    used = np.zeros(instance.num_nodes, dtype=np.int64)
    node = np.full(instance.num_tasks, -1, dtype=np.int32)
    slot = np.full(instance.num_tasks, -1, dtype=np.int32)
    for tasks, count, usable in zip(jobs.executors, reach.tolist(), jobs.nodes, strict=True):
        if not count:
            continue
        most, capacity = slot_limits(instance, len(tasks), count, options["alpha"])
        components, feeders = _in_order(instance, tasks, edges)
        load = instance.tasks.load[tasks]
        place = fill_slots(components, feeders, load, count, most, capacity, options["beta"])
        at, number = _spread(free, used, count, options["node_spread"], usable)
        placed = place >= 0
        node[tasks[placed]] = at[place[placed]]
        slot[tasks[placed]] = number[place[placed]]
    return Outcome(Termination.HEURISTIC, node, slot, notes=notes)


def _in_order(
    instance: Instance, tasks: Integers, edges: list[tuple[int, int]]
) -> tuple[list[Integers], list[list[int]]]:
    """Return a topology's components in the order φ (as rows of `tasks`), and their feeders."""
    operator = instance.tasks.operator[tasks]
    order = linearised(np.unique(operator).tolist(), edges)
    position = {component: i for i, component in enumerate(order)}
    feeders: list[list[int]] = [[] for _ in order]
    for a, b in edges:
        if a in position and b in position:
            feeders[position[b]].append(position[a])
    return [np.flatnonzero(operator == component) for component in order], feeders


def _spread(
    free: Integers, used: Integers, wanted: int, node_spread: float, usable: Bools
) -> tuple[Integers, Integers]:
    """Take slots round robin from the nodes with most free ones; `free` and `used` are changed."""
    among = np.flatnonzero(usable)
    count = nodes_to_use(free[among], wanted, node_spread)
    chosen = np.sort(among[np.argsort(-free[among], kind="stable")[:count]])
    return take_slots(free, used, wanted, chosen)


ALPHA = Option(
    "alpha",
    "float",
    0.0,
    "from 0 (executors even over slots) to 1 (one slot may hold nearly all)",
    minimum=0.0,
    maximum=1.0,
)
NODE_SPREAD = Option(
    "node_spread",
    "float",
    1.0,
    "over how many nodes a topology's slots go: from 0 (fewest that suffice) to 1 (all)",
    minimum=0.0,
    maximum=1.0,
)

METHOD = Method(
    name="storm-offline",
    family="storm",
    kind="heuristic",
    objective="internode_traffic",
    run=run,
    summary="Executors go to the slots of those that feed them; needs neither loads nor rates",
    source="Aniello, Baldoni and Querzoni, DEBS 2013, section 3.1",
    needs=("tasks", "nodes"),
    forms=frozenset({Form.SLOTS, Form.LEAVING, Form.SLOT_COUNT, Form.NODE_COUNT}) | MEASURED,
    options=(
        ALPHA,
        Option(
            "beta",
            "float",
            0.5,
            "share of the components, in order, after which empty slots are used first",
            minimum=0.0,
            maximum=1.0,
        ),
        NODE_SPREAD,
    ),
    promises_feasibility=False,
)
