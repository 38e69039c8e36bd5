"""``storm-trigger``: overload for a while, gain enough, and not too often."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.replay.run import ReplayOptions, run_replay
from optim.errors import InvalidInput
from optim.format.instance import Instance
from streamplace.policies.policy import Planned
from streamplace.policies.registry import read_planner
from streamplace.policies.triggers import StormTrigger


def period(where: str, loads: tuple[float, ...] = (1, 1, 1, 1), name: str = "p") -> Instance:
    """Return a chain of four executors on two nodes of capacity 10; `where` has one digit each."""
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": name,
            "nodes": [{"id": f"n{i}", "slots": 2, "capacity": {"cpu": 10}} for i in range(2)],
            "topologies": [{"id": "t", "workers": 2}],
            "operators": [{"id": f"c{i}", "topology": "t"} for i in range(4)],
            "tasks": [
                {"id": f"c{i}/0", "operator": f"c{i}", "load": {"cpu": x}, "node": f"n{n}"}
                for i, (x, n) in enumerate(zip(loads, where, strict=True))
            ],
            "streams": [
                {"from": f"c{i}", "to": f"c{i + 1}", "rate": r} for i, r in enumerate((9, 2, 9))
            ],
        }
    )


def trigger(text: str = "") -> StormTrigger:
    planner = read_planner(f"storm-trigger:{text}", 0)
    assert isinstance(planner, StormTrigger)
    return planner


def planned(trigger: StormTrigger, made: Instance, memory: dict[str, Any] | None = None) -> Planned:
    return trigger.plan(made, {"looked": 0.0, **memory} if memory else {}, 0, 60.0)


def moved(made: Instance, plan: Planned) -> bool:
    return bool((plan.deployment.node != made.tasks.node).any())


def test_less_traffic_by_the_gain_replaces_the_schedule() -> None:
    made = period("0101")  # 20 between nodes; the best has 2
    plan = planned(trigger(), made)
    assert moved(made, plan)
    assert "90 % less traffic" in plan.note
    assert moved(made, planned(trigger("gain=89.9"), made))
    kept = planned(trigger("gain=90"), made)  # more than that is asked for
    assert not moved(made, kept)
    assert "gains too little" in kept.note


def test_at_most_once_an_interval() -> None:
    made = period("0101")
    fresh = {"since_schedule": 0.0}
    waits = planned(trigger("interval=180,period=60"), made, fresh)
    assert not moved(made, waits)
    assert "120 s to wait" in waits.note
    assert waits.memory["since_schedule"] == 60.0
    assert moved(made, planned(trigger("interval=180,period=60"), made, {"since_schedule": 120.0}))


def test_a_schedule_that_was_not_taken_counts_too() -> None:
    plan = planned(trigger("gain=91"), period("0101"))
    assert plan.memory["since_schedule"] == 0.0


def test_overload_counts_only_when_it_lasts() -> None:
    # the running schedule has least traffic: only the load can ask for another
    made = period("0011", loads=(6, 6, 1, 1))
    policy = trigger("window=100,period=60,gain=1000")
    first = planned(policy, made)
    assert not moved(made, first)
    assert first.memory["overloaded_for"] == {"n0": 60.0}
    long = planned(policy, made, {"overloaded_for": {"n0": 60.0}, "since_schedule": 1e6})
    assert moved(made, long)
    assert "n0 was overloaded for 120 s" in long.note
    assert long.memory["overloaded_for"] == {}


def test_a_node_without_capacity_does_not_blind_the_trigger() -> None:
    # a dead node carries nothing: it is not overloaded, and the others are still looked at
    made = period("0011", loads=(6, 6, 1, 1))
    nodes = [*made.to_dict()["nodes"], {"id": "dead", "slots": 0, "capacity": {"cpu": 0}}]
    made = made.replace(nodes=nodes)
    policy = trigger("window=100,period=60,gain=1000")
    first = planned(policy, made)
    assert first.memory["overloaded_for"] == {"n0": 60.0}
    plan = planned(policy, made, {"overloaded_for": {"n0": 60.0}, "since_schedule": 1e6})
    assert moved(made, plan)
    assert "n0 was overloaded for 120 s" in plan.note


def test_load_on_a_node_without_capacity_is_overload() -> None:
    made = period("0011")
    nodes = made.to_dict()["nodes"]
    made = made.replace(nodes=[{**nodes[0], "capacity": {"cpu": 0}}, *nodes[1:]])
    memory = {"overloaded_for": {"n0": 600.0}, "since_schedule": 1e6}
    plan = planned(trigger("gain=1000"), made, memory)
    assert moved(made, plan)
    assert "n0 was overloaded for 660 s" in plan.note


def test_a_break_resets_the_overload() -> None:
    made = period("0011", loads=(4, 4, 1, 1))
    plan = planned(trigger(), made, {"overloaded_for": {"n0": 600.0}, "since_schedule": 0.0})
    assert plan.memory["overloaded_for"] == {}


def test_overload_waits_for_the_interval() -> None:
    made = period("0011", loads=(6, 6, 1, 1))
    memory = {"overloaded_for": {"n0": 600.0}, "since_schedule": 0.0}
    plan = planned(trigger(), made, memory)
    assert not moved(made, plan)
    assert plan.note.startswith("overloaded, but 120 s")


def test_options_go_to_the_scheduler() -> None:
    policy = trigger("alpha=0.5,gain=3,method=storm-online")
    assert policy.gain == 3.0
    assert policy.planner.options["alpha"] == 0.5
    assert trigger("method=storm-offline").planner.method == "storm-offline"


@pytest.mark.parametrize(
    "text", ["gain=-1", "window=x", "method=static", "method=nothing", "beta=0.5", "period=0"]
)
def test_wrong_options_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        trigger(text)


def test_nodes_without_capacity_are_refused(tmp_path: Path) -> None:
    made = period("0101").replace(nodes=[{"id": f"n{i}", "slots": 2} for i in range(2)])
    with pytest.raises(InvalidInput, match=r"capacity.cpu.*storm-trigger needs it"):
        run_replay([made], tmp_path, ReplayOptions(policies=("storm-trigger",)))


def test_an_interrupted_replay_remembers(tmp_path: Path) -> None:
    periods = [period("0101", name=f"p{i}") for i in range(5)]
    options = ReplayOptions(policies=("storm-trigger:gain=91",))
    whole = run_replay(periods, tmp_path / "whole", options)

    import experiments.replay.run as module

    original, steps = module.step, []

    def stopping(*given: Any) -> Any:
        if len(steps) == 2:
            raise KeyboardInterrupt
        steps.append(given)
        return original(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "step", stopping)
        with pytest.raises(KeyboardInterrupt):
            run_replay(periods, tmp_path / "cut", options)
    resumed = run_replay(periods, tmp_path / "cut", options)
    assert resumed.rows == whole.rows
    notes = [row["note"] for row in whole.rows]
    assert [("wait" in note) for note in notes] == [False, True, True, False, True]


def test_cost_of_moves_shows_in_the_rows(tmp_path: Path) -> None:
    periods = [period("0101", name=f"p{i}") for i in range(3)]
    done = run_replay(periods, tmp_path, ReplayOptions(policies=("storm-trigger", "static")))
    first = done.rows[0]
    assert first["migrations"] == 2
    assert first["collocation_factor"] == pytest.approx(0.9)
    assert sum(row["migrations"] for row in done.rows[1:3]) == 0
    assert np.isfinite(first["mean_load"])
