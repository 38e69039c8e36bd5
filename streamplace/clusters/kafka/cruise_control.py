"""Cruise Control: replicas on brokers, from its loads of brokers and partitions."""

from __future__ import annotations

import itertools
from typing import Annotated, Any

from pydantic import PlainValidator

from optim.errors import InvalidInput, Problem
from optim.format.document import Fault
from optim.plugins import Option
from streamplace.clusters.exchange.declarations import Importer, Ledger, Request
from streamplace.clusters.exchange.pages import (
    Amount,
    MaybeNumber,
    MaybeText,
    Number,
    Page,
    Percent,
    Text,
    Whole,
    as_amount,
    kind_by_field,
    read_page,
    words,
)
from streamplace.clusters.exchange.sources import (
    Document,
    WebClient,
    is_url,
    saved_documents,
    site_of,
)
from streamplace.clusters.kafka.cluster import (
    COUNT,
    LEADERS,
    Broker,
    Cluster,
    Key,
    Partition,
    follower_cpu,
    some,
)
from streamplace.clusters.kafka.importer import OPERATION, follow, operation_of
from streamplace.clusters.kafka.model import document_of
from streamplace.clusters.kafka.pages import AssignmentPage, broker_number, brokers_in

RESOURCES = ("cpu", "network_in", "network_out", "disk")
UNITS = {"cpu": "percent", "network_in": "KB/s", "network_out": "KB/s", "disk": "MB"}
UNUSED = words(
    """
    version hosts NumCore Replicas Leaders PnwOutRate DiskPct msg_in brokers doc log_dirs
    BrokerSet IsEstimated Host Leaders topicReplicas recentWindows
    """
)
_DEFAULT = -1
_PREFIX = "/kafkacruisecontrol"
_TASK_HEADER = "User-Task-ID"

OPTIONS = (
    *OPERATION,
    Option(
        "balance", "str", "cpu", "the resource that is balanced, listed first",
        choices=(*RESOURCES, COUNT, LEADERS),
    ),
    Option(
        "wait", "float", 120.0, "seconds to wait for a response that is still computed", minimum=0.0
    ),
)  # fmt: skip


# -- the responses ---------------------------------------------------------------------------------
Brokers = Annotated[list[int], PlainValidator(brokers_in)]


def _leader(value: Any) -> int | None:
    """Return the leader; -1 stands for none."""
    if value is None:
        raise Fault("is missing", "a broker's number is needed")
    return broker_number(value)


def _signed(value: Any) -> int:
    number = _DEFAULT if value in (_DEFAULT, str(_DEFAULT)) else broker_number(value)
    if number is None:
        raise Fault("is no broker number", "-1 is the default")
    return number


def _disks(value: Any) -> dict[str, float] | None:
    """Return the capacity of disks by log dir; under the empty name where it is that of all."""
    if not isinstance(value, dict):
        whole = as_amount(value)
        return None if whole is None else {"": whole}
    return {str(name): as_amount(part) or 0.0 for name, part in value.items()}


def _cpu(value: Any) -> float | None:
    """Return a capacity of CPU: a number, or 100 % of the cores named."""
    return 100.0 if isinstance(value, dict) and set(value) == {"num.cores"} else as_amount(value)


class _Page(Page):
    unused = UNUSED


class BrokerLoad(_Page):
    """A broker of the ``load`` response."""

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

    @property
    def state(self) -> str:
        """Its state in capitals; one that reports none is alive."""
        return (self.BrokerState or "ALIVE").upper()

    @property
    def dirs(self) -> dict[str, bool]:
        """Its log dirs, and whether each is called DEAD."""
        states = self.DiskState if isinstance(self.DiskState, dict) else {}
        return {
            str(k)[:60]: isinstance(v, dict) and "DEAD" in v.values() for k, v in states.items()
        }

    @property
    def failed(self) -> list[str]:
        """Log dirs that failed."""
        return [name for name, dead in self.dirs.items() if dead]

    @property
    def dead(self) -> bool:
        """Whether it is dead, or as good as that: all of its disks failed."""
        return self.state == "DEAD" or 0 < len(self.dirs) == len(self.failed)

    @property
    def load(self) -> dict[str, float]:
        """Its load by resource."""
        into = self.LeaderNwInRate + (self.FollowerNwInRate or 0.0)
        amounts = (self.CpuPct, into, self.NwOutRate, self.DiskMB)
        return dict(zip(RESOURCES, amounts, strict=True))

    @property
    def capacity(self) -> dict[str, float]:
        """Its capacity by resource, as far as it is reported."""
        # CpuPct is of the broker's whole CPU
        amounts = (100.0, self.NetworkInCapacity, self.NetworkOutCapacity, self.DiskCapacityMB)
        return {r: x for r, x in zip(RESOURCES, amounts, strict=True) if x is not None}


