"""Most nodes that hold a task: what counts, what is wrong with it, and what helps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optim import Instance, InvalidInput, solve
from optim.referee import evaluate_indices
from optim.rules import hopeless
from streamplace.explain.explanation import clash_line, why_infeasible


def document(most: Any, capacity: float = 10) -> dict[str, Any]:
    """Four tasks of 4 each on four nodes; there is background on all of these."""
    return {
        "format": "streamplace.instance/1",
        "name": "few",
        "nodes": [
            {"id": f"n{i}", "capacity": {"cpu": capacity}, "background": {"cpu": 1}}
            for i in range(4)
        ],
        "tasks": [{"id": f"t{i}", "load": {"cpu": 4}} for i in range(4)],
        "traffic": [["t0", "t1", 5.0], ["t1", "t2", 1.0], ["t2", "t3", 5.0]],
        "limits": {"max_nodes_used": most},
    }


def test_nodes_with_tasks_count_and_background_does_not() -> None:
    instance = Instance.from_dict(document(2))
    assert evaluate_indices(instance, np.array([0, 0, 3, 3])).feasible
    found = evaluate_indices(instance, np.array([0, 1, 3, 3])).violations
    assert [(v.rule, v.where, v.needed, v.available) for v in found] == [
        ("max_nodes_used", "limits", 3.0, 2.0)
    ]


@pytest.mark.parametrize("capacity", [10, 9])
def test_more_load_than_so_many_nodes_hold_is_proved_at_once(capacity: float) -> None:
    assert not hopeless(Instance.from_dict(document(2, capacity)))
    found = hopeless(Instance.from_dict(document(1, capacity)))
    assert [(v.rule, v.where, v.needed, v.available) for v in found] == [
        ("max_nodes_used", "the 1 largest nodes: cpu", 16.0, capacity - 1.0)
    ]


def test_more_tasks_than_so_many_nodes_hold_is_proved_at_once() -> None:
    made = document(2, 100)
    for node in made["nodes"]:
        node["max_tasks"] = 1
    found = hopeless(Instance.from_dict(made))
    assert [(v.rule, v.where, v.needed, v.available) for v in found] == [
        ("max_nodes_used", "the 2 largest nodes: tasks", 4.0, 2.0)
    ]


def test_what_does_not_fit_is_explained_by_it_and_by_how_much_to_raise_it() -> None:
    made = document(2, 6)  # one task a node
    found = why_infeasible(Instance.from_dict(made), 60.0)
    rules = {clash.rule for conflict in found.conflicts for clash in conflict}
    assert rules == {"capacity", "max_nodes_used"}
    raised = [r for r in (*found.relaxation, *found.remedies) if r.rule == "max_nodes_used"]
    assert [(r.by, r.to) for r in raised] == [(2.0, 4.0)]
    lines = [clash_line(Instance.from_dict(made), clash) for clash in found.conflicts[0]]
    # two tasks have no room on two nodes of 6, of which 1 is taken: 3 more on each
    assert lines == [
        "capacity on 2 nodes.cpu (max_nodes_used): 18 needed, 12 available",
        "max_nodes_used on limits: 4 needed, 2 available",
    ]


def test_a_placement_on_too_many_nodes_gets_no_worse_and_is_mended_as_far_as_moves_go() -> None:
    made = document(1, 20)
    for i, task in enumerate(made["tasks"]):
        task["node"] = f"n{i}"
    made["limits"]["max_migrations"] = 2
    result = solve(Instance.from_dict(made), "imc-milp")
    assert result.plan is not None
    assert len(set(result.plan.assignment.values())) == 2
    assert str(result.mending) == (
        "still broken: max_nodes_used of limits by 1 (was 3); about 1 more round of the budget"
    )


@pytest.mark.parametrize("value", [0, -1, 1.5, "two", True, 10**12])
def test_what_is_no_number_of_nodes_is_refused_with_its_path(value: Any) -> None:
    with pytest.raises(InvalidInput) as error:
        Instance.from_dict(document(value))
    (problem,) = error.value.problems
    assert problem.path == "limits.max_nodes_used"
    assert problem.reason.startswith("must be")


@pytest.mark.parametrize("repair", [False, True])
def test_a_heuristic_that_does_not_know_it_places_on_nodes_chosen_beforehand(repair: bool) -> None:
    result = solve(Instance.from_dict(document(2)), "naive", repair=repair)
    assert result.feasible
    assert result.bound is None
    assert len(set(result.plan.assignment.values())) == 2  # type: ignore[union-attr]


def test_it_is_written_as_it_is_read() -> None:
    assert Instance.from_dict(document(2)).to_dict()["limits"] == {"max_nodes_used": 2}
