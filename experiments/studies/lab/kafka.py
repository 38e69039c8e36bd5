"""A Kafka of today on this machine, and plans carried out on it: ``make lab-kafka``.

One controller and four brokers, each a process with a small heap on a free port of the loopback.
Random reassignments are submitted, some while a broker is killed and started again, or with the
command itself killed; each replica and each leader is counted by what Kafka reports, not by what
the product says. Then a dead broker is evacuated by import, solve, export and submit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from experiments.studies.lab.runner import (
    HOST,
    LONG,
    Cluster,
    LabError,
    configured,
    free_ports,
    maven_jars,
    run_lab,
    tell,
    wait_until,
)

VERSION = "4.3.1"
CONTROLLER, BROKERS = 100, (1, 2, 3, 4)
NODES = (CONTROLLER, *BROKERS)
RACKS = {1: "r1", 2: "r2", 3: "r3", 4: "r1"}
CLUSTER = "c3RyZWFtcGxhY2UtbGFiMQ"
_LEAN = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xss512k")
Lists = dict[tuple[str, int], list[int]]


def kafka_jars() -> Path:
    """Return the folder of Kafka's jars; they come once from Maven Central.

    Raises `LabError`: Java, Maven or Maven Central is not there.
    """
    folder = Path.home() / ".cache" / "streamplace-lab" / f"kafka-{VERSION}"
    artifacts = f"org.apache.kafka:kafka_2.13:{VERSION}", "org.slf4j:slf4j-simple:1.7.36"
    return maven_jars(folder, *artifacts)


class KafkaCluster(Cluster):
    """A controller and brokers.

    `folder`: for data, settings and logs; made anew. `auto_rebalance`: Kafka's own
    ``auto.leader.rebalance.enable``.
    """

    def __init__(self, folder: Path, *, auto_rebalance: bool = False) -> None:
        super().__init__(folder)
        self._auto, self._jars = auto_rebalance, kafka_jars()
        self.ports = dict(zip(NODES, free_ports(HOST, len(NODES)), strict=True))

    def begin(self) -> None:
        """Format the storage, and start all nodes."""
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        words = [*self._java(64), "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c"]
        for node in NODES:
            out = self.folder / f"format-{node}.log"
            self.launch(f"format {node}", [*words, str(self._properties(node))], os.environ, out)
        # formatting ends by itself, and with 0
        wait_until(lambda: len(self.ended()) == len(NODES), "the storage is formatted")
        codes = self.ended()
        for name in codes:
            self.kill(name)
        if any(codes.values()):
            raise LabError(f"the storage could not be formatted: see {self.folder}")
        self.start(*NODES)

    @property
    def living(self) -> list[int]:
        """Brokers that run."""
        return [b for b in BROKERS if self.runs(str(b))]

    @property
    def address(self) -> str:
        """All brokers."""
        return ",".join(f"{HOST}:{self.ports[b]}" for b in BROKERS)

    def _java(self, heap: int) -> list[str]:
        logger = "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"
        return ["java", f"-Xmx{heap}m", *_LEAN, logger, "-cp", f"{self._jars}/*"]

    def _properties(self, node: int) -> Path:
        is_broker = node != CONTROLLER
        name = "PLAINTEXT" if is_broker else "CONTROLLER"
        settings = {
            "process.roles": "broker" if is_broker else "controller",
            "node.id": node,
            "controller.quorum.voters": f"{CONTROLLER}@{HOST}:{self.ports[CONTROLLER]}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{name}://{HOST}:{self.ports[node]}",
            "log.dirs": self.folder / f"data-{node}",
            "auto.leader.rebalance.enable": str(self._auto).lower(),
            **configured("kafka"),
            **({"broker.rack": RACKS[node]} if is_broker else {}),
        }
        file = self.folder / f"{node}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return file

    def start(self, *nodes: int) -> None:
        """Start nodes, and wait until the controller has let each in."""
        logs = {node: self.folder / f"{node}.log" for node in nodes}
        since = {node: log.stat().st_size if log.exists() else 0 for node, log in logs.items()}
        for node, log in logs.items():
            words = [*self._java(256), "kafka.Kafka", str(self.folder / f"{node}.properties")]
            self.launch(str(node), words, os.environ, log)
        for node, log in logs.items():

            def started(node: int = node, log: Path = log) -> bool:
                if not self.runs(str(node)):
                    raise LabError(f"{node} did not start:\n{log.read_text()[-2000:]}")
                return b"Kafka Server started" in log.read_bytes()[since[node] :]

            wait_until(started, f"{node} is started: see {log}", pause=0.1)

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Give a client of Kafka's own Admin interface, which knows nothing of the product."""
        from kafka.admin import KafkaAdminClient

        admin = KafkaAdminClient(
            bootstrap_servers=self.address.split(","), request_timeout_ms=20000
        )
        try:
            yield admin
        finally:
            admin.close()

    def copies(self) -> list[Any]:
        """Return the reassignments that are under way."""
        with self.client() as client:
            return list(client.list_partition_reassignments())

    def wait_for_copies(self) -> None:
        """Wait until a reassignment is under way, at most a minute: it may be over already."""
        with suppress(LabError), self.client() as client:
            wait_until(
                lambda: bool(client.list_partition_reassignments()), "copies", 60.0, pause=0.1
            )

    def fill(self, megabytes: float) -> None:
        """Make topics of 40 partitions, of which broker 1 leads nearly all, and fill them."""
        from kafka import KafkaProducer

        with self.client() as client:
            topics = {
                topic: {
                    "assignments": dict(enumerate(lists)),
                    "configs": {"min.insync.replicas": "2"},
                }
                for topic, lists in TOPICS.items()
            }
            client.create_topics(topics, wait_for_metadata=True)
        producer = KafkaProducer(bootstrap_servers=self.address.split(","), linger_ms=50)
        rng, record = random.Random(1), b"x" * 10_000
        places = [(topic, p) for topic, lists in TOPICS.items() for p in range(len(lists))]
        # a few partitions hold most: Pareto with a tail exponent of 0.9
        weights = [rng.paretovariate(0.9) for _ in places]
        for topic, p in rng.choices(places, weights, k=round(megabytes * 100)):
            producer.send(topic, record, partition=p)
        producer.flush(LONG)
        producer.close()

    def state(self) -> dict[tuple[str, int], dict[str, Any]]:
        """Return what Kafka reports of each partition of the laboratory."""
        with self.client() as client:
            return {
                (topic["name"], one["partition_index"]): one
                for topic in client.describe_topics(list(TOPICS))
                for one in topic["partitions"]
            }

    def wrong(self, lists: Lists) -> list[str]:
        """Return the partitions that are not as wanted, in list, order, sync and leader."""
        now, differing = self.state(), []
        for key, planned in lists.items():
            one = now[key]
            # the first of a list is the preferred leader
            actual = one["replica_nodes"], one["leader_id"], sorted(one["isr_nodes"])
            if actual != (planned, planned[0], sorted(planned)):
                differing.append(f"{key}: list, leader, in sync {actual}, wanted {planned}")
        return differing

    def throttles(self) -> dict[str, Any]:
        """Return the throttles that are set of topics and living brokers."""
        from kafka.admin import ConfigResource, ConfigResourceType

        kinds = ConfigResourceType
        resources = [ConfigResource(kinds.TOPIC, topic) for topic in TOPICS]
        resources += [ConfigResource(kinds.BROKER, str(broker)) for broker in self.living]
        with self.client() as client:
            described = client.describe_configs(resources, config_filter="all")
        return {
            f"{kind} {name} {key}": entry["value"]
            for kind, resources_of_kind in described.items()
            for name, entries in resources_of_kind.items()
            for key, entry in entries.items()
            if "replication.throttled" in key and entry["value"]
        }


