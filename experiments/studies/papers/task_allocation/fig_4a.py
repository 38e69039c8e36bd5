"""Figure 4(a): the priority by relative significance against the one by traffic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.studies.papers.figure import Figure
from experiments.studies.papers.sweeps import sweep_rows
from streamplace.present.drawing import draw_lines

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

RATIO = "IMC of pair 2 / pair 1"
BY_IMC, BY_SIGNIFICANCE = "TL by IMC", "TL by significance"


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a ratio, IMC gain in MB/s of both priorities."""
    rates = rows["instance.rates"].str.split(",", expand=True).astype(float)
    rows = rows.assign(**{RATIO: rates[1] / rates[0]})
    wide = rows.pivot_table(index=RATIO, columns="method_label", values="imc_gain")
    return wide.sort_index(ascending=False).rename_axis(columns=None).reset_index()


def plot(table: pd.DataFrame, axes: Axes) -> None:
    """IMC gain over the ratio, which shrinks to the right as in the paper."""
    draw_lines(axes, table, RATIO)
    axes.invert_xaxis()
    axes.set_ylim(bottom=0)
    axes.set_xlabel(RATIO)
    axes.set_ylabel("IMC gain (MB/s)")


def measured(table: pd.DataFrame) -> list[str]:
    """Say how both priorities move."""
    by_imc, other = table[BY_IMC], table[BY_SIGNIFICANCE]
    changed = table[by_imc != other]
    return [
        f"Both start at {by_imc.iloc[0]:.4g} MB/s. By IMC the gain falls to {by_imc.min():.4g}; "
        f"by significance it stays at or above {other.min():.4g}.",
        f"They part at the ratio {changed[RATIO].iloc[0]:g}; from there significance is up to "
        f"{100 * (other / by_imc - 1).max():.0f} % better.",
    ]


FIGURE = Figure(
    name="task-allocation/fig-4a",
    title="Task priorities: significance against IMC",
    source="Chatzistergiou and Viglas, CIKM 2014, Figure 4(a), section 7.1",
    words=(
        "A pipeline of three groups, the third far costlier; TL. While the traffic of the second "
        "pair shrinks from twice that of the first to the same, the gain under the IMC priority "
        "falls in a line; under relative significance it is the same at the start and then keeps a "
        "constant level above."
    ),
    rows=sweep_rows(
        Path(__file__).with_name("fig_4a.toml"),
        reduced={"instances.generate.0.rates": ["10,20", "10,15", "10,11", "10,10"]},
    ),
    table=table,
    plot=plot,
    measured=measured,
    readings=(
        "The paper gives no sizes. Chosen: 10 tasks a group, costs 100, 100 and 250 %, three nodes "
        "of 200 %, first pair 10 MB/s.",
        "Where both pairs have the same traffic the IMC priority is a tie, which goes to the first "
        "pair: the last point.",
    ),
    size="Full: 11 ratios from 2 to 1. Reduced: 4 of them.",
)
