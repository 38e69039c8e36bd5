"""Files that change or vanish while they are read, and kills: no part is taken for the whole."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from experiments.traces import sums as gathering
from experiments.traces import trace as tracing
from experiments.traces.folder import TraceFolder
from optim.errors import InvalidInput
from tests.experiments.traces.cases import EVENTS, rows, trace
from tests.slowly import slowly
from tests.torture import kills
from tests.torture.tally import Tally


def grow(path: Path) -> None:
    with path.open("a") as file:
        file.write("2024-01-01T02:10:00Z,dan,a,1\n")


@pytest.mark.parametrize(
    ("harm", "told"),
    [(grow, "was changed while it was read"), *slowly((Path.unlink, "went away while it was"))],
)
def test_files_that_are_not_as_they_were_at_the_end(
    harm: Any, told: str, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows(trace(tmp_path, EVENTS[:3]), "loads")
    write = tracing._write

    def late(*given: Any) -> Any:
        harm(tmp_path / "events.csv")
        return write(*given)

    monkeypatch.setattr(tracing, "_write", late)
    with pytest.raises(InvalidInput, match=rf"events\.csv {told}"):
        trace(tmp_path)
    assert rows(TraceFolder.open(tmp_path / "out"), "loads") == before
    assert not (tmp_path / "out" / ".new").exists()


@pytest.mark.slow
def test_files_that_vanish_before_they_are_read(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows(trace(tmp_path, EVENTS[:3]), "loads")
    query = gathering._query

    def late(*given: Any) -> Any:
        (tmp_path / "events.csv").unlink()
        return query(*given)

    monkeypatch.setattr(gathering, "_query", late)
    with pytest.raises(InvalidInput, match=r"clicks\.path: 'events\.csv' cannot be read"):
        trace(tmp_path)
    assert rows(TraceFolder.open(tmp_path / "out"), "loads") == before


@pytest.mark.slow
def test_a_trace_killed_in_the_midst_leaves_the_older_one(tmp_path: Path) -> None:
    tally = Tally("kills")
    kills.kill_traces(tally, tmp_path, ("summing up loads", "up states"), random.Random(0))
    assert tally.faults == []


@pytest.mark.slow
def test_a_report_killed_in_the_midst_leaves_the_older_one(tmp_path: Path) -> None:
    tally = Tally("kills")
    kills.kill_reports(tally, tmp_path, ("reading the rows", "drawing"), random.Random(0))
    assert tally.faults == []
