"""The budget of state that moves: what counts, what is wrong with it, and what helps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optim import Instance, InvalidInput, solve
from optim.referee import evaluate_indices
from optim.rules import hopeless


def document(**limits: Any) -> dict[str, Any]:
    """Three tasks on one of two nodes: state of 5, none (though its move has a cost), and 2."""
    return {
        "format": "streamplace.instance/1",
        "name": "state",
        "nodes": [{"id": "a"}, {"id": "b"}],
        "tasks": [
            {"id": "x", "load": {"cpu": 4}, "node": "a", "state": 5},
            {"id": "y", "load": {"cpu": 3}, "node": "a", "migration_cost": 100},
            {"id": "z", "load": {"cpu": 3}, "node": "a", "state": 2, "copies": ["b"]},
        ],
        "limits": limits,
    }


def test_a_task_without_state_and_a_move_onto_a_copy_take_nothing() -> None:
    instance = Instance.from_dict(document(max_migration_state=4.5))
    found = evaluate_indices(instance, np.array([1, 1, 1])).violations
    assert [(v.rule, v.where, v.needed, v.available) for v in found] == [
        ("max_migration_state", "limits", 5.0, 4.5)
    ]
    assert evaluate_indices(instance, np.array([0, 1, 1])).feasible
    assert evaluate_indices(
        Instance.from_dict(document(max_migration_state=5)), np.array([1, 1, 1])
    ).feasible


def test_tasks_that_may_not_stay_take_more_than_there_is() -> None:
    made = document(max_migration_state=4)
    made["tasks"][0]["allowed"] = ["b"]
    found = hopeless(Instance.from_dict(made))
    assert [(v.rule, v.needed, v.available) for v in found] == [("max_migration_state", 5.0, 4.0)]
    result = solve(Instance.from_dict(made), "balance-milp")
    assert result.exit_code == 3
    assert {reason.rule for reason in result.reasons} == {"max_migration_state"}


def test_it_is_kept_in_the_units_of_the_file() -> None:
    """In bytes, as clusters report it, and with a cost of moves in another size."""
    made = document(max_migration_state=2e9)
    for task, state in zip(made["tasks"], (5e9, 0, 2e9), strict=True):
        task["state"] = state
        task["migration_cost"] = 1e-3
        task.pop("copies", None)
    for method in ("balance-milp", "balance-search", "joint-milp", "imc-milp", "imc-search"):
        made["traffic"] = [["x", "y", 1.0], ["y", "z", 1.0]]
        instance = Instance.from_dict(made)
        result = solve(instance, method, time_limit=5)
        assert result.plan is not None, method
        assert result.feasible, method
        assert result.plan.assignment["x"] == "a", method
    assert solve(instance, "balance-milp").objective.value == pytest.approx(1.0)


@pytest.mark.parametrize("value", [-1, "much", True, [3], float("nan"), 1e300])
def test_what_is_no_amount_is_refused_with_path_value_and_reason(value: Any) -> None:
    with pytest.raises(InvalidInput) as error:
        Instance.from_dict(document(max_migration_state=value))
    (problem,) = error.value.problems
    assert problem.path == "limits.max_migration_state"
    assert problem.reason.startswith("must be")


def test_a_misspelt_name_is_told_the_right_one() -> None:
    with pytest.raises(InvalidInput, match="max_migration_state"):
        Instance.from_dict(document(max_migration_stat=3))


def test_it_is_written_as_it_is_read() -> None:
    instance = Instance.from_dict(document(max_migration_state=4.5))
    assert instance.to_dict()["limits"] == {"max_migration_state": 4.5}
