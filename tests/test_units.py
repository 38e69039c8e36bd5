"""The unit in the file, its names and its order decide neither the plan, nor what is proved."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from optim import Instance, Result, all_methods, solve
from optim.methods.choose import is_suitable
from tests.slowly import slowly

METHODS = [method for method in all_methods() if method.decides == "nodes"]
POWERS = ((-9, 12, -3), (-3, 4, 12), (4, -9, -9), (12, -3, 4))
"""Of the units of loads, rates and costs."""
DRAWN = [POWERS[0], *slowly(*((powers,) for powers in POWERS[1:]))]


def document(load: float = 1.0, rate: float = 1.0, cost: float = 1.0) -> dict[str, Any]:
    """Six tasks of three operators on three nodes; every figure in a unit of its own."""
    nodes = [
        {"id": f"n{i}", "capacity": {"cpu": 24.7 * load}, "background": {"cpu": i * 1.1 * load}}
        for i in range(3)
    ]
    home = {"a/0": 0, "a/1": 0, "b/0": 0, "b/1": 1, "c/0": 1, "c/1": 2}
    return {
        "format": "streamplace.instance/1",
        "name": "units",
        "nodes": nodes,
        "operators": [
            {"id": name, "group": {"tasks": 2, "load": {"cpu": some * load}}}
            for name, some in (("a", 11.3), ("b", 13.9), ("c", 5.7))
        ],
        "tasks": [
            {"id": task, "node": f"n{n}", "migration_cost": (1.3 + i / 7) * cost}
            for i, (task, n) in enumerate(home.items())
        ],
        "streams": [
            {"from": "a", "to": "b", "rate": 8.3 * rate},
            {"from": "b", "to": "c", "rate": 4.7 * rate, "pattern": "one_to_one"},
        ],
    }


def budgeted(load: float = 1.0, rate: float = 1.0, cost: float = 1.0) -> dict[str, Any]:
    made = document(load, rate, cost)
    made["limits"] = {"max_migration_cost": 4.4 * cost, "max_load_distance": 9.1 * load}
    return made


def linked(load: float = 1.0, rate: float = 1.0, cost: float = 1.0) -> dict[str, Any]:
    made = document(load, rate, cost)
    made["links"] = [{"id": "up", "nodes": ["n0"], "capacity": 9.1 * rate, "background": rate}]
    return made


def slotted(load: float = 1.0, rate: float = 1.0, cost: float = 1.0) -> dict[str, Any]:
    made = document(load, rate, cost)
    made["topologies"] = [{"id": "t", "workers": 4}]
    made["operators"] = [{**operator, "topology": "t"} for operator in made["operators"]]
    made["tasks"] = [{**task, "slot": 0} for task in made["tasks"]]
    slots = {"slots": 2, "slot_capacity": {"cpu": 25.1 * load}}
    made["nodes"] = [{**node, **slots} for node in made["nodes"]]
    return made


CASES = (budgeted, linked, slotted, document)


@cache
def suited(method: Any) -> Any:
    """The first case that a method takes; those with most figures come first."""
    return next(case for case in CASES if is_suitable(method, Instance.from_dict(case())))


@cache
def plain(method: Any) -> Result:
    return solve(Instance.from_dict(suited(method)()), method.name, seed=3)


@pytest.mark.parametrize("powers", DRAWN, ids=str)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_the_unit_decides_nothing(method: Any, powers: tuple[int, int, int]) -> None:
    units = [10.0**power for power in powers]
    told = solve(Instance.from_dict(suited(method)(*units)), method.name, seed=3)
    usual = plain(method)
    assert told.termination == usual.termination
    assert dict(told.plan.assignment) == dict(usual.plan.assignment)
    assert told.feasible == usual.feasible
    assert (told.bound is None) == (usual.bound is None)
    assert told.assumes == usual.assumes
    if usual.gap is not None:
        assert told.gap == pytest.approx(usual.gap, rel=1e-6, abs=1e-9)


NAMES = {"a": "zz", "b": "mm", "c": "Aa", "n0": "q", "n1": "B 1", "n2": "k"}


def renamed(value: Any) -> Any:
    """Every id by another, in another order of the alphabet; tasks follow their operators."""
    if isinstance(value, dict):
        return {NAMES.get(key, key): renamed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [renamed(each) for each in value]
    if not isinstance(value, str):
        return value
    head, _, tail = value.partition("/")
    return NAMES.get(head, head) + (f"/{tail}" if tail else "")


def reordered(value: dict[str, Any]) -> dict[str, Any]:
    """Every table the other way round."""
    return {key: each[::-1] if isinstance(each, list) else each for key, each in value.items()}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_names_decide_nothing(method: Any) -> None:
    told = solve(Instance.from_dict(renamed(suited(method)())), method.name, seed=3)
    usual = plain(method)
    assert told.termination == usual.termination
    assert dict(told.plan.assignment) == {
        renamed(task): renamed(node) for task, node in usual.plan.assignment.items()
    }


@pytest.mark.parametrize(
    "method", [m for m in METHODS if m.kind == "exact"], ids=lambda method: method.name
)
def test_the_order_decides_nothing_that_is_proved(method: Any) -> None:
    told = solve(Instance.from_dict(reordered(suited(method)())), method.name, seed=3)
    usual = plain(method)
    assert (told.termination, told.bound_of) == (usual.termination, usual.bound_of)
    assert told.objective.value == pytest.approx(usual.objective.value, rel=1e-9, abs=1e-12)


def too_tight(load: float = 1.0, rate: float = 1.0, cost: float = 1.0) -> dict[str, Any]:
    """The sum would do, whole tasks do not fit; the operators' tasks are unlike."""
    made = document(load, rate, cost)
    for node in made["nodes"]:
        node["capacity"]["cpu"] = 23.1 * load
    return made


