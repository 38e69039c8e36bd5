"""Traffic by grouping."""

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

_NAME = "grouping"

FIGURE = Figure(
    name="storm/grouping",
    title="Traffic by grouping",
    source=SOURCE,
    words=OURS,
    rows=swept("grouping"),
    table=shares_by(_NAME),
    plot=plot_shares(_NAME),
    measured=against_default,
    readings=(
        READING,
        "Four stages; four executors a component, so that all talk to all of the next stage.",
        "The optimum does not hold slots to M(alpha): the paper's formulation does not.",
    ),
    size="Full: three groupings, 30 seeds each; 4 nodes of 4 slots, 4 workers. Reduced: 10.",
    panels=2,
)
