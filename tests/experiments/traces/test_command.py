"""Where a trace unpacks, what it leaves behind, and what it says when Spark gives up."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.traces import sums as gathering
from experiments.traces.folder import TablesLost, TraceFolder
from experiments.traces.job import Job
from experiments.traces.sums import Tables
from experiments.traces.trace import run_trace
from optim.errors import InvalidInput
from tests.experiments.traces.cases import EVENTS, job, trace, write_csv


def zipped(folder: Path) -> Job:
    write_csv(folder / "events.csv", EVENTS)
    with zipfile.ZipFile(folder / "events.csv.zip", "w") as archive:
        archive.write(folder / "events.csv", "events.csv")
    return Job.from_dict(job(events__clicks__path="events.csv.zip"), folder)


def parts(folder: Path) -> list[Path]:
    return [path.relative_to(folder) for path in folder.rglob("part-*.csv")]


@pytest.fixture
def interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Interrupt where Spark would start; what is unpacked then is noted."""
    seen: list[Path] = []

    @contextlib.contextmanager
    def start(*_: Any, **__: Any) -> Iterator[None]:
        seen.extend(parts(tmp_path))
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("experiments.traces.trace.spark_session", start)
    return seen


def test_zips_are_unpacked_in_the_folder_of_the_trace(
    tmp_path: Path, interrupted: list[Path]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_trace(zipped(tmp_path), tmp_path / "out")
    assert [path.parts[:2] for path in interrupted] == [("out", ".new")]
    assert list((tmp_path / "out").iterdir()) == []


def test_zips_are_unpacked_where_one_says(tmp_path: Path, interrupted: list[Path]) -> None:
    (tmp_path / "scratch").mkdir()
    with pytest.raises(KeyboardInterrupt):
        run_trace(zipped(tmp_path), tmp_path / "out", scratch=tmp_path / "scratch")
    assert [path.parts[0] for path in interrupted] == ["scratch"]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_what_a_killed_trace_left_goes_with_the_next(tmp_path: Path) -> None:
    left = tmp_path / "out" / ".new" / "unpacked-x"
    left.mkdir(parents=True)
    (left / "part-00000.csv").write_text("at\n")
    TraceFolder.create(tmp_path / "out").clean()
    assert list((tmp_path / "out").iterdir()) == []


def test_a_scratch_folder_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="--scratch: 'nowhere' cannot be written: No such"):
        run_trace(zipped(tmp_path), tmp_path / "out", scratch="nowhere")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_master_is_looked_at_first(tmp_path: Path, interrupted: list[Path]) -> None:
    with pytest.raises(InvalidInput, match="'nonsense' is no Spark master"):
        run_trace(zipped(tmp_path), tmp_path / "out", "nonsense")
    with pytest.raises(InvalidInput, match="'klicks' is no recording"):
        run_trace(zipped(tmp_path), tmp_path / "out", paths={"klicks": "x"})
    assert not (tmp_path / "out").exists()
    assert interrupted == []


@pytest.mark.slow
def test_a_zip_is_traced_from_there(tmp_path: Path, spark: Any) -> None:
    found = run_trace(zipped(tmp_path), tmp_path / "out")
    assert found.table("loads").equals(trace(tmp_path, output="plain").table("loads"))
    assert parts(tmp_path / "out") == []


def test_sums_that_cannot_be_made_are_not_blamed_on_the_file(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tables, "_states", lambda _: "SELECT error('disk full')")
    with pytest.raises(TablesLost, match=r"clicks: states cannot be summed up: .*disk full"):
        trace(tmp_path)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_python_worker_that_gives_up_is_named(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "_query", lambda *_: "SELECT error('no module of this name')")
    with pytest.raises(TablesLost, match=r"clicks cannot be summed up: .*no module of this name"):
        trace(tmp_path)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.slow
def test_folders_of_any_name(tmp_path: Path, spark: Any) -> None:
    found = {}
    for name in ("plain", "ü #%20+?&b", "-a*[1]{b,c}'\"\\", "x" * 200):
        base = tmp_path / name
        base.mkdir()
        write_csv(base / "events.csv", EVENTS)
        run_trace(Job.from_dict(job(), base), base / "out")
        trace = TraceFolder.open(base / "out")
        found[name] = [trace.table(table).to_pylist() for table in ("loads", "rates")]
        assert not (base / "out" / ".new").exists()
    assert all(rows == found["plain"] and all(rows) for rows in found.values())
