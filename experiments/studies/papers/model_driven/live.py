"""A real run: what Flink carries on small machines, beside what a plan's model predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.statistics import mean_interval
from experiments.studies.papers.figure import Figure

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes

SHAPE = "CPU-bound"
"""Of the bench's jobs: the paper's models are of CPU, not of links."""
WAY, RUNS, PREDICTED, ACTUAL = "placed by", "runs", "predicted (orders/s)", "actual (orders/s)"
LOW, HIGH, RATIO = "from", "to", "actual / predicted"


def rows(folder: Path, reduced: bool) -> pd.DataFrame:
    """Return the recorded runs: a bench of an hour that takes root is not repeated for a page."""
    import pandas as pd

    from experiments.studies.lab.bench import RUNS as RECORDED

    found = pd.read_csv(RECORDED)
    return found[found["shape"] == SHAPE]


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a way to place: means over runs, with 95 % intervals of what was counted."""
    import pandas as pd

    lines = []
    for way, mine in rows.groupby("policy", sort=False):
        actual = mean_interval(mine["measured"])
        lines.append(
            {
                WAY: way,
                RUNS: len(mine),
                PREDICTED: mine["predicted"].mean(),
                ACTUAL: actual.value,
                LOW: actual.low,
                HIGH: actual.high,
                RATIO: (mine["measured"] / mine["predicted"]).median(),
            }
        )
    return pd.DataFrame(lines)


def plot(table: pd.DataFrame, axes: Axes) -> None:
    """Draw predicted and actual side by side, a pair of bars a way to place."""
    places = range(len(table))
    axes.bar([p - 0.2 for p in places], table[PREDICTED], 0.4, color="#56b4e9", label="predicted")
    spread = (table[ACTUAL] - table[LOW], table[HIGH] - table[ACTUAL])
    axes.bar(
        [p + 0.2 for p in places], table[ACTUAL], 0.4, color="#0072b2", label="actual",
        yerr=spread, capsize=3,
    )  # fmt: skip
    axes.set_xticks(places, [str(way).replace(" ", "\n") for way in table[WAY]])
    axes.set_ylabel("orders/s")
    axes.legend()


def measured(table: pd.DataFrame) -> list[str]:
    """Say how far what Flink carries is from the prediction."""
    lines = sorted(table.to_dict("records"), key=lambda line: line[RATIO])
    low, high = lines[0], lines[-1]
    return [
        f"Flink carries {low[RATIO]:.2f} ({low[WAY]}) to {high[RATIO]:.2f} ({high[WAY]}) of the "
        "predicted rate (medians of runs)."
    ]


FIGURE = Figure(
    name="model-driven/live",
    title="A real run on Flink: predicted and actual rate",
    source="Shukla and Simmhan 2018, sections 8.5.1 and 8.5.2, on a system of today",
    words=(
        "The rate that a plan's models predict is compared with what the running application "
        "carries: for LSA they are far apart, for MBA with SAM they agree."
    ),
    rows=rows,
    table=table,
    plot=plot,
    measured=measured,
    readings=(
        (
            "A job of five tasks of our own, 13 threads, on four task managers of an "
            "unmodified Flink with a fifth of a core each ([the bench](../flink.md)), "
            "not the paper's applications on Storm. The models are read by the "
            "import: seconds of CPU a tuple, linear in the threads, as in LSA."
        ),
        (
            "A task manager is full when its threads' CPU is; the predicted rate is "
            "the least at which one is, for each run's placement."
        ),
    ),
    size="Recorded runs: `make lab-bench`, which takes an hour, and root.",
)

FIGURES = (FIGURE,)
