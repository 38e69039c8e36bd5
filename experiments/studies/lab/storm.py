"""The whole loop on a Storm of its own: ``make lab-storm``.

A topology is started as Storm places it, imported, planned, submitted and verified; a supervisor
is killed with its workers, what Storm does is reported, and a plan within a budget is carried out
on what is left; then the supervisor comes back.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    tell,
    wait_until,
)
from experiments.studies.lab.storm_plugin import JAR, STORM, build, fetch
from optim.errors import InvalidInput
from streamplace.clusters.storm.nimbus import ALL_TIME, SCHEDULER, Nimbus, name_of
from streamplace.clusters.storm.submit import load_placement, submit
from streamplace.clusters.storm.verify import StormVerdict

SUPERVISORS = ("sv1", "sv2", "sv3", "sv4")
SLOTS = 4  # Of each supervisor.
SOURCE = Path(__file__).with_name("StormLab.java")
_ZOOKEEPER = "org.apache.storm.shade.org.apache.zookeeper.server.ZooKeeperServerMain"
_NIMBUS = "org.apache.storm.daemon.nimbus.Nimbus"
_SUPERVISOR = "org.apache.storm.daemon.supervisor.Supervisor"
_SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss256k")
_DAEMON, _WORKER, _LOG_WRITER = "-Xmx160m", "-Xmx96m", "-Xmx24m"
_LOGGING = """<Configuration><Appenders>{}
<PatternLayout pattern="%d %c{{1}} %p %maxLen{{%m}}{{400}}%n"/></{}></Appenders><Loggers>
<Root level="info"><AppenderRef ref="A"/></Root></Loggers></Configuration>
"""
_WORKER_LOG = "${sys:workers.artifacts}/worker-${sys:worker.port}.log"
REPORTS = "reports"  # Folder in which workers write their metrics, made anew with the cluster.


def address(name: str) -> str:
    """Return the host of a supervisor on loopback."""
    return f"127.0.0.{11 + SUPERVISORS.index(name)}"


class StormCluster(Cluster):
    """ZooKeeper, Nimbus, and supervisors as they are started.

    Storm's daemons end themselves at any surprise and count on being started again, so they are
    here, too: a supervisor halts, for one, when a topology's configuration is renewed while it
    starts a worker of it (``NoSuchFileException: stormconf.ser``).

    `folder`: for configuration, logs and the record of processes. `host`: where ZooKeeper and
    Nimbus listen. `settings`: keys of Storm's configuration for all daemons. `version`: of Storm.
    """

    def __init__(
        self,
        folder: Path,
        host: str = HOST,
        settings: Mapping[str, Any] | None = None,
        version: str = STORM,
    ) -> None:
        super().__init__(folder)
        self._host, self._version = host, version
        number = len(SUPERVISORS)
        # all at once: ports are free now, and no two daemons get the same
        self._zookeeper, self._nimbus, *ports = free_ports(host, 2 + number + number * SLOTS)
        self._thrift, self._slots = ports[:number], ports[number:]
        self.url = f"nimbus://{host}:{self._nimbus}"
        self._settings = {
            **configured("storm"),
            "storm.scheduler": SCHEDULER,
            "worker.childopts": " ".join((_WORKER, *_SMALL)),
            "topology.worker.logwriter.childopts": " ".join((_LOG_WRITER, *_SMALL)),
            "storm.zookeeper.servers": [host],
            "storm.zookeeper.port": self._zookeeper,
            "nimbus.seeds": [host],
            "nimbus.thrift.port": self._nimbus,
            "storm.log4j2.conf.dir": str(self.folder / "log4j2"),
            **(settings or {}),
        }
        self._commands: dict[str, tuple[list[str], dict[str, str]]] = {}
        self._expected: set[str] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self.restarts: list[str] = []
        """Daemons that ended by themselves and were started again."""

    def begin(self) -> None:
        """Start ZooKeeper and Nimbus."""
        self._make_home()
        # anew in every run: ZooKeeper would remember topologies of the last one
        data = self.folder / f"zookeeper-{os.getpid()}-{time.time():.0f}"
        data.mkdir()
        self._start("zookeeper", _ZOOKEEPER, str(self._zookeeper), str(data))
        _wait_for_port(self._host, self._zookeeper)
        settings = {"storm.local.hostname": self._host, "storm.local.dir": str(data / "nimbus")}
        self._start("nimbus", _NIMBUS, settings=settings)
        _wait_for_port(self._host, self._nimbus)
        self._data = data
        self._keeper.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with self._lock:
            self._expected.clear()
            super().__exit__()

    def start_all(self) -> None:
        """Start the supervisors one after the other: all at once they take minutes on two cores."""
        for number, name in enumerate(SUPERVISORS, start=1):
            self.start(name)
            self.wait_for(number)

    def start(self, name: str, host: str = "", inside: Sequence[str] = ()) -> None:
        """Start a supervisor, or again one that was killed: it keeps its id.

        `host`: its own address, on loopback if not given. `inside`: what stands before its command,
        to run it and its workers on that host.
        """
        number = SUPERVISORS.index(name)
        settings = {
            "storm.local.hostname": host or address(name),
            "storm.local.dir": str(self._data / name),
            "supervisor.slots.ports": sorted(self._slots[number * SLOTS : (number + 1) * SLOTS]),
            "supervisor.thrift.port": self._thrift[number],
        }
        self._start(name, _SUPERVISOR, settings=settings, inside=inside)

    def kill(self, name: str) -> None:
        """End a daemon and its workers with -9, as a machine that fails does."""
        with self._lock:
            # under the lock, or the keeper starts it again
            self._expected.discard(name)
            super().kill(name)

    def wait_for(self, number: int) -> None:
        """Wait until so many supervisors are registered.

        Raises `LabError`: they are not in time.
        """

        def there() -> bool:
            try:
                with Nimbus(self.url, PATIENCE) as nimbus:
                    return len(nimbus.cluster().supervisors or ()) == number
            except InvalidInput:
                return False  # Nimbus is not there yet

        wait_until(there, f"{number} supervisors: see {self.folder}", pause=0.3)

    def submit(self, spec: Mapping[str, Any]) -> None:
        """Submit the topology of a specification (`StormLab.java`)."""
        path = self.folder / f"{spec['name']}.spec.json"
        path.write_text(json.dumps(spec))
        command, environment = self._java("client", "lab.StormLab", "submit", str(path))
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LONG, check=False
        )
        if done.returncode:
            raise LabError(f"{spec['name']} is not submitted: {done.stderr[-600:]}")

    def run(self, name: str, executors: int, components: Sequence[Any], **conf: Any) -> None:
        """Submit a topology, and wait until all its executors run; `conf` is of `conf_of`."""
        self.submit({"name": name, "conf": conf_of(self.folder, **conf), "components": components})
        self.wait_for_executors(name, executors)

    def wait_for_executors(self, name: str, number: int) -> None:
        """Wait until so many executors of a topology run."""
        wait_until(lambda: all_run(self.url, name, number), f"all executors of {name} run")

    def end(self, name: str) -> None:
        """Kill a topology, and wait until it is gone."""

        def gone() -> bool:
            with Nimbus(self.url, PATIENCE) as nimbus:
                return all(one.name != name for one in nimbus.cluster().topologies or ())

        with Nimbus(self.url, PATIENCE) as nimbus:
            nimbus.kill(name)
        wait_until(gone, f"{name} is gone")

    def forget_reports(self) -> None:
        """Remove what workers have reported so far; they go on in new files."""
        for file in (self.folder / REPORTS).glob("*.csv"):
            file.unlink()

    def log(self, name: str, word: str) -> list[str]:
        """Return the lines of a daemon's log that hold a word, shortened."""
        text = (self.folder / name / "log").read_text(errors="replace")
        return [line[:300] for line in text.splitlines() if word in line]

    @property
    def _home(self) -> Path:
        return self.folder / f"storm-{self._version}"

    def _make_home(self) -> None:
        self.forget_reports()
        lib = fetch(self._home, self._version)
        build(lib, self.folder / "lab.jar", SOURCE)
        workers = self.folder / "lib-worker"
        for folder in (workers, *(self.folder / name for name in ("extlib", "log4j2", REPORTS))):
            folder.mkdir(exist_ok=True)
        # an earlier run may have been of another version
        for jar in workers.glob("*.jar"):
            jar.unlink()
        for jar in lib.glob("*.jar"):
            # workers need neither of these
            if not jar.name.startswith(("storm-server", "rocksdb")):
                (workers / jar.name).symlink_to(jar)
        for name, kind, more in (
            ("cluster", "Console", ""),
            ("worker", "File", f' fileName="{_WORKER_LOG}"'),
        ):
            text = _LOGGING.format(f'<{kind} name="A"{more}>', kind)
            (self.folder / "log4j2" / f"{name}.xml").write_text(text)

    def _java(self, name: str, *words: str, settings: Mapping[str, Any] | None = None) -> Any:
        """Return the command of a Java program of the cluster, and its environment."""
        conf = self.folder / name
        conf.mkdir(exist_ok=True)
        lines = (
            f"{k}: {json.dumps(v)}\n" for k, v in {**self._settings, **(settings or {})}.items()
        )
        (conf / "storm.yaml").write_text("".join(lines))
        path = (f"{self._home}/lib/*", self.folder / "lab.jar", JAR, conf)
        flags = (
            f"-Dstorm.home={self.folder}",
            f"-Dstorm.log.dir={self.folder / 'logs'}",
            f"-Dstorm.jar={self.folder / 'lab.jar'}",
            f"-Dlog4j.configurationFile={self.folder / 'log4j2' / 'cluster.xml'}",
            # classes of an old log4j, which ZooKeeper 3.4 (Storm 2.1) looks for else
            "-Dzookeeper.jmx.log4j.disable=true",
        )
        command = ["java", _DAEMON, *_SMALL, *flags, "-cp", ":".join(map(str, path)), *words]
        return command, {**os.environ, "STORM_CONF_DIR": str(conf)}

    def _start(
        self,
        name: str,
        *words: str,
        settings: Mapping[str, Any] | None = None,
        inside: Sequence[str] = (),
    ) -> None:
        command, environment = self._java(name, *words, settings=settings)
        self._commands[name] = [*inside, *command], environment
        with self._lock:
            self._expected.add(name)
            self._launch(name)

    def _launch(self, name: str) -> None:
        self.launch(name, *self._commands[name], self.folder / name / "log")

    def _keep(self) -> None:
        """Start daemons again that ended by themselves."""
        while not self._over.wait(1.0):
            with self._lock:
                for name in self.ended().keys() & self._expected:
                    self.restarts.append(name)
                    self._launch(name)