class LoadPage(_Page):
    """The ``load`` response."""

    brokers: list[BrokerLoad]


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

    @property
    def reported(self) -> dict[str, float]:
        """Amounts that are reported, but for disk."""
        amounts = zip(RESOURCES, (self.CPU, self.NW_IN, self.NW_OUT), strict=False)
        return {name: amount for name, amount in amounts if amount is not None}


class _BrokerCapacity(_Page):
    brokerId: Annotated[int, PlainValidator(_signed)]
    capacity: _Capacity


class CapacityPage(_Page):
    """A capacity file: numbers in strings; broker -1 stands for all that are not named."""

    brokerCapacities: list[_BrokerCapacity]

    @property
    def entries(self) -> list[_BrokerCapacity]:
        """Its entries, those for all brokers first."""
        return sorted(self.brokerCapacities, key=lambda entry: entry.brokerId != _DEFAULT)


class _Offline(_Page):
    unused = UNUSED | words("leader replicas in-sync out-of-sync")
    topic: Text
    partition: Whole
    offline: Brokers


class StatePage(_Page):
    """``kafka_cluster_state?verbose=true``: which replicas are offline."""

    KafkaPartitionState: dict[str, list[_Offline]]


# -- from pages to a cluster -----------------------------------------------------------------------


def read(request: Request, ledger: Ledger) -> dict[str, Any]:
    """As `Importer.read`, of the loads of brokers and partitions."""
    operation = operation_of(request.options)
    pages = _fetched(request, ledger)
    files = [source for source in request.sources if not is_url(source)]
    for document in saved_documents(files) if files or not request.sources else ():
        kind = _kind_of(document, ledger)
        if kind is not None:
            pages.append((document.name, read_page(kind, document.value, document.name, ledger)))
    loads: dict[int, BrokerLoad] = {}
    listed: dict[Key, Partition] = {}
    for name, page in pages:
        if isinstance(page, LoadPage):
            _add_brokers(page, name, loads, ledger)
        elif isinstance(page, PartitionLoadPage):
            _add_partitions(page, name, listed, ledger)
    ledger.check()
    # without a leader there is nothing that could move
    partitions = {key: p for key, p in listed.items() if p.leader is not None}
    if lost := sorted(listed.keys() - partitions.keys()):
        ledger.warn(f"left out for want of a leader, their load stays where it is: {some(lost)}")
    brokers = _brokers(pages, loads, ledger)
    for name, page in pages:
        if isinstance(page, StatePage):
            for entry in itertools.chain(*page.KafkaPartitionState.values()):
                if affected := partitions.get(Key(entry.topic, entry.partition)):
                    affected.lost |= frozenset(entry.offline)
        elif isinstance(page, AssignmentPage):
            _take_order(page, name, partitions, ledger)
    _check(pages, brokers, partitions, ledger)
    _warn_of_failed(loads, brokers, partitions, ledger)
    for partition in partitions.values():
        alive = [b for b in partition.replicas if brokers[b].alive]
        # Cruise Control reports no ISR: living replicas on disks that work count as in sync
        partition.isr = [b for b in alive if b not in partition.lost]
        partition.lost = frozenset(b for b in partition.lost if b in brokers and brokers[b].alive)
    cluster = Cluster("cruise-control", brokers, list(partitions.values()), RESOURCES, UNITS)
    _leave_rest(cluster, ledger)
    return document_of(cluster, operation, request.options["balance"], ledger)


def _brokers(
    pages: list[tuple[str, Any]], loads: dict[int, BrokerLoad], ledger: Ledger
) -> dict[int, Broker]:
    """Return brokers with the capacities that a file gives to each, or to all."""
    capacities = [
        entry for _, page in pages if isinstance(page, CapacityPage) for entry in page.entries
    ]
    if unknown := sorted({entry.brokerId for entry in capacities} - loads.keys() - {_DEFAULT}):
        ledger.warn(f"a capacity file names brokers that the load response lacks: {unknown[:5]}")
    brokers = {}
    for number, load in loads.items():
        own = [e.capacity for e in capacities if e.brokerId in (_DEFAULT, number)]
        fields = (load.Rack, not load.dead, _capacity(load, own), load.load, load.Host or "")
        brokers[number] = Broker(number, *fields)
    return brokers


