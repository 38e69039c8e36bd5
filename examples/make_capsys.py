"""Write the six profiled Flink queries of CAPSys as instances ``capsys-q1.json`` … ``-q6.json``.

Beside each stands ``capsys-rate-q1.json`` …, with links: how much input does a placement carry?

Run as ``python examples/make_capsys.py [FOLDER]``; the default folder is the one of this script.

The facts are those of CASP-Systems-BU/CAPSys (Apache-2.0), the artefact of

    "CAPSys: Contention-aware task placement for data stream processing", EuroSys 2025,

namely the profiles of the queries on four task managers of eight slots: parallelism, compute,
state and network of each operator, how it sends, and to whom. Compute is busy time in ms/s, so that
1000 is one core; network is what leaves the operator, in MB/s. The repository gives no unit for
state, which is bytes-like; nor does it say how its figures spread over the subtasks, so that all
three are read as sums over the operator and shared evenly. The rest is chosen here and said in each
file's `origin`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

WORKERS = 4
SLOTS = 8
THREAD = 1000
"""Busy ms/s of which a subtask has no more, wherever it runs: it is one thread."""
LOAD_SHARE = 0.75
"""Total compute over total capacity in the files; a sweep varies it."""


class Operator(NamedTuple):
    """One operator of a profiled query; `target` is empty for a sink."""

    name: str
    parallelism: int
    compute: float
    state: float
    network: float
    sends: str
    target: str


NETWORK_SHARE = 0.15
"""Capacity of a node's uplink, and of its downlink, over all traffic."""

TITLES = {
    "q1": "sliding window",
    "q2": "tumbling window over the join of persons and auctions",
    "q3": "inference on compressed images",
    "q4": "incremental join of persons and auctions",
    "q5": "join of bids and auctions, then aggregation",
    "q6": "session window",
}

QUERIES = {
    "q1": [
        Operator("Source", 1, 60.62, 0, 1.8795, "REBALANCE", "Transform"),
        Operator("Transform", 6, 430.23, 0, 0.1549, "HASH", "SlidingWindow"),
        Operator("SlidingWindow", 18, 740.97, 17067.08, 0.361, "REBALANCE", "Sink"),
        Operator("Sink", 1, 20.79, 0, 0, "", ""),
    ],
    "q2": [
        Operator("SourcePersons", 1, 147.61, 0, 4.2513, "REBALANCE", "TransformPersons"),
        Operator("TransformPersons", 1, 270.4, 0, 3.9131, "HASH", "TumblingWindow"),
        Operator("SourceAuctions", 4, 700.6, 0, 23.6863, "REBALANCE", "TransformAuctions"),
        Operator("TransformAuctions", 6, 700.35, 0, 7.2448, "HASH", "TumblingWindow"),
        Operator("TumblingWindow", 8, 1880.54, 23089.55, 0.2253, "FORWARD", "Sink"),
        Operator("Sink", 1, 30.67, 0, 0, "", ""),
    ],
    "q3": [
        Operator("Source", 5, 780.69, 0, 46.948, "REBALANCE", "Transform"),
        Operator("Transform", 8, 870.52, 0, 29.331, "FORWARD", "Compress"),
        Operator("Compress", 6, 810.24, 0, 1.884, "FORWARD", "Inference"),
        Operator("Inference", 4, 1100.17, 0, 0.0804, "REBALANCE", "Sink"),
        Operator("Sink", 1, 20.79, 0, 0, "", ""),
    ],
    "q4": [
        Operator("SourcePersons", 2, 400.11, 0, 12.9477, "REBALANCE", "Filter"),
        Operator("Filter", 2, 430.3, 0, 6.4743, "HASH", "IncrementalJoin"),
        Operator("SourceAuctions", 6, 710.08, 0, 32.6267, "HASH", "IncrementalJoin"),
        Operator("IncrementalJoin", 12, 840.81, 3624.25, 0.943, "REBALANCE", "Sink"),
        Operator("Sink", 1, 150.52, 0, 0, "", ""),
    ],
    "q5": [
        Operator("SourceAuction", 2, 361.5, 0, 9.3627, "HASH", "Join"),
        Operator("SourceBid", 2, 140.1, 0, 3.3148, "HASH", "Join"),
        Operator("Join", 12, 930.4, 44430.2, 0.4128, "HASH", "Aggregate"),
        Operator("Aggregate", 6, 800.52, 329546.48, 0.8254, "REBALANCE", "Sink"),
        Operator("Sink", 1, 40.1, 0, 0, "", ""),
    ],
    "q6": [
        Operator("Source", 4, 164.42, 0, 6.8528, "HASH", "SessionWindow"),
        Operator("SessionWindow", 18, 900.77, 23195.53, 0.0234, "REBALANCE", "Sink"),
        Operator("Sink", 1, 20.43, 0, 0, "", ""),
    ],
}

