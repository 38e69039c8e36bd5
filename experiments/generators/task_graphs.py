"""Weighted task graphs without groups: sparse ones of any size, and complete ones.

``sparse_random``, ``community``, ``geometric``: every graph has about `degree` partners a task. The
tables are built as arrays, so that a million tasks need no million objects; values are rounded to
three decimals.

``dense``, ``clustered``: complete graphs of unlike tasks, with least and greatest loads of nodes,
as are the instances of capacitated clustering and of maximally diverse grouping. In ``clustered``
rates follow hidden groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.generators.kinds import Kind, instance, task_table
from optim.errors import InvalidInput, Problem, raise_any
from optim.format.instance import Instance
from optim.format.tables import TrafficTable
from optim.plugins import Option

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]

_DECIMALS = 3


def sparse_random_pairs(rng: np.random.Generator, p: Mapping[str, Any]) -> Pairs:
    """Draw pairs of two tasks each, all alike."""
    count = round(p["tasks"] * p["degree"] / 2)
    return rng.integers(0, p["tasks"], count), rng.integers(0, p["tasks"], count)


def community_pairs(rng: np.random.Generator, p: Mapping[str, Any]) -> Pairs:
    """Draw pairs, a share `inside` of them within the first task's community.

    Communities are uniformly drawn; there are as many as nodes unless `communities` says otherwise.
    """
    tasks = p["tasks"]
    member = rng.integers(0, p["communities"] or p["nodes"], tasks)
    by_community = np.argsort(member, kind="stable")
    start = np.searchsorted(member[by_community], np.arange(member.max() + 2))
    first = rng.integers(0, tasks, round(tasks * p["degree"] / 2))
    size = np.diff(start)[member[first]]
    # a uniform member of the community of the first task
    near = by_community[start[member[first]] + (rng.random(len(first)) * size).astype(np.int64)]
    far = rng.integers(0, tasks, len(first))
    return first, np.where(rng.random(len(first)) < p["inside"], near, far)


def geometric_pairs(rng: np.random.Generator, p: Mapping[str, Any]) -> Pairs:
    """Scatter the tasks on a unit square; those nearer than a radius communicate."""
    from scipy.spatial import cKDTree

    points = rng.random((p["tasks"], 2))
    # mean number of points in a disc of this radius: tasks · π · r² = degree
    radius = np.sqrt(p["degree"] / (np.pi * p["tasks"]))
    pairs = cKDTree(points).query_pairs(radius, output_type="ndarray")
    return pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64)


def _builder(pairs: Callable[[np.random.Generator, Mapping[str, Any]], Pairs]) -> Any:
    def build(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
        """Build the graph, draw rates and loads, and give the nodes their room."""
        check_ranges(p)
        if p["tasks"] * p["degree"] / 2 > 40_000_000:
            raise InvalidInput(Problem("degree", p["degree"], "gives more than 40 million pairs"))
        u, v = _distinct(*pairs(rng, p), p["tasks"])
        rate = np.round(rng.uniform(p["least_rate"], p["most_rate"], len(u)), _DECIMALS)
        load = rng.uniform(p["least_load"], p["most_load"], (p["tasks"], p["resources"]))
        load = np.round(load, _DECIMALS)
        return instance_of(rng, name, p, (u, v, rate), load)

    return build


def check_ranges(p: Mapping[str, Any]) -> None:
    """Refuse ranges that are none."""
    raise_any([
        Problem(f"least_{what}", p[f"least_{what}"], f"is above most_{what}")
        for what in ("rate", "load")
        if p[f"least_{what}"] > p[f"most_{what}"]
    ])  # fmt: skip


def _distinct(u: NDArray[np.int64], v: NDArray[np.int64], tasks: int) -> Pairs:
    """Drop pairs of a task with itself and second drawings of a pair."""
    low, high = np.minimum(u, v), np.maximum(u, v)
    # one number for each unordered pair, so that unique() finds second drawings
    key = np.unique((low * tasks + high)[low != high])
    return key // tasks, key % tasks


def instance_of(
    rng: np.random.Generator,
    name: str,
    p: Mapping[str, Any],
    pairs: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
    load: NDArray[np.float64],
) -> Instance:
    """Put arrays into the tables of an instance that has only nodes."""
    resources = ["cpu", *(f"r{i}" for i in range(1, load.shape[1]))]
    share = rng.uniform(1 - p["unequal"], 1 + p["unequal"], p["nodes"])
    # (N, R) load of each node if it were dealt out by size
    fair = np.outer(share / share.sum(), load.sum(axis=0))
    capacity = np.ceil(fair * p["slack"] * 1000) / 1000
    least = np.floor(fair * p.get("floor", 0.0) * 1000) / 1000
    partners = p.get("degree", p["tasks"] - 1)
    nodes = [
        {"id": f"n{i}", "capacity": dict(zip(resources, row, strict=True))}
        | ({"min_load": dict(zip(resources, low, strict=True))} if any(low) else {})
        for i, (row, low) in enumerate(zip(capacity.tolist(), least.tolist(), strict=True))
    ]
    origin = f"generated task graph with about {partners:g} partners a task"
    bare = instance(name, origin, resources=resources, nodes=nodes)
    tasks = task_table(tuple(f"t{i}" for i in range(p["tasks"])), load)
    u, v, rate = pairs
    traffic = TrafficTable(u.astype(np.int32), v.astype(np.int32), rate)
    return replace(bare, tasks=tasks, traffic=traffic)


_COMMON = (
    Option("tasks", "int", 1000, "number of tasks", minimum=2, maximum=1_000_000),
    Option("nodes", "int", 32, "number of nodes", minimum=1, maximum=100_000),
    Option("degree", "float", 8.0, "partners a task, on average", minimum=0.01, maximum=10_000),
    Option("slack", "float", 1.05, "capacity of all nodes over all load", minimum=0.01),
    Option("unequal", "float", 0.0, "capacities differ by ± this share", minimum=0, maximum=0.99),
    Option("resources", "int", 1, "number of resources", minimum=1, maximum=8),
    Option("least_load", "float", 1.0, "least load of a task", minimum=0),
    Option("most_load", "float", 10.0, "greatest load of a task", minimum=1e-3),
    Option("least_rate", "float", 1.0, "least rate of a pair", minimum=1e-3),
    Option("most_rate", "float", 10.0, "greatest rate of a pair", minimum=1e-3),
)

SPARSE_RANDOM = Kind(
    "sparse_random", "Tasks that talk to a few others, anyone to anyone", _COMMON,
    _builder(sparse_random_pairs),
)  # fmt: skip

COMMUNITY = Kind(
    name="community",
    summary="Tasks that talk mostly within hidden communities",
    parameters=(
        *_COMMON,
        Option("communities", "int", None, "how many; as many as nodes", minimum=1),
        Option("inside", "float", 0.7, "share of pairs within one", minimum=0, maximum=1),
    ),
    build=_builder(community_pairs),
)

GEOMETRIC = Kind(
    "geometric", "Tasks on a square that talk to their neighbours", _COMMON,
    _builder(geometric_pairs),
)  # fmt: skip


def _build_dense(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Draw rates and loads; bounds are shares of the mean load of a node."""
    check_ranges(p)
    if p["floor"] > min(1.0, p["slack"]):
        reason = "asks for more load than there is, or than nodes have room for"
        raise InvalidInput([Problem("floor", p["floor"], reason, "at most 1 and slack")])
    u, v = np.triu_indices(p["tasks"], 1)
    rate = rng.uniform(p["least_rate"], p["most_rate"], len(u))
    if "hidden" in p:
        group = rng.integers(0, p["hidden"] or 2 * p["nodes"], p["tasks"])
        rate = np.where(group[u] == group[v], p["within"] * rate, rate)
    rate = np.round(rate, _DECIMALS)
    load = np.round(rng.uniform(p["least_load"], p["most_load"], (p["tasks"], 1)), _DECIMALS)
    return instance_of(rng, name, p, (u, v, rate), load)


