"""Ways to place Storm topologies, measured on emulated machines: ``make lab-storm-bench``.

Four machines with a share of a core and a narrow link each. A topology runs as Storm places it and
is imported once, as fast as it goes: paced, most CPU of a worker would be that of waiting. Each way
to place plans from that import, and each plan is carried out and measured twice: paced, for
messages that cross and the latency of a tuple, and as fast as it goes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from experiments.studies.lab.machines import GATEWAY, Bench, Machines
from experiments.studies.lab.runner import LONG, PATIENCE, LabError, Walk, tell
from experiments.studies.lab.storm import (
    REPORTS,
    SOON_LOST,
    SUPERVISORS,
    StormCluster,
    wait_until_steady,
)
from experiments.studies.lab.storm_plugin import jdk
from optim import Instance, Plan, evaluate, solve
from optim.util.files import write_atomic
from streamplace.clusters.storm.nimbus import (
    ALL_TIME,
    Crossing,
    Nimbus,
    Place,
    crossing,
    read_workers,
)
from streamplace.clusters.storm.submit import load_placement, submit
from streamplace.present.table import markdown

CORES = 0.3  # Of each machine, held by a control group.
MEGABITS = 20.0  # Of each machine's link, each way, Mbit/s.
PACED = 60.0  # Tuples/s of an executor of a spout, of a paced run.
PENDING = 100
_COMPILED = 15.0  # Seconds at full speed with all cores, until a worker's code is compiled.
_SETTLED = 10.0


class Shape(NamedTuple):
    """A topology: components, ackers not counted."""

    name: str
    components: tuple[dict[str, Any], ...]

    @property
    def executors(self) -> int:
        """Of all components, two ackers included."""
        return sum(part["executors"] for part in self.components) + 2


def _chain(name: str, size: int, rounds: int, out: float, grouping: str) -> Shape:
    parts = (
        {"id": "lines", "executors": 2, "bytes": size},
        {"id": "split", "executors": 4, "from": "lines", "out": out, "rounds": rounds},
        {"id": "count", "executors": 4, "from": "split", "grouping": grouping, "rounds": rounds},
        {"id": "store", "executors": 2, "from": "count", "out": 0},
    )
    return Shape(name, parts)


SHAPES = (
    _chain("grouping", 400, 2_000, 1, "fields"),
    _chain("fan-out", 400, 500, 3, "shuffle"),
    _chain("heavy", 100, 40_000, 1, "shuffle"),
)
"""The chain of Storm's scheduler's paper, one that multiplies tuples, and one that computes."""
POLICIES = {
    "even": "storm-even", "offline": "storm-offline", "online": "storm-online",
    "topDown": "top-down", "taskLevel": "task-level", "exact IMC": "imc-exact", "EOA": "eoa-milp",
    "throughput plan": "throughput-search",
}  # fmt: skip


class Acked(NamedTuple):
    """What spouts' executors counted since they started: tuples, and ms of their latencies."""

    tuples: float
    spent: float

    def since(self, before: Acked) -> Acked:
        """Return what came between."""
        return Acked(self.tuples - before.tuples, self.spent - before.spent)


def acked(url: str, name: str) -> Acked:
    """Read the counts of a topology's spouts."""
    with Nimbus(url, PATIENCE) as nimbus:
        executors = nimbus.executors(nimbus.topology(name).id)
    count = spent = 0.0
    for one in executors:
        spout = one.stats.specific.spout if one.stats and one.stats.specific else None
        if spout is None:
            continue
        means = (spout.complete_ms_avg or {}).get(ALL_TIME, {})
        for stream, number in ((spout.acked or {}).get(ALL_TIME, {})).items():
            # means of latency are weighted by their tuples
            count += number
            spent += number * means.get(stream, 0.0)
    return Acked(count, spent)


class Planned(NamedTuple):
    """A plan, the instance it is of, and the tuples/s of spouts that the instance was read at."""

    instance: Instance
    plan: Plan
    rate: float


