"""Ways to place Storm topologies, measured on emulated machines: ``make lab-storm-bench``.

Four machines with a share of a core and a narrow link each. A topology runs as Storm places it and
is imported once; each way to place plans from that import, and each plan is carried out and
measured twice: paced, for messages that cross and the latency of a tuple, and as fast as it goes.
Every run is a line of a CSV file at once.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from experiments.studies.lab.__main__ import tell
from experiments.studies.lab.cluster import LabError
from experiments.studies.lab.machines import GATEWAY, Machines, reason_against
from experiments.studies.lab.storm import (
    REPORTS,
    Walk,
    all_run,
    conf_of,
    reports_of,
    wait_until,
)
from experiments.studies.lab.storm_cluster import SUPERVISORS, StormCluster
from experiments.studies.lab.storm_plugin import jdk
from optim import Instance, InvalidInput, Plan, evaluate, solve
from streamplace.clusters.storm.nimbus import ALL_TIME, Nimbus
from streamplace.clusters.storm.placement import load_placement
from streamplace.clusters.storm.reports import crossing, read_workers
from streamplace.clusters.storm.submit import submit
from streamplace.present.table import markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

CORES = 0.3
"""Of each machine, held by a control group."""
MEGABITS = 20.0
"""Of each machine's link, each way, Mbit/s."""
PACED = 60.0
"""Tuples/s of an executor of a spout, of a paced run."""
PENDING = 100
PERIOD = 3
"""Seconds between reports of a worker."""
_LONG = 300.0
_SETTLED = 10.0
_COMPILED = 8.0


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
    "even": "storm-even",
    "offline": "storm-offline",
    "online": "storm-online",
    "topDown": "top-down",
    "taskLevel": "task-level",
    "exact IMC": "imc-exact",
    "EOA": "eoa-milp",
    "throughput plan": "throughput-search",
}


@dataclass(frozen=True)
class Row:
    """A run.

    Attributes
    ----------
    predicted_share, share
        Of messages that cross between machines, by the instance and by the workers' reports.
    crossed
        Messages/s that cross, of the paced run.
    latency
        Mean ms from a tuple's start to its last ack, of the paced run.
    predicted_rate, rate
        Tuples/s of spouts: the most that the instance carries, and acked as fast as it goes.
    nodes, as_planned
        Machines in use, and whether all executors ran as planned.
    load
        The machine's load average.
    """

    shape: str
    policy: str
    repetition: int
    predicted_share: float
    share: float
    crossed: float
    latency: float
    predicted_rate: float
    rate: float
    nodes: int
    as_planned: bool
    load: float

    def cells(self) -> dict[str, Any]:
        """Return it as a line of the table, of rounded numbers."""
        return {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(self).items()}


COLUMNS = tuple(field.name for field in fields(Row))


class Acked(NamedTuple):
    """What spouts' executors counted since they started: tuples, and ms of their latencies."""

    tuples: float
    spent: float

    def since(self, before: Acked) -> Acked:
        """Return what came between."""
        return Acked(self.tuples - before.tuples, self.spent - before.spent)


def acked(url: str, name: str) -> Acked:
    """Read the counts of a topology's spouts."""
    with Nimbus(url, 60.0) as nimbus:
        found = nimbus.executors(nimbus.topology(name).id)
    count = spent = 0.0
    for one in found:
        spout = one.stats.specific.spout if one.stats and one.stats.specific else None
        if spout is None:
            continue
        means = (spout.complete_ms_avg or {}).get(ALL_TIME, {})
        for stream, number in ((spout.acked or {}).get(ALL_TIME, {})).items():
            count += number
            spent += number * means.get(stream, 0.0)
    return Acked(count, spent)


Planned = tuple[Instance, Plan]


