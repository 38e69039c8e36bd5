"""Kafka: each batch is a reassignment that is submitted, and asked after until it is complete.

Then its preferred leaders are elected, where the batch changes them.

A reassignment only ever adds replicas first and lets go of old ones when the new ones are in sync;
none is cancelled here and none names fewer brokers than the partition has, so that no partition
falls under its replication factor by what this does, whatever fails and wherever it is stopped.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamplace.clusters.kafka.exporter import ELECTION
from streamplace.execute.run import BatchFailed, run_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

TOOL = "kafka-reassign-partitions.sh"
ELECT = ("kafka-leader-election.sh", "--election-type", "preferred")
ELECT_BY_ZOOKEEPER = ("kafka-preferred-replica-election.sh",)

_ANSWERS = (
    ("complete", re.compile(r"Reassignment of partition (\S+) (?:is completed?|completed succ)")),
    ("running", re.compile(r"Reassignment of partition (\S+) is still in progress")),
    ("absent", re.compile(r"There is no active reassignment of partition (\S+), but")),
    ("failed", re.compile(r"Reassignment of partition (\S+) failed")),
)
"""What ``--verify`` says of a partition, in Kafka 0.9 to 4."""
_OLD = re.compile(r"^\[(.*),(\d+)\]$")
"""How Kafka before 1.0 writes a partition."""
_IDLE_ANSWERS = 3
"""Questions in a row with nothing under way, after which nothing more is expected."""


@dataclass(frozen=True)
class Kafka:
    """Runs Kafka's own tool.

    Attributes
    ----------
    connect
        Words that lead to the cluster: ``--bootstrap-server HOST:PORT``, or ``--zookeeper
        HOST:PORT`` before Kafka 2.5, and what else the tool is to be given each time.
    factors
        (topic, partition) to the number of replicas before the first batch.
    poll, patience
        Seconds between two questions; seconds after which a batch counts as failed, though Kafka
        goes on with it.
    throttle
        Bytes a second that replicas are copied with, or ``None``.
    say
        Receives how far a batch is.
    sleep
        Waits.
    """

    connect: tuple[str, ...]
    factors: Mapping[tuple[str, int], int]
    poll: float = 5.0
    patience: float = float("inf")
    throttle: int | None = None
    say: Callable[[str], None] = field(default=lambda text: None)
    sleep: Callable[[float], None] = time.sleep

    def run(self, number: int, file: Path, lock: int, *, again: bool) -> None:
        """As `streamplace.execute.run.Executor.run`."""
        if names := self._checked(file):
            self._reassign(number, file, names, lock, again=again)
        elections = file.with_suffix(ELECTION)
        if elections.exists():  # of leaders that lead already it says so, and elects none
            connect = ["--admin.config" if w == "--command-config" else w for w in self.connect]
            tool = ELECT_BY_ZOOKEEPER if "--zookeeper" in connect else ELECT
            self._tool(lock, *tool, *connect, "--path-to-json-file", str(elections))

    def _reassign(
        self, number: int, file: Path, names: set[str], lock: int, *, again: bool
    ) -> None:
        if again:  # a run that was killed may have submitted it or not: Kafka knows
            known = self._wait(number, file, names, lock)
            if known["complete"] == len(names):
                return
        throttle = () if self.throttle is None else ("--throttle", str(self.throttle))
        self._ask_tool(file, lock, "--execute", *throttle)
        known = self._wait(number, file, names, lock)
        if lost := len(names) - known["complete"]:
            raise BatchFailed(f"{lost} of {len(names)} partitions did not move")

    def _wait(self, number: int, file: Path, names: set[str], lock: int) -> Counter[str]:
        """Ask until no partition is on its way; at first Kafka may not know yet."""
        waited, still = 0.0, 0
        while True:
            state = self._ask(file, names, lock)
            still = 0 if state["running"] else still + 1
            if state["complete"] == len(names) or state["failed"] or still == _IDLE_ANSWERS:
                return state
            self.say(f"batch {number}: {state['complete']} of {len(names)} partitions complete")
            if waited >= self.patience:
                told = "Kafka goes on with it; run again to wait on"
                raise BatchFailed(f"not complete after {waited:g} s ({told})")
            self.sleep(self.poll)
            waited += self.poll

    def _checked(self, file: Path) -> set[str]:
        """Return the partitions of a batch; one that would lose a replica is not submitted."""
        names = set()
        for entry in json.loads(file.read_text())["partitions"]:
            topic, partition, replicas = entry["topic"], entry["partition"], entry["replicas"]
            name = f"{topic}-{partition}"
            factor = self.factors.get((topic, partition), 1)
            if len(set(replicas)) < max(1, factor):
                raise BatchFailed(f"{name} has {factor} replicas, not {replicas}")
            names.add(name)
        return names

    def _ask(self, file: Path, names: set[str], lock: int) -> Counter[str]:
        state: dict[str, str] = {}
        for line in self._ask_tool(file, lock, "--verify").splitlines():
            for word, pattern in _ANSWERS:
                if found := pattern.search(line):
                    state[_OLD.sub(r"\1-\2", found[1])] = word
        if silent := sorted(names - state.keys()):
            raise BatchFailed(f"{TOOL} --verify says nothing of {silent[0]}")
        return Counter(state[name] for name in names)

    def _ask_tool(self, file: Path, lock: int, *words: str) -> str:
        asked = (*self.connect, "--reassignment-json-file", str(file), *words)
        return self._tool(lock, TOOL, *asked)

    def _tool(self, lock: int, *asked: str) -> str:
        done = run_tool(asked, lock, capture=True)
        if done.returncode:
            last = (done.stdout.strip().splitlines() or ["no words"])[-1]
            raise BatchFailed(f"{asked[0]} ended with status {done.returncode}: {last}")
        return done.stdout
