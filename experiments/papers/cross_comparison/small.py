"""Small clusters, with the exact models."""

from __future__ import annotations

from pathlib import Path

from experiments.papers.cross_comparison.judging import measured, plot, table_of
from experiments.papers.figure import Figure
from experiments.papers.sweeps import sweep_rows

_SEEDS = range(30)
_PARAMETERS = {
    "components": 5,
    "executors": 8,
    "topologies": 2,
    "workers": 2,
    "nodes": 4,
    "slots": 2,
}

FIGURE = Figure(
    name="cross-comparison/small",
    title="Small clusters, with the exact models",
    source="Ours; `storm_cluster`",
    words="No paper compares these methods.",
    rows=sweep_rows(
        Path(__file__).with_name("small.toml"),
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
        "Each method gets 2 s. eoa-milp uses least capacity first, which takes longer for most of "
        "these. imc-exact and storm-milp have the same aim, but only the latter must give each "
        "topology its workers: so imc-exact may send less, and has plans where storm-milp proves "
        "that there are none.",
    ),
    size="Full: 30 seeds at 50, 70 and 85 % of all CPU; two topologies of 8 executors and 2 "
    "workers on 4 nodes of 2 slots. Reduced: two seeds.",
)
