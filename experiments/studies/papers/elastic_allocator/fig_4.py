"""Figure 4: CPU and bandwidth use, workload swept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.studies.papers.claims.rows import table_rows
from experiments.studies.papers.elastic_allocator.curves import (
    LABELS,
    READINGS,
    SIZE,
    WORKLOAD,
    broken,
    curves,
)
from experiments.studies.papers.elastic_allocator.running import BEST_FILL, BOTH, EVEN, FILL, RANDOM
from experiments.studies.papers.figure import Figure
from streamplace.present.drawing import draw_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

CPU, LINKS = ", CPU %", ", bandwidth %"


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a workload: use of the nodes in use, by method; plans over a limit."""
    shown = curves(rows, "CPU, in use", BEST_FILL, CPU, percent=True).merge(
        curves(rows, "bandwidth, in use", BEST_FILL, LINKS, percent=True), on=WORKLOAD
    )
    for entry in (FILL, BOTH, EVEN, RANDOM):
        shown[f"{entry.label}: plans over a limit (%)"] = broken(rows, entry).to_numpy()
    return shown


def plot(table: pd.DataFrame, axes: Sequence[Axes]) -> None:
    """CPU above, bandwidth below."""
    for place, (unit, words) in enumerate(((CPU, "CPU use (%)"), (LINKS, "bandwidth use (%)"))):
        names = [f"{label}{unit}" for label in (*LABELS, BEST_FILL.label)]
        draw_lines(axes[place], table, WORKLOAD, names)
        low, high = table[f"Random's least{unit}"], table[f"Random's most{unit}"]
        axes[place].fill_between(table[WORKLOAD], low, high, color="#cc79a7", alpha=0.15)
        axes[place].set_ylabel(words)
    axes[1].set_xlabel(WORKLOAD)


def measured(table: pd.DataFrame) -> list[str]:
    """Say where GMA is ahead, and at what price."""
    told = []
    for words, unit in (("CPU", CPU), ("Bandwidth", LINKS)):
        mine = table[f"{FILL.label}{unit}"]
        others = table[[f"{EVEN.label}{unit}", f"Random's most{unit}"]].max(axis=1)
        told.append(
            f"{words}: the mean of GMA on the fewest nodes is above Even and every seed of Random "
            f"at {int((mine > others).sum())} of {len(table)} workloads."
        )
    over = {e.label: table[f"{e.label}: plans over a limit (%)"] for e in (FILL, BOTH, EVEN)}
    told.append(
        "Plans over a limit: "
        + "; ".join(
            f"{name} up to {share.max():.0f} %, first at "
            + (f"{table[WORKLOAD][share > 0].min():g}" if (share > 0).any() else "none")
            for name, share in over.items()
        )
        + "."
    )
    return told


FIGURE = Figure(
    name="elastic-allocator/fig-4",
    title="CPU and bandwidth use under variable workload",
    source="Elastic Allocator, SOSE 2014, Figure 4, section V",
    words=(
        "Ten workers of four cores and three slots run Word Count and Join; Top-K is placed at 200 "
        "to 1,200 tuples/s. The Elastic Allocator has the highest CPU and bandwidth use at every "
        "workload; Random fluctuates most; Even does not see what the running queries take."
    ),
    rows=table_rows("elastic_allocator", "testbed", "optimum"),
    table=table,
    plot=plot,
    measured=measured,
    readings=READINGS,
    size=SIZE,
    panels=2,
)
