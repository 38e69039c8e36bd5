"""Figure 9: an input rate that rises and falls, with and without planning again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.studies.papers.figure import Figure
from experiments.studies.papers.task_allocation.figures import COSTS_READING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from optim.format.instance import Instance

LEVELS = ((0.0, 0.5), (2.0, 1.0), (5.0, 0.7), (8.0, 0.4), (11.0, 0.2), (14.0, 0.4))
"""From which minute on the job gets which share of its peak rate."""
MINUTES, MINUTES_REDUCED = 17.0, 8.0
STEP, STEP_REDUCED = 0.5, 1.0
NOISE = 0.03
THRESHOLD = 0.1
CAPACITY = 400.0

MINUTE, RATE = "minute", "input rate (% of peak)"
METHODS = ("TD-RC", "TD", "Storm")


def measure(folder: Path, reduced: bool) -> pd.DataFrame:
    """Plan once at the peak with TD and Storm, and again after every change with TD-RC."""
    import pandas as pd

    minutes, step = (MINUTES_REDUCED, STEP_REDUCED) if reduced else (MINUTES, STEP)
    peak = make_job(1.0)
    once = {"TD": plan_top_down(peak), "Storm": plan_storm(peak)}
    standing: NDArray[np.int32] | None = None
    planned_at = 0.0
    rows = []
    for minute, rate in rates(minutes, step):
        now = make_job(rate)
        moves = 0
        if standing is None or abs(rate - planned_at) > THRESHOLD * planned_at:
            fresh = plan_top_down(now)
            moves = 0 if standing is None else int((fresh != standing).sum())
            standing, planned_at = fresh, rate
        row = {MINUTE: minute, RATE: 100 * rate, "moves of TD-RC": moves}
        for name, node in {"TD-RC": standing, **once}.items():
            row |= judged(now, node, name)
        rows.append(row)
    return pd.DataFrame(rows)


def rates(minutes: float, step: float) -> Iterator[tuple[float, float]]:
    """Give pairs of minute and share of the peak: the levels, with a little noise below them."""
    import numpy as np

    rng = np.random.default_rng(0)
    for minute in np.arange(0.0, minutes, step):
        level = [share for start, share in LEVELS if start <= minute][-1]
        # noise only lowers, so that the plan made at the peak holds throughout
        yield float(minute), level * (1 - NOISE * float(rng.random()))


def make_job(rate: float) -> Instance:
    """Return the Twitter job at a share of its peak rate; costs and traffic follow it."""
    from experiments.generators import generate

    return generate("twitter", capacity=CAPACITY, input_rate=rate)


def plan_top_down(instance: Instance) -> NDArray[np.int32]:
    """(T,) nodes by TD.

    Raises
    ------
    StreamplaceError
        TD does not place everything.
    """
    from optim import solve
    from optim.errors import StreamplaceError

    plan = solve(instance, method="top-down").plan
    if plan is None:
        raise StreamplaceError(f"top-down does not place {instance.name}")
    return plan.node_indices(instance)


def plan_storm(instance: Instance) -> NDArray[np.int32]:
    """(T,) nodes by Storm's default on the fewest workers for which no node is overloaded.

    Raises
    ------
    StreamplaceError
        It overloads some node on any number of workers.
    """
    from optim import solve
    from optim.errors import StreamplaceError

    for workers in range(1, instance.num_nodes + 1):
        document = instance.to_dict()
        document["nodes"] = document["nodes"][:workers]
        fewer = type(instance).from_dict(document)
        result = solve(fewer, method="storm-even")
        if result.plan is not None and result.evaluation is not None and result.evaluation.feasible:
            return result.plan.node_indices(fewer)
    raise StreamplaceError(f"storm-even overloads some node of {instance.name} on any workers")


def judged(instance: Instance, node: NDArray[np.int32], name: str) -> dict[str, float]:
    """Return IMC gain and highest utilisation of a placement under the rates of now."""
    from optim import Plan, evaluate

    evaluation = evaluate(instance, Plan.from_indices(instance, node))
    return {
        f"{name} (MB/s)": evaluation.imc_gain or 0.0,
        f"highest load {name} (%)": 100 * (evaluation.max_utilisation or 0.0),
        f"nodes {name}": evaluation.nodes_used or 0,
    }


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a measurement: rate, gain of each, moves, nodes, highest load."""
    columns = [MINUTE, RATE, *(f"{name} (MB/s)" for name in METHODS), "moves of TD-RC"]
    columns += [f"nodes {name}" for name in METHODS]
    columns.append("highest load TD-RC (%)")
    return rows[columns]


def plot(table: pd.DataFrame, axes: list[Axes]) -> None:
    """Gain above, input rate below, as the paper has it."""
    from streamplace.present.plots import draw_lines

    above, below = axes
    draw_lines(above, table, MINUTE, [f"{name} (MB/s)" for name in METHODS])
    above.set_ylabel("IMC gain (MB/s)")
    above.set_ylim(bottom=0)
    below.plot(table[MINUTE], table[RATE], color="#333333", drawstyle="steps-post")
    below.set_ylabel(RATE)
    below.set_ylim(0, 105)
    below.set_xlabel(MINUTE)


def measured(table: pd.DataFrame) -> list[str]:
    """Say what the paper says, with our figures."""
    gain = {name: table[f"{name} (MB/s)"].to_numpy() for name in METHODS}
    rate = table[RATE].to_numpy()
    high, low = rate > 90, int(rate.argmin())
    ratio = (gain["TD"] / gain["Storm"]).mean()
    planned = int((table["moves of TD-RC"] > 0).sum())
    return [
        f"TD gains {ratio:.2f} times what Storm does, both planned once at the peak.",
        f"From the peak to {rate[low]:.0f} % of the rate the gain of TD falls from "
        f"{gain['TD'][high].mean():.1f} to {gain['TD'][low]:.1f} MB/s, that of TD-RC from "
        f"{gain['TD-RC'][high].mean():.1f} to {gain['TD-RC'][low]:.1f}; at no time is it below "
        f"{gain['TD-RC'].min():.1f}.",
        f"TD-RC plans again {planned} times in {len(table)} measurements, moves "
        f"{table['moves of TD-RC'].sum()} tasks in all, and never loads a node above "
        f"{table['highest load TD-RC (%)'].max():.0f} %.",
    ]


FIGURE = Figure(
    name="task-allocation/fig-9",
    title="Adapting to a varying input rate",
    source="Chatzistergiou and Viglas, CIKM 2014, Figure 9, section 7.4",
    words=(
        "The Twitter job at a varying rate, nodes of 400 %. TD and Storm are "
        "planned once, at the highest rate (minutes 2 to 5); TD gains twice what "
        "Storm does, and both fall with the rate. TD-RC plans again when the rate "
        "changes and keeps its gain almost constant from minute 5 on."
    ),
    rows=measure,
    table=table,
    plot=plot,
    measured=measured,
    readings=(
        COSTS_READING,
        (
            "The course of the rate is ours, with the paper's peak: 50 % of the peak, "
            "100 % from minute 2, then 70, 40, 20 and 40 %, less up to 3 % of noise "
            "(seed 0). TD-RC plans again when the rate is more than 10 % off the last "
            "planned one."
        ),
        "Storm gets the fewest workers for which no node is overloaded at the peak: the choice "
        "that is best for it.",
        "Moving tasks costs nothing here; the paper measures no cost either.",
    ),
    size="Full: 17 minutes, two measurements a minute. Reduced: 8 minutes, one a minute.",
    panels=2,
)

FIGURES = (FIGURE,)
