"""The whole loop on a Storm of its own: ``make lab-storm``.

A topology is started as Storm places it, imported, planned, submitted and verified; a supervisor
is killed with its workers, what Storm does is reported, and a plan within a budget is carried out
on what is left; then the supervisor comes back.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from experiments.studies.lab.runner import LONG, PATIENCE, Steps, Walk, run_lab, tell, wait_until
from experiments.studies.lab.storm_cluster import REPORTS, SUPERVISORS, StormCluster, address
from optim.errors import InvalidInput
from streamplace.clusters.storm.nimbus import Nimbus
from streamplace.clusters.storm.submit import load_placement, submit

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from streamplace.clusters.storm.verify import StormVerdict

_SETTLED = 25.0
"""Seconds from all running to the import: at first spouts send what later stages have not seen."""
_REPORTED = 50.0
"""Until workers have reported for most of a minute."""
BUDGET = 6
"""Moves of the plan after the failure."""


def conf_of(folder: Path, period: int = 5, **more: Any) -> dict[str, Any]:
    """Return the configuration of a topology whose workers report what they send."""
    reporter = {
        "class": "org.apache.storm.metrics2.reporters.CsvStormReporter",
        "report.period": period,
        "report.period.units": "SECONDS",
        "csv.log.dir": str(folder.resolve() / REPORTS),
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


def all_run(url: str, name: str, number: int) -> bool:
    """Whether so many executors of a topology run and have reported from living supervisors."""
    with Nimbus(url, PATIENCE) as nimbus:
        hosts = {one.host for one in nimbus.cluster().supervisors or ()}
        try:
            found = nimbus.executors(nimbus.topology(name).id)
        except InvalidInput:  # being rebalanced
            return False
    up = [one for one in found if one.uptime_secs > 0 and one.host in hosts]
    return len(up) == number and all(one.stats is not None for one in up)


def placed(url: str, walk: Walk) -> StormVerdict:
    """Submit a placement, and return whether each executor comes to run as planned."""
    with Nimbus(url, PATIENCE) as nimbus:
        return submit(nimbus, load_placement(walk.exported), LONG)


def verdicts(folder: Path, short: bool = False) -> list[dict[str, Any]]:
    """Go through the loop, and return the verdicts; the short form ends before the failure."""
    step, found = Steps(), list[dict[str, Any]]()
    with StormCluster(folder) as cluster:
        cluster.start_all()
        step("ZooKeeper, Nimbus and supervisors are up")
        conf = conf_of(folder, **{"topology.disable.loadaware.messaging": False})
        cluster.submit({"name": "words", "conf": conf, "components": WORDS})
        run = lambda: all_run(cluster.url, "words", EXECUTORS)  # noqa: E731
        wait_until(run, "all executors run")
        step("the topology runs as Storm places it")
        time.sleep(_SETTLED)
        walk = Walk("storm", cluster.url, folder)

        def planned(what: str, budget: int | None = None, reported: float = 0.0) -> None:
            walk.read(cpu="requested")
            walk.plan(budget, limit=5.0)
            walk.submit()
            time.sleep(reported)
            found.append(walk.verdict())
            step(f"{what}{_told(found[-1])}")

        planned("", reported=_REPORTED)
        if short:
            return found
        placement = load_placement(walk.exported).topologies["words"]
        hosts = Counter[str]()
        for worker, executors in placement.workers.items():
            hosts[worker.rpartition(":")[0]] += len(executors)
        busiest = max(SUPERVISORS, key=lambda name: hosts[address(name)])
        cluster.kill(busiest)
        step(f"{busiest} ({address(busiest)}) was killed with -9, and its workers")
        cluster.wait_for(len(SUPERVISORS) - 1)
        wait_until(run, "all executors run again")
        after = walk.verdict()
        step(f"Storm has put all elsewhere: {_told(after)}")
        for line in cluster.log("nimbus", "PlanScheduler")[-2:]:
            tell(f"nimbus: {line[24:]}")
        for one in after["differences"]:
            tell(f"  {one['component']} {one['executor']}: {one['planned']} -> {one['running']}")
        planned(f"planned again, at most {BUDGET} moves: ", BUDGET)
        cluster.start(busiest)
        cluster.wait_for(len(SUPERVISORS))
        found.append(walk.verdict())
        step(f"{busiest} is back, and nothing moves: {_told(found[-1])}")
        planned(f"planned with it, at most {BUDGET} moves: ", BUDGET)
        if cluster.restarts:
            step(f"ended by themselves, and started again: {', '.join(cluster.restarts)}")
        step(f"{cluster.memory():.2f} GB in use")
    step("down")
    return found


def _told(found: dict[str, Any]) -> str:
    text = f"{found['as_planned']} of {found['planned']} as planned"
    measured, predicted = found["measured_share"], found["predicted_share"]
    if measured is None or predicted is None:
        return text
    return f"{text}, remote share {measured:.3f} measured, {predicted:.3f} predicted"


def work(folder: Path, args: argparse.Namespace) -> tuple[str, bool]:
    """Return how much was as planned."""
    found = verdicts(folder, args.short)
    return "; ".join(map(_told, found)), all(one["holds"] for one in found)


if __name__ == "__main__":
    short = ("--short", {"action": "store_true", "help": "end before the failure"})
    sys.exit(run_lab("lab-storm", __doc__, work, short))
