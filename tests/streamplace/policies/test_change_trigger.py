"""``change-trigger``: plans at first, and when load is off the one last planned for."""

from __future__ import annotations

from typing import Any

import pytest

from optim.errors import InvalidInput
from streamplace.policies.policy import Planned
from streamplace.policies.registry import read_planner, read_policy
from streamplace.policies.triggers import PLANNED_LOAD, ChangeTrigger
from tests.streamplace.policies.test_rate_trigger import moves, period


def planned(load: float, before: float | None, text: str = "") -> tuple[Any, Planned]:
    made = period("0001", load)
    planner = read_planner(f"change-trigger:method=balance-milp{text}", 0)
    assert isinstance(planner, ChangeTrigger)
    memory = {} if before is None else {PLANNED_LOAD: before}
    return made, planner.plan(made, memory, 0, 0.0)


@pytest.mark.parametrize(
    ("before", "text", "count"),
    [
        (None, "", 1),  # nothing was planned for yet
        (10.0, "", 1),  # 20 % less
        (8.5, "", 0),  # 6 % off
        (8.0, ",change=0", 0),  # no change at all
        (8.5, ",change=5", 1),
    ],
)
def test_a_change_sets_it_off(before: float | None, text: str, count: int) -> None:
    made, plan = planned(2.0, before, text)
    assert moves(made, plan) == count
    assert plan.memory[PLANNED_LOAD] == (8.0 if count else before)


def test_what_is_no_method_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is no method"):
        read_policy("change-trigger:method=static", 0)
