"""The whole loop on a Flink of its own: ``make lab``.

A job is started as Flink places it, imported, planned, submitted again unchanged with the plan's
groups, and verified; a task manager is killed and started again, and all is verified once more.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.lab.flink_cluster import MAIN, FlinkCluster, build_jar
from experiments.studies.lab.runner import LONG, LabError, Steps, Walk, run_lab, wait_until
from streamplace.clusters.flink.exporter import Sheet
from streamplace.clusters.flink.fetch import wait_until_running

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

ARGUMENTS = ("2", "4", "4", "2", "1", "600", "400")
"""Of the job: 13 subtasks, 400 orders of 600 bytes a second."""
MANAGERS = ("tm1", "tm2", "tm3", "tm4")
CORES = {"cores": "configured"}
"""Option of imports: task managers share one machine, configured as if each had its own."""
WARM = 10.0
"""Seconds from all running to the import: rates of the very start say little."""


def submitted(cluster: FlinkCluster, arguments: Sequence[str] = ARGUMENTS) -> tuple[str, str]:
    """Build the job, submit it as ``flink run`` would, and return its jar and id."""
    with cluster.client() as client:
        jar = str(build_jar(client, cluster.folder))
        return jar, client.submit(client.graph_of_jar(jar, MAIN, arguments))


class Job:
    """The job on a cluster of four task managers: at first as Flink places it.

    Parameters
    ----------
    cluster
        Without task managers.
    arguments
        Of the job.

    Raises
    ------
    LabError
        It does not run.
    """

    def __init__(self, cluster: FlinkCluster, arguments: Sequence[str] = ARGUMENTS) -> None:
        self._cluster, self._arguments = cluster, arguments
        self.walk = Walk("flink", cluster.url, cluster.folder)
        for name in MANAGERS:
            cluster.start(name)
        cluster.wait_for(set(MANAGERS))
        self._jar, self._id = submitted(cluster, arguments)
        if not wait_until_running(cluster.web, self._id, LONG):
            raise LabError("the unplanned job does not run")

    def read(self, **options: object) -> None:
        """Import, with further options."""
        self.walk.read(**CORES, **options)

    def roll_out(self, path: Path) -> Sheet:
        """Cancel the job, start the task managers anew with a sheet's quotas, and submit it."""
        cluster, sheet = self._cluster, Sheet.from_dict(json.loads(path.read_text()))
        cluster.cancel(self._id)
        for name in MANAGERS:
            cluster.kill(name)
        cluster.wait_for(set())  # else those that are gone would be taken for those that come
        for name in MANAGERS:
            cluster.start(name, sheet.configuration(name))
        cluster.wait_for(set(MANAGERS))
        if str(path) != self.walk.exported:
            Path(self.walk.exported).write_text(path.read_text())
        self.walk.submit("--jar", self._jar, "--class", MAIN, "--args", *self._arguments)
        jobs = cluster.web.get("jobs/overview")["jobs"]
        self._id = next(str(job["jid"]) for job in jobs if job["state"] == "RUNNING")
        return sheet

    def states(self) -> set[str]:
        """Return the states of jobs that have not been cancelled."""
        jobs = self._cluster.web.get("jobs/overview")["jobs"]
        return {job["state"] for job in jobs} - {"CANCELED"}


def verdicts(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Go through the loop, and return both verdicts."""
    step, wait = Steps(), ("--wait", f"{LONG:g}")
    with FlinkCluster(folder) as cluster:
        job = Job(cluster)
        step("the job runs as Flink places it")
        time.sleep(WARM)
        job.read()
        job.walk.plan()
        step("imported, planned, exported")
        sheet = job.roll_out(Path(job.walk.exported))
        first = job.walk.verdict(*wait)
        victim = max(sheet.task_managers, key=lambda name: len(sheet.configuration(name)))
        cluster.kill(victim)
        cluster.wait_for(set(MANAGERS) - {victim})
        # job and cluster have heartbeats of their own
        wait_until(lambda: job.states() != {"RUNNING"}, f"the job notices that {victim} is gone")
        step(f"{victim} was killed with -9, and the job waits for it")
        cluster.start(victim, sheet.configuration(victim))
        second = job.walk.verdict(*wait)
        step("verified again")
    return first, second


def work(folder: Path, _: argparse.Namespace) -> tuple[str, bool]:
    """Return how much was as planned."""
    first, second = verdicts(folder)
    told = (
        f"{first['as_planned']} of {first['planned']} as planned, "
        f"after kill -9 {second['as_planned']} of {second['planned']}"
    )
    return told, first["holds"] and second["holds"]


if __name__ == "__main__":
    sys.exit(run_lab("lab", __doc__, work))
