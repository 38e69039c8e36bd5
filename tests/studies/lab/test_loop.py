"""The laboratory of the loop, without a cluster: phases of load, and what counts as a flap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.studies.lab.loop import Phases, Seen


def applied(assignment: dict[str, str], verdict: str = "applied") -> dict[str, Any]:
    plan = {"assignment": assignment}
    return {"plan": plan, "moves": [0], "verdict": verdict, "applied": verdict == "applied"}


def test_the_load_is_high_in_the_second_third(tmp_path: Path) -> None:
    phases = Phases(tmp_path / "rate", 1.0, 9.0, 300.0)
    assert [phases.rate(s) for s in (0, 99, 101, 199, 201, 299)] == [1, 1, 9, 9, 1, 1]
    phases.set(9.0)
    assert phases.file.read_text() == "9"


def test_a_task_that_returns_is_a_flap() -> None:
    seen = Seen()
    seen.starts({"a": "n1", "b": "n1"})
    seen.add({"plan": None, "moves": [], "verdict": "stays", "applied": False})
    seen.add(applied({"a": "n2", "b": "n1"}))
    seen.add(applied({"a": "n2", "b": "n2"}, "cooling down"))
    assert (seen.looks, seen.changes, seen.flaps) == (3, 1, 0)
    seen.add(applied({"a": "n3", "b": "n2"}))
    assert seen.flaps == 0
    seen.add(applied({"a": "n1", "b": "n2"}, "not as planned: 1 of 2"))
    assert (seen.changes, seen.failed, seen.flaps) == (3, 1, 1)
