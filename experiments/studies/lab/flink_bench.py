"""Throughput of ways to place, on emulated machines: ``make lab-bench``.

Four machines with a share of a core and a narrow link each; per shape of job one import while it
runs as fast as it goes with all cores, as what a record costs falls with the rate (fuller buffers),
and one plan. Then each shape is submitted under each policy in turn, as often as asked for.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

import pandas as pd

from experiments.studies.lab.flink import MAIN, FlinkCluster, build_jar
from experiments.studies.lab.machines import GATEWAY, Bench, Machines
from experiments.studies.lab.runner import LabError, Walk
from optim import Instance, InvalidInput, Plan, evaluate
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.sources import WebClient
from streamplace.clusters.flink.exporter import Sheet
from streamplace.clusters.flink.fetch import CLOCK, Cluster, Sample, elapsed, wait_until_running
from streamplace.clusters.flink.submit import FlinkClient, flink_jars, groups_of_job
from streamplace.present.table import markdown

MACHINES = ("tm1", "tm2", "tm3", "tm4")
SLOTS = 4  # Of each task manager.
CORES = 0.2  # Of each machine, held by a control group.
STANDING = 0.02  # Cores that a task manager's process takes while its job stands still.
MEGABITS = 40.0  # Of each machine's link, each way, Mbit/s.


class Shape(NamedTuple):
    """A job: five vertices, each spread over all subtasks of the next."""

    name: str
    parallelism: tuple[int, int, int, int, int]  # of orders, clean, sum, rate and store
    size: int  # bytes of an order; clean keeps 60 % of them, rate a quarter of those
    work: tuple[int, int]  # rounds of arithmetic an order costs clean, and rate

    def arguments(self) -> tuple[str, ...]:
        """Return the job's arguments, for as many orders as go through."""
        return tuple(str(n) for n in (*self.parallelism, self.size, 0, *self.work))


class Policy(NamedTuple):
    """A way to place: Flink's mode of balancing, and who shares slots."""

    name: str
    mode: str  # Flink's `taskmanager.load-balance.mode`
    # `each`: each vertex has its own slot sharing group, a subtask a slot; `one`: all share one,
    # Flink's default; `plan`: those of the plan.
    groups: str


SHAPES = (
    Shape("CPU-bound", (2, 4, 4, 2, 1), 600, (100_000, 100_000)),
    Shape("link-bound", (2, 4, 4, 2, 1), 2400, (0, 0)),
    Shape("mixed", (2, 4, 4, 2, 1), 2400, (20_000, 20_000)),
)
POLICIES = (
    Policy("default", "NONE", "each"),
    Policy("SLOTS", "SLOTS", "each"),
    Policy("TASKS", "TASKS", "each"),
    Policy("one shared group", "SLOTS", "one"),
    Policy("throughput plan", "NONE", "plan"),
)
MODES = tuple(dict.fromkeys(policy.mode for policy in POLICIES))
_LONG = 180.0  # Most seconds for subtasks to run.
_COMPILED = 5.0  # Seconds with all cores that the code of a new job gets to be compiled.
_SEASONED = 20.0
"""As much again before loads are read: the first jobs of a new process pay for what later ones find
compiled, Flink's own network code above all."""
_HEARTBEAT = {"heartbeat.interval": 10_000, "heartbeat.timeout": 3_600_000}
"""Flink's own interval; clusters that are paused between their turns are not given up."""
_WARM = 2.0  # Seconds of a run with its machine's share of a core before it is measured.
_STORE = {"metrics.fetcher.update-interval": 4_000}
"""Longer than an import takes to ask everything, so that all it hears is of one moment."""
_PLANNED = next(policy.mode for policy in POLICIES if policy.groups == "plan")
_PROFILED = 10.0  # Seconds between the readings of an import.
_RECORDS = "numRecordsOut"
_PAUSE = 0.5
_TRIES = 60  # Times to ask until the store of metrics has been filled anew.


