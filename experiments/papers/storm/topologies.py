"""Several topologies together."""

from __future__ import annotations

from experiments.papers.figure import Figure
from experiments.papers.storm.traffic import (
    OURS,
    READING,
    SOURCE,
    against_default,
    plot_shares,
    shares_by,
    swept,
)

_NAME = "topologies"
_METHODS = ("default", "offline", "online", "online on few nodes", "optimum")

FIGURE = Figure(
    name="storm/topologies",
    title="Several topologies together",
    source=SOURCE,
    words=OURS,
    rows=swept("topologies"),
    table=shares_by(_NAME, methods=_METHODS),
    plot=plot_shares(_NAME),
    measured=against_default,
    readings=(
        READING,
        "Each topology is a spout and two stages of two executors, and asks for two workers. "
        "Spread over as many nodes as it has workers, as Storm does, it can save little; on few "
        "nodes is online with node_spread 0 and delta 1. All CPU is 45 % busy here, so that two "
        "nodes can hold one topology. With four topologies no optimum is computed: it takes "
        "ten times as long as with three.",
    ),
    size="Full: 1 to 4 topologies on 4 nodes of 4 slots, 30 seeds each. Reduced: 10.",
    panels=2,
)
