"""The rates that the plans of Figures 7 and 8 keep: predicted, and actual on simulated machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.studies.papers.claims.rows import TABLE, table_rows
from experiments.studies.papers.figure import Figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

DAG, RATE, METHOD = "DAG", "planned (tuples/s)", "method"
SLOTS, PREDICTED, SHUFFLED = "slots", "predicted", "predicted, shuffled"
ACTUAL, LOW, HIGH = "actual (simulated, median)", "least", "most"
SHORT, EARLY = "actual short of planned (%)", "actual, early tasks"
PAPER = "paper: seen"

TOLD = {
    ("diamond", 50.0, "LSA+RSM"): "35", ("diamond", 100.0, "LSA+RSM"): "90",
    ("diamond", 100.0, "MBA+SAM"): "90", ("diamond", 200.0, "MBA+SAM"): "190",
    ("grid", 50.0, "LSA+RSM"): "30",
}  # fmt: skip


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a DAG, rate and method."""
    import pandas as pd

    runs = rows[rows[TABLE] == "reached"]
    lines = []
    for plan in rows[rows[TABLE] == "slots"].to_dict("records"):
        same = (runs["DAG"] == plan["DAG"]) & (runs["rate"] == plan["rate"])
        mine = runs[same & (runs["pair"] == plan["pair"])]
        base, early = (mine[mine["machine"] == m]["actual"] for m in ("interpolated", "early"))
        key = (str(plan["DAG"]), float(plan["rate"]), str(plan["pair"]))
        line: dict[str, Any] = {DAG: key[0], RATE: key[1], METHOD: key[2], SLOTS: plan["slots"]}
        line |= {PREDICTED: plan["predicted"], SHUFFLED: plan["predicted, shuffled"]}
        line |= {ACTUAL: base.median(), LOW: base.min(), HIGH: base.max()}
        line |= {SHORT: 100 * (1 - base.median() / key[1]), EARLY: early.median()}
        lines.append(line | {PAPER: TOLD.get(key, "–")})
    return pd.DataFrame(lines).astype({SLOTS: int})


def plot(table: pd.DataFrame, axes: Axes) -> None:
    """Actual over planned rates, a bar a method."""
    from streamplace.present.drawing import COLORS

    cases = list(dict.fromkeys(zip(table[DAG], table[RATE], strict=True)))
    for k, (label, group) in enumerate(table.groupby(METHOD, sort=False)):
        at = [p + (k - 0.5) * 0.4 for p in range(len(cases))]
        values = 100 * group[ACTUAL] / group[RATE]
        off = [values - 100 * group[LOW] / group[RATE], 100 * group[HIGH] / group[RATE] - values]
        axes.bar(at, values, 0.36, yerr=off, color=COLORS[k], label=str(label))
    axes.axhline(100, color="#999999", linewidth=1)
    axes.set_xticks(range(len(cases)), [f"{d}\n{r:g}" for d, r in cases])
    axes.set_ylabel("actual over planned rate (%)")
    axes.grid(visible=False, axis="x")
    axes.legend()


def measured(table: pd.DataFrame) -> list[str]:
    """How short the plans fall."""
    return [
        f"{label}: {group[SHORT].min():.0f} to {group[SHORT].max():.0f} % short of the planned "
        "rate; "
        f"by the models without shuffling {100 * (1 - (group[PREDICTED] / group[RATE]).max()):.0f} "
        f"to {100 * (1 - (group[PREDICTED] / group[RATE]).min()):.0f} %."
        for label, group in table.groupby(METHOD, sort=False)
    ]


FIGURE = Figure(
    name="model-driven/rates",
    title="Rates kept by the plans of the micro and application DAGs",
    source="Shukla and Simmhan, JPDC 2018, Figures 7 and 8 (right axes), section 8.4",
    words=(
        "The rate seen falls up to 30 % short for LSA+RSM and up to 10 % for MBA+SAM on micro "
        "DAGs, up to 40 and 5 % on application DAGs. Diamond: 35 of 50 and 90 of 100 tuples/s with "
        "LSA+RSM, 90 of 100 and 190 of 200 with MBA+SAM; grid at 50 with LSA+RSM: 30."
    ),
    rows=table_rows("model_driven", "slots", "reached"),
    table=table,
    plot=plot,
    measured=measured,
    readings=(
        "As for Figure 9: predictions are linear between measured counts, and the actual side is a "
        "simulation. The rate goes down from the planned one by 5 tuples/s until a run is stable.",
    ),
    size="Full: 15 cases, 30 seeds. Reduced: 4 cases, 2 seeds.",
)
