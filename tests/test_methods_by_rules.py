"""Every method under every rule: kept, and proved right where it is exact, or refused with remedy.

Nothing between: a rule that is set is never forgotten. Each rule has an instance in which the best
plan without it breaks it; all placements are tried, and the referee says which keep the rule.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest

from optim import Instance, UnsuitableMethod, all_methods, solve
from optim.referee import Termination, evaluate_indices
from optim.rules import RULES, limits_set, without_limits
from tests.fuzz.promises import EMPTIES

METHODS = [method for method in all_methods() if method.decides == "nodes"]
NODES: list[dict[str, Any]] = [
    {"id": f"n{i}", "capacity": {"cpu": 100.0}, "rack": f"r{i // 2}"} for i in range(3)
]
NEAR: list[dict[str, Any]] = [
    {"from": "a", "to": "b", "rate": 8.0, "pattern": "local_first", "sender_weights": [1, 3]},
    {"from": "c", "to": "b", "rate": 3.0, "pattern": "local_first"},
    {"from": "b", "to": "c", "rate": 4.0},
]
RULED: dict[str, dict[str, Any]] = {
    "capacity": {"nodes": [{**node, "capacity": {"cpu": 11.0}} for node in NODES]},
    "max_utilisation": {"limits": {"max_utilisation": {"cpu": 0.11}}},
    "max_load": {"tasks": {"b/1": {"max_load": {"cpu": 5.0}}}},
    "min_load": {"nodes": [*NODES[:2], {**NODES[2], "min_load": {"cpu": 9.0}}]},
    "max_tasks": {"nodes": [{**node, "max_tasks": 2} for node in NODES]},
    "allowed": {"allowed": {"b/0": ["n2"], "a/0": ["n1", "n2"]}},
    "leaving": {"nodes": [*NODES[:2], {**NODES[2], "leaving": True}]},
    "crossing_cost": {
        "nodes": [{**node, "capacity": {"cpu": 16.0}} for node in NODES],
        "crossing_cost": {"cpu": {"out": 0.5, "in": 0.25}},
    },
    "links": {"links": [{"id": "up", "nodes": ["n0"], "capacity": 1.0}]},
    "max_migrations": {"limits": {"max_migrations": 1}},
    "max_migration_cost": {"limits": {"max_migration_cost": 2.5}},
    "max_migration_state": {
        "limits": {"max_migration_state": 2.5},
        "tasks": {"a/0": {"state": 2.0}, "b/0": {"state": 1.0}, "b/1": {"state": 3.0}},
    },
    "max_load_distance": {"limits": {"max_load_distance": 3.0}},
    "max_nodes_used": {
        "nodes": [{**node, "capacity": {"cpu": 15.0}} for node in NODES],
        "limits": {"max_nodes_used": 2},
    },
    "max_inflow": {"limits": {"max_inflow": 1}},
    "copies": {"limits": {"max_migrations": 1}, "copies": {"a/1": ["n0"], "b/0": ["n0", "n2"]}},
    "sets": {
        "sets": [
            {"id": "s", "tasks": ["a/0", "b/0"], "rule": "apart"},
            {"id": "t", "operator": "c", "rule": "together", "over": "rack"},
            {"id": "u", "operator": "b", "rule": "spread", "over": "rack", "at_least": 2},
        ]
    },
    "slots": {
        "nodes": [{**n, "slots": 2, "slot_capacity": {"cpu": 8.0}} for n in NODES],
        "topologies": [{"id": "t", "workers": 3}],
    },
    "slot_sets": {
        "nodes": [{**node, "slots": 2} for node in NODES],
        "topologies": [{"id": "t", "workers": 4}],
        "sets": [
            {"id": "s", "tasks": ["a/0", "b/0", "c/0"], "rule": "apart", "over": "slot"},
            {"id": "t", "tasks": ["a/1", "b/1"], "rule": "together", "over": "slot"},
            {"id": "u", "operator": "b", "rule": "spread", "over": "slot", "at_least": 2},
        ],
    },
    "max_workers_restarted": {
        "nodes": [{**node, "capacity": {"cpu": 22.0}, "slots": 2} for node in NODES],
        "topologies": [{"id": "t", "workers": 3}],
        "limits": {"max_workers_restarted": 2},
        "slots": {"b/1": 1},
    },
    "exclusive_nodes": {"topologies": [{"id": "t", "exclusive_nodes": 1}], "alone": ["c"]},
    "local_first": {
        "nodes": [{**node, "capacity": {"cpu": 18.0}} for node in NODES],
        "streams": NEAR,
    },
    "local_first_links": {
        "nodes": [{**node, "capacity": {"cpu": 18.0}} for node in NODES],
        "streams": NEAR,
        "links": [{"id": "up", "nodes": ["n0"], "capacity": 5.0}],
    },
    "max_tasks_per_slot": {
        "nodes": [{**node, "slots": 1} for node in NODES],
        "limits": {"max_tasks_per_slot": 2},
    },
}


@cache
def made(rule: str) -> Instance:
    """Five tasks of three operators on three nodes of two racks, all of them on the first two."""
    parts = dict(RULED[rule])
    allowed, copies = parts.pop("allowed", {}), parts.pop("copies", {})
    more, slots = parts.pop("tasks", {}), parts.pop("slots", {})
    home = {"a/0": "n0", "a/1": "n1", "b/0": "n1", "b/1": "n0", "c/0": "n1"}
    tasks = []
    for i, (task, node) in enumerate(home.items()):
        entry: dict[str, Any] = {"id": task, "node": node, "migration_cost": 1.0 + i / 2}
        entry |= more.get(task, {})
        if parts.get("topologies") or rule == "max_tasks_per_slot":
            entry["slot"] = slots.get(task, 0)
        if task in allowed:
            entry["allowed"] = allowed[task]
        if task in copies:
            entry["copies"] = copies[task]
        tasks.append(entry)
    alone = parts.pop("alone", ["a", "b", "c"] if "topologies" in parts else [])
    topology = {name: {"topology": "t"} if name in alone else {} for name in "abc"}
    document = {
        "format": "streamplace.instance/1",
        "name": rule,
        "nodes": NODES,
        "operators": [
            {"id": "a", **topology["a"], "group": {"tasks": 2, "load": {"cpu": 8.0}}},
            {"id": "b", **topology["b"], "group": {"tasks": 2, "load": {"cpu": 10.0}}},
            {"id": "c", **topology["c"], "group": {"tasks": 1, "load": {"cpu": 3.0}}},
        ],
        "tasks": tasks,
        "streams": [{"from": "a", "to": "b", "rate": 8.0}, {"from": "b", "to": "c", "rate": 4.0}],
        **parts,
    }
    return Instance.from_dict(document)


@cache
def kept(rule: str) -> list[tuple[Any, bool]]:
    """Evaluations of all placements that keep every rule; whether they empty the leaving nodes."""
    instance = made(rule)
    found = []
    for node in itertools.product(range(instance.num_nodes), repeat=instance.num_tasks):
        at = np.array(node, dtype=np.int32)
        judged = evaluate_indices(instance, at)
        if judged.feasible:
            found.append((judged, not instance.nodes.leaving[at].any()))
    return found


def values(rule: str, objective: str, emptied: bool) -> list[float]:
    """Values of an objective over the placements that keep every rule, in order."""
    found = [one.objective(objective) for one, empties in kept(rule) if empties or not emptied]
    return sorted(value for value in found if value is not None)


def test_every_rule_has_an_instance_that_sets_it() -> None:
    missing = {rule.name for rule in RULES} - RULED.keys()
    assert not missing, "add an instance to RULED whose best plan without the rule breaks it"
    for name in RULED.keys() - {"max_utilisation"}:
        assert name in limits_set(made(name)), name


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_dropped_rule_is_gone(rule: Any) -> None:
    free = without_limits(made(rule.name), rule.name)
    assert rule.present(free) is None
    assert not set(limits_set(free)) - set(limits_set(made(rule.name)))


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_rule_is_kept_or_the_method_refuses(method: Any, rule: str) -> None:
    instance = made(rule)
    try:
        # without a limit a search ends by its own amount of work, with one it uses all of it
        result = solve(instance, method.name, time_limit=20.0 if method.kind == "exact" else None)
    except UnsuitableMethod as error:
        assert all(problem.remedy for problem in error.problems)
        return
    possible = values(rule, method.objective, method.name in EMPTIES and rule == "leaving")
    assert possible, "the case must have a plan"
    assert result.termination not in (Termination.INFEASIBLE, Termination.ERROR)
    if result.feasible:
        judged = evaluate_indices(instance, result.plan.node_indices(instance))
        assert judged.feasible
    else:
        assert method.kind == "heuristic", "an exact method or a search finds a plan here"
        return
    best = possible[0] if method.sense == "min" else possible[-1]
    told = result.objective.value
    if method.kind == "exact" and not result.assumes:
        assert result.termination == Termination.OPTIMAL
        assert told == pytest.approx(best, rel=1e-6, abs=1e-6)
    if result.bound is not None and not result.assumes:
        beyond = result.bound - best if method.sense == "min" else best - result.bound
        assert beyond <= 1e-6 * max(1.0, abs(best))
