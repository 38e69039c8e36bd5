"""Cruise Control: replicas on brokers, from its loads of brokers and partitions."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainValidator

from optim.errors import InvalidInput, Problem
from optim.format.read import Fault
from optim.options import Option
from streamplace.clusters.exchange.declarations import Importer, Request
from streamplace.clusters.exchange.pages import (
    MaybeNumber,
    MaybeText,
    Number,
    Page,
    Percent,
    Text,
    Whole,
    as_number,
    read_page,
    words,
)
from streamplace.clusters.exchange.sources import Document, saved_documents
from streamplace.clusters.exchange.web import WebClient, is_url
from streamplace.clusters.kafka import cluster as kafka
from streamplace.clusters.kafka.cluster import some
from streamplace.clusters.kafka.importer import OPERATION, follow, operation_of
from streamplace.clusters.kafka.model import document_of
from streamplace.clusters.kafka.replicas import broker_number

if TYPE_CHECKING:
    from streamplace.clusters.exchange.declarations import Ledger


RESOURCES = ("cpu", "network_in", "network_out", "disk")
UNUSED = words(
    """
    version hosts NumCore Replicas Leaders PnwOutRate DiskPct msg_in brokers doc log_dirs
    BrokerSet IsEstimated Host Leaders topicReplicas recentWindows
    """
)
_DEFAULT = -1
_MOST_REPLICAS = 1000


@dataclass
class Broker:
    """A broker: load and capacity by resource; log dirs that failed, of so many."""

    id: int
    host: str
    rack: str | None
    dead: bool
    load: dict[str, float]
    capacity: dict[str, float | None]
    failed: tuple[str, ...] = ()
    num_dirs: int = 0
    by_dir: bool = False


@dataclass
class Partition:
    """A partition: leader (``None`` while it has none), all replicas, the leader's load.

    `offline` are brokers whose replica of it does not work.
    """

    topic: str
    number: int
    leader: int | None
    replicas: list[int]
    load: dict[str, float]
    path: str
    offline: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """Topic and number, as Kafka writes it."""
        return f"{self.topic}-{self.number}"


# -- the responses ---------------------------------------------------------------------------------


def _leader(value: Any) -> int | None:
    """Return the leader; -1 stands for none."""
    if value is None:
        raise Fault("is missing", "a broker's number is needed")
    return broker_number(value)


def _brokers(value: Any) -> list[int]:
    numbers = [broker_number(item) for item in value] if isinstance(value, list) else [None]
    if any(n is None for n in numbers) or len(numbers) > _MOST_REPLICAS:
        raise Fault("is no list of broker numbers")
    return [n for n in numbers if n is not None]


def _signed(value: Any) -> int:
    number = _DEFAULT if value in (_DEFAULT, str(_DEFAULT)) else broker_number(value)
    if number is None:
        raise Fault("is no broker number", "-1 is the default")
    return number


def _amount(value: Any) -> float | None:
    """Return a capacity."""
    found = as_number(value)
    if found is None and value is not None:
        raise Fault("is no number of at least 0")
    return found


def _disks(value: Any) -> dict[str, float] | None:
    """Return the capacity of disks by log dir; under the empty name where it is that of all."""
    if not isinstance(value, dict):
        whole = _amount(value)
        return None if whole is None else {"": whole}
    return {str(name): _amount(part) or 0.0 for name, part in value.items()}


def _cpu(value: Any) -> float | None:
    """Return a capacity of CPU: a number, or 100 % of the cores named."""
    return 100.0 if isinstance(value, dict) and set(value) == {"num.cores"} else _amount(value)


Brokers = Annotated[list[int], PlainValidator(_brokers)]
Amount = Annotated[float | None, PlainValidator(_amount)]


class _Page(Page):
    unused = UNUSED


class _BrokerLoad(_Page):
    Broker: Whole
    BrokerState: MaybeText = None
    Host: MaybeText = None
    Rack: MaybeText = None
    CpuPct: Percent
    LeaderNwInRate: Number
    FollowerNwInRate: MaybeNumber = None
    NwOutRate: Number
    DiskMB: Number
    NetworkInCapacity: MaybeNumber = None
    NetworkOutCapacity: MaybeNumber = None
    DiskCapacityMB: MaybeNumber = None
    DiskState: Any = None


class LoadPage(_Page):
    """The ``load`` response."""

    brokers: list[_BrokerLoad]


class _PartitionRecord(_Page):
    topic: Text
    partition: Whole
    leader: Annotated[int | None, PlainValidator(_leader)]
    followers: Brokers | None = None
    cpu: Number
    networkInbound: Number
    networkOutbound: Number
    disk: Number


class PartitionLoadPage(_Page):
    """The ``partition_load`` response."""

    records: list[_PartitionRecord]


class _Capacity(_Page):
    CPU: Annotated[float | None, PlainValidator(_cpu)] = None
    NW_IN: Amount = None
    NW_OUT: Amount = None
    DISK: Annotated[dict[str, float] | None, PlainValidator(_disks)] = None


class _BrokerCapacity(_Page):
    brokerId: Annotated[int, PlainValidator(_signed)]
    capacity: _Capacity


class CapacityPage(_Page):
    """A capacity file: numbers in strings; broker -1 stands for all that are not named."""

    brokerCapacities: list[_BrokerCapacity]


class _Offline(_Page):
    unused = UNUSED | words("leader replicas in-sync out-of-sync")
    topic: Text
    partition: Whole
    offline: Brokers


class StatePage(_Page):
    """``kafka_cluster_state?verbose=true``: which replicas are offline."""

    KafkaPartitionState: dict[str, list[_Offline]]


class _Assigned(_Page):
    topic: Text
    partition: Whole
    replicas: Brokers


class AssignmentPage(_Page):
    """Kafka's current assignment, which tells the true order of the replicas."""

    partitions: list[_Assigned]


