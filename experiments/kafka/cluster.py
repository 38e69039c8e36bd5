"""A Kafka cluster as any source tells it: brokers, partitions, and what replicas load."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REPLICAS, LEADERS = "replicas", "leaders"
"""Resources that every cluster has: 1 a replica, 1 a leader."""

LEADER_IN, LEADER_OUT, FOLLOWER_IN = 0.6, 0.1, 0.3
"""Weights of bytes in a broker's CPU, as Cruise Control has them unless told otherwise."""


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
        Bytes (or what the source counts in) that a new replica copies; ``None`` where not told.
    """

    topic: str
    number: int
    replicas: list[int]
    leader: int | None
    isr: list[int]
    leading: dict[str, float] = field(default_factory=dict)
    following: dict[str, float] = field(default_factory=dict)
    size: float | None = None

    @property
    def name(self) -> str:
        """Topic and number, as Kafka writes it."""
        return f"{self.topic}-{self.number}"

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
    """Brokers by number, partitions, the resources that the source tells, and their units.

    `emptied` are brokers that are to hold nothing.
    """

    name: str
    brokers: dict[int, Broker]
    partitions: list[Partition]
    resources: tuple[str, ...]
    units: Mapping[str, str]
    emptied: frozenset[int] = frozenset()

    @cached_property
    def alive(self) -> dict[int, None]:
        """Brokers that take replicas, in order."""
        return {number: None for number, broker in sorted(self.brokers.items()) if broker.alive}

    @cached_property
    def racks(self) -> set[str] | None:
        """Racks of the living brokers that stay; ``None`` where one has none."""
        found = [self.brokers[number].rack for number in self.alive if number not in self.emptied]
        return None if None in found else {rack for rack in found if rack is not None}


def follower_cpu(cpu: float, bytes_in: float, bytes_out: float) -> float:
    """CPU that a follower takes where the leader takes `cpu`, as Cruise Control estimates it."""
    whole = LEADER_IN * bytes_in + LEADER_OUT * bytes_out
    return cpu * FOLLOWER_IN * bytes_in / whole if whole > 0 else 0.0
