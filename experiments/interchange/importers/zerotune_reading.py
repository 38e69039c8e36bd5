"""The attributes of a ZeroTune graph, read into plain tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from experiments.interchange.naming import UniqueNames
from experiments.interchange.record import Record, is_whole, words

if TYPE_CHECKING:
    from experiments.interchange.dot import DotGraph
    from experiments.interchange.ledger import Ledger

UNUSED = words(
    """
    aggClass aggFunction avgRealSelectivity confEventRate filterClass filterFunction host id
    joinKeyClass keyByClass literal maxCPUFreq networkLinkSpeed numDouble numInteger numString
    realSelectivity slidingLength totalMemory tupleWidthIn tupleWidthOut windowLength windowPolicy
    windowType component
    """
)
_INSTANCE = re.compile(r"\{([^{}]*)\}")


@dataclass
class Instance:
    """A parallel instance: host, tuples/s out and in."""

    host: str
    sent: float
    received: float | None


@dataclass
class Operator:
    """An operator: its kind, its parallelism as configured, the instances as measured."""

    name: str
    kind: str
    parallelism: int
    keyed: bool
    instances: list[Instance] = field(default_factory=list)


@dataclass
class Host:
    """A machine; `cpu_load` is the mean of what its instances report of it, in percent."""

    id: str
    cores: float
    cpu_load: float | None = None


def read_graph(
    graph: DotGraph, source: str, ledger: Ledger
) -> tuple[dict[str, Operator], dict[str, Host], list[tuple[str, str]]]:
    """Tell operators from hosts, and streams from the edges that say where instances are."""
    operators: dict[str, Operator] = {}
    hosts: dict[str, Host] = {}
    names = UniqueNames()
    for node, attributes in graph.nodes.items():
        record = Record(dict(attributes), f"{source}: {node}", ledger, UNUSED)
        kind = record.text("operatorType")
        if kind == "PhysicalNode":
            cores = record.number("physicalCPUCores")
            if "physicalCPUCores" in record and cores <= 0:
                ledger.problem(record.where("physicalCPUCores"), cores, "is no number of cores")
            hosts[node] = Host(node, cores)
        else:
            operators[node] = _operator(record, node, kind, names, ledger)
        record.close()
    _check_hosts(operators, hosts, source, ledger)
    edges = _streams(graph, operators, source, ledger)
    if not operators or not hosts:
        lacking = "operators" if not operators else "hosts (PhysicalNode)"
        ledger.problem(source, None, f"holds no {lacking}", "is this a ZeroTune graph?")
    return operators, hosts, edges


def _streams(
    graph: DotGraph, operators: dict[str, Operator], source: str, ledger: Ledger
) -> list[tuple[str, str]]:
    """Return the edges between operators.

    The published graphs have edges from an operator to itself, and then its predecessor feeds
    nobody: where two filters in a row are alike, the record took them for one. Such an edge stands
    for the one from the operator numbered before.
    """
    told = [(a, b) for a, b, _ in graph.edges if a in operators and b in operators]
    feeding = {a for a, b in told if a != b}
    found: dict[tuple[str, str], None] = {}
    for a, b in told:
        edge = (a, b)
        if a == b:
            before = _numbered_before(a)
            if before not in operators or before in feeding:
                ledger.problem(f"{source}: {a} -- {a}", None, "sends to itself")
                continue
            ledger.reading(
                "an operator that sends to itself is fed by the one numbered before it, which "
                "feeds nobody"
            )
            edge = (before, b)
        if edge in found:
            ledger.problem(f"{source}: {edge[0]} -- {edge[1]}", None, "stands twice")
        found[edge] = None
    return list(found)


def _numbered_before(name: str) -> str:
    head, dash, number = name.rpartition("-")
    return f"{head}{dash}{int(number) - 1}" if is_whole(number) else ""


def _operator(record: Record, node: str, kind: str, names: UniqueNames, ledger: Ledger) -> Operator:
    short = kind.removesuffix("Operator").lower() + "-" + node.rsplit("-", 1)[-1]
    operator = Operator(
        name=names.take(short),
        kind=kind,
        parallelism=record.whole("parallelism"),
        keyed="keyByClass" in record or "joinKeyClass" in record,
    )
    text = record.raw("instances")
    if not isinstance(text, str):
        ledger.problem(record.where("instances"), None, "is missing", "measured graphs have it")
        return operator
    path = record.where("instances")
    for i, found in enumerate(_INSTANCE.finditer(text)):
        fields: dict[str, str] = {}
        for part in found[1].split(","):
            key, equals, value = part.partition("=")
            if equals:
                fields[key.strip()] = value.strip()
        entry = Record(fields, f"{path}[{i}]", ledger, UNUSED)
        operator.instances.append(
            Instance(
                host=entry.text("host"),
                sent=entry.number("outputRate"),
                received=entry.maybe_number("inputRate"),
            )
        )
        _ = entry.raw("host", "avgCPULoad")
        entry.close()
    return operator


def _check_hosts(
    operators: dict[str, Operator], hosts: dict[str, Host], source: str, ledger: Ledger
) -> None:
    unknown = {
        i.host for operator in operators.values() for i in operator.instances if i.host
    } - set(hosts)
    for host in sorted(unknown)[:20]:
        ledger.problem(f"{source}: instances", host, "is a host that the graph does not describe")
