"""ZeroTune: Flink queries as they were measured: instances, their rates, and the hosts they ran on.

Source of the format: Agnihotri et al., "ZEROTUNE: Learned Zero-Shot Cost Models for Parallelism
Tuning in Stream Processing", ICDE 2024, and the authors' published query graphs, which are DOT, the
language of Graphviz: nodes with attributes, and edges. Other DOT is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field

from optim.errors import InvalidInput, Problem
from optim.format.document import INSTANCE_FORMAT, Fault
from optim.format.tables import Floats
from optim.plugins import Option
from streamplace.clusters.exchange.declarations import Importer, Ledger, Request
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
from streamplace.clusters.exchange.sources import one_file, read_text, stem_of

MOST_PAIRS = 5_000_000

OPTIONS = (
    Option(
        "capacity", "str", "cores",
        "slots of a host: cores, in proportion to its cores, so that the measured placement just "
        "fits; placed, as many as it really held", choices=("cores", "placed"),
    ),
    Option(
        "rates", "str", "measured",
        "rates of pairs: measured, in proportion to what each instance sends and receives; even, "
        "the same for all instances of an operator, which exact methods can use",
        choices=("measured", "even"),
    ),
)  # fmt: skip

# --- DOT -------------------------------------------------------------------------------------

_NAME = r'"(?:[^"\\]|\\.)*"|-?[\w.]+'
_PAIR = rf"\s*(?:{_NAME})\s*=\s*(?:{_NAME})\s*"
_STATEMENT = re.compile(
    rf"({_NAME})(?:\s*--\s*({_NAME}))?(?:\s*\[((?:{_PAIR}(?:,{_PAIR})*)?)\])?\s*;?\s*"
)
_ATTRIBUTE = re.compile(rf"({_NAME})\s*=\s*({_NAME})")
_GRAPH = re.compile(r"\s*graph\s*\{\s*(.*)\}\s*", re.DOTALL)


@dataclass
class DotGraph:
    """Node name to attributes, in order of appearance, and edges."""

    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)


def parse_dot(text: str) -> DotGraph:
    """Read nodes with their attributes, and edges; all else is refused by its line."""
    graph, frame = DotGraph(), _GRAPH.fullmatch(text)
    at, end = frame.span(1) if frame else (0, 1)
    while at < end:
        statement = _STATEMENT.match(text, at, end) if frame else None
        if statement is None:
            line, shown = text.count("\n", 0, at) + 1, text[at : at + 40].split("\n")[0]
            remedy = 'expected a DOT graph of "a" [b="c"]; and "a" -- "b";'
            raise InvalidInput(Problem(f"line {line}", shown, "is no node or edge", remedy))
        at = statement.end()
        first, second = (name and _unquoted(name) for name in statement.groups()[:2])
        found = _ATTRIBUTE.findall(statement[3] or "")
        attributes = {_unquoted(key): _unquoted(value) for key, value in found}
        graph.nodes.setdefault(first, {}).update({} if second else attributes)
        if second:
            graph.nodes.setdefault(second, {})
            graph.edges.append((first, second))
    return graph


def _unquoted(name: str) -> str:
    return name[1:-1].replace('\\"', '"') if name.startswith('"') else name


# --- what a graph says -----------------------------------------------------------------------

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
) -> tuple[dict[str, Operator], dict[str, float], list[tuple[str, str]]]:
    """Return operators, cores of hosts, and streams: other edges say where instances are."""
    operators: dict[str, Operator] = {}
    hosts: dict[str, float] = {}
    names = UniqueNames()
    for node, attributes in graph.nodes.items():
        page, path = dict(attributes), f"{source}: {node}"
        if page.get("operatorType") == "PhysicalNode":
            host: _Host | None = read_page(_Host, page, path, ledger)
            hosts |= {} if host is None else {node: host.physicalCPUCores}
        else:
            parsed: _Operator | None = read_page(_Operator, page, path, ledger)
            if parsed is not None:
                operators[node] = _operator(parsed, node, path, names, ledger)
    ledger.check()
    used_hosts = {i.host for operator in operators.values() for i in operator.instances if i.host}
    for name in sorted(used_hosts - set(hosts))[:20]:
        ledger.problem(f"{source}: instances", name, "is a host that the graph does not describe")
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
    # edges from operators to hosts are not streams
    pairs = [(a, b) for a, b in graph.edges if a in operators and b in operators]
    feeding = {a for a, b in pairs if a != b}
    edges: dict[tuple[str, str], None] = {}
    for a, b in pairs:
        edge = (a, b)
        if a == b:
            head, dash, number = a.rpartition("-")
            before = f"{head}{dash}{int(number) - 1}" if is_whole(number) else ""
            if before not in operators or before in feeding:
                ledger.problem(f"{source}: {a} -- {a}", None, "sends to itself")
                continue
            ledger.reading(
                "an operator that sends to itself is fed by the one numbered before it, which "
                "feeds nobody"
            )
            edge = (before, b)
        if edge in edges:
            ledger.problem(f"{source}: {edge[0]} -- {edge[1]}", None, "stands twice")
        edges[edge] = None
    return list(edges)


def _operator(
    page: _Operator, node: str, path: str, names: UniqueNames, ledger: Ledger
) -> Operator:
    kind = page.operatorType
    short = kind.removesuffix("Operator").lower() + "-" + node.rsplit("-", 1)[-1]
    keyed = not page.model_fields_set.isdisjoint(("keyByClass", "joinKeyClass"))
    operator = Operator(names.take(short), kind, page.parallelism, keyed)
    for i, match in enumerate(_INSTANCE.finditer(page.instances)):
        parts = [part.partition("=") for part in match[1].split(",")]
        fields = {key.strip(): value.strip() for key, equals, value in parts if equals}
        instance = read_page(Instance, fields, f"{path}.instances[{i}]", ledger)
        operator.instances += [] if instance is None else [instance]
    return operator


# --- the instance ----------------------------------------------------------------------------


def read(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Make the document of an instance out of one measured query graph.

    Raises `InvalidInput`: not DOT, or a needed attribute is missing, by its path.
    """
    path = one_file(request.sources, "zerotune")
    try:
        graph = parse_dot(read_text(path))
    except InvalidInput as error:
        raise error.within(str(path)) from None
    operators, hosts, edges = read_graph(graph, path.name, ledger)
    ledger.check()
    traffic: list[list[Any]] = []
    streams = []
    for source, target in edges:
        ends, even = (operators[source], operators[target]), request.options["rates"] == "even"
        rate, pattern, pairs = edge_pairs(*ends, even=even, ledger=ledger)
        names = [end.name for end in ends]
        streams.append({"from": names[0], "to": names[1], "rate": rate, **pattern})
        if len(traffic) + len(pairs) > MOST_PAIRS:
            ledger.problem(path.name, len(traffic), f"pairs are more than {MOST_PAIRS}")
            break
        traffic += [[f"{names[0]}/{i}", f"{names[1]}/{j}", r] for i, j, r in pairs]
    ledger.check()
    ordered = list(operators.values())
    slots = _capacities(ordered, hosts, request.options["capacity"], ledger)
    ledger.reading("an instance takes one slot: avgCPULoad is its host's, and a label of the node")
    if short := [o for o in ordered if len(o.instances) < o.parallelism]:
        lost = sum(o.parallelism - len(o.instances) for o in short)
        ledger.warn(
            f"{lost} instances of {len(short)} operators were not measured, and are left out"
        )
    roles = {o.name: {"role": "source"} if o.kind == "SourceOperator" else {} for o in ordered}
    return {
        "format": INSTANCE_FORMAT,
        "name": stem_of(path),
        "units": {"slot": "instances", "rate": "tuples/s"},
        "labels": {"system": "flink", "data": "zerotune"},
        "resources": ["slot"],
        "nodes": [
            {"id": host, "capacity": {"slot": slots[host]}, "weight": c,
             "labels": {"cores": f"{c:g}"}}
            for host, c in hosts.items()
        ],
        "topologies": [{"id": "query"}],
        "operators": [{"id": o.name, "topology": "query", **roles[o.name]} for o in ordered],
        "tasks": [
            {"id": f"{o.name}/{i}", "operator": o.name, "load": {"slot": 1}, "node": instance.host}
            for o in ordered
            for i, instance in enumerate(o.instances)
        ],
        "streams": streams,
        "traffic": traffic,
    }  # fmt: skip


