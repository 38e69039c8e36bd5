"""balance-milp as a method: needs, options, terminations, bounds, published optima."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from optim.errors import InvalidInput, UnsuitableMethod
from optim.format.instance import Instance
from optim.methods.solve import solve
from optim.referee import Result, Termination, evaluate
from tests.optim.make import instance as small


def instance_of(nodes: list[dict[str, Any]], tasks: list[dict[str, Any]], **more: Any) -> Instance:
    """Return an instance with one resource; nodes and tasks are numbered."""
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "small",
            "resources": ["cpu"],
            "nodes": [{"id": f"n{i}", **node} for i, node in enumerate(nodes)],
            "tasks": [{"id": f"k{i}", **task} for i, task in enumerate(tasks)],
            **more,
        }
    )


def loads_at(*placed: tuple[float, str], **more: Any) -> list[dict[str, Any]]:
    """Return tasks by load and node."""
    return [{"load": {"cpu": load}, "node": node, **more} for load, node in placed]


LEMMA = instance_of(
    [{}, {}, {}, {"leaving": True}], loads_at((6, "n0"), (6, "n0"), (7, "n1"), (7, "n2"))
)


def test_counterexample_to_the_lemmas() -> None:
    settled = solve(LEMMA, "balance-milp")
    assert settled.termination is Termination.OPTIMAL
    assert settled.objective is not None
    assert settled.objective.value == pytest.approx(10 / 3)
    literal = solve(LEMMA, "balance-milp", allow_into_leaving=True)
    assert literal.objective is not None
    assert literal.objective.value == pytest.approx(8 / 3)
    assert literal.plan is not None
    assert "n3" in literal.plan.assignment.values()


def test_dropping_the_limit_is_the_literal_model_and_for_methods_that_know_it() -> None:
    dropped = solve(LEMMA, "balance-search", ignore=["leaving"])
    assert dropped.objective is not None
    assert dropped.objective.value == pytest.approx(8 / 3)
    assert dropped.ignored == ("leaving",)
    with pytest.raises(InvalidInput, match="has no effect: flux"):
        solve(LEMMA, "flux", ignore=["leaving"])


def test_levels_are_told_with_their_bounds() -> None:
    result = solve(LEMMA, "balance-milp")
    names = [level.name for level in result.objective_levels]
    levels = ["load_distance", "load_on_leaving_nodes", "sum_of_sides"]
    assert names == [*levels, "migrations", "migration_cost"]
    assert result.bound is not None
    assert result.bound == pytest.approx(10 / 3, abs=1e-3)


def test_a_cost_beside_a_far_larger_one_is_no_bound() -> None:
    """A move to a copy of k1 costs nothing; beside 1e12 a solver takes 1 for that."""
    tasks = [
        {"load": {"cpu": 6}, "node": "n1", "migration_cost": 1e12, "copies": ["n0", "n3", "n4"]},
        {"load": {"cpu": 7}, "node": "n2", "copies": ["n1", "n3", "n4"]},
    ]
    nodes = [{}, {}, {"leaving": True}, {}, {}, {}]
    result = solve(
        instance_of(nodes, tasks, limits={"max_migration_cost": 7e11}), "balance-milp", form="full"
    )
    (cost,) = (level for level in result.objective_levels if level.name == "migration_cost")
    assert cost.bound == 0.0
    assert cost.value == 0.0 or any("migration_cost: best effort" in n for n in result.notes)


def test_a_task_without_a_current_node_is_placed_at_no_cost() -> None:
    tasks = [*loads_at((1, "n0")), {"load": {"cpu": 1}}]
    result = solve(instance_of([{}, {}], tasks, limits={"max_migrations": 0}), "balance-milp")
    assert result.plan is not None
    assert dict(result.plan.assignment) == {"k0": "n0", "k1": "n1"}
    assert str(result.termination) == "optimal"


def test_budget_and_capacity_of_the_balanced_resource() -> None:
    tasks = loads_at((4, "n0"), (4, "n0"), (4, "n0"))
    free = instance_of([{}, {}], tasks)
    capped = instance_of([{}, {"capacity": {"cpu": 3}}], tasks)
    assert _value(solve(free, "balance-milp")) == pytest.approx(2.0)
    assert _value(solve(capped, "balance-milp")) == pytest.approx(6.0)
    still = instance_of([{}, {}], tasks, limits={"max_migrations": 0})
    assert _value(solve(still, "balance-milp")) == pytest.approx(6.0)


def test_cost_budget_from_state() -> None:
    tasks = [
        {"load": {"cpu": 4}, "state": 9.0, "node": "n0"},
        {"load": {"cpu": 3}, "state": 2.0, "node": "n0"},
        {"load": {"cpu": 2}, "state": 1.0, "node": "n0"},
    ]
    instance = instance_of([{}, {}], tasks, limits={"max_migration_cost": 3.0})
    result = solve(instance, "balance-milp")
    assert _value(result) == pytest.approx(0.5)
    assert sorted(move.task for move in result.moves) == ["k1", "k2"]


def test_forced_moves_beyond_the_budget_are_infeasible() -> None:
    tasks = loads_at((1, "n0"), (1, "n0"), allowed=["n1"])
    instance = instance_of([{}, {}], tasks, limits={"max_migrations": 1})
    result = solve(instance, "balance-milp")
    assert result.termination is Termination.INFEASIBLE
    assert [str(reason.rule) for reason in result.reasons] == ["max_migrations"]


def test_infeasible_by_the_solver_is_said_so() -> None:
    tasks = loads_at((3, "n0"), (3, "n0"), (3, "n1"), (3, "n1"))
    instance = instance_of([{"capacity": {"cpu": 5}}, {"capacity": {"cpu": 8}}], tasks)
    result = solve(instance, "balance-milp", start_broken="refuse")
    assert result.termination is Termination.INFEASIBLE
    assert result.plan is None
    assert any("no placement" in note for note in result.notes)


@pytest.mark.parametrize("solver", ["cbc", "highs", "scip"])
def test_weighted_objective(solver: str) -> None:
    instance = instance_of([{}, {}, {}], loads_at((4, "n0"), (3, "n0"), (2, "n0"), (2, "n0")))
    result = solve(instance, "balance-milp", solver=solver, weighted=True)
    assert _value(result) == pytest.approx(2 / 3)
    assert result.termination is Termination.OPTIMAL


def test_warm_start_is_recorded_and_never_lost() -> None:
    first = solve(LEMMA, "flux")
    result = solve(LEMMA, "balance-milp", warm_start=first.plan)
    assert result.warm_start is not None
    assert _value(result) <= _value(first) + 1e-9


def test_warm_start_on_a_leaving_node_is_passed_over() -> None:
    literal = solve(LEMMA, "balance-milp", allow_into_leaving=True)
    result = solve(LEMMA, "balance-milp", warm_start=literal.plan)
    assert literal.ignored == ("leaving",)
    assert result.bound_of == "problem"
    assert any("violates a limit" in note for note in result.notes)
    (broken,) = evaluate(LEMMA, literal.plan).violations
    assert broken.rule == "leaving"
    assert evaluate(LEMMA, literal.plan, ignore=["leaving"]).feasible


@pytest.mark.parametrize(
    ("name", "optimum"),
    [("cluster_60x1200_v40_s0_m20", 5.1876), ("cluster_20x400_v40_s0_m10", 0.5452)],
)
def test_published_optima(shared_data: Path, name: str, optimum: float) -> None:
    instance = Instance.load(shared_data / "albic" / f"{name}.json.gz")
    result = solve(instance, "balance-milp", time_limit=60)
    assert _value(result) == pytest.approx(optimum, abs=1e-3)
    assert result.termination is Termination.OPTIMAL
    assert result.bound is not None
    assert result.bound <= _value(result) <= result.bound + 1e-3


def _value(result: Result) -> float:
    assert result.objective is not None
    assert result.objective.value is not None
    return result.objective.value


def test_counts_of_equal_key_groups_prove_what_solvers_do_not(examples: Path) -> None:
    instance = Instance.load(examples / "capsys-q1.json")
    counted = solve(instance, "balance-milp")
    assert counted.termination is Termination.OPTIMAL
    assert counted.objective is not None
    solved = solve(instance, "balance-milp", form="moves", time_limit=1)
    assert solved.objective is not None
    assert solved.objective.value >= counted.objective.value - 1e-3
    assert solved.bound is not None
    assert solved.bound <= counted.objective.value


@pytest.mark.parametrize("form", ["classes", "full"])
def test_forms_give_the_levels_of_the_moves_form(form: str) -> None:
    for instance in (LEMMA, LEMMA.replace(limits={"max_migrations": 1})):
        told = [
            [level.value for level in solve(instance, "balance-milp", form=f).objective_levels]
            for f in ("moves", form)
        ]
        assert told[1] == pytest.approx(told[0], abs=2e-3)


def test_too_many_classes_are_refused_by_name() -> None:
    tasks = loads_at(*((1 + i / 7, "n0") for i in range(60)))
    many = instance_of([{}, {}, {}], tasks)
    with pytest.raises(UnsuitableMethod, match=r"form.*form=moves"):
        solve(many, "balance-milp", form="classes")
    assert solve(many, "balance-milp", time_limit=1).plan is not None


@pytest.mark.parametrize("method", ["balance-milp", "balance-search", "flux", "joint-milp"])
def test_the_tolerance_is_that_of_the_whole_bound_not_of_what_the_background_leaves(
    method: str,
) -> None:
    """Capacity 1e9 and background 1e9: a load of 0.1 is rounding to the referee, and stays."""
    made = small(
        resources=["cpu", "mem"],
        nodes=[
            {"id": "n1", "capacity": {"mem": 1e9}, "background": {"mem": 1e9}},
            {"id": "n2", "min_load": {"mem": 1e9 + 0.6}, "background": {"mem": 1e9}},
        ],
        operators=[],
        streams=[],
        tasks=[
            {"id": f"t{i}", "load": {"cpu": 1, "mem": 0.1}, "node": f"n{i + 1}"} for i in range(2)
        ],
        traffic=[["t0", "t1", 1]],
        limits={"max_load_distance": 5, "max_migrations": 0},
    )
    result = solve(made, method, repair=True)
    assert result.feasible
    assert "repair" not in " ".join(result.notes)
    if method == "balance-milp":
        assert result.termination == "optimal"
    if method == "joint-milp":  # no plan has any traffic on nodes: none is the best
        assert (result.termination, result.bound, result.gap) == ("heuristic", 0, 0)


def test_a_weighted_optimum_is_no_limit_of_work() -> None:
    """The sum is at its optimum where its part, the load distance, has a bound below it."""
    tasks = loads_at((1, "n0"), (2, "n1"), (3, "n2"), (5, "n1"), (4, "n2"), (1, "n2"))
    result = solve(instance_of([{}, {}, {}], tasks), "balance-milp", weighted=True, w1=3.0, w2=1.0)
    assert _value(result) == pytest.approx(2 / 3)
    assert result.bound == pytest.approx(5 / 9, abs=1e-6)
    assert result.termination is Termination.HEURISTIC
    assert any("weighted sum" in note for note in result.notes)


def test_weights_by_which_a_worse_distance_pays_are_refused() -> None:
    instance = instance_of([{}, {}], loads_at((4, "n0"), (3, "n0")))
    with pytest.raises(InvalidInput, match="is not above 2·w2 = 10"):
        solve(instance, "balance-milp", weighted=True, w1=10.0, w2=5.0)
