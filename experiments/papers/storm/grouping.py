"""Traffic by grouping."""

from __future__ import annotations

from pathlib import Path

from experiments.papers.figure import Figure
from experiments.papers.storm.traffic import (
    OURS,
    READING,
    SOURCE,
    against_default,
    plot_shares,
    shares_by,
)
from experiments.papers.sweeps import sweep_rows

_NAME = "grouping"

FIGURE = Figure(
    name="storm/grouping",
    title="Traffic by grouping",
    source=SOURCE,
    words=OURS,
    rows=sweep_rows(
        Path(__file__).with_name("grouping.toml"),
        reduced={"instances.generate.0.seeds": {"from": 0, "to": 0}},
        wide=True,
    ),
    table=shares_by("instance.grouping", _NAME),
    plot=plot_shares(_NAME),
    measured=against_default,
    readings=(
        READING,
        "Four stages; four executors a component, so that all talk to all of the next stage.",
        "The optimum does not hold slots to M(alpha): the paper's formulation does not.",
    ),
    size="Full: three groupings, three seeds each; 4 nodes of 4 slots, 4 workers. "
    "Reduced: one seed.",
    panels=2,
)
