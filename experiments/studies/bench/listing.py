"""Which instances the benchmark has: name, family, objective, source; what is known is elsewhere.

Names and sources stay once they are published: results of others refer to them. What is added
gets a new name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARES = (0.5, 0.75, 0.9)
LEVELS = {"ample": (0.5, 0.3), "profiled": (0.75, 0.15), "tight": (0.9, 0.1)}
"""Shares of the CPU that a query takes, and each half of a network card over all traffic."""
MADE_AT = (0.75, 0.15)
"""The same of the examples as they are."""


class Listed(NamedTuple):
    """A case before anything is known of it; the fields are those of `cases.Case`."""

    name: str
    family: str
    objective: str
    source: dict[str, Any]


def listed() -> Iterator[Listed]:
    """Yield all cases in the order of the table."""
    for part in (
        _queries, _papers, _storm, _elastic, _balance, _joint, _kafka, _drains, _throughput,
        _graphs, _foreign, _large,
    ):  # fmt: skip
        yield from part()


def _generated(kind: str, seed: int = 0, **parameters: Any) -> dict[str, Any]:
    return {"generator": kind, "seed": seed, "parameters": parameters}


def _queries() -> Iterator[Listed]:
    for query in range(1, 7):
        for share in SHARES:
            source = {"example": f"capsys-q{query}.json", "variation": {"cpu": MADE_AT[0] / share}}
            name = f"collocation-q{query}-cpu{round(100 * share)}"
            yield Listed(name, "collocation", "imc_gain", source)
    for query in range(1, 7):
        for level, (cpu, network) in LEVELS.items():
            factors = {"cpu": MADE_AT[0] / cpu, "links": network / MADE_AT[1]}
            source = {"example": f"capsys-rate-q{query}.json", "variation": factors}
            name = f"throughput-q{query}-{level}"
            yield Listed(name, "throughput", "sustainable_rate", source)


def _papers() -> Iterator[Listed]:
    """Chatzistergiou and Viglas, CIKM 2014: section 7.3, Figure 2, the jobs of section 7.4."""
    for seed in range(4):
        source = _generated("random_graphs", seed)
        yield Listed(f"papers-random_graphs-s{seed}", "papers", "imc_gain", source)
    noisy = _generated("random_graphs", 4, costs="noisy")
    yield Listed("papers-random_graphs-noisy-s4", "papers", "imc_gain", noisy)
    yield Listed("papers-figure2", "papers", "imc_gain", _generated("figure2"))
    for job in ("twitter", "bargain"):
        yield Listed(f"papers-{job}", "papers", "imc_gain", _generated(job))
    pipeline = _generated("pipeline", nodes=6, tasks="8,12,9,11")
    yield Listed("collocation-pipeline-6x40", "collocation", "imc_gain", pipeline)


def _storm() -> Iterator[Listed]:
    """Aniello, Baldoni, Querzoni, DEBS 2013: twenty executors on four nodes."""
    for grouping in ("shuffle", "alternate", "fields"):
        for slots in (1, 4):
            source = _generated(
                "storm_reference", 1, stages=4, replication="4", grouping=grouping, slots=slots
            )
            yield Listed(f"storm-{grouping}-slots{slots}", "storm", "internode_traffic", source)


def _elastic() -> Iterator[Listed]:
    """The Elastic Allocator, SOSE 2014."""
    small = _generated("eoa_random", nodes=6, operators=12)
    yield Listed("elastic-eoa-6x12-s0-nodes_used", "elastic", "nodes_used", small)
    for racks in (0, 2):
        for objective in ("used_capacity", "nodes_used"):
            name = f"elastic-eoa-10x20-racks{racks}-s0-{objective}"
            yield Listed(name, "elastic", objective, _generated("eoa_random", racks=racks))


def _balance() -> Iterator[Listed]:
    """Madsen, Zhou, Cao 2016, section 5.1: key groups under a budget of moves."""
    for nodes, budget, seeds in (
        (20, 10, (0, 1)),
        (20, 20, (0,)),
        (60, 20, (0, 2)),
        (60, 50, (0,)),
    ):
        for seed in seeds:
            changed = {"nodes": nodes, "max_migrations": budget}
            defaults = {"nodes": 20, "max_migrations": 10}
            source = _generated(
                "cluster", seed, **{k: v for k, v in changed.items() if v != defaults[k]}
            )
            name = f"balance-cluster-{nodes}-m{budget}-s{seed}"
            yield Listed(name, "balance", "load_distance", source)


def _joint() -> Iterator[Listed]:
    """The same paper, section 5.3: collocation within a load distance and a budget."""
    for budget in (10, 20):
        pairs = _generated(
            "cluster", 0, one_to_one=50.0, max_migrations=budget, max_load_distance=1.0
        )
        yield Listed(f"joint-pairs-20x400-m{budget}-s0", "joint", "imc_gain", pairs)
    full = _generated("joint", 0, nodes=20, operators=2, max_migrations=20, max_load_distance=1.0)
    yield Listed("joint-full-20x400-m20-s0", "joint", "imc_gain", full)


def _kafka() -> Iterator[Listed]:
    """Replicas on brokers of racks: disk is balanced, of leaders what goes out."""
    for seed, operation in (
        (0, {"mode": "rebalance"}), (1, {"mode": "rebalance"}), (2, {"mode": "rebalance"}),
        (0, {"mode": "remove-broker", "brokers": [2]}),
        (3, {"mode": "remove-broker", "brokers": [1, 5]}),
        (1, {"mode": "leaders"}),
    ):  # fmt: skip
        mode = "leaders-out" if operation["mode"] == "leaders" else operation["mode"]
        name = f"kafka-{mode}-s{seed}"
        yield Listed(name, "kafka", "load_distance", {"kafka": seed, "operation": operation})
    tight = {"kafka": 1, "operation": {"mode": "rebalance"}, "max_migrations": 12}
    yield Listed("kafka-rebalance-s1-m12", "kafka", "load_distance", tight)


def _drains() -> Iterator[Listed]:
    """Nodes that are to be emptied, or are gone and what they held must go somewhere."""
    flink = {"example": "flink-drain.json", "variation": {}}
    yield Listed("drain-flink", "drain", "load_distance", flink)
    lost = {"example": "flink-drain.json", "variation": {"what_if": "budget 3"}}
    yield Listed("drain-flink-budget3", "drain", "load_distance", lost)
    for query in (2, 3):
        source = {
            "example": f"capsys-q{query}.json",
            "variation": {"cpu": 1.3, "what_if": "fail-node w2"},
        }
        yield Listed(f"drain-q{query}-node_lost", "drain", "imc_gain", source)
    yield Listed("drain-scale_in-60-m20-s0", "drain", "load_distance", _generated("scale_in"))
    small = _generated("scale_in", 1, nodes=20, leaving=2, overloaded=2)
    yield Listed("drain-scale_in-20-m20-s1", "drain", "load_distance", small)
    capped = _generated(
        "scale_in", 2, nodes=12, key_groups=10, leaving=3, max_migrations=None, capacity=75.0
    )
    yield Listed("drain-scale_in-12-free-s2", "drain", "load_distance", capped)


def _throughput() -> Iterator[Listed]:
    source = _generated("bargain", nodes=12, link_share=0.2)
    yield Listed("throughput-bargain-12x67", "throughput", "sustainable_rate", source)
    graph = _generated("random_graphs", 1)
    yield Listed("throughput-random_graphs-s1", "throughput", "sustainable_rate", graph)
    twitter = _generated("twitter", nodes=20, link_share=0.1, crossing_cost="0.2,0.1")
    yield Listed("throughput-twitter-20x61", "throughput", "sustainable_rate", twitter)
    for nodes, tasks in ((8, 100), (20, 400), (100, 2000)):
        pipeline = _generated(
            "pipeline", nodes=nodes, tasks=f"{tasks // 4}", capacity=_capacity(nodes),
            link_share=1.0 / nodes, crossing_cost="1.0,1.0",
        )  # fmt: skip
        name = f"throughput-pipeline-{nodes}x{tasks}"
        yield Listed(name, "throughput", "sustainable_rate", pipeline)


def _capacity(nodes: int) -> str:
    return f"{1000 / nodes:g}"


def _graphs() -> Iterator[Listed]:
    """Task graphs without groups, where exact methods find no classes."""
    community = _generated("community", 1, tasks=12, nodes=3, degree=3)
    yield Listed("graphs-community-3x12", "graphs", "imc_gain", community)
    for kind, tasks, nodes, more in (
        ("community", 60, 4, {}), ("community", 500, 16, {}), ("community", 2000, 32, {}),
        ("geometric", 60, 4, {}), ("geometric", 500, 16, {}), ("geometric", 2000, 32, {}),
        ("sparse_random", 60, 4, {"degree": 4}), ("sparse_random", 1000, 20, {"resources": 2}),
        ("dense", 60, 5, {}), ("dense", 240, 12, {}),
        ("clustered", 60, 5, {}), ("clustered", 240, 12, {"unequal": 0.3}),
    ):  # fmt: skip
        source = _generated(kind, 1, tasks=tasks, nodes=nodes, **more)
        yield Listed(f"graphs-{kind}-{nodes}x{tasks}", "graphs", "imc_gain", source)


CTAP = ("tassc1003Aa", "tassc1003Da", "tass1003Ca", "tass2005Da", "tassc2005De", "tass2005Aa")
ZEROTUNE = (
    "linear_query/10.100.154.233-template1-1976", "2_way_join/10.100.20.17-template2-3170",
    "3_way_join/10.102.44.128-template3-1758", "6_way_join/10.106.22.211-testE-6wayjoin-118",
    "three_filters/10.106.22.211-testE-threeFilters-123",
    "four_filters/10.106.22.211-testE-fourFilters-134",
)  # fmt: skip


def _foreign() -> Iterator[Listed]:
    """Published instances and measurements of others, read and not copied."""
    for name in CTAP:
        source = {"import": "ctap", "needs": "ctap", "file": f"{name}.dat", "options": {}}
        yield Listed(f"ctap-{name}", "ctap", "internode_traffic", source)
    for path in ZEROTUNE:
        kind, _, run = path.partition("/")
        source = {
            "import": "zerotune", "needs": "zerotune", "file": f"{path}.graph.gz",
            "options": {"rates": "even"},
        }  # fmt: skip
        name = f"zerotune-{kind}-{run.rpartition('-')[2]}"
        yield Listed(name, "zerotune", "internode_traffic", source)


def _large() -> Iterator[Listed]:
    for tasks, nodes in ((10_000, 100), (100_000, 1_000), (1_000_000, 1_000)):
        for kind in ("community", "geometric"):
            source = _generated(kind, 1, tasks=tasks, nodes=nodes)
            yield Listed(f"large-{kind}-{nodes}x{tasks}", "large", "imc_gain", source)
    for nodes, each, budget in ((200, 50, 300), (1_000, 100, 4_000), (10_000, 100, 40_000)):
        source = _generated("cluster", 0, nodes=nodes, key_groups=each, max_migrations=budget)
        name = f"large-cluster-{nodes}x{nodes * each}"
        yield Listed(name, "large", "load_distance", source)
    pipeline = _generated(
        "pipeline", nodes=500, tasks="2500", capacity=_capacity(500), link_share=1 / 500,
        crossing_cost="1.0,1.0",
    )  # fmt: skip
    yield Listed("large-pipeline-500x10000", "large", "sustainable_rate", pipeline)
