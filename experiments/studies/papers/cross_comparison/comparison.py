"""Small and larger clusters: one line a method, all plans judged by the referee's figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.statistics import mean_interval
from experiments.studies.papers.figure import Figure
from experiments.studies.papers.sweeps import sweep_rows
from streamplace.present.plots import draw_bars

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd
    from matplotlib.axes import Axes

    from optim.format.instance import Instance

METHOD, BETWEEN = "method", "traffic between nodes (%)"
NONE = "proven infeasible (%)"
_SHIFT = 0.01

BUSY = (50, 70, 85)
"""Percent of all CPU in use: both sweeps have these."""


def can_run(instance: Instance, result: Mapping[str, Any]) -> bool:
    """Whether Storm can run a plan: feasible, and every topology gets exactly its workers.

    A plan without slots passes when some numbers of workers on the nodes do it.
    """
    import numpy as np

    from formulations.storm.problem import storm_jobs
    from formulations.storm.search import workers_of

    if result["plan"] is None or not result["evaluation"]["feasible"]:
        return False
    if result["plan"].get("slots") is not None:
        return True
    index = instance.nodes.index
    assignment = result["plan"]["assignment"]
    node = np.array([index[assignment[t]] for t in instance.tasks.ids], dtype=np.int64)
    return workers_of(instance, storm_jobs(instance, "storm-milp"), node) is not None


def table_of(seeds: range, parameters: Mapping[str, int]) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return the function that makes the table.

    Parameters
    ----------
    seeds, parameters
        Of the sweep's instances, at each of `BUSY`.
    """

    def table(rows: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        from experiments.generators import generate

        made = [
            generate("storm_cluster", seed, **{**parameters, "utilisation": busy})
            for seed in seeds
            for busy in BUSY
        ]
        known = {instance.name: instance for instance in made}
        lines = []
        for label in dict.fromkeys(rows["method_label"]):
            name = str(label).removesuffix(" (ignore=slots)")
            lines.append(_line(name, rows[rows["method_label"] == label], known))
        return pd.DataFrame(lines)

    return table


def _line(label: str, rows: pd.DataFrame, known: Mapping[str, Instance]) -> dict[str, Any]:
    import numpy as np

    results = [json.loads(text) for text in rows["result"]]
    judged = [r["evaluation"] for r in results if r["plan"] is not None]
    names = [str(name) for name in rows["instance"]]
    between = [100.0 * e["internode_traffic"] / e["total_traffic"] for e in judged]
    slots = [
        100.0 * e["interslot_traffic"] / e["total_traffic"]
        for e in judged
        if e["interslot_traffic"] is not None
    ]
    seconds = rows["time_build"].fillna(0.0) + rows["time_solve"].fillna(0.0)
    runs = [can_run(known[name], r) for name, r in zip(names, results, strict=True)]
    mean = mean_interval(between)
    ended = rows["termination"]
    return {
        METHOD: label,
        BETWEEN: mean.value,
        "from": mean.low,
        "to": mean.high,
        "traffic between slots (%)": _mean(slots),
        "fullest node (%)": _mean([100.0 * e["max_utilisation"] for e in judged]),
        "deviation of CPU use": _mean([e["deviation"]["cpu"] for e in judged]),
        "nodes used": _mean([float(e["nodes_used"]) for e in judged]),
        "feasible (%)": 100.0 * sum(e["feasible"] for e in judged) / len(results),
        "Storm can run (%)": 100.0 * float(np.mean(runs)),
        "proven (%)": 100.0 * float((ended == "optimal").mean()),
        NONE: 100.0 * float((ended == "infeasible").mean()),
        "seconds": float(np.exp(np.log(seconds + _SHIFT).mean()) - _SHIFT),
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def plot(table: pd.DataFrame, axes: Axes) -> None:
    """Draw traffic between nodes, one bar a method."""
    draw_bars(axes, table.dropna(subset=[BETWEEN]), METHOD, BETWEEN)
    axes.set_xlabel(BETWEEN)


def measured(table: pd.DataFrame) -> list[str]:
    """Say who sends least between nodes, and how far Storm's schedulers are from it."""
    whole = table[table["feasible (%)"] == 100.0].sort_values(BETWEEN, kind="stable")
    best = whole.iloc[0]
    said = [
        f"Of those that place every instance within its limits, {best[METHOD]} sends least between "
        f"nodes: {best[BETWEEN]:.1f} % of all traffic."
    ]
    for label in ("storm-online", "storm-online, few nodes", "gma", "top-down", "storm-even"):
        mine = table[table[METHOD] == label]
        if len(mine):
            line = mine.iloc[0]
            said.append(
                f"{label}: {line[BETWEEN]:.1f} %, feasible {line['feasible (%)']:.0f} %, Storm can "
                f"run {line['Storm can run (%)']:.0f} %."
            )
    none = table[table[NONE] > 0]
    if len(none):
        told = [f"{m} {share:.0f} %" for m, share in zip(none[METHOD], none[NONE], strict=True)]
        said.append(
            f"Proven to have no placement under what a method must keep: {', '.join(told)}."
        )
    return said


_SEEDS = range(30)


def _figure(name: str, title: str, reading: str, size: str, **parameters: int) -> Figure:
    """Return a figure of the sweep of this name; `parameters` are those of its instances."""
    return Figure(
        name=f"cross-comparison/{name}",
        title=title,
        source="Ours; `storm_cluster`",
        words="No paper compares these methods.",
        rows=sweep_rows(
            Path(__file__).with_name(f"{name}.toml"),
            reduced={"instances.generate.0.seeds": {"from": 0, "to": 1}},
            wide=True,
        ),
        table=table_of(_SEEDS, parameters),
        plot=plot,
        measured=measured,
        readings=(
            (
                "Means over all plans, infeasible ones included, with 95 % intervals; "
                "feasible is by the referee, with slots where a plan has them. Methods "
                "without slots see the instance without them."
            ),
            (
                "Seconds: geometric mean shifted by 10 ms, building and solving, one "
                "thread, on two shared cores: for comparison only."
            ),
            f"Each method gets 2 s. {reading}",
        ),
        size=f"Full: 30 seeds at 50, 70 and 85 % of all CPU; {size}. Reduced: two seeds.",
    )


FIGURES = (
    _figure(
        "small",
        "Small clusters, with the exact models",
        ("eoa-milp minimises capacity first, which takes longer. imc-exact and "
"storm-milp have the same objective, but only the latter must give each "
"topology its workers: imc-exact may send less, and has plans where "
"storm-milp proves that there are none."),
        "two topologies of 8 executors and 2 workers on 4 nodes of 2 slots",
        components=5, executors=8, topologies=2, workers=2, nodes=4, slots=2,
    ),
    _figure(
        "large",
        "Larger clusters",
        "The exact models, which prove nothing here in a minute, are left out.",
        "four topologies of 60 executors and 8 workers on 16 nodes of 4 slots",
        components=10, executors=60, topologies=4, workers=8, nodes=16,
    ),
)  # fmt: skip
