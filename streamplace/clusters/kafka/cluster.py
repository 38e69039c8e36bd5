"""A Kafka cluster as any source reports it: brokers, partitions, and what replicas load.

Replica lists of partitions: out of labels, under a placement, and back. Tasks of a partition carry
its present list, its leader, and their role: *leader* and *follower* are a replica each,
*leadership* moves among the brokers of the list. A task without a role stands for the replica on
the broker where it is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.pages import is_whole
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

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
    """A partition."""

    topic: str
    number: int
    replicas: list[int]  # In Kafka's order: the first is the preferred leader.
    #: The present leader (``None`` while it has none), and the replicas in sync.
    leader: int | None
    isr: list[int]
    #: What its leader, and each follower, loads its broker with, by resource.
    leading: dict[str, float] = field(default_factory=dict)
    following: dict[str, float] = field(default_factory=dict)
    #: Bytes (or what the source counts in) that a new replica copies; ``None`` where not reported.
    size: float | None = None
    lost: frozenset[int] = frozenset()  # Living brokers whose replica of it is on a failed disk.
    #: Brokers of a reassignment that is under way: of a cluster `replicas` is its target, of
    #: ``--describe`` it has both.
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    min_isr: int | None = None  # ``min.insync.replicas`` of its topic; ``None`` where not reported.

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
        reported = self.leading if leads else self.following
        return {r: reported[r] if r in reported else self.load(r, leads) for r in resources}


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

    `racks`: replicas that each has, which stay even above the limit, and its brokers without one.
    """
    limit = max(1, at_least)
    while True:
        room = sum(max(0, min(limit - staying, free)) for staying, free in racks.values())
        if room >= more or all(limit >= staying + free for staying, free in racks.values()):
            return limit
        limit += 1


def follower_cpu(cpu: float, bytes_in: float, bytes_out: float) -> float:
    """CPU that a follower takes where the leader takes `cpu`, as Cruise Control estimates it."""
    # cpu · 0.3·in / (0.6·in + 0.1·out): followers fetch, and serve nobody
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
    """A partition as labels have it."""

    key: Key  # Which it is.
    now: Lists  # Its present replicas and leader.
    factor: int | None = None  # How many replicas it is to have.
    #: Its tasks by index, and the role of each; empty for none.
    tasks: list[int] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)

    def under(self, home: Sequence[int], broker: Sequence[int]) -> Lists:
        """Return the lists when tasks that were on the brokers `home` are on `broker`.

        Both are by index of a task, -1 for a replica that is still to be made. The leader is the
        first, because Kafka elects the first sooner or later; else the current order is preserved
        as far as it goes.
        """
        brokers = [broker[t] for t in self.tasks if broker[t] >= 0]
        by_role = {role: broker[t] for t, role in zip(self.tasks, self.roles, strict=True)}
        if LEADERSHIP in by_role:
            leader = by_role[LEADERSHIP]
            return Lists([leader, *(b for b in self.now.replicas if b != leader)], leader)
        if "" in by_role:
            to = {home[t]: broker[t] for t in self.tasks}
            return Lists([to.get(b, b) for b in self.now.replicas], None)
        leader_now = by_role.get(LEADS)
        return Lists(_ordered(self.now.replicas, brokers, leader_now), leader_now)

    def home_of(
        self, home: Sequence[int], after: Sequence[int], *, led: bool = False
    ) -> dict[int, int] | None:
        """Return the broker of each task under a new list; ``None`` where no tasks make that.

        Under the present list tasks stay, and none is placed; if it is `led`, its first leads.
        """
        if list(after) == self.now.replicas and not led:
            return {t: home[t] for t in self.tasks if home[t] >= 0}
        if LEADERSHIP in self.roles:
            same = sorted(after) == sorted(self.now.replicas)
            return {self.tasks[0]: after[0]} if same else None
        if "" in self.roles:
            to = dict(zip(self.now.replicas, after, strict=False))
            broker_of = {t: to.get(home[t], home[t]) for t in self.tasks}
            placed = [broker_of.get(t, -1) for t in range(max(broker_of) + 1)]
            return broker_of if self.under(home, placed).replicas == list(after) else None
        if len(after) != len(self.tasks) or len(set(after)) < len(after):
            return None
        broker_of = {t: after[0] for t, r in zip(self.tasks, self.roles, strict=True) if r == LEADS}
        rest = [b for b in after if b not in broker_of.values()]
        waiting = [t for t in self.tasks if t not in broker_of]
        for t in [t for t in waiting if home[t] in rest]:
            broker_of[t] = home[t]
            rest.remove(home[t])
        return broker_of | dict(zip((t for t in waiting if t not in broker_of), rest, strict=False))


