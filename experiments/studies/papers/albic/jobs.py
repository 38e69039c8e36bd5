"""The real jobs, set-ups J and R: what the claims need of their replays."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.papers.albic.runs import Row, placed
from experiments.studies.papers.albic_real.replays import Replay, write_edits

if TYPE_CHECKING:
    import pandas as pd

    from optim.format.instance import Instance

FOLDER = Path("build/papers/albic-real")
"""That of the figures: what they traced and replayed is not done again."""

OF_JOB = {1: "control", 2: "fig-12", 3: "fig-13", 4: "fig-14"}
PROOF = "balance_gap=5"
"""ALBIC stops proving within 5 points in Real Jobs 3 and 4, where a proof takes long."""

KEPT = {
    "collocation_factor": "collocated",
    "collocation_factor_next": "collocated next",
    "load_distance": "distance",
    "load_distance_next": "distance next",
    "load_index": "load index",
    "mean_load": "mean load",
    "migrations": "migrations",
    "migration_cost": "cost",
    "objective": "planned",
    "bound": "bound",
}


def job(job: int, policy: str, days: int, reduced: bool, placement: str | None = None) -> list[Row]:
    """Return the first days of a job's replay, collocation in percent; from another placement where
    one is named.
    """
    prepare = write_edits if job == 1 else None
    replay = Replay(f"real_job_{job}.toml", (policy,), prepare=prepare)
    rows = _told(job, replay.first(folder_of(job, reduced), reduced, days, placement))
    made: list[Row] = rows.to_dict("records")  # type: ignore[assignment]
    return made


def folder_of(job: int, reduced: bool) -> Path:
    """Return the folder of a job's figure."""
    folder = FOLDER / (f"{OF_JOB[job]}-reduced" if reduced else OF_JOB[job]) / "rows"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _told(job: int, rows: pd.DataFrame) -> pd.DataFrame:
    # replays of before have no objective
    kept = rows.reindex(columns=["policy", "period", *KEPT]).rename(columns=KEPT)
    for column in ("collocated", "collocated next"):
        kept[column] = 100.0 * kept[column]
    kept["policy"] = kept["policy"].str.removesuffix(f":{PROOF}")
    kept.insert(0, "job", job)
    figures = kept.select_dtypes("float").columns
    kept[figures] = kept[figures].map(lambda value: float(f"{value:.5g}"))
    return kept


@cache
def first_day(reduced: bool) -> tuple[Instance, float]:
    """Return the first day of Real Job 4, and the load of a tuple."""
    from experiments.replay.periods import load_trace
    from experiments.traces.instances import load_scale

    trace = Replay("real_job_4.toml", ()).trace(folder_of(4, reduced), reduced)
    return load_trace(trace.path, most=1)[0], load_scale(trace)


def cola_starts(seed: int, reduced: bool) -> Row:
    """COLA on the first day of Real Job 4 from a random placement."""
    import numpy as np

    from experiments.replay.run import Setting, first_state, step
    from streamplace.policies.deployment import CostModel
    from streamplace.policies.registry import read_policy

    day, scale = first_day(reduced)
    node = np.random.default_rng(seed).integers(0, day.num_nodes, day.num_tasks)
    setting = Setting([placed(day, node.astype(np.int32))], CostModel(scale, scale))
    policy: Any = read_policy("cola", seed)
    row, _ = step(setting, policy, 0, first_state(setting, policy))
    return {
        "collocated": 100.0 * row["collocation_factor"],
        "distance": row["load_distance"],
        "migrations": row["migrations"],
    }
