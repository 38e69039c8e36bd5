"""What each operation may change: which replicas are decided anew, and where each may go.

A partition that an operation does not touch is left out of the instance; its load is background of
its brokers. Of one that it touches every replica is a task: those that stay may change places among
themselves (which copies nothing, and is how leadership moves), those that move may go to more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from experiments.kafka.folder import some
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from experiments.interchange.ledger import Ledger
    from experiments.kafka.cluster import Cluster, Partition

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
NEEDS_BROKERS = frozenset({"add-broker", "remove-broker", "demote"})
NEEDS_FACTOR = frozenset({"replication-factor", "trim"})
LEADERSHIP = frozenset({"leaders", "demote"})


class Replica(NamedTuple):
    """A replica to be decided on.

    Attributes
    ----------
    broker
        Where it is; ``None`` for one that is to be made.
    leads
        Whether it is the leader's.
    allowed
        Brokers it may be on; ``None`` for all that live.
    """

    broker: int | None
    leads: bool
    allowed: tuple[int, ...] | None = None


class Asked(NamedTuple):
    """A partition, its replicas to be decided on, and the most of them in one rack."""

    partition: Partition
    replicas: list[Replica]
    at_most: int = 1


@dataclass(frozen=True)
class Operation:
    """What is to be done: a mode, the brokers and the replication factor that it is about."""

    mode: str = "rebalance"
    brokers: frozenset[int] = frozenset()
    factor: int | None = None
    topics: frozenset[str] = frozenset()

    def check(self, cluster: Cluster) -> None:
        """Refuse what does not go together.

        Raises
        ------
        InvalidInput
            Brokers or a factor are missing or of no use, or are not the cluster's.
        """
        problems = []
        for name, value, wanted in (
            ("brokers", sorted(self.brokers), self.mode in NEEDS_BROKERS),
            ("factor", self.factor, self.mode in NEEDS_FACTOR),
        ):
            path = f"--option {name}"
            if wanted and not value:
                remedy = f"--option {name}=" + ("3,4" if name == "brokers" else "3")
                problems.append(Problem(path, None, f"is missing: {self.mode} needs it", remedy))
            elif value and not wanted:
                problems.append(
                    Problem(path, value, f"is of no use to {self.mode}", "leave it out")
                )
        known = f"one of {', '.join(map(str, sorted(cluster.brokers)[:20]))}"
        for number in sorted(self.brokers - cluster.brokers.keys()):
            problems.append(Problem("--option brokers", number, "is no broker", known))
        dead = sorted(n for n in self.brokers & cluster.brokers.keys() if n not in cluster.alive)
        if self.mode == "add-broker" and dead:
            problems.append(Problem("--option brokers", dead, "are dead", "name living brokers"))
        if self.mode == "remove-broker" and not cluster.alive.keys() - self.brokers:
            problems.append(
                Problem("--option brokers", sorted(self.brokers), "are all that live", "keep some")
            )
        if self.factor is not None and self.factor > len(cluster.alive):
            reason = f"is more than the {len(cluster.alive)} living brokers"
            problems.append(Problem("--option factor", self.factor, reason, "add brokers first"))
        topics = {partition.topic for partition in cluster.partitions}
        for topic in sorted(self.topics - topics):
            problems.append(Problem("--option topics", topic, "is no topic of the cluster"))
        if problems:
            raise InvalidInput(problems)

    def asked(self, cluster: Cluster, ledger: Ledger) -> list[Asked]:
        """Return the partitions that are touched."""
        self.check(cluster)
        online = [p for p in cluster.partitions if not self.topics or p.topic in self.topics]
        offline = [p.name for p in online if not _is_online(cluster, p)]
        if offline:
            ledger.warn(f"offline, no living replica leads; not planned: {some(offline)}")
        behind = [p.name for p in online if len(p.isr) < len(p.replicas)]
        if behind:
            ledger.warn(f"under-replicated (not all replicas are in sync): {some(behind)}")
        rule = _RULES[self.mode]
        found = [(p, rule(self, cluster, p)) for p in online if _is_online(cluster, p)]
        kept = [p.name for p, a in found if a is None and p.leader in self.brokers]
        if kept and self.mode == "demote":
            ledger.warn(f"not demoted, no other living replica can be elected: {some(kept)}")
        return self._that_fit(cluster, [asked for _, asked in found if asked is not None], ledger)

    def _that_fit(self, cluster: Cluster, asked: list[Asked], ledger: Ledger) -> list[Asked]:
        """Leave out partitions with more replicas than brokers to be on.

        Raises
        ------
        InvalidInput
            A broker that is to be emptied could not be.
        """
        every = set(cluster.alive) - cluster.emptied
        fit: list[Asked] = []
        rest: list[Asked] = []
        for a in asked:
            places = every
            if any(r.allowed is not None for r in a.replicas):
                allowed = (every if r.allowed is None else r.allowed for r in a.replicas)
                places = {b for each in allowed for b in each}
            (fit if len(places) >= len(a.replicas) else rest).append(a)
        names = [a.partition.name for a in rest]
        if names and self.mode == "remove-broker":
            reason = f"cannot be emptied: more replicas than other living brokers: {some(names)}"
            remedy = "lower the replication factor first, or add brokers"
            raise InvalidInput(Problem("--option brokers", sorted(self.brokers), reason, remedy))
        if names:
            ledger.warn(f"more replicas than living brokers; not planned: {some(names)}")
        return fit


def racks_suffice(cluster: Cluster, replicas: int) -> bool:
    """Whether so many replicas can each have a rack of its own."""
    return cluster.racks is not None and replicas <= len(cluster.racks)


def _is_online(cluster: Cluster, partition: Partition) -> bool:
    return partition.leader is not None and partition.leader in cluster.alive


def _living(cluster: Cluster, partition: Partition) -> list[int]:
    return [broker for broker in partition.replicas if broker in cluster.alive]


def _most_in_a_rack(cluster: Cluster, brokers: Iterable[int]) -> int:
    return max(Counter(cluster.brokers[broker].rack for broker in brokers).values(), default=1)


def _apart(
    cluster: Cluster, partition: Partition, targets: Iterable[int], replicas: int
) -> list[int]:
    """Return the targets; where living replicas share a rack, one in each rack without any.

    So that what shares a rack already does not do so more.
    """
    stays = [b for b in _living(cluster, partition) if b not in cluster.emptied]
    found = sorted(set(targets))
    if not racks_suffice(cluster, replicas) or _most_in_a_rack(cluster, stays) < 2:
        return found
    held = {cluster.brokers[broker].rack for broker in stays}
    by_rack: dict[str | None, list[int]] = {}
    for broker in found:
        by_rack.setdefault(cluster.brokers[broker].rack, []).append(broker)
    free = (brokers for rack, brokers in by_rack.items() if rack not in held)
    return [brokers[partition.number % len(brokers)] for brokers in free]


def _rebalance(operation: Operation, cluster: Cluster, partition: Partition) -> Asked | None:
    """Every replica, anywhere; those on dead brokers must go."""
    alive = tuple(cluster.alive)
    return Asked(
        partition,
        [
            Replica(b, b == partition.leader, None if b in cluster.alive else alive)
            for b in partition.replicas
        ],
    )


def _add(operation: Operation, cluster: Cluster, partition: Partition) -> Asked | None:
    """Every replica, onto a new broker or not at all."""
    stays, count = _living(cluster, partition), len(partition.replicas)
    new = _apart(cluster, partition, operation.brokers, count)
    alive = tuple(_apart(cluster, partition, cluster.alive, count))
    replicas = [
        Replica(
            b,
            b == partition.leader,
            alive if b not in cluster.alive else tuple(sorted({*stays, *new})),
        )
        for b in partition.replicas
    ]
    return Asked(partition, replicas, _most_in_a_rack(cluster, stays))


def _moved(
    cluster: Cluster, partition: Partition, gone: Collection[int], targets: Iterable[int]
) -> Asked | None:
    """Replicas on `gone` brokers go to `targets`, the others stay among themselves."""
    if not gone:
        return None
    stays = tuple(b for b in partition.replicas if b not in gone)
    most = _most_in_a_rack(cluster, stays) if stays else 1
    if most > 1:
        targets = _apart(cluster, partition, targets, len(partition.replicas))
    free = tuple(sorted(set(targets) - set(stays)))
    replicas = [
        Replica(b, b == partition.leader, free if b in gone else stays) for b in partition.replicas
    ]
    return Asked(partition, replicas, most)


def _remove(operation: Operation, cluster: Cluster, partition: Partition) -> Asked | None:
    """What is on the named brokers, and on dead ones, goes elsewhere."""
    staying = [b for b in cluster.alive if b not in operation.brokers]
    gone = [b for b in partition.replicas if b not in staying]
    touched = operation.brokers & set(partition.replicas)
    return _moved(cluster, partition, gone, staying) if touched else None


def _rebuild(operation: Operation, cluster: Cluster, partition: Partition) -> Asked | None:
    """What is on dead brokers is made anew elsewhere."""
    gone = [b for b in partition.replicas if b not in cluster.alive]
    return _moved(cluster, partition, gone, cluster.alive)


def _repair(operation: Operation, cluster: Cluster, partition: Partition) -> Asked | None:
    """Where racks suffice, of several replicas in a rack all but one go to other racks."""
    if not racks_suffice(cluster, len(partition.replicas)):
        return None
    living = _living(cluster, partition)
    kept: dict[str | None, int] = {}
    for broker in sorted(living, key=lambda b: b != partition.leader):
        kept.setdefault(cluster.brokers[broker].rack, broker)
    if len(kept) == len(living):
        return None
    gone = [b for b in partition.replicas if b not in kept.values()]
    return _moved(cluster, partition, gone, cluster.alive)


def _change(operation: Operation, cluster: Cluster, partition: Partition) -> Asked | None:
    """More replicas are made, or the least useful ones are given up."""
    wanted = operation.factor or 0
    more = wanted - len(partition.replicas)
    if more <= 0:
        return _trim(operation, cluster, partition)
    grown = _with_followers(partition, more)
    gone = [b for b in partition.replicas if b not in cluster.alive]
    stays = tuple(_living(cluster, partition))
    alive = tuple(b for b in _apart(cluster, partition, cluster.alive, wanted) if b not in stays)
    replicas = [
        Replica(b, b == partition.leader, alive if b in gone else stays) for b in partition.replicas
    ]
    new = [Replica(None, False, alive) for _ in range(more)]
    return Asked(grown, replicas + new, _most_in_a_rack(cluster, stays))


def _trim(operation: Operation, cluster: Cluster, partition: Partition) -> Asked | None:
    """Replicas above the factor are given up: dead ones, doubles of a rack, lagging, the last.

    The leader's is never given up, and nothing moves but what is on dead brokers.
    """
    wanted = operation.factor or 0
    less = len(partition.replicas) - wanted
    if less <= 0:
        return None
    kept = list(partition.replicas)
    for _ in range(less):
        racks = Counter(cluster.brokers[broker].rack for broker in kept)

        def worth(broker: int, racks: Counter[str | None] = racks) -> tuple[bool, ...]:
            doubled = cluster.racks is not None and racks[cluster.brokers[broker].rack] > 1
            return broker in cluster.alive, not doubled, broker in partition.isr

        kept.remove(min((b for b in reversed(kept) if b != partition.leader), key=worth))
    if not set(kept) <= cluster.alive.keys() and operation.mode == "trim":
        return None  # Kafka takes no list with a dead broker, and nothing is to move
    alive = tuple(cluster.alive)
    replicas = [
        Replica(b, b == partition.leader, (b,) if b in cluster.alive else alive) for b in kept
    ]
    return Asked(_with_followers(partition, -less), replicas, len(kept))


def _with_followers(partition: Partition, more: int) -> Partition:
    """The partition with more (or fewer) followers, to which its leader sends."""
    leading = dict(partition.leading)
    if "nw_out" in leading:
        sent = more * partition.following.get("nw_in", 0.0)
        leading["nw_out"] = max(0.0, leading["nw_out"] + sent)
    return replace(partition, leading=leading)


def _lead(operation: Operation, cluster: Cluster, partition: Partition) -> Asked | None:
    """Leadership alone: on any living broker in sync.

    A list that holds a dead broker cannot be given to Kafka in another order: of such a partition
    only the first can be elected.
    """
    listed = partition.replicas
    heirs = [b for b in partition.isr if b in cluster.alive and b in listed]
    if not set(listed) <= cluster.alive.keys():
        heirs = [b for b in heirs if b == listed[0]]
    leader = partition.leader
    assert leader is not None  # the others are offline
    places = tuple(sorted({*heirs, leader}))
    return Asked(partition, [Replica(leader, True, places)]) if len(places) > 1 else None


def _demote(operation: Operation, cluster: Cluster, partition: Partition) -> Asked | None:
    """Leadership alone, off the named brokers, which are to be the first of no list either."""
    if not operation.brokers & {partition.leader, partition.replicas[0]}:
        return None
    asked = _lead(operation, cluster, partition)
    if asked is None:
        return None
    (replica,) = asked.replicas
    heirs = tuple(b for b in replica.allowed or () if b not in operation.brokers)
    # a named broker that is first but does not lead would do so after the next election
    first = partition.leader if partition.leader in operation.brokers else partition.replicas[0]
    barred = first != partition.leader and not set(partition.replicas) <= cluster.alive.keys()
    if barred or not heirs:
        return None
    return asked._replace(replicas=[Replica(first, True, heirs)])


_RULES: dict[str, Callable[[Operation, Cluster, Partition], Asked | None]] = dict(
    zip(
        MODES,
        (_rebalance, _lead, _add, _remove, _rebuild, _demote, _repair, _change, _trim),
        strict=True,
    )
)