class StormBench:
    """A cluster on machines, and the topology that runs on it."""

    def __init__(self, cluster: StormCluster, machines: Machines, folder: Path) -> None:
        self._cluster, self._machines, self._folder = cluster, machines, folder
        self._control = folder / "rate"

    def plans(self, shape: Shape) -> dict[str, Planned]:
        """Submit a topology, import it as Storm runs it, and plan each way."""
        self._set_rate(PACED)
        parts = [dict(part) for part in shape.components]
        # the spout reads its rate from this file: 0 is as fast as it goes
        parts[0]["control"] = str(self._control)
        conf = {"topology.max.spout.pending": PENDING, **SOON_LOST}
        self._cluster.run(shape.name, shape.executors, parts, **conf)
        self._warm_up(shape)
        # spouts' acked tuples over the time of the import: the rate that its loads are of
        walk, began, before = self._walk(shape), time.monotonic(), self._acked(shape)
        walk.read(cpu="process", topology=shape.name, interval=15)
        rate = self._acked(shape).since(before).tuples / (time.monotonic() - began)
        self._machines.limit(None)
        instance = Instance.load(walk.file["instance"])
        planned = {}
        for name, method in POLICIES.items():
            solved_instance = _without_acks(walk) if method == "storm-offline" else instance
            # slots are the export's choice: a topology's executors may share one a node
            result = solve(solved_instance, method, time_limit=10.0, ignore=("slots",))
            if result.plan is None:
                tell(f"{shape.name}, {name}: no plan: {result.termination}")
                continue
            plan = result.plan  # of another instance where that is without acks
            placed = Plan(instance.name, plan.assignment, slots=plan.slots)
            planned[name] = Planned(instance, placed, rate)
        return planned

    def run(
        self,
        shape: Shape,
        policy: str,
        planned: Planned,
        repetition: int,
        seconds: float,
    ) -> dict[str, Any]:
        """Carry a plan out, measure it, and return the row of the run."""
        instance, placed, rate = planned
        walk = self._walk(shape)
        placed.save(walk.file["plan"])
        walk.export()
        self._set_rate(PACED)
        placement = load_placement(walk.exported)
        with Nimbus(self._cluster.url, PATIENCE) as nimbus:
            verdict = submit(nimbus, placement, LONG)
            identity = nimbus.topology(shape.name).id
            node_of = {(w.host, w.port): w.host for w in nimbus.workers(identity)}
        try:
            self._warm_up(shape)
            self._set_rate(PACED)
            time.sleep(_SETTLED)
            # paced first: reports of the same seconds say what crossed
            paced = self._measure(shape, seconds)
            crossed = self._crossing(identity, node_of, seconds)
            self._set_rate(0.0)
            time.sleep(_SETTLED)
            full = self._measure(shape, seconds)
        finally:
            self._set_rate(PACED)
            self._machines.limit(None)
        evaluation = evaluate(instance, placed)
        machines = {w.rpartition(":")[0] for w in placement.topologies[shape.name].workers}
        return {
            "shape": shape.name, "policy": policy, "repetition": repetition,
            # of messages that cross between machines: by the instance, by the workers' reports
            "predicted_share": placement.remote_share or 0.0,
            "share": crossed.crossed / crossed.total,
            "crossed": crossed.crossed,  # messages/s, of the paced run
            # mean ms from a tuple's start to its last ack, of the paced run
            "latency": paced.spent / paced.tuples if paced.tuples else float("nan"),
            # tuples/s of spouts: the most that the instance carries, acked as fast as it goes
            "predicted_rate": rate * (evaluation.sustainable_rate or 0.0),
            "rate": full.tuples / seconds,
            "nodes": len(machines), "as_planned": verdict.holds, "load": os.getloadavg()[0],
        }  # fmt: skip

    def _warm_up(self, shape: Shape) -> None:
        """Run workers that have just started to their steady state, and take their cores away.

        Else what is measured is whether a plan restarted them: compiling takes a third of a core
        minutes.
        """
        # until tuples lost at the start time out spouts send next to nothing
        wait_until_steady(self._cluster.url, shape.name, PACED)
        self._set_rate(0.0)
        time.sleep(_COMPILED)
        self._machines.limit(CORES)
        time.sleep(_SETTLED)

    def _measure(self, shape: Shape, seconds: float) -> Acked:
        before = self._acked(shape)
        time.sleep(seconds)
        return self._acked(shape).since(before)

    def _crossing(self, identity: str, node_of: dict[Place, str], seconds: float) -> Crossing:
        """Read what crossed, once all workers have reported: a worker with little CPU is late."""
        until = time.monotonic() + PATIENCE
        while True:
            workers = read_workers(self._folder / REPORTS, identity)
            crossed = crossing(workers, node_of, seconds)
            if isinstance(crossed, Crossing):
                return crossed
            if time.monotonic() > until:
                raise LabError(f"{identity}: {crossed}")
            time.sleep(1.0)

    def _acked(self, shape: Shape) -> Acked:
        return acked(self._cluster.url, shape.name)

    def _set_rate(self, rate: float) -> None:
        write_atomic(self._control, f"{rate:g}")

    def _walk(self, shape: Shape) -> Walk:
        folder = self._folder / shape.name
        folder.mkdir(exist_ok=True)
        return Walk("storm", self._cluster.url, folder)


