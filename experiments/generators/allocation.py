"""``eoa_random`` and ``eoa_testbed``: instances of the elastic operator allocation problem.

Demand is derived: tuples at the sources, selectivity of the streams, CPU and bytes a tuple. Each
node has one uplink; racks share one beside that.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.generators.kinds import Kind, fits, instance
from optim.errors import InvalidInput, Problem
from optim.format.instance import Instance
from optim.format.tables import Floats
from optim.plugins import Option

_REDRAWS = 1000
_LEAST_REDRAWS = 20
_WORK = 200_000
"""Operators drawn in all, of large queries: more would take minutes to say that none fits."""
_INPUT_RATE = 1000.0
_CAPACITY = 400.0
_UNITS = {"cpu": "percent of a core", "rate": "bytes/s"}


def uplinks(count: int, capacity: float) -> list[dict[str, Any]]:
    """One link for each of the nodes n0, n1, …"""
    return [
        {"id": f"up-n{i}", "nodes": [f"n{i}"], "capacity": capacity, "background": 0.0}
        for i in range(count)
    ]


def rack_of(node: int, nodes: int, racks: int) -> int:
    """Rack of a node; racks are contiguous and as equal as they can be."""
    return node * racks // nodes


def rack_links(
    nodes: int, racks: int, capacity: float, oversubscription: float
) -> list[dict[str, Any]]:
    """One link for each rack: its nodes' uplinks together, divided by the oversubscription."""
    members: list[list[str]] = [[] for _ in range(racks)]
    for i in range(nodes):
        members[rack_of(i, nodes, racks)].append(f"n{i}")
    return [
        {"id": f"up-r{k}", "nodes": names, "capacity": capacity * len(names) / oversubscription}
        for k, names in enumerate(members)
        if names
    ]


