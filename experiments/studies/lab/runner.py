"""What the laboratories share: processes on loopback, commands of `streamplace`, a main function.

Processes are recorded before anything else happens, and ended by that record. Each is the first of
a process group of its own, so that what it starts (Storm's workers) ends with it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any, Self

from experiments.sweep.isolation import proportional_bytes
from optim.errors import ExitCode, InvalidInput
from streamplace.cli.main import main as streamplace

HOST = "127.0.0.1"
PATIENCE = 60.0  # Seconds for an answer: the machine may be busy with other things.
LONG = 300.0  # Most seconds for tasks to run, and for daemons to be there.
_PORTS = range(20_000, 30_000)
"""Below those that Linux gives to whoever asks for any: 32,768 to 60,999."""
_PATIENT = ("--timeout", f"{PATIENCE:g}")
EXPORTED = {"flink": "sheet", "storm": "placement"}  # What a system's export is called.


class LabError(RuntimeError):
    """A cluster does not do what it should; its logs say why."""


def tell(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


class Steps:
    """Prints lines with the seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, text: str) -> None:
        tell(f"[{time.monotonic() - self._began:5.1f} s] {text}")


def wait_until(
    done: Callable[[], bool], what: str, limit: float = LONG, pause: float = 0.5
) -> float:
    """Wait until something is so, and return the seconds that it took.

    Raises `LabError`: it is not so in time.
    """
    began = time.monotonic()
    while not done():
        if time.monotonic() - began > limit:
            raise LabError(f"not in {limit:g} s: {what}")
        time.sleep(pause)
    return time.monotonic() - began


def send(url: str, body: str | None, method: str) -> bytes:
    """Send a JSON document, or nothing, and return the answer."""
    head = {} if body is None else {"Content-Type": "application/json"}
    data = None if body is None else body.encode()
    request = urllib.request.Request(url, data, head, method=method)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        content: bytes = answer.read()
    return content


def configured(name: str) -> dict[str, Any]:
    """Return what ``settings.toml`` has for a kind of daemon."""
    text = Path(__file__).with_name("settings.toml").read_text(encoding="utf-8")
    settings: dict[str, Any] = tomllib.loads(text)[name]
    return settings


def free_ports(host: str, number: int) -> list[int]:
    """Return free ports that nobody is given who asks for any port.

    Daemons take their ports seconds later: one of the ephemeral range may have become another
    process's by then.
    """
    ports: list[int] = []
    # in random order, so that laboratories beside each other rarely try the same
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == number:
            return ports
    raise LabError(f"no {number} ports from {_PORTS.start} to {_PORTS.stop - 1} are free on {host}")


