"""`imc-brute` as the judge of any objective."""

from __future__ import annotations

import pytest

from formulations.task_allocation.brute import JUDGED, best_by_figure
from optim import Instance, solve
from optim.errors import UnsuitableMethod
from optim.methods.registry import Request
from optim.referee import evaluate_indices
from tests.optim.make import instance, nodes


def linked() -> Instance:
    """Return three nodes with an uplink each, the third one a thin one."""
    ends = [("n1", 20), ("n2", 20), ("n3", 1)]
    return instance(
        nodes=nodes(3, capacity={"cpu": 10}),
        links=[{"id": f"up-{n}", "nodes": [n], "capacity": c} for n, c in ends],
    )


def test_the_highest_utilisation_of_a_link_is_made_small() -> None:
    found = best_by_figure(linked(), Request(), "max_link_utilisation")
    assert found.node is not None
    # a/0, a/1, b/0 on one node and b/1 on the other: 6 of 20 cross
    assert found.claimed == found.bound == pytest.approx(0.3)
    judged = evaluate_indices(linked(), found.node)
    assert (judged.feasible, judged.max_link_utilisation) == (True, found.claimed)


def test_the_highest_utilisation_of_a_node_is_made_small() -> None:
    result = solve(instance(), "imc-brute", objective="max_utilisation")
    assert result.objective is not None
    assert (result.termination, result.objective.name) == ("optimal", "max_utilisation")
    assert result.objective.value == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("method", "objective"),
    [
        ("imc-exact", "imc_gain"),
        ("eoa-milp", "used_capacity"),
        ("eoa-milp", "cpu_deviation"),
        ("eoa-milp", "mean_absolute_deviation"),
    ],
)
def test_it_judges_the_other_exact_methods(method: str, objective: str) -> None:
    judge = solve(instance(), "imc-brute", objective=objective)
    other = solve(instance(), method, objective=objective)
    assert judge.objective is not None
    assert other.objective is not None
    assert other.objective.value == pytest.approx(judge.objective.value)


def test_it_judges_load_distance_in_any_unit() -> None:
    big = instance(
        nodes=nodes(2, capacity={"cpu": 1e7}),
        operators=[{"id": "a", "group": {"tasks": 5, "load": {"cpu": 5e6}}}],
        streams=[],
    )
    result = solve(big, "imc-brute", objective="load_distance")
    assert result.objective is not None
    assert result.objective.value == pytest.approx(0.5e6)
    assert (result.termination, result.gap) == ("optimal", 0.0)


def test_what_has_no_value_is_refused() -> None:
    assert {"price", "slots"}.isdisjoint(JUDGED)
    for objective in ("max_link_utilisation", "slots_used"):
        with pytest.raises(UnsuitableMethod, match=f"{objective}.*has no value"):
            solve(instance(), "imc-brute", objective=objective)
