"""Jobs of groups after the CIKM 2014 paper (Chatzistergiou and Viglas): in a row, and random.

``pipeline``: groups in a row.

``random_graphs`` (section 7.3): what the text leaves open is settled so: the number of groups is
uniform; each group has one task, the rest fall on the groups evenly (multinomial); group i feeds as
many distinct later groups as its fan-out says, or as there are. The paper's mean optimum is 13.15
MB/s a graph, ours about 16.2: its generator differs in something.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.generators.kinds import NETWORK, Kind, equal_nodes, fits, job, numbers
from optim.errors import InvalidInput, Problem
from optim.format.instance import Instance
from optim.plugins import Option


def build_pipeline(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build a pipeline; nothing in it is random."""
    count, nodes = p["groups"], p["nodes"]
    sizes = [int(size) for size in numbers(p["tasks"], count, "tasks", whole=True)]
    costs = numbers(p["costs"], count, "costs")
    rates = numbers(p["rates"], count - 1, "rates") if count > 1 else []
    capacity = p["capacity"] or sum(costs) / nodes * p["slack"]
    groups = [(f"v{i + 1}", sizes[i], costs[i]) for i in range(count)]
    edges = pairwise(f"v{i + 1}" for i in range(count))
    streams = [(a, b, rate) for (a, b), rate in zip(edges, rates, strict=True)]
    origin = "pipeline of groups; node capacity is the mean load times the slack"
    return job(name, origin, equal_nodes(nodes, capacity), groups, streams, network=p)


PIPELINE = Kind(
    name="pipeline",
    random=False,
    summary="Groups of equal tasks in a row, each feeding the next",
    source="Chatzistergiou and Viglas, CIKM 2014, sections 7.1 and 7.2",
    build=build_pipeline,
    parameters=(
        Option("groups", "int", 4, "number of groups", minimum=1, maximum=10_000),
        Option("tasks", "str", "100", "tasks a group: one number, or one for each"),
        Option("costs", "str", "200", "processing cost of each group, percent"),
        Option("rates", "str", "15", "traffic of each edge, MB/s"),
        Option("nodes", "int", 20, "number of nodes", minimum=1, maximum=100_000),
        Option("slack", "float", 1.1, "capacity of all nodes over all costs", minimum=0.01),
        Option("capacity", "float", None, "of each node, instead of slack", minimum=1e-6),
        *NETWORK,
    ),
)

_REDRAWS = 1000


def build(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Draw a job; with unequal costs draw again until some packing fits."""
    _check(p)
    for _ in range(_REDRAWS):
        drawn = _draw(rng, name, p)
        if fits(drawn):
            return drawn
    reason = f"and the other parameters gave no job that fits in {_REDRAWS} draws"
    raise InvalidInput(Problem("capacity", p["capacity"], reason, "raise capacity or nodes"))


def _check(p: Mapping[str, Any]) -> None:
    if p["least_groups"] > p["most_groups"]:
        raise InvalidInput(Problem("least_groups", p["least_groups"], "is above most_groups"))
    if p["most_groups"] > p["tasks"]:
        raise InvalidInput(Problem("most_groups", p["most_groups"], "is above tasks"))
    if p["fan_out_1"] + p["fan_out_2"] > 1 + 1e-9:
        raise InvalidInput(Problem("fan_out_2", p["fan_out_2"], "and fan_out_1 exceed 1 together"))
    if p["least_rate"] > p["most_rate"]:
        raise InvalidInput(Problem("least_rate", p["least_rate"], "is above most_rate"))
    room = p["nodes"] * p["capacity"]
    if p["cost"] > room * (1 + 1e-6):
        reason = f"is above the capacity of all nodes, {room:g}"
        raise InvalidInput(Problem("cost", p["cost"], reason, "raise capacity or nodes"))


def _draw(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    count = int(rng.integers(p["least_groups"], p["most_groups"] + 1))
    size = 1 + rng.multinomial(p["tasks"] - count, np.full(count, 1 / count))
    cost = _costs(rng, size, p)
    third = max(0.0, 1 - p["fan_out_1"] - p["fan_out_2"])  # rounding may take it below 0
    chances = [p["fan_out_1"], p["fan_out_2"], third]
    streams = []
    for source in range(count - 1):
        later = np.arange(source + 1, count)
        fan_out = min(int(rng.choice([1, 2, 3], p=np.array(chances))), len(later))
        for target in np.sort(rng.choice(later, size=fan_out, replace=False)):
            rate = float(rng.uniform(p["least_rate"], p["most_rate"]))
            streams.append((f"g{source}", f"g{target}", rate))
    groups = [(f"g{i}", int(size[i]), float(cost[i])) for i in range(count)]
    origin = "random job as in Chatzistergiou and Viglas, CIKM 2014, section 7.3"
    return job(name, origin, equal_nodes(p["nodes"], p["capacity"]), groups, streams, network=p)


def _costs(
    rng: np.random.Generator, size: NDArray[np.int64], p: Mapping[str, Any]
) -> NDArray[np.float64]:
    """(G,) cost of each group; they sum to `cost`."""
    if p["costs"] == "proportional":
        weight = size.astype(np.float64)
    elif p["costs"] == "noisy":
        weight = size * rng.uniform(1 - p["noise"], 1 + p["noise"], len(size))
    else:  # ranked: the more tasks, the more cost, but not in proportion
        drawn = np.sort(rng.uniform(0.1, 1.0, len(size)))
        weight = np.empty(len(size))
        weight[np.argsort(size, kind="stable")] = drawn
    return weight * (p["cost"] / weight.sum())


RANDOM_GRAPHS = Kind(
    name="random_graphs",
    summary="Random acyclic jobs of few groups, small enough to prove",
    source="Chatzistergiou and Viglas, CIKM 2014, section 7.3",
    build=build,
    parameters=(
        Option("tasks", "int", 17, "tasks of a job", minimum=1, maximum=1_000_000),
        Option("least_groups", "int", 3, "fewest groups", minimum=1, maximum=1000),
        Option("most_groups", "int", 7, "most groups", minimum=1, maximum=1000),
        Option("cost", "float", 500.0, "processing cost of the job, percent", minimum=1e-6),
        Option("nodes", "int", 8, "number of nodes", minimum=1, maximum=100_000),
        Option("capacity", "float", 100.0, "of each node, percent", minimum=1e-6),
        Option("least_rate", "float", 5.0, "least traffic of an edge, MB/s", minimum=0),
        Option("most_rate", "float", 20.0, "most traffic of an edge, MB/s", minimum=0),
        Option("fan_out_1", "float", 0.70, "share of groups that feed one", minimum=0, maximum=1),
        Option("fan_out_2", "float", 0.25, "share that feed two", minimum=0, maximum=1),
        Option(
            "costs", "str", "proportional",
            "group costs: in proportion to tasks, so with noise, or only in the same order",
            choices=("proportional", "noisy", "ranked"),
        ),
        Option("noise", "float", 0.3, "of noisy costs, ±", minimum=0, maximum=0.99),
        *NETWORK,
    ),
)  # fmt: skip
