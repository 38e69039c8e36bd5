"""Claimed against certified bounds: what was measured is kept, and not measured again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from experiments.studies.bench import certified
from experiments.studies.bench.certified import Asked, Row, measured
from optim import Instance


def test_what_was_measured_is_kept_when_a_run_is_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    hand = Instance.load(repository / "examples" / "hand-8-tasks.json")
    seen: list[str] = []

    def row_of(asked: Asked) -> Row:
        if asked.case == "c" and len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(asked.case)
        return Row(asked.case, 1.5, 1.5, 1.5, 0.0, "dual", 0.25, 0.5, 0.125, 99)

    def cases() -> Iterator[Asked]:
        yield from (Asked(name, hand, None, {}) for name in "abc")

    monkeypatch.setattr(certified, "row_of", row_of)
    kept = tmp_path / "new" / "rows.jsonl"
    with pytest.raises(KeyboardInterrupt):
        list(measured("demo", cases(), kept, ""))
    assert seen == ["a", "b"]
    assert [row.case for row in measured("demo", cases(), kept, "b")] == ["b"]
    assert seen == ["a", "b"]
    seen.append("at last")
    rows = list(measured("demo", cases(), kept, ""))
    assert [row.case for row in rows] == ["a", "b", "c"]
    assert seen == ["a", "b", "at last", "c"]
    assert all(row.closed for row in rows)
    list(measured("rate", cases(), kept, "a"))  # another set has rows of its own
    assert seen[-1] == "a"


@pytest.mark.parametrize(
    ("objective", "value", "bound", "told", "shown"),
    [
        ("load_distance", 4.0, 3.0, 0.01, 0.25),  # a point of the mean load, a quarter of the value
        ("load_distance", 0.0, 0.0, 0.0, 0.0),
        ("load_distance", 4.0, None, None, None),
        ("imc_gain", 4.0, 5.0, 0.2, 0.2),  # a part of the larger of the two, as it is told
    ],
)
def test_a_gap_is_of_the_value(
    objective: str, value: float, bound: float | None, told: float | None, shown: float | None
) -> None:
    result = Mock(certified_bound=bound)
    result.objective.configure_mock(name=objective, value=value)
    assert certified._per_value(result, told) == shown
    assert certified._per_value(Mock(objective=None), told) == told
