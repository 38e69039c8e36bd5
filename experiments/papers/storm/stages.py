"""Traffic by the number of stages."""

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

_NAME = "stages of bolts"

FIGURE = Figure(
    name="storm/stages",
    title="Traffic by the number of stages",
    source=SOURCE,
    words=OURS,
    rows=swept("stages"),
    table=shares_by(_NAME),
    plot=plot_shares(_NAME),
    measured=against_default,
    readings=(READING, "Two executors a component."),
    size="Full: 1 to 8 stages, 30 seeds each; 4 nodes of 4 slots, 4 workers. Reduced: 10.",
    panels=2,
)
