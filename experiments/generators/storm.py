"""``storm_reference`` and ``storm_cluster``: topologies of executors on nodes with worker slots.

Loads are in MHz, rates in tuples/s. By shuffle grouping every executor of a stage sends evenly to
all of the next; by fields grouping the receivers get unequal shares, since keys do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.generators.kinds import Kind, check_tasks, instance, numbers
from optim.errors import InvalidInput, Problem
from optim.format.instance import Instance
from optim.plugins import Option

Floats = NDArray[np.float64]

_UNITS = {"cpu": "MHz", "rate": "tuples/s"}


@dataclass
class _Job:
    """What grows while topologies are made."""

    operators: list[dict[str, Any]] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    streams: list[dict[str, Any]] = field(default_factory=list)
    traffic: list[list[Any]] = field(default_factory=list)
    load: float = 0.0
    largest: float = 0.0

    def component(self, name: str, topology: str, share: Floats, rate: float, cost: float) -> None:
        """Add a component whose executors get `share` of `rate` tuples/s, at MHz a tuple/s."""
        self.operators.append({"id": name, "topology": topology})
        for i, part in enumerate(share.tolist()):
            load = round(part * rate * cost, 6)
            self.tasks.append({"id": f"{name}/{i}", "operator": name, "load": {"cpu": load}})
            self.load += load
            self.largest = max(self.largest, load)

    def stream(self, a: str, b: str, send: Floats, receive: Floats, rate: float) -> None:
        """Add a stream whose senders and receivers have shares of its rate."""
        self.streams.append({"from": a, "to": b, "rate": round(rate, 6)})
        # even streams need no entries: the format shares them out itself
        if np.ptp(send) == 0 and np.ptp(receive) == 0:
            return
        for i, x in enumerate(send.tolist()):
            for j, y in enumerate(receive.tolist()):
                self.traffic.append([f"{a}/{i}", f"{b}/{j}", round(rate * x * y, 6)])

    def instance(self, name: str, origin: str, p: Mapping[str, Any], speeds: Floats) -> Instance:
        """Return the instance on nodes of these speeds, in all `utilisation` percent busy."""
        whole = self.load * 100.0 / p["utilisation"]
        # no node is too small for the largest executor
        capacity = np.maximum(speeds / speeds.sum() * whole, self.largest)
        nodes = [
            {"id": f"n{i}", "capacity": {"cpu": round(c, 6)}, "slots": p["slots"]}
            for i, c in enumerate(capacity.tolist())
        ]
        workers = [{"id": f"t{i}", "workers": p["workers"]} for i in range(p["topologies"])]
        return instance(
            name, origin, units=_UNITS, resources=["cpu"], nodes=nodes, topologies=workers,
            operators=self.operators, tasks=self.tasks, streams=self.streams, traffic=self.traffic,
        )  # fmt: skip


def _shares(rng: np.random.Generator, count: int, grouping: str, skew: float) -> Floats:
    """(count,) parts of a stream that its receivers get: equal, or by Zipf's law in any order."""
    if grouping == "shuffle":
        return np.full(count, 1.0 / count)
    # Zipf's law: the k-th of the keys has weight k^−skew
    weight = np.arange(1, count + 1, dtype=np.float64) ** -skew
    return rng.permutation(weight / weight.sum())


def _check_slots(p: Mapping[str, Any], executors: int) -> None:
    # a topology has no more workers than executors
    needed = p["topologies"] * min(p["workers"], executors)
    if needed > p["nodes"] * p["slots"]:
        reason = f"is too few: {needed} workers need slots, {p['nodes']} nodes have {p['slots']}"
        raise InvalidInput(Problem("slots", p["slots"], reason, "raise slots or nodes"))


