"""Figures 8 and 9: how much the budget of migrations is worth, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.papers.albic.following import Row, follow, frame, kept
from experiments.papers.figure import Figure

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes

BUDGETS = (10, 13, 20, 30, 300)
PERIODS, PERIODS_REDUCED = 60, 12
PAUSE = 2.5
"""Seconds a key group is paused by its migration; the paper's figure is lost."""

BUDGET = "maxMigrations"


def measure(folder: Path, reduced: bool) -> pd.DataFrame:
    """Follow the same periods with each budget."""
    rows: list[Row] = []
    periods = PERIODS_REDUCED if reduced else PERIODS
    for budget in BUDGETS:
        name = "unrestricted" if budget == BUDGETS[-1] else str(budget)
        rows += kept(
            folder,
            {"budget": budget, "periods": periods},
            lambda b=budget, n=name: [  # type: ignore[misc]
                {**row, BUDGET: n} for row in _followed(b, periods)
            ],
        )
    return frame(rows)


def _followed(budget: int, periods: int) -> list[Row]:
    from experiments.generators.rebalancing import joint_periods

    made = joint_periods(
        0, periods, nodes=20, key_groups=15, operators=2, one_to_one=0.0, varies=20.0,
        max_migrations=budget,
    )  # fmt: skip
    return follow(made, ("MILP", "balance-search", {}))


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a budget."""
    lines = []
    for budget, mine in rows.groupby(BUDGET, sort=False):
        mine = mine[mine["period"] > 0]
        lines.append(
            {
                BUDGET: budget,
                "load distance, mean": mine["distance"].mean(),
                "load distance, worst": mine["distance"].max(),
                "migrations a period": mine["migrations"].mean(),
                "pause a period (s)": PAUSE * mine["migrations"].mean(),
            }
        )
    return frame(lines)


def plot(table: pd.DataFrame, axes: list[Axes]) -> None:
    """Load distance above, pause below, one bar a budget."""
    above, below = axes
    above.bar(table[BUDGET], table["load distance, worst"], color="#56b4e9", label="worst")
    above.bar(table[BUDGET], table["load distance, mean"], color="#0072b2", label="mean")
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
        f"points on average and {first['load distance, worst']:.2f} at worst; unrestricted "
        f"{last['load distance, mean']:.3f} and {last['load distance, worst']:.3f}, for "
        f"{last['migrations a period']:.0f} migrations a period.",
    ]


FIGURE = Figure(
    name="albic/fig-8-9",
    title="Load balance and pause by budget of migrations",
    source="Madsen, Zhou, Cao 2016, Figures 8 and 9, section 5.2.2",
    words=(
        "Load distance depends strongly on the number of migrations allowed: unrestricted is best, "
        "ten leaves clear spikes. The pause, summed over all migrations, is very large without "
        "a limit; with 13 of 300 key groups a period it is small."
    ),
    rows=measure,
    table=table,
    plot=plot,
    measured=measured,
    readings=(
        "Synthetic load in place of the Wikipedia edits (Real Job 1): 20 nodes, 300 key groups, "
        "each period a fifth of the nodes varies by up to 20 %, adding up.",
        f"A migration pauses a key group for {PAUSE:g} s: the paper's number is lost.",
        "Planned by balance-search, the same model: it repeats exactly.",
    ),
    size="Full: 60 periods. Reduced: 12.",
    panels=2,
)