TOPICS = {
    "orders": [[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]] * 3,
    "clicks": [[1, 2, 3], [1, 3, 2], [3, 1, 2], [1, 2, 3]] * 4,
    "audit": [[1, 2, 4], [1, 3, 2], [2, 3, 1]] * 4,
}


class LeastInSync:
    """Watches how few replicas of any partition are in sync while it is entered."""

    def __init__(self, lab: KafkaCluster) -> None:
        self._lab, self.fewest, self._ended = lab, 99, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        from kafka.errors import KafkaError

        with self._lab.client() as client:
            while not self._ended.wait(0.2):
                try:
                    topics = client.describe_topics(list(TOPICS))
                except (KafkaError, OSError):
                    continue  # the broker that was asked has just been killed
                counts = [len(p["isr_nodes"]) for topic in topics for p in topic["partitions"]]
                self.fewest = min(self.fewest, *counts)

    def __enter__(self) -> LeastInSync:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(30)


STREAMPLACE = (sys.executable, "-m", "streamplace")


def command(*words: str) -> tuple[int, str]:
    """Run a command of streamplace in a process of its own; return status and output."""
    done = subprocess.run(
        [*STREAMPLACE, *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def random_lists(rng: random.Random, count: int) -> Lists:
    """Draw lists for some partitions."""
    keys = [(topic, p) for topic, lists in TOPICS.items() for p in range(len(lists))]
    return {key: rng.sample(BROKERS, 3) for key in rng.sample(keys, count)}


def write(path: Path, lists: Lists) -> Path:
    """Write a reassignment as Kafka's own tool takes it."""
    entries = [{"topic": t, "partition": p, "replicas": to} for (t, p), to in lists.items()]
    path.with_suffix(".rollback.json").unlink(missing_ok=True)
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return path


class Round:
    """What was counted; `failures` in words."""

    def __init__(self, lab: KafkaCluster) -> None:
        self.lab, self.failures = lab, list[str]()
        self.plans = self.replicas = self.leaders = 0
        self.fewest = 99

    def plan(
        self,
        name: str,
        lists: Lists,
        disturb: Callable[[], None] | None = None,
        throttle: int = 2_000_000,
    ) -> None:
        """Submit a plan, disturb it if so asked, and count replicas, leaders and throttles."""
        file, began = write(self.lab.folder / "plan.json", lists), time.monotonic()
        words = ("submit", "kafka", self.lab.address, str(file), "--throttle", str(throttle))
        with LeastInSync(self.lab) as watched:
            thread = threading.Thread(target=disturb) if disturb else None
            if thread:
                thread.start()
            status, out = command(*words, "--patience", "300")
            if thread:
                thread.join()
        self.fewest = min(self.fewest, watched.fewest)
        wrong, throttles = self.lab.wrong(lists), self.lab.throttles()
        self.plans += not (status or wrong or throttles)
        self.replicas += 3 * (len(lists) - len(wrong))
        self.leaders += len(lists) - len(wrong)
        self.failures += [f"{name}: {text}" for text in wrong]
        # min.insync.replicas is 2: below, producers are refused
        if status or throttles or watched.fewest < 2:
            outcome = f"status {status}, throttles {throttles}, fewest in sync {watched.fewest}"
            self.failures.append(f"{name}: {outcome}\n{out}")
        seconds = time.monotonic() - began
        tell(
            f"{name}: {len(lists) - len(wrong)} of {len(lists)} as planned, status {status}, "
            f"{len(throttles)} throttles left, fewest in sync {watched.fewest}, {seconds:.0f} s"
        )

    def killed_itself(self, name: str, lists: Lists) -> None:
        """Kill the command with -9 while copies are under way, and run it again."""
        file = write(self.lab.folder / "plan.json", lists)
        words = ("submit", "kafka", self.lab.address, str(file))
        run = [*STREAMPLACE, *words, "--throttle", "500000"]
        begun = subprocess.Popen(run, stderr=subprocess.DEVNULL)
        self.lab.wait_for_copies()
        # -9: the command has no time to clean up
        begun.send_signal(signal.SIGKILL)
        begun.wait()
        moving = len(self.lab.copies())
        tell(f"{name}: killed with {moving} under way and {len(self.lab.throttles())} throttles")
        rollback = file.with_suffix(".rollback.json").read_text()
        status, out = command(*words, "--throttle", "5000000")
        wrong, throttles = self.lab.wrong(lists), self.lab.throttles()
        tell(
            f"{name}, again: {len(lists) - len(wrong)} of {len(lists)} as planned, status {status}"
        )
        if (
            status
            or wrong
            or throttles
            or file.with_suffix(".rollback.json").read_text() != rollback
        ):
            self.failures.append(f"{name}: {status} {wrong} {throttles}\n{out}")

    def dead_target(self, name: str, lists: Lists) -> None:
        """A broker dies for good while it copies: all is taken back, and evacuated anew."""
        before = {key: one["replica_nodes"] for key, one in self.lab.state().items()}
        file = write(self.lab.folder / "plan.json", lists)
        words = ("submit", "kafka", self.lab.address, str(file), "--throttle", "500000")
        killer = threading.Thread(target=self.disturbed(4, back=False))
        killer.start()
        status, out = command(*words, "--patience", "3")
        killer.join()
        now = {key: one["replica_nodes"] for key, one in self.lab.state().items()}
        moving = self.lab.copies()
        # each list as it was, or as planned: nothing between
        half = [k for k, to in lists.items() if now[k] not in (to, before[k])]
        throttles = self.lab.throttles()
        tell(f"{name}: status {status}, {len(moving)} under way, {len(half)} neither old nor new")
        if status != 1 or moving or half or throttles:
            self.failures.append(f"{name}: {status} {moving} {half} {throttles}\n{out}")
        self.evacuate(name)
        self.lab.start(4)

    def evacuate(self, name: str) -> None:
        """Import, solve, export, submit and verify with a dead broker."""
        k, p, r = (str(self.lab.folder / f"{each}.json") for each in ("k", "p", "r"))
        for each in Path(r).parent.glob("r.*"):
            each.unlink()
        for words in (
            ("import", "kafka", self.lab.address, "--option", "mode=dead-broker", "-o", k),
            ("solve", k, "-o", p, "-q"),
            ("export", "kafka", k, p, "-o", r),
            ("submit", "kafka", self.lab.address, r, "--throttle", "5000000"),
            ("verify", "kafka", self.lab.address, p),
        ):
            status, out = command(*words)
            if status:
                self.failures.append(f"{name}, {' '.join(words[:2])}: {status}\n{out}")
                return
        remaining = [key for key, one in self.lab.state().items() if 4 in one["replica_nodes"]]
        tell(f"{name}, evacuated: {len(remaining)} partitions on the dead broker; {out.strip()}")
        if remaining:
            self.failures.append(f"{name}: {remaining} are still on the dead broker")

    def disturbed(self, broker: int, *, back: bool = True) -> Callable[[], None]:
        """Return what kills a broker once copies are under way, and starts it again."""

        def disturb() -> None:
            self.lab.wait_for_copies()
            self.lab.kill(str(broker))
            if back:
                time.sleep(7)
                self.lab.start(broker)

        return disturb


def work(_: Path, args: argparse.Namespace) -> tuple[str, bool]:
    """Run the rounds, and return what was counted."""
    rng, began, rounds = random.Random(args.seed), time.monotonic(), list[Round]()
    for part, auto in enumerate((False, True)):
        tell(f"auto.leader.rebalance.enable={str(auto).lower()}")
        folder = Path(tempfile.gettempdir()) / f"streamplace-lab-kafka-{os.getpid()}"
        with KafkaCluster(folder, auto_rebalance=auto) as lab:
            lab.fill(args.megabytes)
            rounds.append(round_ := Round(lab))
            for i in range(part, args.plans, 2):
                kill = round_.disturbed(rng.choice(BROKERS)) if i < args.kills else None
                what = "plan" if kill is None else "plan with a kill"
                round_.plan(f"{what} {i + 1}", lists := random_lists(rng, 12), kill)
                if auto and i + 2 >= args.plans:  # what Kafka elects by itself changes nothing
                    time.sleep(12)
                    late = lab.wrong(lists)
                    tell(f"after Kafka's own elections: {12 - len(late)} of 12 as planned")
                    round_.failures += late
            if not auto:
                round_.killed_itself("command killed", random_lists(rng, 12))
                onto = {key: [4, *rng.sample((1, 2, 3), 2)] for key in random_lists(rng, 12)}
                round_.dead_target("target dead for good", onto)
        shutil.rmtree(folder, ignore_errors=True)
    for text in (failures := [text for one in rounds for text in one.failures]):
        tell(f"FAILED {text}")
    plans, replicas, leaders = (
        sum(getattr(one, name) for one in rounds) for name in ("plans", "replicas", "leaders")
    )
    summary = (
        f"{plans} of {args.plans} plans, {replicas} of {36 * args.plans} replicas, {leaders} of "
        f"{12 * args.plans} leaders as planned; fewest in sync {min(one.fewest for one in rounds)} "
        f"of a least of 2; {time.monotonic() - began:.0f} s"
    )
    return summary, not failures


if __name__ == "__main__":
    whole = {"type": int, "default": 20}
    kills = {"type": int, "default": 5, "help": "plans with a broker killed"}
    megabytes, seed = {"type": float, "default": 20.0}, {"type": int, "default": 1}
    asked = ("--plans", whole), ("--kills", kills), ("--megabytes", megabytes), ("--seed", seed)
    sys.exit(run_lab("lab-kafka", __doc__, work, *asked))