def add_brokers(page: LoadPage, path: str, ledger: Ledger, brokers: dict[int, Broker]) -> None:
    """Add the brokers of a load response."""
    for i, entry in enumerate(page.brokers):
        number = entry.Broker
        state = (entry.BrokerState or "ALIVE").upper()
        if number in brokers:
            ledger.problem(f"{path}.brokers[{i}].Broker", number, "stands twice")
        failed, num_dirs = _failed_dirs(entry.DiskState)
        if state not in ("ALIVE", "NEW", "DEAD", "BAD_DISKS"):
            ledger.warn(f"broker {number} is {state}: taken as any other")
        if state == "BAD_DISKS" and not failed:
            remedy = "save load?populate_disk_info=true, and kafka_cluster_state?verbose=true"
            ledger.warn(f"broker {number} has failed disks, it is not told which: {remedy}")
        brokers[number] = Broker(
            id=number,
            host=entry.Host or "",
            rack=entry.Rack,
            dead=state == "DEAD" or 0 < num_dirs == len(failed),
            load={
                "cpu": entry.CpuPct,
                "network_in": entry.LeaderNwInRate + (entry.FollowerNwInRate or 0.0),
                "network_out": entry.NwOutRate,
                "disk": entry.DiskMB,
            },
            capacity={
                "cpu": 100.0,
                "network_in": entry.NetworkInCapacity,
                "network_out": entry.NetworkOutCapacity,
                "disk": entry.DiskCapacityMB,
            },
            failed=failed,
            num_dirs=num_dirs,
        )


def _failed_dirs(told: Any) -> tuple[tuple[str, ...], int]:
    """Return the log dirs that ``DiskState`` calls DEAD, and how many there are."""
    dirs = {str(k)[:60]: v for k, v in told.items()} if isinstance(told, dict) else {}
    failed = (
        name for name, disk in dirs.items() if isinstance(disk, dict) and "DEAD" in disk.values()
    )
    return tuple(failed), len(dirs)


def take_offline(page: StatePage, partitions: dict[tuple[str, int], Partition]) -> None:
    """Note which replicas are offline."""
    for entry in itertools.chain(*page.KafkaPartitionState.values()):
        known = partitions.get((entry.topic, entry.partition))
        if known is not None:
            known.offline |= frozenset(entry.offline)


