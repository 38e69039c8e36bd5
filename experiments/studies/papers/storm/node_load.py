"""What the slip of the published code changes: the load of a node is never added up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.studies.papers.claims.rows import table_rows
from experiments.studies.papers.figure import Figure
from experiments.studies.papers.storm.traffic import NODES, READING
from streamplace.present.drawing import draw_lines

if TYPE_CHECKING:
    import pandas as pd

BUSY = "CPU in use (% of all)"
FULLEST = "fullest node (%)"
LABELS = ("as meant", "with the slip")


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a utilisation: traffic, fullest node and overloaded plans, means over the seeds."""
    import pandas as pd

    columns = {}
    for label in LABELS:
        mine = rows[rows["setting"] == label].groupby("use")
        columns[f"{label}, {NODES}"] = mine["nodes_traffic"].mean()
        columns[f"{label}, {FULLEST}"] = mine["fullest_use"].mean()
        columns[f"{label}, plans that overload"] = mine["feasible"].agg(lambda f: int((~f).sum()))
    return pd.DataFrame(columns).rename_axis(index=BUSY).reset_index()


def plot(table: pd.DataFrame, axes: Any) -> None:
    """Traffic above, the fullest node below."""
    for part, kind in zip(axes, (NODES, FULLEST), strict=True):
        names = {f"{label}, {kind}": label for label in LABELS}
        draw_lines(part, table[[BUSY, *names]].rename(columns=names), BUSY)
        part.set_ylabel(kind)
        part.set_ylim(bottom=0)
    axes[-1].set_xlabel(BUSY)


def measured(table: pd.DataFrame) -> list[str]:
    """Say how full nodes get, and how many plans overload."""
    slip, meant = (table[f"{label}, plans that overload"] for label in reversed(LABELS))
    fullest = table[f"{LABELS[1]}, {FULLEST}"]
    return [
        f"With the slip the fullest node is at {fullest.min():.0f} to {fullest.max():.0f} % of its "
        f"capacity, and {int(slip.sum())} plans overload one; as meant {int(meant.sum())} do.",
    ]


FIGURE = Figure(
    name="storm/node-load",
    title="Node load never added up",
    source="Ours: the published scheduler of Aniello, Baldoni and Querzoni, DEBS 2013",
    words=(
        "The paper bounds the load of every node by its capacity. The published code compares "
        "single slots with the capacity, since it never adds up what a node already has."
    ),
    rows=table_rows("storm", "node-loads"),
    table=table,
    plot=plot,
    measured=measured,
    readings=(
        READING,
        "As few nodes as possible are asked for (node_spread 0, delta 1): spread over all of them, "
        "a topology hardly overloads one. Whatever busy is, slots suffice.",
    ),
    size="Full: 8 utilisations, 30 seeds each; three topologies of 16 executors and 4 workers on "
    "8 nodes of 4 slots. Reduced: 10.",
    panels=2,
)
