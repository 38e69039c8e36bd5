"""``cluster``, ``scale_in``, ``joint``: the synthetic rebalancing instances of the ALBIC paper.

Madsen, Zhou, Cao 2016, sections 5.1 (Figures 2 to 5) and 5.3 (Figures 10 and 11). What the text
lost is set so that instances handed down from such a study are met: loads are points of a node of
100, a node has 50 on average, noise is ±5 %.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.generators.key_groups import (
    KeyGroups,
    build_instance,
    even_key_groups,
    one_to_one_job,
    one_to_one_pairs,
    shift_nodes,
)
from experiments.generators.kinds import Kind, check_tasks
from optim.errors import InvalidInput, Problem
from optim.format.traffic import MAX_PAIRS
from optim.options import Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optim.format.instance import Instance

OVERLOADED = 100.0
"""Load of an overloaded node, in points (Figure 5)."""


def build_cluster(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build the cluster of Figures 2 to 4: a share of the nodes is shifted, half down, half up.

    With `one_to_one` above 0, key groups of two operators talk to each other in pairs, which the
    paper's clusters do not: what is collocated under a load distance can then be studied on them.
    """
    load, home = _cluster_loads(rng, p)
    origin = f"synthetic cluster after section 5.1 of the ALBIC paper; varies {p['varies']:g}"
    groups = _without_traffic(load, home)
    if p["one_to_one"] > 0:
        groups = KeyGroups(load, home, *one_to_one_pairs(rng, len(load), p["one_to_one"]))
        origin += f", {p['one_to_one']:g} % of the key groups in one-to-one pairs"
    return build_instance(name, origin, groups, _nodes(p), _limits(p))


def build_scale_in(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build the cluster of Figure 5: some nodes leave, some of those that stay are overloaded.

    Raises
    ------
    InvalidInput
        No node is left.
    """
    leaving, overloaded, nodes = p["leaving"], p["overloaded"], p["nodes"]
    if leaving + max(1, overloaded) > nodes:
        reason = f"and {overloaded} overloaded are more than the {nodes} nodes, or none stays"
        raise InvalidInput(Problem("leaving", leaving, reason, "take fewer, or more nodes"))
    load, home = _cluster_loads(rng, p)
    chosen = rng.permutation(nodes)[: leaving + overloaded]
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
    return build_instance(name, origin, _without_traffic(load, home), entries, _limits(p))


def build_joint(rng: np.random.Generator, name: str, p: Mapping[str, Any]) -> Instance:
    """Build one period of the collocation experiment of Figures 10 and 11.

    The load of a share of the nodes (those of the first placement) is adjusted once a period, each
    by a percentage between −varies and +varies; adjustments add up from period to period. Traffic
    stays. The same seed with another `period` gives another period of the same job.

    Raises
    ------
    InvalidInput
        An odd number of operators, more operators than key groups, or too many pairs.
    """
    count = p["nodes"] * p["key_groups"]
    if p["operators"] % 2 or p["operators"] > count:
        reason = f"must be even and at most the {count} key groups"
        raise InvalidInput(Problem("operators", p["operators"], reason))
    check_tasks("key_groups", p["key_groups"], count)
    several = math.ceil(count / p["operators"] * (1 - p["one_to_one"] / 100.0))
    several *= p["rest"] == "pairs"
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


def joint_periods(seed: int, periods: int, **parameters: Any) -> list[Instance]:
    """Return several periods of one ``joint`` job, from period 0 on.

    Parameters
    ----------
    seed, periods
        Of the job; how many.
    **parameters
        Of the kind ``joint``, `period` excepted.

    Raises
    ------
    InvalidInput
        Unknown parameters, or values that do not do.
    """
    return [JOINT.make(seed, {**parameters, "period": period}) for period in range(periods)]


def _cluster_loads(
    rng: np.random.Generator, p: Mapping[str, Any]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    check_tasks("key_groups", p["key_groups"], p["nodes"] * p["key_groups"])
    load, home = even_key_groups(rng, p["nodes"], p["key_groups"], p["mean"], p["noise"])
    nodes = rng.choice(p["nodes"], _num_shifted(p), replace=False)
    percent = np.where(np.arange(len(nodes)) < len(nodes) // 2, -p["varies"], p["varies"])
    return shift_nodes(rng, load, home, nodes, percent, p["mean"]), home


def _num_shifted(p: Mapping[str, Any]) -> int:
    return round(p["nodes"] * p["shifted"] / 100.0)


def _without_traffic(load: NDArray[np.float64], home: NDArray[np.int64]) -> KeyGroups:
    none = np.zeros(0, dtype=np.int64)
    return KeyGroups(load, home, np.zeros(len(load), np.int64), none, none, np.zeros(0))


def _nodes(p: Mapping[str, Any]) -> list[dict[str, Any]]:
    capacity = {} if p["capacity"] is None else {"capacity": {"cpu": p["capacity"]}}
    return [{"id": f"n{i:04d}", **capacity} for i in range(p["nodes"])]


def _limits(p: Mapping[str, Any]) -> dict[str, Any]:
    names = ("max_migrations", "max_migration_cost", "max_load_distance")
    return {name: p.get(name) for name in names}


def _common(nodes: int, varies: float, budget: int) -> tuple[Option, ...]:
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


_DISTANCE = Option(
    "max_load_distance", "float", None, "limit, points; none: no limit", minimum=0
)  # fmt: skip

CLUSTER = Kind(
    name="cluster",
    summary="Even key groups; some nodes shifted up and down; a budget of moves",
    source="Madsen, Zhou, Cao 2016, section 5.1, Figures 2 to 4",
    build=build_cluster,
    parameters=(*_common(20, 40.0, 10), _one_to_one(0.0), _DISTANCE),
)

SCALE_IN = Kind(
    name="scale_in",
    summary="A cluster with leaving and overloaded nodes",
    source="Madsen, Zhou, Cao 2016, section 5.1, Figure 5",
    build=build_scale_in,
    parameters=(
        *_common(60, 20.0, 20),
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
        *_common(40, 20.0, 20),
        Option("operators", "int", 20, "number of operators, even", minimum=2),
        _one_to_one(50.0),
        Option(
            "rest",
            "str",
            "pairs",
            "where key groups without one partner send: evenly to those of the paired operator, "
            "or out of the job, so that one_to_one is the most that can be collocated",
            choices=("pairs", "outside"),
        ),
        Option("period", "int", 1, "adjustments made so far", minimum=0, maximum=10_000),
        _DISTANCE,
    ),
)
