"""Fewer moves: plans keep the rate that was asked, and no more moves are told than were counted."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optim import Instance, solve
from optim.figures.catalogue import OBJECTIVES
from optim.kernels.undo import Point
from streamplace.cli import fewest_moves as fewest
from streamplace.cli.fewest_moves import Asking
from streamplace.cli.main import main

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


def test_fewer_moves_carry_the_rate_too() -> None:
    instance = Instance.from_dict(DOCUMENT)
    result = solve(instance, "balance-milp")
    assert [p.moves for p in Asking(instance, result).points()] == [2, 1, 0]
    assert [p.moves for p in Asking(instance, result, 2.0).points()] == [2]


def told(args: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["solve", *args, "-q", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("query", "moves"), [("q1", 6), ("q5", 11), ("q6", 3)])
def test_the_fewest_moves_of_the_objective_of_the_case_as_it_is(
    query: str, moves: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counted apart: the fewest moves that keep 95 % of the traffic that fits inside nodes."""
    found = told([f"examples/capsys-{query}.json", "--fewest-moves-within", "5%"], capsys)
    assert found["objective"]["name"] == found["fewest"]["of"]["name"] == "imc_gain"
    assert len(found["moves"]) == found["fewest"]["moves"] == found["fewest"]["at_least"] == moves
    assert found["objective"]["value"] >= 0.95 * found["fewest"]["of"]["value"]
    assert found["termination"] == "gap_reached"  # not the best any more


@pytest.mark.parametrize(("change", "objective", "share", "least"), [
    ({}, "load_distance", 0.05, 1),  # staying is worse
    ({}, "cpu_deviation", 0.05, 1),
    ({}, "sustainable_rate", 0.5, 0),  # staying carries half of the best rate
    ({"capacity": {"cpu": 7}}, "imc_gain", 0.05, 1),  # staying is infeasible
    ({"capacity": {"cpu": 7}, "slots": 4}, "imc_gain", 0.05, 1),
    ({"slots": 4}, "load_distance", 0.05, 0),  # slots are not looked at
])  # fmt: skip
def test_staying_that_is_worse_or_infeasible_takes_a_move(
    change: dict[str, Any], objective: str, share: float, least: int
) -> None:
    """Without any time: what needs no search."""
    nodes = [{**NODES[0], **change}, NODES[1]]
    instance = Instance.from_dict({**DOCUMENT, "nodes": nodes, "traffic": [["t0", "t1", 1]]})
    asking = Asking(instance, solve(instance, objective=objective, time_limit=5), seconds=0)
    _, found = fewest.fewest_within(asking, share)
    assert found is not None
    assert found.at_least == least <= found.moves


@pytest.mark.parametrize("patterns", [20_000, 1])
def test_the_fewest_moves_where_patterns_are_too_many(
    patterns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Budgets of moves close what `throughput-exact` does not answer; against all placements."""
    loads = [2 - 0.1 * t for t in range(8)]
    traffic = [(t, (t + 1) % 8, 10 + t) for t in range(8)]
    instance = Instance.from_dict({
        **DOCUMENT, "nodes": [{"id": f"n{i}", "capacity": {"cpu": 6}} for i in range(3)],
        "tasks": [{"id": f"t{t}", "load": {"cpu": x}, "node": f"n{t % 3}"}
                  for t, x in enumerate(loads)],
        "traffic": [[f"t{a}", f"t{b}", rate] for a, b, rate in traffic],
    })  # fmt: skip
    gains: dict[int, float] = {}  # moves to the most traffic inside nodes
    for at in itertools.product(range(3), repeat=8):
        if all(sum(x for x, n in zip(loads, at, strict=True) if n == i) <= 6 for i in range(3)):
            moves = sum(n != t % 3 for t, n in enumerate(at))
            inside = sum(rate for a, b, rate in traffic if at[a] == at[b])
            gains[moves] = max(inside, gains.get(moves, 0))
    least = min(moves for moves, gain in gains.items() if gain >= 0.95 * max(gains.values()))
    monkeypatch.setattr(fewest, "_PATTERNS", patterns)
    asking = Asking(instance, solve(instance, "imc-exact"), seconds=300)
    found = fewest.fewest_within(asking, 0.05)[1]
    assert found is not None
    assert found.best.value == max(gains.values())
    assert found.moves == found.at_least == least
    assert (found.by == "throughput-exact") == (patterns > 1)


def test_the_fewest_moves_of_a_rate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The heavy tasks are spread; a search that undoes moves one by one stops at another."""
    document = {
        "format": "streamplace.instance/1",
        "name": "24 and 18",
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 20}} for i in range(3)],
        "links": [{"id": f"u{i}", "nodes": [f"n{i}"], "capacity": 1000} for i in range(3)],
        "operators": [
            {"id": "A", "group": {"tasks": 24, "load": {"cpu": 0.5}}},
            {"id": "C", "group": {"tasks": 18, "load": {"cpu": 0.8}}},
        ],
        "tasks": [
            *({"id": f"A/{i}", "node": f"n{i % 3}"} for i in range(24)),
            *({"id": f"C/{i}", "node": "n0"} for i in range(18)),
        ],
        "streams": [{"from": "A", "to": "C", "rate": 100}],
    }
    file = tmp_path / "rate.json"
    file.write_text(json.dumps(document))
    found = told([str(file), "--fewest-moves-within", "1%"], capsys)
    assert found["objective"]["name"] == "sustainable_rate"
    assert (len(found["moves"]), found["fewest"]["proved"]) == (12, True)


def test_switches_are_no_moves(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Four tasks of 2 on one node, two of them with a copy on the other: balance is free."""
    document = json.loads(json.dumps(DOCUMENT))
    for task in document["tasks"][:2]:
        task["copies"] = ["n1"]
    file = tmp_path / "copies.json"
    file.write_text(json.dumps(document))
    asked = [str(file), "--objective", "load_distance"]
    found = told([*asked, "--fewest-moves-within", "0%"], capsys)
    assert (found["fewest"]["moves"], found["fewest"]["proved"]) == (0, True)
    assert found["evaluation"]["switches"] == 2
    curve = told([*asked, "--budget", "0", "--curve", "moves"], capsys)["curve"]
    assert [(p["moves"], p["switches"]) for p in curve["points"]] == [(0, 2)]


def test_no_fewer_moves_without_a_current_placement(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["solve", "examples/capsys-rate-q1.json", "--fewest-moves-within", "5%", "-q"]
    assert main(asked) == 2
    assert "no task has a current node" in capsys.readouterr().err


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
    assert "no task has a current node" in capsys.readouterr().err


def test_a_knee_gains_more_than_its_share_of_the_moves() -> None:
    def points(*values: float) -> list[Point]:
        nowhere = np.zeros(0, np.int32)
        value_of = OBJECTIVES["load_distance"].of
        return [Point(k, 0, float(k), value_of(v), nowhere, True) for k, v in enumerate(values)]

    assert fewest.knee_of(points(9.0, 2.0, 1.0, 0.0), "moves") == 1
    assert fewest.knee_of(points(9.0, 6.0, 3.0, 0.0), "moves") is None
    assert fewest.knee_of(points(9.0, 8.0, 6.0, 0.0), "moves") is None
