"""The result folder: whole batches or none, one writer, one row a key, whatever was killed when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.sweep import store
from experiments.sweep.store import (
    ResultFolder,
    list_parts,
    read_columns,
    read_rows_pandas,
    write_part,
)
from optim.errors import InvalidInput
from tests.experiments.sweep.rows import make_row


@pytest.fixture
def folder(tmp_path: Path) -> ResultFolder:
    made = ResultFolder(tmp_path / "out")
    with made.writing("t"):
        made.write_marker({"name": "t", "runs": []})
    return made


def rows_in(folder: ResultFolder) -> list[dict[str, Any]]:
    return read_columns(folder.files(), ("run_key", "objective", "outcome"))


def test_a_part_s_name_tells_its_rows_and_failures(folder: ResultFolder) -> None:
    write_part(folder.parts, [make_row("a"), make_row("b", outcome="crash")])
    (part,) = list_parts(folder.parts)
    assert (part.rows, part.failed) == (2, 1)
    assert pq.read_table(part.path).num_rows == 2


def test_a_failed_write_leaves_nothing(
    folder: ResultFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OSError, match="no space"):
        write_part(folder.parts, [make_row()])
    assert not list(folder.parts.iterdir())


def test_torn_files_are_passed_over_and_removed(folder: ResultFolder) -> None:
    write_part(folder.parts, [make_row()])
    torn = folder.parts / ".part.x0123.unfinished"
    torn.write_bytes(b"PAR1 half")
    (folder.parts / ".stop-0123").touch()
    (folder.path / ".sweep.json.x45.unfinished").write_bytes(b"")
    (folder.parts / "stranger.parquet").write_bytes(b"not ours")
    assert len(rows_in(folder)) == 1
    with folder.writing("t"):
        assert not list(folder.parts.glob(".*"))
        assert not (folder.path / ".sweep.json.x45.unfinished").exists()
    assert (folder.parts / "stranger.parquet").exists()


def test_the_latest_row_of_a_key_counts(folder: ResultFolder) -> None:
    write_part(folder.parts, [make_row("a", 5, objective=2), make_row("b", 1, objective=7)])
    write_part(folder.parts, [make_row("a", 1, objective=1)])
    write_part(folder.parts, [make_row("a", 3, objective=3), make_row("c", 0)])
    expected = {"a": 2.0, "b": 7.0, "c": None}
    assert {row["run_key"]: row["objective"] for row in rows_in(folder)} == expected
    assert len(rows_in(folder)) == 3
    frame = read_rows_pandas(folder.path)
    assert frame["run_key"].tolist() == ["a", "b", "c"]
    assert frame["factors"][0] == {"method": "m"}


def test_compaction_keeps_what_counts_in_one_file(folder: ResultFolder) -> None:
    write_part(folder.parts, [make_row("a", 1, objective=1, trace=[(0, 1, 2)])])
    write_part(folder.parts, [make_row("a", 2, objective=2, trace=[(0, 1, 3)])])
    folder.compact()
    write_part(folder.parts, [make_row("b", 2, objective=9)])
    before = read_rows_pandas(folder.path)
    folder.compact()
    assert folder.files() == [folder.rows]
    assert list_parts(folder.parts) == []
    after = read_rows_pandas(folder.path)
    assert after.to_json() == before.to_json()
    stamp = folder.rows.stat().st_mtime_ns
    folder.compact()
    assert folder.rows.stat().st_mtime_ns == stamp


def test_a_stop_between_rename_and_removal_loses_and_doubles_nothing(
    folder: ResultFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_part(folder.parts, [make_row("a"), make_row("b")])

    def killed(self: Path, missing_ok: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            folder.compact()
    assert len(folder.files()) == 2
    assert sorted(row["run_key"] for row in rows_in(folder)) == ["a", "b"]
    folder.compact()
    assert folder.files() == [folder.rows]
    assert len(rows_in(folder)) == 2


@pytest.mark.parametrize("name", ["a b ü%20#&+'[1]{x,y}*?", "x[a-c]", "new\nline", "./c/../d"])
def test_a_folder_of_any_name_keeps_its_rows(tmp_path: Path, name: str) -> None:
    (tmp_path / "c").mkdir()
    folder = ResultFolder(tmp_path / name)
    folder.parts.mkdir(parents=True)
    for start in range(2):
        write_part(folder.parts, [make_row(f"k{start}"), make_row("again", start, objective=start)])
    folder.compact()
    found = {row["run_key"]: row["objective"] for row in rows_in(folder)}
    assert found == {"k0": None, "k1": None, "again": 1.0}
    assert folder.files() == [folder.rows]


@settings(max_examples=25)
@given(st.lists(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 9)), min_size=1)))
def test_reading_agrees_with_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[tuple[str, int]]]
) -> None:
    folder = ResultFolder(tmp_path_factory.mktemp("d"))
    folder.parts.mkdir()
    newest: dict[str, int] = {}
    for part in parts:
        write_part(folder.parts, [make_row(key, start, objective=start) for key, start in part])
        for key, start in part:
            newest[key] = max(start, newest.get(key, -1))
    assert {row["run_key"]: row["objective"] for row in rows_in(folder)} == newest
    folder.compact()
    assert {row["run_key"]: row["objective"] for row in rows_in(folder)} == newest
    assert sum(pq.read_metadata(file).num_rows for file in folder.files()) == len(newest)


def test_large_rows_are_compacted_in_several_groups(
    folder: ResultFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_GROUP_BYTES", 4000)
    for i in range(6):
        write_part(folder.parts, [make_row(f"k{i}", result="r" * 3000)])
    folder.compact()
    assert pq.ParquetFile(folder.rows).num_row_groups > 1
    assert len(rows_in(folder)) == 6


def test_only_one_sweep_writes(folder: ResultFolder) -> None:
    with (
        folder.writing("t"),
        pytest.raises(InvalidInput, match="is being written by another sweep"),
        ResultFolder(folder.path).writing("t"),
    ):
        pass
    with folder.writing("t"):
        pass


def test_folders_that_are_something_else(tmp_path: Path) -> None:
    def refuse(path: Path, text: str) -> None:
        with pytest.raises(InvalidInput, match=text), ResultFolder(path).writing("t"):
            pass

    (tmp_path / "file").write_text("x")
    refuse(tmp_path / "file", "is a file")
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("dear")
    refuse(home, "holds no sweep.json")
    assert [p.name for p in home.iterdir()] == ["letter.txt"]
    for content in ("{", "[]", '{"format": "other/1", "name": "t"}', '{"name": "t"}'):
        (home / "sweep.json").write_text(content)
        refuse(home, "is no result folder of a sweep")
    (home / "sweep.json").write_text(json.dumps({"format": store.FORMAT, "name": "u"}))
    refuse(home, """holds another sweep: name is "u", not "t\"""")


