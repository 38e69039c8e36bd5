"""Figure 4(b): one group of a pair has more and more tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.studies.papers.figure import Figure
from experiments.studies.papers.sweeps import sweep_rows
from experiments.studies.papers.task_allocation.optima import proved_only
from streamplace.present.drawing import draw_lines

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

TASKS = "tasks of the second group"
ROW, DIAGONAL = "TL, row by row", "TL, diagonal"


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a size of the second group, IMC gain in MB/s of each algorithm."""
    sizes = rows["instance.tasks"].str.split(",", expand=True).astype(int)
    rows = rows.assign(**{TASKS: sizes[1]})
    wide = proved_only(rows).pivot_table(
        index=TASKS, columns="method_label", values="imc_gain", dropna=False
    )
    return wide[["TD", ROW, DIAGONAL, "optimum"]].rename_axis(columns=None).reset_index()


def plot(table: pd.DataFrame, axes: Axes) -> None:
    """IMC gain over the number of tasks."""
    draw_lines(axes, table, TASKS)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(TASKS)
    axes.set_ylabel("IMC gain (MB/s)")


def measured(table: pd.DataFrame) -> list[str]:
    """Say how both algorithms move."""
    first, last = table.iloc[0], table.iloc[-1]
    return [
        f"From {first[TASKS]:.0f} to {last[TASKS]:.0f} tasks TD goes from {first['TD']:.3g} to "
        f"{last['TD']:.3g} MB/s, the optimum from {first['optimum']:.3g} to {last['optimum']:.3g}.",
        f"TL's fall is a matter of the order of the task pairs, which the paper does not tell: "
        f"along the diagonal from {first[DIAGONAL]:.3g} to {last[DIAGONAL]:.3g} MB/s; row by row "
        f"it gains {first[ROW]:.3g} to {last[ROW]:.3g} throughout.",
    ]


FIGURE = Figure(
    name="task-allocation/fig-4b",
    title="One group with disproportionally many tasks",
    source="Chatzistergiou and Viglas, CIKM 2014, Figure 4(b), section 7.1",
    words=(
        "A pair of groups, the first of ten tasks, the second of ten to seventy; six nodes with "
        "80 % to spare; each group costs twice a node. TL's gain falls a lot with more tasks; TD "
        "splits both groups evenly and stays, with a slight gain."
    ),
    rows=sweep_rows(
        Path(__file__).with_name("fig_4b.toml"),
        reduced={"instances.generate.0.tasks": ["10,10", "10,40", "10,70"]},
    ),
    table=table,
    plot=plot,
    measured=measured,
    readings=(
        "Each group costs 200 % and each node has 80 % of 100 %: 480 % for 400 %. "
        "The pair's traffic is chosen: 10 MB/s.",
        "Our TD has no marginal gain left to make: it is at the optimum from the first size on.",
    ),
    size="Full: 7 sizes. Reduced: 3 of them.",
)
