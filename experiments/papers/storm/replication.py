"""Traffic by the number of executors a component."""

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

_NAME = "executors a component"

FIGURE = Figure(
    name="storm/replication",
    title="Traffic by the number of executors a component",
    source=SOURCE,
    words=OURS,
    rows=sweep_rows(
        Path(__file__).with_name("replication.toml"),
        reduced={"instances.generate.0.seeds": {"from": 0, "to": 0}},
        wide=True,
    ),
    table=shares_by("instance.replication", _NAME),
    plot=plot_shares(_NAME),
    measured=against_default,
    readings=(READING, "Three stages after the spout."),
    size="Full: 1 to 5 executors a component, three seeds each; 4 nodes of 4 slots, 4 workers. "
    "Reduced: one seed.",
    panels=2,
)
