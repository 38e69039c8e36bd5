"""A Kafka cluster as any source reports it: brokers, partitions, and what replicas load.

Replica lists of partitions: out of labels, under a placement, and back. Tasks of a partition carry
its present list, its leader, and their role: *leader* and *follower* are a replica each,
*leadership* moves among the brokers of the list. A task without a role stands for the replica on
the broker where it is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from streamplace.clusters.exchange.pages import is_whole
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from streamplace.clusters.exchange.declarations import Ledger

COUNT, LEADERS = "replicas", "leaders"
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
        if resource in (COUNT, LEADERS):
            return float(leads or resource == COUNT)
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


# -- replica lists in labels -----------------------------------------------------------------------

REPLICAS, LEADER, ROLE, FACTOR = "replicas", "leader", "role", "factor"
"""Task labels: brokers of all replicas in Kafka's order, the present leader, the task's role, and
how many replicas the partition is to have."""
LEADS, LEADERSHIP = "leader", "leadership"
"""Roles that say who leads."""
CLUSTER = "cluster"
"""Instance label: the id of the cluster that was asked."""
DEAD = "dead"
"""Node label: not empty for a broker that does not live."""


def labelled_brokers(label: str) -> list[int] | None:
    """Return the brokers of the label `REPLICAS`; ``None`` if it is no list of them."""
    words = [word.strip() for word in label.split(",")]
    return [int(word) for word in words] if all(map(is_whole, words)) else None


class Lists(NamedTuple):
    """Replicas in Kafka's order, and who is to lead; ``None`` where no task says it."""

    replicas: list[int]
    leader: int | None


@dataclass
class Labelled:
    """A partition as labels have it.

    Attributes
    ----------
    key
        Which it is.
    now
        Its present replicas and leader.
    factor
        How many replicas it is to have.
    tasks, roles
        Its tasks by index, and the role of each; empty for none.
    """

    key: Key
    now: Lists
    factor: int | None = None
    tasks: list[int] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)

    def under(self, home: Sequence[int], broker: Sequence[int]) -> Lists:
        """Return the lists when tasks that were on the brokers `home` are on `broker`.

        Both are by index of a task, -1 for a replica that is still to be made. The leader is the
        first, because Kafka elects the first sooner or later; else the current order is preserved
        as far as it goes.
        """
        there = [broker[t] for t in self.tasks if broker[t] >= 0]
        by_role = {role: broker[t] for t, role in zip(self.tasks, self.roles, strict=True)}
        if LEADERSHIP in by_role:
            leader = by_role[LEADERSHIP]
            return Lists([leader, *(b for b in self.now.replicas if b != leader)], leader)
        if "" in by_role:
            to = {home[t]: broker[t] for t in self.tasks}
            return Lists([to.get(b, b) for b in self.now.replicas], None)
        leader_now = by_role.get(LEADS)
        return Lists(_ordered(self.now.replicas, there, leader_now), leader_now)

    def home_of(self, home: Sequence[int], after: Sequence[int]) -> dict[int, int] | None:
        """Return the broker of each task under a new list; ``None`` where no tasks make that."""
        if list(after) == self.now.replicas:
            return {t: home[t] for t in self.tasks}
        if LEADERSHIP in self.roles:
            same = sorted(after) == sorted(self.now.replicas)
            return {self.tasks[0]: after[0]} if same else None
        if "" in self.roles:
            to = dict(zip(self.now.replicas, after, strict=False))
            found = {t: to.get(home[t], home[t]) for t in self.tasks}
            placed = [found.get(t, -1) for t in range(max(found) + 1)]
            return found if self.under(home, placed).replicas == list(after) else None
        if len(after) != len(self.tasks) or len(set(after)) < len(after):
            return None
        found = {t: after[0] for t, r in zip(self.tasks, self.roles, strict=True) if r == LEADS}
        rest = [b for b in after if b not in found.values()]
        waiting = [t for t in self.tasks if t not in found]
        for t in [t for t in waiting if home[t] in rest]:
            found[t] = home[t]
            rest.remove(home[t])
        return found | dict(zip((t for t in waiting if t not in found), rest, strict=False))


def _ordered(now: Sequence[int], there: Sequence[int], leader: int | None) -> list[int]:
    """The leader first, the others where they are, new ones in the places of those that go."""
    new = [b for b in there if b not in now]
    filled: list[int] = []
    for b in now:
        filled += [b] if b in there else [new.pop(0)] if new else []
    filled += new
    filled += [b for b in dict.fromkeys(there) for _ in range(there.count(b) - filled.count(b))]
    return sorted(filled, key=lambda b: b != leader)


def listed_partitions(
    labels: Iterable[Mapping[str, str]], names: Sequence[str], ledger: Ledger
) -> dict[Key, Labelled]:
    """Group tasks by partition, by their labels; what is missing is a problem by path."""
    found: dict[Key, Labelled] = {}
    for t, told in enumerate(labels):
        path, missing = f"tasks[{t}].labels", False
        for label in ("topic", "partition", REPLICAS):
            if not told.get(label):
                missing = True
                reason = f"is missing ({names[t]}): Kafka takes whole replica lists only"
                remedy = "import with `streamplace import kafka`, or add the label"
                ledger.problem(f"{path}.{label}", None, reason, remedy)
        if missing:
            continue
        replicas = labelled_brokers(told[REPLICAS])
        if replicas is None:
            reason = f"is no list of brokers ({names[t]})"
            ledger.problem(f"{path}.{REPLICAS}", told[REPLICAS], reason, "numbers with commas: 1,2")
        if not is_whole(told["partition"]):
            ledger.problem(f"{path}.partition", told["partition"], f"is no number ({names[t]})")
        elif replicas is not None:
            key = Key(told["topic"], int(told["partition"]))
            numbers = [int(w) if is_whole(w := told.get(k, "")) else None for k in (LEADER, FACTOR)]
            made = Labelled(key, Lists(replicas, numbers[0]), numbers[1])
            entry = found.setdefault(key, made)
            entry.tasks.append(t)
            entry.roles.append(told.get(ROLE, ""))
    return found
