"""Figure 8: what each feature adds, on the job of Figure 7."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.studies.papers.figure import Figure
from experiments.studies.papers.sweeps import sweep_rows
from experiments.studies.papers.task_allocation.real_jobs import (
    COSTS_READING,
    STORM_READING,
    TL_READING,
    best_over,
    gains,
    plot_gains,
)

if TYPE_CHECKING:
    import pandas as pd

METHODS = ("TD-RS", "TD-IMC", "TL", "Storm")


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a capacity, IMC gain in MB/s of each method."""
    return gains(rows, METHODS)


def measured(table: pd.DataFrame) -> list[str]:
    """Say what the paper says, with our figures."""
    mean = {name: table[name].mean() for name in METHODS}
    by_significance = best_over(table, "TD-RS", "TD-IMC")
    return [
        "Mean over the capacities: "
        + ", ".join(f"{name} {value:.0f} MB/s" for name, value in mean.items())
        + ".",
        f"TD-RS is up to {by_significance[0]:.0f} % better than TD-IMC, and better or equal at "
        f"{(table['TD-RS'] >= table['TD-IMC'] - 1e-9).sum()} of {len(table)} capacities; TD-IMC is "
        f"{100 * abs(mean['TD-IMC'] / mean['TL'] - 1):.0f} % "
        f"{'above' if mean['TD-IMC'] >= mean['TL'] else 'below'} TL on average.",
    ]


FIGURE = Figure(
    name="task-allocation/fig-8",
    title="Feature breakdown on bargain detection",
    source="Chatzistergiou and Viglas, CIKM 2014, Figure 8, section 7.4",
    words=(
        "TD with the IMC priority (TD-IMC) is about as good as TL at a lower complexity; relative "
        "significance (TD-RS) improves on both; Storm's default is below all."
    ),
    rows=sweep_rows(
        Path(__file__).with_name("fig_8.toml"),
        reduced={"instances.generate.0.capacity": [80, 200, 500, 1200, 3200]},
    ),
    table=table,
    plot=plot_gains,
    measured=measured,
    readings=(COSTS_READING, STORM_READING, TL_READING),
    size="Full: 23 capacities, 100 nodes. Reduced: 5 capacities.",
)