def _wait_for_port(host: str, port: int) -> None:
    def answers() -> bool:
        try:
            socket.create_connection((host, port), 1).close()
        except OSError:
            return False
        return True

    wait_until(answers, f"an answer at {host}:{port}", pause=0.2)


_RATE = 120  # Tuples/s of an executor of the spout.
_STEADY, _RECOVERED = 0.9, 60.0
"""Share of that rate that is to be acked before anything is read or measured, and most seconds to
wait for it: a spout that waits for tuples lost in a restart sends next to nothing until they time
out."""
_COUNTED = 15  # Seconds between the readings of an import: in 5 s a plan takes advantage of chance.
_REPORTED = 120.0  # Most seconds until all workers have reported twice: one took 40 for a report.
_LOOK, _MORE = 5.0, 5.0
"""Seconds from one look at their reports to the next, and of reports after the first two."""
SOON_LOST = {"topology.message.timeout.secs": 10}
"""Tuples lost in a restart hold the spouts back until they time out: after 30 s by default."""
BUDGET = 6  # Moves of the plan after the failure.


def conf_of(folder: Path, period: int = 5, **more: Any) -> dict[str, Any]:
    """Return the configuration of a topology whose workers report what they send."""
    reporter = {
        "class": "org.apache.storm.metrics2.reporters.CsvStormReporter",
        "report.period": period,
        "report.period.units": "SECONDS",
        "csv.log.dir": str(folder.resolve() / REPORTS),
    }
    return {
        "topology.workers": 4, "topology.acker.executors": 2, "topology.stats.sample.rate": 1.0,
        "topology.disable.loadaware.messaging": True, "topology.max.spout.pending": 500,
        "topology.metrics.reporters": [reporter], **more,
    }  # fmt: skip


