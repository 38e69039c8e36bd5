"""``decide``: one step for a controller of the user's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optim.format.instance import Instance
from optim.format.plan import Plan
from optim.referee import evaluate
from optim.util.store import Lock
from tests.command import run_command
from tests.heuristics.rebalancing.cases import case

MINE = '''
from streamplace.policies.policy import Decision, Policy


class Mine(Policy):
    """Keeps what runs, and counts."""

    def decide(self, state, instance, now):
        return Decision({"looks": state.get("looks", 0) + 1}, f"look at {now:g}")


POLICY = Mine()
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = case("000012", loads=[5, 4, 3, 3, 2, 1], capacity=20.0, max_migrations=4)
    (tmp_path / "now.json").write_text(made.to_json())
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def decided(folder: Path, *words: str) -> Any:
    done = run_command(
        ["decide", "now.json", "--state", "state.json", "--json", *words], folder, {}
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_move_has_its_whole_plan_and_figures(folder: Path) -> None:
    found = decided(folder, "--policy", "balance-milp", "-o", "plan.json")
    assert found["decision"] == "move"
    assert found["plan"]["assignment"].keys() == {f"k{i}" for i in range(6)}
    assert 0 < len(found["moves"]) <= 4
    instance = Instance.load(folder / "now.json")
    plan = Plan.load(folder / "plan.json")
    judged = evaluate(instance, plan)
    assert found["after"]["load_distance"] == judged.load_distance
    assert found["before"]["load_distance"] > found["after"]["load_distance"]
    assert found["plan"] == plan.to_dict()
    held = decided(folder, "--policy", "balance-milp")
    assert (held["decision"], held["plan"]) == ("keep", None)
    assert "cooling down" in held["reason"]


def test_a_dry_run_remembers_that_nothing_was_done(folder: Path) -> None:
    for _ in range(2):
        assert decided(folder, "--policy", "flux", "--dry-run")["decision"] == "move"


def test_nodes_are_added_and_the_plan_uses_them(folder: Path) -> None:
    rule = "algorithm-1:method=flux,upper=0.2,target=0.15,lower=0.1"
    found = decided(folder, "--policy", rule, "-o", "plan.json")
    assert found["decision"] == "scale"
    assert found["add"][0] == {"id": "added-1", "like": "n0"}
    assert {one["id"] for one in found["add"]} & {*found["plan"]["assignment"].values()}
    assert json.loads((folder / "plan.json").read_text()) == found["plan"]


def test_a_marked_node_is_emptied_and_released(folder: Path) -> None:
    rule = "algorithm-1:method=flux,upper=0.9,target=0.6,lower=0.5,cooldown=0"
    words = ("--policy", rule, "--cool-down", "0")
    found = decided(folder, *words)
    (marked,) = found["mark"]
    plan = found["plan"]
    assert marked not in plan["assignment"].values()
    instance = Instance.load(folder / "now.json")
    assert plan["instance_sha256"] == instance.sha256  # it can be exported for what runs
    moved = instance.to_dict()
    for task in moved["tasks"]:
        task["node"] = plan["assignment"][task["id"]]
    (folder / "now.json").write_text(json.dumps(moved))
    then = decided(folder, *words)
    assert then["release"] == [marked]
    assert decided(folder, *words)["release"] == []  # told once


def test_a_policy_of_ones_own(folder: Path) -> None:
    for look in (1, 2):
        found = decided(folder, "--policy", "./mine.py", "--now", str(look))
        assert (found["decision"], found["reason"]) == ("keep", f"look at {look}")
    state = json.loads((folder / "state.json").read_text())
    assert state["state"]["policy"] == {"looks": 2}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "state.json"),
        ("{", "state.json"),
        ("[]", "format"),
        ('{"format": "x"}', "format: 'x' is not streamplace.policy_state/1"),
        (
            '{"format": "streamplace.policy_state/1", "policy": "flux", "state": {}}',
            "policy: 'flux' is not the policy balance-milp",
        ),
        (
            '{"format": "streamplace.policy_state/1", "policy": "balance-milp", "state": 5}',
            "state: 5 is no object",
        ),
        (
            '{"format": "streamplace.policy_state/1", "policy": "balance-milp", '
            '"state": {"changed": "x"}}',
            "state.changed: 'x' is no number",
        ),
    ],
)
def test_a_state_that_is_broken_is_refused(folder: Path, content: str, reason: str) -> None:
    (folder / "state.json").write_text(content)
    words = ["decide", "now.json", "--state", "state.json", "--policy", "balance-milp"]
    done = run_command(words, folder, {})
    assert done.returncode == 2
    assert reason in done.stderr
    assert "begin" in done.stderr
    assert (folder / "state.json").read_text() == content


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--policy", "nothing"], "is no policy"),
        (["--policy", "./absent.py"], "absent.py"),
        (["--policy", "potc"], "splits tasks, which no plan holds"),
        (["--policy", "rate-trigger:method=static"], "is no method"),
        (["--policy", "solve:pairs=1"], "is no option of solve"),
        (["--policy", "solve:objective=nonsense"], "is no figure to optimise"),
        (["--policy", "flux:objective=imc_gain"], "imc_gain"),
        (["--state", "no/such/state.json"], "is no folder"),
    ],
)
def test_what_cannot_be_decided_is_refused(folder: Path, words: list[str], reason: str) -> None:
    done = run_command(["decide", "now.json", "--state", "state.json", *words], folder, {})
    assert done.returncode == 2, done.stdout
    assert reason in done.stderr
    assert not (folder / "state.json").exists()


def test_one_controller_at_a_time(folder: Path) -> None:
    lock = Lock(folder / "state.json.lock")
    assert lock.acquire()
    try:
        done = run_command(["decide", "now.json", "--state", "state.json"], folder, {})
    finally:
        lock.release()
    assert done.returncode == 2
    assert "is in use by another controller" in done.stderr