class Running:
    """A job on a cluster. Raises `InvalidInput`: the job manager does not answer."""

    def __init__(self, client: WebClient, job: str) -> None:
        self._client, self._job = client, job
        page = client.get(f"jobs/{job}")
        self._vertices = {vertex["id"]: vertex for vertex in page["vertices"]}

    def rate_during(self, work: Callable[[], object]) -> float:
        """Return the orders/s that sources put out meanwhile, by their own clocks.

        Raises `LabError`: the job manager has no new counters.
        """
        first = self._counters()
        work()
        second = self._counters()
        return sum(
            (second[i][_RECORDS] - first[i][_RECORDS]) / elapsed(first[i], second[i])
            for i in second
        )

    def assignment(self) -> dict[str, str]:
        """Return where each subtask is, named as the import names tasks."""
        return {
            f"{vertex['name']}/{subtask['subtask']}": subtask["taskmanager-id"]
            for key, vertex in self._vertices.items()
            for subtask in self._client.get(f"jobs/{self._job}/vertices/{key}")["subtasks"]
        }

    def runs(self) -> bool:
        """Whether it never stopped: a job that restarted has counted anew."""
        page = self._client.get(f"jobs/{self._job}")
        started = page["timestamps"]
        return page["state"] == "RUNNING" and not started["RESTARTING"]

    def _counters(self) -> Sample:
        key, vertex = next(
            (k, v) for k, v in self._vertices.items() if v["name"].startswith("Source")
        )
        ask = partial(
            Cluster(self._client, self._job, Ledger()).sample,
            f"jobs/{self._job}/vertices/{key}",
            vertex["parallelism"],
            (_RECORDS, *CLOCK),
        )
        old = ask()  # as old as the last question of anybody
        for _ in range(_TRIES):
            time.sleep(_PAUSE)
            new = ask()
            if new and all(elapsed(old.get(i, {}), new[i]) > 0 for i in new):
                return new
            old = earlier(old, new)
        raise LabError(f"job {self._job}: no fresh counters of {vertex['name']}")


def earlier(old: Sample, new: Sample) -> Sample:
    """Return the older sample of each subtask, the newer where it has begun anew: a rescale does.

    The store may still have the run before it, whose clock a new run would take long to reach.
    """

    def clock(values: dict[str, float]) -> float:
        return sum(values.get(name, math.inf) for name in CLOCK)

    return {
        i: old.get(i, now) if clock(old.get(i, {})) <= clock(now) else now for i, now in new.items()
    }


def foresee(instance: Instance, assignment: dict[str, str]) -> tuple[float, str, float]:
    """Return the multiple of the profiled rate that a placement carries, what is full then, and
    the share of traffic that crosses between machines."""
    # the first entry is the bottleneck
    evaluation = evaluate(instance, Plan(instance.name, assignment))
    full = (evaluation.saturation or [{}])[0]
    what = full.get("link") or f"{full.get('node') or full.get('task')} {full.get('resource')}"
    apart = (evaluation.internode_traffic or 0.0) / (evaluation.total_traffic or 1.0)
    return evaluation.sustainable_rate or 0.0, str(what), apart


def joined(sheets: list[Sheet], manager: str) -> dict[str, Any]:
    """Return a task manager's settings for several plans at once."""
    merged: dict[str, Any] = {}
    names: list[str] = []
    for sheet in sheets:
        configuration = sheet.configuration(manager)
        # a list of names: those of all plans, not of the last one
        names += configuration.pop("external-resources", [])
        merged |= configuration
    return merged | ({"external-resources": names} if names else {})


def as_planned(sheet: Sheet, assignment: Mapping[str, str]) -> int:
    """Count the subtasks of planned vertices that are where the plan has one of them."""
    count = 0
    for group in sheet.groups:
        for name in group.vertices.values():
            # subtasks of a vertex are alike: counts by task manager are compared
            open_counts = dict(group.counts)
            for task, manager in assignment.items():
                if task.rpartition("/")[0] == name and open_counts.get(manager, 0):
                    open_counts[manager] -= 1
                    count += 1
    return count


