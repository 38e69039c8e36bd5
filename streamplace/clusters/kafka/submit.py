"""Carrying a reassignment out on a running Kafka: in steps, throttled, and elected at the end.

All state is Kafka's: a partition is at its planned list, on its way to it, or not begun. So a run
that was killed is continued by the same command, and one that is stopped in order leaves nothing
of its own under way and no throttle.

Rates of throttles are set for all brokers at once (the configuration that they share), not for
each: a dead broker could not be asked to take its own off.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic
from optim.util.store import Lock
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.sources import beside, read_text
from streamplace.clusters.kafka.admin import EVERY, RATES, RECEIVERS, SENDERS, Unreachable
from streamplace.clusters.kafka.cluster import CLUSTER, Key, some
from streamplace.clusters.kafka.exporter import ELECTION, ROLLBACK, reassignment
from streamplace.clusters.kafka.pages import EXPORT, exported, parsed, read_elected
from streamplace.clusters.kafka.verify import KafkaVerdict, Planned, throttles, verify_live
from streamplace.present.numbers import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from contextlib import AbstractContextManager

    from streamplace.clusters.kafka.admin import KafkaAdmin
    from streamplace.clusters.kafka.cluster import Partition

T = TypeVar("T")
AT_A_TIME = 5
"""Partitions that a broker copies at a time."""
_AGAIN = "import and solve again"


@dataclass(frozen=True)
class Reassignment:
    """What a file of `export kafka` asks for, with the files beside it."""

    #: Its name, and the id of the cluster that it is for; empty where not known.
    path: str
    cluster: str
    #: Planned lists, and those that it was made for; ``before`` lacks what is not known.
    lists: Mapping[Key, list[int]]
    before: Mapping[Key, list[int]] = field(default_factory=dict)
    elected: tuple[Key, ...] = ()  # Partitions without a new list whose first replica is to lead.

    @property
    def back(self) -> Reassignment:
        """The way back."""
        keys = [key for key in self.lists if key in self.before]
        lists, before = ({k: source[k] for k in keys} for source in (self.before, self.lists))
        return Reassignment(self.path, self.cluster, lists, before)


def load_reassignment(name: str) -> Reassignment:
    """Read a reassignment, and its rollback and elections where they stand beside it.

    Raises `InvalidInput`: a file is none.
    """
    path = Path(name)
    ledger = Ledger()
    value = parsed(read_text(path), name)
    lists, chosen = exported(value, name)
    before: dict[Key, list[int]] = {}
    rollback, election = beside(path, ROLLBACK), beside(path, ELECTION)
    if rollback.exists():
        content = parsed(read_text(rollback), str(rollback))
        before = read_elected(content, str(rollback), ledger)[0]
    led = list(chosen)
    if election.exists():
        content = parsed(read_text(election), str(election))
        try:
            led += [Key(str(e["topic"]), int(e["partition"])) for e in content["partitions"]]
        except (TypeError, KeyError, ValueError):
            ledger.problem(str(election), None, "is no list of partitions to elect", EXPORT)
    ledger.check()
    elected = tuple(key for key in dict.fromkeys(led) if key not in lists)
    return Reassignment(name, str(value.get(CLUSTER, "")), lists, before, elected)


class Checked(NamedTuple):
    """What is to be done: lists that change, leaders to elect, copies and their bytes.

    `lists` holds every partition of the file, and those that are elected alone with their present
    list.
    """

    lists: dict[Key, list[int]]
    changed: int
    copies: int
    size: float
    before: dict[Key, list[int]]


def target_of(partition: Partition) -> list[int]:
    """Return the list that a partition has once its reassignment has ended."""
    return [b for b in partition.replicas if b not in partition.removing]


def home_of(partition: Partition) -> set[int]:
    """Return the replicas that a partition had before its reassignment, which a cancel restores."""
    return set(partition.replicas) - set(partition.adding)


def _towards(lists: Mapping[Key, list[int]], running: Mapping[Key, Partition]) -> list[Key]:
    """Return the partitions that are on their way to these lists."""
    moving = {key: partition for key, partition in running.items() if partition.is_moving}
    return [key for key, to in lists.items() if key in moving and target_of(moving[key]) == to]


def _check_cluster(admin: KafkaAdmin, plan: Reassignment) -> None:
    cluster = admin.cluster()
    if plan.cluster and plan.cluster != cluster:
        path, reason = f"{plan.path}.{CLUSTER}", f"is of another cluster than {admin.address}"
        raise InvalidInput(
            Problem(path, plan.cluster, f"{reason}, which is {cluster}", "name its brokers")
        )


def check(
    admin: KafkaAdmin, plan: Reassignment, *, undoes: Mapping[Key, list[int]] = {}
) -> Checked:
    """See that a reassignment fits the cluster as it is now; nothing is changed.

    `undoes`: lists towards which partitions may be under way: they are cancelled first.
    Raises `InvalidInput`: it is of another cluster or state, names brokers that are not there or
        dead, or something else is being reassigned.
    """
    ledger, path = Ledger(), plan.path
    _check_cluster(admin, plan)
    brokers, running = admin.brokers(), admin.partitions()
    lists = dict(plan.lists)
    for key in plan.elected:
        if key in running:
            lists[key] = target_of(running[key])
    for key in (*plan.lists, *plan.elected):
        if key not in running:
            ledger.problem(f"{path}: {key}", None, f"is no partition of {admin.address}", _AGAIN)
    for number in sorted({b for key in plan.lists for b in plan.lists[key]}):
        if number not in brokers:
            ledger.problem(path, number, f"is no broker of {admin.address}", _AGAIN)
        elif not brokers[number].alive:
            ledger.problem(path, number, "is a dead broker", f"start it, or {_AGAIN}")
    for key, one in running.items():
        if one.is_moving and target_of(one) not in (plan.lists.get(key), undoes.get(key)):
            wait = sorted({b for b in one.adding if b not in brokers or not brokers[b].alive})
            reason = f"is being reassigned already: {one.replicas}, adding {list(one.adding)}"
            reason += f"; it waits for broker {some(wait)}, which is dead" if wait else ""
            remedy = f"let that end, or `streamplace revert kafka {admin.address} --cancel`"
            ledger.problem(f"{admin.address}: {key}", None, reason, remedy)
    for key, target in plan.lists.items():
        if (described := running.get(key)) is None:
            continue
        before = plan.before.get(key)
        expected = [sorted(entry) for entry in (target, before or target)]  # a cancel reorders
        is_expected = described.is_moving or sorted(described.replicas) in expected
        if before is not None and not is_expected:
            reason = f"is on {described.replicas}, and the file was made for {before}"
            ledger.problem(f"{path}: {key}", None, reason, _AGAIN)
        least = min(described.min_isr or 1, len(home_of(described)))
        if len(target) < least:
            reason = f"is to have {len(target)} replicas, fewer than min.insync.replicas ({least})"
            ledger.problem(f"{path}: {key}", None, reason, "lower min.insync.replicas first")
    ledger.check()
    # bytes to copy: new replicas × the largest replica that is there
    sizes = admin.log_dirs([b for b, entry in brokers.items() if entry.alive], ledger).sizes
    copies = {key: set(to) - set(running[key].replicas) for key, to in plan.lists.items()}
    return Checked(
        lists,
        sum(running[key].replicas != to for key, to in plan.lists.items()),
        sum(map(len, copies.values())),
        sum(len(to) * max(sizes.get(key, {}).values(), default=0) for key, to in copies.items()),
        {key: running[key].replicas for key in plan.lists if not running[key].is_moving}
        | {key: entry for key, entry in plan.before.items() if key in plan.lists},
    )


def alone(cluster: str) -> AbstractContextManager[None]:
    """Let one run at a time change a cluster from this machine, as `Lock.alone`."""
    name = re.sub("[^A-Za-z0-9_-]", "_", cluster)
    path = Path(tempfile.gettempdir(), f"streamplace-kafka-{name}.lock")
    reason = "another streamplace is changing this cluster"
    return Lock(path).alone(Problem(str(path), None, reason, "wait until that ends"))


@dataclass(frozen=True)
class Settings:
    """How a reassignment is carried out."""

    #: Bytes a second that each broker sends, and receives, for new replicas.
    throttle: int | None = None
    at_a_time: int = AT_A_TIME  # Partitions that a broker copies at a time.
    #: Seconds between two looks; that a dead broker, or one that does not answer, is waited for;
    #: and at most in all.
    poll: float = 1.0
    patience: float = 60.0
    wait: float = float("inf")
    say: Callable[[str], None] = field(default=lambda text: None)  # Receives how far it is.
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic


class Outcome(NamedTuple):
    """What holds at the end, and why partitions were given up."""

    verdict: KafkaVerdict
    given_up: dict[Key, str]


def submit(admin: KafkaAdmin, plan: Reassignment, settings: Settings = Settings()) -> Outcome:
    """Carry a reassignment out, or go on with it, and elect the leaders.

    The lists before go into a file beside the plan's unless one is there.

    Raises `InvalidInput`: as `check`, before anything is changed; or Kafka does not answer any
        more.
    """
    with alone(admin.cluster()):
        checked = check(admin, plan)
        rollback = beside(Path(plan.path), ROLLBACK)
        # a run that goes on must not store what an earlier one has changed already
        if not rollback.exists():
            write_atomic(rollback, reassignment(checked.before.items(), admin.cluster()))
        return _Run(admin, checked.lists, checked.before, settings).run()


def revert(admin: KafkaAdmin, plan: Reassignment, settings: Settings = Settings()) -> Outcome:
    """Bring back the lists that were before a plan; what is under way towards it is cancelled.

    Raises `InvalidInput`: as `submit`; the lists before are not known, or none changed.
    """
    if lost := [str(key) for key in plan.lists if key not in plan.before]:
        rollback = str(beside(Path(plan.path), ROLLBACK))
        raise InvalidInput(
            Problem(rollback, None, f"lacks what was before of {some(lost)}", EXPORT)
        )
    if plan.elected:
        # who led before was not the first: Kafka would not elect it under this list
        staying = f"{plural(len(plan.elected), 'leader')} elected without a new list stay: "
        staying += some([str(key) for key in plan.elected])
        if not plan.lists:
            remedy = "import with --option mode=leaders, and plan the leaders anew"
            raise InvalidInput(
                Problem(plan.path, None, f"has no list to bring back; {staying}", remedy)
            )
        settings.say(staying)
    with alone(admin.cluster()):
        checked = check(admin, plan.back, undoes=plan.lists)
        admin.reassign(dict.fromkeys(_towards(plan.lists, admin.partitions())))
        return _Run(admin, checked.lists, checked.before, settings).run()


def cancel(admin: KafkaAdmin, plan: Reassignment | None) -> list[Key]:
    """Cancel what is under way of a plan, or all, and take throttles off; return what was.

    Raises `InvalidInput`: Kafka refuses, or does not answer.
    """
    if plan is not None:
        _check_cluster(admin, plan)
    with alone(admin.cluster()):
        running = admin.partitions()
        every = {key: target_of(partition) for key, partition in running.items()}
        moving = _towards(every if plan is None else plan.lists, running)
        refused = admin.reassign(dict.fromkeys(moving))
        topics = {key.topic for key in (running if plan is None else plan.lists)}
        unthrottle(admin, topics & {key.topic for key in running}, own=True)
    if refused:
        key, why = next(iter(refused.items()))
        raise InvalidInput(Problem(admin.address, str(key), f"is not cancelled: {why}"))
    return moving


def unthrottle(admin: KafkaAdmin, topics: Collection[str], *, own: bool = False) -> None:
    """Take off the rates that all brokers share, lists of topics, and brokers' `own` rates."""
    for kind, configs in throttles(admin, topics, own=own).items():
        admin.alter(kind, {name: dict.fromkeys(keys) for name, keys in configs.items()})


