"""``cluster``, ``scale_in``, ``joint``: the synthetic rebalancing instances of the ALBIC paper.

Madsen, Zhou, Cao 2016, sections 5.1 (Figures 2 to 5) and 5.3 (Figures 10 and 11). What the text
lost is set so that instances produced by such a study are met: loads are points of a node of
100, a node has 50 on average, noise is ±5 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.generators.kinds import Kind, check_tasks, instance, task_table
from optim.errors import InvalidInput, Problem
from optim.format.instance import Instance
from optim.format.tables import TrafficTable
from optim.format.traffic import MAX_PAIRS
from optim.plugins import Option

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

OVERLOADED = 100.0  # Load of an overloaded node, in points (Figure 5).


def build_cluster(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build the cluster of Figures 2 to 4: a share of the nodes is shifted, half down, half up.

    With `one_to_one` above 0, key groups of two operators talk to each other in pairs, which the
    paper's clusters do not: what is collocated under a load distance can then be studied on them.
    """
    load, home = _cluster_loads(rng, p)
    origin = f"synthetic cluster after section 5.1 of the ALBIC paper; varies {p['varies']:g}"
    traffic = _no_traffic(len(load))
    if p["one_to_one"] > 0:
        traffic = one_to_one_pairs(rng, len(load), p["one_to_one"])
        origin += f", {p['one_to_one']:g} % of the key groups in one-to-one pairs"
    return build_instance(name, origin, KeyGroups(load, home, *traffic), _nodes(p), _limits(p))


