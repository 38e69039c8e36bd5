"""Cruise Control: brokers as nodes, partitions as tasks; what moves is the leader's replica."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.interchange.declaring import Importer, Request
from experiments.interchange.importers.cruise_control_reading import (
    RESOURCES,
    Broker,
    Partition,
    add_led_load,
    read_assignment,
    read_brokers,
    read_capacities,
    read_partitions,
)
from experiments.interchange.replicas import REPLICAS, Sites, labelled_brokers, replaced
from experiments.interchange.sources import (
    JSON_ENDINGS,
    Document,
    documents_of,
    files_of,
    read_documents,
)
from experiments.interchange.web import WebClient, is_url
from experiments.interchange.weighing import weigh
from optim.format.document import INSTANCE_FORMAT
from optim.options import Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from experiments.interchange.ledger import Ledger

_PREFIX = "kafkacruisecontrol"
_TASK_HEADER = "User-Task-ID"
_NAMED = 3
MOST_ALLOWED = 40_000_000
"""Entries of all lists of allowed brokers together."""

OPTIONS = (
    Option("rack_aware", "bool", False, "keep a leader out of the racks that hold another replica"),
    Option(
        "balance", "str", "cpu", "the resource that is balanced, listed first", choices=RESOURCES
    ),
    Option(
        "wait", "float", 120.0, "seconds to wait for a response that is still computed", minimum=0.0
    ),
)


def read(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Make the document of an instance out of broker and partition loads.

    Raises
    ------
    InvalidInput
        A needed document or field is missing, by path.
    """
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
        elif "brokerCapacities" in value or "partitions" in value:
            later.append(document)
        else:
            ledger.warn(f"{document.name} is no document that is known, and is left out")
    ledger.check()
    partitions = _led(partitions, ledger)
    for document in later:
        if "brokerCapacities" in document.value:
            read_capacities(document.value, document.name, ledger, brokers)
        else:
            read_assignment(document.value, document.name, ledger, partitions)
    if not brokers:
        ledger.problem("SOURCE", None, "holds no load response: there are no nodes", "save /load")
    if not partitions:
        what = "holds no partition_load response with a partition that has a leader"
        ledger.problem("SOURCE", None, what, "save /partition_load")
    _check_references(brokers, partitions, ledger)
    ledger.check()
    add_led_load(brokers, partitions)
    return _document(brokers, partitions, request.options, ledger)


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
        names = ", ".join(f"{topic}-{number}" for topic, number in lost[:_NAMED])
        more = f", … ({len(lost):,} in all)" if len(lost) > _NAMED else ""
        ledger.warn(f"left out for want of a leader, their load stays where it is: {names}{more}")
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


def _document(
    brokers: dict[int, Broker],
    partitions: dict[tuple[str, int], Partition],
    options: Any,
    ledger: Ledger,
) -> dict[str, Any]:
    first = options["balance"]
    resources = [first, *(r for r in RESOURCES if r != first)]
    nodes = [_node(b, ledger) for b in brokers.values()]
    weigh(nodes, first, ledger)
    sites = Sites.of(nodes, options["rack_aware"])
    tasks, entries = [], 0
    for partition in partitions.values():
        leader = partition.leader
        assert leader is not None  # the others are left out
        allowed = sites.allowed(partition.replicas, leader)
        entries += len(allowed or ())
        if entries > MOST_ALLOWED:
            reason = f"partitions × brokers give more than {MOST_ALLOWED} allowed places"
            ledger.problem("records", len(partitions), reason, "import fewer topics at a time")
            ledger.check()
        tasks.append(_task(partition, allowed, resources))
    topics = sorted({partition.topic for partition in partitions.values()})
    ledger.reading("only the leader's replica moves, with its whole load and disk space")
    ledger.reading(
        "background of a broker is its load without the partitions it leads: followers, the rest"
    )
    return {
        "format": INSTANCE_FORMAT,
        "name": "cruise-control",
        "units": {"cpu": "percent", "network_in": "KB/s", "network_out": "KB/s", "disk": "MB"}
        | {"state": "MB"},
        "labels": {"system": "kafka"},
        "resources": resources,
        "nodes": nodes,
        "operators": [{"id": topic} for topic in topics],
        "tasks": tasks,
    }


def _task(partition: Partition, allowed: list[str] | None, resources: list[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": partition.name,
        "operator": partition.topic,
        "node": str(partition.leader),
        "load": {r: partition.load[r] for r in resources},
        "state": partition.load["disk"],
        "labels": {
            "topic": partition.topic,
            "partition": str(partition.number),
            REPLICAS: ",".join(map(str, partition.replicas)),
        },
    }
    if allowed:
        entry["allowed"] = allowed
    return entry


def _node(broker: Broker, ledger: Ledger) -> dict[str, Any]:
    led = broker.led
    background = {r: max(0.0, broker.load[r] - led.get(r, 0.0)) for r in RESOURCES}
    entry: dict[str, Any] = {
        "id": str(broker.id),
        "capacity": {r: c for r, c in broker.capacity.items() if c is not None},
        "background": {r: load for r, load in background.items() if load > 0},
        "labels": {"host": broker.host} if broker.host else {},
    }
    if broker.rack:
        entry["rack"] = broker.rack
    if broker.dead:
        entry["leaving"] = True
        ledger.warn(f"broker {broker.id} is dead: it is leaving")
    short = [r for r in RESOURCES if led.get(r, 0.0) > broker.load[r] * 1.05 + 1.0]
    if short:
        ledger.warn(
            f"broker {broker.id} leads more {short[0]} than its own load: saved at two times?"
        )
    unbounded = [r for r in RESOURCES if broker.capacity.get(r) is None]
    if unbounded:
        ledger.warn(f"no capacity of {', '.join(unbounded)} is told: unbounded on some brokers")
    return entry


def follow(
    document: dict[str, Any], moves: Mapping[str, str], options: Mapping[str, Any], ledger: Ledger
) -> None:
    """Move partitions in the document: node, replica list, and where they may go from there."""
    sites = Sites.of(document["nodes"], options["rack_aware"])
    for entry in document["tasks"]:
        if entry["id"] not in moves:
            continue
        source, target = int(entry["node"]), int(moves[entry["id"]])
        listed = labelled_brokers(entry["labels"][REPLICAS]) or []
        replicas = replaced(entry["id"], listed, source, target, ledger)
        entry["labels"][REPLICAS] = ",".join(map(str, replicas))
        entry["node"] = str(target)
        entry.pop("allowed", None)
        if allowed := sites.allowed(replicas, target):
            entry["allowed"] = allowed


IMPORTER = Importer(
    name="cruise-control",
    summary="Kafka partitions on brokers, with cpu, network and disk; the leader's replica moves",
    sources="the address, or as files the JSON of load and partition_load; also a capacity file "
    "and the current assignment as kafka-reassign-partitions prints it",
    options=OPTIONS,
    read=read,
    follow=follow,
)
