"""Throughput of ways to place, on emulated machines: ``make lab-bench``.

Four machines with a share of a core and a narrow link each; per shape of job one import while it
runs as fast as it goes with all cores, as what a record costs falls with the rate (fuller buffers),
and one plan. Then each shape is submitted under each policy in turn, as often as asked for. Every
run is a line of a CSV file at once.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.lab.__main__ import command, tell
from experiments.studies.lab.cluster import PATIENCE, Lab, LabError
from experiments.studies.lab.jar import MAIN, build_jar
from experiments.studies.lab.machines import GATEWAY, Machines, reason_against
from experiments.studies.lab.measuring import (
    COLUMNS,
    Row,
    Running,
    as_planned,
    cpu_clock,
    foresee,
    joined,
)
from experiments.studies.lab.shapes import (
    CORES,
    MACHINES,
    MEGABITS,
    MODES,
    POLICIES,
    SHAPES,
    SLOTS,
    STANDING,
)
from optim import Instance, InvalidInput
from streamplace.clusters.exchange.sources import WebClient
from streamplace.clusters.flink.exporter import Sheet
from streamplace.clusters.flink.fetch import wait_until_running
from streamplace.clusters.flink.submit import FlinkClient, flink_jars, groups_of_job

if TYPE_CHECKING:
    from collections.abc import Mapping

    from experiments.studies.lab.shapes import Policy, Shape

_LONG = 180.0
"""Most seconds for subtasks to run."""
_COMPILED = 5.0
"""Seconds with all cores that the code of a new job gets to be compiled."""
_SEASONED = 20.0
"""As much again before loads are read: the first jobs of a new process pay for what later ones find
compiled, Flink's own network code above all."""
_HEARTBEAT = {"heartbeat.interval": 10_000, "heartbeat.timeout": 3_600_000}
"""Flink's own interval; clusters that are paused between their turns are not given up."""
_WARM = 2.0
"""Seconds of a run with its machine's share of a core before it is measured."""
_STORE = {"metrics.fetcher.update-interval": 4_000}
"""Longer than an import takes to ask everything, so that all it hears is of one moment."""
_PLANNED = next(policy.mode for policy in POLICIES if policy.groups == "plan")
_PROFILED = 10.0
"""Seconds between the readings of an import."""


