"""Traffic by the number of stages."""

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

_NAME = "stages of bolts"

FIGURE = Figure(
    name="storm/stages",
    title="Traffic by the number of stages",
    source=SOURCE,
    words=OURS,
    rows=sweep_rows(
        Path(__file__).with_name("stages.toml"),
        reduced={"instances.generate.0.seeds": {"from": 0, "to": 0}},
        wide=True,
    ),
    table=shares_by("instance.stages", _NAME),
    plot=plot_shares(_NAME),
    measured=against_default,
    readings=(READING, "Two executors a component, online with alpha 0.2."),
    size="Full: 1 to 9 stages, three seeds each; 4 nodes of 4 slots, 4 workers. Reduced: one seed.",
    panels=2,
)