def _check(
    pages: list[tuple[str, Any]],
    brokers: dict[int, Broker],
    partitions: dict[Key, Partition],
    ledger: Ledger,
) -> None:
    """Refuse pages without brokers or partitions, and partitions that contradict the brokers."""
    if not brokers:
        ledger.problem("SOURCE", None, "holds no load response: there are no nodes", "save /load")
    if not partitions:
        what = "holds no partition_load response with a partition that has a leader"
        ledger.problem("SOURCE", None, what, "save /partition_load")
    path = ", ".join(name for name, page in pages if isinstance(page, PartitionLoadPage))
    for partition in partitions.values():
        where = f"{path}: {partition.name}"
        unknown = [b for b in partition.replicas if b not in brokers]
        if unknown and brokers:
            reason = "are brokers that the load response lacks"
            ledger.problem(where, unknown, reason, "save both responses at one time")
        if len(set(partition.replicas)) < len(partition.replicas):
            ledger.problem(where, partition.replicas, "lists a broker twice")
    ledger.check()


def _fetched(request: Request, ledger: Ledger) -> list[tuple[str, Any]]:
    """Get both loads of a running Cruise Control; further sources are files."""
    addresses = [s for s in request.sources if is_url(s)]
    if len(addresses) > 1:
        raise InvalidInput(Problem("SOURCE", addresses, "holds several addresses", "name one"))
    if not addresses:
        return []
    client = WebClient(site_of(addresses[0], _PREFIX), request.timeout)
    wait, pages = request.options["wait"], []
    for path, kind, query in (
        ("load", LoadPage, {}),
        # entries: how many of the most loaded are listed; the largest int is all
        ("partition_load", PartitionLoadPage, {"entries": "2147483647"}),
    ):
        value = client.get_computed(path, wait, _TASK_HEADER, json="true", **query)
        if _is_computed(value, path, ledger):
            pages.append((path, read_page(kind, value, path, ledger)))
    return pages


def _kind_of(document: Document, ledger: Ledger) -> Any:
    """Recognise a file by what it holds; ``None``, noted, for what is no page that is read."""
    marks: dict[str, Any] = {
        "records": PartitionLoadPage,
        "brokers": LoadPage,
        "brokerCapacities": CapacityPage,
        "KafkaPartitionState": StatePage,
        "partitions": AssignmentPage,
    }
    kind = kind_by_field(document, marks, "expected a response as JSON", ledger)
    name, value = document
    if kind is None and isinstance(value, dict) and _is_computed(value, name, ledger):
        ledger.warn(f"{name} is no document that is known, and is left out")
    return kind


def _is_computed(value: Any, path: str, ledger: Ledger) -> bool:
    """Whether a response is a result; one that is still computed is a problem."""
    if not isinstance(value, dict) or "progress" not in value:
        return True
    reason = "is no result yet: Cruise Control is still computing it"
    remedy = "ask again in a while, or wait longer: --option wait=600"
    ledger.problem(f"{path}.progress", None, reason, remedy)
    return False


def _add_brokers(page: LoadPage, path: str, loads: dict[int, BrokerLoad], ledger: Ledger) -> None:
    for i, entry in enumerate(page.brokers):
        number = entry.Broker
        if number in loads:
            ledger.problem(f"{path}.brokers[{i}].Broker", number, "stands twice")
        if entry.state not in ("ALIVE", "NEW", "DEAD", "BAD_DISKS"):
            ledger.warn(f"broker {number} is {entry.state}: taken as any other")
        if entry.state == "BAD_DISKS" and not entry.failed:
            remedy = "save load?populate_disk_info=true, and kafka_cluster_state?verbose=true"
            ledger.warn(f"broker {number} has failed disks, which is not reported: {remedy}")
        loads[number] = entry


