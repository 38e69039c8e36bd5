"""Figures 8 and 9: how much the budget of migrations is worth, and what it costs."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from experiments.statistics import mean_interval
from experiments.studies.papers.albic.runs import Row, follow, frame, kept
from experiments.studies.papers.figure import Figure

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes

BUDGETS = (10, 13, 20, 30, 300)
SEEDS, SEEDS_REDUCED = 30, 2
PERIODS = 13
"""The first is where the load distance starts, and is left out of the figures."""

PAUSE = 2.5
"""Seconds a key group is paused by its migration; the paper's figure is lost."""

BUDGET = "maxMigrations"


def measure(folder: Path, reduced: bool) -> pd.DataFrame:
    """Follow the same periods with each budget, from every seed."""
    rows: list[Row] = []
    for seed, budget in product(range(SEEDS_REDUCED if reduced else SEEDS), BUDGETS):
        name = "unrestricted" if budget == BUDGETS[-1] else str(budget)
        rows += kept(
            folder,
            {"budget": budget, "periods": PERIODS, "seed": seed},
            lambda s=seed, b=budget, n=name: [  # type: ignore[misc]
                {**row, BUDGET: n, "seed": s} for row in _followed(s, b)
            ],
        )
    return frame(rows)


def _followed(seed: int, budget: int) -> list[Row]:
    from experiments.studies.papers.albic.built import joint_periods

    made = joint_periods(
        seed, PERIODS, nodes=20, key_groups=15, operators=2, one_to_one=0.0, varies=20.0,
        max_migrations=budget,
    )  # fmt: skip
    return follow(made, ("MILP", "balance-search", {}))


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a budget; means over seeds with 95 % intervals."""
    lines = []
    for budget, mine in rows[rows["period"] > 0].groupby(BUDGET, sort=False):
        of_seeds = mine.groupby("seed")["distance"]
        mean, worst = mean_interval(of_seeds.mean()), mean_interval(of_seeds.max())
        moves = mean_interval(mine.groupby("seed")["migrations"].mean())
        lines.append(
            {
                BUDGET: budget,
                "load distance, mean": mean.value,
                "from": mean.low,
                "to": mean.high,
                "load distance, worst": worst.value,
                "worst, from": worst.low,
                "worst, to": worst.high,
                "migrations a period": moves.value,
                "pause a period (s)": PAUSE * moves.value,
            }
        )
    return frame(lines)


def plot(table: pd.DataFrame, axes: list[Axes]) -> None:
    """Load distance above, pause below, one bar a budget."""
    above, below = axes
    for column, begin, end, color in (
        ("load distance, worst", "worst, from", "worst, to", "#56b4e9"),
        ("load distance, mean", "from", "to", "#0072b2"),
    ):
        spread = (table[column] - table[begin], table[end] - table[column])
        label = column.removeprefix("load distance, ")
        above.bar(table[BUDGET], table[column], color=color, label=label, yerr=spread, capsize=3)
    above.legend()
    above.set_ylabel("load distance (points)")
    below.bar(table[BUDGET], table["pause a period (s)"], color="#d55e00")
    below.set_ylabel("pause (s)")
    below.set_xlabel(BUDGET)


def measured(table: pd.DataFrame) -> list[str]:
    """Say what the budget buys."""
    first, last = table.iloc[0], table.iloc[-1]
    return [
        f"With {first[BUDGET]} moves the load distance is {first['load distance, mean']:.2f} "
        f"points on average and {first['load distance, worst']:.2f} at worst of {PERIODS - 1} "
        f"periods, means of the seeds; unrestricted {last['load distance, mean']:.3f} and "
        f"{last['load distance, worst']:.3f}, for {last['migrations a period']:.0f} migrations a "
        "period.",
    ]


FIGURE = Figure(
    name="albic/fig-8-9",
    title="Load balance and pause by budget of migrations",
    source="Madsen, Zhou, Cao 2016, Figures 8 and 9, section 5.2.2",
    words=(
        "Load distance depends strongly on the migrations allowed: unrestricted "
        "is best, ten leaves clear spikes. The pause, summed over migrations, is "
        "very large without a limit and small with 13 of 300 key groups a period."
    ),
    rows=measure,
    table=table,
    plot=plot,
    measured=measured,
    readings=(
        (
            "Synthetic load instead of the Wikipedia edits (Real Job 1): 20 nodes, "
            "300 key groups; each period a fifth of the nodes varies by up to 20 %, "
            "cumulatively."
        ),
        f"A migration pauses a key group for {PAUSE:g} s: the paper's number is lost.",
        "Planned by balance-search, the same model: it repeats exactly.",
    ),
    size=f"Full: {SEEDS} seeds of {PERIODS - 1} periods. Reduced: {SEEDS_REDUCED} seeds.",
    panels=2,
)

FIGURES = (FIGURE,)