def _ordered(current: Sequence[int], brokers: Sequence[int], leader: int | None) -> list[int]:
    """The leader first, the others where they are, new ones in the places of those that go."""
    # Kafka elects the first that is in sync: an order that changes little moves few leaders
    new = [b for b in brokers if b not in current]
    filled: list[int] = []
    for b in current:
        filled += [b] if b in brokers else [new.pop(0)] if new else []
    filled += new
    filled += [b for b in dict.fromkeys(brokers) for _ in range(brokers.count(b) - filled.count(b))]
    return sorted(filled, key=lambda b: b != leader)


def listed_partitions(
    labels: Iterable[Mapping[str, str]], names: Sequence[str], ledger: Ledger
) -> dict[Key, Labelled]:
    """Group tasks by partition, by their labels; what is missing is a problem by path."""
    partitions: dict[Key, Labelled] = {}
    for t, task_labels in enumerate(labels):
        path, missing = f"tasks[{t}].labels", False
        for label in ("topic", "partition", REPLICAS):
            if not task_labels.get(label):
                missing = True
                reason = f"is missing ({names[t]}): Kafka takes whole replica lists only"
                remedy = "import with `streamplace import kafka`, or add the label"
                ledger.problem(f"{path}.{label}", None, reason, remedy)
        if missing:
            continue
        replicas = labelled_brokers(task_labels[REPLICAS])
        if replicas is None:
            reason = f"is no list of brokers ({names[t]})"
            ledger.problem(
                f"{path}.{REPLICAS}", task_labels[REPLICAS], reason, "numbers with commas: 1,2"
            )
        if not is_whole(task_labels["partition"]):
            ledger.problem(
                f"{path}.partition", task_labels["partition"], f"is no number ({names[t]})"
            )
        elif replicas is not None:
            key = Key(task_labels["topic"], int(task_labels["partition"]))
            numbers = [
                int(w) if is_whole(w := task_labels.get(k, "")) else None for k in (LEADER, FACTOR)
            ]
            labelled = Labelled(key, Lists(replicas, numbers[0]), numbers[1])
            entry = partitions.setdefault(key, labelled)
            entry.tasks.append(t)
            entry.roles.append(task_labels.get(ROLE, ""))
    return partitions


# -- what each operation may change: which replicas are decided anew, and where each may go --------


NEEDS_BROKERS = frozenset({"add-broker", "remove-broker", "demote"})
NEEDS_FACTOR = frozenset({"replication-factor", "trim"})
LEADING_MODES = frozenset({"leaders", "demote"})


class Replica(NamedTuple):
    """A replica to be decided on, and whether it is the leader's."""

    broker: int | None  # Where it is; ``None`` for one that is to be made.
    leads: bool
    allowed: tuple[int, ...] | None = None  # Brokers it may be on; ``None`` for all that live.


class Racks(NamedTuple):
    """How replicas of a partition spread: over so many racks, and at most so many in one.

    `moved_at_most` is for those that stay on no broker of now; ``None`` where `at_most` says it.
    """

    at_most: int = 1
    moved_at_most: int | None = None
    at_least: int = 1


class Target(NamedTuple):
    """A partition as it is to be, its replicas to be decided on, and their racks."""

    partition: Partition
    replicas: list[Replica]
    racks: Racks = Racks()


