"""Cruise Control's responses, the capacity file and Kafka's assignment, read into plain tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from experiments.interchange.record import Record, as_number, words
from experiments.interchange.replicas import broker_number

if TYPE_CHECKING:
    from experiments.interchange.ledger import Ledger

RESOURCES = ("cpu", "network_in", "network_out", "disk")
UNUSED = words(
    """
    version hosts Replicas Leaders PnwOutRate DiskPct msg_in brokers doc log_dirs
    BrokerSet IsEstimated Host Leaders topicReplicas recentWindows
    """
)
_DEFAULT = -1
_CAPACITY_KEYS = {"cpu": "CPU", "network_in": "NW_IN", "network_out": "NW_OUT", "disk": "DISK"}
_MOST_REPLICAS = 1000


@dataclass
class Broker:
    """A broker: load and capacity by resource; `led` is the load of the partitions it leads."""

    id: int
    host: str
    rack: str | None
    dead: bool
    load: dict[str, float]
    capacity: dict[str, float | None]
    led: dict[str, float] = field(default_factory=dict)


@dataclass
class Partition:
    """A partition: leader (``None`` while it has none), all replicas, the leader's load."""

    topic: str
    number: int
    leader: int | None
    replicas: list[int]
    load: dict[str, float]
    path: str

    @property
    def name(self) -> str:
        """Topic and number, as Kafka writes it."""
        return f"{self.topic}-{self.number}"


def read_brokers(value: Any, path: str, ledger: Ledger, brokers: dict[int, Broker]) -> None:
    """Read the ``load`` response."""
    page = Record(value, path, ledger, UNUSED)
    for entry in page.records("brokers", needed=True):
        number = entry.whole("Broker")
        state = (entry.maybe_text("BrokerState") or "ALIVE").upper()
        if number in brokers:
            ledger.problem(entry.where("Broker"), number, "stands twice")
        if state not in ("ALIVE", "NEW", "DEAD"):
            ledger.warn(f"broker {number} is {state}: taken as any other")
        leader, follower = (
            entry.number("LeaderNwInRate"),
            entry.maybe_number("FollowerNwInRate") or 0.0,
        )
        brokers[number] = Broker(
            id=number,
            host=entry.maybe_text("Host") or "",
            rack=entry.maybe_text("Rack"),
            dead=state == "DEAD",
            load={
                "cpu": _needed_percent(entry, ledger),
                "network_in": leader + follower,
                "network_out": entry.number("NwOutRate"),
                "disk": entry.number("DiskMB"),
            },
            capacity={
                "cpu": 100.0,
                "network_in": entry.maybe_number("NetworkInCapacity"),
                "network_out": entry.maybe_number("NetworkOutCapacity"),
                "disk": entry.maybe_number("DiskCapacityMB"),
            },
        )
        _ = entry.raw("NumCore")
    page.close()


def _needed_percent(entry: Record, ledger: Ledger) -> float:
    found = entry.maybe_percent("CpuPct")
    if found is None:
        value = entry.raw("CpuPct")
        reason = "is missing" if value is None else "is no percentage"
        ledger.problem(entry.where("CpuPct"), value, reason, "a number of at least 0 is needed")
        return 0.0
    return found


def read_partitions(
    value: Any, path: str, ledger: Ledger, partitions: dict[tuple[str, int], Partition]
) -> None:
    """Read the ``partition_load`` response."""
    page = Record(value, path, ledger, UNUSED)
    for entry in page.records("records", needed=True):
        topic, number = entry.text("topic"), entry.whole("partition")
        leader = broker_number(entry.raw("leader"))
        if "leader" not in entry:
            ledger.problem(entry.where("leader"), None, "is missing", "a broker's number is needed")
        followers = _broker_list(entry, "followers", ledger)
        if (topic, number) in partitions:
            ledger.problem(entry.where("partition"), f"{topic}-{number}", "stands twice")
        partitions[topic, number] = Partition(
            topic=topic,
            number=number,
            leader=leader,
            replicas=([] if leader is None else [leader]) + [b for b in followers if b != leader],
            load={
                "cpu": entry.number("cpu"),
                "network_in": entry.number("networkInbound"),
                "network_out": entry.number("networkOutbound"),
                "disk": entry.number("disk"),
            },
            path=path,
        )
    page.close()


