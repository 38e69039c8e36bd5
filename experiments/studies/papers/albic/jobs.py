"""The real jobs, set-ups J and R: what the claims need of their replays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.papers.albic.runs import Row, frame
from experiments.studies.papers.albic_real.replays import Replay, write_edits

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from optim.format.instance import Instance

FOLDER = Path("build/papers/albic-real")
"""That of the figures: what they traced and replayed is not done again."""

OF_JOB = {1: "control", 2: "fig-12", 3: "fig-13", 4: "fig-14"}
PROOF = "balance_gap=5"
"""ALBIC stops proving within 5 points in Real Jobs 3 and 4, where a proof takes long."""

MILP = "balance-milp:gap=0.1,time_limit=20"
"""In Real Job 1: within 0.1 % of the mean load, a tenth of the point of the paper."""

POLICIES = {
    1: (MILP, "balance-search", "flux", "potc", "albic", "cola"),
    2: ("albic", "albic:max_part_load=50", "cola"),
    3: (f"albic:{PROOF}", "cola"),
    4: (f"albic:{PROOF}", "cola"),
}
PERIODS = {
    (1, ""): 48,
    (2, "albic"): 365,
    (2, "albic:max_part_load=50"): 75,
    (2, ""): 120,
    (3, ""): 120,
    (4, f"albic:{PROOF}"): 120,
    (4, "cola"): 30,
}
"""Days replayed by job and policy: fewer where more show nothing new."""


AFTER_COLA = ("albic", "balance-milp:gap=6", "flux")
"""Who goes on from a plan of COLA."""

AFTER_PERIODS = 30
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


def replayed(job: int, policies: Sequence[str], reduced: bool, most: int) -> pd.DataFrame:
    """Return the rows of a job's replay that claims are judged by; collocation in percent."""
    name = OF_JOB[job]
    folder = FOLDER / (f"{name}-reduced" if reduced else name) / "rows"
    folder.mkdir(parents=True, exist_ok=True)
    prepare = write_edits if job == 1 else None
    replay = Replay(f"real_job_{job}.toml", policies, prepare=prepare)
    return _told(job, replay.first(folder, reduced, most))


def job(number: int, reduced: bool) -> pd.DataFrame:
    """Return the rows of a job."""
    made: list[Row] = []
    for policy in POLICIES[number]:
        most = PERIODS.get((number, policy)) or PERIODS[number, ""]
        rows = replayed(number, (policy,), reduced, 12 if reduced else most)
        made += rows.to_dict("records")  # type: ignore[arg-type]
    return frame(made)


def after_cola(reduced: bool) -> pd.DataFrame:
    """Return the rows of Real Job 2 when the key groups are at first as COLA places them."""
    folder = FOLDER / ("fig-12-reduced" if reduced else "fig-12") / "rows"
    folder.mkdir(parents=True, exist_ok=True)
    replay = Replay("real_job_2.toml", AFTER_COLA)
    most = 12 if reduced else AFTER_PERIODS
    return _told(2, replay.first(folder, reduced, most, placement="cola"))


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


def cola_starts(reduced: bool) -> pd.DataFrame:
    """COLA on the first day of Real Job 4 from random placements."""
    import numpy as np

    from experiments.replay.periods import load_trace
    from experiments.replay.run import Setting, first_state, step
    from experiments.studies.papers.albic.runs import placed
    from experiments.traces.instances import load_scale
    from streamplace.policies.deployment import CostModel
    from streamplace.policies.registry import read_policy

    folder = FOLDER / ("fig-14-reduced" if reduced else "fig-14") / "rows"
    folder.mkdir(parents=True, exist_ok=True)
    trace = Replay("real_job_4.toml", ()).trace(folder, reduced)
    day: Instance = load_trace(trace.path, most=1)[0]
    scale = load_scale(trace)
    rows: list[Row] = []
    for seed in range(3 if reduced else 30):
        node = np.random.default_rng(seed).integers(0, day.num_nodes, day.num_tasks)
        start = placed(day, node.astype(np.int32))
        setting = Setting([start], CostModel(scale, scale))
        policy: Any = read_policy("cola", seed)
        row, _ = step(setting, policy, 0, first_state(setting, policy))
        rows.append(
            {
                "seed": seed,
                "collocated": 100.0 * row["collocation_factor"],
                "distance": row["load_distance"],
                "migrations": row["migrations"],
            }
        )
    return frame(rows)
