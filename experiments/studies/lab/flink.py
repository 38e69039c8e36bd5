"""The whole loop on a Flink of its own: ``make lab``.

A job is started as Flink places it, imported, planned, submitted again unchanged with the plan's
groups, and verified; a task manager is killed and started again, and all is verified once more.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.studies.lab.runner import (
    HOST,
    LONG,
    PATIENCE,
    Cluster,
    LabError,
    Steps,
    Walk,
    configured,
    free_ports,
    run_lab,
    send,
    wait_until,
)
from optim.errors import InvalidInput
from streamplace.clusters.exchange.sources import WebClient
from streamplace.clusters.flink.exporter import Sheet
from streamplace.clusters.flink.fetch import wait_until_running
from streamplace.clusters.flink.submit import FlinkClient, flink_jars, java_options
from streamplace.java import find_java

_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_LOG = """\
rootLogger.level=INFO
rootLogger.appenderRef.f.ref=F
appender.f.name=F
appender.f.type=File
appender.f.fileName={file}
appender.f.append=true
appender.f.layout.type=PatternLayout
appender.f.layout.pattern=%d{{HH:mm:ss,SSS}} %-5p %c{{1}} %m%n
"""


class FlinkCluster(Cluster):
    """A job manager, and task managers as they are started.

    `folder`: for configuration, logs and the record of processes. `slots`: of each task manager,
    for a job without a plan: one each spreads it over all of them. With a plan they bind nothing.
    `host`: where the job manager listens. `settings`: keys of Flink's configuration for all
    processes.
    """

    def __init__(
        self,
        folder: Path,
        slots: int = 1,
        host: str = HOST,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(folder)
        self._slots, self._host = slots, host
        self._settings = {**configured("flink"), "jobmanager.rpc.address": host, **(settings or {})}
        self._rpc, self._rest = free_ports(host, 2)
        self.url = f"http://{host}:{self._rest}"
        self.web = WebClient(self.url, PATIENCE)

    def begin(self) -> None:
        """Start the job manager."""
        keys = ("jobmanager.bind-host", "rest.address", "rest.bind-address")
        ports = {"rest.port": self._rest, "jobmanager.rpc.port": self._rpc}
        heap = ["-Xms128m", "-Xmx512m", "-XX:MaxMetaspaceSize=192m"]
        settings = {**configured("flink-jobmanager"), **dict.fromkeys(keys, self._host), **ports}
        self._start("jobmanager", _JOB_MANAGER, heap, settings)

    def client(self) -> FlinkClient:
        """Return a client that submits jobs, to be entered."""
        return FlinkClient(self._host, self._rest, {})

    def start(
        self,
        name: str,
        settings: Mapping[str, Any] | None = None,
        host: str = HOST,
        inside: Sequence[str] = (),
    ) -> None:
        """Start a task manager with quotas, such as `Sheet.configuration` gives.

        `host`: its own address. `inside`: what stands before its command, to run it on that host.
        """
        configuration = {
            **dict.fromkeys(("taskmanager.host", "taskmanager.bind-host"), host),
            "jobmanager.rpc.port": self._rpc,
            "taskmanager.resource-id": name,
            "taskmanager.numberOfTaskSlots": self._slots,
            **(settings or {}),
        }
        heap = ["-Xms128m", "-Xmx352m", "-XX:MaxDirectMemorySize=160m"]
        heap.append("-XX:MaxMetaspaceSize=160m")
        self._start(
            name, _TASK_MANAGER, heap, {**configured("flink-taskmanager"), **configuration}, inside
        )

    def wait_for(self, names: set[str], limit: float = 400.0) -> None:
        """Wait until just these task managers are registered.

        Raises `LabError`: they are not in time, or a process has ended.
        """
        what = f"{', '.join(sorted(names)) or 'none'} there: see {self.folder}"
        wait_until(lambda: self._managers() == names, what, limit, 0.3)

    def _managers(self) -> set[str] | None:
        # the first that ended is enough: no cluster comes of the others
        for name, code in self.ended().items():
            raise LabError(f"{name} ended with {code}: see {self.folder}")
        try:
            return {manager["id"] for manager in self.web.get("taskmanagers")["taskmanagers"]}
        except InvalidInput:
            return None  # no answer is not the answer that there are none

    def cancel(self, job: str) -> None:
        """Cancel a job and wait until it has ended."""
        send(f"{self.url}/jobs/{job}?mode=cancel", None, "PATCH")
        ends = ("CANCELED", "FAILED", "FINISHED")
        ended = lambda: self.web.get(f"jobs/{job}")["state"] in ends  # noqa: E731
        wait_until(ended, f"job {job} is cancelled", LONG, 0.2)

    def _start(
        self,
        name: str,
        main: str,
        heap: list[str],
        settings: Mapping[str, Any],
        inside: Sequence[str] = (),
    ) -> None:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        for part in ("tmp", "plugins"):
            (self.folder / part).mkdir(exist_ok=True)
        log = folder / "log"
        log.unlink(missing_ok=True)
        # the laboratory's own settings last: they win
        configuration = {**settings, **self._settings, "io.tmp.dirs": str(self.folder / "tmp")}
        lines = [f"{key}: {json.dumps(value)}\n" for key, value in configuration.items()]
        (folder / "config.yaml").write_text("".join(lines))
        (folder / "log4j.properties").write_text(_LOG.format(file=log))
        jars = flink_jars()
        command = [
            *inside,
            str(find_java().home / "bin" / "java"),
            *heap,
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *java_options(),
            "-Dpekko.remote.classic.startup-timeout=120s",  # 10 s else, whatever Flink's key says
            f"-Dlog4j.configurationFile={folder / 'log4j.properties'}",
            *("-cp", os.pathsep.join(jars), main, "--configDir", str(folder)),
        ]
        folders = {
            "FLINK_LIB_DIR": Path(jars[0]).parent,
            "FLINK_PLUGINS_DIR": self.folder / "plugins",
        }
        environment = os.environ | {key: str(value) for key, value in folders.items()}
        self.launch(name, command, environment, folder / "out")


SOURCE = Path(__file__).with_name("Orders.java")
MAIN = SOURCE.stem
_RELEASE = 8  # Java the compiler writes; a newer runtime takes it.


def build_jar(client: FlinkClient, folder: Path) -> Path:
    """Compile the job into a folder, and return its jar."""
    classes = folder / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    file = client.jvm.java.io.File
    compiler = client.jvm.org.codehaus.janino.Compiler()
    compiler.setDestinationDirectory(file(str(classes)), False)
    compiler.setClassPath(client.array(file, [file(jar) for jar in flink_jars()]))
    compiler.setSourceVersion(_RELEASE)
    compiler.setTargetVersion(_RELEASE)
    compiler.compile(client.array(file, [file(str(SOURCE))]))
    jar = folder / f"{MAIN.lower()}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for path in sorted(classes.glob("*.class")):
            archive.write(path, path.name)
    return jar


ARGUMENTS = ("2", "4", "4", "2", "1", "600", "400")
"""Of the job: 13 subtasks, 400 orders of 600 bytes a second."""
MANAGERS = ("tm1", "tm2", "tm3", "tm4")
CORES = {"cores": "configured"}
"""Option of imports: task managers share one machine, configured as if each had its own."""
WARM = 10.0  # Seconds from all running to the import: rates of the very start say little.


def submitted(cluster: FlinkCluster, arguments: Sequence[str] = ARGUMENTS) -> tuple[str, str]:
    """Build the job, submit it as ``flink run`` would, and return its jar and id."""
    with cluster.client() as client:
        jar = str(build_jar(client, cluster.folder))
        return jar, client.submit(client.graph_of_jar(jar, MAIN, arguments))


class Job:
    """The job on a cluster of four task managers: at first as Flink places it.

    `cluster`: without task managers. `arguments`: of the job. Raises `LabError`: it does not run.
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
        # the job manager notices by heartbeats
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
    summary = (
        f"{first['as_planned']} of {first['planned']} as planned, "
        f"after kill -9 {second['as_planned']} of {second['planned']}"
    )
    return summary, first["holds"] and second["holds"]


if __name__ == "__main__":
    sys.exit(run_lab("lab", __doc__, work))
