"""The adaptation loop on a cluster of its own, while the load rises and falls: ``make lab-loop``.

A topology of Storm, or a job of Flink, is placed on one node, where little load fits. Then its rate
rises to ten times that, and falls again, while ``streamplace watch --apply`` looks at it. What is
counted: changes, moves of each, and *flaps*: tasks that return to a node that they left.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.studies.lab.flink import CORES, WARM, FlinkCluster, Job
from experiments.studies.lab.runner import LONG, LabError, Walk, run_lab, tell
from experiments.studies.lab.storm import StormCluster
from optim import Instance, InvalidInput, Plan
from optim.util.files import write_atomic

BUDGET = 6  # Moves of a change.
POLICY = "rate-trigger:time_limit=5"
GUARD = ("--every", "15", "--cool-down", "60", "--confirm", "2")
_WARM = 30.0  # Seconds until code is compiled: a cold job uses more than its load.
STORM_CORES, FLINK_CORES = 0.8, 0.6  # Of each node, as configured.
STEADY = [
    {"id": "lines", "executors": 2},
    {"id": "split", "executors": 5, "from": "lines", "rounds": 8_000},
    {"id": "count", "executors": 5, "from": "split", "rounds": 8_000, "out": 0},
]
EXECUTORS = 14  # Of the topology, two ackers included.
_ARGUMENTS = ("2", "4", "3", "4", "1", "600")
_ROUNDS = "100000"


@dataclass
class Phases:
    """Seconds of each load, and the file that says which it is now."""

    file: Path
    low: float
    high: float
    seconds: float

    def rate(self, elapsed: float) -> float:
        """Return the rate so many seconds after the beginning: it is high in the second third."""
        return self.high if 1 <= 3 * elapsed / self.seconds < 2 else self.low

    def set(self, rate: float) -> None:
        """Write the rate."""
        write_atomic(self.file, f"{rate:g}")


@dataclass
class Seen:
    """What a watch decided."""

    # looks, changes: decisions, and how many were carried out.
    looks: int = 0
    changes: int = 0
    failed: int = 0  # changes that are not as planned
    most: int = 0  # moves of the largest change
    flaps: int = 0  # returns of a task to a node that it left
    _now: dict[str, str] = field(default_factory=dict)
    _left: set[tuple[str, str]] = field(default_factory=set)

    def add(self, decision: dict[str, Any]) -> None:
        """Take in a decision, as ``watch --json`` prints it."""
        self.looks += 1
        # decisions that were not carried out move nothing
        if not decision["plan"] or not decision["verdict"].startswith(
            ("applied", "not as planned")
        ):
            return
        self.changes += 1
        self.failed += not decision["applied"]
        after = decision["plan"]["assignment"]
        moves = {task: after[task] for task, node in self._now.items() if after[task] != node}
        self.most = max(self.most, len(decision["moves"]))
        # a task that comes back to a node which it left at any time before
        self.flaps += len({*moves.items()} & self._left)
        self._left |= {(task, self._now[task]) for task in moves}
        self._now = dict(after)

    def starts(self, assignment: dict[str, str]) -> None:
        """Take in where tasks are at first."""
        self._now = dict(assignment)

    def __str__(self) -> str:
        return (
            f"{self.looks} decisions, {self.changes} changes of at most {self.most} moves "
            f"({self.failed} not as planned), {self.flaps} flaps"
        )


def watch(
    words: list[str], phases: Phases, seen: Seen, between: Callable[[], None] = lambda: None
) -> None:
    """Run ``streamplace watch`` while the load follows its phases.

    `words`: of the command. `between`: called four times a second. Raises `LabError`: the command
    ended by itself.
    """
    tell(f"$ streamplace {' '.join(words)}")
    run = [sys.executable, "-m", "streamplace", *words, "--json"]
    with subprocess.Popen(
        run, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        began = time.monotonic()
        reader = threading.Thread(target=_report_decisions, args=(process, phases, seen, began))
        reader.start()
        try:
            # written only when it changes: spouts read the file every second
            now = phases.low
            while (elapsed := time.monotonic() - began) < phases.seconds:
                if (rate := phases.rate(elapsed)) != now:
                    now = rate
                    phases.set(now)
                    tell(f"[{elapsed:5.0f} s] {now:g} a second")
                if process.poll() is not None:
                    raise LabError(f"streamplace watch ended with {process.returncode}")
                between()
                time.sleep(0.25)
        finally:
            with suppress(ProcessLookupError):
                # with the commands that it has started
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(LONG)
            reader.join()


def _report_decisions(
    process: subprocess.Popen[str], phases: Phases, seen: Seen, began: float
) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        decision = json.loads(line)
        seen.add(decision)
        elapsed = time.monotonic() - began
        what = (
            f"{decision['decision']} of {len(decision['moves'])}"
            if decision["plan"]
            else decision["decision"]
        )
        tell(f"[{elapsed:5.0f} s] {what}: {decision['reason'] or '-'}: {decision['verdict']}")


def _watch_arguments(system: str, url: str, folder: Path, *more: str) -> list[str]:
    state = folder / f"state-{time.time():.0f}"
    return [
        *("watch", system, url, "--policy", POLICY, *GUARD, "--timeout", "60"),
        *("--limit", f"max_migrations={BUDGET}", "--state", str(state), *more),
    ]


def storm(folder: Path, seconds: float) -> Seen:
    """Watch a Storm."""
    phases, seen = Phases(folder / "rate", 25.0, 250.0, seconds), Seen()
    phases.set(phases.low)
    settings = {"supervisor.cpu.capacity": 100 * STORM_CORES}
    with StormCluster(folder, settings=settings) as cluster:
        cluster.start_all()
        parts = [{**STEADY[0], "control": str(phases.file)}, *STEADY[1:]]
        cluster.run("steady", EXECUTORS, parts)
        walk = Walk("storm", cluster.url, folder)
        walk.read(cpu="requested", interval=0)
        seen.starts(_all_on_first_node(walk))
        walk.export()
        walk.submit()
        time.sleep(_WARM)
        options = ("--option", "cpu=process", "--option", "interval=10", "--wait", "240", "--apply")
        watch(_watch_arguments("storm", cluster.url, folder, *options), phases, seen)
        if cluster.restarts:
            tell(f"ended by themselves, and started again: {', '.join(cluster.restarts)}")
    return seen


ROLL_OUT = """#!/bin/sh
# hands a sheet to the laboratory, and waits until that has rolled it out
rm -f {folder}/done
cp "$1" {folder}/asked.new && mv {folder}/asked.new {folder}/asked
while [ ! -e {folder}/done ]; do sleep 0.2; done
exit "$(cat {folder}/done)"
"""


def flink(folder: Path, seconds: float) -> Seen:
    """Watch a Flink; its command starts the task managers anew with the sheet's quotas."""
    phases, seen = Phases(folder / "rate", 160.0, 1600.0, seconds), Seen()
    phases.set(phases.low)
    script, request = folder / "roll-out.sh", folder / "asked"
    script.write_text(ROLL_OUT.format(folder=folder))
    script.chmod(0o755)
    options = {"cpu": "process", "interval": 8}
    with FlinkCluster(folder, settings={"taskmanager.cpu.cores": FLINK_CORES}) as cluster:
        job = Job(cluster, (*_ARGUMENTS, "0", _ROUNDS, _ROUNDS, str(phases.file)))

        def serve() -> None:
            if not request.exists():
                return
            code = 0
            try:
                job.roll_out(request)
            except (LabError, InvalidInput) as error:
                tell(f"not rolled out: {error}")
                code = 1
            request.unlink()
            # whole or not there: the script polls for it
            write_atomic(folder / "done", str(code))

        time.sleep(WARM)
        job.read(**options)
        seen.starts(_all_on_first_node(job.walk))
        job.walk.export()
        # all on one node at first: the loop has something to do
        job.roll_out(Path(job.walk.exported))
        time.sleep(_WARM)
        chosen = [f"--option={name}={value}" for name, value in {**CORES, **options}.items()]
        words = _watch_arguments("flink", cluster.url, folder, *chosen, "--apply", str(script))
        watch(words, phases, seen, serve)
    return seen


def _all_on_first_node(walk: Walk) -> dict[str, str]:
    """Write a plan that puts all on the first node, and return it."""
    instance = Instance.load(walk.file["instance"])
    plan = Plan.from_indices(instance, np.zeros(instance.num_tasks, np.int32))
    plan.save(walk.file["plan"])
    return dict(plan.assignment)


def work(folder: Path, args: argparse.Namespace) -> tuple[str, bool]:
    """Return what the loop did, and whether it did so without a flap."""
    folder = folder / args.system
    folder.mkdir(exist_ok=True)
    seen = (storm if args.system == "storm" else flink)(folder, args.seconds)
    well = not seen.flaps and not seen.failed and seen.changes and seen.most <= BUDGET
    return f"{args.system}, {args.seconds:g} s: {seen}", bool(well)


if __name__ == "__main__":
    seconds = {"type": float, "default": 660.0, "help": "of all; a third of high load"}
    system = ("system", {"choices": ("storm", "flink")})
    sys.exit(run_lab("lab-loop", __doc__, work, system, ("--seconds", seconds)))
