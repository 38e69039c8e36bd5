"""``rate-trigger``: plans when headroom is short, if it is worth it, and not too often."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.replay.run import ReplayOptions, run_replay
from optim.errors import InvalidInput
from optim.format.instance import Instance
from streamplace.policies.policy import Planned
from streamplace.policies.registry import read_planner, read_policy
from streamplace.policies.triggers import (
    LOOKED,
    PLANNED_LOAD,
    SINCE_PLAN,
    SINCE_SCHEDULE,
    RateTrigger,
)


def period(where: str, load: float = 4.0, name: str = "p", **limits: Any) -> Instance:
    """Return four equal tasks on two nodes of capacity 10; `where` has one digit each."""
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": name,
            "nodes": [{"id": f"n{i}", "capacity": {"cpu": 10}} for i in range(2)],
            "tasks": [
                {"id": f"t{i}", "load": {"cpu": load}, "node": f"n{n}"} for i, n in enumerate(where)
            ],
            "limits": limits,
        }
    )


def planned(made: Instance, text: str = "", since: float | None = None) -> Planned:
    planner = read_planner(f"rate-trigger:method=balance-milp{text}", 0)
    assert isinstance(planner, RateTrigger)
    return planner.plan(made, {} if since is None else {SINCE_PLAN: since}, 0, 0.0)


def moves(made: Instance, plan: Planned) -> int:
    assert plan.deployment is not None
    return int((plan.deployment.node != made.tasks.node).sum())


def test_short_headroom_is_mended() -> None:
    made = period("0001")  # 12 of 10: carries 0.83; evenly 1.25
    plan = planned(made)
    assert moves(made, plan) == 1
    assert "carries 0.8333 times the rate, the plan 1.25" in plan.note
    assert plan.memory[SINCE_PLAN] == 0


@pytest.mark.parametrize(
    ("where", "load", "text", "since"),
    [
        ("0001", 2.0, "", None),  # carries 1.67: enough
        ("0001", 4.0, "", 1.0),  # a plan was made two periods ago
        ("0001", 4.0, ",gain=51", None),  # 50 % more
        ("0011", 4.5, "", None),  # nothing is better
    ],
)
def test_what_runs_is_kept(where: str, load: float, text: str, since: float | None) -> None:
    made = period(where, load)
    plan = planned(made, text, since)
    assert plan.termination == "unchanged"
    assert moves(made, plan) == 0


def test_the_pause_ends() -> None:
    made = period("0001")
    assert moves(made, planned(made, since=2.0)) == 0
    assert moves(made, planned(made, since=3.0)) == 1


@pytest.mark.parametrize(
    ("policy", "memory"),
    [
        ("rate-trigger:method=balance-milp", {SINCE_PLAN: 0}),
        ("change-trigger:method=balance-milp", {PLANNED_LOAD: 16.0}),
        ("storm-trigger:method=balance-milp", {SINCE_SCHEDULE: 0.0, LOOKED: 0.0}),
    ],
)
def test_no_trigger_waits_while_a_task_has_no_node(policy: str, memory: dict[str, Any]) -> None:
    document = period("0011").to_dict()
    del document["tasks"][3]["node"]
    plan = read_planner(policy, 0).plan(Instance.from_dict(document), memory, 0, 1.0)
    assert plan.deployment is not None
    assert plan.deployment.node.tolist() == [0, 0, 1, 1]


def test_the_budget_binds() -> None:
    free, bound = period("0000"), period("0000", max_migrations=1)
    assert moves(free, planned(free)) == 2  # 0.625; with one move 0.83
    assert moves(bound, planned(bound)) <= 1


def test_a_replay_moves_once_under_swinging_load(tmp_path: Path) -> None:
    periods = [period("0001", load, f"p{i}") for i, load in enumerate((4, 4.4, 4, 4.4, 4))]
    done = run_replay(
        periods, tmp_path, ReplayOptions(policies=("rate-trigger:method=balance-milp,pause=0",))
    )
    assert sum(row["migrations"] for row in done.rows) == 1


def test_without_capacities_it_is_refused() -> None:
    bare = period("0001").to_dict()
    for node in bare["nodes"]:
        del node["capacity"]
    policy = read_policy("rate-trigger:method=balance-milp", 0)
    with pytest.raises(InvalidInput, match="rate-trigger needs one of them"):
        policy.check(Instance.from_dict(bare))
