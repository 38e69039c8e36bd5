"""Runs of the sweeps, and whether Storm can run their plans: no figure of the referee says so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.studies.papers.tables import load, run_rows
from experiments.sweep import plan_runs
from formulations.storm.problem import storm_jobs
from formulations.storm.search import workers_of
from optim import Instance

REDUCED = {"instances.generate.0.seeds": {"from": 0, "to": 1}}


def runs_of(folder: Path, reduced: bool, sweep: str) -> pd.DataFrame:
    """Return the rows of a sweep with the column ``storm``: whether Storm can run the plan."""
    spec = load(Path(__file__).with_name(sweep), REDUCED if reduced else None)
    rows = run_rows(spec, folder, wide=True)
    # rows have results as JSON; instances are made again from the same sweep
    prepared = {run.instance.name: run.instance for run in plan_runs(spec).runs}
    instances = {name: Instance.from_json(one.text()) for name, one in prepared.items()}
    return rows.assign(
        storm=[
            can_run(instances[name], json.loads(result))
            for name, result in zip(rows["instance"], rows["result"], strict=True)
        ]
    )


def can_run(instance: Instance, result: Mapping[str, Any]) -> bool:
    """Whether Storm can run a plan: feasible, and every topology gets exactly its workers.

    A plan without slots passes when some numbers of workers on the nodes do it.
    """
    if result["plan"] is None or not result["evaluation"]["feasible"]:
        return False
    if result["plan"].get("slots") is not None:
        return True
    index = instance.nodes.index
    assignment = result["plan"]["assignment"]
    node = np.array([index[assignment[t]] for t in instance.tasks.ids], dtype=np.int64)
    return workers_of(instance, storm_jobs(instance, "storm-milp"), node) is not None
