"""Peers beside ours: rows are stored, not run again, scored by what is known of their cases now."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.studies.bench import peers, textbook
from experiments.studies.bench.cases import read
from experiments.studies.bench.peers import Peer, lead, measured, rescored, stored, table
from experiments.studies.bench.scores import Outcome
from optim import Instance, solve
from streamplace.cli.main import main

CASES = [case for case in read() if case.name in ("papers-figure2", "papers-random_graphs-s0")]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []

    def ask(instance: Instance, objective: str) -> Outcome:
        asked.append(instance.name)
        plan = solve(instance, "top-down", objective=objective).plan
        return Outcome([(0.5, plan)], seconds=0.5)

    made = {
        "mine": Peer(lambda _: ask, ("imc_gain",)),
        "other": Peer(lambda _: ask, ("load_distance",)),
        "absent": Peer(lambda _: ask, None, install="pip install absent", installed=lambda: False),
        peers.OURS: Peer(lambda _: ask),
    }
    monkeypatch.setattr(peers, "peers", lambda: made)
    return asked


def test_what_was_run_is_not_run_again(seen: list[str], tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    names = ["mine", "other"]
    assert len(list(measured(names, CASES[:1], 10.0, file))) == len(seen) == 1
    rows = list(measured(names, CASES, 10.0, file))
    assert [name for name, _ in rows] == ["mine", "mine"]
    assert len(seen) == 2
    assert not {"best", "gap", "primal_integral"} & set(stored(file)[0][1])
    assert stored(file)[0][1]["cpu_seconds"] > 0


def test_peers_run_beside_ours_and_absent_ones_are_named(
    seen: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    words = ["bench", "--peers", "--only", "figure2", "--seconds", "5", "--rows", str(rows)]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "left out: absent is not installed: pip install absent" in err
    assert [name for name, _ in stored(rows)] == [peers.OURS, "mine"]
    assert "| 0, 1, 0 |" in out and "No peer is ahead of ours." in out
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == "streamplace.bench-peers/1" and len(seen) == 2
    assert {"by", "value", "bound", "cpu_seconds"} <= set(found["cases"][0])
    assert main(["bench", "--peers", "mien", "--only", "figure2"]) == 2
    assert "did you mean mine?" in capsys.readouterr().err
    assert main(["bench", "--method", "even", "--rows", str(rows)]) == 2
    assert "add --peers" in capsys.readouterr().err


def test_a_peer_that_is_ahead_is_named() -> None:
    row = {"objective": "imc_gain", "reference": None, "value": 2.0, "family": "f", "case": "c"}
    assert lead({**row, "value": 2.1}, row) == 1 == -lead(row, {**row, "value": 2.1})
    assert lead({**row, "value": 2.0 + 1e-12}, row) == 0
    assert lead({**row, "value": None}, row) == -1 == -lead(row, {**row, "value": None})
    lower = row | {"objective": "load_distance", "reference": 50.0}
    assert lead({**lower, "value": 1.0}, lower) == 1
    case = CASES[0].name
    run = {"case": case, "trajectory": [], "seconds": 2.0, "limit": 5.0, "family": "papers"}
    run |= {"feasible": True, "own_certificate": False, "objective": "imc_gain", "reference": None}
    ours, theirs = run | {"value": 1.0}, run | {"value": 2.0, "seconds": 1.0}
    text = table(rescored([(peers.OURS, ours), ("mine", theirs)]))
    assert f"- mine is ahead on {case}: 2, ours 1" in text and "| 0.5 | 1, 0, 0 |" in text


def test_rows_are_scored_by_what_is_known_now(
    seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "rows.jsonl"
    list(measured(["mine"], CASES, 10.0, kept))
    rows = {row["case"]: row for _, row in rescored(stored(kept))}
    assert rows["papers-figure2"]["gap"] == pytest.approx(1 - 11 / 13.2)
    assert rows["papers-figure2"]["primal_integral"] == pytest.approx(0.05 + 0.95 / 6)
    known = [replace(case, best=11.0, certified="11") for case in CASES if case.name[7] == "f"]
    monkeypatch.setattr(peers, "read", lambda: known)
    ((_, row),) = rescored(stored(kept))
    assert row["at_bound"] and row["primal_integral"] == pytest.approx(0.05)
    assert "| papers | mine | 1 | 1 | 1 of 1 | 0 | 0 | 0.050 |" in table([("mine", row)])


def test_the_committed_rows_are_of_these_peers(capsys: pytest.CaptureFixture[str]) -> None:
    names = peers.peers()
    for name, row in stored(peers.STORED):
        assert name in names and row["limit"] <= names[name].most
        json.dumps(row, allow_nan=False)
    assert main(["bench", "--peers", "--list", "--only", "storm-fields"]) == 0
    assert "| storm | textbook highs |" in capsys.readouterr().out


@pytest.mark.parametrize("engine", ["pymetis", "mtkahypar"])
def test_a_cut_is_mended(engine: str) -> None:
    if engine == "mtkahypar":
        pytest.importorskip("mtkahypar")
    case = next(case for case in CASES if case.name == "papers-random_graphs-s0")
    asked = peers.partitioned(engine, 10.0)(case.instance(), case.objective)
    assert asked.problem is None and len(asked.answers) == 1


def test_a_rebalancer_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMPLACE_REBALANCER", raising=False)
    case = next(case for case in read() if case.objective == "load_distance")
    asked = peers.rebalancer(1.0)(case.instance(), case.objective)
    assert not asked.answers and "rebalancer" in str(asked.problem)


def test_ctrl_c_is_no_answer_of_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    told = SimpleNamespace(termination="interrupted", x=None)
    monkeypatch.setattr(textbook, "solve_linear", lambda *_, **__: told)
    for objective in ("imc_gain", "sustainable_rate"):
        with pytest.raises(KeyboardInterrupt):
            textbook.asker("highs", 1.0)(CASES[0].instance(), objective)


def test_timefold_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMPLACE_TIMEFOLD", sys.executable)
    asked = peers.timefold(1.0)(CASES[0].instance(), "imc_gain")
    assert not asked.answers and "STREAMPLACE_TIMEFOLD names no Python" in str(asked.problem)


def test_timefold_is_asked_in_whole_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A stand-in that places all on node 0, or nothing: what it is asked, and what comes of it."""
    instance, seen = CASES[0].instance(), list[dict[str, Any]]()
    monkeypatch.setattr(peers, "timefold_python", lambda: sys.executable)

    def answer(python: str, file: Path, asked: dict[str, Any], seconds: float) -> dict[str, Any]:
        seen.append(asked)
        return {"place": [0 if len(seen) == 1 else None] * len(asked["load"])}

    monkeypatch.setattr(peers.rebalancer_process, "answer_of", answer)
    assert peers.timefold(9.0)(instance, "imc_gain").answers
    (asked,) = seen
    assert len(asked["room"]) == instance.num_nodes and max(asked["room"]) >= 10**6
    assert all(isinstance(x, int) for x in [*asked["load"], *asked["room"], *asked["pairs"][0]])
    assert max(rate for *_, rate in asked["pairs"]) == 10**6
    assert "not placed all tasks" in str(peers.timefold(9.0)(instance, "imc_gain").problem)


def test_a_peer_that_is_named_twice_is_run_once() -> None:
    names = [peers.OURS_SHORT, "cola", "top-down", "cola", peers.OURS]
    assert peers.chosen_names(names) == [peers.OURS, "cola", "top-down", peers.OURS_SHORT]
