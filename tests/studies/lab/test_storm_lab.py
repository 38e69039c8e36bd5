"""The Storm laboratory's parts that need no cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.studies.lab import storm
from experiments.studies.lab.plans import Tally, carried_out, random_places
from experiments.studies.lab.storm_bench import Acked
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


def test_a_spout_that_waits_for_lost_tuples_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two sends 8 tuples/s until those that were lost time out."""
    looks = [(10, 1200, 500), (10, 1200, 500), (15, 1800, 540), (2, 200, 620), (7, 800, 1220)]
    seen = []

    def counts(url: str, name: str) -> dict[str, tuple[float, float]]:
        seen.append(url)
        age, first, second = looks[min(len(seen), len(looks)) - 1]
        return {"9-9": (age, first), "10-10": (age, second)}

    monkeypatch.setattr(storm, "spouts", counts)
    monkeypatch.setattr(storm, "_LOOK", 0.0)
    storm.wait_until_steady("nimbus://h", "words", 120)
    assert len(seen) == len(looks)


class Trial:
    """Carries out all plans but the fourth; what is killed comes back the first time."""

    kill_every = 2

    def carry_out(self, number: int) -> bool:
        return number != 3

    def kill(self, number: int) -> bool:
        return number == 1

    def end(self, number: int) -> str:
        return f"key {number}"


def test_plans_and_kills_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    tally = carried_out(Trial(), 5)
    assert tally == Tally(plans=5, held=4, kills=2, held_again=1)
    *_, last = capsys.readouterr().out.splitlines()
    assert last == f"plan 5, 0 s (key 4): {tally}"
    assert str(tally) == "4 of 5 plans as counted, after kill -9 1 of 2"
