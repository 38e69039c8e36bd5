"""Fewer moves: plans keep the rate that was asked, and no more moves are told than were counted."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from experiments.cli import fewest
from experiments.cli.main import main
from optim import Instance, Plan
from optim.figures.catalogue import OBJECTIVES
from optim.moves.undo import Point

if TYPE_CHECKING:
    from pathlib import Path

NODES = [{"id": f"n{i}", "capacity": {"cpu": 10}} for i in range(2)]
DOCUMENT: dict[str, Any] = {
    "format": "streamplace.instance/1",
    "name": "f",
    "resources": ["cpu"],
    "nodes": NODES,
    "tasks": [{"id": f"t{i}", "load": {"cpu": 2}, "node": "n0"} for i in range(4)],
}


def planned(instance: Instance, node: list[int]) -> Any:
    plan = Plan.from_indices(instance, np.array(node, np.int32), None, "m", {})
    moves = [t for t, n in enumerate(node) if n != instance.tasks.node[t]]
    loads = np.bincount(node, minlength=2) * 2
    return SimpleNamespace(
        plan=plan, ignored=(), moves=[SimpleNamespace(cost=1.0)] * len(moves), feasible=True,
        objective=SimpleNamespace(name="load_distance", value=float(np.ptp(loads)) / 2),
        bound=None, bound_of=None, termination="feasible",
    )  # fmt: skip


def test_fewer_moves_carry_the_rate_too() -> None:
    instance = Instance.from_dict(DOCUMENT)
    result = planned(instance, [0, 0, 1, 1])
    objective = OBJECTIVES["load_distance"]
    assert [p.moves for p in fewest.checked_points(instance, result, objective)] == [2, 1, 0]
    assert [p.moves for p in fewest.checked_points(instance, result, objective, 2.0)] == [2]


def test_a_plan_with_more_moves_than_asked_for_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance = Instance.from_dict(DOCUMENT)
    told: list[Any] = []
    monkeypatch.setattr(fewest, "with_plan", lambda *given: told.append(given))
    best, other = planned(instance, [0, 0, 1, 1]), planned(instance, [1, 1, 1, 0])
    other.objective.value = best.objective.value
    fewest.fewest_within(instance, best, 0.0, lambda limited: other)
    assert told[0][2].tolist() == [0, 0, 1, 1]
    assert "proved" not in told[0][3]


def test_what_is_of_one_plan_is_refused_for_several_cases(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cases = ["--budget", "2", "--or", "--budget", "3"]
    asked = ["solve", "examples/flink-drain.json", *cases, "--curve", "moves", "-q"]
    assert main(asked) == 2
    assert "--curve" in capsys.readouterr().err


def test_a_curve_of_the_rate_has_the_best_plan_of_each_number_of_moves(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Four equal tasks on one of four nodes: the best that each number of moves allows."""
    document = {
        "format": "streamplace.instance/1",
        "name": "heap",
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 4}} for i in range(4)],
        "operators": [{"id": "a", "group": {"tasks": 4, "load": {"cpu": 8}}}],
        "tasks": [{"id": f"a/{i}", "node": "n0"} for i in range(4)],
    }
    file = tmp_path / "heap.json"
    file.write_text(json.dumps(document))
    asked = ["solve", str(file), "--objective", "sustainable_rate", "--curve", "moves", "--json"]
    assert main(asked) == 0
    curve = json.loads(capsys.readouterr().out)["curve"]
    best = {point["moves"]: point["value"] for point in curve["points"]}
    assert best == pytest.approx({0: 0.5, 1: 2 / 3, 2: 1.0, 3: 2.0})


def test_no_curve_of_moves_without_a_current_placement(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["solve", "examples/capsys-rate-q1.json", "--curve", "moves", "-q"]
    assert main(asked) == 2
    assert "no task is anywhere now" in capsys.readouterr().err


def test_a_knee_gains_more_than_its_share_of_the_moves() -> None:
    def points(*values: float) -> list[Point]:
        nowhere = np.zeros(0, np.int32)
        return [Point(k, float(k), value, nowhere, True) for k, value in enumerate(values)]

    assert fewest.knee_of(points(9.0, 2.0, 1.0, 0.0), "moves") == 1
    assert fewest.knee_of(points(9.0, 6.0, 3.0, 0.0), "moves") is None
    assert fewest.knee_of(points(9.0, 8.0, 6.0, 0.0), "moves") is None
