"""``explain`` and what if, on the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from experiments.studies.timings.conflicts import PLANTS, named, planted
from optim import Instance, Plan, evaluate
from optim.figures.catalogue import OBJECTIVES
from streamplace.cli.main import main
from streamplace.explain.explanation import binding_rules

if TYPE_CHECKING:
    from pathlib import Path


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    code = main([*map(str, arguments), "-q", "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def job(repository: Path) -> Path:
    return repository / "examples" / "flink-drain.json"


@pytest.mark.parametrize("seed", [2, 3, 4, 6, 9, 11, 16, 18])
def test_planted_conflicts_are_named_exactly(seed: int) -> None:
    instance, expected = planted(seed, 20, 100)
    assert named(instance) == (False, [expected]), PLANTS[seed].__name__


def test_a_clash_of_two_rules_has_figures_and_a_checked_remedy(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = told(capsys, "explain", job, "--drop-node", "tm5", "--budget", "2")
    assert code == 3
    assert found["feasible"] is False
    (conflict,) = found["conflicts"]
    rules = {rule["rule"]: rule for rule in conflict["rules"]}
    assert set(rules) == {"allowed", "max_migrations"}
    assert (rules["max_migrations"]["needed"], rules["max_migrations"]["available"]) == (3, 2)
    changes = {r["rule"]: r for r in (*found["relaxation"], *found["remedies"])}
    assert (changes["max_migrations"]["by"], changes["max_migrations"]["to"]) == (1, 3)
    # a source may not stay: its rack is the other's
    assert changes["allowed"]["where"].startswith("Enrich/0, Enrich/1")
    code, _ = told(capsys, "explain", job, "--drop-node", "tm5", "--budget", "3")
    assert code == 0


def test_names_with_dots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Instance.from_dict({
        "format": "streamplace.instance/1", "name": "dots", "resources": ["net.out"],
        "nodes": [{"id": f"n.{i}", "capacity": {"net.out": 10.0}} for i in range(3)],
        "tasks": [
            {"id": f"t{i}", "load": {"net.out": 4.0}, "node": f"n.{i // 2}"} for i in range(6)
        ],
        "traffic": [["t0", "t2", 2.0], ["t1", "t4", 1.0]],
    })  # fmt: skip
    file = tmp_path / "dots.json"
    made.save(file)
    code, found = told(capsys, "explain", file, "--time-limit", "20")
    assert code == 0
    assert {b["where"] for b in found["binding"]} == {f"n.{i}.net.out" for i in range(3)}
    assert {b["more"] for b in found["binding"]} == {2.0}


def test_a_factor_is_no_time(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in (["--scale-rate", "2s"], ["--scale-load", "map=1h"]):
        with pytest.raises(SystemExit):
            main(["explain", str(job), *option])
        assert "is no number" in capsys.readouterr().err


def test_solve_names_the_conflict_that_explain_finds(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamplace.explain.explanation._AT_ONCE", 60.0)  # on a busy machine, too
    query = str(repository / "examples" / "capsys-q1.json")
    code, found = told(capsys, "solve", query, "--drop-node", "w4", "--method", "balance-milp")
    assert code == 3
    (conflict,) = found["conflicts"]
    capacity = next(rule for rule in conflict["rules"] if rule["rule"] == "capacity")
    assert (capacity["where"], capacity["needed"], capacity["available"]) == (
        "w1, w2, w3.slot",
        25,
        24,
    )
    main(["solve", query, "--drop-node", "w4", "--method", "balance-milp", "-q"])
    text = capsys.readouterr().out
    assert "capacity on w1, w2, w3.slot: 25 slots needed, 24 slots available" in text
    assert "streamplace explain" in text


@pytest.mark.slow
def test_the_worth_of_a_move_is_the_difference_that_the_referee_finds(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["solve", str(job), "-o", str(tmp_path / "plan.json"), "-q", "--time-limit", "120"])
    capsys.readouterr()
    code, found = told(capsys, "explain", job, tmp_path / "plan.json")
    instance, plan = Instance.load(job), Plan.load(tmp_path / "plan.json")
    assert code == 0
    assert len(found["moves"]) == found["binding"][0]["used"] == 6
    objective = OBJECTIVES[found["objective"]]
    before = evaluate(instance, plan).objective(objective.name)
    for move in found["moves"]:
        undone = {**plan.assignment, move["task"]: move["from"]}
        after = evaluate(instance, Plan(instance.name, undone))
        assert move["worth"] == after.objective(objective.name) - before
        assert move["breaks"] == list(dict.fromkeys(v.rule for v in after.violations))


@pytest.mark.slow
def test_a_node_more_is_a_remedy_that_was_checked(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = told(capsys, "explain", job, "--scale-rate", "2", "--time-limit", "120")
    changes = found["relaxation"] + found["remedies"]
    (node,) = (remedy for remedy in changes if remedy["rule"] == "nodes")
    like, count = node["where"].split()[3], int(node["by"])
    more = ("--add-node", f"like={like}", f"count={count}", "--scale-rate", "2")
    code, found = told(capsys, "explain", job, *more)
    assert (code, found["feasible"], found["decided"]) == (0, True, True)


def test_what_a_move_more_buys_is_what_solving_with_it_gives(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At least: `explain` gives the search a time limit, with which it goes on longer."""
    query, method = repository / "examples" / "capsys-q1.json", ("--method", "imc-search")
    _, found = told(capsys, "explain", query, *method, "--budget", "3", "--time-limit", "8")
    values = [
        told(capsys, "solve", query, *by, "--budget", budget)[1]["objective"]["value"]
        for budget, by in ((3, method), (4, method), (4, ("--method", "imc-milp")))
    ]
    assert found["binding"][0]["rule"] == "max_migrations"
    assert found["binding"][0]["more"] == 1
    least, most = values[1] - values[0], values[2] - values[0]
    assert 0 < least - 1e-9 <= found["binding"][0]["buys"] <= most + 1e-9


