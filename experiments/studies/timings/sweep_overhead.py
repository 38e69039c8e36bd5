"""What a sweep costs beside its runs: isolation, Spark, storage.

Fixed work: runs that last 10 ms or 200 ms, and some that crash, on ``local[2]``, in a session that
is up. *Ideal* is the time that two cores need for the runs alone; efficiency = ideal / wall, where
wall is the whole call of `run_sweep`: planning, chunking, isolation, rows to Parquet, compaction.

Run it with ``python -m experiments.studies.timings.sweep_overhead``.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.spark.session import spark_session
from experiments.studies.timings.table import print_table
from experiments.sweep import Spec, run_sweep

SLOTS = 2
RUNNER = "experiments.studies.timings.sweep_overhead:work"
INSTANCE = """{"format": "streamplace.instance/1", "name": "none", "resources": ["cpu"],
"nodes": [{"id": "n"}], "tasks": [{"id": "t"}]}"""


@dataclass(frozen=True)
class Case:
    """Runs of one length, of which every so many-th may end its process."""

    name: str
    runs: int
    seconds: float
    crash_every: int = 0


CASES = (
    Case("1,000 runs of 10 ms, the first sweep of the session", 1000, 0.01),
    Case("1,000 runs of 10 ms", 1000, 0.01),
    Case("200 runs of 200 ms", 200, 0.2),
    Case("1,000 runs of 10 ms, every 50th ends its process", 1000, 0.01, 50),
    Case("5,000 runs of nothing", 5000, 0.0),
)


def work(document: bytes, arguments: dict[str, Any]) -> dict[str, Any]:
    """Last for the time asked for, and then perhaps end the process."""
    time.sleep(arguments["seconds"])
    if arguments["crash_every"] and arguments["seed"] % arguments["crash_every"] == 0:
        os._exit(1)
    return {"objective": 1.0, "termination": "heuristic", "result": "{}"}


def measure(case: Case, folder: Path) -> float:
    """Return the seconds of one sweep over a case."""
    (folder / "none.json").write_text(INSTANCE)
    options = {"seconds": case.seconds, "crash_every": case.crash_every}
    spec = Spec.from_dict(
        {
            "name": "overhead",
            "instances": {"files": ["none.json"]},
            "matrix": {
                "method": [{"method": "work", "options": options}],
                "seed": {"from": 1, "to": case.runs},
            },
        },
        folder,
    )
    began = time.perf_counter()
    summary = run_sweep(spec, folder / "out", progress=False, runner=RUNNER)
    seconds = time.perf_counter() - began
    if summary.total != case.runs:
        raise AssertionError(f"{summary.total} rows of {case.runs} runs")
    return seconds


def main() -> None:
    """Measure all cases and print a Markdown table."""
    rows = []
    with spark_session(f"local[{SLOTS}]") as session:
        session.sparkContext.parallelize(range(SLOTS), SLOTS).count()
        for case in CASES:
            with tempfile.TemporaryDirectory() as folder:
                wall = measure(case, Path(folder))
            ideal = case.runs * case.seconds / SLOTS
            overhead = (wall - ideal) * SLOTS / case.runs * 1000
            rows.append([case.name, ideal, wall, ideal / wall, overhead])
    columns = ["runs", "ideal, s", "wall, s", "efficiency", "overhead a run and core, ms"]
    print_table(f"Sweeps on local[{SLOTS}]", columns, rows)


if __name__ == "__main__":
    main()