@dataclass(frozen=True)
class Operation:
    """What is to be done: a mode, the brokers and the replication factor that it is about."""

    mode: str = "rebalance"
    brokers: frozenset[int] = frozenset()
    factor: int | None = None
    topics: frozenset[str] = frozenset()

    def check(self, cluster: Cluster) -> None:
        """Refuse what does not go together."""
        ledger, option, factor = Ledger(), "--option brokers", "--option factor"
        for path, value, needed, example in (
            (option, sorted(self.brokers), self.mode in NEEDS_BROKERS, "3,4"),
            (factor, self.factor, self.mode in NEEDS_FACTOR, "3"),
        ):
            if needed and not value:
                reason = f"is missing: {self.mode} needs it"
                ledger.problem(path, None, reason, f"{path}={example}")
            elif value and not needed:
                ledger.problem(path, value, f"is of no use to {self.mode}", "leave it out")
        remedy = f"one of {', '.join(map(str, sorted(cluster.brokers)[:20]))}"
        for number in sorted(self.brokers - cluster.brokers.keys()):
            ledger.problem(option, number, "is no broker", remedy)
        dead = sorted(n for n in self.brokers & cluster.brokers.keys() if n not in cluster.alive)
        if self.mode == "add-broker" and dead:
            ledger.problem(option, dead, "are dead", "name living brokers")
        if self.mode == "remove-broker" and not cluster.alive.keys() - self.brokers:
            ledger.problem(option, sorted(self.brokers), "are all that live", "keep some")
        if self.factor is not None and self.factor > len(cluster.alive):
            reason = f"is more than the {len(cluster.alive)} living brokers"
            ledger.problem(factor, self.factor, reason, "add brokers first")
        for topic in sorted(self.topics - {partition.topic for partition in cluster.partitions}):
            ledger.problem("--option topics", topic, "is no topic of the cluster")
        ledger.check()

    def targets(self, cluster: Cluster, ledger: Ledger) -> list[Target]:
        """Return the partitions that are touched.

        Raises `InvalidInput`: the operation does not fit the cluster, or changes nothing, with the
            reason.
        """
        self.check(cluster)
        chosen = [p for p in cluster.partitions if not self.topics or p.topic in self.topics]
        why = self._left_alone(cluster, chosen, ledger)
        ready = [p for p in chosen if p.leader in cluster.alive and not p.is_moving]
        ruled = [(p, _RULES[self.mode](self, cluster, p)) for p in ready]
        why += self._skipped(cluster, [p for p, target in ruled if target is None], ledger)
        fit = self._that_fit(cluster, [a for _, a in ruled if a is not None], why, ledger)
        if not fit:
            reasons = dict.fromkeys(reason for reason, _ in why)
            message = "; ".join(["changes no partition", *reasons])
            remedy = "; ".join(dict.fromkeys(remedy for _, remedy in why if remedy))
            remedy = remedy if why else "nothing is to be done"
            raise InvalidInput(Problem("--option mode", self.mode, message, remedy))
        return fit

    def _skipped(
        self, cluster: Cluster, skipped: list[Partition], ledger: Ledger
    ) -> list[tuple[str, str]]:
        """Warn of what the operation is about and cannot do; return reasons and remedies."""
        if self.mode in LEADING_MODES:
            why = self._not_led_by_others(cluster, skipped)
        elif self.mode == "trim":
            untrimmed = [p.name for p in skipped if len(p.replicas) > (self.factor or 0)]
            reason = f"Kafka takes no list with a dead replica: {some(untrimmed)}"
            remedy = f"--option mode=replication-factor --option factor={self.factor} rebuilds it"
            why = [(reason, remedy)] if untrimmed else []
        else:
            return []
        what = {"demote": "not demoted", "trim": "not trimmed"}.get(self.mode, "no other leader")
        for reason, _ in why:
            ledger.warn(f"{what}, {reason}")
        return why

    def _not_led_by_others(
        self, cluster: Cluster, skipped: list[Partition]
    ) -> list[tuple[str, str]]:
        """Return why the first of a list, or its leader, has to stay what it is, and remedies."""
        alone: list[str] = []
        fixed: list[str] = []
        for p in skipped:
            led = {p.leader, p.replicas[0]}
            touched = led & self.brokers if self.mode == "demote" else len(p.replicas) > 1
            if touched:
                barred = self.brokers or led
                heirs = [b for b in cluster.living(p) if b in p.isr and b not in barred]
                (fixed if heirs else alone).append(p.name)
        why = []
        if alone:
            why.append((f"no other living replica can be elected: {some(alone)}", ""))
        if fixed:
            reason = "Kafka takes no other order of a list with a dead replica"
            remedy = "--option mode=dead-broker rebuilds it; then again"
            why.append((f"{reason}: {some(fixed)}", remedy))
        return why

    def _left_alone(
        self, cluster: Cluster, chosen: list[Partition], ledger: Ledger
    ) -> list[tuple[str, str]]:
        """Warn of partitions that cannot be planned; return reasons and remedies."""
        why = []
        if offline := [p for p in chosen if p.leader not in cluster.alive]:
            names = some([p.name for p in offline])
            ledger.warn(f"offline, no living replica leads; not planned: {names}")
            holders = sorted({b for p in offline for b in p.replicas if b not in cluster.alive})
            start = f"start broker {some(holders)} again" if holders else "see the brokers' logs"
            why.append((f"no living replica leads {names}", start))
        if behind := [p.name for p in chosen if len(p.isr) < len(p.replicas) and not p.is_moving]:
            ledger.warn(f"under-replicated (not all replicas are in sync): {some(behind)}")
        if moving := [p for p in chosen if p.is_moving]:
            names = some([p.name for p in moving])
            reason = f"being reassigned, not planned: {names}"
            waits = sorted({b for p in moving for b in p.adding if b not in cluster.alive})
            remedy = "let that end, and import again"
            if waits:
                reason += f"; it does not end while broker {some(waits)} is dead"
                remedy = (
                    "start it again, or take them back with kafka-reassign-partitions.sh --cancel "
                    "--preserve-throttles, and import again"
                )
            ledger.warn(f"{reason}: {remedy}; until then Kafka refuses --execute")
            why.append((reason, remedy))
        onto = [p.name for p in moving if self.brokers & set(p.replicas)]
        if onto and self.mode == "remove-broker":
            ids = some(sorted(self.brokers))
            ledger.warn(f"broker {ids} is not emptied of what is being reassigned: {some(onto)}")
        return why

    def _that_fit(
        self, cluster: Cluster, targets: list[Target], why: list[tuple[str, str]], ledger: Ledger
    ) -> list[Target]:
        """Leave out partitions with more replicas than brokers to be on."""
        fit: list[Target] = []
        names: list[str] = []
        fewest = len(cluster.alive)
        for a in targets:
            every = cluster.takers(a.partition)
            allowed = (every if r.allowed is None else r.allowed for r in a.replicas)
            places = set().union(*allowed)
            if len(places) >= len(a.replicas):
                fit.append(a)
            else:
                names.append(a.partition.name)
                fewest = min(fewest, len(places))
        if names and self.mode == "remove-broker":
            reason = f"cannot be emptied: more replicas than other living brokers: {some(names)}"
            remedy = "lower the replication factor first, or add brokers"
            raise InvalidInput(Problem("--option brokers", sorted(self.brokers), reason, remedy))
        if names:
            ledger.warn(f"more replicas than living brokers; not planned: {some(names)}")
            reason = f"no broker is left that could hold one more replica of {some(names)}"
            lower = f"--option mode=replication-factor --option factor={max(1, fewest)}"
            why.append((reason, f"add a broker, or take fewer replicas: {lower}"))
        return fit


