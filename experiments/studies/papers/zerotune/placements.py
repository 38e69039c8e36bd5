"""Traffic between hosts: as Flink placed the instances, as planned, and the least there can be."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from experiments.studies.papers import whose
from experiments.studies.papers.figure import Figure
from experiments.studies.papers.zerotune.queries import (
    EVERY_REDUCED,
    SECONDS,
    SECONDS_REDUCED,
    data_folder,
    graph_files,
    plan_query,
)
from streamplace.present.drawing import COLORS

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes

FLINK, PLAN, BOUND = "Flink (%)", "planned (%)", "bound (%)"
PROVEN, CERTIFIED = "proven", "certified gap (%)"
MEASURED_FLINK, MEASURED_PLAN = "Flink, measured rates (%)", "planned, measured rates (%)"
PLACED_PLAN = "planned, Flink's slots (%)"


def rows(folder: Path, reduced: bool) -> pd.DataFrame:
    """Plan every query again; a finished one is kept as a file and not repeated."""
    import pandas as pd

    from optim.util.store import remembered

    seconds = SECONDS_REDUCED if reduced else SECONDS
    files = graph_files(data_folder())
    files = files[::EVERY_REDUCED] if reduced else files
    found: list[dict[str, Any]] = []
    for number, path in enumerate(files, 1):

        def planned(path: Path = path, number: int = number) -> Any:
            sys.stderr.write(f"{number} of {len(files)}: {path.name}\n")
            return plan_query(path, seconds)

        asked = {"query": path.name, "seconds": seconds}
        found.append(remembered(folder / f"{path.name}.json", asked, planned))
    return pd.json_normalize(found)


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a query: shares of its traffic that cross hosts, in percent."""
    import pandas as pd

    optimal = rows["even.termination"] == "optimal"
    made = pd.DataFrame(
        {
            "query": rows["query"].str.replace(r"^[\d.]+-", "", regex=True),
            "instances": rows["instances"],
            "hosts": rows["hosts"],
            FLINK: 100 * rows["even.flink"],
            PLAN: 100 * rows["even.plan"],
            # a bound of nothing says nothing
            BOUND: (100 * rows["even.bound"]).where(optimal | (rows["even.bound"] > 1e-9)),
            PROVEN: optimal.map({True: "optimal", False: ""}),
            **_whose(rows),
            MEASURED_FLINK: 100 * rows["measured.flink"],
            MEASURED_PLAN: 100 * rows["measured.plan"],
            PLACED_PLAN: 100 * rows["placed.plan"],
        }
    )
    return made.sort_values([FLINK, "query"]).reset_index(drop=True)


def _whose(rows: pd.DataFrame) -> dict[str, Any]:
    """Whose word each bound is, and how far the plan is from what is certified, where rows say."""
    if f"even.{whose.BY}" not in rows:
        return {}
    return {whose.TOLD: rows[f"even.{whose.BY}"], CERTIFIED: 100 * rows[f"even.{whose.GAP}"]}


def plot(table: pd.DataFrame, axes: Axes) -> None:
    """A column a query: from Flink's share down to the plan's, with the bound below."""
    x = range(len(table))
    flink, ours, least = COLORS[1], COLORS[0], COLORS[6]
    axes.vlines(x, table[PLAN], table[FLINK], color="#bbbbbb", linewidth=1)
    axes.plot(x, table[FLINK], "s", markersize=4, color=flink, label="Flink's placement")
    axes.plot(x, table[PLAN], "o", markersize=4, color=ours, label="planned")
    axes.plot(x, table[BOUND], "_", markersize=8, color=least, label="no plan is below")
    proven = table[table[PROVEN] == "optimal"]
    axes.plot(
        proven.index,
        proven[PLAN],
        "o",
        markersize=8,
        markerfacecolor="none",
        color=ours,
        label="optimal",
    )
    axes.set_xlabel("query, by Flink's share")
    axes.set_ylabel("traffic between hosts (%)")
    axes.set_ylim(0, 105)
    axes.legend(ncols=4, loc="upper center", columnspacing=1.0, handletextpad=0.2)


def measured(table: pd.DataFrame) -> list[str]:
    """Sum up: means, cuts, proofs."""
    cut = 1 - table[PLAN] / table[FLINK]
    optimal = int((table[PROVEN] == "optimal").sum())
    within = int((table[PLAN] - table[BOUND] <= 0.02 * table[PLAN]).sum())
    open_ones = table[table[PROVEN] != "optimal"]
    said = whose.summed_up(table[table[PROVEN] == "optimal"], whose.TOLD, CERTIFIED)
    texts = [
        f"Flink's placements send {table[FLINK].mean():.0f} % of the traffic between hosts, the "
        f"plans {table[PLAN].mean():.0f} %: {100 * cut.median():.0f} % less at the median, "
        f"{100 * cut.min():.0f} to {100 * cut.max():.0f} %.",
        f"{optimal} of {len(table)} plans are optimal {whose.sentence(said)}; {within} are "
        "within 2 % of the bound.",
        f"With measured rates of every instance: {table[MEASURED_FLINK].mean():.0f} % by Flink, "
        f"{table[MEASURED_PLAN].mean():.0f} % planned; {table[PLACED_PLAN].mean():.0f} % planned "
        "if no host may hold more instances than it did.",
    ]
    bounded = open_ones[open_ones[BOUND].notna()]
    if len(bounded):
        gap = (bounded[PLAN] - bounded[BOUND]).median()
        texts.append(
            f"Of the {len(open_ones)} others, {len(bounded)} have a bound that says something, "
            f"{gap:.1f} points below the plan at the median; for {len(open_ones) - len(bounded)} "
            "the time is over before there is one."
        )
    return texts


FIGURE = Figure(
    name="zerotune/placements",
    title="Measured Flink placements, planned again",
    source="Query graphs published with Agnihotri et al., ICDE 2024",
    words=(
        "Nothing on placement: the paper tunes parallelism and takes Flink's own placement, so the "
        "measured placements stand here as the state of practice."
    ),
    rows=rows,
    table=table,
    plot=plot,
    measured=measured,
    readings=(
        "Traffic is tuples/s. Who sends to whom was not measured: streams go evenly over all pairs "
        "of instances, except where neither key nor parallelism nor hosts speak against Flink's "
        "one-to-one forwarding. The columns on measured rates spread in proportion to what each "
        "instance sent and received.",
        "An instance takes one slot. A host has slots in proportion to its cores, as few as let "
        "Flink's own placement fit; the last column gives each host exactly the instances it had.",
        "The CPU figure of the graphs is the host's and is not used as a load. Memory, state and "
        "Flink's limit of one subtask of an operator a shared slot are not modelled.",
        "Planned: `imc-exact` started from `imc-search`; on measured rates, where no two instances "
        "are alike, `imc-search`. The bound is that of `imc-exact`.",
        "Some recorded edges run from an operator to itself, where two filters in a row are alike; "
        "they are taken as the edge from the filter before.",
    ),
    size=(
        f"46 graphs, {SECONDS:g} s for the exact method; reduced: every {EVERY_REDUCED}th, "
        f"{SECONDS_REDUCED:g} s. How many optima are found depends on the machine: the figures "
        "here are of two cores that other work kept busy (load 8 to 11)."
    ),
)
