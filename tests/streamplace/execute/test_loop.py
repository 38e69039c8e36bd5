"""The loop on a system that is a recording: the same decisions as replay and decide, once each."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.replay.periods import day_periods
from experiments.replay.run import Setting, first_state, step
from optim.errors import InvalidInput, Problem
from optim.format.instance import Instance
from optim.format.plan import Plan
from optim.util.store import Lock
from streamplace.cli import decide as one_step
from streamplace.execute.loop import Journal, LookOutcome, Loop, System
from streamplace.policies.guard import Guarded
from streamplace.policies.registry import read_policy
from tests.command import run_command
from tests.heuristics.rebalancing.cases import case
from tests.slowly import slowly


@dataclass
class Recorded(System):
    """Runs a recording: each look is the next period, with what was carried out before."""

    periods: list[Instance] = field(default_factory=list)
    at: dict[str, str] = field(default_factory=dict)
    looks: int = 0
    applied: list[dict[str, str]] = field(default_factory=list)
    fails: Any = None

    name = "recorded"

    def look(self) -> Instance:
        made = self.periods[min(self.looks, len(self.periods) - 1)]
        self.looks += 1
        return self.now(made)

    def now(self, made: Instance) -> Instance:
        if not self.at:
            return made
        index = {name: n for n, name in enumerate(made.nodes.ids)}
        node = np.array([index[self.at[task]] for task in made.tasks.ids], np.int32)
        return replace(made, tasks=replace(made.tasks, node=node))

    def apply(self, instance: Instance, plan: Plan) -> str | None:
        self.applied.append(dict(plan.assignment))
        if self.fails is not None:
            return self.fails(self, plan)
        self.at = dict(plan.assignment)
        return None

    def carry_out(self, file: Path) -> str | None:
        raise AssertionError(file)


def loop(system: Recorded, folder: Path, policy: str = "flux", **given: Any) -> Loop:
    guard = Guarded(read_policy(policy), given.pop("gain", 0.0), given.pop("cool_down", 0.0))
    ticks = iter(range(0, 60 * 1000, 60))
    return Loop(
        system, guard, policy, folder, given.pop("apply", True), one_step.step,
        given.pop("clock", lambda: float(next(ticks))),
    )  # fmt: skip


def crowded(load: float = 6.0, **limits: Any) -> Instance:
    return case("0001", loads=[load, 4, 3, 1], capacity=20.0, **limits)


DAY = {"nodes": 4, "key_groups": 6, "operators": 2, "periods": 12, "max_migrations": 3}


@pytest.mark.parametrize(
    ("policy", "gain", "cool_down"),
    [
        ("flux", 0.3, 0.0),
        ("change-trigger:method=flux", 0.0, 0.0),
        *slowly(("balance-search", 0.2, 180.0)),
    ],
)
def test_a_day_gives_the_same_decisions_in_replay_decide_and_watch(
    policy: str, gain: float, cool_down: float, tmp_path: Path
) -> None:
    periods = day_periods(3, **DAY)

    def guarded() -> Guarded:
        return Guarded(read_policy(policy), gain, cool_down)

    setting, replayed = Setting(periods), []
    state = first_state(setting, guarded())
    for number in range(len(periods)):
        _, state = step(setting, guarded(), number, state)
        replayed.append([periods[0].nodes.ids[n] for n in state.deployment.node.tolist()])

    system = Recorded("", periods=list(periods))
    told: list[LookOutcome] = []
    for number in range(len(periods)):  # a process each
        watched = loop(
            system, tmp_path / "w", policy, gain=gain, cool_down=cool_down,
            clock=lambda now=number * 60.0: now,
        )  # fmt: skip
        with watched.alone():
            told.append(watched.look())
    kinds = [one.decision.kind(one.instance) for one in told]

    stepped, decided, at = Recorded("", periods=list(periods)), [], []
    for number in range(len(periods)):
        made = stepped.look()
        (tmp_path / "now.json").write_text(made.to_json())
        words = ["decide", "now.json", "--state", "s.json", "--policy", policy, "--json"]
        words += ["--gain", str(gain), "--cool-down", str(cool_down), "--now", str(number * 60)]
        done = run_command(words, tmp_path, {})
        found = json.loads(done.stdout)
        decided.append(found["decision"])
        if found["plan"] is not None:
            stepped.at = found["plan"]["assignment"]
        after = stepped.now(made)
        at.append([after.nodes.ids[n] for n in after.tasks.node.tolist()])
    assert decided == kinds
    assert at == replayed
    assert [*system.at.values()] == replayed[-1]
    assert 0 < kinds.count("move") < len(periods)


def test_a_dry_run_changes_nothing_and_says_so(tmp_path: Path) -> None:
    system = Recorded("", periods=[crowded()])
    told = [loop(system, tmp_path, apply=False).look() for _ in range(2)]
    assert [one.verdict for one in told] == ["not applied (no --apply)"] * 2
    assert not system.applied
    assert not (tmp_path / "journal.jsonl").exists()


def test_partial_relief_is_carried_out_again_and_again(tmp_path: Path) -> None:
    made = case("0000000", loads=[6.0] * 7, nodes=2, capacity=22.0, max_migrations=1)
    system = Recorded("", periods=[made])
    watched = loop(system, tmp_path, "balance-milp", gain=0.1)
    verdicts = [watched.look().verdict for _ in range(5)]
    assert verdicts[:3] == ["applied"] * 3  # 42, 36, 30, 24: overloaded all the while
    assert set(verdicts[3:]) == {"stays"}


def test_one_change_in_a_cool_down_over_processes_and_policies(tmp_path: Path) -> None:
    system = Recorded("", periods=[crowded(), crowded(), crowded()])
    first = loop(system, tmp_path, cool_down=1000.0, clock=lambda: 100.0).look()
    assert first.verdict == "applied"
    system.at = {}  # somebody put it back
    for policy in ("flux", "balance-milp"):
        held = loop(system, tmp_path, policy, cool_down=1000.0, clock=lambda: 500.0).look()
        assert "cooling down, 600 s more" in held.decision.reason


def test_what_fails_is_told_and_waits_for_the_cool_down(tmp_path: Path) -> None:
    def refuses(system: Recorded, plan: Plan) -> str:
        raise InvalidInput(Problem("slot", "s1:6700", "serves topology other"))

    system = Recorded("", periods=[crowded()], fails=refuses)
    watched = loop(system, tmp_path, cool_down=150.0)
    verdicts = [watched.look().verdict for _ in range(4)]
    assert "serves topology other" in verdicts[0]
    assert len(system.applied) == 2  # at 0 s and 180 s, not at 60 and 120
    assert watched.recover() is None


def killed(tmp_path: Path, at_kill: dict[str, str] | None) -> Recorded:
    """Return a system whose controller was killed when it was as told; ``None``: as planned."""

    def dies(system: Recorded, plan: Plan) -> str:
        system.at = dict(plan.assignment) if at_kill is None else at_kill
        raise KeyboardInterrupt  # as good as kill -9: nothing is written after it

    made = case("00001", loads=[3, 3, 3, 3, 0.5], capacity=20.0)  # two moves are best
    system = Recorded("", periods=[made], fails=dies)
    with pytest.raises(KeyboardInterrupt):
        loop(system, tmp_path, "balance-milp").look()
    system.fails = None
    return system


NOW = {"k0": "n0", "k1": "n0", "k2": "n0", "k3": "n0", "k4": "n1"}


def test_a_change_that_was_carried_out_is_found(tmp_path: Path) -> None:
    system = killed(tmp_path, None)
    watched = loop(system, tmp_path, "balance-milp")
    assert "was carried out" in str(watched.recover())
    assert watched.recover() is None
    assert len(system.applied) == 1
    state = json.loads(next(tmp_path.glob("state-*.json")).read_text())
    assert state["state"]["changed"] == 0.0


def test_a_change_that_was_not_begun_is_found(tmp_path: Path) -> None:
    system = killed(tmp_path, NOW)
    watched = loop(system, tmp_path, "balance-milp", cool_down=1e6)
    assert "was not begun" in str(watched.recover())
    assert watched.look().verdict == "applied"


def half(system: Recorded) -> None:
    planned = system.applied[0]
    moved = [task for task in NOW if planned[task] != NOW[task]]
    assert len(moved) > 1
    system.at = NOW | {moved[0]: planned[moved[0]]}


def test_a_half_change_is_finished(tmp_path: Path) -> None:
    system = killed(tmp_path, NOW)
    half(system)
    told = str(loop(system, tmp_path, "balance-milp", apply=False).recover())
    assert "with --apply it is finished or reverted" in told
    watched = loop(system, tmp_path, "balance-milp")
    assert "is finished" in str(watched.recover())
    assert system.at == system.applied[0]
    assert watched.recover() is None


def test_a_half_change_that_cannot_be_finished_is_reverted(tmp_path: Path) -> None:
    system = killed(tmp_path, NOW)
    half(system)

    def only_back(system: Recorded, plan: Plan) -> str | None:
        if dict(plan.assignment) != NOW:
            return "a slot is taken"
        system.at = dict(plan.assignment)
        return None

    system.fails = only_back
    assert "is reverted" in str(loop(system, tmp_path, "balance-milp").recover())
    assert system.at == NOW


def test_a_half_change_that_can_be_neither_stops_the_loop(tmp_path: Path) -> None:
    system = killed(tmp_path, NOW)
    half(system)
    system.fails = lambda *_: "no way"
    with pytest.raises(InvalidInput, match="neither finished nor reverted: no way; no way"):
        loop(system, tmp_path, "balance-milp").recover()


def test_a_change_of_another_job_is_closed(tmp_path: Path) -> None:
    system = killed(tmp_path, NOW)
    system.at, system.periods = {}, [case("01")]
    watched = loop(system, tmp_path, "balance-milp")
    assert "no longer exist" in str(watched.recover())
    assert watched.recover() is None


@pytest.mark.parametrize("line", ["{}", "[]", '{"at": 1}', "nonsense"])
def test_a_journal_that_is_none_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text(line + "\n")
    with pytest.raises(InvalidInput, match="line 1"):
        Journal(tmp_path).last_change()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"at": 1, "plan": null, "before": null}'])
def test_a_change_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "change.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"change\.json is damaged"):
        Journal(tmp_path).open_change()


def test_killed_between_the_line_and_the_end_it_has_ended(tmp_path: Path) -> None:
    system = killed(tmp_path, NOW)
    kept = (tmp_path / "change.json").read_bytes()
    watched = loop(system, tmp_path, "balance-milp", clock=lambda: 5.0)
    assert "was not begun" in str(watched.recover())
    (tmp_path / "change.json").write_bytes(kept)
    assert watched.recover() is None
    assert not (tmp_path / "change.json").exists()


def test_the_state_of_another_policy_is_left_alone(tmp_path: Path) -> None:
    system = killed(tmp_path, None)
    watched = loop(system, tmp_path, "flux", cool_down=1e6, clock=lambda: 60.0)
    assert "was carried out" in str(watched.recover())
    assert not list(tmp_path.glob("state-*.json"))
    assert watched.look().verdict == "stays"


def test_nodes_to_add_are_the_operators(tmp_path: Path) -> None:
    system = Recorded("", periods=[crowded()])
    rule = "algorithm-1:method=flux,upper=0.2,target=0.15,lower=0.1"
    watched = loop(system, tmp_path, rule)
    for _ in range(2):
        assert watched.look().verdict == "yours to do: start 3 more like n0"
    assert not system.applied


def test_two_controllers_are_one_too_many(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock")
    assert lock.acquire()
    try:
        watched = loop(Recorded("", periods=[crowded()]), tmp_path)
        with pytest.raises(InvalidInput, match="is in use by another controller"), watched.alone():
            pass
    finally:
        lock.release()


def test_load_that_swings_around_a_threshold_moves_once(tmp_path: Path) -> None:
    periods = [crowded(load) for load in (6.0, 6.6, 6.0, 6.6, 6.0, 6.6)]
    system = Recorded("", periods=periods)
    watched = loop(system, tmp_path, "balance-milp", gain=0.5)
    assert [watched.look().verdict for _ in periods].count("applied") == 1