class FlinkBench:
    """Clusters side by side on the same machines, one for each mode of balancing.

    Only one job runs at any time. A mode is a setting of a whole cluster, so that changing it would
    mean to start all anew.
    """

    def __init__(self, folder: Path, machines: Machines, stack: ExitStack) -> None:
        self._folder, self._machines, self._stack = folder, machines, stack
        self._labs: dict[str, FlinkCluster] = {}
        self._clients: dict[str, FlinkClient] = {}
        self._jar = ""
        self._plans: dict[str, tuple[Instance, Sheet, float]] = {}

    def prepare(self) -> None:
        """Start the clusters; that of the plans last, as the others decide what to plan for."""
        # quotas of task managers are of plans, and plans come of imports on the other clusters
        others = [mode for mode in MODES if mode != _PLANNED]
        for mode in others:
            self._cluster(mode)
            self._managers(mode, {})
        for mode in others:
            self._labs[mode].wait_for(set(MACHINES))
        self._jar = str(build_jar(self._clients[others[0]], self._folder))
        for shape in SHAPES:
            self._plans[shape.name] = self._plan(shape, others[0])
        quotas = {name: joined([s for _, s, _ in self._plans.values()], name) for name in MACHINES}
        self._machines.limit(None)
        self._cluster(_PLANNED)
        self._managers(_PLANNED, quotas)
        self._labs[_PLANNED].wait_for(set(MACHINES))

    def run(self, shape: Shape, policy: Policy, repetition: int, seconds: float) -> dict[str, Any]:
        """Submit, measure and cancel; return the row of the run.

        Raises `LabError`: the job does not run, or failed while it was measured.
        """
        lab = self._run_only(policy.mode)
        instance, sheet, profiled = self._plans[shape.name]
        job = self._submit(shape, policy.mode, policy.groups)
        try:
            self._settle(lab, job)
            # starting and compiling had all cores: only the steady state has the machine's share
            self._machines.limit(CORES)
            time.sleep(_WARM)
            running = Running(lab.web, job)
            measured = running.rate_during(lambda: time.sleep(seconds))
            where = running.assignment()
            if not running.runs():
                raise LabError(f"{shape.name}, {policy.name}: the job failed while it was measured")
        finally:
            self._machines.limit(None)
            lab.cancel(job)
        rate, full, apart = foresee(instance, where)
        planned = as_planned(sheet, where) if policy.groups == "plan" else 0
        return {
            "shape": shape.name, "policy": policy.name, "repetition": repetition,
            # orders/s: as counted, and at which the instance says that something is full
            "measured": measured, "predicted": rate * profiled,
            "full": full,  # the bottleneck, by the instance
            "apart": apart,  # share of traffic that crosses between machines, by the instance
            "subtasks": len(where), "as_planned": planned, "load": os.getloadavg()[0],
        }  # fmt: skip

    def _cluster(self, mode: str) -> None:
        settings = {"taskmanager.load-balance.mode": mode, "taskmanager.cpu.cores": CORES}
        settings |= _HEARTBEAT | _STORE
        lab = FlinkCluster(self._folder / mode.lower(), SLOTS, GATEWAY, settings)
        self._labs[mode] = self._stack.enter_context(lab)
        self._clients[mode] = self._stack.enter_context(lab.client())

    def _managers(self, mode: str, quotas: Mapping[str, Mapping[str, Any]]) -> None:
        for name in MACHINES:
            machine = self._machines.address(name), self._machines.inside(name)
            self._labs[mode].start(name, quotas.get(name, {}), *machine)

    def _plan(self, shape: Shape, mode: str) -> tuple[Instance, Sheet, float]:
        """Return the instance, the plan's sheet, and the orders/s while loads were read."""
        lab = self._run_only(mode)
        job = self._submit(shape, mode, "each")
        self._settle(lab, job)
        time.sleep(_SEASONED)
        (self._folder / shape.name).mkdir(exist_ok=True)
        walk = Walk("flink", lab.url, self._folder / shape.name)
        read = partial(
            walk.read, "--link-rate", f"{MEGABITS:g}Mbit", slots="single", cpu="process",
            standing=STANDING, interval=_PROFILED,
        )  # fmt: skip
        rate = Running(lab.web, job).rate_during(read)
        lab.cancel(job)
        walk.plan()
        sheet = Sheet.from_dict(json.loads(Path(walk.exported).read_text()))
        return Instance.load(walk.file["instance"]), sheet, rate

    def _submit(self, shape: Shape, mode: str, groups: str) -> str:
        self._machines.limit(None)
        client = self._clients[mode]
        graph = client.graph_of_jar(self._jar, MAIN, shape.arguments())
        if groups == "each":
            client.part(graph)
        elif groups == "plan":
            sheet = self._plans[shape.name][1]
            client.regroup(graph, sheet, groups_of_job(sheet, client.vertices_of(graph)), 0)
        return client.submit(graph)

    def _run_only(self, mode: str) -> FlinkCluster:
        """Let one cluster work and the others stand still: idle ones take a tenth of a machine."""
        for lab in self._labs.values():
            lab.pause()
        self._labs[mode].resume()
        return self._labs[mode]

    def _settle(self, lab: FlinkCluster, job: str) -> None:
        """Wait until a job runs and its code is compiled."""
        if not wait_until_running(lab.web, job, _LONG):
            raise LabError(f"job {job} does not run: see {lab.folder}")
        time.sleep(_COMPILED)


