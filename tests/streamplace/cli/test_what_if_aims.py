"""A changed instance is solved for the objective of the case as it is, or says first that not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from optim.figures.catalogue import OBJECTIVES
from streamplace.cli.main import main
from tests.streamplace.cli.aims import judged

if TYPE_CHECKING:
    from pathlib import Path

DRAIN, QUERY = "examples/flink-drain.json", "examples/capsys-q1.json"


def told(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    assert main(["solve", *args, "-q", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_values_of_two_objectives_are_never_compared() -> None:
    gain, distance = OBJECTIVES["imc_gain"].of(1.0), OBJECTIVES["load_distance"].of(1.0)
    for compare in (gain.better_than, gain.as_good_as, gain.gain_over):
        with pytest.raises(TypeError, match="imc_gain is compared with one of load_distance"):
            compare(distance)
    assert not gain.better_than(gain.with_value(None))
    assert distance.within(0.5).value == 1.5
    assert gain.within(0.5).value == 0.5


def test_a_budget_keeps_the_objective(capsys: pytest.CaptureFixture[str]) -> None:
    """Eight moves are best: a budget of 20 binds nothing, and one of 3 is of the same objective."""
    cases = told(capsys, QUERY, "--budget", "3", "--or", "--budget", "20", "--time-limit", "4")
    assert [case["objective"]["name"] for case in cases] == ["imc_gain"] * 3
    assert cases[2]["objective"]["value"] == pytest.approx(cases[0]["objective"]["value"])
    assert len(cases[1]["moves"]) <= 3
    assert cases[0]["departs"] is None
    assert "imc-exact does not keep limits.max_migrations = 3" in cases[1]["departs"]


@pytest.mark.parametrize("method", [[], ["--method", "balance-milp"]])
def test_a_lost_node_keeps_objective_and_method(
    method: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its tasks are placed at no cost: the six moves of the budget are left for the others."""
    found = told(capsys, DRAIN, *method, "--fail-node", "tm3")
    assert (found["objective"]["name"], found["method"]) == ("load_distance", "balance-milp")
    assert found["departs"] is None
    assert found["evaluation"]["migrations"] == len(found["moves"]) <= 6
    assert len(found["plan"]["assignment"]) == 12


def test_the_first_line_says_that_another_method_was_taken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["solve", QUERY, "--method", "imc-exact", "--budget", "3", "-q", "--time-limit", "3"]
    assert main(asked) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("not as before the change  another method for the same objective")
    assert main([*asked, "--option", "start=none"]) == 2  # an option of that method alone


def test_an_objective_that_none_has_is_told_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With costs of crossing nodes, an objective of `eoa-milp` has a method; with a budget too."""
    document = {
        "format": "streamplace.instance/1",
        "name": "slots",
        "nodes": [{"id": f"n{i}", "slots": 2, "capacity": {"cpu": 9}} for i in range(2)],
        "topologies": [{"id": "a", "workers": 2}],
        "operators": [{"id": "x", "topology": "a", "group": {"tasks": 30, "load": {"cpu": 6}}}],
        "tasks": [{"id": f"x/{i}", "node": "n0"} for i in range(30)],
        "traffic": [["x/0", "x/1", 3]],
    }
    file = tmp_path / "slots.json"
    file.write_text(json.dumps(document))
    before = told(capsys, str(file))
    changed = told(capsys, str(file), "--budget", "16")
    same = changed["objective"]["name"] == before["objective"]["name"]
    assert same or changed["departs"].startswith("another objective")


def test_a_plan_that_carries_less_than_now_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", QUERY, "-q"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("traded   sustainable rate 1.235 × now, 1.07 × with this plan")
    assert main(["solve", QUERY, "-q", "--objective", "sustainable_rate"]) == 0
    assert "traded" not in capsys.readouterr().out


@pytest.mark.seeds(6)
@pytest.mark.parametrize("seed", range(60))
def test_questions_about_changes_against_all_placements_and_by_hand(seed: int) -> None:
    """``python -m tests.streamplace.cli.aims FROM TO`` asks for more."""
    assert [(kind, detail) for kind, detail in judged(seed) if kind != "unproved"] == []
