"""Figure 7: bargain detection on stock quotes, node capacity swept."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from experiments.papers.figure import Figure
from experiments.papers.sweeps import sweep_rows
from experiments.papers.task_allocation.real_jobs import (
    COSTS_READING,
    METHODS,
    STORM_READING,
    TL_READING,
    compared,
    gains,
    plot_gains,
)

FIGURE = Figure(
    name="task-allocation/fig-7",
    title="Stock market bargain detection",
    source="Chatzistergiou and Viglas, CIKM 2014, Figure 7, section 7.4",
    words=(
        "Two spouts, a windowed average, a join, a filter and a result bolt on 100 nodes, "
        "790 MB/s; node capacity from the least that works until all agree. TD is up to 89 % "
        "better than Storm's default and up to 31 % better than TL, and saves up to 22 % of the "
        "job's network load."
    ),
    rows=sweep_rows(
        Path(__file__).with_name("fig_7.toml"),
        reduced={"instances.generate.0.capacity": [80, 200, 500, 1200, 3200]},
    ),
    table=partial(gains, methods=METHODS),
    plot=plot_gains,
    measured=partial(compared, total=790.0),
    readings=(COSTS_READING, STORM_READING, TL_READING),
    size="Full: 23 capacities, 100 nodes. Reduced: 5 capacities.",
)
