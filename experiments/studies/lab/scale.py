"""A running Flink job scaled to twice its input rate: ``make lab-scale``.

On machines with a share of a core each, a job runs on as many slots as its rate needs. It is
imported, ``streamplace scale`` plans twice the rate, and what ``streamplace export`` writes is sent
to the job manager while the job runs (adaptive scheduler). The rate is measured before and after.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from experiments.studies.lab.flink import FlinkCluster, submitted
from experiments.studies.lab.flink_bench import MACHINES, Running
from experiments.studies.lab.loop import Phases
from experiments.studies.lab.machines import GATEWAY, Machines, reason_against
from experiments.studies.lab.runner import Steps, Walk, command, run_lab, send, wait_until

CORES = 0.3  # Of each machine, held by a control group.
MEGABITS = 100.0
ORDERS = 300.0  # Orders/s at first.
FACTOR = 2
SLOTS = 2  # Subtasks of each vertex at first: all vertices share slots, and a task manager has one.
ADAPTIVE: dict[str, Any] = {
    "jobmanager.scheduler": "adaptive",
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "1 s",
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "1 s",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "1 s",
    "jobmanager.adaptive-scheduler.rescale-trigger.max-delay": "1 s",
}
"""Rescale at once: the defaults wait up to a minute."""
_ROUNDS = "500000"
_COMPILED, _SETTLED = 12.0, 6.0


def wait_for_slots(lab: FlinkCluster, job: str, slots: int) -> float:
    """Wait until all subtasks run, so many of the widest vertex, and return the seconds it took."""

    def run() -> bool:
        vertices = lab.web.get(f"jobs/{job}")["vertices"]
        running = all(one["tasks"]["RUNNING"] == one["parallelism"] for one in vertices)
        return running and max((one["parallelism"] for one in vertices), default=0) == slots

    return wait_until(run, f"all subtasks run, {slots} of a vertex", pause=0.2)


def rates(folder: Path, seconds: float) -> tuple[float, float, float]:
    """Scale the job; return orders/s at first, at twice the input before, and after."""
    steps, rescale = Steps(), folder / "rescale.json"
    rate = Phases(folder / "rate", ORDERS, FACTOR * ORDERS, 0.0)
    rate.set(rate.low)

    def step(text: str) -> None:
        steps(f"load {os.getloadavg()[0]:.0f}: {text}")

    settings = {"taskmanager.cpu.cores": CORES, **ADAPTIVE}
    with (
        Machines(MACHINES, MEGABITS) as machines,
        FlinkCluster(folder, host=GATEWAY, settings=settings) as lab,
    ):
        for name in MACHINES:
            lab.start(name, host=machines.address(name), inside=machines.inside(name))
        lab.wait_for(set(MACHINES))
        arguments = (*[str(SLOTS)] * 5, "600", "0", _ROUNDS, _ROUNDS, str(rate.file))
        _, job = submitted(lab, arguments)
        walk = Walk("flink", lab.url, folder)
        wait_for_slots(lab, job, SLOTS)
        time.sleep(_COMPILED)
        machines.limit(CORES)
        time.sleep(_SETTLED)

        def measured() -> float:
            return Running(lab.web, job).rate_during(lambda: time.sleep(seconds))

        low = measured()
        step(f"{low:,.0f} orders/s at an input of {rate.low:,.0f}")
        walk.read(cores="configured", cpu="process", place="slots", interval=seconds)
        # the sources follow the file
        rate.set(rate.high)
        time.sleep(_SETTLED)
        before = measured()
        step(f"{before:,.0f} orders/s at an input of {rate.high:,.0f}")
        files = walk.file["instance"], walk.file["plan"]
        command("scale", files[0], "--target-rate", str(FACTOR), "-o", files[1])
        command("export", "flink", *files, "-o", str(rescale))
        (slots,) = json.loads(Path(files[1]).read_text())["parallelism"].values()
        machines.limit(None)  # as for every start: only the steady state is measured
        send(f"{lab.url}/jobs/{job}/resource-requirements", rescale.read_text(), "PUT")
        took = wait_for_slots(lab, job, slots)
        step(f"rescaled from {SLOTS} to {slots} slots in {took:.1f} s")
        time.sleep(_COMPILED)
        machines.limit(CORES)
        time.sleep(_SETTLED)
        after = measured()
        nodes = len(set(Running(lab.web, job).assignment().values()))
        step(f"{after:,.0f} orders/s at an input of {rate.high:,.0f}, on {nodes} task managers")
    return low, before, after


def work(folder: Path, args: argparse.Namespace) -> tuple[str, bool]:
    """Return the rates before and after beside the first."""
    low, before, after = rates(folder, args.seconds)
    summary = f"{before / low:.2f} times the rate before, {after / low:.2f} times after"
    return summary, after >= 0.95 * FACTOR * low


if __name__ == "__main__":
    seconds = {"type": float, "default": 10.0, "help": "of a measurement"}
    asked = ("--seconds", seconds)
    sys.exit(run_lab("lab-scale", __doc__, work, asked, reason_against=reason_against))
