"""Tasks without a current node: placed at no cost by all rebalancing methods, against all plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from formulations.rebalancing.homes import with_homes
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
