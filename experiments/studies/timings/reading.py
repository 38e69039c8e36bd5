"""Reading, validating and judging a large instance: 100,000 tasks with four streams each.

Run: ``python -m experiments.studies.timings.reading``. Fixed work, fixed seed; each measurement in
a process of its own, so that the peak memory is the measured step's.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from experiments.studies.timings.table import best_of, print_table

TASKS, NODES, STREAMS = 100_000, 1_000, 4


def write_instance(path: Path, tasks: int = TASKS, nodes: int = NODES) -> None:
    """Write an instance with `STREAMS` directed pairs a task and a current placement."""
    rng = random.Random(1)
    value = {
        "format": "streamplace.instance/1",
        "name": f"reading-{tasks}",
        "origin": "benchmark, seed 1",
        "resources": ["cpu", "memory"],
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 1e3, "memory": 5e3}} for i in range(nodes)],
        "tasks": [
            {
                "id": f"t{i}",
                "load": {"cpu": rng.random(), "memory": rng.random()},
                "state": rng.random(),
                "node": f"n{i % nodes}",
            }
            for i in range(tasks)
        ],
        "traffic": [
            [f"t{i}", f"t{(i + 7 * k + 1) % tasks}", rng.random()]
            for i in range(tasks)
            for k in range(STREAMS)
        ],
    }
    path.write_text(json.dumps(value))


def measure(path: str) -> None:
    """Read one file and judge a plan on it; print seconds and peak memory as JSON."""
    import time

    import numpy as np

    from optim import Instance, Plan, evaluate

    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    instance = Instance.load(path)
    read = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    plan = Plan.from_indices(instance, (np.arange(instance.num_tasks) * 7) % instance.num_nodes)
    started = time.perf_counter()
    evaluate(instance, plan)
    first = time.perf_counter() - started
    figures = {
        "read": read,
        "peak": peak / 2**10,
        "grown": (peak - base) / 2**10,
        "first": first,
        "again": best_of(lambda: evaluate(instance, plan)),
        "hash": best_of(lambda: instance.replace(name=instance.name).sha256, 1),
    }
    print(json.dumps(figures))


def main() -> None:
    """Measure and print the table."""
    if len(sys.argv) > 1:
        measure(sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "instance.json"
        write_instance(path)
        size = path.stat().st_size / 1e6
        command = [sys.executable, "-m", "experiments.studies.timings.reading", str(path)]
        runs = [
            json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            for _ in range(5)
        ]
    best = {key: min(run[key] for run in runs) for key in runs[0]}
    worst = {key: max(run[key] for run in runs) for key in runs[0]}
    rows = [
        [
            f"read and validate {size:.0f} MB",
            f"{best['read']:.2f} … {worst['read']:.2f} s",
            "≤ 2 s",
        ],
        ["peak memory of the process", f"{worst['peak']:.0f} MB", "≤ 1 GB"],
        [
            "referee, first call",
            f"{1e3 * best['first']:.1f} … {1e3 * worst['first']:.1f} ms",
            "≤ 50 ms",
        ],
        ["referee, further calls", f"{1e3 * best['again']:.1f} ms", ""],
        ["write, read again and hash", f"{best['hash']:.2f} s", ""],
    ]
    title = f"Reading and judging: {TASKS:,} tasks, {NODES:,} nodes, {STREAMS} streams a task"
    print_table(title, ["what", "measured (5 processes)", "aim"], rows)


if __name__ == "__main__":
    main()