def too_cheap(load: float = 1.0, rate: float = 1.0, cost: float = 1.0) -> dict[str, Any]:
    """A node is to be emptied, and what that costs is not there."""
    made = document(load, rate, cost)
    made["nodes"][1]["leaving"] = True
    made["nodes"][0]["capacity"]["cpu"] = 240.0 * load
    made["limits"] = {"max_migration_cost": 1.1 * cost}
    return made


def too_even(load: float = 1.0, rate: float = 1.0, cost: float = 1.0) -> dict[str, Any]:
    made = document(load, rate, cost)
    made["limits"] = {"max_load_distance": 0.01 * load, "max_migrations": 5}
    return made


UNITS = (1e3, 1e-2, 1e5)


@pytest.mark.parametrize("case", [too_tight, too_cheap, too_even])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_reasons_are_told_in_the_unit_of_the_file(method: Any, case: Any) -> None:
    """The same figures, times the unit of loads, of rates, of costs, or of counts."""
    if not is_suitable(method, Instance.from_dict(case())):
        pytest.skip("it does not take such instances")
    hard = any(option.name == "drain" for option in method.options) and case is too_cheap
    options: dict[str, Any] = {"explain": 60.0} | ({"drain": "hard"} if hard else {})
    limit = 1.0 if method.kind == "exact" else None
    found = [
        solve(Instance.from_dict(case(*units)), method.name, seed=3, time_limit=limit, **options)
        for units in ((1.0, 1.0, 1.0), UNITS)
    ]
    usual, told = ({(r.rule, r.where): (r.needed, r.available) for r in x.reasons} for x in found)
    ended = {result.termination for result in found}
    assert usual.keys() == told.keys() or ended != {"infeasible"}, ended
    for (rule, where), figures in told.items():
        needed, available = usual.get((rule, where), (None, None))
        if needed is None:
            continue  # of a run that its time has ended
        factor = 1.0
        if rule in ("capacity", "min_load", "max_load_distance"):
            factor = UNITS[0]
        elif rule == "max_migration_cost" or "max_migration_cost" in where:
            factor = UNITS[2]
        assert figures == pytest.approx([needed * factor, available * factor], rel=1e-9), where


def test_kilocores_end_as_cores_do() -> None:
    """Load distance 0.00004 kilocores is as far from 0.00003 as 40 millicores from 30."""
    document = {
        "format": "streamplace.instance/1",
        "name": "kilocores",
        "nodes": [{"id": f"n{i}"} for i in range(3)],
        "tasks": [
            {"id": f"t{i}", "load": {"cpu": (3 + i * 5 % 11) * 1e-6}, "node": "n0"}
            for i in range(12)
        ],
    }
    result = solve(Instance.from_dict(document), "balance-milp")
    best = solve(
        Instance.from_dict(
            {
                **document,
                "tasks": [
                    {**t, "load": {"cpu": t["load"]["cpu"] * 1e6}} for t in document["tasks"]
                ],
            }
        ),
        "balance-milp",
    )
    assert result.termination == best.termination == "optimal"
    assert result.objective.value * 1e6 == pytest.approx(best.objective.value, abs=1e-3)