def leave_out_failed(
    brokers: dict[int, Broker], partitions: dict[tuple[str, int], Partition], ledger: Ledger
) -> None:
    """Leave the room of failed disks out of capacities, and say what is lost with them."""
    for number, broker in brokers.items():
        if not broker.failed:
            continue
        told = f"broker {number}: log dir {', '.join(broker.failed[:3])} failed"
        if broker.dead:
            ledger.warn(f"{told}, and it has no other: taken for dead")
            continue
        has = broker.capacity.get("disk")
        if has is not None and not broker.by_dir:
            broker.capacity["disk"] = has * (1 - len(broker.failed) / broker.num_dirs)
        if has is not None:
            told += f", its disk counts {broker.capacity['disk']:,.0f} MB"
        lost = [p.name for p in partitions.values() if number in p.offline]
        which = f"lost with it: {', '.join(lost[:3])}{', …' if len(lost) > 3 else ''}"
        unknown = "which replicas are lost is not told: add kafka_cluster_state?verbose=true"
        ledger.warn(f"{told}; {which if lost else unknown}")


def add_partitions(
    page: PartitionLoadPage,
    path: str,
    ledger: Ledger,
    partitions: dict[tuple[str, int], Partition],
) -> None:
    """Add the partitions of a partition load response."""
    for i, entry in enumerate(page.records):
        topic, number, leader = entry.topic, entry.partition, entry.leader
        if entry.followers is None:
            reason = "is missing: without all replicas a plan could put two on one broker"
            remedy = "a list of broker numbers is needed"
            ledger.problem(f"{path}.records[{i}].followers", None, reason, remedy)
        if (topic, number) in partitions:
            where = f"{path}.records[{i}].partition"
            ledger.problem(where, f"{topic}-{number}", "stands twice")
        followers = [b for b in entry.followers or () if b != leader]
        partitions[topic, number] = Partition(
            topic=topic,
            number=number,
            leader=leader,
            replicas=([] if leader is None else [leader]) + followers,
            load={
                "cpu": entry.cpu,
                "network_in": entry.networkInbound,
                "network_out": entry.networkOutbound,
                "disk": entry.disk,
            },
            path=path,
        )


def take_capacities(
    page: CapacityPage, path: str, ledger: Ledger, brokers: dict[int, Broker]
) -> None:
    """Give brokers the capacities of a file."""
    named: dict[int, dict[str, float]] = {}
    disks: dict[int, dict[str, float]] = {}
    for entry in page.brokerCapacities:
        told = entry.capacity
        amounts = zip(RESOURCES, (told.CPU, told.NW_IN, told.NW_OUT), strict=False)
        named[entry.brokerId] = {name: amount for name, amount in amounts if amount is not None}
        if told.DISK is not None:
            disks[entry.brokerId] = told.DISK
    for number, broker in brokers.items():
        broker.capacity |= {**named.get(_DEFAULT, {}), **named.get(number, {})}
        has = disks.get(number, disks.get(_DEFAULT))
        if has is not None:
            broker.capacity["disk"] = sum(x for d, x in has.items() if d not in broker.failed)
            broker.by_dir = set(broker.failed) <= has.keys()
    unknown = sorted(number for number in named if number not in brokers and number != _DEFAULT)
    if unknown:
        ledger.warn(f"{path} names brokers that the load response lacks: {unknown[:5]}")


def take_order(
    page: AssignmentPage, path: str, ledger: Ledger, partitions: dict[tuple[str, int], Partition]
) -> None:
    """Bring replicas into their true order."""
    for i, entry in enumerate(page.partitions):
        known = partitions.get((entry.topic, entry.partition))
        if known is None:
            continue
        if set(entry.replicas) != set(known.replicas):
            reason = f"differs from the replicas of partition_load {known.replicas}"
            where = f"{path}.partitions[{i}].replicas"
            ledger.problem(where, entry.replicas, reason, "save both at one time")
        known.replicas = entry.replicas


