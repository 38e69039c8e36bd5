"""`imc-exact` against the judge, and the properties every allocation has."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from formulations.column_generation import integer
from formulations.column_generation.master import Master
from optim import Instance, Plan, evaluate, solve
from optim.errors import UnsuitableMethod
from tests.formulations.task_allocation.cases import random_document, random_instance, seeds
from tests.optim.make import instance, nodes


def value_of(made: Instance, method: str = "imc-exact", **kw: Any) -> float:
    """Return the proven optimum, or ``-inf`` when proven infeasible."""
    result = solve(made, method, start_broken="refuse", **kw)
    if result.termination == "infeasible":
        assert result.plan is None
        assert result.bound is None
        return -np.inf
    assert result.feasible
    assert result.objective is not None
    assert result.objective.value is not None
    assert result.bound is not None
    assert result.bound >= result.objective.value - 1e-9 * abs(result.bound)
    if result.bound == 0:  # for every plan: nothing to be best at
        assert (result.termination, result.gap) == ("heuristic", 0)
    else:
        assert result.termination == "optimal"
    return result.objective.value


@pytest.mark.parametrize("table", [True, False])
@given(seed=seeds)
def test_equals_brute_force(table: bool, seed: int) -> None:
    made = random_instance(seed)
    with pytest.MonkeyPatch.context() as patch:
        if not table:
            patch.setattr(integer, "MOST_CELLS", 0)
        assert value_of(made) == pytest.approx(value_of(made, "imc-brute"), rel=1e-6, abs=1e-9)


@given(seeds)
def test_names_order_and_units_change_nothing(seed: int) -> None:
    document = random_document(seed)
    plain = value_of(Instance.from_dict(document))
    factor = 2.0 ** float(np.random.default_rng(seed).integers(0, 12))
    changed = random_document(seed)
    changed["nodes"] = changed["nodes"][::-1]
    changed["streams"] = [dict(s, rate=s["rate"] * factor) for s in changed["streams"]]
    if "traffic" in changed:
        changed["traffic"] = [[v, u, rate * factor] for u, v, rate in changed["traffic"][::-1]]
    for operator in changed["operators"]:
        load = operator["group"]["load"]
        operator["group"]["load"] = {r: amount * factor for r, amount in load.items()}
    for node in changed["nodes"]:
        for field in ("capacity", "min_load", "background"):
            if field in node:
                node[field] = {r: amount * factor for r, amount in node[field].items()}
    other = value_of(Instance.from_dict(changed))
    assert other == pytest.approx(plain * factor, rel=1e-6, abs=1e-9)


@given(seeds)
def test_more_capacity_never_hurts(seed: int) -> None:
    document = random_document(seed)
    before = value_of(Instance.from_dict(document))
    for node in document["nodes"]:
        node["capacity"] = {r: 1.25 * amount for r, amount in node["capacity"].items()}
    after = value_of(Instance.from_dict(document))
    assert after >= before - 1e-6 * max(0.0, before)


@given(seeds)
def test_bound_lies_above_every_plan(seed: int) -> None:
    made = random_instance(seed)
    result = solve(made, "imc-exact", start_broken="refuse")
    if result.plan is None:
        return
    rng = np.random.default_rng(seed)
    for _ in range(20):
        node = rng.integers(0, made.num_nodes, made.num_tasks).astype(np.int32)
        judged = evaluate(made, Plan.from_indices(made, node))
        if judged.feasible and made.open_nodes[node].all():
            assert judged.imc_gain <= result.bound * (1 + 1e-9) + 1e-9


def four_groups(num_nodes: int, slack: float) -> Instance:
    groups = [{"id": f"g{i}", "group": {"tasks": 100, "load": {"cpu": 200}}} for i in range(4)]
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "four-by-100",
            "nodes": nodes(num_nodes, capacity={"cpu": 800 * slack / num_nodes}),
            "operators": groups,
            "streams": [
                {"from": "g0", "to": "g1", "rate": 15},
                {"from": "g1", "to": "g2", "rate": 14},
                {"from": "g2", "to": "g3", "rate": 16},
            ],
        }
    )


def test_four_hundred_tasks_are_proved() -> None:
    result = solve(four_groups(20, 1.1), "imc-exact")
    assert result.termination == "optimal"
    assert result.gap == 0.0
    assert result.objective is not None
    assert result.objective.value == pytest.approx(3.3804)


@pytest.mark.parametrize("seconds", [1e-3, 0.05])
def test_stopped_early_it_has_a_plan_and_a_bound(seconds: float) -> None:
    made = four_groups(8, 1.1)
    solve(four_groups(20, 1.0), "imc-exact")  # kernels are compiled before the clock starts
    result = solve(made, "imc-exact", time_limit=seconds)
    assert result.feasible
    assert result.objective is not None
    assert result.objective.value is not None
    assert result.bound is not None
    assert result.objective.value <= 8.1517 + 1e-6 <= result.bound + 1e-5
    assert result.termination in ("time_limit", "optimal")


def test_stopped_at_once_it_meets_lower_bounds() -> None:
    # first fit in the order of the file leaves the second node empty
    made = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "floor",
            "nodes": [
                {"id": "big", "capacity": {"cpu": 100}},
                {"id": "small", "capacity": {"cpu": 10}, "min_load": {"cpu": 2}},
            ],
            "operators": [
                {"id": "a", "group": {"tasks": 6, "load": {"cpu": 18}}},
                {"id": "b", "group": {"tasks": 6, "load": {"cpu": 9}}},
            ],
            "streams": [{"from": "a", "to": "b", "rate": 12}],
        }
    )
    result = solve(made, "imc-exact", time_limit=1e-6)
    assert result.feasible
    assert solve(made, time_limit=1e-6).method == "imc-exact"


def test_time_limit_holds_on_a_general_graph() -> None:
    rng = np.random.default_rng(1)
    tasks = [{"id": f"t{i}", "load": {"cpu": float(rng.integers(1, 10))}} for i in range(120)]
    pairs = {(int(a), int(b)) for a, b in rng.integers(0, 120, (400, 2)) if a < b}
    made = instance(
        nodes=nodes(10, capacity={"cpu": 80}),
        operators=[],
        streams=[],
        tasks=tasks,
        traffic=[[f"t{a}", f"t{b}", float(rng.integers(1, 9))] for a, b in sorted(pairs)],
    )
    began = time.perf_counter()
    result = solve(made, "imc-exact", time_limit=1.0)
    assert time.perf_counter() - began < 600.0  # not a speed test: a run away would take hours
    assert result.bound is not None
    assert result.objective is not None
    assert result.objective.value is not None
    assert result.objective.value <= result.bound


def test_wider_gap_stops_earlier() -> None:
    result = solve(four_groups(8, 1.5), "imc-exact", gap=0.5)
    assert result.gap is not None
    assert result.gap <= 0.5
    assert result.termination in ("gap_reached", "optimal")


def test_too_many_classes_are_refused_with_a_remedy() -> None:
    tasks = [{"id": f"t{i}", "load": {"cpu": 0.01 * (i + 1)}} for i in range(20)]
    made = instance(operators=[], streams=[], tasks=tasks, traffic=[["t0", "t1", 1]])
    with pytest.raises(UnsuitableMethod, match=r"20 classes.*partition"):
        solve(made, "imc-exact", max_classes=19)
    assert solve(made, "imc-exact", max_classes=20).termination == "optimal"


def test_infeasible_by_the_relaxation_is_explained() -> None:
    made = instance(
        nodes=nodes(2, capacity={"cpu": 8}),
        operators=[{"id": "a", "group": {"tasks": 3, "load": {"cpu": 15}}}],
        streams=[],
        traffic=[["a/0", "a/1", 1]],
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integer, "MOST_CELLS", 0)
        result = solve(made, "imc-exact", explain=30.0)
    assert result.termination == "infeasible"
    assert result.exit_code == 3
    reason = result.reasons[0]  # three of 5 (15 in all), two nodes of 8: one more than fit
    assert (reason.rule, reason.where) == ("capacity", "all nodes.cpu")
    assert reason.remark == "3 tasks, at most 1 a node"
    assert (reason.needed, reason.available) == (18.0, 16.0)


@settings(max_examples=30)
@given(seeds)
def test_never_worse_than_the_start(seed: int) -> None:
    made = random_instance(seed)
    if not made.open_nodes.all():
        return
    start = solve(made, "imc-brute", start_broken="refuse")
    if start.plan is None:
        return
    result = solve(made, "imc-exact", warm_start=start.plan, time_limit=1e-3, start_broken="refuse")
    assert result.objective is not None
    assert result.objective.value == pytest.approx(start.objective.value, rel=1e-9)  # type: ignore[union-attr]


@given(seeds)
def test_same_plan_twice(seed: int) -> None:
    made = random_instance(seed)
    first, second = solve(made, "imc-exact", seed=5), solve(made, "imc-exact", seed=5)
    assert (first.plan is None) == (second.plan is None)
    if first.plan is not None and second.plan is not None:
        assert first.plan.to_json() == second.plan.to_json()


def test_tasks_that_may_stay_do() -> None:
    made = instance(
        nodes=nodes(2, capacity={"cpu": 6}),
        tasks=[
            {"id": "a/0", "node": "n2"},
            {"id": "a/1", "node": "n1"},
            {"id": "b/0", "node": "n2"},
            {"id": "b/1", "node": "n1"},
        ],
    )
    result = solve(made, "imc-exact")
    assert result.moves == ()


@pytest.mark.parametrize("level", [50, 75, 90])
@pytest.mark.parametrize("query", range(1, 7))
def test_real_queries_are_proved(query: int, level: int, examples: Any) -> None:
    """CAPSys' queries at three levels of use of all processors, where that is possible at all."""
    made = Instance.load(examples / f"capsys-q{query}.json")
    document = made.to_dict()
    total = float(made.total_load[0])
    for node in document["nodes"]:
        node["capacity"]["cpu"] = total / (level / 100) / len(document["nodes"])
    result = solve(Instance.from_dict(document), "imc-exact")
    assert result.termination in ("optimal", "infeasible")


def test_interrupted_it_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Master, "run", interrupt)
    result = solve(four_groups(8, 1.1), "imc-exact")
    assert result.termination == "interrupted"
    assert result.feasible
    assert result.bound is not None
    assert result.bound >= 8.1517 - 1e-6


def test_a_start_that_breaks_less_is_kept_under_a_short_clock() -> None:
    made = random_instance(111)  # its current placement breaks two capacities
    start = solve(made, "imc-brute")
    result = solve(made, "imc-exact", warm_start=start.plan, time_limit=1e-3)
    assert start.mending is not None
    assert result.mending is not None
    assert result.mending.excess <= start.mending.excess
    (excess,) = (level for level in result.objective_levels if level.name == "excess")
    proven = excess.bound == excess.value
    assert ("no plan mends more" in str(result.mending)) == proven  # said where it is proven