def _without_acks(walk: Walk) -> Instance:
    """Return an instance whose streams are those of the user's topology: acks close circles."""
    document = json.loads(Path(walk.file["instance"]).read_text())
    for key in ("streams", "traffic"):
        entries = [one.values() if isinstance(one, dict) else one for one in document.get(key, ())]
        acks = [any(str(end).startswith("__acker") for end in ends) for ends in entries]
        remaining = [one for one, ack in zip(document.get(key, ()), acks, strict=True) if not ack]
        document[key] = remaining
    return Instance.from_dict(document)


_HEAD = (
    "topology", "plan", "runs", "machines", "crossing, predicted", "measured",
    "messages/s that cross", "latency, ms", "most tuples/s, predicted", "measured",
)  # fmt: skip
_SHOWN = (
    ("nodes", ".0f"), ("predicted_share", ".3f"), ("share", ".3f"), ("crossed", ",.0f"),
    ("latency", ",.1f"), ("predicted_rate", ",.0f"), ("rate", ",.0f"),
)  # fmt: skip


def bench_table(runs: pd.DataFrame) -> str:
    """Return the table of runs, means of repetitions, and the order of latencies a topology."""
    lines, orders = [], []
    for shape, shape_runs in runs.groupby("shape", sort=False):
        groups = shape_runs.groupby("policy", sort=False)
        means, counts = groups.mean(numeric_only=True), groups.size().to_dict()
        for policy, row in means.iterrows():
            cells = (f"{row[name]:{form}}" for name, form in _SHOWN)
            lines.append([shape, policy, counts[policy], *cells])
        order = ", ".join(map(str, means["latency"].sort_values().index))
        orders.append(f"- {shape}, by latency: {order}.")
    return "\n".join([markdown(_HEAD, lines, right=()), *orders]) + "\n"


def runs(stack: ExitStack, folder: Path, args: argparse.Namespace) -> Iterator[Any]:
    """Yield the runs, topology by topology."""
    machines = stack.enter_context(Machines(SUPERVISORS, MEGABITS))
    settings = {"supervisor.cpu.capacity": 100 * CORES}
    cluster = stack.enter_context(StormCluster(folder, GATEWAY, settings))
    for number, name in enumerate(SUPERVISORS, start=1):
        cluster.start(name, machines.address(name), machines.inside(name))
        cluster.wait_for(number)
    bench = StormBench(cluster, machines, folder)
    for shape in SHAPES:
        plans = bench.plans(shape)
        for repetition in range(args.repetitions):
            for policy, plan in plans.items():
                run = partial(bench.run, shape, policy, plan, repetition, args.seconds)
                yield f"{shape.name}, {policy}", run
        cluster.end(shape.name)


BENCH = Bench(
    "lab-storm-bench", __doc__, runs, bench_table, 3, 15.0,
    reason_against=lambda: None if jdk() else "it takes a JDK and Maven",
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(BENCH.main())
