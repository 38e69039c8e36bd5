"""ZeroTune: Flink queries as they were measured: instances, their rates, and the hosts they ran on.

Source of the format: Agnihotri et al., "ZEROTUNE: Learned Zero-Shot Cost Models for Parallelism
Tuning in Stream Processing", ICDE 2024, and the authors' published query graphs (DOT).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field

from experiments.studies.formats.dot import parse_dot
from optim.errors import InvalidInput
from optim.format.document import INSTANCE_FORMAT
from optim.format.read import Fault
from optim.options import Option
from streamplace.clusters.exchange.declarations import Importer, Request
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

if TYPE_CHECKING:
    from experiments.studies.formats.dot import DotGraph
    from optim.format.tables import Floats
    from streamplace.clusters.exchange.declarations import Ledger

MOST_PAIRS = 5_000_000

OPTIONS = (
    Option(
        "capacity",
        "str",
        "cores",
        "slots of a host: cores, in proportion to its cores, so that the measured placement just "
        "fits; placed, as many as it really held",
        choices=("cores", "placed"),
    ),
    Option(
        "rates",
        "str",
        "measured",
        "rates of pairs: measured, in proportion to what each instance sends and receives; even, "
        "the same for all instances of an operator, which exact methods can use",
        choices=("measured", "even"),
    ),
)


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


def read(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Make the document of an instance out of one measured query graph.

    Raises
    ------
    InvalidInput
        Not DOT, or a needed attribute is missing, by its path.
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
        rate, pattern, pairs = edge_pairs(
            operators[source],
            operators[target],
            even=request.options["rates"] == "even",
            ledger=ledger,
        )
        names = operators[source].name, operators[target].name
        streams.append({"from": names[0], "to": names[1], "rate": rate, **pattern})
        if len(traffic) + len(pairs) > MOST_PAIRS:
            ledger.problem(path.name, len(traffic), f"pairs are more than {MOST_PAIRS}")
            break
        traffic += [[f"{names[0]}/{i}", f"{names[1]}/{j}", r] for i, j, r in pairs]
    ledger.check()
    capacity = _capacities(list(operators.values()), hosts, request.options["capacity"], ledger)
    _tell(operators, ledger)
    return {
        "format": INSTANCE_FORMAT,
        "name": stem_of(path),
        "units": {"slot": "instances", "rate": "tuples/s"},
        "labels": {"system": "flink", "data": "zerotune"},
        "resources": ["slot"],
        "nodes": [_node(host, capacity[host.id]) for host in hosts.values()],
        "topologies": [{"id": "query"}],
        "operators": [
            {
                "id": operator.name,
                "topology": "query",
                **({"role": "source"} if operator.kind == "SourceOperator" else {}),
            }
            for operator in operators.values()
        ],
        "tasks": [
            {
                "id": f"{operator.name}/{i}",
                "operator": operator.name,
                "load": {"slot": 1},
                "node": instance.host,
            }
            for operator in operators.values()
            for i, instance in enumerate(operator.instances)
        ],
        "streams": streams,
        "traffic": traffic,
    }


def _capacities(
    operators: list[Operator], hosts: dict[str, Host], rule: str, ledger: Ledger
) -> dict[str, float]:
    """Return the slots of each host; Flink's own placement fits by construction."""
    held = Counter(i.host for operator in operators for i in operator.instances)
    if rule == "placed":
        ledger.reading("a host has as many slots as instances really ran on it")
        return {h: float(held[h]) for h in hosts}
    density = max((held[h] / host.cores for h, host in hosts.items()), default=0.0)
    ledger.reading(
        f"slots by cores: {density:.4g} a core, the least with which the measured placement fits"
    )
    return {h: float(int(host.cores * density + 1e-9)) for h, host in hosts.items()}


def _node(host: Host, slots: float) -> dict[str, Any]:
    labels = {"cores": f"{host.cores:g}"}
    if host.cpu_load is not None:
        labels["avgCPULoad"] = f"{host.cpu_load:.4g}"
    return {"id": host.id, "capacity": {"slot": slots}, "weight": host.cores, "labels": labels}


def _tell(operators: dict[str, Operator], ledger: Ledger) -> None:
    ledger.reading("an instance takes one slot: avgCPULoad is its host's, and a label of the node")
    short = [o for o in operators.values() if len(o.instances) < o.parallelism]
    if short:
        lost = sum(o.parallelism - len(o.instances) for o in short)
        ledger.warn(
            f"{lost} instances of {len(short)} operators were not measured, and are left out"
        )


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
    if is_forward(sender, receiver):
        ledger.reading(
            "no key, the same parallelism and the same hosts: FORWARD, instances paired on each "
            "host by the order of their rates"
        )
        pairs = _pair_up(sender.instances, receiver.instances)
        if even:
            pairs = [(i, j, rate / len(pairs)) for i, j, _ in pairs]
        return rate, {"pattern": "one_to_one"}, pairs
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


def is_forward(sender: Operator, receiver: Operator) -> bool:
    """Whether a stream is forwarded one to one."""
    if receiver.keyed or sender.parallelism != receiver.parallelism:
        return False
    return Counter(i.host for i in sender.instances) == Counter(i.host for i in receiver.instances)


def _pair_up(senders: list[Instance], receivers: list[Instance]) -> Pairs:
    """Pair instances on each host, the busiest with the busiest."""

    def ranked(instances: list[Instance], rates: list[float]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for i in sorted(range(len(instances)), key=lambda i: (-rates[i], i)):
            found.setdefault(instances[i].host, []).append(i)
        return found

    out = ranked(senders, [i.sent for i in senders])
    into = ranked(receivers, [i.received or 0.0 for i in receivers])
    pairs = [
        (i, j, senders[i].sent) for host in out for i, j in zip(out[host], into[host], strict=True)
    ]
    return sorted(pair for pair in pairs if pair[2] > 0)


def _received(receiver: Operator) -> Floats:
    """Return the share of each instance in what its operator receives; even where unknown."""
    count = len(receiver.instances)
    known = [i.received for i in receiver.instances]
    total = sum(r for r in known if r is not None)
    if not total or any(r is None for r in known):
        return np.full(count, 1.0 / max(1, count))
    return np.array(known, dtype=np.float64) / total