WORDS = [
    {"id": "lines", "executors": 2, "rate": _RATE},
    {"id": "split", "executors": 4, "from": "lines", "out": 3},
    {"id": "count", "executors": 6, "from": "split", "grouping": "fields", "out": 0},
]
EXECUTORS = 14  # Of the topology, two ackers included.


def all_run(url: str, name: str, number: int) -> bool:
    """Whether so many executors of a topology run and have reported from living supervisors."""
    with Nimbus(url, PATIENCE) as nimbus:
        hosts = {one.host for one in nimbus.cluster().supervisors or ()}
        try:
            executors = nimbus.executors(nimbus.topology(name).id)
        except InvalidInput:  # being rebalanced
            return False
    # Nimbus lists executors of a dead supervisor until it has put them elsewhere
    up = [one for one in executors if one.uptime_secs > 0 and one.host in hosts]
    return len(up) == number and all(one.stats is not None for one in up)


def spouts(url: str, name: str) -> dict[str, tuple[float, float]]:
    """Return the seconds that each executor of a spout has counted, and the tuples acked then."""
    with Nimbus(url, PATIENCE) as nimbus:
        executors = nimbus.executors(nimbus.topology(name).id)
    counts = {}
    for one in executors:
        spout = one.stats.specific.spout if one.stats and one.stats.specific else None
        if spout is not None:
            acked = sum((spout.acked or {}).get(ALL_TIME, {}).values())
            counts[name_of(one)] = float(one.uptime_secs), float(acked)
    return counts


