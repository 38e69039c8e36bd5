"""A trace that grows is the trace of everything; nothing is read twice, nothing lost."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.traces.folder import TraceFolder
from experiments.traces.job import Job
from experiments.traces.trace import run_trace
from optim.errors import InvalidInput
from streamplace.cli.main import main
from tests.experiments.traces.cases import job, rows, write_csv

pytestmark = pytest.mark.usefixtures("spark")

TABLES = ("loads", "rates", "states", "keys")


def random_events(seed: int, count: int, days: float) -> list[Any]:
    """Return events of three days with awkward amounts, some without user or time."""
    random = np.random.default_rng(seed)
    found: list[Any] = []
    for _ in range(count):
        moment = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=days * random.random())
        user = None if random.random() < 0.1 else f"u{random.integers(12)}"
        at = "never" if random.random() < 0.05 else moment.isoformat()
        found.append((at, user, f"p{random.integers(5)}", str(random.integers(1, 10**12) / 1e3)))
    return found


def described(folder: Path, path: str, **changes: Any) -> Job:
    changes = {"operator__0__state": "size", "period__length": "6 h", **changes}
    changes = {"events__clicks__format": "csv", **changes}
    return Job.from_dict(job(events__clicks__path=path, **changes), folder)


def equal(one: TraceFolder, other: TraceFolder) -> None:
    assert one.manifest.periods == other.manifest.periods
    assert one.manifest.recordings == other.manifest.recordings
    assert one.manifest.files == other.manifest.files
    for name in TABLES:
        mine, theirs = (sorted(map(repr, rows(trace, name))) for trace in (one, other))
        assert mine == theirs, name


def test_a_trace_that_grows_is_the_trace_of_everything(tmp_path: Path) -> None:
    """The second file brings earlier periods too, so that all are numbered anew."""
    days = tmp_path / "days"
    days.mkdir()
    write_csv(days / "a.csv", [(at, *rest) for at, *rest in random_events(1, 80, 2)])
    grown = run_trace(described(tmp_path, "days"), tmp_path / "grown", append=True)
    first = grown.manifest.recordings["clicks"]["events"]
    early = [("2023-12-30T01:00:00Z", "u1", "p1", "0.1"), *random_events(2, 60, 3)]
    write_csv(days / "b.csv", early)
    grown = run_trace(described(tmp_path, "days"), tmp_path / "grown", append=True)
    assert (first, grown.manifest.recordings["clicks"]["events"]) == (80, 141)
    whole = run_trace(described(tmp_path, "days"), tmp_path / "whole")
    equal(grown, whole)
    before = (tmp_path / "grown" / "trace.json").stat().st_mtime_ns
    again = run_trace(described(tmp_path, "days"), tmp_path / "grown", append=True)
    equal(again, whole)
    assert (tmp_path / "grown" / "trace.json").stat().st_mtime_ns == before, "nothing was new"


@pytest.mark.slow
def test_a_new_day_beside_old_ones(tmp_path: Path) -> None:
    """Folders such as day=1 stay columns."""
    for day in (1, 2):
        (tmp_path / f"days/day={day}").mkdir(parents=True)
        write_csv(tmp_path / f"days/day={day}/a.csv", random_events(day, 30, 1))
    description = described(tmp_path, "days", operator__1__key="text(day)")
    whole = run_trace(description, tmp_path / "whole")
    second = tmp_path / "days/day=2"
    second.rename(tmp_path / "later")
    run_trace(description, tmp_path / "grown")
    (tmp_path / "later").rename(second)
    equal(run_trace(description, tmp_path / "grown", append=True), whole)


@pytest.mark.slow
def test_what_was_read_must_be_as_it_was(tmp_path: Path, capsys: Any) -> None:
    write_csv(tmp_path / "a.csv", random_events(1, 10, 1))
    write_csv(tmp_path / "users.csv", [("u1", "x")], ("user", "kind"))
    changes: dict[str, Any] = {
        "events__clicks__join": {"users": {"path": "users.csv", "on": ["user"]}}
    }
    run_trace(described(tmp_path, "a.csv", **changes), tmp_path / "out")
    told = (tmp_path / "out" / "trace.json").read_text()

    def refused(message: str, **more: Any) -> None:
        with pytest.raises(InvalidInput, match=message):
            described_now = described(tmp_path, "*.csv", **{**changes, **more})
            run_trace(described_now, tmp_path / "out", append=True)
        assert (tmp_path / "out" / "trace.json").read_text() == told

    refused("period is not as it was for the trace in", period__length="1 day")
    stamp = (tmp_path / "a.csv").stat().st_mtime_ns
    write_csv(tmp_path / "a.csv", random_events(1, 11, 1))
    refused(r"/a\.csv is not as it was when it was read \(trace everything again")
    write_csv(tmp_path / "a.csv", random_events(1, 10, 1))
    os.utime(tmp_path / "a.csv", ns=(stamp, stamp))
    write_csv(tmp_path / "users.csv", [("u1", "y"), ("u2", "x")], ("user", "kind"))
    refused(r"/users\.csv is not as it was")
    assert main(["trace", str(tmp_path / "out"), "--append"]) == 2
    assert "--append is of no use with a finished trace" in capsys.readouterr().err
