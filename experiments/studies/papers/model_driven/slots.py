"""Slots of DAGs at given rates: the table and the plot that Figures 7 and 8 share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd
    from matplotlib.axes import Axes

DAG, RATE = "DAG", "tuples/s"
LSA, RSM, RSM_ALL, RSM_BEST = "LSA slots", "RSM extra", "LSA+RSM", "fewest for LSA's threads"
MBA, SAM, SAM_ALL, SAM_BEST = "MBA slots", "SAM extra", "MBA+SAM", "fewest for MBA's bundles"
FEWER = "MBA+SAM fewer (%)"
PAPER_LSA, PAPER_MBA = "paper LSA + RSM", "paper MBA + SAM"
SUPPORTED = "MBA+SAM, shuffled: tuples/s"

_METHODS = {"LSA+RSM": (LSA, RSM), "MBA+SAM": (MBA, SAM)}
_BEST = {"least for threads": RSM_BEST, "least for bundles": SAM_BEST}
Told = dict[tuple[str, float], tuple[str, str]]


def slots_table(column: str, told: Told) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return the function from a sweep's rows to one line a DAG and rate.

    Parameters
    ----------
    column
        Column that names the DAG.
    told
        What the paper tells of LSA + RSM and of MBA + SAM, by DAG and rate.
    """

    def table(rows: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        lines: list[dict[str, Any]] = []
        for (dag, rate), group in rows.groupby([column, "instance.rate"], sort=False):
            pairs = zip(group["method_label"], group["result"], strict=True)
            results = {str(label): json.loads(str(text)) for label, text in pairs}
            lines.append(_line(str(dag), float(str(rate)), results, told))
        return pd.DataFrame(lines)

    return table


def _line(dag: str, rate: float, results: Mapping[str, Any], told: Told) -> dict[str, Any]:
    line: dict[str, Any] = {DAG: dag, RATE: rate}
    for label, (planned, extra) in _METHODS.items():
        found = results[label]
        line[planned] = found["plan"]["planned_slots"]
        line[extra] = found["evaluation"]["extra_slots"]
        line[label] = found["evaluation"]["slots"]
    for label, name in _BEST.items():
        found = results[label]
        slots, bound = found["evaluation"]["slots"], found["bound"]
        if bound is None:  # the plan is none of the packings whose fewest slots were proven
            slots, bound = map(int, found["trace"][-1][1:])
        line[name] = f"{slots}" if slots == bound else f"{bound:.0f} to {slots}"
    line[FEWER] = 100 * (1 - line[SAM_ALL] / line[RSM_ALL])
    line[SUPPORTED] = results[SAM_ALL]["evaluation"]["supported_rate"]
    line[PAPER_LSA], line[PAPER_MBA] = told.get((dag, rate), ("–", "–"))
    order = [DAG, RATE, LSA, RSM, RSM_ALL, RSM_BEST, PAPER_LSA, MBA, SAM, SAM_ALL, SAM_BEST]
    return {name: line[name] for name in [*order, PAPER_MBA, FEWER, SUPPORTED]}


def plot_slots(table: pd.DataFrame, axes: Axes) -> None:
    """Slots of both methods side by side; what mapping added on top, the optimum as a line."""
    from streamplace.present.drawing import COLORS

    places = list(range(len(table)))
    for shift, (planned, extra), label, color in (
        (-0.2, _METHODS[RSM_ALL], RSM_ALL, COLORS[1]),
        (0.2, _METHODS[SAM_ALL], SAM_ALL, COLORS[0]),
    ):
        at = [p + shift for p in places]
        axes.bar(at, table[planned], 0.36, color=color, label=label)
        axes.bar(at, table[extra], 0.36, bottom=table[planned], color=color, alpha=0.45,
                 hatch="//", label=f"{label}: extra slots of the mapping")  # fmt: skip
        best = _proven(table[RSM_BEST if label == RSM_ALL else SAM_BEST])
        note = "fewest, proven" if label == SAM_ALL else "_"
        axes.hlines(best, [a - 0.2 for a in at], [a + 0.2 for a in at], color="black", label=note)
    axes.set_xticks(places, [f"{d}\n{r:g}" for d, r in zip(table[DAG], table[RATE], strict=True)])
    axes.set_ylabel("slots")
    axes.set_xlabel("DAG, tuples/s")
    axes.grid(visible=False, axis="x")
    axes.set_ylim(top=1.4 * float(table[[RSM_ALL, SAM_ALL]].to_numpy().max()))
    axes.legend(ncols=2, loc="upper center")


def _proven(values: pd.Series) -> list[float]:
    """Take the proven fewest, or the bound where it was not reached."""
    return [float(str(value).partition(" to ")[0]) for value in values]


def measured_slots(table: pd.DataFrame) -> list[str]:
    """Say what MBA+SAM saves, where mapping needs more, and how far both are from the fewest."""
    fewer = table[FEWER]
    gaps = {
        name: [
            100 * (1 - bound / slots)
            for slots, bound in zip(table[every], _proven(table[best]), strict=True)
        ]
        for name, every, best in ((RSM_ALL, RSM_ALL, RSM_BEST), (SAM_ALL, SAM_ALL, SAM_BEST))
    }
    told = {
        name: f"{min(g):.1f} to {max(g):.1f} %" if max(g) else "none" for name, g in gaps.items()
    }
    sam = table[table[SAM] > 0]
    where = ", ".join(f"{d} at {r:g}" for d, r in zip(sam[DAG], sam[RATE], strict=True))
    return [
        f"MBA+SAM takes {fewer.min():.0f} to {fewer.max():.0f} % fewer slots than LSA+RSM.",
        f"RSM needs extra slots in {(table[RSM] > 0).sum()} of {len(table)} cases "
        f"({table[RSM].min()} to {table[RSM].max()}), SAM in {len(sam)}"
        + (f" ({where})." if len(sam) else "."),
        "Gap to the proven fewest slots for the same threads: "
        f"LSA+RSM {told[RSM_ALL]}, MBA+SAM {told[SAM_ALL]}.",
        f"Under shuffle grouping MBA+SAM's plans support {100 * _least(table):.0f} % of the rate "
        "or more.",
    ]


def _least(table: pd.DataFrame) -> float:
    return float((table[SUPPORTED] / table[RATE]).clip(upper=1).min())
