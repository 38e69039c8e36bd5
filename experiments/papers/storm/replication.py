"""Traffic by the number of executors a component."""

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

_NAME = "executors a component"

FIGURE = Figure(
    name="storm/replication",
    title="Traffic by the number of executors a component",
    source=SOURCE,
    words=OURS,
    rows=swept("replication"),
    table=shares_by(_NAME),
    plot=plot_shares(_NAME),
    measured=against_default,
    readings=(READING, "Three stages after the spout."),
    size="Full: 1 to 5 executors a component, 30 seeds each; 4 nodes of 4 slots, 4 workers. "
    "Reduced: 10.",
    panels=2,
)
