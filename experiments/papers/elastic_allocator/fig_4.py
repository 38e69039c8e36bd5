"""Figure 4: CPU and bandwidth use, workload swept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.papers.drawing import draw_lines
from experiments.papers.elastic_allocator.testbed import (
    READINGS,
    SIZE,
    WORKLOAD,
    broken,
    curves,
    measured_rows,
    rows_of,
)
from experiments.papers.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

CPU, LINKS = ", CPU %", ", bandwidth %"
GAP = "gap of GMA's capacity in use (%)"
LABELS = ("GMA", "Even", "optimum")


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a workload: CPU and bandwidth use of each method, GMA's gap, broken limits."""
    frame = measured_rows(rows)
    shown = curves(frame, "cpu use", LABELS, CPU).merge(
        curves(frame, "link use", LABELS, LINKS), on=WORKLOAD
    )
    taken = frame[frame["proved"]].pivot_table(index=WORKLOAD, columns="label", values="capacity")
    gap = 100 * (taken["GMA"] - taken["optimum"]) / taken["GMA"]
    kept = broken(frame, "GMA") == 0
    shown[GAP] = gap.where(kept).to_numpy()
    for label in ("GMA", "Random"):
        shown[f"{label}'s plans over a limit (%)"] = broken(frame, label).to_numpy()
    return shown


def plot(table: pd.DataFrame, axes: Sequence[Axes]) -> None:
    """CPU above, bandwidth below."""
    for place, (unit, words) in enumerate(((CPU, "CPU use (%)"), (LINKS, "bandwidth use (%)"))):
        names = [f"{label}{unit}" for label in (*LABELS, "Random")]
        draw_lines(axes[place], table, WORKLOAD, names)
        low, high = table[f"Random's least{unit}"], table[f"Random's most{unit}"]
        axes[place].fill_between(table[WORKLOAD], low, high, color="#cc79a7", alpha=0.15)
        axes[place].set_ylabel(words)
    axes[1].set_xlabel(WORKLOAD)


def measured(table: pd.DataFrame) -> list[str]:
    """Say what the paper says, with our figures."""
    ahead = (table[f"GMA{CPU}"] > table[[f"Even{CPU}", f"Random's most{CPU}"]].max(axis=1)).sum()
    best = int((table[GAP] < 1e-6).sum())
    more = (table[f"GMA{LINKS}"] > table[[f"Even{LINKS}", f"Random{LINKS}"]].max(axis=1)).sum()
    width = (table[f"Random's most{CPU}"] - table[f"Random's least{CPU}"]).max()
    over = table["Random's plans over a limit (%)"]
    return [
        f"CPU: GMA is above Even and every seed of Random at {ahead} of {len(table)} workloads; at "
        f"{best} its capacity in use is the optimum's, the worst gap is {table[GAP].max():.0f} %.",
        f"Bandwidth: GMA is above both at {more} of {len(table)}, on fewer uplinks.",
        f"Random's seeds lie up to {width:.0f} points apart, and up to {over.max():.0f} % of its "
        "plans overload a node or an uplink.",
    ]


FIGURE = Figure(
    name="elastic-allocator/fig-4",
    title="CPU and bandwidth use under variable workload",
    source="Elastic Allocator, SOSE 2014, Figure 4, section V",
    words=(
        "Ten workers of four cores and three slots run Word Count and Join; Top-K is placed at 200 "
        "to 1,200 tuples/s. The Elastic Allocator has the highest CPU and bandwidth use at every "
        "workload; Random fluctuates most; Even does not see what the running queries take."
    ),
    rows=rows_of("fill.toml"),
    table=table,
    plot=plot,
    measured=measured,
    readings=READINGS,
    size=SIZE,
    panels=2,
)