class Cluster:
    """Processes whose files are in a folder, as a context manager that ends them in any case.

    `folder`: for configuration, logs and the record of processes; a process is one of ours while
    its command line names this folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._record = self.folder / "pids.json"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._groups: dict[str, list[int]] = {}

    def __enter__(self) -> Self:
        """End what a run that was killed has left here, and start what is always there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.clear()
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._running):
            self._end(name)

    def begin(self) -> None:
        """Start what is there from beginning to end."""

    def launch(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], out: Path
    ) -> None:
        """Start a process; what it prints is added to a file."""
        with out.open("ab") as to:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=to, stderr=to, start_new_session=True,
                env=dict(environment),
            )  # fmt: skip
        # recorded at once: a run that is killed now leaves nothing that cannot be ended
        self._running[name] = process
        self._groups.setdefault(name, []).append(process.pid)
        self._save()

    def kill(self, name: str) -> None:
        """End a process, and what it started, with -9, as a machine that fails does."""
        self._end(name)

    def pause(self) -> None:
        """Stop all processes where they are, so that they use no processor (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on; heartbeats must be allowed to take as long as the pause."""
        self._signal(signal.SIGCONT)

    def runs(self, name: str) -> bool:
        """Whether a process was started and has not ended."""
        return name in self._running and self._running[name].poll() is None

    def ended(self) -> dict[str, int]:
        """Return the exit codes of those that ended by themselves."""
        codes = {name: process.poll() for name, process in list(self._running.items())}
        return {name: code for name, code in codes.items() if code is not None}

    def members(self, name: str) -> list[int]:
        """Return the ids of a process and of those that it started and that run."""
        groups = self._groups.get(name, ())
        return [pid for pid, group in _groups_now().items() if group in groups]

    def memory(self) -> float:
        """Return the gigabytes that all processes hold, what they share counted once."""
        total = 0
        for pid in (pid for name in self._running for pid in self.members(name)):
            with suppress(OSError):  # it may have ended just now
                total += proportional_bytes(pid)
        return total / 1e9

    def clear(self) -> None:
        """End what a run that was killed has left, where it still is one of ours."""
        if not self._record.exists():
            return
        recorded = json.loads(self._record.read_text())
        groups = {int(group) for some in recorded.values() for group in some}
        for pid, group in _groups_now().items():
            with suppress(OSError):
                # ids are given anew: a recorded one may be another's process by now
                ours = str(self.folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
                if ours and group in groups:
                    os.kill(pid, signal.SIGKILL)
        self._record.unlink()

    def _end(self, name: str) -> None:
        process = self._running.pop(name)
        self._signal(signal.SIGKILL, name)
        del self._groups[name]
        process.wait()
        self._save()

    def _signal(self, number: signal.Signals, name: str | None = None) -> None:
        """Send a signal to one of them, or to all, and to what they started."""
        chosen = list(self._groups.values()) if name is None else [self._groups[name]]
        for group in (group for groups in chosen for group in groups):
            with suppress(ProcessLookupError):
                os.killpg(group, number)

    def _save(self) -> None:
        self._record.write_text(json.dumps(self._groups))


def _groups_now() -> dict[int, int]:
    """Return the process group of every process."""
    groups = {}
    # a process may end while its files are read
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            # /proc/PID/stat: the name, in brackets, may hold anything; then state, parent, group
            pid = int(folder.name)
            groups[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[2])
    return groups


def command(*arguments: str, accepted: Sequence[int] = (0,)) -> str:
    """Run a command of streamplace in this process, and return what it printed.

    Raises `LabError`: it ended with another code than is accepted.
    """
    tell(f"$ streamplace {' '.join(arguments)}")
    out = StringIO()
    with redirect_stdout(out):
        code = streamplace(arguments)
    sys.stdout.write(out.getvalue())
    # shown before it fails: the message is in it
    if code not in accepted:
        raise LabError(f"streamplace {arguments[0]} ended with {code}: see what it says above")
    return out.getvalue()


class Walk:
    """The files of a run on a system, and the commands of streamplace on them.

    `system`, `url`: the system, ``flink`` or ``storm``, and its address. `folder`: where
    `instance`, `plan` and what is exported (`EXPORTED`) are.
    """

    def __init__(self, system: str, url: str, folder: Path) -> None:
        self._system, self._url = system, url
        parts = ("instance", "plan", EXPORTED[system])
        self.file = {part: str(folder / f"{part}.json") for part in parts}

    @property
    def exported(self) -> str:
        """The path of what is exported."""
        return self.file[EXPORTED[self._system]]

    def read(self, *more: str, **options: object) -> None:
        """Import, with options of the importer."""
        chosen = [w for name, value in options.items() for w in ("--option", f"{name}={value}")]
        files = ("-o", self.file["instance"])
        command("import", self._system, self._url, *chosen, *more, "-q", *_PATIENT, *files)

    def plan(self, budget: int | None = None, limit: float = 20.0) -> None:
        """Solve and export; with a budget of moves."""
        path = Path(self.file["instance"])
        if budget is not None:
            document = json.loads(path.read_text())
            document.setdefault("limits", {})["max_migrations"] = budget
            path.write_text(json.dumps(document))
        words = ("solve", str(path), "-o", self.file["plan"], "--time-limit", f"{limit:g}", "-q")
        command(*words, accepted=(0, ExitCode.NO_PLAN))  # it may carry less than the input
        self.export()

    def export(self) -> None:
        """Write what carries the plan out."""
        files = (self.file["instance"], self.file["plan"], "-o", self.exported)
        command("export", self._system, *files, "-q")

    def submit(self, *more: str) -> None:
        """Carry the plan out."""
        words = ("submit", self._system, self._url, self.exported, *_PATIENT)
        command(*words, "--wait", f"{LONG:g}", *more)

    def verdict(self, *more: str) -> dict[str, Any]:
        """Return what ``streamplace verify`` says, also where it says no."""
        words = ("verify", self._system, self._url, self.exported, "--json", *_PATIENT, *more)
        verdict: dict[str, Any] = json.loads(command(*words, accepted=(0, 1)))
        return verdict


Argument = tuple[str, dict[str, Any]]  # Flag, and what `argparse` is to know of it.


def run_lab(
    name: str,
    description: str | None,
    work: Callable[[Path, argparse.Namespace], tuple[str, bool]],
    *arguments: Argument,
    reason_against: Callable[[], str | None] = lambda: None,
) -> int:
    """Run a laboratory from the command line, and return its exit code.

    `name`: the target of ``make``, and of the folder below ``build``. `work`: gets folder and
    arguments; returns what the last line says, and whether all is well. `arguments`: further ones.
    `reason_against`: returns why it cannot be run here: it is then skipped, which is no failure.
    """
    parser = argparse.ArgumentParser(prog=f"make {name}", description=description)
    parser.add_argument("--folder", default=f"build/{name}", help="for logs and files")
    for flag, settings in arguments:
        parser.add_argument(flag, **settings)
    args = parser.parse_args()
    # as an exception, so that contexts end what they started
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{name}: ended by SIGTERM"))
    reason = reason_against()
    if reason is not None:
        tell(f"{name}: skipped: {reason}")
        return 0
    folder = Path(args.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        summary, well = work(folder, args)
    except (LabError, InvalidInput) as error:
        tell(f"{name}: failed: {error}")
        return 1
    tell(f"{name}: {summary}")
    return int(not well)


_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>lab</groupId><artifactId>lab</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
{}</dependencies></project>
"""
_NEEDED = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId>
<version>{}</version></dependency>
"""


def maven_jars(folder: Path, *artifacts: str) -> Path:
    """Fetch what is named ``group:artifact:version``; return the folder of the jars.

    Raises `LabError`: Java, Maven or Maven Central is not there.
    """
    lib = folder / "lib"
    if (lib / "complete").exists():
        return lib
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise LabError(f"{tool} is not there: {artifacts[0]} needs Java 17, and Maven once")
    folder.mkdir(parents=True, exist_ok=True)
    needed = "".join(_NEEDED.format(*name.split(":")) for name in artifacts)
    (folder / "pom.xml").write_text(_POM.format(needed))
    words = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    try:
        done = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"Maven Central does not give {artifacts[0]} in 300 s") from None
    if done.returncode:
        raise LabError(f"Maven Central does not give {artifacts[0]}: {done.stdout[-300:]}")
    # an interrupted download has jars, but not all
    (lib / "complete").touch()
    return lib