class Bench:
    """Clusters side by side on the same machines, one for each mode of balancing.

    Only one job runs at any time. A mode is a setting of a whole cluster, so that changing it would
    mean to start all anew.
    """

    def __init__(self, folder: Path, machines: Machines, stack: ExitStack) -> None:
        self._folder, self._machines, self._stack = folder, machines, stack
        self._labs: dict[str, Lab] = {}
        self._clients: dict[str, FlinkClient] = {}
        self._jar = ""
        self._plans: dict[str, tuple[Instance, Sheet, float]] = {}

    def prepare(self) -> None:
        """Start the clusters; that of the plans last, as the others decide what to plan for."""
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

    def run(self, shape: Shape, policy: Policy, repetition: int, seconds: float) -> Row:
        """Submit, measure and cancel.

        Raises
        ------
        LabError
            The job does not run, or failed while it was measured.
        """
        lab = self._only(policy.mode)
        instance, sheet, profiled = self._plans[shape.name]
        job = self._submit(shape, policy.mode, policy.groups)
        try:
            self._settle(lab, job)
            self._machines.limit(CORES)
            time.sleep(_WARM)
            running = Running(lab.url, job)
            before = cpu_clock()
            measured = running.rate_during(lambda: time.sleep(seconds))
            used, all_of = (now - then for now, then in zip(cpu_clock(), before, strict=True))
            where = running.assignment()
            if not running.runs():
                raise LabError(f"{shape.name}, {policy.name}: the job failed while it was measured")
        finally:
            self._machines.limit(None)
            lab.cancel(job)
        rate, full, apart = foresee(instance, where)
        planned = as_planned(sheet, where) if policy.groups == "plan" else 0
        return Row(
            shape=shape.name,
            policy=policy.name,
            repetition=repetition,
            measured=measured,
            predicted=rate * profiled,
            full=full,
            apart=apart,
            subtasks=len(where),
            as_planned=planned,
            load=os.getloadavg()[0],
            busy=used / all_of,
        )

    def _cluster(self, mode: str) -> None:
        settings = {"taskmanager.load-balance.mode": mode, "taskmanager.cpu.cores": CORES}
        settings |= _HEARTBEAT | _STORE
        lab = Lab(self._folder / mode.lower(), SLOTS, GATEWAY, settings)
        self._labs[mode] = self._stack.enter_context(lab)
        port = int(lab.url.rpartition(":")[2])
        client = FlinkClient(GATEWAY, port, {})
        self._clients[mode] = self._stack.enter_context(client)

    def _managers(self, mode: str, quotas: Mapping[str, Mapping[str, Any]]) -> None:
        for name in MACHINES:
            machine = self._machines.address(name), self._machines.inside(name)
            self._labs[mode].start(name, quotas.get(name, {}), *machine)

    def _plan(self, shape: Shape, mode: str) -> tuple[Instance, Sheet, float]:
        """Return the instance, the plan's sheet, and the orders/s while loads were read."""
        lab = self._only(mode)
        kinds = ("instance", "plan", "sheet")
        file = {kind: str(self._folder / f"{shape.name}-{kind}.json") for kind in kinds}
        job = self._submit(shape, mode, "each")
        self._settle(lab, job)
        time.sleep(_SEASONED)
        options = (
            "slots=single",
            "cpu=process",
            f"standing={STANDING:g}",
            f"interval={_PROFILED:g}",
        )
        chosen = [part for option in options for part in ("--option", option)]
        link = f"{MEGABITS:g}Mbit"
        words = ("import", "flink", lab.url, "--link-rate", link, *chosen, "-o", file["instance"])
        rate = Running(lab.url, job).rate_during(lambda: command(*words))
        lab.cancel(job)
        command("solve", file["instance"], "-o", file["plan"], "--time-limit", "20")
        command("export", "flink", file["instance"], file["plan"], "-o", file["sheet"], "-q")
        sheet = Sheet.from_dict(json.loads(Path(file["sheet"]).read_text()))
        return Instance.load(file["instance"]), sheet, rate

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

    def _only(self, mode: str) -> Lab:
        """Let one cluster work and the others stand still: an idle task manager uses a tenth of
        what a machine here has."""
        for lab in self._labs.values():
            lab.pause()
        self._labs[mode].resume()
        return self._labs[mode]

    def _settle(self, lab: Lab, job: str) -> None:
        """Wait until a job runs and its code is compiled."""
        if not wait_until_running(WebClient(lab.url, PATIENCE), job, _LONG):
            raise LabError(f"job {job} does not run: see {lab.folder}")
        time.sleep(_COMPILED)


def main() -> int:
    """Run the bench; where it cannot be run, say why and end well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="build/lab-bench", help="for logs and files")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a measurement")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("lab-bench: ended by SIGTERM"))
    reason = reason_against()
    try:
        flink_jars()
    except InvalidInput as error:
        reason = reason or str(error)
    if reason is not None:
        tell(f"lab-bench: skipped: {reason}")
        return 0
    folder = Path(args.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    with ExitStack() as stack, (folder / "runs.csv").open("w", newline="") as out:
        table = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        table.writeheader()
        machines = stack.enter_context(Machines(MACHINES, MEGABITS))
        bench = Bench(folder, machines, stack)
        bench.prepare()
        for repetition in range(args.repetitions):
            for shape in SHAPES:
                turn = repetition % len(POLICIES)
                for policy in (*POLICIES[turn:], *POLICIES[:turn]):
                    try:
                        row = bench.run(shape, policy, repetition, args.seconds)
                    except (LabError, InvalidInput) as error:
                        failed += 1
                        tell(f"failed: {shape.name}, {policy.name}: {error}")
                        continue
                    table.writerow(row.cells())
                    out.flush()
                    tell(json.dumps(row.cells()))
    tell(f"lab-bench: {folder / 'runs.csv'}, {failed} runs failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