ORIGIN = (
    "CAPSys (EuroSys 2025), CASP-Systems-BU/CAPSys, Apache-2.0: profiled Flink query {query} "
    "({title}). From the repository: operators, parallelism, compute (busy ms/s over the operator; "
    "1000 is one core), state (bytes-like, unit not told) and network (MB/s leaving the operator), "
    "and the cluster of {workers} task managers with {slots} slots. Read here: every figure is "
    "shared evenly by the subtasks, each one thread, at most 1000 busy ms/s. Chosen here: the CPU "
    "capacity, equal on all nodes, so that the "
    "query's compute is {share:.0%} of it; one slot a task (no slot sharing); HASH and REBALANCE "
    "as full, FORWARD as one_to_one, between unequal sizes as rescale; and the current placement, "
    "Flink's spread over the task managers: subtasks in the order of the operators are dealt round "
    "robin, one each to {first}, …, {last} and over again."
)


RATE_ORIGIN = (
    "capsys-{query} made for its sustainable rate: every stream spread fully, no current "
    "placement, and each node's network card as two links, what leaves and what enters, of "
    "{share:.0%} of all traffic each; chosen here, as the repository gives no capacity of it."
)


def instance(query: str, load_share: float = LOAD_SHARE) -> dict[str, Any]:
    """Build one query as a ``streamplace.instance/1`` document.

    Parameters
    ----------
    query
        A key of `QUERIES`.
    load_share
        Total compute over total CPU capacity.
    """
    operators = QUERIES[query]
    workers = [f"w{i + 1}" for i in range(WORKERS)]
    compute = sum(operator.compute for operator in operators)
    cpu = round(compute / load_share / WORKERS, 4)
    origin = ORIGIN.format(
        query=query.upper(),
        title=TITLES[query],
        workers=WORKERS,
        slots=SLOTS,
        share=load_share,
        first=workers[0],
        last=workers[-1],
    )
    return {
        "format": "streamplace.instance/1",
        "name": f"capsys-{query}",
        "origin": origin,
        "units": {
            "cpu": "busy ms/s",
            "slot": "slots",
            "rate": "MB/s",
            "state": "as profiled by CAPSys (bytes-like)",
        },
        "labels": {"query": query.upper(), "engine": "Flink", "title": TITLES[query]},
        "resources": ["cpu", "slot"],
        "nodes": [{"id": worker, "capacity": {"cpu": cpu, "slot": SLOTS}} for worker in workers],
        "operators": [_operator(operator, operators) for operator in operators],
        "tasks": [
            {"id": task, "node": workers[k % WORKERS]} for k, task in enumerate(_tasks(operators))
        ],
        "streams": [_stream(operator, operators) for operator in operators if operator.target],
    }


def rate_instance(query: str, network_share: float = NETWORK_SHARE) -> dict[str, Any]:
    """Build one query for the question of how much input a placement carries.

    Parameters
    ----------
    query
        A key of `QUERIES`.
    network_share
        Capacity of each half of a network card over all traffic of the query.
    """
    document = instance(query)
    total = sum(operator.network for operator in QUERIES[query])
    links = [
        {
            "id": f"{side}-{node['id']}",
            "nodes": [node["id"]],
            "capacity": round(network_share * total, 10),
            "direction": side,
        }
        for node in document["nodes"]
        for side in ("out", "in")
    ]
    nodes, streams = document["nodes"], document["streams"]
    compute = sum(operator.compute for operator in QUERIES[query])
    for node in nodes:
        node["capacity"]["cpu"] = round(compute / LOAD_SHARE / WORKERS, 10)
    return {
        "format": document["format"],
        "name": f"capsys-rate-{query}",
        "origin": RATE_ORIGIN.format(query=query.upper(), share=network_share),
        **{key: document[key] for key in ("units", "labels", "resources")},
        "nodes": nodes,
        "links": links,
        "operators": document["operators"],
        "streams": [{**stream, "pattern": "full"} for stream in streams],
    }


def _operator(operator: Operator, operators: list[Operator]) -> dict[str, Any]:
    targets = {other.target for other in operators}
    role = "sink" if not operator.target else "operator" if operator.name in targets else "source"
    load = {"cpu": operator.compute, "slot": operator.parallelism}
    group = {"tasks": operator.parallelism, "load": load, "state": operator.state}
    return {"id": operator.name, "role": role, "group": group, "max_load": {"cpu": THREAD}}


def _tasks(operators: list[Operator]) -> list[str]:
    return [f"{operator.name}/{i}" for operator in operators for i in range(operator.parallelism)]


def _stream(operator: Operator, operators: list[Operator]) -> dict[str, Any]:
    sizes = {other.name: other.parallelism for other in operators}
    pattern = "full"
    if operator.sends == "FORWARD":
        equal = sizes[operator.name] == sizes[operator.target]
        pattern = "one_to_one" if equal else "rescale"
    return {
        "from": operator.name,
        "to": operator.target,
        "rate": operator.network,
        "pattern": pattern,
    }


def text(document: dict[str, Any]) -> str:
    """Write a document with one node, operator, task or stream a line."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list) and isinstance(value[0], dict):
            lines = ",\n  ".join(json.dumps(item, ensure_ascii=False) for item in value)
            parts.append(f'"{key}": [\n  {lines}\n ]')
        else:
            parts.append(f'"{key}": {json.dumps(value, ensure_ascii=False)}')
    return "{" + ",\n ".join(parts) + "}\n"


def main(folder: Path) -> None:
    """Write all twelve files into a folder."""
    for query in QUERIES:
        for made in (instance(query), rate_instance(query)):
            (folder / f"{made['name']}.json").write_text(text(made), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
