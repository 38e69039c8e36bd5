"""What figures 4 and 5 share: curves over workloads from the tables, and how they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.studies.papers.claims.rows import TABLE
from experiments.studies.papers.elastic_allocator.running import BOTH, EVEN, FILL, RANDOM, SPREAD

if TYPE_CHECKING:
    import pandas as pd

    from experiments.studies.papers.elastic_allocator.running import Entry

WORKLOAD = "workload (tuples/s)"
LABELS = (FILL.label, BOTH.label, SPREAD.label, EVEN.label, RANDOM.label)
READINGS = (
    "The paper gives neither costs nor sizes. Chosen: Top-K of 16 tasks, 1.13 % of a core for a "
    "tuple/s in all; Word Count and Join stand on six of the ten workers and use nine cores; the "
    "system takes up to 40 % of a core, drawn for each worker and seed; uplinks of 16 MB/s, of "
    "which Even's busiest is used to 59 to 95 % in the paper's range. EOA-F5d sweeps each.",
    "Even deals the slots out as if nothing ran; Random draws anew at every workload.",
    "Use is that of the nodes in use: the same load on all nodes has the same use wherever it "
    "stands. Bandwidth is that of these nodes' uplinks.",
    "Limits are the capacities. Lines are means of 30 seeds; the optimum is of the first.",
)
SIZE = "Full: 19 workloads to 2,000 tuples/s, 30 seeds. Reduced: 4 workloads, 3 seeds."


def curves(
    rows: pd.DataFrame, figure: str, best: Entry, unit: str, *, percent: bool = False
) -> pd.DataFrame:
    """One line a workload: a column for each method, Random with its least and most."""
    import pandas as pd

    scale = 100.0 if percent else 1.0
    main = rows[rows[TABLE] == "testbed"]
    grid = scale * main.pivot_table(index="workload", columns="method", values=figure)
    columns = {f"{name}{unit}": grid[name] for name in LABELS}
    chance = scale * main[main["method"] == RANDOM.label].groupby("workload")[figure].agg(
        ["min", "max"]
    )
    columns[f"Random's least{unit}"] = chance["min"]
    columns[f"Random's most{unit}"] = chance["max"]
    exact = rows[(rows[TABLE] == "optimum") & (rows["method"] == best.label)]
    proved = exact[exact["proved"].astype(bool)].set_index("workload")[figure]
    columns[f"{best.label}{unit}"] = scale * proved
    return pd.DataFrame(columns).rename_axis(WORKLOAD).reset_index()


def broken(rows: pd.DataFrame, entry: Entry) -> pd.Series:
    """Share (%) of a method's plans that break a limit, by workload."""
    mine = rows[(rows[TABLE] == "testbed") & (rows["method"] == entry.label)]
    return 100 * (1 - mine["kept"].astype(float).groupby(mine["workload"]).mean())
