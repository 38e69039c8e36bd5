"""Alpha swept: from executors even over slots to one slot that may hold nearly all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.papers.figure import Figure
from experiments.papers.storm.traffic import NODES, READING, plot_shares, shares_by
from experiments.papers.sweeps import sweep_rows

if TYPE_CHECKING:
    import pandas as pd

_NAME = "alpha"
_FACTOR = "option.alpha"


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line an alpha; the default and the optimum know none, and stand in every line."""
    import pandas as pd

    known = rows[_FACTOR].notna()
    # labels of options that are swept carry their values
    rows = rows.assign(method_label=rows["method_label"].str.split(" ").str[0])
    values = sorted(rows.loc[known, _FACTOR].unique())
    copies = [rows[~known].assign(**{_FACTOR: value}) for value in values]
    return shares_by(_FACTOR, _NAME)(pd.concat([rows[known], *copies]))


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
    rows=sweep_rows(
        Path(__file__).with_name("alpha.toml"),
        reduced={"instances.generate.0.seeds": {"from": 0, "to": 0}},
        wide=True,
    ),
    table=table,
    plot=plot_shares(_NAME),
    measured=measured,
    readings=(READING, "Four stages, three executors a component; gamma stays 1.5."),
    size="Full: 11 values of alpha, three seeds each; 4 nodes of 4 slots, 4 workers. Reduced: one "
    "seed.",
    panels=2,
)
