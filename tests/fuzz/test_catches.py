"""The fuzzer finds what is wrong: each lie of a method is caught under its own name."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.cases import Finding, Question, Shares, questions
from tests.fuzz.command import main
from tests.fuzz.generate import Draw
from tests.fuzz.product import Calls, Plan, Setting, evaluate, registered
from tests.fuzz.product import InvalidInput as Refused
from tests.fuzz.shrink import shrink

DOCUMENT: dict[str, Any] = {
    "format": "streamplace.instance/1", "name": "small", "resources": ["cpu"],
    "nodes": [{"id": "n0", "capacity": {"cpu": 8}}, {"id": "n1", "capacity": {"cpu": 8}}],
    "operators": [{"id": "o"}],
    "tasks": [
        {"id": f"t{i}", "operator": "o", "load": {"cpu": load}, "node": node}
        for i, (load, node) in enumerate([(3, "n0"), (2, "n0"), (2, "n0"), (1, "n1"), (1, "n1")])
    ],
    "traffic": [["t0", "t3", 4], ["t1", "t4", 2], ["t2", "t3", 1]],
}  # fmt: skip
Solve = Callable[..., Any]
TRUE: Solve = Calls().solve


def kinds(question: Question, solve: Solve = TRUE, patience: int = 60, **more: Any) -> set[str]:
    """Return the kinds found when `solve` stands in for the product's."""
    setting = Setting({**DOCUMENT, **more}, Calls(patience=patience, solve=solve))
    return {kind for kind, _ in question.put(setting)}


def lying(**lies: Any) -> Solve:
    """Return a solve whose results say something else; a function is given the true result."""

    def solve(instance: Any, method: str | None = None, **keywords: Any) -> Any:
        result = TRUE(instance, method, **keywords)
        told = {k: v(result) if callable(v) else v for k, v in lies.items()}
        return replace(result, **told)

    return solve


def test_the_truth_is_not_doubted() -> None:
    for question in (
        Question("reads_alike"), Question("result", "imc-brute"), Question("twice", "naive"),
        Question("units", "imc-brute", {}, {"loads": 3, "rates": -2, "costs": 1}),
        Question("ids", "imc-brute", {}, {"seed": 4}), Question("result", "top-down"),
    ):  # fmt: skip
        assert kinds(question) == set()


def test_rounding_of_loads_is_no_other_level() -> None:
    nodes = [{"id": "n0", "weight": 3}]
    loads = (16.789723486818865, 6.960321316528731, 0.3)
    tasks = [{"id": f"t{i}", "load": {"cpu": x}, "node": "n0"} for i, x in enumerate(loads)]
    question = Question("result", "balance-milp")
    assert kinds(question, nodes=nodes, tasks=tasks, operators=[], traffic=[]) == set()


def _infeasible(result: Any) -> Any:
    return type(result.termination)("infeasible")


def _no_capacity(result: Any) -> Any:
    return replace(result.evaluation, feasible=False, violations=())


@pytest.mark.parametrize(
    ("lies", "kind"),
    [
        ({"bound": 5.5}, "bound-wrong"),
        ({"bound": None, "gap": None, "bound_of": None}, "optimal-without-proof"),
        ({"bound_of": "restricted"}, "optimal-without-proof"),
        ({"bound": float("inf")}, "bound-infinite"),
        ({"gap": 0.25}, "gap-figure"),
        ({"termination": _infeasible, "plan": None, "evaluation": None}, "false-infeasible"),
        ({"evaluation": _no_capacity}, "verdict"),
        ({"evaluation": lambda r: replace(r.evaluation, imc_gain=3.0)}, "figures"),
        ({"evaluation": lambda r: replace(r.evaluation, nodes_used=7)}, "evaluate"),
        ({"moves": ()}, "moves"),
        ({"ignored": ("capacity",)}, "ignored-mark"),
    ],
)
def test_a_lie_is_caught(lies: dict[str, Any], kind: str) -> None:
    assert kind in kinds(Question("result", "imc-brute"), lying(**lies))