def build_reference(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build chains of a spout and stages of bolts."""
    stages = p["stages"]
    sizes = [int(k) for k in numbers(p["replication"], stages + 1, "replication", whole=True)]
    check_tasks("replication", p["replication"], p["topologies"] * sum(sizes))
    _check_slots(p, sum(sizes))
    job = _Job()
    for t in range(p["topologies"]):
        rate, before = float(p["rate"]), np.full(sizes[0], 1.0 / sizes[0])
        job.component(f"t{t}-spout", f"t{t}", before, rate, p["cost"])
        last = f"t{t}-spout"
        for stage in range(1, stages + 1):
            grouping = p["grouping"]
            if grouping == "alternate":
                grouping = "shuffle" if stage % 2 else "fields"
            share = _shares(rng, sizes[stage], grouping, p["skew"])
            bolt = f"t{t}-bolt{stage}"
            job.component(bolt, f"t{t}", share, rate, p["cost"])
            job.stream(last, bolt, before, share, rate)
            rate, before, last = rate * p["selectivity"], share, bolt
    origin = (
        "a chain of components as the reference topology of Aniello, Baldoni and Querzoni, DEBS "
        "2013; rates, costs and shares of keys are chosen"
    )
    return job.instance(name, origin, p, np.ones(p["nodes"]))


def build_cluster(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build random acyclic topologies on unequal nodes."""
    job = _Job()
    fewest = p["executors"]
    if fewest < p["components"]:
        reason = f"is below components = {p['components']}, each of which has one at least"
        raise InvalidInput(Problem("executors", fewest, reason, "raise it"))
    check_tasks("executors", fewest, p["topologies"] * fewest)
    _check_slots(p, fewest)
    for t in range(p["topologies"]):
        count = p["components"]
        # each component has one executor; the rest fall on them by chance
        sizes = 1 + rng.multinomial(p["executors"] - count, np.full(count, 1.0 / count))
        rate, out = np.zeros(count), [np.zeros(0)] * count
        feeders: list[list[int]] = [[]]
        for c in range(1, count):
            many = 2 if c > 1 and rng.random() < p["joins"] / 100.0 else 1
            feeders.append(sorted(rng.choice(c, min(many, c), replace=False).tolist()))
        for c in range(count):
            grouping = "fields" if rng.random() < p["fields"] / 100.0 and c else "shuffle"
            out[c] = _shares(rng, int(sizes[c]), grouping, p["skew"])
            rate[c] = p["rate"] if c == 0 else rate[feeders[c]].sum() * rng.uniform(0.3, 1.0)
            received = p["rate"] if c == 0 else float(rate[feeders[c]].sum())
            cost = float(rng.uniform(0.5, 1.5)) * p["cost"]
            job.component(f"t{t}-c{c}", f"t{t}", out[c], received, cost)
            for f in feeders[c]:
                job.stream(f"t{t}-c{f}", f"t{t}-c{c}", out[f], out[c], float(rate[f]))
    speeds = rng.choice([1.0, 1.5, 2.0], p["nodes"]) if p["unequal"] else np.ones(p["nodes"])
    origin = "random acyclic topologies of components, after the objects of Storm; made up"
    return job.instance(name, origin, p, speeds)


_SHARED = (
    Option("nodes", "int", 4, "number of nodes", minimum=1, maximum=10_000),
    Option("slots", "int", 4, "slots of a node", minimum=1, maximum=1000),
    Option("topologies", "int", 1, "number of topologies", minimum=1, maximum=1000),
    Option("workers", "int", 4, "workers of a topology", minimum=1, maximum=10_000),
    Option("utilisation", "float", 60.0, "percent of all CPU in use", minimum=1, maximum=100),
    Option("rate", "float", 1000.0, "tuples/s of a topology's spout", minimum=1e-6),
    Option("cost", "float", 1.0, "MHz for a tuple/s", minimum=1e-9),
    Option("skew", "float", 0.8, "exponent of the keys' shares by fields grouping", minimum=0),
)

STORM_REFERENCE = Kind(
    name="storm_reference",
    summary="Chains of a spout and stages of replicated bolts, shuffle and fields grouping",
    source="after the objects of Aniello, Baldoni and Querzoni, DEBS 2013 (all numbers chosen)",
    build=build_reference,
    parameters=(
        Option("stages", "int", 4, "stages of bolts after the spout", minimum=1, maximum=100),
        Option("replication", "str", "4", "executors a component: one number, or one for each"),
        Option(
            "grouping", "str", "alternate",
            "of the streams: shuffle and fields in turn, or one of them",
            choices=("alternate", "shuffle", "fields"),
        ),
        Option("selectivity", "float", 1.0, "tuples sent for one received", minimum=1e-6),
        *_SHARED,
    ),
)  # fmt: skip

STORM_CLUSTER = Kind(
    name="storm_cluster",
    summary="Random acyclic topologies with CPU, traffic and slots, for comparing families",
    build=build_cluster,
    parameters=(
        Option("components", "int", 6, "components of a topology", minimum=2, maximum=1000),
        Option("executors", "int", 24, "executors of a topology", minimum=2, maximum=100_000),
        Option("joins", "float", 30.0, "percent of components fed by two", minimum=0, maximum=100),
        Option("fields", "float", 50.0, "percent of fields groupings", minimum=0, maximum=100),
        Option("unequal", "bool", True, "nodes of speeds 1, 1.5 and 2"),
        *_SHARED,
    ),
)