@dataclass
class _Run:
    """One run: what was given up, since when brokers are dead, and what was said last."""

    admin: KafkaAdmin
    lists: dict[Key, list[int]]
    before: dict[Key, list[int]]
    settings: Settings
    given_up: dict[Key, str] = field(default_factory=dict)
    since: dict[object, float] = field(default_factory=dict)
    last_message: str = ""
    throttled: bool = False

    def run(self) -> Outcome:
        try:
            self._loop()
        finally:
            self._end()
        plan = {key: Planned(to, to[0], ordered=True) for key, to in self.lists.items()}
        verdict = self._insist(lambda: verify_live(self.admin, plan, self.admin.partitions()))
        return Outcome(verdict, self.given_up)

    def _loop(self) -> None:
        """Look, act, and wait, until all is as planned or given up."""
        clock, began = self.settings.clock, self.settings.clock()
        while clock() - began <= self.settings.wait:
            if not self._insist(lambda: self._step(clock())):
                return
            self.settings.sleep(self.settings.poll)
        self.settings.say(f"stopped after {self.settings.wait:g} s; the same command goes on")

    def _insist(self, act: Callable[[], T]) -> T:
        """Do what Kafka may not answer at once, as when the broker that is asked has just died."""
        while True:
            try:
                done = act()
            except Unreachable:
                if not self._is_patient("answer", self.settings.clock()):
                    raise
                self.settings.sleep(self.settings.poll)
            else:
                self.since.pop("answer", None)
                return done

    def _is_patient(self, what: object, now: float) -> bool:
        """Whether something has not lasted too long."""
        return now - self.since.setdefault(what, now) < self.settings.patience

    def _step(self, now: float) -> bool:
        """Begin, cancel and elect what can be; whether anything is left to wait for."""
        alive = {b for b, described in self.admin.brokers().items() if described.alive}
        running = self.admin.partitions()
        for broker in alive & self.since.keys():
            del self.since[broker]
        waiting, moving, lagging, led, foreign = (list[Key]() for _ in range(5))
        dead = set[int]()
        for key, to in self.lists.items():
            if key in self.given_up:
                continue
            if (partition := running.get(key)) is None:
                self.given_up[key] = "is not there any more"
                continue
            # a cancel that is not seen yet, or another's
            if partition.is_moving and target_of(partition) != to:
                foreign.append(key)
                if not self._is_patient(("foreign", key), now):
                    self.given_up[key] = "is being reassigned by another"
                continue
            # a partition is at its list, or lags behind it, or is on its way, or has not begun
            at_list = partition.replicas == to and not partition.is_moving
            if at_list and partition.leader != to[0] and to[0] in partition.isr:
                led.append(key)
            elif at_list and not set(to) <= set(partition.isr):
                lagging.append(key)
            elif not at_list:
                (moving if partition.is_moving else waiting).append(key)
            else:
                continue  # as planned
            dead |= set(to) - alive
        stuck = [k for k in (*waiting, *moving, *lagging) if dead & set(self.lists[k])]
        self._give_up(stuck, running, dead, now)
        waiting = [k for k in waiting if k not in self.given_up]
        begun = self._begin(waiting, moving, running, alive, now)
        self.admin.elect(led)
        left = [k for k in (*waiting, *moving, *lagging, *led, *foreign) if k not in self.given_up]
        self._say(len(left), len(moving) + len(begun), dead)
        if left and set(left) <= set(lagging):  # nothing of ours: replicas catch up by themselves
            return self._is_patient("lagging", now)
        self.since.pop("lagging", None)
        return bool(left)

    def _give_up(
        self, keys: list[Key], running: Mapping[Key, Partition], dead: set[int], now: float
    ) -> None:
        """Cancel, or do not begin, what has waited for a dead broker too long."""
        # patience of each dead broker counts from when it was first seen dead
        late = {broker for broker in sorted(dead) if not self._is_patient(broker, now)}
        lost = {k: sorted(late & set(self.lists[k])) for k in keys}
        lost = {k: brokers for k, brokers in lost.items() if brokers}
        self._take_back([k for k in lost if running[k].is_moving], running)
        for key, brokers in lost.items():
            self.given_up[key] = f"broker {some(brokers)} is dead"

    def _take_back(self, keys: list[Key], running: Mapping[Key, Partition]) -> None:
        """Cancel, and bring back the order of the list too: Kafka leaves planned replicas first."""
        self.admin.reassign(dict.fromkeys(keys))
        lists = {k: self.before[k] for k in keys if k in self.before}
        self.admin.reassign({k: to for k, to in lists.items() if set(to) == home_of(running[k])})

    def _begin(
        self,
        keys: list[Key],
        moving: list[Key],
        running: Mapping[Key, Partition],
        alive: set[int],
        now: float,
    ) -> dict[Key, list[int]]:
        """Begin reassignments: no broker gets too many, none falls below its least in sync."""
        # partitions that each broker copies; a step begins as many as leave it below the limit
        copying = Counter(b for key in moving for b in running[key].adding)
        begun: dict[Key, list[int]] = {}
        for key in keys:
            partition, to = running[key], self.lists[key]
            adding = set(to) - set(partition.replicas)
            # replicas in sync once it has ended: new ones are, those that stay are as they are now
            after = len(adding | (set(partition.isr) & set(to)))
            if after < min(partition.min_isr or 1, len(partition.isr)) or not set(to) <= alive:
                continue
            if all(copying[b] < self.settings.at_a_time for b in adding):
                copying.update(adding)
                begun[key] = to
        if begun or moving:
            self._throttle(running, alive)
        for key, why in self.admin.reassign(begun).items():
            begun.pop(key, None)
            if not self._is_patient(("refused", key), now):
                self.given_up[key] = f"Kafka refuses it: {why}"
        return begun

    def _throttle(self, running: Mapping[Key, Partition], alive: set[int]) -> None:
        """Limit the rate of the replicas that are copied, once."""
        if self.settings.throttle is None or self.throttled:
            return
        self.throttled = True
        rates = self.admin.configs("broker", list(map(str, alive)), RATES)
        if with_rate := [name for name, entries in rates.items() if entries]:
            self.settings.say(f"broker {some(with_rate)} has a rate of its own, which goes first")
        pairs: dict[str, tuple[list[str], list[str]]] = {}
        for key, to in self.lists.items():
            partition = running[key]
            new = (set(to) - set(partition.replicas)) | set(partition.adding)
            if new:
                entries = pairs.setdefault(key.topic, ([], []))
                # senders: where the data is now; receivers: the replicas that are new
                entries[0].extend(f"{key.number}:{b}" for b in sorted(home_of(partition)))
                entries[1].extend(f"{key.number}:{b}" for b in sorted(new))
        lists = {t: {SENDERS: ",".join(s), RECEIVERS: ",".join(r)} for t, (s, r) in pairs.items()}
        self.admin.alter("topic", lists)
        self.admin.alter("broker", {EVERY: dict.fromkeys(RATES, str(self.settings.throttle))})

    def _say(self, left: int, moving: int, dead: set[int]) -> None:
        text = f"{len(self.lists) - left - len(self.given_up)} of {len(self.lists)} partitions done"
        text += f", {moving} under way" if moving else ""
        text += f"; waits for broker {some(sorted(dead))}, which is dead" if dead and left else ""
        if text != self.last_message:
            self.last_message = text
            self.settings.say(text)

    def _end(self) -> None:
        """Leave nothing of ours under way, and no throttle."""
        self.since.pop("answer", None)
        try:
            self._insist(self._clean)
        except Unreachable:
            self.settings.say("throttles may be left: the same command takes them off")
            raise

    def _clean(self) -> None:
        running = self.admin.partitions()
        reassignments = _towards(self.lists, running)
        self._take_back(reassignments, running)
        if reassignments:
            self.settings.say(f"{plural(len(reassignments), 'reassignment')} cancelled")
        if self.settings.throttle is not None:
            unthrottle(self.admin, {key.topic for key in self.lists if key in running})
