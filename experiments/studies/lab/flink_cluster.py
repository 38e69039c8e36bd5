"""A Flink on this machine: its job manager and task managers as processes on loopback, its job."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.lab.runner import (
    HOST,
    LONG,
    PATIENCE,
    Cluster,
    LabError,
    configured,
    free_ports,
    send,
    wait_until,
)
from optim.errors import InvalidInput
from streamplace.clusters.exchange.sources import WebClient
from streamplace.clusters.flink.submit import FlinkClient, flink_jars, java_options
from streamplace.java import find_java

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_LAST = 15
"""Lines of a log that are shown."""
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

    Parameters
    ----------
    folder
        For configuration, logs and the record of processes.
    slots
        Of each task manager, for a job without a plan: one each spreads it over all of them. With a
        plan they bind nothing.
    host
        Where the job manager listens.
    settings
        Keys of Flink's configuration for all processes.
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

        Parameters
        ----------
        host
            Its own address.
        inside
            What stands before its command, to run it on that host.
        """
        own = {
            **dict.fromkeys(("taskmanager.host", "taskmanager.bind-host"), host),
            "jobmanager.rpc.port": self._rpc,
            "taskmanager.resource-id": name,
            "taskmanager.numberOfTaskSlots": self._slots,
            **(settings or {}),
        }
        heap = ["-Xms128m", "-Xmx352m", "-XX:MaxDirectMemorySize=160m"]
        heap.append("-XX:MaxMetaspaceSize=160m")
        self._start(name, _TASK_MANAGER, heap, {**configured("flink-taskmanager"), **own}, inside)

    def wait_for(self, names: set[str], limit: float = 400.0) -> None:
        """Wait until just these task managers are registered.

        Raises
        ------
        LabError
            They are not in time, or a process has ended.
        """
        what = f"{', '.join(sorted(names)) or 'none'} there: see {self.folder}"
        wait_until(lambda: self._managers() == names, what, limit, 0.3)

    def _managers(self) -> set[str] | None:
        for name, code in self.ended().items():
            raise LabError(f"{name} ended with {code}: see {self.folder}")
        try:
            return {manager["id"] for manager in self.web.get("taskmanagers")["taskmanagers"]}
        except InvalidInput:
            return None  # no answer is not the answer that there are none

    def last_words(self) -> str:
        """Return what the logs end with, and what they warn of: for whom the folder is not."""
        found = []
        for log in sorted(self.folder.glob("*/log")):
            lines = log.read_text(errors="replace").splitlines()
            warned = [line for line in lines[:-_LAST] if " WARN " in line or " ERROR " in line]
            found += [f"---- {log.parent.name}", *warned[-_LAST:], *lines[-_LAST:]]
        return "\n".join(found)

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
        own = {**settings, **self._settings, "io.tmp.dirs": str(self.folder / "tmp")}
        lines = [f"{key}: {json.dumps(value)}\n" for key, value in own.items()]
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
_RELEASE = 8
"""Java the compiler writes; a newer runtime takes it."""


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
    with zipfile.ZipFile(jar, "w") as made:
        for path in sorted(classes.glob("*.class")):
            made.write(path, path.name)
    return jar