def _spread(
    cluster: Cluster,
    partition: Partition,
    stays: Collection[int],
    targets: Collection[int],
    more: int,
    *,
    preferred: Collection[int] = (),
    moved_apart: bool = True,
) -> tuple[tuple[int, ...], Racks]:
    """Return where replicas may go, and rules, so that racks hold as few of a partition as can be.

    No rack comes to hold more than replicas / racks, rounded up (`Cluster.most_in_a_rack`); one
    that holds more already gets none. Nor are replicas in fewer racks than now.

    `stays`, `targets`: brokers that go on holding a replica, and those of which `more` take one,
        `preferred` first where only some of a rack can.
    `moved_apart`: whether the replicas that are placed are known, so that they can have a rule of
        their own.
    """
    staying = cluster.racks_of(stays)
    free = cluster.racks_of(targets)
    # per rack: replicas that stay, and brokers that could take one
    racks = {rack: (staying[rack], free[rack]) for rack in {**staying, **free}}
    count = len(stays) + more
    limit = least_limit(more, racks, cluster.most_in_a_rack(count))
    most, moved_at_most = max(staying.values(), default=0), None
    chosen = sorted(targets)
    if most > limit:  # a rule for all replicas would let other racks become as full
        room = {rack: max(0, limit - staying[rack]) for rack in racks}
        moved_at_most = max(room.values())
        if moved_apart:
            moved_at_most = least_limit(
                more, {rack: (0, min(room[rack], free[rack])) for rack in racks}
            )
        by_rack: dict[str, list[int]] = {}
        for broker in chosen:
            by_rack.setdefault(cluster.rack_of[broker], []).append(broker)
        chosen = []
        for rack, brokers in by_rack.items():
            # by the partition's number, so that not all partitions get the same brokers of a rack
            at = partition.number % len(brokers)
            turned = sorted(brokers[at:] + brokers[:at], key=lambda b: b not in preferred)
            enough = moved_apart and room[rack] >= moved_at_most
            chosen += turned if enough else turned[: room[rack]]
        limit = most
        moved_at_most = moved_at_most if moved_apart else None
    reached = cluster.racks_of([*stays, *chosen])
    # as many racks as now, as far as brokers and replicas reach
    at_least = min(len(cluster.racks_of(partition.replicas)), len(reached), count)
    return tuple(sorted(chosen)), Racks(limit, moved_at_most, at_least)


