"""Figures of traffic: a little beside much is told with all its digits."""

from __future__ import annotations

from typing import Any

import pytest

from optim import Instance, Plan, evaluate, solve
from tests.optim.make import instance


def one_dominant_pair(huge: float, **more: Any) -> Instance:
    """Return three tasks of which two exchange so much, and 0.056 and 0.002 with the third."""
    return instance(
        nodes=[{"id": "n0", "slots": 2}, {"id": "n1", "slots": 2}],
        operators=[],
        tasks=[{"id": name, "load": {"cpu": 1.0}} for name in "abc"],
        streams=[],
        traffic=[["a", "b", huge], ["b", "c", 0.056], ["c", "a", 0.002]],
        **more,
    )


@pytest.mark.parametrize("huge", [1.0, 1e9, 1e15])
def test_what_crosses_is_added_up(huge: float) -> None:
    made = one_dominant_pair(huge)
    plan = Plan(made.name, {"a": "n0", "b": "n0", "c": "n1"}, slots={"a": 0, "b": 0, "c": 0})
    found = evaluate(made, plan)
    assert found.internode_traffic == pytest.approx(0.058, rel=1e-12)
    assert found.interslot_traffic == pytest.approx(0.058, rel=1e-12)
    together = Plan(made.name, dict.fromkeys("abc", "n0"), slots={"a": 0, "b": 0, "c": 1})
    found = evaluate(made, together)
    assert found.internode_traffic == 0.0
    assert found.interslot_traffic == pytest.approx(0.058, rel=1e-12)


def test_full_blocks_are_added_up() -> None:
    """200 × 200 tasks in a block, all but one receiver on a node: a huge pair hides nothing."""
    made = instance(
        nodes=[{"id": "n0"}, {"id": "n1"}],
        operators=[{"id": x, "group": {"tasks": 200, "load": {"cpu": 1}}} for x in "ab"],
        tasks=[{"id": "u"}, {"id": "v"}],
        streams=[{"from": "a", "to": "b", "rate": 4.0}],
        traffic=[["u", "v", 1e14]],
    )
    node = dict.fromkeys(made.tasks.ids, "n0") | {"b/7": "n1"}
    found = evaluate(made, Plan(made.name, node))
    assert found.internode_traffic == pytest.approx(4.0 / 200, rel=1e-12)


@pytest.mark.parametrize("form", ["patterns", "workers"])
@pytest.mark.parametrize("huge", [5e9, 1e13])
def test_a_bound_on_little_of_much_traffic_is_not_above_the_optimum(huge: float, form: str) -> None:
    """All three fit one node, so that nothing need cross."""
    made = one_dominant_pair(huge)
    result = solve(made, "storm-milp", form=form)
    assert result.bound is None or result.bound <= 0.0
    assert result.objective is not None
    assert result.objective.value is not None
    assert (result.termination == "optimal") == (result.objective.value == 0.0)


def test_words_about_limits_are_without_numbers_in_other_units() -> None:
    more: dict[str, Any] = {"limits": {"max_migration_cost": 0.01}}
    made = one_dominant_pair(3.0, **more)
    found = solve(made, "storm-milp").notes
    assert "linearised form: patterns cannot express limits.max_migration_cost" in found