_DENSE = (
    Option("tasks", "int", 240, "number of tasks", minimum=2, maximum=4000),
    Option("nodes", "int", 12, "number of nodes", minimum=1, maximum=1000),
    Option("slack", "float", 1.25, "capacity of all nodes over all load", minimum=0.01),
    Option("floor", "float", 0.75, "least load of all nodes over all load", minimum=0, maximum=1),
    Option("unequal", "float", 0.0, "capacities differ by ± this share", minimum=0, maximum=0.99),
    Option("least_load", "float", 0.1, "least load of a task", minimum=0),
    Option("most_load", "float", 10.0, "greatest load of a task", minimum=1e-3),
    Option("least_rate", "float", 0.1, "least rate of a pair", minimum=1e-3),
    Option("most_rate", "float", 100.0, "greatest rate of a pair", minimum=1e-3),
)

DENSE = Kind(
    name="dense",
    summary="Tasks that all talk to each other, with least and greatest loads of nodes",
    parameters=_DENSE,
    build=_build_dense,
    source="as RanReal in the literature of capacitated clustering",
)

CLUSTERED = Kind(
    name="clustered",
    summary="The same with hidden groups that talk more",
    parameters=(
        *_DENSE,
        Option("hidden", "int", None, "groups; twice as many as nodes", minimum=1),
        Option("within", "float", 3.0, "factor on rates within a group", minimum=0),
    ),
    build=_build_dense,
)