def _rebalance(operation: Operation, cluster: Cluster, partition: Partition) -> Target | None:
    """Every replica, anywhere; those on dead brokers and on failed disks must go."""
    takers, count = cluster.takers(partition), len(partition.replicas)
    racks = cluster.racks_of(takers) if partition.lost else cluster.racks
    at_most = cluster.most_in_a_rack(count)
    if partition.lost:
        at_most = least_limit(count, {rack: (0, n) for rack, n in racks.items()}, at_most)
    at_least = min(len(cluster.racks_of(partition.replicas)), len(racks), count)
    anywhere = set() if partition.lost else cluster.alive.keys()
    replicas = [
        Replica(b, b == partition.leader, None if b in anywhere else takers)
        for b in partition.replicas
    ]
    return Target(partition, replicas, Racks(at_most, None, at_least))


def _add(operation: Operation, cluster: Cluster, partition: Partition) -> Target | None:
    """Every replica, onto a new broker or not at all."""
    stays = cluster.living(partition)
    missing = len(partition.replicas) - len(stays)
    # only what was on a dead broker may go anywhere; the rest onto new brokers or nowhere
    some_may = cluster.takers(partition) if missing else sorted(operation.brokers - partition.lost)
    targets = [b for b in some_may if b not in stays]
    takers, rules = _spread(
        cluster, partition, stays, targets, missing, preferred=operation.brokers, moved_apart=False
    )
    new = tuple(sorted({*stays, *(b for b in takers if b in operation.brokers)}))
    every = tuple(sorted({*stays, *takers}))
    replicas = [
        Replica(b, b == partition.leader, new if b in stays else every) for b in partition.replicas
    ]
    return Target(partition, replicas, rules)


def _moved(
    cluster: Cluster,
    partition: Partition,
    leaving: Collection[int],
    new: int = 0,
    given_up: Collection[int] = (),
) -> Target | None:
    """Replicas on `leaving` brokers, and new ones, go to others; the rest stay among themselves."""
    if not leaving and not new:
        return None
    stays = tuple(b for b in partition.replicas if b not in leaving and b not in given_up)
    targets = [b for b in cluster.takers(partition) if b not in stays]
    free, rules = _spread(cluster, partition, stays, targets, len(leaving) + new)
    replicas = [
        Replica(b, b == partition.leader, free if b in leaving else stays)
        for b in partition.replicas
        if b not in given_up
    ]
    return Target(partition, replicas + [Replica(None, False, free)] * new, rules)


def _remove(operation: Operation, cluster: Cluster, partition: Partition) -> Target | None:
    """What is on the named brokers, on dead ones and on failed disks goes elsewhere."""
    living = cluster.living(partition)
    leaving = [b for b in partition.replicas if b not in living or b in operation.brokers]
    touched = operation.brokers & set(partition.replicas)
    return _moved(cluster, partition, leaving) if touched else None


def _rebuild(operation: Operation, cluster: Cluster, partition: Partition) -> Target | None:
    """What is on dead brokers and on failed disks is made anew elsewhere."""
    living = cluster.living(partition)
    return _moved(cluster, partition, [b for b in partition.replicas if b not in living])


def _repair(operation: Operation, cluster: Cluster, partition: Partition) -> Target | None:
    """Of the replicas in a rack those above the most that a rack should hold go to other racks."""
    living = cluster.living(partition)
    most, staying = cluster.most_in_a_rack(len(partition.replicas)), list[int]()
    # the leader first: it stays, others of its rack go
    for broker in sorted(living, key=lambda b: b != partition.leader):
        if cluster.racks_of(staying)[cluster.rack_of[broker]] < most:
            staying.append(broker)
    if len(staying) == len(living):
        return None
    return _moved(cluster, partition, [b for b in partition.replicas if b not in staying])