def build_random(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Draw a query; draw again until its CPU can be packed."""
    if p["racks"] > p["nodes"]:
        raise InvalidInput(Problem("racks", p["racks"], f"is above nodes = {p['nodes']}"))
    if p["background"] >= p["utilisation"]:
        reason = f"leaves nothing to place at utilisation {p['utilisation']}"
        raise InvalidInput(Problem("background", p["background"], reason, "lower it"))
    # a draw takes time in proportion to its operators
    draws = max(_LEAST_REDRAWS, min(_REDRAWS, _WORK // p["operators"]))
    for _ in range(draws):
        drawn = _draw(rng, name, p)
        if _meets_stated_use(drawn, p) and fits(drawn):
            return drawn
    reason = f"and the other parameters gave nothing that fits in {draws} draws"
    raise InvalidInput(Problem("utilisation", p["utilisation"], reason, "lower it or raise nodes"))


def _meets_stated_use(drawn: Instance, p: Mapping[str, Any]) -> bool:
    """Whether all CPU comes to the use asked for, and no background is above what a node takes."""
    capacity, background = drawn.nodes.capacity[:, 0], drawn.nodes.background[:, 0]
    use = float(drawn.total_load[0] + background.sum()) / float(capacity.sum())
    if use > p["utilisation"] * (1 + 1e-9):
        return False
    return bool((background <= capacity * drawn.limits.max_utilisation[0]).all())


def _draw(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    nodes, count = p["nodes"], p["operators"]
    background = _CAPACITY * rng.uniform(0, 2 * p["background"], nodes)
    streams = _streams(rng, count)
    rate = _rates(count, streams)
    # loads of the operators differ up to fourfold, and come to the use asked for
    weight = rng.uniform(0.4, 1.6, count)
    demand = p["utilisation"] * _CAPACITY * nodes - background.sum()
    load = np.maximum(demand, 1.0) * weight / weight.sum()
    traffic = sum(rate[s["_from"]] * s["selectivity"] * s["tuple_bytes"] for s in streams)
    # an uplink carries both ends' share of what is between nodes
    capacity = p["bandwidth"] * 2.0 * traffic / nodes
    busiest = capacity * rng.uniform(0, 2 * p["link_background"], nodes)
    links = uplinks(nodes, capacity)
    for link, busy in zip(links, busiest, strict=True):
        link["background"] = float(busy)
    if p["racks"]:
        links += rack_links(nodes, p["racks"], capacity, p["oversubscription"])
    operators = [
        {"id": f"o{i}", "group": {"tasks": 1}, "cpu_per_tuple": float(load[i] / rate[i])}
        for i in range(count)
    ]
    racks = [
        {"rack": f"r{rack_of(i, nodes, p['racks'])}"} if p["racks"] else {} for i in range(nodes)
    ]
    return instance(
        name, "random query for elastic operator allocation", **_common_parts(p),
        input_rate=_INPUT_RATE, nodes=_nodes(background, racks), links=links, operators=operators,
        streams=[{key: value for key, value in s.items() if key != "_from"} for s in streams],
    )  # fmt: skip


def _common_parts(p: Mapping[str, Any]) -> dict[str, Any]:
    limits = {"max_utilisation": {"cpu": p["cpu_limit"], "links": p["link_limit"]}}
    return {"units": _UNITS, "resources": ["cpu"], "limits": limits}


def _nodes(background: Floats, more: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"id": f"n{i}", "capacity": {"cpu": _CAPACITY}, "background": {"cpu": busy}, **rest}
        for i, (busy, rest) in enumerate(zip(background.tolist(), more, strict=True))
    ]


def _streams(rng: np.random.Generator, count: int) -> list[dict[str, Any]]:
    """Each operator but the last feeds one to three later ones."""
    streams = []
    for source in range(count - 1):
        later = np.arange(source + 1, count)
        # only later operators are fed: the query has no cycle
        fan_out = min(int(rng.integers(1, 4)), len(later))
        for target in np.sort(rng.choice(later, size=fan_out, replace=False)):
            # selectivities sum up to at most 1: an operator sends no more tuples than it receives
            share, size = float(rng.uniform(0.3, 1.0) / fan_out), float(rng.uniform(100, 1000))
            ends = {"from": f"o{source}", "to": f"o{target}", "_from": source}
            streams.append({**ends, "selectivity": share, "tuple_bytes": size})
    return streams


def _rates(count: int, streams: list[dict[str, Any]]) -> Floats:
    """(O,) tuples/s that each operator receives, as the format derives them."""
    rate = np.zeros(count)
    fed = np.zeros(count, dtype=np.bool_)
    for stream in streams:  # senders come in order
        source, target = stream["_from"], int(stream["to"][1:])
        if not fed[source]:
            rate[source] = _INPUT_RATE
        rate[target] += rate[source] * stream["selectivity"]
        fed[target] = True
    rate[~fed] = _INPUT_RATE
    return rate


def build_testbed(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build the testbed; the seed draws the nodes' background."""
    nodes = p["nodes"]
    if p["busy_nodes"] > nodes:
        raise InvalidInput(Problem("busy_nodes", p["busy_nodes"], f"is above nodes = {nodes}"))
    background = rng.uniform(0.0, 2 * p["background"], nodes)
    running = _running(p["busy_nodes"])
    operators = [
        *({"id": o, "topology": q} for q, o, _, _ in _TESTBED["running"]),
        *(
            {"id": o, "topology": "top-k", "group": {"tasks": k}, "cpu_per_tuple": c * p["cost"]}
            for o, k, c in _TESTBED["top_k"]
        ),
    ]
    streams = [
        *({"from": a, "to": b, "rate": rate} for a, b, rate in _TESTBED["running_streams"]),
        *(
            {"from": a, "to": b, "selectivity": s, "tuple_bytes": size * p["size"]}
            for a, b, s, size in _TESTBED["top_k_streams"]
        ),
    ]
    origin = (
        "the testbed of the Elastic Allocator, SOSE 2014, section V: its nodes, slots, queries "
        "and workloads; costs, sizes and where the running queries stand are chosen"
    )
    return instance(
        name, origin, **_common_parts(p), input_rate=p["workload"],
        nodes=_nodes(background, [{"slots": 3}] * nodes), links=uplinks(nodes, p["uplink"]),
        operators=operators, topologies=[{"id": q} for q in ("word-count", "join", "top-k")],
        tasks=running, streams=streams,
    )  # fmt: skip


_TESTBED = tomllib.loads(Path(__file__).with_name("testbed.toml").read_text(encoding="utf-8"))


def _running(busy: int) -> list[dict[str, Any]]:
    """Word Count in the first slot, Join in the second, dealt out over the busy workers."""
    tasks: list[dict[str, Any]] = []
    for query, operator, count, cpu in _TESTBED["running"]:
        for i in range(count):
            node, slot = f"n{len(tasks) % busy}", 0 if query == "word-count" else 1
            place = {"node": node, "slot": slot, "allowed": [node]}
            task = {"id": f"{operator}/{i}", "operator": operator, "load": {"cpu": cpu / count}}
            tasks.append(task | place)
    return tasks


_LIMITS = (
    Option("cpu_limit", "float", 1.0, "D_cpu, share of a node's CPU", minimum=0.01, maximum=1),
    Option("link_limit", "float", 1.0, "D_bw, share of a link", minimum=0.01, maximum=1),
)

EOA_RANDOM = Kind(
    name="eoa_random",
    summary="Random queries of single operators on nodes with background, uplinks and racks",
    build=build_random,
    parameters=(
        Option("nodes", "int", 10, "number of nodes", minimum=2, maximum=10_000),
        Option(
            "operators", "int", 20, "operators, one task each", minimum=2, maximum=100_000
        ),
        Option(
            "utilisation", "float", 0.6, "CPU of all, background included", minimum=0.01,
            maximum=1,
        ),
        Option(
            "background", "float", 0.1, "mean share of a node's CPU in use before", minimum=0,
            maximum=0.9,
        ),
        Option(
            "bandwidth", "float", 3.0,
            "uplinks: multiple of what each would carry if nothing were collocated", minimum=0.01,
        ),
        Option(
            "link_background", "float", 0.1, "mean share of an uplink in use before",
            minimum=0, maximum=0.5,
        ),
        Option("racks", "int", 0, "racks with a shared uplink; 0 for none", minimum=0),
        Option(
            "oversubscription", "float", 2.0, "uplinks of a rack's nodes over the rack's",
            minimum=0.1,
        ),
        *_LIMITS,
    ),
)  # fmt: skip

EOA_TESTBED = Kind(
    name="eoa_testbed",
    summary="Workers of 4 cores and 3 slots; Word Count and Join run, Top-K is placed",
    source="Elastic Allocator, SOSE 2014, section V (costs and sizes chosen)",
    build=build_testbed,
    parameters=(
        Option("workload", "float", 600.0, "tuples/s of Top-K", minimum=1e-6, maximum=1e9),
        Option("nodes", "int", 10, "number of workers", minimum=1, maximum=10_000),
        Option("busy_nodes", "int", 6, "workers that run queries already", minimum=1),
        Option(
            "background", "float", 20.0, "mean of what the system uses, percent of a core",
            minimum=0, maximum=200,
        ),
        Option("uplink", "float", 20e6, "of each worker, bytes/s", minimum=1),
        Option("cost", "float", 1.0, "factor on Top-K's CPU a tuple", minimum=0.01, maximum=100),
        Option("size", "float", 1.0, "factor on Top-K's bytes a tuple", minimum=0.01, maximum=100),
        *_LIMITS,
    ),
)  # fmt: skip
