"""``change-trigger``: plans at first, and when load is off the one last planned for."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.replay.deployment import Deployment
from experiments.replay.policies import Planned, read_policy
from experiments.replay.triggers import PLANNED_LOAD, ChangeTrigger
from optim.errors import InvalidInput
from tests.experiments.replay.test_rate_trigger import moves, period


def planned(load: float, before: float | None, text: str = "") -> tuple[Any, Planned]:
    made = period("0001", load)
    policy = read_policy(f"change-trigger:method=balance-milp{text}", 0)
    assert isinstance(policy, ChangeTrigger)
    whole = Deployment.whole(made.tasks.node)
    memory = {} if before is None else {PLANNED_LOAD: [before]}
    return made, policy.plan(made, Deployment(whole.places, whole.share, memory=memory), 0)


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
    assert plan.deployment is not None
    assert plan.deployment.memory[PLANNED_LOAD] == [8.0 if count else before]


def test_what_is_no_method_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is no method"):
        read_policy("change-trigger:method=static", 0)
