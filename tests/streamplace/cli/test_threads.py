"""Model-driven instances on the command line: solve, check, evaluate, diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.generators import generate


@pytest.fixture
def linear(tmp_path: Path) -> str:
    generate("micro_dag", rate=100).save(tmp_path / "linear.json")
    return "linear.json"


def test_solve_shows_threads_and_machines(streamplace: Any, linear: str) -> None:
    done = streamplace("solve", linear, "-o", "plan.json")
    assert done.returncode == 0
    assert "5 operators with performance models, input 100 tuples/s, machines D1" in done.stderr
    for words in (
        "heuristic  slots 7  no bound",
        "slots acquired",
        "supported input rate",
        "80 tuples/s",
        "3 × 50, 1 × 20",
        "vm2      D3    3",
        "0.784 $/h",
        "shuffle grouping supports 80 of 100 tuples/s: the bottleneck is table on vm1#3",
    ):
        assert words in done.stdout, words


def test_solve_as_json(streamplace: Any, linear: str) -> None:
    done = streamplace("solve", linear, "--method", "slots-milp", "--json")
    result = json.loads(done.stdout)
    assert result["objective"] == {"name": "slots", "value": 7, "sense": "min"}
    assert (result["bound"], result["bound_of"], result["gap"]) == (7, "restricted", 0)
    assert result["objective_levels"][0]["name"] == "internode_traffic"
    assert result["plan"]["threads"]["blob"] == 170
    assert result["evaluation"]["extra_slots"] == 0


def test_check_and_evaluate(streamplace: Any, linear: str) -> None:
    streamplace("solve", linear, "--method", "lsa+rsm", "-o", "plan.json")
    checked = streamplace("check", linear, "plan.json")
    assert checked.returncode == 0
    assert "suspicious" not in checked.stdout
    assert "feasible" in checked.stdout
    told = streamplace("evaluate", linear, "plan.json")
    assert told.returncode == 0
    assert "beyond the allocation" in told.stdout
    assert "azure_table" in told.stdout
    figures = json.loads(streamplace("evaluate", linear, "plan.json", "--json").stdout)
    assert figures["slots"] == 14
    assert figures["slot_utilisation"]


def test_check_warns_of_models(streamplace: Any, tmp_path: Path) -> None:
    value = generate("micro_dag").to_dict()
    value["models"]["spare"] = [{"threads": 2, "rate": 1, "cpu": 120, "memory": 1}]
    del value["input_rate"]
    (tmp_path / "i.json").write_text(json.dumps(value))
    done = streamplace("check", "i.json")
    assert done.returncode == 0
    for words in (
        "models.spare  is the model of no operator",
        "needs more than a slot at 2 threads",
        "is not given: no threads can be planned",
    ):
        assert words in done.stdout, done.stdout


def test_diff_of_threads(streamplace: Any, linear: str) -> None:
    for method, name in (("mba+sam", "a.json"), ("lsa+rsm", "b.json")):
        streamplace("solve", linear, "--method", method, "-o", name)
    told = streamplace("diff", linear, "a.json", "b.json")
    assert told.returncode == 0
    assert "machines: 2 × D3 (7 slots) → 1 × D2 + 3 × D3 (14 slots)" in told.stdout
    rows = json.loads(streamplace("diff", linear, "a.json", "b.json", "--json").stdout)["threads"]
    blob = next(row for row in rows if row["operator"] == "blob")
    assert (blob["before"], blob["after"]) == (170, 50)
    assert (blob["stay"], blob["move"]) == (15, 35)
    same = json.loads(streamplace("diff", linear, "a.json", "a.json", "--json").stdout)["threads"]
    assert all(row["move"] == 0 for row in same)


def test_diff_needs_two_plans_of_a_kind(streamplace: Any, linear: str, tmp_path: Path) -> None:
    streamplace("solve", linear, "-o", "a.json")
    alone = streamplace("diff", linear, "a.json")
    assert alone.returncode == 2
    assert "name two plans" in alone.stderr
    tasks = {"format": "streamplace.plan/1", "instance": "x", "assignment": {}}
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    mixed = streamplace("diff", linear, "a.json", "tasks.json")
    assert mixed.returncode == 2
    assert "cannot be compared" in mixed.stderr


def test_a_plan_that_overloads(streamplace: Any, tmp_path: Path) -> None:
    generate("micro_dag", shape="linear", rate=200).save(tmp_path / "i.json")
    done = streamplace("solve", "i.json", "--method", "mba+dsm", "-o", "p.json")
    assert done.returncode == 4
    assert "slot_capacity" in done.stdout or "capacity" in done.stdout
    assert streamplace("check", "i.json", "p.json").returncode == 4


def test_a_mapping_that_fails(streamplace: Any, linear: str) -> None:
    done = streamplace("solve", linear, "--method", "mba+rsm", "--option", "slots=2")
    assert done.returncode == 4
    assert "no plan" in done.stdout
    assert "insufficient resources for table on 2 slots; more slots may do" in done.stdout


def test_a_rate_that_nothing_supports(streamplace: Any, tmp_path: Path) -> None:
    value = generate("micro_dag").to_dict()
    value["models"]["pi"] = [{"threads": 1, "rate": 0, "cpu": 1, "memory": 1}]
    (tmp_path / "i.json").write_text(json.dumps(value))
    done = streamplace("solve", "i.json")
    assert done.returncode == 2
    assert "models.pi supports no tuples at any thread count, and pi receives 100" in done.stderr


def test_a_cycle(streamplace: Any, tmp_path: Path) -> None:
    value = generate("micro_dag").to_dict()
    value["streams"].append({"from": "file", "to": "table", "selectivity": 1})
    (tmp_path / "i.json").write_text(json.dumps(value))
    done = streamplace("solve", "i.json")
    assert done.returncode == 2
    assert "is a cycle" in done.stderr
    assert "table" in done.stderr
