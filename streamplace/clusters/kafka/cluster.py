"""A Kafka cluster as any source reports it: brokers, partitions, and what replicas load."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

REPLICAS, LEADERS = "replicas", "leaders"
"""Resources that every cluster has: 1 a replica, 1 a leader."""

_NAMED = 3
LEADER_IN, LEADER_OUT, FOLLOWER_IN = 0.6, 0.1, 0.3
"""Weights of bytes in a broker's CPU, as Cruise Control has them unless set otherwise."""


class Key(NamedTuple):
    """Which partition; as a text as Kafka writes it."""

    topic: str
    number: int

    def __str__(self) -> str:
        """Return ``topic-number``."""
        return f"{self.topic}-{self.number}"


@dataclass
class Broker:
    """A broker; `rest` is load by resource that comes of no partition that is known."""

    id: int
    rack: str | None = None
    alive: bool = True
    capacity: dict[str, float] = field(default_factory=dict)
    rest: dict[str, float] = field(default_factory=dict)
    host: str = ""


@dataclass
class Partition:
    """A partition.

    Attributes
    ----------
    replicas
        In Kafka's order: the first is the preferred leader.
    leader, isr
        The present leader (``None`` while it has none), and the replicas in sync.
    leading, following
        What its leader, and each follower, loads its broker with, by resource.
    size
        Bytes (or what the source counts in) that a new replica copies; ``None`` where not reported.
    lost
        Living brokers whose replica of it is on a failed disk.
    adding, removing
        Brokers of a reassignment that is under way: of a cluster `replicas` is its target, of
        ``--describe`` it has both.
    min_isr
        ``min.insync.replicas`` of its topic; ``None`` where not reported.
    """

    topic: str
    number: int
    replicas: list[int]
    leader: int | None
    isr: list[int]
    leading: dict[str, float] = field(default_factory=dict)
    following: dict[str, float] = field(default_factory=dict)
    size: float | None = None
    lost: frozenset[int] = frozenset()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    min_isr: int | None = None

    @property
    def is_moving(self) -> bool:
        """Whether Kafka is reassigning it."""
        return bool(self.adding or self.removing)

    @property
    def key(self) -> Key:
        """Which it is."""
        return Key(self.topic, self.number)

    @property
    def name(self) -> str:
        """Topic and number, as Kafka writes it."""
        return str(self.key)

    def load(self, resource: str, leads: bool) -> float:
        """Load of one replica."""
        if resource in (REPLICAS, LEADERS):
            return float(leads or resource == REPLICAS)
        return (self.leading if leads else self.following).get(resource, 0.0)

    def loads(self, resources: Sequence[str], leads: bool) -> dict[str, float]:
        """Load of one replica by resource."""
        told = self.leading if leads else self.following
        return {r: told[r] if r in told else self.load(r, leads) for r in resources}


@dataclass
class Cluster:
    """Brokers by number, partitions, the resources that the source reports, and their units.

    `emptied` are brokers that are to hold nothing; `id` is the cluster's own.
    """

    name: str
    brokers: dict[int, Broker]
    partitions: list[Partition]
    resources: tuple[str, ...]
    units: Mapping[str, str]
    emptied: frozenset[int] = frozenset()
    id: str = ""
    _most: dict[int, int] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def alive(self) -> dict[int, None]:
        """Brokers that take replicas, in order."""
        return {number: None for number, broker in sorted(self.brokers.items()) if broker.alive}

    def living(self, partition: Partition) -> list[int]:
        """Return the brokers that have a replica of a partition, in its order."""
        return [b for b in partition.replicas if b in self.alive and b not in partition.lost]

    def takers(self, partition: Partition) -> tuple[int, ...]:
        """Return the brokers that may have a replica of a partition."""
        lost = partition.lost
        return tuple(b for b in self.staying if b not in lost) if lost else self.staying

    @cached_property
    def staying(self) -> tuple[int, ...]:
        """Living brokers that are not to be emptied, in order."""
        return tuple(number for number in self.alive if number not in self.emptied)

    @cached_property
    def has_racks(self) -> bool:
        """Whether the rack of any broker is known."""
        return any(broker.rack for broker in self.brokers.values())

    @cached_property
    def rack_of(self) -> dict[int, str]:
        """The rack of each broker; one that is not reported is a rack of its own."""
        return {number: b.rack or f"of {number}" for number, b in self.brokers.items()}

    def racks_of(self, brokers: Iterable[int]) -> Counter[str]:
        """Count brokers by rack."""
        return Counter(self.rack_of[broker] for broker in brokers)

    @cached_property
    def racks(self) -> Counter[str]:
        """Living brokers that stay, by rack."""
        return self.racks_of(self.staying)

    def most_in_a_rack(self, replicas: int) -> int:
        """Return how many replicas of a partition a rack may hold: as even as racks allow.

        That is replicas / racks, rounded up, or more where some racks have too few brokers.
        """
        if replicas not in self._most:
            racks = {rack: (0, count) for rack, count in self.racks.items()}
            self._most[replicas] = least_limit(replicas, racks)
        return self._most[replicas]


def least_limit(more: int, racks: Mapping[str, tuple[int, int]], at_least: int = 1) -> int:
    """Return the lowest limit of replicas in a rack under which so many more find a place.

    Parameters
    ----------
    racks
        Replicas that each has, which stay even above the limit, and its brokers without one.
    """
    limit = max(1, at_least)
    while True:
        room = sum(max(0, min(limit - held, free)) for held, free in racks.values())
        if room >= more or all(limit >= held + free for held, free in racks.values()):
            return limit
        limit += 1


def follower_cpu(cpu: float, bytes_in: float, bytes_out: float) -> float:
    """CPU that a follower takes where the leader takes `cpu`, as Cruise Control estimates it."""
    whole = LEADER_IN * bytes_in + LEADER_OUT * bytes_out
    return cpu * FOLLOWER_IN * bytes_in / whole if whole > 0 else 0.0


def some(names: Collection[object]) -> str:
    """Write the first few names, and how many more there are."""
    return listed([str(name) for name in names], _NAMED)