def _capacities(
    operators: list[Operator], hosts: dict[str, float], rule: str, ledger: Ledger
) -> dict[str, float]:
    """Return the slots of each host; Flink's own placement fits by construction."""
    instances_on = Counter(i.host for operator in operators for i in operator.instances)
    if rule == "placed":
        ledger.reading("a host has as many slots as instances really ran on it")
        return {h: float(instances_on[h]) for h in hosts}
    # slots a core, the largest on any host: elsewhere slots stay free
    density = max((instances_on[h] / cores for h, cores in hosts.items()), default=0.0)
    ledger.reading(
        f"slots by cores: {density:.4g} a core, the least with which the measured placement fits"
    )
    return {h: float(int(cores * density + 1e-9)) for h, cores in hosts.items()}


IMPORTER = Importer(
    name="zerotune",
    summary="a measured Flink query: instances with rates on the hosts they ran on",
    sources="one query graph in DOT, .graph or .graph.gz",
    options=OPTIONS,
    read=read,
)


Pairs = list[tuple[int, int, float]]


def edge_pairs(
    sender: Operator, receiver: Operator, *, even: bool, ledger: Ledger
) -> tuple[float, dict[str, str], Pairs]:
    """Return the rate of a stream, its pattern as in an instance, and the rates of task pairs.

    Flink forwards one to one between operators of the same parallelism unless a key or the program
    says otherwise; in the measured graphs the hosts of both then agree one by one, which is asked
    for here too. All else is spread in proportion to what each sends and each receives, or, if
    `even`, evenly; then the pattern says it all and there are no pairs.
    """
    rate = float(sum(i.sent for i in sender.instances))
    # FORWARD keeps instance i on the host of its sender: hosts agree, with their counts
    hosts = [Counter(i.host for i in end.instances) for end in (sender, receiver)]
    # Flink's default between equal parallelisms without a key is FORWARD
    alike = not receiver.keyed and sender.parallelism == receiver.parallelism
    if alike and hosts[0] == hosts[1]:
        ledger.reading(
            "no key, the same parallelism and the same hosts: FORWARD, instances paired on each "
            "host by the order of their rates"
        )
        pairs = _pair_up(sender.instances, receiver.instances)
        if even:
            pairs = [(i, j, rate / len(pairs)) for i, j, _ in pairs]
        return rate, {"pattern": "one_to_one"}, [pair for pair in pairs if pair[2] > 0]
    if even:
        ledger.reading("other streams: every pair of instances has the same rate")
        return rate, {}, []
    ledger.reading(
        "other streams: rates of pairs in proportion to what each sends and each receives"
    )
    shares = _received(receiver)
    pairs = [
        (i, j, instance.sent * share)
        for i, instance in enumerate(sender.instances)
        for j, share in enumerate(shares.tolist())
        if instance.sent * share > 0
    ]
    return rate, {}, pairs


def _pair_up(senders: list[Instance], receivers: list[Instance]) -> Pairs:
    """Pair instances on each host, the busiest with the busiest."""

    def ranked(instances: list[Instance], rates: list[float]) -> dict[str, list[int]]:
        by_host: dict[str, list[int]] = {}
        for i in sorted(range(len(instances)), key=lambda i: (-rates[i], i)):
            by_host.setdefault(instances[i].host, []).append(i)
        return by_host

    out = ranked(senders, [i.sent for i in senders])
    into = ranked(receivers, [i.received or 0.0 for i in receivers])
    return sorted(
        (i, j, senders[i].sent) for host in out for i, j in zip(out[host], into[host], strict=True)
    )


def _received(receiver: Operator) -> Floats:
    """Return the share of each instance in what its operator receives; even where unknown."""
    count = len(receiver.instances)
    received = [i.received for i in receiver.instances]
    total = sum(r for r in received if r is not None)
    if not total or any(r is None for r in received):
        return np.full(count, 1.0 / max(1, count))
    return np.array(received, dtype=np.float64) / total
