"""Algorithm 1, step by step, with policies that do as they are told."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from experiments.replay.run import Setting, _moving_load, first_state, step
from optim.errors import InvalidInput
from optim.format.instance import Instance
from streamplace.policies.algorithm1 import Algorithm1, may_leave
from streamplace.policies.nodes import CostModel, Deployment
from streamplace.policies.parallelism import NoScaling, ScalingDecision, ScalingView
from streamplace.policies.planners import Planner, Static
from streamplace.policies.policy import Planned
from streamplace.policies.registry import read_planner, read_policy
from tests.experiments.replay.cases import recording
from tests.heuristics.rebalancing.cases import case


class Told(Static):
    """Deploys what it is told, in turn, and keeps what it was shown."""

    def __init__(self, plans: list[list[int]]) -> None:
        object.__setattr__(self, "scales", True)
        object.__setattr__(self, "plans", plans)
        object.__setattr__(self, "shown", [])

    def plan(self, instance: Instance, memory: Any, seed: int, now: float) -> Planned:
        self.shown.append(instance)  # type: ignore[attr-defined]
        return Planned(Deployment.whole(self.plans.pop(0)), "told", True)  # type: ignore[attr-defined]


@dataclass
class ToldRule:
    """Decides as told, once a call."""

    decisions: list[ScalingDecision]
    shown: list[ScalingView] = field(default_factory=list)

    def __call__(self, view: ScalingView) -> ScalingDecision:
        self.shown.append(view)
        return self.decisions.pop(0)


def told(*plans: list[int]) -> Any:
    return Told(list(plans))


def play(setting: Setting, planner: Any, rule: Any = None) -> tuple[list[dict[str, Any]], Any]:
    """Replay a planner, with the setting's costs, and a scaling rule."""
    rule = NoScaling() if rule is None else rule
    policy = planner
    if isinstance(planner, Planner):
        policy = Algorithm1(planner, rule, setting.costs)
    state, rows = first_state(setting, policy), []
    for number in range(len(setting.periods)):
        row, state = step(setting, policy, number, state)
        rows.append(row)
    return rows, state


def test_planned_on_one_period_scored_on_it_and_the_next() -> None:
    periods = recording("001", [[3, 1, 2], [1, 5, 2], [9, 9, 9]])
    rows, _ = play(Setting(periods), told([0, 1, 1], [1, 0, 1], [1, 0, 1]))
    assert [r["load_distance_before"] for r in rows] == [1.0, 3.0, 4.5]
    assert [r["load_distance"] for r in rows] == [0.0, 1.0, 4.5]
    assert [r["load_distance_next"] for r in rows] == [3.0, 4.5, None]
    assert [r["migrations"] for r in rows] == [1, 2, 0]
    assert [r["load_index"] for r in rows] == [1.0, pytest.approx(8 / 6), 4.5]


def test_the_plan_sees_serialisation_and_the_score_counts_it_anew() -> None:
    periods = recording("01", [[2, 2]], traffic=[(0, 1, 4.0)])
    setting = Setting(periods, CostModel(0.5, 0.25))
    policy = told([0, 0])
    rows, _ = play(setting, policy)
    assert policy.shown[0].tasks.load[:, 0].tolist() == [4.0, 3.0]
    assert rows[0]["total_load"] == 4.0
    assert rows[0]["load_index"] == pytest.approx(4 / 7)
    assert rows[0]["collocation_factor"] == 1.0


def test_moves_cost_both_nodes_in_their_period() -> None:
    periods = recording("01", [[2, 2], [2, 2]], state=[3.0, 1.0])
    setting = Setting(periods, CostModel(migration=0.1))
    rows, _ = play(setting, told([1, 1], [1, 1]))
    assert [r["migration_cost"] for r in rows] == [3.0, 0.0]
    assert [r["total_load"] for r in rows] == [pytest.approx(4.6), 4.0]


def test_a_decision_is_made_on_planned_loads_and_planned_for_again() -> None:
    periods = recording("001", [[3, 1, 2], [3, 1, 2]])
    rule = ToldRule([ScalingDecision(add=1), ScalingDecision()])
    policy = told([0, 1, 1], [0, 1, 2], [0, 1, 2])
    rows, state = play(Setting(periods), policy, rule)
    assert rule.shown[0].load.tolist() == [3.0, 3.0]  # not the 4 and 2 that run
    assert [i.num_nodes for i in policy.shown] == [2, 3, 3]
    assert [(r["nodes"], r["added"]) for r in rows] == [(3, 1), (3, 0)]
    assert rule.shown[1].since_change == 1
    assert state.cluster.ids == ("n0", "n1", "added-1")


def test_marked_nodes_are_dropped_when_they_are_empty() -> None:
    periods = recording("0012", [[1, 1, 1, 1]] * 4)
    rule = ToldRule([ScalingDecision(mark=(2,)), *[ScalingDecision()] * 3])
    policy = told([0, 0, 1, 1], [0, 0, 1, 2], [0, 0, 1, 1], [0, 0, 1, 1], [0, 1, 0, 1])
    rows, state = play(Setting(periods), policy, rule)
    # planned without the mark; again with it: not yet emptied; emptied in period 1; then gone
    assert [r["nodes"] for r in rows] == [3, 3, 2, 2]
    assert [r["leaving"] for r in rows] == [1, 1, 0, 0]
    assert [r["dropped"] for r in rows] == [0, 0, 1, 0]
    assert state.cluster.ids == ("n0", "n1")
    assert rows[3]["migrations"] == 2


