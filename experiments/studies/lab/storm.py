"""The whole loop on a Storm of its own: ``make lab-storm``.

A topology is started as Storm places it, imported, planned, submitted and verified; a supervisor
is killed with its workers, what Storm does is reported, and a plan within a budget is carried out
on what is left; then the supervisor comes back.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.lab.__main__ import command, tell
from experiments.studies.lab.cluster import LabError
from experiments.studies.lab.storm_cluster import SUPERVISORS, StormCluster
from optim.errors import InvalidInput
from streamplace.cli.main import main as streamplace
from streamplace.clusters.storm.nimbus import Nimbus

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = ("--timeout", "60")
WAIT = ("--wait", "240")
_LONG = 240.0
_SETTLED = 25.0
"""Seconds from all running to the import: at first spouts send what later stages have not seen."""
_REPORTED = 50.0
"""Until workers have reported for most of a minute."""
BUDGET = 6
"""Moves of the plan after the failure."""
REPORTS = "reports"
"""Folder in which workers write their metrics."""


def conf_of(folder: Path, period: int = 5, **more: Any) -> dict[str, Any]:
    """Return the configuration of a topology whose workers report what they send."""
    reporter = {
        "class": "org.apache.storm.metrics2.reporters.CsvStormReporter",
        "report.period": period,
        "report.period.units": "SECONDS",
        "csv.log.dir": str(folder / REPORTS),
    }
    return {
        "topology.workers": 4,
        "topology.acker.executors": 2,
        "topology.stats.sample.rate": 1.0,
        "topology.disable.loadaware.messaging": True,
        "topology.max.spout.pending": 500,
        "topology.metrics.reporters": [reporter],
        **more,
    }


WORDS = [
    {"id": "lines", "executors": 2, "rate": 40},
    {"id": "split", "executors": 4, "from": "lines", "out": 3},
    {"id": "count", "executors": 6, "from": "split", "grouping": "fields", "out": 0},
]
EXECUTORS = 14
"""Of the topology, two ackers included."""


def address(name: str) -> str:
    """Return the host of a supervisor on loopback."""
    return f"127.0.0.{11 + SUPERVISORS.index(name)}"


def wait_until(done: Callable[[], bool], what: str, limit: float = _LONG) -> float:
    """Wait until something is so, and return the seconds that it took.

    Raises
    ------
    LabError
        It is not so in time.
    """
    began = time.monotonic()
    while not done():
        if time.monotonic() - began > limit:
            raise LabError(f"not in {limit:g} s: {what}")
        time.sleep(0.5)
    return time.monotonic() - began


def all_run(url: str, name: str, number: int) -> bool:
    """Whether so many executors of a topology run and have reported from living supervisors."""
    with Nimbus(url, 60.0) as nimbus:
        hosts = {one.host for one in nimbus.cluster().supervisors or ()}
        try:
            found = nimbus.executors(nimbus.topology(name).id)
        except InvalidInput:  # being rebalanced
            return False
    up = [one for one in found if one.uptime_secs > 0 and one.host in hosts]
    return len(up) == number and all(one.stats is not None for one in up)


def verdict(url: str, placement: str, *more: str) -> dict[str, Any]:
    """Return what ``streamplace verify`` says, also where it says no."""
    out = StringIO()
    arguments = ["verify", "storm", url, placement, "--json", *PATIENCE, *more]
    tell(f"$ streamplace {' '.join(arguments)}")
    with redirect_stdout(out):
        code = streamplace(arguments)
    if code not in (0, 1):
        raise LabError(f"streamplace verify ended with {code}")
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def reported(url: str, placement: str) -> dict[str, Any]:
    """Return what ``streamplace verify`` says once all workers have reported for a while."""
    time.sleep(_REPORTED)
    return verdict(url, placement)


class Walk:
    """The files of a run, and the steps on them."""

    def __init__(self, cluster: StormCluster, folder: Path) -> None:
        self._url = cluster.url
        parts = ("instance", "plan", "placement")
        self.file = {part: str(folder / f"{part}.json") for part in parts}

    def plan(self, budget: int | None = None) -> None:
        """Import, solve and export; with a budget of moves."""
        self.read()
        if budget is not None:
            path = Path(self.file["instance"])
            document = json.loads(path.read_text())
            document.setdefault("limits", {})["max_migrations"] = budget
            path.write_text(json.dumps(document))
        files = (self.file["instance"], "-o", self.file["plan"])
        command("solve", *files, "--time-limit", "5", "-q")
        self.export()

    def read(self, cpu: str = "requested", *more: str) -> None:
        """Import."""
        options = ("--option", f"cpu={cpu}", *more, "-q", *PATIENCE)
        command("import", "storm", self._url, *options, "-o", self.file["instance"])

    def export(self) -> None:
        """Write the placement of the plan."""
        files = (self.file["instance"], self.file["plan"], "-o", self.file["placement"])
        command("export", "storm", *files, "-q")

    def submit(self) -> None:
        """Carry the placement out."""
        command("submit", "storm", self._url, self.file["placement"], *PATIENCE, *WAIT)

    def nodes(self) -> dict[str, int]:
        """Return how many executors the placement has on each node."""
        placed: dict[str, int] = {}
        document = json.loads(Path(self.file["placement"]).read_text())
        for topology in document["topologies"].values():
            for worker, executors in topology["workers"].items():
                host = worker.rpartition(":")[0]
                placed[host] = placed.get(host, 0) + len(executors)
        return placed


def start_all(cluster: StormCluster) -> None:
    """Start the supervisors one after the other: all at once they take minutes on two cores."""
    for number, name in enumerate(SUPERVISORS, start=1):
        cluster.start(name, address(name))
        cluster.wait_for(number)


def run(folder: Path, short: bool = False) -> list[dict[str, Any]]:
    """Go through the loop, and return the verdicts; the short form ends before the failure."""
    begin = time.monotonic()

    def step(text: str) -> None:
        tell(f"[{time.monotonic() - begin:5.1f} s] {text}")

    with StormCluster(folder) as cluster:
        start_all(cluster)
        step("ZooKeeper, Nimbus and supervisors are up")
        conf = conf_of(folder, **{"topology.disable.loadaware.messaging": False})
        cluster.submit({"name": "words", "conf": conf, "components": WORDS})
        wait_until(lambda: all_run(cluster.url, "words", EXECUTORS), "all executors run")
        step("the topology runs as Storm places it")
        time.sleep(_SETTLED)
        walk = Walk(cluster, folder)
        walk.plan()
        walk.submit()
        found = [reported(cluster.url, walk.file["placement"])]
        step(_told(found[0]))
        if short:
            return found
        busiest = max(SUPERVISORS, key=lambda name: walk.nodes().get(address(name), 0))
        cluster.kill(busiest)
        step(f"{busiest} ({address(busiest)}) was killed with -9, and its workers")
        cluster.wait_for(len(SUPERVISORS) - 1)
        wait_until(lambda: all_run(cluster.url, "words", EXECUTORS), "all executors run again")
        after = verdict(cluster.url, walk.file["placement"])
        step(f"Storm has put all elsewhere: {_told(after)}")
        for line in cluster.log("nimbus", "PlanScheduler")[-2:]:
            tell(f"nimbus: {line[24:]}")
        for one in after["differences"]:
            tell(f"  {one['component']} {one['executor']}: {one['planned']} -> {one['running']}")
        walk.plan(BUDGET)
        walk.submit()
        found.append(verdict(cluster.url, walk.file["placement"]))
        step(f"planned again, at most {BUDGET} moves: {_told(found[-1])}")
        cluster.start(busiest, address(busiest))
        cluster.wait_for(len(SUPERVISORS))
        found.append(verdict(cluster.url, walk.file["placement"]))
        step(f"{busiest} is back, and nothing moves: {_told(found[-1])}")
        walk.plan(BUDGET)
        walk.submit()
        found.append(verdict(cluster.url, walk.file["placement"]))
        step(f"planned with it, at most {BUDGET} moves: {_told(found[-1])}")
        if cluster.restarts:
            step(f"ended by themselves, and started again: {', '.join(cluster.restarts)}")
        step(f"{_memory(cluster):.2f} GB in use")
    step("down")
    return found


def _told(found: dict[str, Any]) -> str:
    text = f"{found['as_planned']} of {found['planned']} as planned"
    measured, predicted = found["measured_share"], found["predicted_share"]
    if measured is None or predicted is None:
        return text
    return f"{text}, remote share {measured:.3f} measured, {predicted:.3f} predicted"


def _memory(cluster: StormCluster) -> float:
    """Return the gigabytes that all processes of a cluster hold, what they share counted once."""
    total = 0
    for name in ("zookeeper", "nimbus", *SUPERVISORS):
        for pid in cluster.members(name):
            try:
                text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except OSError:
                continue
            total += next(int(x.split()[1]) for x in text.splitlines() if x.startswith("Pss:"))
    return total / 1e6


def reports_of(folder: Path) -> Path:
    """Return the folder of the workers' reports, made anew."""
    found = folder / REPORTS
    found.mkdir(parents=True, exist_ok=True)
    for file in found.glob("*.csv"):
        file.unlink()
    return found


def main() -> int:
    """Run the laboratory; the last line says how much was as planned."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="build/lab-storm", help="for logs and files")
    parser.add_argument("--short", action="store_true", help="end before the failure")
    args = parser.parse_args()
    folder = Path(args.folder).resolve()
    reports_of(folder)
    try:
        found = run(folder, args.short)
    except (LabError, InvalidInput) as error:
        tell(f"lab-storm: failed: {error}")
        return 1
    tell(f"lab-storm: {'; '.join(map(_told, found))}")
    return int(not all(one["holds"] for one in found))


if __name__ == "__main__":
    sys.exit(main())
