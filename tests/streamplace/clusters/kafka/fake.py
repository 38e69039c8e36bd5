"""A cluster in memory that behaves as Kafka 4 does, for what asks `KafkaAdmin`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from optim.errors import Problem
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.kafka.admin import MIN_ISR, Unreachable
from streamplace.clusters.kafka.cluster import Broker, Key, Partition
from streamplace.clusters.kafka.pages import Logs


@dataclass
class FakeKafka:
    """Brokers and partitions; a copy takes `takes` looks, and none goes to a dead broker.

    Attributes
    ----------
    events
        What is to happen at a look: number of the look to an action.
    least
        By partition the fewest replicas that ever were in sync.
    """

    lists: dict[str, list[int]]
    count: int = 4
    takes: int = 2
    dead: set[int] = field(default_factory=set)
    min_isr: int | None = None
    isr: dict[str, list[int]] = field(default_factory=dict)
    id: str = "the-cluster"
    address: str = "fake:9092"
    events: dict[int, Any] = field(default_factory=dict)
    failed: dict[str, set[int]] = field(default_factory=dict)
    closed: bool = False

    def __post_init__(self) -> None:
        self.at: dict[Key, Partition] = {}
        self.left: dict[Key, int] = {}
        self.set: dict[tuple[str, str], dict[str, str]] = {}
        self.looks = 0
        self.calls: list[tuple[str, Any]] = []
        self.most: dict[int, int] = {}
        self.ever: set[tuple[str, str]] = set()
        for name, replicas in self.lists.items():
            topic, _, number = name.rpartition("-")
            key = Key(topic, int(number))
            isr = self.isr.get(name, [b for b in replicas if b not in self.dead])
            leader = next((b for b in replicas if b in isr), None)
            self.at[key] = Partition(*key, list(replicas), leader, isr, min_isr=self.min_isr)
        self.least = {key: len(one.isr) for key, one in self.at.items()}

    def __enter__(self) -> FakeKafka:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def cluster(self) -> str:
        return self.id

    def brokers(self) -> dict[int, Broker]:
        return {n: Broker(n, alive=n not in self.dead) for n in range(1, self.count + 1)}

    def kill(self, broker: int) -> None:
        self.dead.add(broker)
        for one in self.at.values():
            one.isr = [b for b in one.isr if b != broker] or one.isr
            if one.leader == broker:
                one.leader = next((b for b in one.replicas if b in one.isr), None)

    def start(self, broker: int) -> None:
        self.dead.discard(broker)
        for one in self.at.values():
            if broker in one.replicas and broker not in one.isr and broker not in one.adding:
                one.isr.append(broker)

    def partitions(self, ledger: Ledger | None = None) -> dict[Key, Partition]:
        self.looks += 1
        if (event := self.events.pop(self.looks, None)) is not None:
            event()
        copying: dict[int, int] = {}
        for key, one in self.at.items():
            for broker in one.adding:
                copying[broker] = copying.get(broker, 0) + 1
            if one.is_moving and not set(one.adding) & self.dead:
                self.left[key] -= 1
                if self.left[key] <= 0:
                    self._end(key, one)
        for broker, number in copying.items():
            self.most[broker] = max(number, self.most.get(broker, 0))
        for key, one in self.at.items():
            self.least[key] = min(self.least[key], len(one.isr))
        return {
            k: replace(p, replicas=list(p.replicas), isr=list(p.isr)) for k, p in self.at.items()
        }

    def _end(self, key: Key, one: Partition) -> None:
        one.isr += [b for b in one.adding if b not in one.isr]
        one.replicas = [b for b in one.replicas if b not in one.removing]
        one.isr = [b for b in one.isr if b in one.replicas]
        one.adding = one.removing = ()
        if one.leader not in one.isr:
            one.leader = next((b for b in one.replicas if b in one.isr), None)

    def log_dirs(self, brokers: Collection[int], ledger: Ledger) -> Logs:
        sizes = {
            key: {b: 100.0 for b in one.isr if b not in self.failed.get(str(key), ())}
            for key, one in self.at.items()
        }
        return Logs(sizes, {}, {}, list(brokers))

    def configs(self, kind: str, names: Collection[str], keys: Sequence[str]) -> dict[str, Any]:
        if unknown := [n for n in names if kind == "broker" and n and int(n) in self.dead]:
            raise Unreachable(Problem(self.address, unknown[0], "is dead: it is not to be asked"))
        return {
            n: {k: v for k, v in self.set.get((kind, n), {}).items() if k in keys} for n in names
        }

    def alter(self, kind: str, values: Mapping[str, Mapping[str, str | None]]) -> None:
        for name, told in values.items():
            if kind == "broker" and name and int(name) in self.dead:
                raise Unreachable(Problem(self.address, name, "is dead: it is not to be asked"))
            held = self.set.setdefault((kind, name), {})
            for key, value in told.items():
                held.pop(key, None)
                if value is not None:
                    assert key != MIN_ISR
                    held[key] = value
                    self.ever.add((kind, name))

    @property
    def throttled(self) -> list[tuple[str, str]]:
        return [at for at, told in self.set.items() if told]

    def reassign(self, lists: Mapping[Key, Sequence[int] | None]) -> dict[Key, str]:
        refused = {}
        for key, wanted in lists.items():
            self.calls.append((str(key), wanted))
            one = self.at[key]
            if wanted is None:
                one.replicas = [b for b in one.replicas if b not in one.adding]
                one.isr = [b for b in one.isr if b in one.replicas]
                one.adding = one.removing = ()
            elif not all(1 <= b <= self.count for b in wanted):
                refused[key] = "InvalidReplicaAssignmentError"
            else:
                home = [b for b in one.replicas if b not in one.adding]
                one.adding = tuple(b for b in wanted if b not in home)
                one.removing = tuple(b for b in home if b not in wanted)
                one.replicas = [*wanted, *one.removing]
                self.left[key] = self.takes
                if not one.adding:
                    self._end(key, one)
        return refused

    def elect(self, keys: Collection[Key]) -> None:
        for key in keys:
            one = self.at[key]
            if one.replicas[0] in one.isr and one.replicas[0] not in self.dead:
                one.leader = one.replicas[0]