def add_led_load(brokers: dict[int, Broker], partitions: dict[tuple[str, int], Partition]) -> None:
    """Add the partitions' loads up by leader."""
    for partition in partitions.values():
        broker = brokers.get(partition.leader) if partition.leader is not None else None
        if broker is not None:
            for resource, load in partition.load.items():
                broker.led[resource] = broker.led.get(resource, 0.0) + load


def read_capacities(value: Any, path: str, ledger: Ledger, brokers: dict[int, Broker]) -> None:
    """Read a capacity file: numbers in strings; broker -1 stands for all that are not named."""
    page = Record(value, path, ledger, UNUSED)
    named: dict[int, dict[str, float]] = {}
    for entry in page.records("brokerCapacities", needed=True):
        number = _signed(entry.raw("brokerId"))
        if number is None:
            shown = entry.raw("brokerId")
            ledger.problem(
                entry.where("brokerId"), shown, "is no broker number", "-1 is the default"
            )
            continue
        capacity = entry.record("capacity")
        if capacity is None:
            ledger.problem(entry.where("capacity"), None, "is missing", "add it")
            continue
        named[number] = {
            resource: amount
            for resource, key in _CAPACITY_KEYS.items()
            if (amount := _capacity(capacity, key, ledger)) is not None
        }
        capacity.close()
    page.close()
    for number, broker in brokers.items():
        for resource, amount in {**named.get(_DEFAULT, {}), **named.get(number, {})}.items():
            broker.capacity[resource] = amount
    unknown = sorted(number for number in named if number not in brokers and number != _DEFAULT)
    if unknown:
        ledger.warn(f"{path} names brokers that the load response lacks: {unknown[:5]}")


def _capacity(capacity: Record, key: str, ledger: Ledger) -> float | None:
    """Return a capacity: a number, per log directory added up, or 100 % of the cores named."""
    value = capacity.raw(key)
    if isinstance(value, dict):
        if key == "CPU" and set(value) == {"num.cores"}:
            return 100.0
        value = sum(as_number(part) or 0.0 for part in value.values())
    found = as_number(value)
    if found is None and value is not None:
        ledger.problem(capacity.where(key), value, "is no number of at least 0")
    return found


def read_assignment(
    value: Any, path: str, ledger: Ledger, partitions: dict[tuple[str, int], Partition]
) -> None:
    """Read Kafka's current assignment, which tells the true order of the replicas."""
    page = Record(value, path, ledger, UNUSED)
    for entry in page.records("partitions", needed=True):
        topic, number = entry.text("topic"), entry.whole("partition")
        replicas = _broker_list(entry, "replicas", ledger)
        known = partitions.get((topic, number))
        if known is None:
            continue
        if set(replicas) != set(known.replicas):
            reason = f"differs from the replicas of partition_load {known.replicas}"
            ledger.problem(entry.where("replicas"), replicas, reason, "save both at one time")
        known.replicas = replicas
    page.close()


def _broker_list(entry: Record, name: str, ledger: Ledger) -> list[int]:
    value = entry.raw(name)
    if value is None and name not in entry.keys():  # noqa: SIM118
        reason = "is missing: without all replicas a plan could put two on one broker"
        ledger.problem(entry.where(name), None, reason, "a list of broker numbers is needed")
        return []
    numbers = [broker_number(item) for item in value] if isinstance(value, list) else [None]
    if any(n is None for n in numbers) or len(numbers) > _MOST_REPLICAS:
        ledger.problem(entry.where(name), value, "is no list of broker numbers")
        return []
    return [n for n in numbers if n is not None]


def _signed(value: Any) -> int | None:
    return _DEFAULT if value in (_DEFAULT, str(_DEFAULT)) else broker_number(value)
