"""Figure 6: trending topics on Twitter, node capacity swept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.papers.figure import Figure
from experiments.papers.sweeps import sweep_rows
from experiments.papers.task_allocation.real_jobs import (
    COSTS_READING,
    STORM_READING,
    compared,
    gains,
    plot_gains,
)

if TYPE_CHECKING:
    import pandas as pd

METHODS = ("TD", "TL", "Storm", "imc-search", "optimum")
TOTAL = 143.0


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a capacity, IMC gain in MB/s of each method."""
    return gains(rows, METHODS)


def measured(table: pd.DataFrame) -> list[str]:
    """Say what the paper says, with our figures."""
    return compared(table, TOTAL)


FIGURE = Figure(
    name="task-allocation/fig-6",
    title="Twitter trending topics",
    source="Chatzistergiou and Viglas, CIKM 2014, Figure 6, section 7.4",
    words=(
        "A spout, a count, a rank and a merge bolt on 100 nodes, 143 MB/s; node capacity from the "
        "least that works until all agree. TD is up to 91 % better than Storm's default and 79 % "
        "better than TL, and saves up to 13 % of the job's network load."
    ),
    rows=sweep_rows(
        Path(__file__).with_name("fig_6.toml"),
        reduced={"instances.generate.0.capacity": [60, 150, 400, 1000, 2900]},
    ),
    table=table,
    plot=plot_gains,
    measured=measured,
    readings=(COSTS_READING, STORM_READING),
    size="Full: 23 capacities, 100 nodes. Reduced: 5 capacities.",
)