def wait_until_steady(url: str, name: str, rate: float) -> None:
    """Wait until what each executor of a spout sends is acked, or that takes too long."""
    counts = spouts(url, name)

    def steady() -> bool:
        nonlocal counts
        before, counts = counts, spouts(url, name)
        grown = [
            (age - before[one][0], acked - before[one][1])
            for one, (age, acked) in counts.items()
            if one in before
        ]
        return len(grown) == len(counts) and all(
            seconds > 0 and acked >= _STEADY * rate * seconds for seconds, acked in grown
        )

    with suppress(LabError):
        wait_until(steady, f"{rate:g} tuples/s of each spout", _RECOVERED, _LOOK)


def placed(url: str, walk: Walk) -> StormVerdict:
    """Submit a placement, and return whether each executor comes to run as planned."""
    with Nimbus(url, PATIENCE) as nimbus:
        return submit(nimbus, load_placement(walk.exported), LONG)


def verdicts(folder: Path) -> list[dict[str, Any]]:
    """Go through the loop, and return the verdicts."""
    step, results = Steps(), list[dict[str, Any]]()
    with StormCluster(folder) as cluster:
        cluster.start_all()
        step("ZooKeeper, Nimbus and supervisors are up")
        conf = {"topology.disable.loadaware.messaging": False, **SOON_LOST}
        cluster.run("words", EXECUTORS, WORDS, **conf)
        step("the topology runs as Storm places it")
        walk = Walk("storm", cluster.url, folder)

        def planned(what: str, budget: int | None = None) -> None:
            wait_until_steady(cluster.url, "words", _RATE)
            walk.read(cpu="requested", interval=_COUNTED)
            walk.plan(budget, limit=5.0)
            walk.submit()
            results.append(_measured_verdict(walk, cluster))
            step(f"{what}{_summary(results[-1])}")

        planned("")
        placement = load_placement(walk.exported).topologies["words"]
        hosts = Counter[str]()
        for worker, executors in placement.workers.items():
            hosts[worker.rpartition(":")[0]] += len(executors)
        # whose failure moves most executors
        busiest = max(SUPERVISORS, key=lambda name: hosts[address(name)])
        cluster.kill(busiest)
        step(f"{busiest} ({address(busiest)}) was killed with -9, and its workers")
        cluster.wait_for(len(SUPERVISORS) - 1)
        cluster.wait_for_executors("words", EXECUTORS)
        after = walk.verdict()
        step(f"Storm has put all elsewhere: {_summary(after)}")
        for line in cluster.log("nimbus", "PlanScheduler")[-2:]:
            tell(f"nimbus: {line[24:]}")
        for one in after["differences"]:
            tell(f"  {one['component']} {one['executor']}: {one['planned']} -> {one['running']}")
        planned(f"planned again, at most {BUDGET} moves: ", BUDGET)
        cluster.start(busiest)
        cluster.wait_for(len(SUPERVISORS))
        results.append(walk.verdict())
        step(f"{busiest} is back, and nothing moves: {_summary(results[-1])}")
        planned(f"planned with it, at most {BUDGET} moves: ", BUDGET)
        if cluster.restarts:
            step(f"ended by themselves, and started again: {', '.join(cluster.restarts)}")
        step(f"{cluster.memory():.2f} GB in use")
    step("down")
    return results


def _measured_verdict(walk: Walk, cluster: StormCluster) -> dict[str, Any]:
    """Return the verdict once the share of messages that cross is measured, or is not in time."""
    wait_until_steady(cluster.url, "words", _RATE)
    cluster.forget_reports()  # of the time before
    until = time.monotonic() + _REPORTED
    while walk.verdict()["measured_share"] is None and time.monotonic() < until:
        time.sleep(_LOOK)
    time.sleep(_MORE)
    return walk.verdict()


def _summary(verdict: dict[str, Any]) -> str:
    text = f"{verdict['as_planned']} of {verdict['planned']} as planned"
    measured, predicted = verdict["measured_share"], verdict["predicted_share"]
    if predicted is None:
        return text
    if measured is None:
        return f"{text}, remote share {predicted:.3f} predicted, {verdict['share_unknown']}"
    return f"{text}, remote share {measured:.3f} measured, {predicted:.3f} predicted"


def work(folder: Path, _: argparse.Namespace) -> tuple[str, bool]:
    """Return how much was as planned."""
    results = verdicts(folder)
    return "; ".join(map(_summary, results)), all(one["holds"] for one in results)


if __name__ == "__main__":
    sys.exit(run_lab("lab-storm", __doc__, work))
