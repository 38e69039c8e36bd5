"""A row's tolerance is of what is available in it: no number outside the row switches it off."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optim import solve
from optim.certificates import check
from optim.figures.measures import TOLERANCE, over
from optim.format.instance import Instance
from optim.referee import evaluate_indices
from streamplace.cli.main import main
from tests.optim.make import instance

REBALANCING = ["balance-milp", "balance-search", "flux"]
PLACING = [
    "imc-exact", "imc-milp", "imc-brute", "imc-search", "eoa-milp", "storm-milp", "naive",
    "task-level", "top-down", "throughput-exact", "throughput-milp", "throughput-search",
]  # fmt: skip


def on_first(costs: list[float], budget: float, loads: list[float] | None = None) -> Instance:
    """Tasks on the first of two nodes without capacities, each with its cost."""
    tasks = [
        {"id": f"t{i}", "load": {"cpu": load}, "node": "n1", "migration_cost": cost}
        for i, (cost, load) in enumerate(zip(costs, loads or [1.0] * len(costs), strict=True))
    ]
    limits = {"max_migration_cost": budget}
    nodes: list[dict[str, Any]] = [{"id": "n1"}, {"id": "n2"}]
    return instance(nodes=nodes, operators=[], streams=[], traffic=[], tasks=tasks, limits=limits)


def full_node(other: float) -> Instance:
    """A node of 500 that one task of 500 needs, and another would like; and a huge one."""
    tasks = [
        {"id": "huge", "load": {"cpu": other}},
        {"id": "here", "load": {"cpu": 500}, "allowed": ["n2"]},
        {"id": "near", "load": {"cpu": 500}},
    ]
    nodes = [{"id": "n1", "capacity": {"cpu": 1e13}}, {"id": "n2", "capacity": {"cpu": 500}}]
    traffic = [["here", "near", 1]]
    return instance(nodes=nodes, operators=[], streams=[], tasks=tasks, traffic=traffic)


def test_the_definition() -> None:
    for available in (1e-12, 1.0, 500.0, 1e12):
        for needed in (available * (1 + 0.9e-9), available * (1 + 1.1e-9), 2 * available):
            row = Fraction(needed) - Fraction(available)
            larger = max(Fraction(available), Fraction(needed))
            assert over(needed, available) == (row > Fraction(TOLERANCE) * larger)
    assert over(1e-300, 0.0)
    assert not over(0.0, 0.0)
    assert not over(1.0, np.inf)


@pytest.mark.parametrize("method", REBALANCING)
@pytest.mark.parametrize("huge", [1e9, 2e9, 1e12])
def test_a_budget_beside_a_cost_that_nothing_pays(method: str, huge: float) -> None:
    made = on_first([huge, 1, 1, 1], 1)
    result = solve(made, method)
    assert result.evaluation is not None
    assert result.evaluation.migration_cost == 1
    assert len(result.moves) == 1
    two = evaluate_indices(made, np.array([0, 1, 1, 0], dtype=np.int32))
    assert [v.rule for v in two.violations] == ["max_migration_cost"]


@pytest.mark.parametrize("method", REBALANCING)
def test_states_within_a_budget(method: str) -> None:
    result = solve(on_first([1e12, 900, 5], 100, [1, 3, 1]), method)
    assert result.evaluation is not None
    assert result.evaluation.migration_cost == 5


@pytest.mark.parametrize("method", PLACING)
def test_a_node_keeps_its_500(method: str) -> None:
    result = solve(full_node(9e11), method)
    assert result.feasible
    assert result.plan is not None
    assert result.plan.assignment == {"huge": "n1", "here": "n2", "near": "n1"}
    both = evaluate_indices(full_node(9e11), np.array([0, 1, 1], dtype=np.int32))
    assert [(v.rule, v.where) for v in both.violations] == [("capacity", "n2.cpu")]


def test_moves_for_the_rate_do_not_contradict_themselves(tmp_path: Path) -> None:
    made = instance(
        nodes=[{"id": "n1", "capacity": {"cpu": 1e9}}, {"id": "n2", "capacity": {"cpu": 0.001}}],
        operators=[],
        streams=[],
        tasks=[
            {"id": "a", "load": {"cpu": 9e8}, "node": "n1"},
            {"id": "b", "load": {"cpu": 0.0015}, "node": "n2"},
        ],
        traffic=[["a", "b", 1]],
    )
    path = tmp_path / "case.json"
    path.write_text(made.to_json())
    assert (
        main(["solve", str(path), "--method", "throughput-exact", "--objective", "migrations"]) == 0
    )
    result = solve(made, "throughput-exact", objective="migrations")
    assert (str(result.termination), len(result.moves)) == ("optimal", 1)


@pytest.mark.parametrize(("limit", "least"), [(1, 1), (2, 0)])
def test_no_certificate_holds_for_a_broken_budget(limit: int, least: int) -> None:
    """Four tasks of 1 on one of two nodes: one move leaves a distance of 1, two leave none."""
    made = on_first([1e12, 1, 1, 1], limit)
    model = check.Instance(json.loads(made.to_json(), parse_float=Fraction))
    prices, most = model.budgets[0]
    affordable = [k for k in range(4) if sum(sorted(prices)[:k]) <= most]
    assert max(affordable) == limit
    assert solve(made, "balance-milp").objective.value == pytest.approx(least)


def test_load_distance_is_judged_by_its_own_rows() -> None:
    """A distance of 1.5 beside loads of 1e12: rounding there; beside loads of 1: none."""
    for base, broken in ((1.0, True), (1e12, False)):
        nodes = [
            {"id": "n1", "background": {"cpu": base}},
            {"id": "n2", "background": {"cpu": base}},
        ]
        made = instance(
            nodes=nodes,
            operators=[],
            streams=[],
            traffic=[],
            tasks=[{"id": "t", "load": {"cpu": 3}}],
            limits={"max_load_distance": 1.4},
        )
        found = evaluate_indices(made, np.array([0], dtype=np.int32))
        assert bool(found.violations) is broken


def test_rows_are_added_up_without_rounding_where_that_decides() -> None:
    """Many loads of 0.1 and one of 0.3 against what their exact sum may be, and a hair less."""
    loads = [0.1] * 4000 + [0.3]
    exact = sum(map(Fraction, loads))
    for r in range(-3, 4):  # in units of the last place of the bound
        bound = float(exact / (1 + Fraction(TOLERANCE)))
        bound += r * np.spacing(bound)
        made = instance(
            nodes=[{"id": "n", "capacity": {"cpu": bound}}],
            operators=[],
            streams=[],
            traffic=[],
            tasks=[{"id": f"t{i}", "load": {"cpu": load}} for i, load in enumerate(loads)],
        )
        found = evaluate_indices(made, np.zeros(len(loads), dtype=np.int32))
        if abs(r) > 1:
            assert bool(found.violations) is (exact > Fraction(bound) * (1 + Fraction(TOLERANCE)))
