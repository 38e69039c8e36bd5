"""Traffic between nodes and slots as percent of all, means of seeds: figures by one factor each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.studies.papers.claims.tables import TABLE, table_rows
from experiments.studies.papers.figure import Figure
from streamplace.present.plots import draw_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any

    import pandas as pd

    from experiments.studies.papers.figure import Rows


METHODS = ("default", "offline", "online", "optimum")
NODES, SLOTS = "between nodes (%)", "between slots (%)"
OURS = (
    "Nothing to compare with: section 4, with the experiments, is not in our "
    "text. The abstract reports significantly lower latency than the default "
    "for both schedulers, on a cluster."
)
SOURCE = "Ours, with the schedulers of Aniello, Baldoni and Querzoni, DEBS 2013"
READING = (
    "The topology is a chain of a spout and stages of bolts, with alternating "
    "shuffle and fields grouping unless stated; every tuple makes one more; "
    "nodes are 60 % busy; alpha is 0.2 unless swept. Optima are shown where "
    "all seeds are solved."
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
                f"The optimum is 0 on {int(none.sum())} of {int(optimum.notna().sum())} lines; "
                f"there online sends {online[none].min():.3g} to {online[none].max():.3g} % of all "
                "traffic between nodes."
            )
        if known.any():
            over = 100.0 * (online[known] / optimum[known] - 1.0)
            said.append(
                f"Online lies {over.mean():.0f} % above the optimum on average of the other "
                f"{int(known.sum())} lines ({over.min():.0f} to {over.max():.0f} %)."
            )
    return said


def _by(
    sweep: str,
    title: str,
    *readings: str,
    size: str,
    name: str | None = None,
    methods: Sequence[str] = METHODS,
) -> Figure:
    """Return the figure of a sweep; `name` is what tables call its factor."""
    factor = name or sweep
    return Figure(
        name=f"storm/{sweep}",
        title=title,
        source=SOURCE,
        words=OURS,
        rows=swept(sweep),
        table=shares_by(factor, methods=methods),
        plot=plot_shares(factor),
        measured=against_default,
        readings=(READING, *readings),
        size=size,
        panels=2,
    )


SWEEP_FIGURES = (
    _by(
        "grouping",
        "Traffic by grouping",
        "Four stages; four executors a component, so that all talk to all of the next stage.",
        "The optimum does not hold slots to M(alpha): the paper's formulation does not.",
        size="Full: three groupings, 30 seeds each; 4 nodes of 4 slots, 4 workers. Reduced: 10.",
    ),
    _by(
        "replication",
        "Traffic by the number of executors a component",
        "Three stages after the spout.",
        size="Full: 1 to 5 executors a component, 30 seeds each; 4 nodes of 4 slots, 4 workers. "
        "Reduced: 10.",
        name="executors a component",
    ),
    _by(
        "stages",
        "Traffic by the number of stages",
        "Two executors a component.",
        size="Full: 1 to 8 stages, 30 seeds each; 4 nodes of 4 slots, 4 workers. Reduced: 10.",
        name="stages of bolts",
    ),
    _by(
        "topologies",
        "Several topologies together",
        (
            "Each topology is a spout and two stages of two executors, with two "
            "workers. Spread over as many nodes as workers, as in Storm, it can save "
            "little; *on few nodes* is online with node_spread 0 and delta 1. CPU is "
            "45 % busy, so that two nodes hold one topology. With four topologies no "
            "optimum is computed."
        ),
        size="Full: 1 to 4 topologies on 4 nodes of 4 slots, 30 seeds each. Reduced: 10.",
        methods=("default", "offline", "online", "online on few nodes", "optimum"),
    ),
)


_NAME = "alpha"
_BUSY = "60"
"""Percent of CPU in use: that of the instances of the sweep over alpha."""


def alpha_table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line an alpha; the default and the optimum know none, and stand in every line."""
    import pandas as pd

    known = rows[rows[TABLE] == "alphas"]
    known = known.assign(scheduler=known["scheduler"].str.removesuffix(", gamma 1.5"))
    others = rows[(rows["sweep"] == "utilisation") & (rows["value"].astype(str) == _BUSY)]
    others = others[others["scheduler"].isin(["default", "optimum"])]
    copies = [others.assign(alpha=value) for value in sorted(known[_NAME].unique())]
    return shares_by(_NAME, _NAME)(pd.concat([known, *copies]))


