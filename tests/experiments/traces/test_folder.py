"""The folder of a trace: what is missing or damaged is told, and what is old goes."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.traces.folder import Manifest, TablesLost, TraceFolder
from optim.errors import InvalidInput
from streamplace.cli.main import main
from tests.experiments.traces.made import TABLES, load, made


def test_the_manifest_tells_the_rows(tmp_path: Path) -> None:
    trace = made(tmp_path, TABLES)
    assert trace.manifest.rows == {"loads": 3, "rates": 3, "states": 3}
    without = made(tmp_path / "b", {"loads": TABLES["loads"]})
    assert without.manifest.rows == {"loads": 3}
    assert without.count("rates") == len(without.table("rates")) == 0


def lose(folder: Path) -> None:
    shutil.rmtree(folder / "loads.parquet")


def shorten(folder: Path) -> None:
    rows = pa.Table.from_pylist(TABLES["rates"][:2])
    pq.write_table(rows, folder / "rates.parquet" / "part-0.parquet")


def lose_part(folder: Path) -> None:
    (folder / "states.parquet" / "part-0.parquet").unlink()


def foreign(folder: Path) -> None:
    rows = pa.table({"a": [1, 2, 3]})
    pq.write_table(rows, folder / "loads.parquet" / "part-0.parquet")


def other_type(folder: Path) -> None:
    rows = [{**row, "cost": "much"} for row in TABLES["loads"]]
    pq.write_table(pa.Table.from_pylist(rows), folder / "loads.parquet" / "part-0.parquet")


def damage(folder: Path) -> None:
    (folder / "loads.parquet" / "part-0.parquet").write_bytes(b"PAR1 no more")


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lose, r"loads\.parquet is missing \(trace again\)"),
        (shorten, r"rates\.parquet has 2 rows, and 3 were written \(trace again\)"),
        (lose_part, r"states\.parquet has 0 rows, and 3 were written"),
        (foreign, r"loads\.parquet has no column period of whole numbers \(trace again\)"),
        (other_type, r"loads\.parquet has no column cost of numbers"),
        (damage, r"loads\.parquet cannot be read: .* \(trace again\)"),
    ],
)
def test_tables_are_as_they_were_written(
    harm: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    path = made(tmp_path, TABLES).path
    harm(path)
    with pytest.raises(InvalidInput, match=message):
        TraceFolder.open(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"periods": []}, r"periods: \[\] is empty"),
        ({"periods": [5]}, r"periods\[0\]: 5 must be an object"),
        (
            {"periods": [{"number": 1, "start": "a", "end": "b", "seconds": 1}]},
            r"s\[0\].number: 1 must",
        ),
        (
            {"periods": [{"number": 0, "start": 1, "end": "b", "seconds": 1}]},
            r"s\[0\].start: 1 must be",
        ),
        (
            {"periods": [{"number": 0, "start": "a", "end": "b", "seconds": 0}]},
            "s: 0 must be above",
        ),
        ({"recordings": {"clicks": 5}}, r"recordings\.clicks: 5 must be an object"),
        ({"recordings": {"clicks": {"events": 5}}}, r"clicks\.no_time is missing"),
        ({"recordings": []}, r"recordings: \[\] must be an object"),
        ({"seconds": float("nan")}, "seconds: nan must be a finite number"),
        ({"seconds": 10**400}, "seconds: .* is too large a number"),
        ({"job": 5}, "job: 5 must be an object"),
        ({"rows": {"loads": -1}}, r"rows\.loads: -1 must be at least 0"),
        ({"rows": {"others": 1}}, r"rows\.others: 'others' must be 'loads', 'rates', 'k"),
        ({"rows": None}, "rows must be an object"),
    ],
)
def test_manifests_are_checked(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = made(tmp_path, TABLES).path / "trace.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InvalidInput, match=message) as caught:
        Manifest.read(path)
    assert "(trace again)" in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("lookups", {"info": 5}), ("lookups", 5), ("without_key", {"user": "x"}), ("outside", {})],
)
def test_counts_are_checked(name: str, value: Any, tmp_path: Path) -> None:
    path = made(tmp_path, TABLES).path / "trace.json"
    content = json.loads(path.read_text())
    content["recordings"]["clicks"][name] = value
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match=rf"recordings\.clicks\.{name}"):
        Manifest.read(path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": "other"}', "[" * 100_000])
def test_what_is_no_manifest(text: str, tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(text)
    with pytest.raises(InvalidInput, match="is no result folder of a trace"):
        TraceFolder.open(tmp_path)
    with pytest.raises(InvalidInput, match="is no result folder of a trace"):
        TraceFolder.create(tmp_path)
    assert (tmp_path / "trace.json").read_text() == text


def test_traces_of_older_versions_are_refused(tmp_path: Path) -> None:
    """They do not tell how many rows they had, and their states knew of later periods."""
    path = made(tmp_path, TABLES).path
    content = json.loads((path / "trace.json").read_text())
    del content["rows"]
    (path / "trace.json").write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match=r"an older version made the trace.*trace again"):
        TraceFolder.open(path)
    assert made(tmp_path, TABLES).manifest.rows["loads"] == 3, "traced again into the same folder"


def test_command_and_replay_refuse_a_lost_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made(tmp_path, TABLES).path
    lose(path)
    assert main(["trace", str(path)]) == 2
    assert main(["replay", str(path), "-o", str(tmp_path / "out"), "--policy", "static"]) == 2
    assert capsys.readouterr().err.count("loads.parquet is missing") == 2


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_trace_removes_instances_of_the_older_one(tmp_path: Path) -> None:
    path = made(tmp_path, TABLES).path
    assert main(["trace", str(path), "--instances", "all"]) == 0
    assert len(names(path / "instances")) == 3
    made(tmp_path, {"loads": [load(0, "user", 3, 1.0)]})
    assert not (path / "instances").exists()


def test_files_of_others_beside_instances_stay(tmp_path: Path) -> None:
    path = made(tmp_path, TABLES).path
    assert main(["trace", str(path), "--instances", "0"]) == 0
    (path / "instances" / "notes.txt").write_text("mine")
    made(tmp_path, TABLES)
    assert names(path / "instances") == ["notes.txt"]


def test_instances_stay_where_none_can_be_made(tmp_path: Path) -> None:
    path = made(tmp_path, TABLES).path
    assert main(["trace", str(path), "--instances", "0"]) == 0
    assert main(["trace", str(path), "--instances", "1", "--placement", "top-down"]) == 2
    assert names(path / "instances") == ["clicks-p0.json"]


def test_instances_are_those_that_were_asked_for_last(tmp_path: Path) -> None:
    path = made(tmp_path, TABLES).path
    for asked, expected in (("all", "012"), ("1-2", "12"), ("0", "0")):
        assert main(["trace", str(path), "--instances", asked]) == 0
        assert names(path / "instances") == [f"clicks-p{number}.json" for number in expected]


def test_names_of_jobs_stay_in_the_folder(tmp_path: Path) -> None:
    path = made(tmp_path, TABLES, name="../../x").path
    assert main(["trace", str(path), "--instances", "all"]) == 0
    assert len(list((path / "instances").iterdir())) == 3
    assert {entry.name for entry in tmp_path.iterdir()} == {"trace"}


def test_a_table_that_did_not_arrive_is_an_error_and_the_older_trace_stays(tmp_path: Path) -> None:
    path = made(tmp_path, TABLES).path
    trace = TraceFolder.create(path)
    with pytest.raises(TablesLost, match="nothing was written of loads, rates"):
        trace.finish(trace.manifest, 0.0, ["loads", "rates"])
    trace.clean()
    assert len(TraceFolder.open(path).table("loads")) == 3


@pytest.mark.parametrize("at", range(5))
def test_a_change_that_was_cut_off_is_completed(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path, TABLES).path
    shutil.copytree(path, path / ".new")  # a new trace that is whole
    calls = 0
    with monkeypatch.context() as patch:
        for name in ("rename", "replace"):
            real = getattr(Path, name)

            def step(self: Path, target: Path, real: Any = real) -> Path:
                nonlocal calls
                calls += 1
                if calls > at:
                    raise KeyboardInterrupt
                return real(self, target)

            patch.setattr(Path, name, step)
        with contextlib.suppress(KeyboardInterrupt):
            TraceFolder.open(path)
    trace = TraceFolder.open(path)
    assert [len(trace.table(name)) for name in TABLES] == [3, 3, 3]


def test_one_trace_writes_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "out"
    first = TraceFolder.create(path)
    with pytest.raises(InvalidInput, match="is being written by another trace"):
        TraceFolder.create(path)
    first.clean()
    assert names(path) == []
    (path / ".trace.json.x1y2.unfinished").write_text("{")  # as a kill leaves it
    TraceFolder.create(path).clean()
    assert names(path) == []