def _worse(instance: Any, method: str | None = None, **keywords: Any) -> Any:
    """Return a plan of the round robin under the name and the proof of an exact method."""
    true, poor = TRUE(instance, "imc-brute"), TRUE(instance, "storm-even")
    if method == "naive":
        return true
    value = replace(true.objective, value=poor.evaluation.imc_gain)
    told = {"plan": poor.plan, "evaluation": poor.evaluation, "moves": poor.moves}
    return replace(true, **told, method="imc-exact", objective=value, bound=value.value, gap=0.0)


def test_a_wrong_optimum_is_caught() -> None:
    found = kinds(Question("result", "imc-exact"), _worse)
    assert {"not-optimal", "bound-wrong"} <= found


def test_less_than_the_start_or_the_family_is_caught() -> None:
    assert "worse-than-start" in kinds(
        Question("start", "imc-exact", {}, {"source": "naive"}), _worse
    )
    assert "worse-than-family" in kinds(Question("family", "imc-exact"), _worse)


def test_a_weighted_sum_is_compared_as_such() -> None:
    def all_on_one(instance: Any, method: str | None = None, **keywords: Any) -> Any:
        result, plan = TRUE(instance, method, **keywords), Plan.from_indices(instance, [0] * 5)
        return replace(result, plan=plan, evaluation=evaluate(instance, plan))

    nodes = [{"id": "n0"}, {"id": "n1"}]
    more = {"nodes": nodes, "traffic": [["t0", "t1", 0.1], ["t0", "t2", 0.1], ["t1", "t2", 0.1]]}
    question = Question("result", "joint-milp", {"weighted": True})
    assert kinds(question, **more) == set()
    assert "worse-than-staying" in kinds(question, all_on_one, **more)


def test_a_plan_that_overloads_a_node_is_caught() -> None:
    nodes = [{"id": "n0", "capacity": {"cpu": 8}}, {"id": "n1", "capacity": {"cpu": 2}}]

    def blind(result: Any) -> Any:
        return replace(result.evaluation, feasible=True, violations=())

    assert kinds(Question("result", "storm-even"), nodes=nodes) == set()
    assert "verdict" in kinds(
        Question("result", "storm-even"), lying(evaluation=blind), nodes=nodes
    )


@pytest.mark.parametrize(
    ("failing", "kind"),
    [(lambda: 1 / 0, "crash-ZeroDivisionError"), (lambda: time.sleep(30), "slow")],
)
def test_crashes_and_hangs_are_caught(failing: Callable[[], Any], kind: str) -> None:
    question = Question("result", "naive")
    assert kinds(question, lambda *_a, **_k: failing(), patience=1) == {kind}


def test_a_change_of_mind_is_caught() -> None:
    turn = itertools.count()

    def solve(instance: Any, method: str | None = None, **keywords: Any) -> Any:
        return TRUE(instance, ("naive", "storm-even")[next(turn) % 2])

    assert "not-repeatable" in kinds(Question("twice", "naive"), solve)


def test_a_unit_that_decides_is_caught() -> None:
    def solve(instance: Any, method: str | None = None, **keywords: Any) -> Any:
        small = float(instance.tasks.load.max()) < 1
        return TRUE(instance, "storm-even" if small else "imc-brute")

    question = Question("units", "imc-brute", {}, {"loads": -6, "rates": 0, "costs": 0})
    assert kinds(question, solve) == {"scale-dependent"}


def test_a_default_that_refuses_or_finds_nothing_is_caught() -> None:
    def refuses(instance: Any, method: str | None = None, **keywords: Any) -> Any:
        if method is None:
            raise Refused([])
        return TRUE(instance, method, **keywords)

    def gives_up(instance: Any, method: str | None = None, **keywords: Any) -> Any:
        result = TRUE(instance, method, **keywords)
        stopped = type(result.termination)("iteration_limit")
        return replace(result, plan=None, evaluation=None, gap=None, moves=(), termination=stopped)

    assert kinds(Question("default"), refuses) == {"auto-refuses"}
    assert "auto-no-plan" in kinds(Question("default"), gives_up)


def test_a_repair_that_touches_a_good_plan_is_caught() -> None:
    def solve(instance: Any, method: str | None = None, **keywords: Any) -> Any:
        return TRUE(instance, "storm-even" if keywords.get("repair") else "imc-brute")

    assert "repair-touched" in kinds(Question("repair", "naive"), solve)