class Bench:
    """A cluster on machines, and the topology that runs on it."""

    def __init__(self, cluster: StormCluster, machines: Machines, folder: Path) -> None:
        self._cluster, self._machines, self._folder = cluster, machines, folder
        self._control = folder / "rate"

    def plans(self, shape: Shape, policies: Sequence[str]) -> dict[str, Planned]:
        """Submit a topology, import it as Storm runs it, and plan each way."""
        self._pace(PACED)
        parts = [dict(part) for part in shape.components]
        parts[0]["control"] = str(self._control)
        conf = conf_of(
            self._folder, PERIOD, **{"topology.max.spout.pending": PENDING, "topology.workers": 4}
        )
        self._machines.limit(None)
        self._cluster.submit({"name": shape.name, "conf": conf, "components": parts})
        run = lambda: all_run(self._cluster.url, shape.name, shape.executors)  # noqa: E731
        wait_until(run, f"all executors of {shape.name} run", _LONG)
        time.sleep(_SETTLED)
        walk = self._walk(shape)
        walk.read("process", "--option", f"topology={shape.name}", "--option", "interval=15")
        instance = Instance.load(walk.file["instance"])
        found = {}
        for name in policies:
            method = POLICIES[name]
            asked = _without_acks(walk) if method == "storm-offline" else instance
            # slots are the export's choice: a topology's executors may share one a node
            result = solve(asked, method, time_limit=10.0, ignore=("slots",))
            if result.plan is None:
                tell(f"{shape.name}, {name}: no plan: {result.termination}")
                continue
            plan = result.plan  # of another instance where that is without acks
            found[name] = (instance, Plan(instance.name, plan.assignment, slots=plan.slots))
        return found

    def run(
        self,
        shape: Shape,
        policy: str,
        plan: tuple[Instance, Plan],
        repetition: int,
        seconds: float,
    ) -> Row:
        """Carry a plan out, and measure it."""
        instance, placed = plan
        walk = self._walk(shape)
        placed.save(walk.file["plan"])
        walk.export()
        self._machines.limit(None)
        self._pace(PACED)
        placement = load_placement(walk.file["placement"])
        with Nimbus(self._cluster.url, 60.0) as nimbus:
            verdict = submit(nimbus, placement, _LONG)
            identity = nimbus.topology(shape.name).id
            node_of = {(w.host, w.port): w.host for w in nimbus.workers(identity)}
        time.sleep(_COMPILED)
        self._machines.limit(CORES)
        try:
            time.sleep(_SETTLED)
            paced = self._measure(shape, seconds)
            workers = read_workers(self._folder / REPORTS, identity)
            crossed = crossing(workers, node_of, seconds)
            self._pace(0.0)
            time.sleep(_SETTLED)
            full = self._measure(shape, seconds)
        finally:
            self._machines.limit(None)
            self._pace(PACED)
        if isinstance(crossed, str):
            raise LabError(f"{shape.name}, {policy}: {crossed}")
        found = evaluate(instance, placed)
        return Row(
            shape=shape.name,
            policy=policy,
            repetition=repetition,
            predicted_share=placement.remote_share or 0.0,
            share=crossed.crossed / crossed.total,
            crossed=crossed.crossed,
            latency=paced.spent / paced.tuples if paced.tuples else float("nan"),
            predicted_rate=2 * PACED * (found.sustainable_rate or 0.0),
            rate=full.tuples / seconds,
            nodes=len({worker.rpartition(":")[0] for worker in _workers(placement, shape.name)}),
            as_planned=verdict.holds,
            load=os.getloadavg()[0],
        )

    def end(self, shape: Shape) -> None:
        """Kill a topology, and wait until it is gone."""
        with Nimbus(self._cluster.url, 60.0) as nimbus:
            nimbus.kill(shape.name)
        wait_until(lambda: not self._runs(shape.name), f"{shape.name} is gone", _LONG)

    def _runs(self, name: str) -> bool:
        with Nimbus(self._cluster.url, 60.0) as nimbus:
            return any(one.name == name for one in nimbus.cluster().topologies or ())

    def _measure(self, shape: Shape, seconds: float) -> Acked:
        before = acked(self._cluster.url, shape.name)
        time.sleep(seconds)
        return acked(self._cluster.url, shape.name).since(before)

    def _pace(self, rate: float) -> None:
        fresh = self._control.with_suffix(".new")
        fresh.write_text(f"{rate:g}")
        fresh.replace(self._control)

    def _walk(self, shape: Shape) -> Walk:
        folder = self._folder / shape.name
        folder.mkdir(exist_ok=True)
        return Walk(self._cluster, folder)


