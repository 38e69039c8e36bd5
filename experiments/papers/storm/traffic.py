"""What the figures share: traffic between nodes and slots as percent of all, means of seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.papers.claims.rows import table_rows
from experiments.papers.drawing import draw_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any

    import pandas as pd

    from experiments.papers.figure import Rows

METHODS = ("default", "offline", "online", "optimum")
NODES, SLOTS = "between nodes (%)", "between slots (%)"
OURS = (
    "Nothing that can be set beside this: section 4, with the paper's experiments, is not in our "
    "text. Its abstract says that both schedulers do significantly better than the default in "
    "latency, which is measured on a cluster; the claims above say what of that is seen in traffic."
)
SOURCE = "Ours, with the schedulers of Aniello, Baldoni and Querzoni, DEBS 2013"
READING = (
    "The section on the experiments is not in our text. The topology is a chain of a spout and "
    "stages of bolts, fed by shuffle and fields grouping in turn where nothing else is said; every "
    "tuple makes one more; nodes are 60 % busy. Alpha is 0.2 for both schedulers where it is not "
    "swept; optima are shown where all seeds are solved to the end."
)
LABELS = {
    "default": "default",
    "offline": "offline",
    "online": "online",
    "online, few nodes": "online on few nodes",
    "optimum": "optimum",
}
"""Schedulers as the tables name them, and what is drawn."""


def swept(sweep: str) -> Rows:
    """Return the function that gives the lines of one sweep, the proved optima among them."""
    made = table_rows("storm", "clusters", "optima")

    def rows(folder: Path, reduced: bool) -> pd.DataFrame:
        known = made(folder, reduced)
        return known[known["sweep"] == sweep]

    return rows


def shares_by(
    name: str, factor: str = "value", methods: Sequence[str] = METHODS
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return the function that makes one line a value of a factor: means over the seeds.

    Parameters
    ----------
    name, factor
        What the table calls the factor, and its column in the rows.
    methods
        As `LABELS` names them; for each there are two columns.
    """

    def table(rows: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        rows = rows.assign(scheduler=rows["scheduler"].map(LABELS))
        if "proved" in rows:
            rows = rows[rows["proved"].ne(False)]
        seeds = rows.groupby([factor, "scheduler"])["seed"].nunique().unstack()
        columns = {}
        for label in methods:
            mine = rows[rows["scheduler"] == label].groupby(factor)
            # an optimum that is proved for some seeds only is no mean to compare with
            whole = (seeds[label] == seeds.max(axis=1)) if label in seeds else None
            for column, kind in (("nodes_traffic", NODES), ("slots_traffic", SLOTS)):
                mean = mine[column].mean()
                known = mean if whole is None else mean[whole.reindex(mean.index)]
                columns[f"{label}, {kind}"] = known
        wide = pd.DataFrame(columns).rename_axis(index=name).reset_index()
        numbers = pd.to_numeric(wide[name], errors="coerce")
        return wide.assign(**{name: numbers}) if numbers.notna().all() else wide

    return table


def plot_shares(name: str) -> Callable[[pd.DataFrame, Any], None]:
    """Return the function that draws traffic between nodes above that between slots."""

    def plot(table: pd.DataFrame, axes: Any) -> None:
        for part, kind in zip(axes, (NODES, SLOTS), strict=True):
            end = f", {kind}"
            heads = [str(c) for c in table if str(c).endswith(end)]
            mine = table[[name, *heads]].rename(columns={h: h.removesuffix(end) for h in heads})
            draw_lines(part, mine, name)
            part.set_ylabel(kind)
            part.set_ylim(bottom=0)
        axes[-1].set_xlabel(name)

    return plot


def against_default(table: pd.DataFrame) -> list[str]:
    """Say how far each is below the default, and the online one above the optimum."""
    said = []
    default = table[f"default, {NODES}"]
    for label in ("offline", "online", "online on few nodes", "optimum"):
        mine = table.get(f"{label}, {NODES}")
        if mine is None or not mine.notna().any():
            continue
        less = 100.0 * (1.0 - mine / default)
        said.append(
            f"Between nodes, {label} sends {less.mean():.0f} % less than the default on average "
            f"({less.min():.0f} to {less.max():.0f} %)."
        )
    optimum, online = table.get(f"optimum, {NODES}"), table.get(f"online, {NODES}")
    if optimum is not None and online is not None:
        known, none = optimum > 0, optimum == 0
        if none.any():
            said.append(
                f"The optimum is 0 on {int(none.sum())} of "
                f"{int(optimum.notna().sum())} lines; "
                f"there online sends {online[none].min():.3g} to {online[none].max():.3g} % of all "
                "traffic between nodes."
            )
        if known.any():
            over = 100.0 * (online[known] / optimum[known] - 1.0)
            said.append(
                f"Online lies {over.mean():.0f} % above the optimum on average of the other "
                f"{int(known.sum())} lines "
                f"({over.min():.0f} to {over.max():.0f} %)."
            )
    return said