def test_a_limit_that_stays_though_ignored_is_caught() -> None:
    """The instance has no plan with its capacities; without them the best is all on one node.

    Without a current placement: one that breaks capacities may go on breaking them, so that there
    would be a plan.
    """
    nodes = [{"id": "n0", "capacity": {"cpu": 4}}, {"id": "n1", "capacity": {"cpu": 4}}]
    tasks = [{k: v for k, v in task.items() if k != "node"} for task in DOCUMENT["tasks"]]

    def solve(instance: Any, method: str | None = None, **keywords: Any) -> Any:
        result = TRUE(instance, method)
        return replace(result, ignored=("capacity",))

    question = Question("ignoring", "imc-brute", {}, {"limit": "capacity"})
    assert "false-infeasible" in kinds(question, solve, nodes=nodes, tasks=tasks)
    assert kinds(question, nodes=nodes, tasks=tasks) == set()
    assert kinds(question, nodes=nodes) == set()


def test_a_counterexample_is_made_small_and_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def solve(instance: Any, method: str | None = None, **keywords: Any) -> Any:
        if instance.total_traffic > 3:
            raise ZeroDivisionError
        return TRUE(instance, method, **keywords)

    question = Question("result", "imc-brute")
    finding = Finding("crash-ZeroDivisionError", "", question, 0, DOCUMENT)
    monkeypatch.setattr("tests.fuzz.shrink.Calls", lambda **k: Calls(solve=solve, **k))
    small = shrink(finding)
    assert len(small.instance["tasks"]) == 2
    assert [rate for *_, rate in small.instance["traffic"]] == [4]
    path = tmp_path / "small.json"
    path.write_text(json.dumps(small.to_dict()))
    assert main(["--replay", str(path)]) == 0  # it was the solve of above that failed
    assert "crash-ZeroDivisionError is not found any more" in capsys.readouterr().out


def test_every_method_is_asked() -> None:
    setting = Setting(DOCUMENT)
    wanted = (*registered(), "default")
    asked = {q.method for q in questions(Draw(1), setting, wanted, Shares())}
    plain = {name for name, m in registered().items() if m["family"] != "model-driven"}
    assert asked == plain | {None}


def test_the_command_counts_and_ends_with_one_on_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--case", "3", "--methods", "naive", "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert "1 instances" in capsys.readouterr().out
    finding = Finding("figures", "wrong", Question("result", "naive"), 3, DOCUMENT)
    monkeypatch.setattr("tests.fuzz.command.examine", lambda *_, **__: [finding])
    assert main(arguments) == 1
    assert json.loads((tmp_path / "figures-naive-3.json").read_text()) == finding.to_dict()
    assert (tmp_path / "summary-0.json").exists()


def test_workers_that_are_left_violated_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers run and one is wanted, for which no node has the capacity."""
    nodes = [{"id": name, "capacity": {"cpu": 4}, "slots": 2} for name in ("n0", "n1")]
    tasks = [{"id": f"t{i}", "operator": "o", "load": {"cpu": 5}, "node": f"n{i}"} for i in (0, 1)]
    held = {
        "nodes": nodes, "tasks": tasks, "topologies": [{"id": "j", "workers": 1}],
        "operators": [{"id": "o", "topology": "j"}], "traffic": [["t0", "t1", 3]],
    }  # fmt: skip
    question = Question("mended", "plan-search", {"explain": 0.0})
    assert kinds(question, **held) == set()
    monkeypatch.setattr("optim.methods.violated_start._FORCED", frozenset())
    assert "mend-forced" in kinds(question, **held)


def test_a_worse_value_beside_traffic_that_no_plan_keeps_together_is_caught() -> None:
    """1 less than there is, beside 1e11 between nodes in every plan."""
    traffic = [["t0", "t3", 1e11], ["t1", "t4", 2], ["t0", "t1", 4], ["t2", "t3", 1]]
    apart = {"traffic": traffic, "sets": [{"id": "s", "rule": "apart", "tasks": ["t0", "t3"]}]}
    lie = lying(objective=lambda result: result.objective.with_value(result.objective.value - 1))
    question = Question("result", "imc-brute", {"explain": 0.0})
    assert kinds(question, **apart) == set()
    assert "not-optimal" in kinds(question, lie, **apart)