_PREFIX = "kafkacruisecontrol"
_TASK_HEADER = "User-Task-ID"

OPTIONS = (
    *OPERATION,
    Option(
        "balance", "str", "cpu", "the resource that is balanced, listed first",
        choices=(*RESOURCES, kafka.REPLICAS, kafka.LEADERS),
    ),
    Option(
        "wait", "float", 120.0, "seconds to wait for a response that is still computed", minimum=0.0
    ),
)  # fmt: skip


def read(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Make the document of an instance out of broker and partition loads.

    Raises
    ------
    InvalidInput
        A needed document or field is missing, by path.
    """
    operation = operation_of(request.options)
    pages = _fetched(request, ledger)
    files = [source for source in request.sources if not is_url(source)]
    for document in saved_documents(files) if files or not request.sources else ():
        kind = _kind_of(document, ledger)
        if kind is not None:
            pages.append((document.name, read_page(kind, document.value, document.name, ledger)))
    brokers: dict[int, Broker] = {}
    partitions: dict[tuple[str, int], Partition] = {}
    for name, page in pages:
        if isinstance(page, LoadPage):
            add_brokers(page, name, ledger, brokers)
        elif isinstance(page, PartitionLoadPage):
            add_partitions(page, name, ledger, partitions)
    ledger.check()
    partitions = _led(partitions, ledger)
    for name, page in pages:
        if isinstance(page, CapacityPage):
            take_capacities(page, name, ledger, brokers)
        elif isinstance(page, StatePage):
            take_offline(page, partitions)
        elif isinstance(page, AssignmentPage):
            take_order(page, name, ledger, partitions)
    if not brokers:
        ledger.problem("SOURCE", None, "holds no load response: there are no nodes", "save /load")
    if not partitions:
        what = "holds no partition_load response with a partition that has a leader"
        ledger.problem("SOURCE", None, what, "save /partition_load")
    _check_references(brokers, partitions, ledger)
    ledger.check()
    leave_out_failed(brokers, partitions, ledger)
    cluster = _cluster(brokers, partitions, ledger)
    return document_of(cluster, operation, request.options["balance"], ledger)


def _fetched(request: Request, ledger: Ledger) -> list[tuple[str, Any]]:
    """Get both loads of a running Cruise Control; further sources are files."""
    addresses = [s for s in request.sources if is_url(s)]
    if not addresses:
        return []
    if len(addresses) != 1:
        raise InvalidInput(Problem("SOURCE", addresses, "holds several addresses", "name one"))
    base = addresses[0].rstrip("/")
    client = WebClient(base if base.endswith(_PREFIX) else f"{base}/{_PREFIX}", request.timeout)
    wait, found = request.options["wait"], []
    for path, kind, query in (
        ("load", LoadPage, {}),
        ("partition_load", PartitionLoadPage, {"entries": "2147483647"}),
    ):
        value = client.get_computed(path, wait, _TASK_HEADER, json="true", **query)
        if _is_computed(value, path, ledger):
            found.append((path, read_page(kind, value, path, ledger)))
    return found


def _kind_of(document: Document, ledger: Ledger) -> Any:
    """Recognise a file by what it holds; ``None``, noted, for what is no page that is read."""
    value = document.value
    if not isinstance(value, dict):
        ledger.problem(document.name, value, "is not an object", "expected a response as JSON")
        return None
    marks: dict[str, type[Page]] = {
        "records": PartitionLoadPage,
        "brokers": LoadPage,
        "brokerCapacities": CapacityPage,
        "KafkaPartitionState": StatePage,
        "partitions": AssignmentPage,
    }
    found = next((kind for mark, kind in marks.items() if mark in value), None)
    if found is None and _is_computed(value, document.name, ledger):
        ledger.warn(f"{document.name} is no document that is known, and is left out")
    return found


def _is_computed(value: Any, path: str, ledger: Ledger) -> bool:
    """Whether a response is a result; one that is still computed is a problem."""
    if not isinstance(value, dict) or "progress" not in value:
        return True
    reason = "is no result yet: Cruise Control is still computing it"
    remedy = "ask again in a while, or wait longer: --option wait=600"
    ledger.problem(f"{path}.progress", None, reason, remedy)
    return False


def _led(
    partitions: dict[tuple[str, int], Partition], ledger: Ledger
) -> dict[tuple[str, int], Partition]:
    """Return the partitions that have a leader: without one there is nothing that could move."""
    led = {key: p for key, p in partitions.items() if p.leader is not None}
    lost = sorted(partitions.keys() - led.keys())
    if lost:
        names = some([f"{topic}-{number}" for topic, number in lost])
        ledger.warn(f"left out for want of a leader, their load stays where it is: {names}")
    return led


def _check_references(
    brokers: dict[int, Broker], partitions: dict[tuple[str, int], Partition], ledger: Ledger
) -> None:
    for partition in partitions.values():
        unknown = [b for b in partition.replicas if b not in brokers]
        if unknown and brokers:
            ledger.problem(
                f"{partition.path}: {partition.name}",
                unknown,
                "are brokers that the load response lacks",
                "save both responses at one time",
            )
        if len(set(partition.replicas)) < len(partition.replicas):
            ledger.problem(
                f"{partition.path}: {partition.name}", partition.replicas, "lists a broker twice"
            )


def _cluster(
    brokers: dict[int, Broker], partitions: dict[tuple[str, int], Partition], ledger: Ledger
) -> kafka.Cluster:
    """Return the cluster; what no replica explains of a broker's load is the rest of it."""
    cluster = kafka.Cluster(
        name="cruise-control",
        brokers={number: _broker(broker) for number, broker in brokers.items()},
        partitions=[_partition(partition, brokers) for partition in partitions.values()],
        resources=RESOURCES,
        units={"cpu": "percent", "network_in": "KB/s", "network_out": "KB/s", "disk": "MB"},
    )
    explained = {number: dict.fromkeys(RESOURCES, 0.0) for number in brokers}
    for partition in cluster.partitions:
        for number in partition.replicas:
            for resource in RESOURCES:
                explained[number][resource] += partition.load(resource, number == partition.leader)
    for number, broker in brokers.items():
        told = explained[number]
        rest = {r: max(0.0, broker.load[r] - told[r]) for r in RESOURCES}
        cluster.brokers[number].rest = rest
        short = [r for r in RESOURCES if told[r] > broker.load[r] * 1.05 + 1.0]
        if short and not broker.dead:
            ledger.warn(
                f"broker {number}: its replicas have more {short[0]} than it: saved at two times?"
            )
    ledger.reading("background of a broker is its load without that of its replicas")
    return cluster


def _broker(broker: Broker) -> kafka.Broker:
    capacity = {r: c for r, c in broker.capacity.items() if c is not None}
    return kafka.Broker(broker.id, broker.rack, not broker.dead, capacity, host=broker.host)


def _partition(partition: Partition, brokers: dict[int, Broker]) -> kafka.Partition:
    load = partition.load
    into, out = load["network_in"], load["network_out"]
    follows = {
        "cpu": kafka.follower_cpu(load["cpu"], into, out),
        "network_in": into,
        "network_out": 0.0,
        "disk": load["disk"],
    }
    return kafka.Partition(
        partition.topic,
        partition.number,
        partition.replicas,
        partition.leader,
        [b for b in partition.replicas if not brokers[b].dead and b not in partition.offline],
        leading=load,
        following=follows,
        size=load["disk"],
        lost=frozenset(b for b in partition.offline if b in brokers and not brokers[b].dead),
    )


IMPORTER = Importer(
    name="cruise-control",
    summary="Kafka's replicas on brokers, with cpu, network and disk, from Cruise Control",
    sources="the address, or as files the JSON of load and partition_load; also a capacity file "
    "and the current assignment as kafka-reassign-partitions prints it",
    options=OPTIONS,
    read=read,
    follow=follow,
)
