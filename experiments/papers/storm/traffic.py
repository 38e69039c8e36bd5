"""What the figures share: traffic between nodes and slots as percent of all, means of seeds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from experiments.papers.drawing import draw_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import pandas as pd

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
    "tuple makes one more; nodes are 60 % busy."
)
SIZES = "{seeds} seeds each; 4 nodes of 4 slots, 4 workers."


def with_shares(rows: pd.DataFrame) -> pd.DataFrame:
    """Add traffic between nodes and between slots, percent; unproved optima are left out."""
    rows = rows[(rows["method_label"] != "optimum") | (rows["termination"] == "optimal")].copy()
    slots = [json.loads(text)["evaluation"]["interslot_traffic"] for text in rows["result"]]
    rows[NODES] = 100.0 * rows["internode_traffic"] / rows["total_traffic"]
    rows[SLOTS] = 100.0 * pd_series(slots, rows) / rows["total_traffic"]
    return rows


def pd_series(values: Sequence[Any], rows: pd.DataFrame) -> pd.Series[float]:
    """Return values as a column of a frame."""
    import pandas as pd

    return pd.Series([float(v) for v in values], index=rows.index)


def shares_by(
    factor: str, name: str, methods: Sequence[str] = METHODS
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return the function that makes one line a value of a factor: means over the seeds.

    Parameters
    ----------
    factor, name
        Column of the rows, and what the table calls it.
    methods
        Labels; for each there are two columns.
    """

    def table(rows: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        rows = with_shares(rows)
        seeds = rows.groupby([factor, "method_label"])["instance"].nunique().unstack()
        columns = {}
        for label in methods:
            mine = rows[rows["method_label"] == label].groupby(factor)[[NODES, SLOTS]].mean()
            # an optimum that is proved for some seeds only is no mean to compare with
            if label in seeds:
                whole = seeds[label] == seeds.max(axis=1)
                mine = mine[whole.reindex(mine.index)]
            columns[f"{label}, {NODES}"] = mine[NODES]
            columns[f"{label}, {SLOTS}"] = mine[SLOTS]
        wide = pd.DataFrame(columns)
        return wide.rename_axis(index=name).reset_index()

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
                f"The proven optimum is 0 on {int(none.sum())} of "
                f"{int(optimum.notna().sum())} lines; "
                f"there online sends {online[none].min():.3g} to {online[none].max():.3g} % of all "
                "traffic between nodes."
            )
        if known.any():
            over = 100.0 * (online[known] / optimum[known] - 1.0)
            said.append(
                f"Online lies {over.mean():.0f} % above the proven optimum on average of the other "
                f"{int(known.sum())} lines "
                f"({over.min():.0f} to {over.max():.0f} %)."
            )
    return said
