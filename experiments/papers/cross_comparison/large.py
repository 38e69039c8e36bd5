"""Larger clusters."""

from __future__ import annotations

from pathlib import Path

from experiments.papers.cross_comparison.judging import measured, plot, table_of
from experiments.papers.figure import Figure
from experiments.papers.sweeps import sweep_rows

_SEEDS = range(30)
_PARAMETERS = {"components": 10, "executors": 60, "topologies": 4, "workers": 8, "nodes": 16}

FIGURE = Figure(
    name="cross-comparison/large",
    title="Larger clusters",
    source="Ours; `storm_cluster`",
    words="No paper compares these methods.",
    rows=sweep_rows(
        Path(__file__).with_name("large.toml"),
        reduced={"instances.generate.0.seeds": {"from": 0, "to": 1}},
        wide=True,
    ),
    table=table_of(_SEEDS, _PARAMETERS),
    plot=plot,
    measured=measured,
    readings=(
        "Means over the plans there are, infeasible ones included, with 95 % intervals; feasible "
        "is by the referee, slots counting where a plan has them. Methods that know no slots are "
        "given the instance without them.",
        "Seconds: geometric mean shifted by 10 ms, building and solving, one thread, on two cores "
        "that had other work beside it: to compare, not to go by.",
        "Each method gets 2 s. The exact models, which prove nothing here in a minute, are left "
        "out.",
    ),
    size="Full: 30 seeds at 50, 70 and 85 % of all CPU; four topologies of 60 "
    "executors and 8 workers on 16 nodes of 4 slots. "
    "Reduced: two seeds.",
)
