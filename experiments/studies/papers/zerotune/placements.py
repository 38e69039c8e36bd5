"""Traffic between hosts: as Flink placed the instances, as planned, and the least there can be."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.papers import certified
from experiments.studies.papers.figure import Figure
from optim.errors import InvalidInput, Problem
from streamplace.present.plots import COLORS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from optim.format.instance import Instance
    from optim.referee.result import Result


VARIABLE = "STREAMPLACE_ZEROTUNE"
SHARED = "STREAMPLACE_SHARED"
SECONDS, SECONDS_REDUCED = 30.0, 2.0
EVERY_REDUCED = 6


def data_folder() -> Path:
    """Return the folder of the graphs: as the environment says, else beside the repository.

    Raises
    ------
    InvalidInput
        There is none.
    """
    named = os.environ.get(VARIABLE)
    repository = Path(__file__).resolve().parents[4]
    shared = Path(os.environ.get(SHARED, repository.parent / "shared"))
    folder = Path(named) if named else shared / "data" / "zerotune"
    if not folder.is_dir():
        raise InvalidInput(
            Problem(
                VARIABLE,
                str(folder) if named else None,
                "is no folder" if named else "is not set, and no data folder lies beside us",
                f"get the query graphs of ZeroTune and name their folder: {VARIABLE}=…/graphs",
            )
        )
    return folder


def graph_files(folder: Path) -> list[Path]:
    """Return the graphs of a folder, in order.

    Raises
    ------
    InvalidInput
        There are none.
    """
    found = sorted(p for p in folder.rglob("*") if p.name.endswith((".graph", ".graph.gz")))
    if not found:
        raise InvalidInput(
            Problem(VARIABLE, str(folder), "holds no graphs", "files end in .graph or .graph.gz")
        )
    return found


def plan_query(path: Path, seconds: float) -> dict[str, Any]:
    """Import one graph and plan it again; see `placements` for what each figure means.

    Parameters
    ----------
    seconds
        For the exact method.
    """
    from optim import solve

    even = _instance(path, "even", "cores")
    start = solve(even, "imc-search")
    best = solve(even, "imc-exact", time_limit=seconds, warm_start="imc-search", max_classes=1000)
    measured, placed = _instance(path, "measured", "cores"), _instance(path, "measured", "placed")
    return {
        "query": path.name.removesuffix(".gz").removesuffix(".graph"),
        "kind": path.parent.name,
        "instances": even.num_tasks,
        "operators": even.num_operators,
        "hosts": even.num_nodes,
        "even": {
            **_figures(even, best),
            "search": _share(even, start),
            **certified.of_result(even, best),
        },
        "measured": _figures(measured, solve(measured, "imc-search")),
        "placed": _figures(placed, solve(placed, "imc-search")),
    }


def _instance(path: Path, rates: str, capacity: str) -> Instance:
    from streamplace.clusters.exchange.transfer import import_instance

    return import_instance(
        "zerotune", [str(path)], [("rates", rates), ("capacity", capacity)]
    ).instance


def _figures(instance: Instance, result: Result) -> dict[str, Any]:
    """Return traffic between hosts as shares of all traffic: Flink's, the plan's, the bound's."""
    from optim.referee.evaluate import evaluate_indices

    now = evaluate_indices(instance, instance.tasks.node)
    total = instance.total_traffic
    bound = None if result.bound is None else max(0.0, total - result.bound)
    return {
        "flink_feasible": now.feasible,
        "total": total,
        "flink": (now.internode_traffic or 0.0) / total,
        "plan": _share(instance, result),
        "bound": None if bound is None else bound / total,
        "termination": str(result.termination),
        "moves": None if result.evaluation is None else result.evaluation.migrations,
    }


def _share(instance: Instance, result: Result) -> float | None:
    if result.evaluation is None or result.evaluation.internode_traffic is None:
        return None
    return result.evaluation.internode_traffic / instance.total_traffic


FLINK, PLAN, BOUND = "Flink (%)", "planned (%)", "bound (%)"
PROVEN, CERTIFIED = "proven", "certified gap (%)"
MEASURED_FLINK, MEASURED_PLAN = "Flink, measured rates (%)", "planned, measured rates (%)"
PLACED_PLAN = "planned, Flink's slots (%)"


def rows(folder: Path, reduced: bool) -> pd.DataFrame:
    """Plan every query again; a finished one is stored as a file and not repeated."""
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
    """Who proves each bound, and how far the plan is from what is certified, where rows say."""
    if f"even.{certified.BY}" not in rows:
        return {}
    return {
        certified.TOLD: rows[f"even.{certified.BY}"],
        CERTIFIED: 100 * rows[f"even.{certified.GAP}"],
    }


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
    said = certified.summed_up(table[table[PROVEN] == "optimal"], certified.TOLD, CERTIFIED)
    texts = [
        f"Flink's placements send {table[FLINK].mean():.0f} % of the traffic between hosts, the "
        f"plans {table[PLAN].mean():.0f} %: {100 * cut.median():.0f} % less at the median, "
        f"{100 * cut.min():.0f} to {100 * cut.max():.0f} %.",
        f"{optimal} of {len(table)} plans are optimal {certified.sentence(said)}; {within} are "
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
        "Nothing on placement: the paper tunes parallelism with Flink's own "
        "placement, here the state of practice."
    ),
    rows=rows,
    table=table,
    plot=plot,
    measured=measured,
    readings=(
        (
            "Traffic is tuples/s. Who sends to whom was not measured: streams spread "
            "evenly over all pairs of instances, unless keys, parallelism and hosts "
            "allow Flink's one-to-one forwarding. The columns on measured rates "
            "spread in proportion to what each instance sent and received."
        ),
        (
            "An instance takes one slot. A host has slots in proportion to its cores, "
            "as few as fit Flink's own placement; in the last column exactly as many "
            "as it had instances."
        ),
        (
            "The graphs' CPU figure is of the host and not used as a load. Memory, "
            "state and Flink's limit of one subtask of an operator per shared slot "
            "are not modelled."
        ),
        "Planned: `imc-exact` started from `imc-search`; on measured rates, where no two instances "
        "are alike, `imc-search`. The bound is that of `imc-exact`.",
        (
            "Recorded edges from an operator to itself, where two equal filters "
            "follow each other, are taken as edges from the filter before."
        ),
    ),
    size=(
        f"46 graphs, {SECONDS:g} s for the exact method; reduced: every {EVERY_REDUCED}th, "
        f"{SECONDS_REDUCED:g} s. How many optima are found depends on the machine: the figures "
        "here are of two cores that had other work (load 8 to 11)."
    ),
)

FIGURES = (FIGURE,)