def _add_partitions(
    page: PartitionLoadPage, path: str, partitions: dict[Key, Partition], ledger: Ledger
) -> None:
    for i, entry in enumerate(page.records):
        key, leader = Key(entry.topic, entry.partition), entry.leader
        if entry.followers is None:
            reason = "is missing: without all replicas a plan could put two on one broker"
            remedy = "a list of broker numbers is needed"
            ledger.problem(f"{path}.records[{i}].followers", None, reason, remedy)
        if key in partitions:
            ledger.problem(f"{path}.records[{i}].partition", str(key), "stands twice")
        into, out = entry.networkInbound, entry.networkOutbound
        follows = follower_cpu(entry.cpu, into, out)
        partitions[key] = Partition(
            *key,
            replicas=[
                *([] if leader is None else [leader]),
                *(b for b in entry.followers or () if b != leader),
            ],
            leader=leader,
            isr=[],
            leading=dict(zip(RESOURCES, (entry.cpu, into, out, entry.disk), strict=True)),
            following=dict(zip(RESOURCES, (follows, into, 0.0, entry.disk), strict=True)),
            size=entry.disk,
        )


def _capacity(load: BrokerLoad, entries: list[_Capacity]) -> dict[str, float]:
    """Return the capacity of a broker without its failed disks."""
    # `entries`: what capacity files have of it, each before those that replace it. Where they give
    # no size of a failed disk, disks are taken as equal
    capacity, failed, disks = load.capacity, load.failed, None
    for entry in entries:
        capacity |= entry.reported
        disks = entry.DISK if disks is None or entry.DISK is not None else disks
    if disks is not None:
        capacity["disk"] = sum(size for name, size in disks.items() if name not in failed)
    # sizes of the failed disks are unknown: all disks count as equal
    if "disk" in capacity and failed and not set(failed) <= (disks or {}).keys():
        capacity["disk"] *= 1 - len(failed) / len(load.dirs)
    return capacity


def _take_order(
    page: AssignmentPage, path: str, partitions: dict[Key, Partition], ledger: Ledger
) -> None:
    """Bring replicas into their true order."""
    for i, entry in enumerate(page.partitions):
        partition = partitions.get(Key(entry.topic, entry.partition))
        if partition is None:
            continue
        if set(entry.replicas) != set(partition.replicas):
            reason = f"differs from the replicas of partition_load {partition.replicas}"
            where = f"{path}.partitions[{i}].replicas"
            ledger.problem(where, entry.replicas, reason, "save both at one time")
        partition.replicas = entry.replicas


def _warn_of_failed(
    loads: dict[int, BrokerLoad],
    brokers: dict[int, Broker],
    partitions: dict[Key, Partition],
    ledger: Ledger,
) -> None:
    """Say which disks failed, and what is lost with them."""
    for number, load in loads.items():
        if not load.failed:
            continue
        text = f"broker {number}: log dir {some(load.failed)} failed"
        if load.dead:
            ledger.warn(f"{text}, and it has no other: taken for dead")
            continue
        if (room := brokers[number].capacity.get("disk")) is not None:
            text += f", its disk counts {room:,.0f} MB"
        lost = [p.name for p in partitions.values() if number in p.lost]
        unknown = "which replicas are lost is not reported: add kafka_cluster_state?verbose=true"
        ledger.warn(f"{text}; {f'lost with it: {some(lost)}' if lost else unknown}")


def _leave_rest(cluster: Cluster, ledger: Ledger) -> None:
    """Leave to brokers, as the rest of their load, what no replica explains."""
    explained = {number: dict.fromkeys(RESOURCES, 0.0) for number in cluster.brokers}
    for partition in cluster.partitions:
        for number in partition.replicas:
            for resource in RESOURCES:
                explained[number][resource] += partition.load(resource, number == partition.leader)
    for number, broker in cluster.brokers.items():
        of_replicas, load = explained[number], broker.rest
        broker.rest = {r: max(0.0, load[r] - of_replicas[r]) for r in RESOURCES}
        # 5 % and one unit: rounding of the two responses
        short = [r for r in RESOURCES if of_replicas[r] > load[r] * 1.05 + 1.0]
        if short and broker.alive:
            ledger.warn(
                f"broker {number}: its replicas have more {short[0]} than it: saved at two times?"
            )
    ledger.reading("background of a broker is its load without that of its replicas")


IMPORTER = Importer(
    name="cruise-control",
    summary="Kafka's replicas on brokers, with cpu, network and disk, from Cruise Control",
    sources="the address, or as files the JSON of load and partition_load; also a capacity file "
    "and the current assignment as kafka-reassign-partitions prints it",
    options=OPTIONS,
    read=read,
    follow=follow,
)
