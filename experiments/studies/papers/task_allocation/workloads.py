"""Tables and Figure 9 of the real jobs of section 7.4, whose costs are lost: drawn over a range.

No sweeps: the generators have no draws of costs, and plans of Figure 9 follow one another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.studies.papers.task_allocation import allocations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from optim.format.instance import Instance

TOTAL = {"twitter": 143.0, "bargain": 790.0}
CAPACITIES = (60, 80, 100, 150, 200, 300, 400, 600, 1000, 1600, 3200, 6400)
"""Percent of a core; the last one holds any job drawn here."""

LEVELS = ((0.0, 0.5), (2.0, 1.0), (5.0, 0.7), (8.0, 0.4), (11.0, 0.2), (14.0, 0.4))
"""From which minute on the job gets which share of its peak rate."""
MINUTES, MINUTES_REDUCED = 17.0, 8.0
STEP, STEP_REDUCED = 0.5, 1.0
NOISE = 0.03
THRESHOLD = 0.1
CAPACITY = 400.0


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


def adapted(folder: Path, reduced: bool) -> pd.DataFrame:
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
        row = {"minute": minute, "input rate (% of peak)": 100 * rate, "moves of TD-RC": moves}
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
