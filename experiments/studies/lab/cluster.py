"""A Flink on this machine: its job manager and task managers as processes on loopback, its job.

Processes of a laboratory (Storm's too) are recorded before anything else happens, and ended by that
record. Each is the first of a process group of its own, so that what it starts (Storm's workers)
ends with it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import time
import urllib.request
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from optim.errors import InvalidInput
from streamplace.clusters.exchange.sources import WebClient
from streamplace.clusters.flink.submit import flink_jars, java_options
from streamplace.java import find_java

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamplace.clusters.flink.submit import FlinkClient

HOST = "127.0.0.1"
_PORTS = range(20_000, 30_000)
"""Below those that Linux gives to whoever asks for any: 32,768 to 60,999."""
PATIENCE = 30.0
"""Seconds for an answer: the machine may be busy with other things."""
_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_COMMON: dict[str, Any] = {
    "heartbeat.interval": 1000,
    "heartbeat.timeout": 20000,
    "taskmanager.memory.segment-size": "8kb",
    "pekko.ask.timeout": "60 s",
    "metrics.fetcher.update-interval": 1000,
}
_MANAGING: dict[str, Any] = {
    "jobmanager.memory.heap.size": "384m",
    "web.submit.enable": False,
    "web.timeout": 60000,  # a job manager that was just started takes long over its first job
    "slot.request.timeout": 60000,
    "slot.idle.timeout": 2000,
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 1000,
    "restart-strategy.fixed-delay.delay": "1 s",
}
# All parts of the memory are needed: without the shell scripts nobody computes the missing ones.
_WORKING: dict[str, Any] = {
    "taskmanager.cpu.cores": 4.0,
    "taskmanager.memory.framework.heap.size": "96m",
    "taskmanager.memory.task.heap.size": "256m",
    "taskmanager.memory.framework.off-heap.size": "64m",
    "taskmanager.memory.task.off-heap.size": "0m",
    "taskmanager.memory.managed.size": "16m",
    "taskmanager.memory.network.min": "48m",
    "taskmanager.memory.network.max": "48m",
    "taskmanager.memory.jvm-metaspace.size": "160m",
    "taskmanager.memory.jvm-overhead.min": "64m",
    "taskmanager.memory.jvm-overhead.max": "64m",
}
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


class LabError(RuntimeError):
    """The cluster does not do what it should; its logs say why."""


class Lab:
    """A cluster, as a context manager that takes it down whatever happens.

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
        self.folder = folder.resolve()
        self._slots = slots
        self._host = host
        self._settings = {**_COMMON, "jobmanager.rpc.address": host, **(settings or {})}
        self._processes = Processes(self.folder)
        self._rpc, self._rest = free_ports(host, 2)
        self.url = f"http://{host}:{self._rest}"
        self._client = WebClient(self.url, PATIENCE)

    def __enter__(self) -> Self:
        """Take down what a run that was killed has left here, and start the job manager."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._processes.clear()
        try:
            keys = ("jobmanager.bind-host", "rest.address", "rest.bind-address")
            ports = {"rest.port": self._rest, "jobmanager.rpc.port": self._rpc}
            heap = ["-Xms128m", "-Xmx512m", "-XX:MaxMetaspaceSize=192m"]
            self._start(
                "jobmanager",
                _JOB_MANAGER,
                heap,
                {**_MANAGING, **dict.fromkeys(keys, self._host), **ports},
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.kill_all()

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
        self._start(name, _TASK_MANAGER, heap, {**_WORKING, **own}, inside)

    def kill(self, name: str) -> None:
        """End a process with -9, as a machine that fails does."""
        self._processes.kill(name)

    def pause(self) -> None:
        """Stop all processes where they are, so that they use no processor (SIGSTOP)."""
        self._processes.signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on; heartbeats must be allowed to take as long as the pause."""
        self._processes.signal_all(signal.SIGCONT)

    def wait_for(self, names: set[str], limit: float = 400.0) -> None:
        """Wait until just these task managers are registered.

        Raises
        ------
        LabError
            They are not in time, or a process has ended.
        """
        ends = time.monotonic() + limit
        while time.monotonic() < ends:
            for name, code in self._processes.ended().items():
                raise LabError(f"{name} ended with {code}: see {self.folder}")
            try:
                page = self._client.get("taskmanagers")
            except InvalidInput:
                page = None  # no answer is not the answer that there are none
            if page and {manager["id"] for manager in page["taskmanagers"]} == names:
                return
            time.sleep(0.3)
        raise LabError(f"{', '.join(sorted(names))} not there in {limit:g} s: see {self.folder}")

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
        address = f"{self.url}/jobs/{job}?mode=cancel"
        urllib.request.urlopen(urllib.request.Request(address, method="PATCH"), timeout=20).close()
        while self._client.get(f"jobs/{job}")["state"] not in ("CANCELED", "FAILED", "FINISHED"):
            time.sleep(0.2)

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
        self._processes.start(name, command, environment, folder / "out")


def free_ports(host: str, number: int) -> list[int]:
    """Return free ports that nobody is given who asks for any port.

    The job manager takes its ports seconds later: one of the ephemeral range may have become
    another process's by then.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == number:
            return found
    raise LabError(f"no {number} ports from {_PORTS.start} to {_PORTS.stop - 1} are free on {host}")


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


class Processes:
    """The processes whose files are in a folder.

    Parameters
    ----------
    folder
        Of the record; a process is one of ours while its command line names this folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._record = folder / "pids.json"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._groups: dict[str, list[int]] = {}

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], out: Path
    ) -> None:
        """Start a process; what it prints is added to a file."""
        with out.open("ab") as to:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=to,
                stderr=to,
                start_new_session=True,
                env=dict(environment),
            )
        self._running[name] = process
        self._groups.setdefault(name, []).append(process.pid)
        self._save()

    def kill(self, name: str) -> None:
        """End a process, and what it started, with -9, as a machine that fails does."""
        process = self._running.pop(name)
        for group in self._groups.pop(name):
            self._signal(group, signal.SIGKILL)
        process.wait()
        self._save()

    def kill_all(self) -> None:
        """End all of them."""
        for name in list(self._running):
            self.kill(name)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to all of them, and to what they started."""
        for groups in list(self._groups.values()):
            for group in groups:
                self._signal(group, number)

    def ended(self) -> dict[str, int]:
        """Return the exit codes of those that ended by themselves."""
        codes = {name: process.poll() for name, process in list(self._running.items())}
        return {name: code for name, code in codes.items() if code is not None}

    def members(self, name: str) -> list[int]:
        """Return the ids of a process and of those that it started and that run."""
        groups = self._groups.get(name, ())
        return [pid for pid, group in _groups_now().items() if group in groups]

    def clear(self) -> None:
        """End what a run that was killed has left, where it still is one of ours."""
        if not self._record.exists():
            return
        recorded = json.loads(self._record.read_text())
        groups = {int(group) for some in recorded.values() for group in some}
        for pid, group in _groups_now().items():
            with suppress(OSError):
                ours = str(self._folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
                if ours and group in groups:
                    os.kill(pid, signal.SIGKILL)
        self._record.unlink()

    def _signal(self, group: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(group, number)

    def _save(self) -> None:
        self._record.write_text(json.dumps(self._groups))


def _groups_now() -> dict[int, int]:
    """Return the process group of every process."""
    found = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            pid = int(folder.name)
            found[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[2])
    return found
