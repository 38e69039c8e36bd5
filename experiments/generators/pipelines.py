"""``pipeline``: groups in a row. ``figure2``: the paper's running example."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from experiments.generators.kinds import Kind, equal_nodes, job, numbers
from optim.options import Option
from streamplace.clusters.exchange.nodes import COSTS, LINKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from optim.format.instance import Instance


def build_pipeline(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build a pipeline; nothing in it is random.

    Raises
    ------
    InvalidInput
        A list that is none, or of another length.
    """
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


def build_figure_2(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build the example of Figure 2.

    Raises
    ------
    InvalidInput
        A list that is none, or of another length.
    """
    spare = p["spare"]
    nodes = [
        {**node, "background": {"cpu": 100.0 - spare}} for node in equal_nodes(p["nodes"], 100.0)
    ]
    sizes = (10, 20, 10, 10)
    rates = numbers(p["rates"], 3, "rates")
    groups = [(f"v{i + 1}", size, 40.0) for i, size in enumerate(sizes)]
    streams = [(f"v{i + 1}", f"v{i + 2}", rate) for i, rate in enumerate(rates)]
    origin = (
        "Chatzistergiou and Viglas, CIKM 2014, Figure 2 and Examples 1-2; "
        "the traffic's values are chosen: two about equal, the third much lower"
    )
    return job(name, origin, nodes, groups, streams)


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
        *LINKS,
        *COSTS,
    ),
)

FIGURE2 = Kind(
    name="figure2",
    random=False,
    summary="The running example: groups of 10, 20, 10 and 10 tasks, each 40 % of a node",
    source="Chatzistergiou and Viglas, CIKM 2014, Figure 2",
    build=build_figure_2,
    parameters=(
        Option("nodes", "int", 4, "number of nodes", minimum=1, maximum=100_000),
        Option("spare", "float", 40.0, "spare capacity of a node", minimum=1, maximum=100),
        Option("rates", "str", "20,20,2", "traffic of the three edges, MB/s"),
    ),
)