def _change(operation: Operation, cluster: Cluster, partition: Partition) -> Target | None:
    """More replicas are made, or the least useful ones are given up."""
    more = (operation.factor or 0) - len(partition.replicas)
    if more <= 0:
        return _trim(operation, cluster, partition)
    living = cluster.living(partition)
    leaving = [b for b in partition.replicas if b not in living]
    return _moved(cluster, _with_followers(partition, more), leaving, more)


def _trim(operation: Operation, cluster: Cluster, partition: Partition) -> Target | None:
    """Replicas above the factor are given up: dead ones, doubles of a rack, lagging, the last."""
    # the leader's is never given up, and nothing moves but what is dead
    factor = operation.factor or 0
    less = len(partition.replicas) - factor
    if less <= 0:
        return None
    living, remaining = cluster.living(partition), list(partition.replicas)
    for _ in range(less):
        racks = cluster.racks_of(remaining)

        def worth(broker: int, racks: Counter[str] = racks) -> tuple[int, ...]:
            doubles = racks[cluster.rack_of[broker]] - 1
            return broker in living, -doubles, broker in partition.isr

        remaining.remove(min((b for b in reversed(remaining) if b != partition.leader), key=worth))
    leaving = [b for b in remaining if b not in living]
    if leaving and operation.mode == "trim":
        return None  # Kafka takes no list with a dead broker, and nothing is to move
    fewer, given_up = _with_followers(partition, -less), set(partition.replicas) - set(remaining)
    if leaving:
        return _moved(cluster, fewer, leaving, given_up=given_up)
    replicas = [Replica(b, b == partition.leader, (b,)) for b in remaining]
    return Target(fewer, replicas, Racks(len(remaining)))


def _with_followers(partition: Partition, more: int) -> Partition:
    """The partition with more (or fewer) followers, to which its leader sends."""
    leading = dict(partition.leading)
    if "nw_out" in leading:
        # each follower fetches all that comes in: nw_out grows by nw_in a follower
        added = more * partition.following.get("nw_in", 0.0)
        leading["nw_out"] = max(0.0, leading["nw_out"] + added)
    return replace(partition, leading=leading)


def _lead(operation: Operation, cluster: Cluster, partition: Partition) -> Target | None:
    """Leadership alone: on any living broker in sync."""
    # a list that holds a dead broker cannot be given to Kafka in another order: of such a partition
    # only the first can be elected
    listed = partition.replicas
    living = cluster.living(partition)
    whole = len(living) == len(listed)
    heirs = [b for b in partition.isr if b in living and (whole or b == listed[0])]
    leader = partition.leader
    assert leader is not None  # the others are offline
    places = tuple(sorted({*heirs, leader}))
    if len(places) == 1 and (leader == listed[0] or not whole):
        return None
    return Target(partition, [Replica(leader, True, places)])


def _demote(operation: Operation, cluster: Cluster, partition: Partition) -> Target | None:
    """Leadership alone, off the named brokers, which are to be the first of no list either."""
    if not operation.brokers & {partition.leader, partition.replicas[0]}:
        return None
    target = _lead(operation, cluster, partition)
    if target is None:
        return None
    (replica,) = target.replicas
    heirs = tuple(b for b in replica.allowed or () if b not in operation.brokers)
    # a named broker that is first but does not lead would do so after the next election
    first = partition.leader if partition.leader in operation.brokers else partition.replicas[0]
    whole = len(cluster.living(partition)) == len(partition.replicas)
    barred = first != partition.leader and not whole
    if barred or not heirs:
        return None
    return target._replace(replicas=[Replica(first, True, heirs)])


_RULES: dict[str, Callable[[Operation, Cluster, Partition], Target | None]] = {
    "rebalance": _rebalance,
    "leaders": _lead,
    "add-broker": _add,
    "remove-broker": _remove,
    "dead-broker": _rebuild,
    "demote": _demote,
    "rack-repair": _repair,
    "replication-factor": _change,
    "trim": _trim,
}
MODES = tuple(_RULES)
