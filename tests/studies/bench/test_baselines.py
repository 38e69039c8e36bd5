"""Baselines: rows are kept, not run again, and scored by what is known of their cases now."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.studies.bench import baselines
from experiments.studies.bench.asking import Asked
from experiments.studies.bench.baselines import Baseline, measured, rescored, stored, table
from experiments.studies.bench.cases import read
from optim import Instance, solve

CASES = [case for case in read() if case.name in ("papers-figure2", "papers-random_graphs-s0")]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []

    def ask(instance: Instance, objective: str) -> Asked:
        asked.append(instance.name)
        plan = solve(instance, "top-down", objective=objective).plan
        return Asked([(0.5, plan)], seconds=0.5)

    made = {
        "mine": Baseline(lambda _: ask, ("imc_gain",)),
        "other": Baseline(lambda _: ask, ("load_distance",)),
        "chosen": Baseline(lambda _: ask, None, chosen=("papers-figure2",)),
    }
    monkeypatch.setattr(baselines, "baselines", lambda: made)
    return asked


def test_what_was_run_is_kept(seen: list[str], tmp_path: Path) -> None:
    kept = tmp_path / "rows.jsonl"
    names = ["mine", "other", "chosen"]
    assert len(list(measured(names, CASES[:1], 10.0, kept))) == len(seen)
    before = len(seen)
    rows = list(measured(names, CASES, 10.0, kept))
    assert [name for name, _ in rows].count("mine") == 2
    assert [name for name, _ in rows].count("chosen") == 1
    assert len(rows) == len(seen) == 3 and before < 3
    assert not {"best", "gap", "primal_integral"} & set(stored(kept)[0][1])


def test_rows_are_scored_by_what_is_known_now(
    seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "rows.jsonl"
    list(measured(["mine"], CASES, 10.0, kept))
    rows = {row["case"]: row for _, row in rescored(stored(kept))}
    assert rows["papers-figure2"]["gap"] == pytest.approx(1 - 11 / 13.2)
    assert rows["papers-figure2"]["primal_integral"] == pytest.approx(0.05 + 0.95 / 6)
    known = [replace(case, best=11.0, certified="11") for case in CASES if case.name[7] == "f"]
    monkeypatch.setattr(baselines, "read", lambda: known)
    ((_, row),) = rescored(stored(kept))
    assert row["at_bound"] and row["primal_integral"] == pytest.approx(0.05)
    assert "| papers | mine | 1 | 1 | 1 of 1 | 0 | 0 | 0.050 | 0.5 |" in table([("mine", row)])


def test_the_committed_rows_are_of_these_baselines() -> None:
    names = baselines.baselines()
    for name, row in stored(baselines.KEPT):
        assert name in names and row["limit"] <= names[name].most
        json.dumps(row, allow_nan=False)


@pytest.mark.parametrize("engine", ["metis", "mtkahypar"])
def test_a_cut_is_mended(engine: str) -> None:
    if engine == "mtkahypar":
        pytest.importorskip("mtkahypar")
    case = next(case for case in CASES if case.name == "papers-random_graphs-s0")
    asked = baselines.partitioned(engine, 10.0)(case.instance(), case.objective)
    assert asked.problem is None and len(asked.answers) == 1


def test_a_rebalancer_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMPLACE_REBALANCER", raising=False)
    case = next(case for case in read() if case.objective == "load_distance")
    asked = baselines.rebalancer(1.0)(case.instance(), case.objective)
    assert not asked.answers and "rebalancer" in str(asked.problem)


def test_ctrl_c_is_no_answer_of_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from experiments.studies.bench import textbook

    told = SimpleNamespace(termination="interrupted", x=None)
    monkeypatch.setattr(textbook, "solve_linear", lambda *_, **__: told)
    for objective in ("imc_gain", "sustainable_rate"):
        with pytest.raises(KeyboardInterrupt):
            textbook.asker("highs", 1.0)(CASES[0].instance(), objective)
