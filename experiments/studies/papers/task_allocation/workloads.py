"""Figure 9: a real job of section 7.4 whose rate varies. No sweep: plans follow one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from optim.format.instance import Instance

LEVELS = ((0.0, 0.5), (2.0, 1.0), (5.0, 0.7), (8.0, 0.4), (11.0, 0.2), (14.0, 0.4))
"""From which minute on the job gets which share of its peak rate."""
MINUTES, MINUTES_REDUCED = 17.0, 8.0
STEP, STEP_REDUCED = 0.5, 1.0
NOISE = 0.03
THRESHOLD = 0.1
CAPACITY = 400.0


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
