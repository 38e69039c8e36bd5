"""What figures 4 and 5 share: rows of the testbed, and the use and deviation of CPU and links."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.papers.sweeps import sweep_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from experiments.papers.figure import Rows

WORKLOAD = "workload (tuples/s)"
PROVED = 1e-6
READINGS = (
    "The paper gives neither costs nor sizes. Chosen: Top-K of 16 tasks, 1.13 % of a core for a "
    "tuple/s in all; Word Count and Join stand on six of the ten workers and use nine cores; the "
    "system takes up to 40 % of a core, drawn for each worker; uplinks of 20 MB/s.",
    "Use is that of the nodes in use: the same load on all nodes has the same use wherever it "
    "stands. Bandwidth is that of these nodes' uplinks.",
    "Limits are the capacities. Random is the mean of 20 seeds, with its least and most.",
)
SIZE = "Full: 11 workloads, 20 seeds of Random. Reduced: 3 workloads, 4 seeds."

_FEW = {"instances.generate.0.workload": [200, 700, 1200]}


def rows_of(sweep: str) -> Rows:
    """Return the function that runs a sweep of this folder, and Random beside it."""
    here = Path(__file__).parent
    main = sweep_rows(here / sweep, _FEW, wide=True)
    chance = sweep_rows(here / "random.toml", {**_FEW, "matrix.seed": [0, 1, 2, 3]}, wide=True)

    def rows(folder: Path, reduced: bool) -> pd.DataFrame:
        import pandas as pd

        parts = [main(folder / "methods", reduced), chance(folder / "random", reduced)]
        return pd.concat(parts, ignore_index=True)

    return rows


def figures(result: str) -> dict[str, float]:
    """Return use (%) and deviation of CPU and of uplinks, from a result's JSON."""
    judged: dict[str, Any] = json.loads(result)["evaluation"]
    links = np.array(list(judged["link_utilisation"].values()))
    used = [
        judged["node_tasks"][name.removeprefix("up-")] > 0 for name in judged["link_utilisation"]
    ]
    return {
        "cpu use": 100 * judged["used_utilisation"],
        "link use": 100 * float(links[used].mean()),
        "cpu deviation": next(iter(judged["deviation"].values())),
        "link deviation": float(np.sqrt(((links - links.mean()) ** 2).sum())),
        "capacity": judged["used_capacity"],
    }


def measured_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return workload, label, feasibility, proof, and the figures of each run."""
    import pandas as pd

    frame = pd.DataFrame([figures(result) for result in rows["result"]], index=rows.index)
    frame["label"], frame["feasible"] = rows["method_label"], rows["feasible"]
    frame["proved"] = (rows["gap"] <= PROVED) | (rows["kind"] != "exact")
    frame[WORKLOAD] = rows["instance.workload"]
    return frame


def curves(frame: pd.DataFrame, figure: str, labels: Sequence[str], unit: str) -> pd.DataFrame:
    """One line a workload: a column for each method, Random with its least and most."""
    import pandas as pd

    proved = frame[frame["proved"]]
    grid = proved.pivot_table(index=WORKLOAD, columns="label", values=figure)
    columns = {f"{name}{unit}": grid[name] for name in labels}
    chance = frame[frame["label"] == "Random"].groupby(WORKLOAD)[figure]
    columns[f"Random{unit}"] = chance.mean()
    columns[f"Random's least{unit}"], columns[f"Random's most{unit}"] = chance.min(), chance.max()
    return pd.DataFrame(columns).reset_index()


def broken(frame: pd.DataFrame, label: str) -> pd.Series:
    """Share (%) of a method's plans that break a limit, by workload."""
    mine = frame[frame["label"] == label]
    return 100 * (1 - mine.groupby(WORKLOAD)["feasible"].mean().astype(float))