def test_without_a_plan_what_runs_goes_on() -> None:
    periods = recording("001", [[3, 1, 2]], allowed={0: [1]}, max_migrations=0)
    rows, state = play(Setting(periods), read_planner("balance-milp", 0))
    assert not rows[0]["planned"]
    assert rows[0]["termination"] == "infeasible"
    assert "may not stay" in rows[0]["note"]
    assert state.deployment.node.tolist() == [0, 0, 1]


def test_budgets_of_the_replay_replace_those_of_the_recording() -> None:
    periods = recording("000", [[1, 1, 1]], nodes=3, max_migrations=0)
    flux = read_planner("flux", 0)
    for budgets, moves in (({}, 0), ({"max_migrations": 1}, 1), ({"max_migrations": 2}, 2)):
        rows, _ = play(Setting(periods, budgets=budgets), flux)
        assert (rows[0]["migrations"], rows[0]["over_budget"]) == (moves, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "is no policy"),
        ("albic:pairs_per_round", "is not of the form option=value"),
        ("albic:pairs_per_rounds=1", "is no option"),
        ("albic:pairs_per_round=-1", "is out of range"),
        ("flux:solver=highs", "names a solver it cannot use"),
        ("balance-milp:solver=gurobi", "names a solver it cannot use"),
        ("static:a=1", "static:a is no option of static .it has none"),
        ("potc:merge=-1", "is out of range"),
        ("balance-milp:time_limit=0", "is out of range"),
    ],
)
def test_wrong_policies_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_policy(text, 0)


def test_a_policy_of_the_studies_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optim.plugins.entries", lambda group: {})
    with pytest.raises(InvalidInput, match=r"is no policy \(comes with streamplace-studies"):
        read_policy("potc:merge=0.2", 0)


def test_policies_take_options_of_the_solve_and_of_the_method() -> None:
    policy: Any = read_planner("balance-milp:form=full,solver=cbc,gap=0.5", 0, 7.0)
    assert policy.solve == {
        "objective": None, "solver": "cbc", "time_limit": 7.0, "gap": 0.5, "repair": False,
        "start_broken": "mend",
    }  # fmt: skip
    assert policy.options["form"] == "full"
    assert np.isclose(read_planner("potc:merge=0.3", 4).merge, 0.3)  # type: ignore[attr-defined]


def test_albic_climbs_where_flux_does_not() -> None:
    # four one-to-one pairs, all apart; every pair together is worth less serialisation
    pairs = [(i, 4 + i, 8.0) for i in range(4)]
    given: dict[str, Any] = {"traffic": pairs, "operators": "aaaabbbb", "max_migrations": 3}
    periods = recording("01231230", [[5.0] * 8] * 6, **given)
    setting = Setting(periods, CostModel(0.1, 0.1))
    climbed, _ = play(setting, read_planner("albic:max_part_load=15", 0))
    reached = [row["collocation_factor"] for row in climbed]
    assert reached == sorted(reached)
    assert reached[-1] == 1.0
    assert climbed[-1]["load_index"] == pytest.approx(40 / 46.4)
    assert max(row["migrations"] for row in climbed) <= 3
    flux, _ = play(setting, read_planner("flux", 0))
    assert flux[-1]["collocation_factor"] == 0.0


@pytest.mark.parametrize(
    ("before", "after", "charged"),
    [
        ([[0, 0]], [[2, 2]], [3, 0, 3]),
        ([[0, 1]], [[0, 2]], [0, 3, 3]),  # only the second place changes
        ([[0, 1]], [[1, 0]], [0, 0, 0]),
        ([[0, 1]], [[2, 2]], [3, 3, 3]),
    ],
)
def test_moves_cost_the_nodes_they_leave_and_reach(
    before: list[list[int]], after: list[list[int]], charged: list[float]
) -> None:
    made = case("0", state=[3.0], nodes=3)
    one = np.ones(1)
    load = _moving_load(
        made,
        CostModel(migration=1.0),
        Deployment(np.array(before), one),
        Deployment(np.array(after), one),
        np.array([0]),
    )
    assert load.tolist() == charged


def test_nodes_that_may_leave_leave_each_key_group_one() -> None:
    """Of {0, 1} and {1, 2} node 1 serves both; {3} is bound; node 4 is anyone's."""
    made = case("00334", nodes=5, allowed={0: [0, 1], 1: [1, 2], 2: [3], 3: [0, 1]})
    assert may_leave(made).tolist() == [True, False, True, False, True]
    assert may_leave(case("01")).all()
    marked = case("00", nodes=3, leaving=(0,), allowed={0: [0, 1], 1: [0]})
    assert may_leave(marked).tolist() == [True, False, True]


def test_feasible_is_judged_for_what_stays() -> None:
    periods = recording("001", [[3, 1, 2], [1, 5, 2]])
    tight = [replace(p, nodes=replace(p.nodes, capacity=np.full((2, 1), 4.0))) for p in periods]
    rows, _ = play(Setting(tight), Static())
    assert [row["feasible"] for row in rows] == [True, False]  # 4 and 2, then 6 on one node
