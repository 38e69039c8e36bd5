"""What the papers say of a running Storm: tuples lost by a rescheduling, the cost of monitoring.

    python -m experiments.studies.papers.storm.live [--folder F] [--store]

``--store`` keeps the tables ``live-moves`` and ``live-monitoring`` with the papers that claim them.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.studies.lab.plans import random_places
from experiments.studies.lab.runner import LabError, Walk, run_lab, tell, wait_until
from experiments.studies.lab.storm import PATIENCE, SUPERVISORS, StormCluster, placed
from experiments.studies.lab.storm_plugin import STORM
from experiments.studies.papers.tables import store_table
from optim import Instance, Plan, solve
from streamplace.clusters.storm.nimbus import Nimbus

COUNT, RATE, SPOUTS = 4_000, 50, 2  # Tuples of an executor of the spout, and its tuples/s.
RESCHEDULINGS = 2
SECONDS = 40.0  # Of a measurement of processor time.
EVERY = 10.0  # Seconds between imports of a monitored topology.
EXECUTORS = SPOUTS + 3 + 3
MACHINE = f"{platform.machine()}, {os.cpu_count()} shared cores"
_TICK = os.sysconf("SC_CLK_TCK")


def ledgered(folder: Path) -> list[dict[str, Any]]:
    """Return components that write what they sent and received."""
    return [
        {"id": "lines", "executors": SPOUTS, "rate": RATE, "count": COUNT, "ledger": str(folder)},
        {"id": "split", "executors": 3, "from": "lines"},
        {"id": "store", "executors": 3, "from": "split", "out": 0, "ledger": str(folder)},
    ]


def moved(
    cluster: StormCluster, folder: Path, ackers: int, *, drained: bool = False
) -> dict[str, Any]:
    """Reschedule a topology while it works off its tuples; return what came out.

    `drained`: the spouts are stopped first, until all that they sent has come out, as in the task
        allocation paper, section 6.
    """
    name = f"acked{ackers}{'-drained' * drained}"
    ledger = folder / f"ledger-{name}"
    ledger.mkdir(exist_ok=True)
    for file in ledger.iterdir():
        file.unlink()
    # with ackers a lost tuple is sent again after 20 s; without, it is lost
    more = {"topology.acker.executors": ackers, "topology.message.timeout.secs": 20}
    cluster.run(name, EXECUTORS + ackers, ledgered(ledger), **more)
    walk = Walk("storm", cluster.url, folder)
    walk.read(cpu="requested", topology=name, interval=0)
    instance, rng = Instance.load(walk.file["instance"]), np.random.default_rng(ackers)
    restarts = 0

    def sent() -> list[int]:
        files = [ledger / f"acked-{i}" for i in range(SPOUTS)]
        return [int(f.read_text() or 0) if f.exists() else 0 for f in files]

    for _ in range(RESCHEDULINGS):
        Plan.from_indices(instance, *random_places(instance, rng)).save(walk.file["plan"])
        walk.export()
        if drained:
            _set_active(cluster, name, active=False)
            wait_until(lambda: len(received(ledger)) == sum(sent()), f"{name} is drained")
        verdict = placed(cluster.url, walk)
        if not verdict.holds:
            raise LabError(verdict.text())
        if drained:
            _set_active(cluster, name, active=True)
        restarts += 1
        time.sleep(5.0)

    def done() -> bool:
        return min(sent()) >= COUNT

    wait_until(done, f"all tuples of {name} are acked")
    time.sleep(10.0)  # what is under way without ackers
    counts = received(ledger)
    cluster.end(name)
    return {
        "acked": ackers > 0, "drained": drained, "reschedulings": restarts,
        "tuples_in": SPOUTS * COUNT, "tuples_out": len(counts),
        "out_again": sum(counts.values()) - len(counts),
    }  # fmt: skip


def _set_active(cluster: StormCluster, name: str, *, active: bool) -> None:
    """Let the spouts send or stop them; a stopped one notices within seconds."""
    with Nimbus(cluster.url, PATIENCE) as nimbus:
        nimbus.set_active(name, active=active)
    time.sleep(10.0)


def received(ledger: Path) -> Counter[int]:
    """Count what the last bolts received, by tuple."""
    lines = [line for f in ledger.glob("received-*") for line in f.read_text().splitlines()]
    return Counter(int(line) for line in lines if line.isdigit())


def monitored(cluster: StormCluster, folder: Path, often: bool) -> dict[str, Any]:
    """Measure the processors at a fixed rate, with frequent requests and reports or without."""
    name = "often" if often else "seldom"
    every = 5 if often else 60
    conf = {"period": every, "topology.acker.executors": 1}
    conf["executor.metrics.frequency.secs"] = every
    parts = [
        {"id": "lines", "executors": 2, "rate": 100},
        {"id": "split", "executors": 3, "from": "lines", "rounds": 5_000},
        {"id": "store", "executors": 3, "from": "split", "out": 0},
    ]
    cluster.run(name, 9, parts, **conf)
    # workers have compiled their code and reported
    time.sleep(15.0)
    walk = Walk("storm", cluster.url, folder)
    before, began, import_time = _cpu(cluster), time.monotonic(), time.process_time()
    ends = began + SECONDS
    while time.monotonic() < ends:
        if often:
            walk.read(cpu="requested", topology=name, interval=0)
        time.sleep(max(0.0, min(EVERY, ends - time.monotonic())))
    elapsed = time.monotonic() - began
    import_time = time.process_time() - import_time
    used = {part: (now - before[part]) / elapsed for part, now in _cpu(cluster).items()}
    schedule = 0.0
    if often:
        instance = Instance.load(walk.file["instance"])
        start = time.process_time()
        solve(instance, "storm-online")
        schedule = time.process_time() - start
    cluster.end(name)
    return {
        "monitored": often, "seconds": round(elapsed, 1), "nimbus_cores": round(used["nimbus"], 4),
        "worker_cores": round(used["workers"], 4), "import_cores": round(import_time / elapsed, 4),
        "schedule_s": round(schedule, 4),
    }  # fmt: skip


def _cpu(cluster: StormCluster) -> dict[str, float]:
    """Return processor seconds of Nimbus, and of supervisors with their workers."""
    parts = {"nimbus": ("nimbus",), "workers": SUPERVISORS}
    return {
        part: sum(_seconds(pid) for name in names for pid in cluster.members(name))
        for part, names in parts.items()
    }


def _seconds(pid: int) -> float:
    try:
        stat_fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    # utime and stime, the 14th and 15th field
    return (int(stat_fields[11]) + int(stat_fields[12])) / _TICK


def work(folder: Path, args: argparse.Namespace) -> tuple[str, bool]:
    """Measure, print, and store where asked to."""
    command = "python -m experiments.studies.papers.storm.live --store"
    with StormCluster(folder) as cluster:
        cluster.start_all()
        for table, other, rows in (
            ("live-moves", "task_allocation",
             (moved(cluster, folder, ackers, drained=drained)
              for ackers, drained in ((1, False), (0, False), (0, True)))),
            ("live-monitoring", "elastic_allocator",
             (monitored(cluster, folder, often) for often in (False, True))),
        ):  # fmt: skip
            frame = pd.DataFrame(list(rows)).assign(storm=STORM, machine=MACHINE)
            tell(f"{table}\n{frame.to_string(index=False)}")
            for paper in ("storm", other) if args.store else ():
                store_table(paper, table, frame, command=command, seeds="live, one run each")
    return "done", True


if __name__ == "__main__":
    store = ("--store", {"action": "store_true", "help": "keep the tables with the paper"})
    sys.exit(run_lab("lab-storm-claims", __doc__, work, store))