def alpha_measured(table: pd.DataFrame) -> list[str]:
    """Say where each heuristic does best."""
    said = []
    for label in ("offline", "online"):
        column = table[f"{label}, {NODES}"]
        best = int(column.to_numpy().argmin())
        said.append(
            f"Between nodes, {label} goes from {column.iloc[0]:.0f} % at alpha 0 to "
            f"{column.iloc[best]:.0f} % at {table[_NAME].iloc[best]:g}, its best, and "
            f"{column.iloc[-1]:.0f} % at 1."
        )
    return said


ALPHA_FIGURE = Figure(
    name="storm/alpha",
    title="Traffic by alpha",
    source="Aniello, Baldoni and Querzoni, DEBS 2013, section 3 (alpha); the sweep is ours",
    words=(
        "Alpha bounds the executors of a slot between even (0) and as uneven as "
        "possible (1). That larger alpha allows less traffic is our claim."
    ),
    rows=table_rows("storm", "alphas", "clusters", "optima"),
    table=alpha_table,
    plot=plot_shares(_NAME),
    measured=alpha_measured,
    readings=(READING, "Four stages, three executors a component; gamma stays 1.5."),
    size="Full: 11 values of alpha, 30 seeds each; 4 nodes of 4 slots, 4 workers. Reduced: 10.",
    panels=2,
)


BUSY = "CPU in use (% of all)"
FULLEST = "fullest node (%)"
LOAD_LABELS = ("as meant", "with the slip")


def load_table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a utilisation: traffic, fullest node and overloaded plans, means over the seeds."""
    import pandas as pd

    columns = {}
    for label in LOAD_LABELS:
        mine = rows[rows["setting"] == label].groupby("use")
        columns[f"{label}, {NODES}"] = mine["nodes_traffic"].mean()
        columns[f"{label}, {FULLEST}"] = mine["fullest_use"].mean()
        columns[f"{label}, plans that overload"] = mine["feasible"].agg(lambda f: int((~f).sum()))
    return pd.DataFrame(columns).rename_axis(index=BUSY).reset_index()


def plot(table: pd.DataFrame, axes: Any) -> None:
    """Traffic above, the fullest node below."""
    for part, kind in zip(axes, (NODES, FULLEST), strict=True):
        names = {f"{label}, {kind}": label for label in LOAD_LABELS}
        draw_lines(part, table[[BUSY, *names]].rename(columns=names), BUSY)
        part.set_ylabel(kind)
        part.set_ylim(bottom=0)
    axes[-1].set_xlabel(BUSY)


def load_measured(table: pd.DataFrame) -> list[str]:
    """Say how full nodes get, and how many plans overload."""
    slip, meant = (table[f"{label}, plans that overload"] for label in reversed(LOAD_LABELS))
    fullest = table[f"{LOAD_LABELS[1]}, {FULLEST}"]
    return [
        f"With the slip the fullest node is at {fullest.min():.0f} to {fullest.max():.0f} % of its "
        f"capacity, and {int(slip.sum())} plans overload one; as meant {int(meant.sum())} do.",
    ]


LOAD_FIGURE = Figure(
    name="storm/node-load",
    title="Node load never added up",
    source="Ours: the published scheduler of Aniello, Baldoni and Querzoni, DEBS 2013",
    words=(
        "The paper bounds the load of every node by its capacity. The published "
        "code compares single slots with the capacity and ignores what a node "
        "already has."
    ),
    rows=table_rows("storm", "node-loads"),
    table=load_table,
    plot=plot,
    measured=load_measured,
    readings=(
        READING,
        (
            "Fewest nodes (node_spread 0, delta 1): spread over all nodes, a topology "
            "hardly overloads one. Slots always suffice."
        ),
    ),
    size="Full: 8 utilisations, 30 seeds each; three topologies of 16 executors and 4 workers on "
    "8 nodes of 4 slots. Reduced: 10.",
    panels=2,
)

FIGURES = (*SWEEP_FIGURES, ALPHA_FIGURE, LOAD_FIGURE)
