"""ZeroTune: Flink queries as they were measured: instances, their rates, and the hosts they ran on.

Source of the format: Agnihotri et al., "ZEROTUNE: Learned Zero-Shot Cost Models for Parallelism
Tuning in Stream Processing", ICDE 2024, and the authors' published query graphs (DOT).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from experiments.interchange.declaring import Importer, Request
from experiments.interchange.dot import parse_dot
from experiments.interchange.importers.zerotune_reading import (
    Host,
    Operator,
    read_graph,
)
from experiments.interchange.importers.zerotune_traffic import edge_pairs
from experiments.interchange.sources import one_file, read_text, stem_of
from optim.errors import InvalidInput
from optim.format.document import INSTANCE_FORMAT
from optim.options import Option

if TYPE_CHECKING:
    from experiments.interchange.ledger import Ledger

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
