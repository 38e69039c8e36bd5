"""Latency of tuples, simulated: every node serves the tuples of its executors one after another.

What a tuple costs an executor is its load by its rate, exponentially distributed; where it goes
next is drawn by the traffic. From executor to executor it takes nothing in a slot, `NEAR` of a
network hop between slots of a node, and a network hop between nodes. The paper does not give what
that is: it is swept, in mean times that a node works on a tuple. No real workload, no live cluster.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from typing import TYPE_CHECKING, Any

from experiments.studies.papers.storm.runs import SCHEDULERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from optim.format.instance import Instance

HOPS = (1.0, 2.0, 4.0, 8.0, 16.0)
NEAR = 0.25
TUPLES, WARM_UP = 2_000, 400
RANDOM = 2
"""Placements at random beside those of the schedulers."""


def latency(seed: int) -> Iterator[dict[str, Any]]:
    """Yield traffic between nodes and mean latency, by placement and cost of a hop."""
    import numpy as np

    from experiments.generators import generate
    from optim import solve

    made = generate("storm_reference", seed=seed, stages=4, replication="2")
    places: dict[str, Any] = {}
    for name, (method, options) in SCHEDULERS.items():
        result: Any = solve(made, method, **options)
        places[name] = (result.plan.node_indices(made), result.plan.slot_indices(made))
    rng = np.random.default_rng(seed)
    node, slot = places["default"]
    for number in range(RANDOM):
        # the default's slots, dealt out anew: as many executors on each
        turned = rng.permutation(made.num_tasks)
        places[f"random {number}"] = node[turned], slot[turned]
    for name, (node, slot) in places.items():
        crossing = node[made.traffic.source] != node[made.traffic.target]
        share = 100.0 * float(made.traffic.rate[crossing].sum() / made.total_traffic)
        load = np.bincount(node, made.tasks.load[:, 0], made.num_nodes)
        for hop in HOPS:
            mean = simulated(made, node, slot, hop, np.random.default_rng([seed, 1]))
            told = {"nodes_traffic": share, "fullest": load.max() / load.mean(), "latency": mean}
            shown = {key: float(f"{value:.5g}") for key, value in told.items()}
            yield {"scheduler": name, "hop": hop, **shown}


def simulated(
    made: Instance,
    node: NDArray[np.int32],
    slot: NDArray[np.int32],
    hop: float,
    rng: np.random.Generator,
) -> float:
    """Return the mean latency of tuples from spout to sink, in times of work on a tuple."""
    import numpy as np
    from scipy.sparse import csr_array

    table = made.traffic
    size = (made.num_tasks, made.num_tasks)
    traffic = csr_array((table.rate, (table.source, table.target)), shape=size)
    received: NDArray[np.float64] = np.asarray(traffic.sum(axis=0)).ravel()
    sent: NDArray[np.float64] = np.asarray(traffic.sum(axis=1)).ravel()
    rate = np.where(received > 0, received, sent)
    work = made.tasks.load[:, 0] / made.nodes.capacity[node, 0] / np.maximum(rate, 1e-12)
    unit = float((work * rate).sum() / rate.sum())
    spouts = np.flatnonzero((received == 0) & (sent > 0))
    first = np.cumsum(sent[spouts]) / sent[spouts].sum()
    starts = np.cumsum(rng.exponential(1.0 / sent[spouts].sum(), TUPLES))
    begun = spouts[np.minimum(np.searchsorted(first, rng.random(TUPLES)), len(spouts) - 1)]
    rows = list(itertools.pairwise(traffic.indptr))
    follows = [traffic.indices[a:b].tolist() for a, b in rows]
    shares = [(np.cumsum(traffic.data[a:b]) / max(sent[e], 1e-12)).tolist()
              for e, (a, b) in enumerate(rows)]  # fmt: skip
    drawn = iter(rng.exponential(size=TUPLES * made.num_tasks).tolist())
    chosen = iter(rng.random(TUPLES * made.num_tasks).tolist())
    places, slots, works = node.tolist(), slot.tolist(), work.tolist()
    free = [0.0] * made.num_nodes
    took = np.zeros(TUPLES)
    events = list(zip(starts.tolist(), range(TUPLES), begun.tolist(), strict=True))
    heapq.heapify(events)
    while events:
        at, k, executor = heapq.heappop(events)
        place = places[executor]
        done = max(free[place], at) + works[executor] * next(drawn)
        free[place] = done
        onwards = follows[executor]
        if not onwards:
            took[k] = done - starts[k]
            continue
        number = bisect.bisect(shares[executor], next(chosen))
        following = onwards[min(number, len(onwards) - 1)]
        near = NEAR if slots[following] != slots[executor] else 0.0
        far = 1.0 if places[following] != place else near
        heapq.heappush(events, (done + far * hop * unit, k, following))
    return float(took[WARM_UP:].mean() / unit)
