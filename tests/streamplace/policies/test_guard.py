"""When a change is carried out: worth it, not too often, and wanted for long enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optim.errors import InvalidInput
from optim.format.instance import Instance
from optim.format.plan import Plan
from streamplace.policies.guard import Guarded, StateFile
from streamplace.policies.policy import Decision, Policy, State, decide
from streamplace.policies.registry import read_policy
from tests.heuristics.rebalancing.cases import case
from tests.streamplace.policies.test_rate_trigger import period


class Spread(Policy):
    """Moves the first task to the second node, and counts how often that was carried out."""

    name = "spread"

    def decide(self, state: State, instance: Instance, now: float) -> Decision:
        node = instance.tasks.node.copy()
        node[0] = 1
        plan = Plan.from_indices(instance, node)
        after = {"done": state.get("done", 0) + 1}
        return Decision(after, "spread", plan, objective="load_distance")


def test_what_is_not_worth_it_is_not_done() -> None:
    made = case("0001")  # 3 and 1, or 2 and 2
    assert Guarded(Spread()).decide({}, made, 0.0).kind(made) == "move"
    worse = case("0011")
    held = Guarded(Spread()).decide({}, worse, 0.0)
    assert held.kind(worse) == "keep"
    assert held.reason.endswith("load_distance 0 now, 1 planned (+0.0%); not worth the moves")
    assert held.state["policy"] == {}  # it was not carried out


def test_one_change_in_a_cool_down() -> None:
    made, policy = case("0001"), Guarded(Spread(), cool_down=100.0)
    first = policy.decide({}, made, 50.0)
    assert (first.kind(made), first.state["changed"]) == ("move", 50.0)
    second = policy.decide(first.state, made, 149.0)
    assert second.kind(made) == "keep"
    assert second.reason.endswith("cooling down, 1 s more")
    assert second.state["policy"] == {"done": 1}
    third = policy.decide(second.state, made, 150.0)
    assert (third.kind(made), third.state["policy"]) == ("move", {"done": 2})


def test_null_is_as_nothing_in_a_state() -> None:
    made = case("0001")
    for policy in (Guarded(Spread()), read_policy("static")):
        empty = dict.fromkeys(("wanted", "changed", "looks", "added"))
        assert policy.decide(empty, made, 0.0).kind(made) == policy.decide({}, made, 0.0).kind(made)


def test_a_clock_that_was_set_back_does_not_stop_it() -> None:
    made, policy = case("0001"), Guarded(Spread(), cool_down=100.0)
    first = policy.decide({}, made, 1e9)
    assert policy.decide(first.state, made, 10.0).kind(made) == "move"


def test_hysteresis_asks_for_looks_in_a_row() -> None:
    made, calm, policy = case("0001"), case("0011"), Guarded(Spread(), confirm=2, cool_down=0)
    state: State = {}
    kinds = []
    for instance in (made, calm, made, made):
        decision = policy.decide(state, instance, 0.0)
        kinds.append(decision.kind(instance))
        state = decision.state
    assert kinds == ["keep", "keep", "keep", "move"]


@pytest.mark.parametrize("policy", ["rate-trigger", "storm-trigger:method=storm-online,window=0"])
def test_a_trigger_that_is_held_back_wants_the_same_at_the_next_look(policy: str) -> None:
    """Pauses between plans are between those that are carried out, or that are no better."""
    made = period("0001")
    guarded = Guarded(read_policy(policy), confirm=2)
    first = guarded.decide({}, made, 1000.0)
    assert first.reason.endswith("wanted at 1 of 2 looks in a row")
    assert guarded.decide(first.state, made, 1015.0).kind(made) == "move"


def test_a_plan_that_breaks_a_rule_more_than_now_is_not_carried_out() -> None:
    made = case("0001", max_migrations=0)
    held = Guarded(Spread()).decide({}, made, 0.0)
    assert held.kind(made) == "keep"
    assert "the plan violates max_migrations" in held.reason


@pytest.mark.parametrize("method", ["balance-milp", "flux", "throughput-search", "solve"])
def test_partial_relief_counts_where_no_plan_is_feasible(method: str) -> None:
    made = period("0000")  # 16 of load on nodes of 10: one move leaves 12 there
    made = made.replace(limits={"max_migrations": 1})
    policy = Guarded(read_policy(method))
    decision = policy.decide({}, made, 0.0)
    assert decision.kind(made) == "move", decision.reason
    assert len(decision.moved(made)) == 1


def test_what_was_not_carried_out_is_not_remembered_as_planned_for() -> None:
    made = period("0011", 2.0)  # even already: nothing is worth it
    policy = Guarded(read_policy("change-trigger:method=balance-milp"))
    moved = period("0001", 2.0)
    decision = policy.decide({}, moved, 0.0)
    assert decision.state["policy"]["planner"] == {"planned_load": 8.0}
    assert decision.otherwise is not None
    assert decision.otherwise["policy"]["planner"] == {}
    assert policy.decide({}, made, 0.0).kind(made) == "keep"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"policy": 5}, "state.policy: 5 is no object"),
        ({"changed": "x"}, "state.changed: 'x' is no number"),
        ({"wanted": True}, "state.wanted: True is no number"),
        ({"wanted": -1}, "state.wanted: -1 is less than 0 .begin a new state"),
        ({"wanted": 2.5}, "state.wanted: 2.5 is no whole number up to 1000000000"),
        ({"wanted": 10**30}, "state.wanted: 1000000000000000000000000000000 is no whole"),
        ({"changed": np.inf}, "state.changed: inf is no number"),
        ({"policy": {"looks": np.inf}}, "state.looks: inf is no number"),
        ({"policy": {"added": -3}}, "state.added: -3 is less than 0"),
        ({"policy": {"planner": {"periods_since_plan": -9}}}, "periods_since_plan: -9"),
        ({"policy": {"looks": []}}, "state.looks"),
        ({"policy": {"marked": "n0"}}, "state.marked: 'n0' is no list of nodes"),
        ({"policy": {"planner": []}}, r"state.planner: \[\] is no object"),
        ({"policy": {"planner": {"periods_since_plan": "x"}}}, "periods_since_plan: 'x'"),
    ],
)
def test_a_state_that_is_damaged_is_refused(state: State, reason: str) -> None:
    made = period("0001")
    policy = "algorithm-1:method=flux,upper=0.2,target=0.15,lower=0.1"
    if "planner" in str(state):
        policy = "rate-trigger:method=balance-milp"
    with pytest.raises(InvalidInput, match=reason):
        Guarded(read_policy(policy)).decide(state, made, 0.0)


def test_the_greatest_seed_plans_at_every_look() -> None:
    made, policy = case("0001"), read_policy("flux", seed=2**31 - 1)
    assert policy.decide({"looks": 7}, made, 0.0).kind(made) == "move"  # "--seed must be …"


@pytest.mark.parametrize("name", ["", ".", "folder"])
def test_a_folder_is_no_state(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInput, match="is a folder"), StateFile(name, "static").locked():
        pass


class Wrong(Policy):
    """Answers what it is told."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def decide(self, state: State, instance: Instance, now: float) -> Decision:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "policy Wrong returns NoneType, not a Decision"),
        (KeyError("x"), "policy Wrong fails: KeyError: 'x'"),
        (Decision({"x": float("nan")}), "returns a state that is not JSON"),
        (Decision({"x": {1, 2}}), "returns a state that is not JSON"),
        (Decision({}, mark=("n9",)), "names n9, which the instance does not have"),
        (Decision({}, parallelism={"map": 3}), "names map, which the instance does not have"),
        (Decision({}, plan=Plan("case", {"k0": "n0"})), "leaves k1, k2, k3 without a node"),
        (Decision({}, plan=Plan("case", dict.fromkeys(("k0", "k1", "k2", "k3"), "x"))), "without"),
    ],
)
def test_a_policy_that_answers_nonsense_is_refused(answer: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        decide(Wrong(answer), {}, case("0001"), 0.0)


def test_a_policy_cannot_change_the_state_that_it_is_given() -> None:
    class Careless(Policy):
        def decide(self, state: State, instance: Instance, now: float) -> Decision:
            state["seen"] = True
            return Decision(state)

    state: State = {}
    assert decide(Careless(), state, case("0001"), 0.0).state == {"seen": True}
    assert state == {}
