"""GMA against the proven optimum on random queries: what the paper never had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.papers.drawing import draw_lines
from experiments.papers.elastic_allocator.testbed import PROVED
from experiments.papers.figure import Figure
from experiments.papers.sweeps import sweep_rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FILL, SPREAD = "capacity in use", "CPU deviation"
NODES, ALL = "nodes", "all"
MEAN, WORST = "mean gap (%)", "worst gap (%)"
NETWORK = "network use over the optimum's, same capacity (%)"
_PAIRS = ((FILL, "GMA", "optimum"), (SPREAD, "GMA spreading", "optimum spreading"))


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line an objective and number of nodes, and one over all."""
    import pandas as pd

    lines = []
    for objective, greedy, exact in _PAIRS:
        both = _paired(rows, greedy, exact)
        for count in (*sorted(both[NODES].unique()), ALL):
            part = both if count == ALL else both[both[NODES] == count]
            lines.append({"objective": objective, NODES: str(count), **_line(part)})
    frame = pd.DataFrame(lines)
    whole = [name for name in frame if frame[name].dtype == "int64"]
    return frame.astype(dict.fromkeys(whole, "Int64"))


def _paired(rows: pd.DataFrame, greedy: str, exact: str) -> pd.DataFrame:
    """One line an instance: what GMA and the optimum reach."""
    mine = rows[rows["method_label"] == greedy].set_index("instance")
    best = rows[rows["method_label"] == exact].set_index("instance")
    frame = best[["instance.nodes", "time_total"]].rename(columns={"instance.nodes": NODES})
    frame["infeasible"] = best["termination"] == "infeasible"
    frame["proved"] = (best["gap"] <= PROVED) & best["result"].map(_all_levels_proved)
    frame["kept"] = mine["feasible"].astype(bool)
    gap = 100 * (mine["objective"] - best["objective"]) / mine["objective"]
    frame["gap"] = gap.where(frame["proved"] & frame["kept"])
    traffic = mine["internode_traffic"] / best["internode_traffic"] - 1
    frame["network"] = (100 * traffic).where(frame["gap"].abs() < 100 * PROVED)
    return frame


def _all_levels_proved(result: str) -> bool:
    levels = json.loads(result)["objective_levels"]
    return bool(levels) and all(
        level["bound"] is not None
        and level["value"] - level["bound"] <= PROVED * max(1.0, abs(level["value"]))
        for level in levels
    )


def _line(part: pd.DataFrame) -> dict[str, float | int]:
    feasible = part[~part["infeasible"]]
    return {
        "instances": len(part),
        "infeasible": int(part["infeasible"].sum()),
        "proved": int(feasible["proved"].sum()),
        "GMA within limits": int(feasible["kept"].sum()),
        "GMA at the optimum": int((feasible["gap"].abs() < 100 * PROVED).sum()),
        MEAN: feasible["gap"].mean(),
        WORST: feasible["gap"].max(),
        NETWORK: feasible["network"].mean(),
        "median time of the proof (s)": feasible["time_total"].median(),
        "longest (s)": feasible["time_total"].max(),
    }


def plot(table: pd.DataFrame, axes: Axes) -> None:
    """Mean gap over the number of nodes, a line an objective."""
    single = table[table[NODES] != ALL].astype({NODES: int})
    shown = single.pivot_table(index=NODES, columns="objective", values=MEAN).reset_index()
    draw_lines(axes, shown, NODES)
    axes.set_xlabel("nodes")
    axes.set_ylabel("mean gap of GMA (%)")
    axes.set_ylim(0, None)


def measured(table: pd.DataFrame) -> list[str]:
    """One sentence an objective."""
    told = []
    for line in table[table[NODES] == ALL].itertuples(index=False):
        row = dict(zip(table.columns, line, strict=True))
        feasible = row["instances"] - row["infeasible"]
        told.append(
            f"{row['objective']}: {row['proved']} of {feasible} optima proved; GMA keeps the "
            f"limits on {row['GMA within limits']}, is optimal on {row['GMA at the optimum']}, "
            f"{row[MEAN]:.1f} % off on average and {row[WORST]:.1f} % at worst."
        )
    return told


FIGURE = Figure(
    name="elastic-allocator/gap",
    title="GMA against the proven optimum",
    source="Our own experiment, on the problem of the Elastic Allocator, SOSE 2014, section IV",
    words="The paper compares GMA with no optimum.",
    rows=sweep_rows(
        Path(__file__).with_name("gap.toml"),
        reduced={
            "instances.generate.0.nodes": [5, 8],
            "instances.generate.0.operators": [10, 15],
            "instances.generate.0.seeds": [0, 1],
        },
        wide=True,
    ),
    table=table,
    plot=plot,
    measured=measured,
    readings=(
        "Random queries: each operator feeds one to three later ones; 60 % CPU use in all, a tenth "
        "of it there before; uplinks three times what each would carry if nothing were collocated.",
        "Gap: (GMA − optimum) / GMA, where the optimum is proved and GMA's plan keeps the limits. "
        "Few operators on few nodes can be spread almost exactly, so that any deviation at all is "
        "a gap of nearly 100 %.",
    ),
    size="Full: 126 instances, 5 to 10 nodes, 10 to 20 operators. Reduced: 8 instances.",
)
