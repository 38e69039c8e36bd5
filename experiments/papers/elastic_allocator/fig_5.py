"""Figure 5: deviation of CPU and bandwidth use, workload swept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.papers.drawing import draw_lines
from experiments.papers.elastic_allocator.testbed import (
    READINGS,
    SIZE,
    WORKLOAD,
    curves,
    measured_rows,
    rows_of,
)
from experiments.papers.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

CPU, LINKS = ", CPU", ", bandwidth"
GAP = "gap of GMA, CPU (%)"
LABELS = ("GMA", "GMA filling nodes", "Even", "optimum")


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a workload: deviation of CPU and bandwidth of each method, GMA's gap."""
    frame = measured_rows(rows)
    shown = curves(frame, "cpu deviation", LABELS, CPU).merge(
        curves(frame, "link deviation", LABELS, LINKS), on=WORKLOAD
    )
    greedy, best = shown[f"GMA{CPU}"], shown[f"optimum{CPU}"]
    shown[GAP] = 100 * (greedy - best) / greedy
    return shown


def plot(table: pd.DataFrame, axes: Sequence[Axes]) -> None:
    """CPU above, bandwidth below."""
    for place, (unit, words) in enumerate(((CPU, "CPU"), (LINKS, "bandwidth"))):
        names = [f"{label}{unit}" for label in (*LABELS, "Random")]
        draw_lines(axes[place], table, WORKLOAD, names)
        axes[place].set_ylabel(f"{words}: deviation R_dev")
        axes[place].set_ylim(0, None)
    axes[1].set_xlabel(WORKLOAD)


def measured(table: pd.DataFrame) -> list[str]:
    """Say what the paper says, with our figures."""
    mine, others = table[f"GMA{CPU}"], [f"Even{CPU}", f"Random{CPU}"]
    lowest = int((mine < table[others].min(axis=1)).sum())
    links = [f"Even{LINKS}", f"Random{LINKS}"]
    narrow = int((table[f"GMA{LINKS}"] < table[links].min(axis=1)).sum())
    filling = int((table[f"GMA filling nodes{CPU}"] > table[others].max(axis=1)).sum())
    return [
        f"CPU: GMA's deviation is below Even's and Random's at {lowest} of {len(table)} workloads, "
        f"between {mine.min():.2g} and {mine.max():.2g}; the optimum is "
        f"{table[GAP].min():.0f} to {table[GAP].max():.0f} % below it.",
        f"Bandwidth: GMA, which does not look at it here, is lowest at {narrow} of {len(table)}.",
        "One plan does not do both: GMA filling few nodes, as in figure 4, has the highest CPU "
        f"deviation at {filling} of {len(table)} workloads.",
    ]


FIGURE = Figure(
    name="elastic-allocator/fig-5",
    title="Deviation of CPU and bandwidth use under variable workload",
    source="Elastic Allocator, SOSE 2014, Figure 5, section V",
    words=(
        "The same runs. The deviation of the Elastic Allocator is the lowest and the most stable, "
        "more so when the workload is high."
    ),
    rows=rows_of("spread.toml"),
    table=table,
    plot=plot,
    measured=measured,
    readings=(
        "GMA and the optimum minimise R_dev of the CPU here. The paper shows highest use and "
        "lowest deviation of what seem to be the same plans; with use counted over nodes in use, "
        "the two pull apart, so each figure has its own objective.",
        *READINGS,
    ),
    size=SIZE,
    panels=2,
)
