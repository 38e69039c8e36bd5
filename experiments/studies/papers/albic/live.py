"""The pause of a migration by technique, on a running Flink (ALBIC-F9b).

    python -m experiments.studies.papers.albic.live [--folder F] [--store]

A job with keyed state is rescaled between two and three slots. *Savepoint*: it is stopped with a
savepoint, and submitted again from there. *In place*: the job manager gets other resource
requirements, and restores the job from its last checkpoint. A pause is the time in which not all
subtasks run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Self

import pandas as pd

from experiments.studies.lab.flink import MAIN, MANAGERS, FlinkCluster, submitted
from experiments.studies.lab.runner import LabError, run_lab, send, tell, wait_until
from experiments.studies.lab.scale import ADAPTIVE, wait_for_slots
from experiments.studies.papers.storm.live import MACHINE
from experiments.studies.papers.tables import store_table
from streamplace.clusters.flink.submit import flink_jars

RUNS = 4  # Of each technique; the first of each is not counted, as code is compiled in it.
SLOTS = (2, 3)
_BETWEEN = 8.0
_PERIOD = 0.05


class Watched:
    """Measures, while it is open, for how long not all subtasks of any job run."""

    def __init__(self, lab: FlinkCluster) -> None:
        self._lab = lab
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.pause = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        before, ran = time.monotonic(), True
        while not self._over.is_set():
            jobs = self._lab.web.get("jobs/overview")["jobs"]
            # between the old job and the new one there may be none
            counts = [job["tasks"] for job in jobs if job["state"] == "RUNNING"]
            runs = any(one["running"] == one["total"] > 0 for one in counts)
            now = time.monotonic()
            # a stretch counts if the job stood still at either end of it
            if not runs or not ran:
                self.pause += now - before
            before, ran = now, runs
            time.sleep(_PERIOD)


def arguments(slots: int) -> tuple[str, ...]:
    """Return the job's: 400 orders of 600 bytes a second, and as many subtasks of all vertices but
    the source, which has its two partitions."""
    return ("2", *[str(slots)] * 4, "600", "400")


def savepoint(lab: FlinkCluster, job: str, jar: str, slots: int) -> tuple[str, float]:
    """Stop with a savepoint and submit from there; return the new job, and the pause."""
    with lab.client() as client:  # starts, and makes the graph, while the job runs
        graph = client.graph_of_jar(jar, MAIN, arguments(slots))
        settings = client.jvm.org.apache.flink.runtime.jobgraph.SavepointRestoreSettings
        with Watched(lab) as watched:
            body = {"targetDirectory": (lab.folder / "savepoints").as_uri(), "drain": False}
            answer = send(f"{lab.url}/jobs/{job}/stop", json.dumps(body), "POST")
            trigger = json.loads(answer)["request-id"]
            status = f"jobs/{job}/savepoints/{trigger}"
            done = lambda: lab.web.get(status)["status"]["id"] == "COMPLETED"  # noqa: E731
            wait_until(done, "the savepoint is written", pause=_PERIOD)
            written = lab.web.get(status)["operation"]
            if "location" not in written:
                raise LabError(f"no savepoint: {str(written)[:300]}")
            graph.setSavepointRestoreSettings(settings.forPath(written["location"]))
            job = client.submit(graph)
            wait_for_slots(lab, job, slots)
            time.sleep(1.0)
    return job, watched.pause


def in_place(lab: FlinkCluster, job: str, _: str, slots: int) -> tuple[str, float]:
    """Ask for other resources; return the same job, and the pause."""
    vertices = lab.web.get(f"jobs/{job}")["vertices"]
    # a source has two partitions
    most = {v["id"]: 2 if v["name"].startswith("Source") else slots for v in vertices}
    body = {v: {"parallelism": {"lowerBound": 1, "upperBound": n}} for v, n in most.items()}
    with Watched(lab) as watched:
        send(f"{lab.url}/jobs/{job}/resource-requirements", json.dumps(body), "PUT")
        wait_for_slots(lab, job, slots)
        time.sleep(1.0)
    return job, watched.pause


TECHNIQUES = {"savepoint": savepoint, "in place": in_place}


def measure(folder: Path) -> pd.DataFrame:
    """Rescale there and back by each technique, and return the pauses."""
    rows = []
    checkpoints = {
        "execution.checkpointing.interval": "2 s",
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
    }
    with FlinkCluster(folder, settings={**ADAPTIVE, **checkpoints}) as lab:
        for name in MANAGERS:
            lab.start(name)
        lab.wait_for(set(MANAGERS))
        jar, job = submitted(lab, arguments(SLOTS[0]))
        wait_for_slots(lab, job, SLOTS[0])
        for technique, rescale in TECHNIQUES.items():
            for run in range(RUNS):
                time.sleep(_BETWEEN)
                job, pause = rescale(lab, job, jar, SLOTS[(run + 1) % 2])
                load = round(os.getloadavg()[0], 1)
                tell(f"{technique}, run {run}: {pause:.2f} s, load {load}")
                rows.append({"technique": technique, "run": run, "pause": pause, "load": load})
    return pd.DataFrame(rows)


def work(folder: Path, args: argparse.Namespace) -> tuple[str, bool]:
    """Measure, print, and store where asked to."""
    frame = measure(folder).round({"pause": 2})
    flink = next(jar for jar in flink_jars() if "flink-dist" in jar)
    version = Path(flink).stem.removeprefix("flink-dist-")
    # the first of a technique compiles its code
    frame = frame[frame.run > 0].assign(flink=version, machine=MACHINE)
    if args.store:
        command = "python -m experiments.studies.papers.albic.live --store"
        store_table("albic", "live-pauses", frame, command=command, seeds="live, three runs each")
    return "\n" + frame.to_string(index=False), True


if __name__ == "__main__":
    store = ("--store", {"action": "store_true", "help": "keep the table with the paper"})
    sys.exit(run_lab("lab-pauses", __doc__, work, store))
