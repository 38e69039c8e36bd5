"""``twitter``, ``bargain`` and ``figure2``: jobs of the paper as kinds of generated instances.

``twitter`` and ``bargain`` (section 7.4): the shapes, the number of nodes and the total traffic
(143 and 790 MB/s) are the paper's. The costs of the groups and the traffic of the single edges
stood in figures whose text is lost: those here, and the numbers of tasks, are chosen among a few
thousand drawn at random, with an eye on the percentages that the text does state.

``figure2``: the paper's running example.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.generators.kinds import NETWORK, Kind, equal_nodes, job, numbers
from optim.format.instance import Instance
from optim.plugins import Option

_SOURCE = "Chatzistergiou and Viglas, CIKM 2014"

_JOBS = tomllib.loads(Path(__file__).with_name("jobs.toml").read_text(encoding="utf-8"))


def _builder(shape: str) -> Callable[..., Instance]:
    groups, streams = _JOBS[shape]["groups"], _JOBS[shape]["streams"]

    def build(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
        """Build the job at an input rate; costs and traffic follow it in proportion."""
        rate = p["input_rate"]
        return job(
            name,
            "after Chatzistergiou and Viglas, CIKM 2014, section 7.4; costs and edges are chosen",
            equal_nodes(p["nodes"], p["capacity"]),
            [(g, k, cost * rate) for g, k, cost in groups],
            [(a, b, traffic * rate) for a, b, traffic in streams],
            network=p,
        )

    return build


_PARAMETERS = (
    Option("nodes", "int", 100, "number of nodes", minimum=1, maximum=100_000),
    Option("capacity", "float", 200.0, "of each node, percent of a core", minimum=1e-6),
    Option(
        "input_rate", "float", 1.0, "share of the peak rate; scales costs and traffic", minimum=1e-6
    ),
    *NETWORK,
)

TWITTER = Kind(
    "twitter", "Trending topics: spout, count, rank, merge; 143 MB/s", _PARAMETERS,
    _builder("twitter"), f"{_SOURCE}, Figure 6 (costs chosen)", random=False,
)  # fmt: skip

BARGAIN = Kind(
    "bargain", "Bargain detection on stock quotes: six groups, a join; 790 MB/s", _PARAMETERS,
    _builder("bargain"), f"{_SOURCE}, Figure 7 (costs chosen)", random=False,
)  # fmt: skip


def build_figure_2(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build the example of Figure 2."""
    background = {"background": {"cpu": 100.0 - p["spare"]}}
    nodes = [{**node, **background} for node in equal_nodes(p["nodes"], 100.0)]
    sizes = (10, 20, 10, 10)
    rates = numbers(p["rates"], 3, "rates")
    groups = [(f"v{i + 1}", size, 40.0) for i, size in enumerate(sizes)]
    streams = [(f"v{i + 1}", f"v{i + 2}", rate) for i, rate in enumerate(rates)]
    origin = (
        "Chatzistergiou and Viglas, CIKM 2014, Figure 2 and Examples 1-2; "
        "the traffic's values are chosen: two about equal, the third much lower"
    )
    return job(name, origin, nodes, groups, streams)


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
