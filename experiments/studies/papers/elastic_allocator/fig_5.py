"""Figure 5: deviation of CPU and bandwidth use, workload swept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.studies.papers.claims.rows import table_rows
from experiments.studies.papers.elastic_allocator.curves import (
    LABELS,
    READINGS,
    SIZE,
    WORKLOAD,
    curves,
)
from experiments.studies.papers.elastic_allocator.running import (
    BEST_SPREAD,
    BOTH,
    EVEN,
    PAPER_UNTIL,
    SPREAD,
)
from experiments.studies.papers.figure import Figure
from streamplace.present.drawing import draw_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

CPU, LINKS = ", CPU", ", bandwidth"


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a workload: deviation of CPU and bandwidth of each method."""
    return curves(rows, "CPU deviation", BEST_SPREAD, CPU).merge(
        curves(rows, "bandwidth deviation", BEST_SPREAD, LINKS), on=WORKLOAD
    )


def plot(table: pd.DataFrame, axes: Sequence[Axes]) -> None:
    """CPU above, bandwidth below."""
    for place, (unit, words) in enumerate(((CPU, "CPU"), (LINKS, "bandwidth"))):
        names = [f"{label}{unit}" for label in (*LABELS, BEST_SPREAD.label)]
        draw_lines(axes[place], table, WORKLOAD, names)
        axes[place].set_ylabel(f"{words}: deviation R_dev")
        axes[place].set_ylim(0, None)
    axes[1].set_xlabel(WORKLOAD)


def measured(table: pd.DataFrame) -> list[str]:
    """Say where which plan is lowest, in the paper's range and beyond."""
    told = []
    for words, unit in (("CPU", CPU), ("Bandwidth", LINKS)):
        least = table[[f"{EVEN.label}{unit}", f"Random{unit}"]].min(axis=1)
        paper = table[WORKLOAD] <= PAPER_UNTIL
        parts = []
        for entry in (BOTH, SPREAD):
            low = table[f"{entry.label}{unit}"] < least
            parts.append(
                f"{entry.label} is lowest at {int(low[paper].sum())} of {int(paper.sum())} "
                f"workloads of the paper and {int(low[~paper].sum())} of {int((~paper).sum())} "
                "beyond"
            )
        told.append(f"{words}: {'; '.join(parts)}.")
    return told


FIGURE = Figure(
    name="elastic-allocator/fig-5",
    title="Deviation of CPU and bandwidth use under variable workload",
    source="Elastic Allocator, SOSE 2014, Figure 5, section V",
    words=(
        "The same runs. The deviation of the Elastic Allocator is the lowest and the most stable, "
        "more so when the workload is high."
    ),
    rows=table_rows("elastic_allocator", "testbed", "optimum"),
    table=table,
    plot=plot,
    measured=measured,
    readings=(
        "GMA over CPU and bandwidth minimises R_dev of both together (`resource_deviation`); that "
        "over the CPU, and the optimum, R_dev of the CPU alone. The first was added when the "
        "second was known not to look at what the figure's lower half shows.",
        *READINGS,
    ),
    size=SIZE,
    panels=2,
)