def test_a_plan_that_only_the_rules_gave_is_explained(
    job: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from streamplace.explain import what_if

    solve = what_if.solve
    monkeypatch.setattr(what_if, "solve", lambda *a, **k: replace(solve(*a, **k), plan=None))
    code, found = told(capsys, "explain", job)
    assert (code, found["feasible"], found["decided"]) == (0, True, True)
    assert found["plan_feasible"]
    assert found["notes"]


def test_cases_are_judged_side_by_side(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["solve", str(job), "-o", str(tmp_path / "plan.json"), "-q"])
    capsys.readouterr()
    more = ("--fail-node", "tm3", "--or", "--scale-rate", "2", "--add-node", "like=tm1", "count=2")
    _, found = told(capsys, "evaluate", job, tmp_path / "plan.json", *more)
    assert [case["case"] for case in found] == [
        "plan", "fail-node tm3", "scale-rate 2, add-node like=tm1 count=2"
    ]  # fmt: skip
    assert {v["rule"] for v in found[1]["violations"]} == {"capacity"}  # placed anew
    assert len(found[1]["placed_anew"]) == 3
    assert found[2]["total_traffic"] == 2 * found[0]["total_traffic"]
    assert len(found[2]["utilisation"]) == len(found[0]["utilisation"]) + 2


@pytest.mark.parametrize(
    "more", [("--add-node", "tm1"), ("--scale-rate", "0"), ("--scale-load", "Window")]
)
def test_a_change_that_says_too_little_is_refused(job: Path, more: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["solve", str(job), *more])


def test_an_unknown_node_is_named_with_its_like(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", str(job), "--fail-node", "tm9"]) == 2
    assert "did you mean tm" in capsys.readouterr().err


@pytest.mark.slow
def test_fewest_moves_stay_within_the_share_and_the_curve_is_checked(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = repository / "examples" / "capsys-q1.json"
    options = ("--method", "imc-search", "--curve", "moves", "--plot", tmp_path / "curve.svg")
    _, whole = told(capsys, "solve", query, *options)
    _, few = told(capsys, "solve", query, "--method", "imc-search", "--fewest-moves-within", "60%")
    assert len(few["moves"]) < len(whole["moves"])
    assert few["objective"]["value"] >= 0.4 * whole["objective"]["value"]
    assert few["evaluation"]["feasible"]
    assert main(["solve", str(query), "--plot", str(tmp_path / "none.svg")]) == 2
    assert "add --curve moves" in capsys.readouterr().err
    points = whole["curve"]["points"]
    assert points[-1]["value"] == whole["objective"]["value"]
    values = [point["value"] for point in points]
    assert values == sorted(values)
    assert whole["most_of_gain"]["of"] == len(whole["moves"])
    assert (tmp_path / "curve.svg").read_text().startswith("<?xml")


def test_a_task_without_a_node_is_on_no_node_of_a_set() -> None:
    """Index -1 is not the last node: of three tasks apart, one is on a, one on b, one nowhere."""
    instance = Instance.from_dict({
        "format": "streamplace.instance/1",
        "name": "apart",
        "nodes": [{"id": "a"}, {"id": "b"}],
        "tasks": [{"id": f"t{i}", "load": {"cpu": 1}} for i in range(3)],
        "sets": [{"id": "s", "rule": "spread", "at_least": 2, "tasks": ["t0", "t1", "t2"]}],
    })  # fmt: skip
    node = np.array([0, 0, -1], np.int32)
    assert [(b.rule, b.used) for b in binding_rules(instance, node)] == [("sets", 1.0)]
    nowhere = np.array([-1, -1, -1], np.int32)
    assert [(b.rule, b.used) for b in binding_rules(instance, nowhere)] == [("sets", 0.0)]
