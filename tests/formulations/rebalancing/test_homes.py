"""Tasks without a current node: placed at no cost by all rebalancing methods, against all plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from formulations.rebalancing.problem import with_homes
from optim import Instance, solve
from tests.formulations.rebalancing.ruled_cases import feasible, ruled_case

METHODS = ("balance-milp", "joint-milp", "balance-search", "joint-search")


def partly_placed(seed: int, share: float) -> Instance:
    """Return a mixed case in which some tasks have no current node."""
    document: dict[str, Any] = ruled_case(seed).to_dict()
    rng = np.random.default_rng([seed, 71])
    for task in document["tasks"]:
        if rng.random() < share:
            task.pop("node", None)
    return Instance.from_dict(document)


@pytest.mark.seeds(6)
@pytest.mark.parametrize("share", [0.4, 1.0])
@pytest.mark.parametrize("seed", range(60))
def test_against_all_plans(seed: int, share: float) -> None:
    instance = partly_placed(seed, share)
    plans = list(feasible(instance))
    for method in METHODS:
        result = solve(instance, method, start_broken="refuse")
        assert result.objective is not None
        place = ("load_distance", "imc_gain").index(result.objective.name)
        signs = (1.0, -1.0)
        best = min((signs[place] * plan[place] for plan in plans), default=np.inf)
        if str(result.termination) == "infeasible":
            assert not plans
        elif method.endswith("milp") and result.bound_of == "problem":
            assert str(result.termination) in ("optimal", "heuristic")
        assert not result.feasible or plans
        if result.bound is not None and result.bound_of == "problem":
            assert signs[place] * result.bound <= best + 1e-6
        if str(result.termination) == "optimal":
            assert result.objective.value is not None
            assert signs[place] * result.objective.value == pytest.approx(best, abs=1e-4)


def test_a_home_is_on_top_of_what_is_placed_and_where_it_is_allowed() -> None:
    tasks = [
        {"id": "a", "load": {"cpu": 5}, "node": "n1"}, {"id": "b", "load": {"cpu": 4}},
        {"id": "c", "load": {"cpu": 1}, "allowed": ["n1"]},
    ]  # fmt: skip
    nodes = [{"id": name} for name in ("n1", "n2")]
    made = Instance.from_dict(
        {"format": "streamplace.instance/1", "name": "x", "nodes": nodes, "tasks": tasks}
    )
    homes = with_homes(made)
    assert homes.tasks.node.tolist() == [0, 1, 0]
    assert not homes.copy_nodes
    limited = with_homes(made.replace(limits={"max_migrations": 0}))
    assert limited.copy_nodes == {1: {0, 1}, 2: {0, 1}}


@pytest.mark.parametrize("limits", [{"max_migrations": 0}, {"max_migration_cost": 0}])
@pytest.mark.parametrize("method", ["flux", "albic", "scale-in-first"])
def test_published_heuristics_count_no_moves_of_tasks_without_a_node(
    method: str, limits: dict[str, float]
) -> None:
    """A list schedule puts all on n1, where b and c have to be: a goes to n2, which is free."""
    tasks = [
        {"id": "a", "load": {"cpu": 4}},
        *({"id": name, "load": {"cpu": 3}, "allowed": ["n1"]} for name in "bc"),
        {"id": "d", "load": {"cpu": 1}, "node": "n1"},
        {"id": "e", "load": {"cpu": 1}, "node": "n2"},
    ]
    document = {
        "format": "streamplace.instance/1", "name": "x", "limits": limits, "tasks": tasks,
        "nodes": [{"id": "n1"}, {"id": "n2"}], "traffic": [["a", "b", 1.0], ["b", "c", 5.0]],
    }  # fmt: skip
    result = solve(Instance.from_dict(document), method)
    assert result.plan is not None and result.evaluation is not None
    assert dict(result.plan.assignment) == {"a": "n2", "b": "n1", "c": "n1", "d": "n1", "e": "n2"}
    assert (result.evaluation.load_distance, result.evaluation.migrations) == (1, 0)


@pytest.mark.parametrize("share", [0.4, 1.0])
@pytest.mark.parametrize("method", ["flux", "albic", "scale-in-first"])
def test_published_heuristics_use_what_the_referee_lets_them(method: str, share: float) -> None:
    """Their plans of mixed cases keep the budget, of which tasks without a node take nothing."""
    rng = np.random.default_rng(7)
    for _ in range(12):
        tasks: list[dict[str, Any]] = []
        for name in "abcdefgh":
            task = {"id": name, "load": {"cpu": int(rng.integers(1, 9))}, "state": 2}
            if rng.random() >= share:
                task["node"] = f"n{int(rng.integers(1, 4))}"
            tasks.append(task)
        limits = {"max_migrations": 1} if rng.random() < 0.5 else {"max_migration_cost": 2}
        nodes = [{"id": f"n{n}", "leaving": n == 3 and rng.random() < 0.5} for n in (1, 2, 3)]
        document = {
            "format": "streamplace.instance/1", "name": "x", "limits": limits, "tasks": tasks,
            "nodes": nodes, "traffic": [["a", "b", 3.0], ["c", "d", 2.0]],
        }  # fmt: skip
        result = solve(Instance.from_dict(document), method)
        assert result.evaluation is not None
        assert result.feasible, (document, result.evaluation.violations)
