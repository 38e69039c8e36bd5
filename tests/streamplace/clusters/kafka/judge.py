"""Random clusters through import, solve and export, judged by what Kafka's tool and racks demand.

Written from the facts of Kafka alone: nothing of the product is used to judge.

    python -m tests.streamplace.clusters.kafka.judge --clusters 10000
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optim import solve
from optim.errors import InvalidInput
from streamplace.clusters.exchange.sources import export_plan, import_instance

MODES = (
    "rebalance",
    "leaders",
    "add-broker",
    "remove-broker",
    "dead-broker",
    "demote",
    "rack-repair",
    "replication-factor",
    "trim",
)


@dataclass
class Cluster:
    """What is true of a cluster: racks of brokers (None: not reported), living ones, partitions."""

    racks: dict[int, str | None]
    alive: set[int]
    disk: float
    lists: dict[tuple[str, int], list[int]]
    leader: dict[tuple[str, int], int | None]
    size: dict[tuple[str, int], int]
    mode: str
    brokers: list[int]
    factor: int

    def save(self, folder: Path) -> None:
        """Write what the tools print."""
        folder.mkdir(parents=True, exist_ok=True)
        lines = []
        for topic in sorted({t for t, _ in self.lists}):
            mine = [key for key in self.lists if key[0] == topic]
            lines.append(
                f"Topic: {topic}\tPartitionCount: {len(mine)}\tReplicationFactor: 1\tConfigs: "
            )
            for key in mine:
                isr = [b for b in self.lists[key] if b in self.alive]
                words = [",".join(map(str, brokers)) for brokers in (self.lists[key], isr)]
                leader = "none" if self.leader[key] is None else self.leader[key]
                lines.append(
                    f"\tTopic: {topic}\tPartition: {key[1]}\tLeader: {leader}\tReplicas: {words[0]}"
                    f"\tIsr: {words[1]}"
                )
        (folder / "topics.txt").write_text("\n".join(lines))
        brokers: list[dict[str, Any]] = []
        for number, rack in self.racks.items():
            entry = {"id": number, "alive": number in self.alive, "capacity": {"disk": self.disk}}
            brokers.append(entry if rack is None else {**entry, "rack": rack})
        (folder / "brokers.json").write_text(json.dumps(brokers))
        dirs = [{"partition": f"{t}-{n}", "size": self.size[t, n]} for t, n in self.lists]
        logs = [{"broker": min(self.alive), "logDirs": [{"logDir": "/d", "partitions": dirs}]}]
        (folder / "log-dirs.json").write_text(json.dumps({"version": 1, "brokers": logs}))

    @property
    def options(self) -> list[tuple[str, str]]:
        """Options of the import."""
        told = [("mode", self.mode)]
        if self.mode in ("add-broker", "remove-broker", "demote"):
            told.append(("brokers", ",".join(map(str, self.brokers))))
        if self.mode in ("replication-factor", "trim"):
            told.append(("factor", str(self.factor)))
        return told

    def counted(self, brokers: Iterable[int]) -> Counter[str]:
        """Brokers by rack; one that is not reported is one of its own."""
        return Counter(self.racks[b] or f"own {b}" for b in brokers)

    def most_in_a_rack(self, count: int) -> int:
        """The most of so many replicas in a rack that living brokers make necessary."""
        removed = self.brokers if self.mode == "remove-broker" else []
        racks = self.counted(self.alive - set(removed)).values()
        return next(k for k in range(1, count + 1) if sum(min(k, n) for n in racks) >= count)


def make(seed: int) -> Cluster:
    """Return a cluster of 3 to 9 brokers, with and without racks, some dead, factors 1 to 4."""
    rng = random.Random(seed)
    count = rng.randint(3, 9)
    numbers = rng.sample(range(1, 30), count)
    told = rng.random() < 0.8
    racks = {b: f"r{i % rng.randint(1, 5)}" if told else None for i, b in enumerate(numbers)}
    alive = set(numbers) - set(rng.sample(numbers, rng.choice((0, 0, 1, 1, 2))))
    new = rng.choice(sorted(alive))
    mode = rng.choice(MODES)
    lists, leader, size = {}, {}, {}
    for topic in range(rng.randint(1, 3)):
        factor = rng.randint(1, min(4, count - 1))
        for number in range(rng.randint(1, 8)):
            key = f"t.{topic}", number
            spare = [b for b in numbers if b != new or mode != "add-broker"]
            lists[key] = rng.sample(spare, factor)
            living = [b for b in lists[key] if b in alive]
            leader[key] = None
            if living:
                leader[key] = living[0] if rng.random() < 0.8 else rng.choice(living)
            size[key] = rng.choice((0, 1, 7)) * 10**9 + rng.randint(1, 10**9)
    total = sum(size[key] * len(brokers) for key, brokers in lists.items())
    disk = 20e9 + 4 * total / len(alive)
    factor = rng.randint(1, min(4, len(alive)))
    return Cluster(racks, alive, disk, lists, leader, size, mode, [new], factor)


def judge(cluster: Cluster, texts: dict[str, str], cost: float) -> list[str]:
    """Return what is wrong with the exported files and the cost told."""
    wrong, new, copied = [], dict(cluster.lists), 0
    entries = json.loads(texts[""])["partitions"]
    back = json.loads(texts[".rollback.json"])["partitions"]
    for entry in entries:
        key, replicas = (entry["topic"], entry["partition"]), entry["replicas"]
        if key not in cluster.lists:
            wrong.append(f"{key} unknown")
            continue
        if not replicas or len(set(replicas)) < len(replicas) or not set(replicas) <= cluster.alive:
            wrong.append(f"{key} refused: {replicas}")
        if new[key] == replicas:
            wrong.append(f"{key} unchanged")
        new[key] = replicas
    if len({(e["topic"], e["partition"]) for e in entries}) < len(entries):
        wrong.append("a partition twice")
    if {(e["topic"], e["partition"]): e["replicas"] for e in back} != {
        key: old for key, old in cluster.lists.items() if new[key] != old
    }:
        wrong.append("the rollback is another")
    for key, old in cluster.lists.items():
        copied += cluster.size[key] * len(set(new[key]) - set(old))
        wrong += [f"{key} {old} -> {new[key]}: {what}" for what in _rules(cluster, key, new[key])]
    held = Counter(dict.fromkeys(cluster.racks, 0))
    for key, replicas in new.items():
        for broker in replicas:
            held[broker] += cluster.size[key]
    wrong += [f"disk of {b} full" for b in cluster.alive if held[b] > cluster.disk * (1 + 1e-9)]
    if abs(copied - cost) > 1e-6 * max(1, copied):
        wrong.append(f"cost {cost}, copied {copied}")
    return wrong


def _rules(cluster: Cluster, key: tuple[str, int], new: list[int]) -> list[str]:
    old, mode, wrong = cluster.lists[key], cluster.mode, []
    if cluster.leader[key] is None:
        return [] if new == old else ["an offline partition is planned"]
    keeps = len(old)
    if new == old and len(old) > len(cluster.alive):
        return []  # nothing can be done
    living = len(set(old) & cluster.alive)
    if mode == "replication-factor" or (mode == "trim" and len(old) > cluster.factor <= living):
        keeps = cluster.factor
    if len(new) != keeps:
        wrong.append("replication factor")
    dead = set(new) - cluster.alive
    if dead and mode in ("rebalance", "add-broker", "dead-broker"):
        wrong.append("on a dead broker")
    if mode == "remove-broker" and set(new) & set(cluster.brokers):
        wrong.append("on a removed broker")
    whole = set(old) <= cluster.alive
    if mode == "add-broker" and whole and not set(new) <= {*old, *cluster.brokers}:
        wrong.append("moved to an old broker")
    if mode in ("leaders", "demote", "trim") and not set(new) <= set(old):
        wrong.append("copied")
    heirs = set(old) & cluster.alive - set(cluster.brokers)
    if mode == "demote" and heirs and whole and new[0] in cluster.brokers:
        wrong.append("not demoted")
    if new != old and mode not in ("trim", "leaders", "demote"):
        most = cluster.most_in_a_rack(len(new))
        stays = set(old) & cluster.alive - set(cluster.brokers if mode == "remove-broker" else ())
        kept = cluster.counted(() if mode in ("rebalance", "rack-repair") else stays)
        racks = cluster.counted(new)
        if any(n > max(most, kept[rack]) for rack, n in racks.items()):
            wrong.append("too many in a rack")
        if len(racks) < min(len(cluster.counted(stays)), len(new)):
            wrong.append("fewer racks")
    return wrong


def run(seed: int, folder: Path) -> tuple[str, list[str]]:
    """Return how it ended (planned, idle, none) and what is wrong."""
    cluster = make(seed)
    cluster.save(folder)
    try:
        instance = import_instance("kafka", [str(folder)], cluster.options).instance
    except InvalidInput as error:
        idle = "changes no partition" in str(error) or "are all that live" in str(error)
        idle |= "are dead" in str(error) or "cannot be emptied" in str(error)
        return ("idle", []) if idle else ("none", [str(error)])
    result = solve(instance, "balance-search", seed=seed, tries=2)
    if result.plan is None or result.evaluation is None or not result.evaluation.feasible:
        return "none", []
    texts = export_plan("kafka", instance, result.plan).texts
    return "planned", judge(cluster, texts, result.evaluation.migration_cost or 0.0)


def main() -> int:
    """Run many, print those that are wrong and a count; 1 where one was."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clusters", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    ends: Counter[str] = Counter()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.first, args.first + args.clusters):
            end, wrong = run(seed, Path(folder))
            ends[end] += 1
            bad += bool(wrong)
            if wrong or end == "none":
                print(seed, make(seed).mode, end, *wrong[:3], flush=True)
    print(dict(ends), "wrong:", bad)
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
