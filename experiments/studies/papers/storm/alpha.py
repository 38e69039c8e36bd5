"""Alpha swept: from executors even over slots to one slot that may hold nearly all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.studies.papers.claims.rows import TABLE, table_rows
from experiments.studies.papers.figure import Figure
from experiments.studies.papers.storm.traffic import NODES, READING, plot_shares, shares_by

if TYPE_CHECKING:
    import pandas as pd

_NAME = "alpha"
_BUSY = "60"
"""Percent of CPU in use: that of the instances of the sweep over alpha."""


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line an alpha; the default and the optimum know none, and stand in every line."""
    import pandas as pd

    known = rows[rows[TABLE] == "alphas"]
    known = known.assign(scheduler=known["scheduler"].str.removesuffix(", gamma 1.5"))
    others = rows[(rows["sweep"] == "utilisation") & (rows["value"].astype(str) == _BUSY)]
    others = others[others["scheduler"].isin(["default", "optimum"])]
    copies = [others.assign(alpha=value) for value in sorted(known[_NAME].unique())]
    return shares_by(_NAME, _NAME)(pd.concat([known, *copies]))


def measured(table: pd.DataFrame) -> list[str]:
    """Say where each heuristic does best."""
    said = []
    for label in ("offline", "online"):
        column = table[f"{label}, {NODES}"]
        best = int(column.to_numpy().argmin())
        said.append(
            f"Between nodes, {label} goes from {column.iloc[0]:.0f} % at alpha 0 to "
            f"{column.iloc[best]:.0f} % at {table[_NAME].iloc[best]:g}, its best, and "
            f"{column.iloc[-1]:.0f} % at 1."
        )
    return said


FIGURE = Figure(
    name="storm/alpha",
    title="Traffic by alpha",
    source="Aniello, Baldoni and Querzoni, DEBS 2013, section 3 (alpha); the sweep is ours",
    words=(
        "Alpha from 0 to 1 bounds the executors of a slot between even and as uneven as can be. "
        "That the more a slot may hold, the more traffic can stay inside is our sentence."
    ),
    rows=table_rows("storm", "alphas", "clusters", "optima"),
    table=table,
    plot=plot_shares(_NAME),
    measured=measured,
    readings=(READING, "Four stages, three executors a component; gamma stays 1.5."),
    size="Full: 11 values of alpha, 30 seeds each; 4 nodes of 4 slots, 4 workers. Reduced: 10.",
    panels=2,
)
