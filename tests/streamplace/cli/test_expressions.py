"""What `solve` and `explain` can do with a figure they do with a sum and with levels, or refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamplace.cli.main import main

OBJECTIVES = ("imc_gain-0.5*load_distance", "load_distance,migrations")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Six tasks on two of three nodes, at most two of which may move."""
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 12.0 + i}} for i in range(3)]
    tasks = [{"id": f"t{i}", "load": {"cpu": 1.0 + i}, "node": f"n{i % 2}"} for i in range(6)]
    traffic = [["t0", "t4", 3.0], ["t1", "t3", 2.0], ["t2", "t3", 4.0], ["t5", "t0", 1.0]]
    document: dict[str, Any] = {
        "format": "streamplace.instance/1", "name": "six", "nodes": nodes, "tasks": tasks,
        "traffic": traffic, "limits": {"max_migrations": 2},
    }  # fmt: skip
    path = tmp_path / "six.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    "words",
    [
        "--curve moves", "--fewest-moves-within 5%", "--budget 1", "--fail-node n1",
        "--drop-node n2", "--add-node like=n0", "--budget 1 --or --budget 2", "--cross-check",
        "--method portfolio --time-limit 3", "--warm-start storm-even --method plan-milp",
    ],
)  # fmt: skip
def test_asked_of_an_expression(
    objective: str,
    words: str,
    file: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["solve", "-q", str(file), "--objective", objective, *words.split()]) == 0
    told = capsys.readouterr().out
    assert objective in told or "load distance" in told


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_broken_placement_is_mended_by_an_expression(
    objective: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(file.read_text())
    document["nodes"][0]["capacity"]["cpu"] = 5.0
    document["limits"]["max_migrations"] = 1
    file.write_text(json.dumps(document))
    assert (
        main(["solve", str(file), "--objective", objective, "--json", "--method", "plan-milp"]) == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert told["evaluation"]["feasible"]
    assert told["objective"]["name"] == objective


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_why_by_an_expression(
    objective: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(file), "--objective", objective]) == 0
    assert "undone alone" in capsys.readouterr().out


def test_a_figure_that_is_not_linear_is_refused_with_what_takes_it(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--objective", "imc_gain-2*cpu_deviation", "--method", "plan-milp"]
    assert main(["solve", str(file), *words]) == 2
    told = capsys.readouterr().err
    assert "--objective: 'imc_gain-2*cpu_deviation' is not supported by plan-milp" in told
    assert "cpu_deviation (it is a root of squares" in told
    assert "use --method imc-brute or plan-search" in told
