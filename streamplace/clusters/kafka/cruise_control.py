"""Cruise Control: replicas on brokers, from its loads of brokers and partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim.options import Option
from streamplace.clusters.exchange.declarations import Importer, Request
from streamplace.clusters.exchange.sources import (
    JSON_ENDINGS,
    Document,
    documents_of,
    files_of,
    read_documents,
)
from streamplace.clusters.exchange.web import WebClient, is_url
from streamplace.clusters.kafka import cluster as kafka
from streamplace.clusters.kafka.cruise_control_reading import (
    RESOURCES,
    Broker,
    Partition,
    leave_out_failed,
    read_assignment,
    read_brokers,
    read_capacities,
    read_offline,
    read_partitions,
)
from streamplace.clusters.kafka.folder import some
from streamplace.clusters.kafka.following import follow
from streamplace.clusters.kafka.importer import OPERATION, operation_of
from streamplace.clusters.kafka.model import document_of

if TYPE_CHECKING:
    from streamplace.clusters.exchange.ledger import Ledger

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
    documents = documents_of(request.sources, lambda: _download(request))
    brokers: dict[int, Broker] = {}
    partitions: dict[tuple[str, int], Partition] = {}
    later = []
    for document in documents:
        value = document.value
        if not isinstance(value, dict):
            ledger.problem(document.name, value, "is not an object", "expected a response as JSON")
        elif "brokers" in value and "records" not in value:
            read_brokers(value, document.name, ledger, brokers)
        elif "records" in value:
            read_partitions(value, document.name, ledger, partitions)
        elif "progress" in value:
            reason = "is no result yet: Cruise Control is still computing it"
            remedy = "ask again in a while, or wait longer: --option wait=600"
            ledger.problem(f"{document.name}.progress", None, reason, remedy)
        elif value.keys() & {"brokerCapacities", "partitions", "KafkaPartitionState"}:
            later.append(document)
        else:
            ledger.warn(f"{document.name} is no document that is known, and is left out")
    ledger.check()
    partitions = _led(partitions, ledger)
    for document in later:
        if "brokerCapacities" in document.value:
            read_capacities(document.value, document.name, ledger, brokers)
        elif "KafkaPartitionState" in document.value:
            read_offline(document.value, document.name, ledger, partitions)
        else:
            read_assignment(document.value, document.name, ledger, partitions)
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


def _download(request: Request) -> list[Document]:
    """Get both loads of a running Cruise Control; further sources are files."""
    addresses = [s for s in request.sources if is_url(s)]
    from optim.errors import InvalidInput, Problem

    if len(addresses) != 1:
        raise InvalidInput(Problem("SOURCE", addresses, "holds several addresses", "name one"))
    base = addresses[0].rstrip("/")
    client = WebClient(base if base.endswith(_PREFIX) else f"{base}/{_PREFIX}", request.timeout)
    wanted = {"load": {}, "partition_load": {"entries": "2147483647"}}
    found = [
        Document(
            path,
            client.get_computed(path, request.options["wait"], _TASK_HEADER, json="true", **query),
        )
        for path, query in wanted.items()
    ]
    files = [s for s in request.sources if not is_url(s)]
    return found + read_documents(files_of(files, JSON_ENDINGS))


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