def build_scale_in(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build the cluster of Figure 5: some nodes leave, some of those that stay are overloaded."""
    leaving, overloaded, nodes = p["leaving"], p["overloaded"], p["nodes"]
    if leaving + max(1, overloaded) > nodes:
        reason = f"and {overloaded} overloaded are more than the {nodes} nodes, or none stays"
        raise InvalidInput(Problem("leaving", leaving, reason, "take fewer, or more nodes"))
    load, home = _cluster_loads(rng, p)
    chosen = rng.permutation(nodes)[: leaving + overloaded]
    # scaled to the load of an overloaded node, the shares of its key groups kept
    for node in chosen[leaving:].tolist():
        here = home == node
        load[here] *= OVERLOADED / load[here].sum()
    entries = _nodes(p)
    for node in sorted(chosen[:leaving].tolist()):
        entries[node]["leaving"] = True
    origin = (
        f"synthetic cluster after section 5.1 of the ALBIC paper, Figure 5; {leaving} nodes "
        f"leaving, {overloaded} at {OVERLOADED:g} points, varies {p['varies']:g}"
    )
    groups = KeyGroups(load, home, *_no_traffic(len(load)))
    return build_instance(name, origin, groups, entries, _limits(p))


def num_key_groups(p: Mapping[str, Any]) -> int:
    """Return how many key groups there are on all nodes, which operators have in pairs.

    Raises `InvalidInput`: operators are odd in number, or more than key groups.
    """
    count: int = p["nodes"] * p["key_groups"]
    if p["operators"] % 2 or p["operators"] > count:
        reason = f"must be even and at most the {count} key groups"
        raise InvalidInput(Problem("operators", p["operators"], reason))
    return count


def build_joint(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build one period of the collocation experiment of Figures 10 and 11.

    The load of a share of the nodes (those of the first placement) is adjusted once a period, each
    by a percentage between −varies and +varies; adjustments add up from period to period. Traffic
    stays. The same seed with another `period` gives another period of the same job.
    """
    count = num_key_groups(p)
    check_tasks("key_groups", p["key_groups"], count)
    several = math.ceil(count / p["operators"] * (1 - p["one_to_one"] / 100.0))
    several *= p["rest"] == "pairs"
    # key groups without one partner send to all of the other operator: that many pairs each
    pairs = p["operators"] // 2 * several**2
    if pairs > MAX_PAIRS:
        reason = f"gives about {pairs:,} pairs of key groups that talk, above {MAX_PAIRS:,}"
        remedy = "raise it, or operators, or take fewer key groups"
        raise InvalidInput(Problem("one_to_one", p["one_to_one"], reason, remedy))
    load, home = even_key_groups(rng, p["nodes"], p["key_groups"], p["mean"], p["noise"])
    operator, source, target, rate = one_to_one_job(
        rng, count, p["operators"], p["one_to_one"], outside=p["rest"] == "outside"
    )
    for _ in range(p["period"]):
        nodes = rng.choice(p["nodes"], _num_shifted(p), replace=False)
        percent = rng.uniform(-p["varies"], p["varies"], len(nodes))
        load = shift_nodes(rng, load, home, nodes, percent, p["mean"])
    origin = (
        f"synthetic job after section 5.3 of the ALBIC paper; {p['one_to_one']:g} % of the key "
        f"groups one to one, period {p['period']}"
    )
    groups = KeyGroups(load, home, operator, source, target, rate)
    return build_instance(name, origin, groups, _nodes(p), _limits(p))


def _cluster_loads(rng: np.random.Generator, p: Mapping[str, Any]) -> tuple[Floats, Integers]:
    check_tasks("key_groups", p["key_groups"], p["nodes"] * p["key_groups"])
    load, home = even_key_groups(rng, p["nodes"], p["key_groups"], p["mean"], p["noise"])
    nodes = rng.choice(p["nodes"], _num_shifted(p), replace=False)
    # half of the shifted nodes go down, the others up
    percent = np.where(np.arange(len(nodes)) < len(nodes) // 2, -p["varies"], p["varies"])
    return shift_nodes(rng, load, home, nodes, percent, p["mean"]), home


def _num_shifted(p: Mapping[str, Any]) -> int:
    return round(p["nodes"] * p["shifted"] / 100.0)


def _no_traffic(count: int) -> tuple[Integers, Integers, Integers, Floats]:
    none = np.zeros(0, dtype=np.int64)
    return np.zeros(count, np.int64), none, none, np.zeros(0)


def _nodes(p: Mapping[str, Any]) -> list[dict[str, Any]]:
    capacity = {} if p["capacity"] is None else {"capacity": {"cpu": p["capacity"]}}
    return [{"id": f"n{i:04d}", **capacity} for i in range(p["nodes"])]


def _limits(p: Mapping[str, Any]) -> dict[str, Any]:
    names = ("max_migrations", "max_migration_cost", "max_load_distance")
    return {name: p.get(name) for name in names}


def _size_options(nodes: int, varies: float, budget: int) -> tuple[Option, ...]:
    return (
        Option("nodes", "int", nodes, "number of nodes", minimum=1, maximum=100_000),
        Option("key_groups", "int", 20, "key groups on each node", minimum=1, maximum=10_000),
        Option("mean", "float", 50.0, "mean load of a node, points", minimum=0.1),
        Option("noise", "float", 5.0, "± percent of a key group", minimum=0, maximum=99),
        Option("shifted", "float", 20.0, "percent of the nodes shifted", minimum=0, maximum=100),
        Option("varies", "float", varies, "percent a node is shifted by", minimum=0, maximum=100),
        Option(
            "max_migrations",
            "int",
            budget,
            "budget in moves; none: no limit",
            minimum=0,
            nullable=True,
        ),
        Option("capacity", "float", None, "of a node, points; none: unbounded", minimum=1),
    )


def _one_to_one(percent: float) -> Option:
    text = "percent of the key groups with one partner"
    return Option("one_to_one", "float", percent, text, minimum=0, maximum=100)


_DISTANCE = Option("max_load_distance", "float", None, "limit, points; none: no limit", minimum=0)

CLUSTER = Kind(
    name="cluster",
    summary="Even key groups; some nodes shifted up and down; a budget of moves",
    source="Madsen, Zhou, Cao 2016, section 5.1, Figures 2 to 4",
    build=build_cluster,
    parameters=(*_size_options(20, 40.0, 10), _one_to_one(0.0), _DISTANCE),
)

SCALE_IN = Kind(
    name="scale_in",
    summary="A cluster with leaving and overloaded nodes",
    source="Madsen, Zhou, Cao 2016, section 5.1, Figure 5",
    build=build_scale_in,
    parameters=(
        *_size_options(60, 20.0, 20),
        Option("leaving", "int", 10, "nodes marked for removal", minimum=0),
        Option("overloaded", "int", 1, "staying nodes at 100 points", minimum=0),
    ),
)

JOINT = Kind(
    name="joint",
    summary="A job with a share of one-to-one key groups, whose loads vary by period",
    source="Madsen, Zhou, Cao 2016, section 5.3, Figures 10 and 11",
    build=build_joint,
    parameters=(
        *_size_options(40, 20.0, 20),
        Option("operators", "int", 20, "number of operators, even", minimum=2),
        _one_to_one(50.0),
        Option(
            "rest", "str", "pairs",
            "where key groups without one partner send: evenly to those of the paired operator, "
            "or out of the job, so that one_to_one is the most that can be collocated",
            choices=("pairs", "outside"),
        ),
        Option("period", "int", 1, "adjustments made so far", minimum=0, maximum=10_000),
        _DISTANCE,
    ),
)  # fmt: skip


LEAST_LOAD = 0.05  # No key group falls below this, in points.
SPREAD_OF_RATES = 0.5  # Standard deviation of the logarithm of one-to-one rates in clusters.

_DECIMALS = 4


@dataclass(frozen=True, eq=False)
class KeyGroups:
    """A rebalancing instance in the making."""

    #: (T,) load in points and current node.
    load: Floats
    home: Integers
    operator: Integers  # (T,) number of each key group's operator.
    #: (K,) directed traffic.
    source: Integers
    target: Integers
    rate: Floats


def even_key_groups(
    rng: np.random.Generator, nodes: int, per_node: int, mean: float, noise: float
) -> tuple[Floats, Integers]:
    """Return loads and homes of as many key groups on every node, loads ± `noise` percent.

    `mean`: load of a node in points, before the noise.
    """
    load = mean / per_node * (1.0 + rng.uniform(-noise, noise, nodes * per_node) / 100.0)
    return load, np.repeat(np.arange(nodes), per_node)


def shift_nodes(
    rng: np.random.Generator,
    load: Floats,
    home: Integers,
    nodes: Integers,
    percent: Floats,
    mean: float,
) -> Floats:
    """Return loads after nodes were shifted by changing a random half of their key groups.

    Every changed key group takes a random part of the shift, between half and one and a half of an
    even one before they are scaled to the whole; none falls below `LEAST_LOAD`.

    `load`, `home`: (T,) before.
    `nodes`, `percent`: which nodes, and by how many percent of `mean` each.
    `mean`: load of a node in points.
    """
    shifted = load.copy()
    for node, change in zip(nodes.tolist(), percent.tolist(), strict=True):
        members = np.flatnonzero(home == node)
        if not len(members):
            continue
        half = rng.choice(members, max(1, len(members) // 2), replace=False)
        # percent of the mean load, in random parts on half of the key groups of the node
        part = rng.uniform(0.5, 1.5, len(half))
        moved = shifted[half] + change / 100.0 * mean * part / part.sum()
        shifted[half] = np.maximum(LEAST_LOAD, moved)
    return shifted


def one_to_one_job(
    rng: np.random.Generator,
    key_groups: int,
    operators: int,
    one_to_one: float,
    outside: bool = False,
) -> tuple[Integers, Integers, Integers, Floats]:
    """Return a job of operator pairs: operators, senders, receivers and rates.

    Operators 0 and 1, 2 and 3, … form pairs, the first of each sending to the second. A share of
    the senders has one receiver each, which receives from no one else; the others send evenly to
    all receivers that are left (where none are, as of an odd number of key groups, to all). Key
    groups go to operators in turn. All traffic adds up to 100.

    `one_to_one`: percent of the key groups with one partner.
    `outside`: the others send out of the job instead, which is no traffic between key groups: then
        there is nothing to collocate but the pairs.
    """
    operator = np.arange(key_groups) % operators
    sources, targets, rates = [], [], []
    for pair in range(operators // 2):
        up = rng.permutation(np.flatnonzero(operator == 2 * pair))
        down = rng.permutation(np.flatnonzero(operator == 2 * pair + 1))
        out = rng.uniform(0.5, 1.5, len(up))
        single = round(min(len(up), len(down)) * one_to_one / 100.0)
        rest = down[single:] if single < len(down) else down
        if outside:
            sources.append(up[:single])
            targets.append(down[:single])
            rates.append(out[:single])
            continue
        sources += [up[:single], np.repeat(up[single:], len(rest))]
        targets += [down[:single], np.tile(rest, len(up) - single)]
        rates += [out[:single], np.repeat(out[single:] / len(rest), len(rest))]
    source, target, rate = (np.concatenate(part) for part in (sources, targets, rates))
    # sorted pairs: the same traffic is the same instance, however it was drawn
    order = np.lexsort((target, source))
    rate = rate[order] * (100.0 / max(1e-300, rate.sum()))
    return operator, source[order], target[order], rate


def one_to_one_pairs(
    rng: np.random.Generator, key_groups: int, one_to_one: float
) -> tuple[Integers, Integers, Integers, Floats]:
    """Return two operators whose key groups are one to one in part, the others without traffic.

    Rates are lognormal (σ `SPREAD_OF_RATES`) and add up to 100. The operators have the key groups
    in turn.

    `one_to_one`: percent of the key groups with one partner.
    """
    operator = np.arange(key_groups) % 2
    up = rng.permutation(np.flatnonzero(operator == 0))
    down = rng.permutation(np.flatnonzero(operator == 1))
    pairs = round(len(down) * one_to_one / 100.0)
    rate = rng.lognormal(0.0, SPREAD_OF_RATES, pairs)
    order = np.lexsort((down[:pairs], up[:pairs]))
    rate = rate[order] * (100.0 / rate.sum()) if pairs else rate
    return operator, up[:pairs][order], down[:pairs][order], rate


def build_instance(
    name: str,
    origin: str,
    groups: KeyGroups,
    nodes: list[dict[str, Any]],
    limits: Mapping[str, Any],
    **more: Any,
) -> Instance:
    """Put arrays into the tables of an instance; a million key groups need no million objects.

    `nodes`: entries of the document.
    `limits`: budget and the like; ``None`` values are left out.
    `**more`: further entries of the document, such as ``labels``.
    """
    count, operators = len(groups.load), int(groups.operator.max(initial=-1)) + 1
    bare = instance(
        name, origin, units={"cpu": "percent points", "rate": "percent of all traffic"},
        resources=["cpu"], nodes=nodes, operators=[{"id": f"op{o}"} for o in range(operators)],
        limits={key: value for key, value in limits.items() if value is not None}, **more,
    )  # fmt: skip
    order = np.argsort(groups.operator, kind="stable")
    # members of each operator, numbered in the order of the key groups (CSR)
    start = np.searchsorted(groups.operator[order], np.arange(operators + 1))
    member = np.empty(count, dtype=np.int32)
    member[order] = np.arange(count) - np.repeat(start[:-1], np.diff(start))
    tasks = task_table(
        tuple(f"k{i:06d}" for i in range(count)),
        np.round(groups.load, _DECIMALS)[:, None],
        operator=groups.operator.astype(np.int32),
        member=member,
        state=np.ones(count),
        node=groups.home.astype(np.int32),
    )
    members: dict[str, Any] = {
        "task_indptr": start.astype(np.int32),
        "task_indices": order.astype(np.int32),
    }
    traffic = TrafficTable(
        groups.source.astype(np.int32),
        groups.target.astype(np.int32),
        np.round(groups.rate, _DECIMALS + 2),
    )
    return replace(bare, operators=replace(bare.operators, **members), tasks=tasks, traffic=traffic)
