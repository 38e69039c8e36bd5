"""Figure 5: allocations completed in a fixed time."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from experiments.studies.papers.figure import Figure
from streamplace.present.drawing import draw_lines, log_scale

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes

SECONDS, SECONDS_REDUCED = 19, 3
NAMES = ("TD", "TL")
DURATION = "duration (s)"


def measure(folder: Path, reduced: bool) -> pd.DataFrame:
    """Count the calls of each algorithm second by second; finished algorithms are not repeated."""
    import pandas as pd

    from optim.util.store import remembered

    seconds = SECONDS_REDUCED if reduced else SECONDS
    rows = []
    for name in NAMES:
        asked = {"method": name, "seconds": seconds}
        make = partial(_counted, name, seconds)
        counts = remembered(folder / f"{name}.json", asked, make)
        rows += [
            {"method": name, DURATION: second + 1, "allocations": calls}
            for second, calls in enumerate(counts)
        ]
    return pd.DataFrame(rows)


def _counted(name: str, seconds: int) -> list[int]:
    return count_calls(prepared(name), seconds)


def prepared(name: str, **changes: Any) -> Callable[[], object]:
    """Return one call of a compiled algorithm on arrays that stand ready.

    Parameters
    ----------
    name
        TD or TL.
    **changes
        Of the instance: parameters of the generator ``pipeline``.
    """
    from experiments.generators import generate
    from heuristics.task_allocation.groups import grouped_job
    from heuristics.task_allocation.task_level_kernel import task_level
    from heuristics.task_allocation.task_pairs import PAIR_ORDERS, pair_runs
    from heuristics.task_allocation.top_down_kernel import top_down

    rates = {"rates": "15,14,16", **changes}
    job = grouped_job(generate("pipeline", seed=0, **rates))
    arrays = (job.size, job.load, job.room, job.allowed, job.edge_u, job.edge_v)
    if name == "TD":
        order = job.priority("significance")
        return lambda: top_down(*arrays, order, 0)
    runs = pair_runs(job, None, "imc", "shuffled", 0)
    shuffled = PAIR_ORDERS.index("shuffled")
    return lambda: task_level(*arrays, runs, shuffled, 0)


def count_calls(call: Callable[[], object], seconds: int) -> list[int]:
    """Return how many calls had ended after 1, 2, … seconds of this process's own time."""
    call()  # compiled, or loaded from the cache, before the clock starts
    counts: list[int] = []
    calls, batch = 0, 1
    began = time.process_time()
    while len(counts) < seconds:
        for _ in range(batch):
            call()
        calls += batch
        spent = time.process_time() - began
        # look at the clock about every millisecond only
        batch = max(1, int(1e-3 * calls / max(spent, 1e-6)))
        while len(counts) < seconds and spent >= len(counts) + 1:
            counts.append(calls)
    return counts


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a second: allocations of both so far, and their ratio."""
    wide = rows.pivot_table(index=DURATION, columns="method", values="allocations")
    wide = wide.astype(int)
    wide["TD / TL"] = wide["TD"] / wide["TL"]
    return wide.rename_axis(columns=None).reset_index()


def plot(table: pd.DataFrame, axes: Axes) -> None:
    """Allocations over time, on a logarithmic scale since two orders of magnitude lie between."""
    draw_lines(axes, table, DURATION, list(NAMES))
    log_scale(axes, "y")
    axes.set_xlabel("duration of the run (s of processor time)")
    axes.set_ylabel("allocations")


def measured(table: pd.DataFrame) -> list[str]:
    """Give allocations a second and the ratio."""
    last = table.iloc[-1]
    td, tl = (last[name] / last[DURATION] for name in NAMES)
    return [
        f"TD makes {td:,.0f} allocations a second, TL {tl:,.0f}: a ratio of {td / tl:.0f}.",
        f"TD is {td / 264:,.0f} times the paper's 264 a second (Java, a desktop of 2011).",
    ]


FIGURE = Figure(
    name="task-allocation/fig-5",
    title="Invocation throughput",
    source="Chatzistergiou and Viglas, CIKM 2014, Figure 5, section 7.2",
    words=(
        "A pipeline of four groups of 100 tasks with equal costs and about equal traffic: TD does "
        "two orders of magnitude more allocations than TL, 5,012 in 19 s at the peak, which is "
        "264 a second."
    ),
    rows=measure,
    table=table,
    plot=plot,
    measured=measured,
    readings=(
        "20 nodes with a tenth to spare, group cost 200 %, traffic 15, 14 and 16 MB/s: the paper "
        "gives no numbers.",
        "Both are compiled and called on arrays that stand ready: reading an instance and checking "
        "the plan are not part of it. Seconds are those of the process, so that other work on the "
        "machine counts little.",
    ),
    size="Full: 19 s each. Reduced: 3 s.",
)