def _without_acks(walk: Walk) -> Instance:
    """Return an instance whose streams are those of the user's topology: acks close circles."""
    document = json.loads(Path(walk.file["instance"]).read_text())
    for key in ("streams", "traffic"):
        entries = [one.values() if isinstance(one, dict) else one for one in document.get(key, ())]
        acks = [any(str(end).startswith("__acker") for end in ends) for ends in entries]
        kept = [one for one, ack in zip(document.get(key, ()), acks, strict=True) if not ack]
        document[key] = kept
    return Instance.from_dict(document)


def _workers(placement: Any, name: str) -> Sequence[str]:
    return list(placement.topologies[name].workers)


RUNS = Path(__file__).with_name("storm-bench-runs.csv")
"""The runs that the documentation describes."""
_HEAD = (
    "topology", "plan", "runs", "machines", "crossing, predicted", "measured",
    "messages/s that cross", "latency, ms", "most tuples/s, predicted", "measured",
)  # fmt: skip
_SHOWN = (
    ("nodes", ".0f"), ("predicted_share", ".3f"), ("share", ".3f"), ("crossed", ",.0f"),
    ("latency", ",.1f"), ("predicted_rate", ",.0f"), ("rate", ",.0f"),
)  # fmt: skip


def bench_table(path: Path = RUNS) -> str:
    """Return the table of runs, means of repetitions, and the order of latencies a topology."""
    runs = pd.read_csv(path)
    lines, orders = [], []
    for shape, own in runs.groupby("shape", sort=False):
        means = own.groupby("policy", sort=False).mean(numeric_only=True)
        counts = own.groupby("policy").size().to_dict()
        lines += [
            [
                str(shape),
                str(policy),
                str(counts[policy]),
                *(f"{row[str(k)]:{f}}" for k, f in _SHOWN),
            ]
            for policy, row in means.iterrows()
        ]
        order = ", ".join(map(str, means["latency"].sort_values().index))
        orders.append(f"- {shape}, by latency: {order}.")
    return "\n".join([markdown(_HEAD, lines, right=()), *orders]) + "\n"


def main() -> int:
    """Run the bench; where it cannot be run, say why and end well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="build/lab-storm-bench", help="for logs and files")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0, help="of a measurement")
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="how many of the shapes")
    parser.add_argument("--policies", nargs="+", choices=[*POLICIES], default=[*POLICIES])
    parser.add_argument("--table", type=Path, help="only print the table of these runs")
    args = parser.parse_args()
    if args.table is not None:
        tell(bench_table(args.table))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("lab-storm-bench: ended by SIGTERM"))
    reason = reason_against() or (None if jdk() else "it takes a JDK and Maven")
    if reason is not None:
        tell(f"lab-storm-bench: skipped: {reason}")
        return 0
    folder = Path(args.folder).resolve()
    reports_of(folder)
    failed = 0
    with ExitStack() as stack, (folder / "runs.csv").open("w", newline="") as out:
        table = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        table.writeheader()
        machines = stack.enter_context(Machines(SUPERVISORS, MEGABITS))
        settings = {"supervisor.cpu.capacity": 100 * CORES}
        cluster = stack.enter_context(StormCluster(folder, GATEWAY, settings))
        for number, name in enumerate(SUPERVISORS, start=1):
            cluster.start(name, machines.address(name), machines.inside(name))
            cluster.wait_for(number)
        bench = Bench(cluster, machines, folder)
        for shape in SHAPES[: args.shapes]:
            plans = bench.plans(shape, args.policies)
            for repetition in range(args.repetitions):
                for policy, plan in plans.items():
                    try:
                        row = bench.run(shape, policy, plan, repetition, args.seconds)
                    except (LabError, InvalidInput) as error:
                        failed += 1
                        tell(f"failed: {shape.name}, {policy}: {error}")
                        continue
                    table.writerow(row.cells())
                    out.flush()
                    tell(json.dumps(row.cells()))
            bench.end(shape)
    tell(f"lab-storm-bench: {folder / 'runs.csv'}, {failed} runs failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
