"""The Storm laboratory's parts that need no cluster."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from experiments.studies.lab import storm_bench
from experiments.studies.lab.storm_bench import Acked
from experiments.studies.lab.storm_plans import random_places
from experiments.studies.papers.storm.live import received
from optim import Instance


def test_random_plans_use_random_workers() -> None:
    document = {
        "format": "streamplace.instance/1",
        "name": "four",
        "nodes": [{"id": n, "capacity": {"cpu": 4}, "slots": 4} for n in "abcd"],
        "operators": [{"id": "o", "group": {"tasks": 14, "load": {"cpu": 0.1}}}],
    }
    four, rng = Instance.from_dict(document), np.random.default_rng(0)
    numbers, slots = set(), set()
    for _ in range(60):
        node, slot = random_places(four, rng)
        numbers.add(len(np.unique(node)))
        slots |= set(slot.tolist())
    assert numbers == {1, 2, 3, 4} == {s + 1 for s in slots}


def test_what_came_out_is_counted_by_tuple(tmp_path: Path) -> None:
    (tmp_path / "received-0").write_text("1\n2\n2\n")
    (tmp_path / "received-1").write_text("2\n30\n4")
    assert received(tmp_path) == {1: 1, 2: 3, 30: 1, 4: 1}


def test_latency_between_two_readings() -> None:
    before, after = Acked(100, 100 * 4.0), Acked(300, 300 * 6.0)
    between = after.since(before)
    assert between.spent / between.tuples == 7.0


def test_without_root_the_bench_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("sys.argv", ["bench", "--folder", str(tmp_path / "none")])
    assert storm_bench.main() == 0
    assert capsys.readouterr().out.startswith("lab-storm-bench: skipped: it takes root")
    assert not (tmp_path / "none").exists()
