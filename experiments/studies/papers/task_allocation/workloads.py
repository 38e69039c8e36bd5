"""Tables of the real jobs of section 7.4, whose costs are lost: drawn over a range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.studies.papers.task_allocation import allocations

if TYPE_CHECKING:
    import pandas as pd

    from optim.format.instance import Instance

TOTAL = {"twitter": 143.0, "bargain": 790.0}
CAPACITIES = (60, 80, 100, 150, 200, 300, 400, 600, 1000, 1600, 3200, 6400)
"""Percent of a core; the last one holds any job drawn here."""


def drawn(kind: str, seed: int, capacity: float) -> Instance:
    """Return a job of the paper's shape and total traffic; seed 0 is the generator's own.

    Costs of the groups, numbers of tasks and shares of the traffic are drawn; a task never costs
    more than half of the least capacity.
    """
    import numpy as np

    from experiments.generators import generate

    made = generate(kind, capacity=capacity)
    if seed == 0:
        return made
    rng = np.random.default_rng(seed)
    document = made.to_dict()
    cost = rng.dirichlet(np.full(made.num_operators, 2.0)) * rng.uniform(300, 4000)
    tasks = np.maximum(np.ceil(cost / 30).astype(int), rng.integers(2, 31, made.num_operators))
    for operator, c, k in zip(document["operators"], cost, tasks, strict=True):
        operator.pop("tasks", None)
        operator["group"] = {"tasks": int(k), "load": {"cpu": float(c)}}
    share = rng.dirichlet(np.full(len(document["streams"]), 1.5))
    for stream, part in zip(document["streams"], share, strict=True):
        stream["rate"] = float(TOTAL[kind] * part)
    return made.replace(operators=document["operators"], streams=document["streams"])


def workloads(reduced: bool) -> pd.DataFrame:
    """One line a job, a draw of the lost costs and a capacity: gains of all, empty if not whole."""
    import pandas as pd

    lines = []
    for kind in TOTAL:
        for seed in range(10 if reduced else 40):
            for capacity in CAPACITIES[::3] if reduced else CAPACITIES:
                made = drawn(kind, seed, float(capacity))
                lines.append(
                    {
                        "job": kind,
                        "seed": seed,
                        "capacity": capacity,
                        "td": allocations.td(made).gain,
                        "td_imc": allocations.td(made, "imc").gain,
                        "tl": allocations.tl(made, seed=seed).gain,
                        "tl_row": allocations.tl(made, "task_imc", "row").gain,
                        "storm": allocations.storm(made).gain,
                    }
                )
    return pd.DataFrame(lines)


def workers(reduced: bool) -> pd.DataFrame:
    """One line a number of workers of Storm's: its gain at the peak of Figure 9, beside TD's."""
    import pandas as pd

    from experiments.studies.papers.task_allocation.fig_9 import make_job

    made = make_job(1.0)
    best = allocations.td(made).gain
    lines = [
        {"workers": count, "storm": allocations.storm(made, count).gain, "td": best}
        for count in range(1, 101, 10 if reduced else 1)
    ]
    return pd.DataFrame(lines)


def varying_rate(reduced: bool) -> pd.DataFrame:
    """One line a seed and change of the rate: what was noticed, and what was not one."""
    import numpy as np
    import pandas as pd

    from experiments.studies.papers.task_allocation.fig_9 import NOISE, THRESHOLD

    lines: list[dict[str, Any]] = []
    for seed in range(10 if reduced else 30):
        rng = np.random.default_rng(seed)
        minutes = np.arange(0.0, 240.0, 0.5)
        level, planned, levels = 0.5, 0.5, []
        changed, noticed, delays, false = 0, 0, [], 0
        waiting: float | None = None
        for minute in minutes:
            if rng.random() < 0.5 / 12:  # a change every 12 minutes in the mean
                level = float(np.clip(level * rng.choice([0.5, 0.7, 1.4, 2.0]), 0.05, 1.0))
                if abs(level - planned) > THRESHOLD * planned:
                    changed += waiting is None
                    waiting = minute if waiting is None else waiting
            rate = level * (1 - NOISE * float(rng.random()))
            levels.append(level)
            if abs(rate - planned) > THRESHOLD * planned:
                if waiting is None:
                    false += 1
                else:
                    noticed += 1
                    delays.append(minute - waiting)
                planned, waiting = rate, None
            elif waiting is not None and abs(level - planned) <= THRESHOLD * planned:
                changed, waiting = changed - 1, None  # it went back before it was measured
        lines.append(
            {"seed": seed, "changed": changed, "noticed": noticed, "false": false}
            | {"longest_delay": max(delays, default=0.0)}
        )
    return pd.DataFrame(lines)