RUNS = Path(__file__).parents[1] / "papers/task_allocation/tables/live-throughput.csv"
"""The runs of the documentation."""


def bench_table(runs: pd.DataFrame) -> str:
    """Return mean orders/s of each shape by policy, and their ratios to what was predicted.

    The last policy is the plan; its ratio stands before those of the others.
    """
    runs = runs.assign(ratio=runs["measured"] / runs["predicted"])
    policies = runs["policy"].unique().tolist()
    lines = []
    for shape, shape_runs in runs.groupby("shape", sort=False):
        by = shape_runs.groupby("policy", sort=False)
        rates, ratios = by["measured"].mean(), by["ratio"].agg(geometric_mean)
        others = ratios.drop(policies[-1], errors="ignore")
        ratio_text = f"{ratios.get(policies[-1], math.nan):.2f}"
        ratio_text += f" ({others.min():.2f} to {others.max():.2f})" if len(others) else ""
        lines.append([shape, *(f"{rates.get(one, math.nan):,.0f}" for one in policies), ratio_text])
    head = ("shape", *policies, f"measured / predicted: {policies[-1]} (others)")
    return markdown(head, lines, right=())


def runs(stack: ExitStack, folder: Path, args: argparse.Namespace) -> Iterator[Any]:
    """Yield the runs: policies by turns, beginning with another one each time."""
    bench = FlinkBench(folder, stack.enter_context(Machines(MACHINES, MEGABITS)), stack)
    bench.prepare()
    for repetition in range(args.repetitions):
        turn = repetition % len(POLICIES)
        for shape in SHAPES:
            for policy in (*POLICIES[turn:], *POLICIES[:turn]):
                run = partial(bench.run, shape, policy, repetition, args.seconds)
                yield f"{shape.name}, {policy.name}", run


def reason_against() -> str | None:
    """Return why there is no Flink here, or ``None``."""
    try:
        flink_jars()
    except InvalidInput as error:
        return str(error)
    return None


BENCH = Bench("lab-bench", __doc__, runs, bench_table, 10, 10.0, reason_against=reason_against)

if __name__ == "__main__":
    sys.exit(BENCH.main())