def test_reading_what_is_no_result_folder(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(InvalidInput, match="is no result folder"):
            read_rows_pandas(path)


def test_a_folder_left_before_its_marker_is_taken(tmp_path: Path) -> None:
    with ResultFolder(tmp_path / "out").writing("t"):
        pass
    with ResultFolder(tmp_path / "out").writing("t") as again:
        again.write_marker({"name": "t"})
    assert again.marker()["name"] == "t"


def test_an_empty_result_reads_as_no_rows(folder: ResultFolder) -> None:
    frame = read_rows_pandas(folder.path)
    assert len(frame) == 0
    assert "run_key" in frame.columns


def test_rows_from_before_a_figure_was_declared_are_read(folder: ResultFolder) -> None:
    write_part(folder.parts, [make_row("old", objective=2)])
    (path,) = folder.files()
    table = pq.read_table(path).drop_columns(["mean_load", "drained", "slots"])
    pq.write_table(table, path)
    write_part(folder.parts, [{**make_row("new"), "mean_load": 5.0, "drained": False}])
    rows = read_rows_pandas(folder.path).set_index("run_key")
    assert rows.loc["new", "mean_load"] == 5.0
    assert rows["mean_load"].isna().to_dict() == {"new": False, "old": True}
    assert rows.loc["old", "objective"] == 2.0


def test_damaged_files_are_set_aside_and_told(
    folder: ResultFolder, caplog: pytest.LogCaptureFixture
) -> None:
    write_part(folder.parts, [make_row("a")])
    folder.compact()
    write_part(folder.parts, [make_row("b")])
    write_part(folder.parts, [make_row("c")])
    folder.rows.write_bytes(folder.rows.read_bytes()[:-20])
    torn = list_parts(folder.parts)[0].path
    torn.write_bytes(torn.read_bytes()[:300])
    with folder.writing("t"):
        assert len(rows_in(folder)) == 1
    assert len(list((folder.path / store.DAMAGED).iterdir())) == 2
    assert caplog.text.count("is damaged") == 2


def test_a_first_word_that_was_cut_off_is_none(tmp_path: Path) -> None:
    made = ResultFolder(tmp_path)
    (tmp_path / ".sweep.json.x1.unfinished").write_text("{")
    with made.writing("t"):
        assert not list(tmp_path.glob(".sweep.json*"))
