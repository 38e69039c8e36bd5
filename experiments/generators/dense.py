"""``dense``, ``clustered``: complete graphs of unlike tasks, least and greatest loads of nodes.

So are the instances of capacitated clustering and of maximally diverse grouping. In ``clustered``
rates follow hidden groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.generators.kinds import Kind
from experiments.generators.task_graphs import check_ranges, instance_of
from optim.errors import InvalidInput, Problem
from optim.options import Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.format.instance import Instance

_DECIMALS = 3


def _build(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Draw rates and loads; bounds are shares of the mean load of a node."""
    check_ranges(p)
    if p["floor"] > min(1.0, p["slack"]):
        reason = "asks for more load than there is, or than nodes have room for"
        raise InvalidInput([Problem("floor", p["floor"], reason, "at most 1 and slack")])
    u, v = np.triu_indices(p["tasks"], 1)
    rate = rng.uniform(p["least_rate"], p["most_rate"], len(u))
    if "hidden" in p:
        group = rng.integers(0, p["hidden"] or 2 * p["nodes"], p["tasks"])
        rate = np.where(group[u] == group[v], p["within"] * rate, rate)
    rate = np.round(rate, _DECIMALS)
    load = np.round(rng.uniform(p["least_load"], p["most_load"], (p["tasks"], 1)), _DECIMALS)
    return instance_of(rng, name, p, (u, v, rate), load)


_COMMON = (
    Option("tasks", "int", 240, "number of tasks", minimum=2, maximum=4000),
    Option("nodes", "int", 12, "number of nodes", minimum=1, maximum=1000),
    Option("slack", "float", 1.25, "capacity of all nodes over all load", minimum=0.01),
    Option("floor", "float", 0.75, "least load of all nodes over all load", minimum=0, maximum=1),
    Option("unequal", "float", 0.0, "capacities differ by ± this share", minimum=0, maximum=0.99),
    Option("least_load", "float", 0.1, "least load of a task", minimum=0),
    Option("most_load", "float", 10.0, "greatest load of a task", minimum=1e-3),
    Option("least_rate", "float", 0.1, "least rate of a pair", minimum=1e-3),
    Option("most_rate", "float", 100.0, "greatest rate of a pair", minimum=1e-3),
)

DENSE = Kind(
    name="dense",
    summary="Tasks that all talk to each other, with least and greatest loads of nodes",
    parameters=_COMMON,
    build=_build,
    source="as RanReal in the literature of capacitated clustering",
)

CLUSTERED = Kind(
    name="clustered",
    summary="The same with hidden groups that talk more",
    parameters=(
        *_COMMON,
        Option("hidden", "int", None, "groups; twice as many as nodes", minimum=1),
        Option("within", "float", 3.0, "factor on rates within a group", minimum=0),
    ),
    build=_build,
)
