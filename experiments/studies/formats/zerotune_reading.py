"""The attributes of a ZeroTune graph, read into plain tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field

from optim.format.read import Fault
from streamplace.clusters.exchange.pages import (
    MaybeNumber,
    Number,
    Page,
    Text,
    UniqueNames,
    Whole,
    is_whole,
    read_page,
    words,
)

if TYPE_CHECKING:
    from experiments.studies.formats.dot import DotGraph
    from streamplace.clusters.exchange.declarations import Ledger

UNUSED = words(
    """
    aggClass aggFunction avgRealSelectivity confEventRate filterClass filterFunction host id
    joinKeyClass keyByClass literal maxCPUFreq networkLinkSpeed numDouble numInteger numString
    realSelectivity slidingLength totalMemory tupleWidthIn tupleWidthOut windowLength windowPolicy
    windowType component avgCPULoad
    """
)
_INSTANCE = re.compile(r"\{([^{}]*)\}")


class _Page(Page):
    unused = UNUSED


class Instance(_Page):
    """A parallel instance: host, tuples/s out and in."""

    host: Text
    sent: Number = Field(alias="outputRate")
    received: MaybeNumber = Field(None, alias="inputRate")


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


def _cores(value: float) -> float:
    if value <= 0:
        raise Fault("is no number of cores")
    return value


class _Host(_Page):
    operatorType: Text
    physicalCPUCores: Annotated[Number, AfterValidator(_cores)]


class _Operator(_Page):
    operatorType: Text
    parallelism: Whole
    instances: str
    keyByClass: Any = None
    joinKeyClass: Any = None


def read_graph(
    graph: DotGraph, source: str, ledger: Ledger
) -> tuple[dict[str, Operator], dict[str, Host], list[tuple[str, str]]]:
    """Distinguish operators from hosts, and streams from the edges that say where instances are."""
    operators: dict[str, Operator] = {}
    hosts: dict[str, Host] = {}
    names = UniqueNames()
    for node, attributes in graph.nodes.items():
        told, path = dict(attributes), f"{source}: {node}"
        if told.get("operatorType") == "PhysicalNode":
            host: _Host | None = read_page(_Host, told, path, ledger)
            if host is not None:
                hosts[node] = Host(node, host.physicalCPUCores)
        else:
            found: _Operator | None = read_page(_Operator, told, path, ledger)
            if found is not None:
                operators[node] = _operator(found, node, path, names, ledger)
    ledger.check()
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


def _operator(
    told: _Operator, node: str, path: str, names: UniqueNames, ledger: Ledger
) -> Operator:
    kind = told.operatorType
    short = kind.removesuffix("Operator").lower() + "-" + node.rsplit("-", 1)[-1]
    keyed = not told.model_fields_set.isdisjoint(("keyByClass", "joinKeyClass"))
    operator = Operator(names.take(short), kind, told.parallelism, keyed)
    for i, found in enumerate(_INSTANCE.finditer(told.instances)):
        parts = [part.partition("=") for part in found[1].split(",")]
        fields = {key.strip(): value.strip() for key, equals, value in parts if equals}
        instance = read_page(Instance, fields, f"{path}.instances[{i}]", ledger)
        operator.instances += [] if instance is None else [instance]
    return operator


def _check_hosts(
    operators: dict[str, Operator], hosts: dict[str, Host], source: str, ledger: Ledger
) -> None:
    unknown = {
        i.host for operator in operators.values() for i in operator.instances if i.host
    } - set(hosts)
    for host in sorted(unknown)[:20]:
        ledger.problem(f"{source}: instances", host, "is a host that the graph does not describe")
