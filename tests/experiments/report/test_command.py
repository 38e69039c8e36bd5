"""The command: what it writes, what it prints, and what it refuses."""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from experiments.report.build import brief, check_output, print_report, tables_folder, write_report
from experiments.report.command import add_arguments, report_of, run
from experiments.report.database import check_folder, read_sweep
from experiments.report.findings import ContradictoryRuns
from experiments.report.tables import Report
from experiments.sweep.store import connect
from optim.errors import InvalidInput
from streamplace.present.table import Cell, Column, Table, row, split
from tests.experiments.report.synthetic import plan, proof, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(words)


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_report_writes_page_markdown_and_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write([proof("Q1", "exact", 50.0), plan("Q1", "greedy", 40.0)], tmp_path / "sweep")
    target = tmp_path / "out.html"
    assert run(_arguments(str(folder), "-o", str(target))) == 0
    written = _files(tmp_path) - {f"sweep/{name}" for name in _files(folder)}
    assert {"out.html", "out.md", "out-tables/collocation-by-method.csv"} <= written
    assert all(name.startswith(("out.html", "out.md", "out-tables/")) for name in written)
    printed = capsys.readouterr().out
    assert "greedy reaches 80\u00a0% of the optimum" in printed
    assert str(target) in printed
    assert "Collocation by method" in printed


@pytest.mark.slow
def test_the_default_place_does_not_disturb_the_rows(tmp_path: Path) -> None:
    folder = write([proof("Q1", "exact", 50.0), plan("Q1", "greedy", 40.0)], tmp_path / "sweep")
    target = tmp_path / "out.html"
    assert run(_arguments(str(folder))) == 0
    assert run(_arguments(str(folder), "-o", str(target))) == 0
    assert target.read_bytes() == (folder / "report.html").read_bytes()


def test_a_folder_of_any_name_is_that_folder_and_no_other(tmp_path: Path) -> None:
    rows = [proof("Q1", "exact", 50.0), plan("Q1", "greedy", 40.0)]
    odd = write(rows, tmp_path / "a b ü%20#&+'[1]{x,y}*?", parts=2)
    write([plan("Q1", "other", 10.0)], tmp_path / "a b ü%20#&+'1{x,y}zz", parts=1)
    report = report_of(odd)
    assert "2 method variants, 2 runs" in " ".join(report.summary)


def test_contradictions_write_nothing(tmp_path: Path) -> None:
    folder = write([proof("Q1", "exact", 50.0), plan("Q1", "greedy", 60.0)], tmp_path / "sweep")
    before = _files(tmp_path)
    with pytest.raises(ContradictoryRuns, match=r"greedy .*exact"):
        run(_arguments(str(folder), "-o", str(tmp_path / "out.html")))
    assert _files(tmp_path) == before


@pytest.mark.slow
def test_a_sweep_without_any_plan_still_has_a_report(tmp_path: Path) -> None:
    failed = plan("Q1", "broken", 1.0, outcome="crash", error="boom")
    failed |= dict.fromkeys(("termination", "feasible", "objective", "imc_gain", "total_traffic"))
    report = report_of(write([failed], tmp_path / "sweep"))
    assert [section.key for section in report.sections] == ["gaps", "runs"]
    console = Console(file=io.StringIO(), width=100)
    print_report(report, console)
    assert "1 run failed" in console.file.getvalue()  # type: ignore[attr-defined]


# --- what is refused -------------------------------------------------------------------------


def _no_folder(path: Path) -> None:
    """There is nothing."""


def _file(path: Path) -> None:
    path.write_text("x")


def _empty_folder(path: Path) -> None:
    path.mkdir()


def _no_rows(path: Path) -> None:
    write([], path)


def _other_marker(path: Path) -> None:
    write([plan("Q1", "m", 1.0)], path)
    (path / "sweep.json").write_text(json.dumps({"format": "other/1", "name": "x"}))


def _torn_parquet(path: Path) -> None:
    write([plan("Q1", "m", 1.0)], path, parts=1)
    (part,) = (path / "parts").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:-10])


def _other_columns(path: Path) -> None:
    write([plan("Q1", "m", 1.0)], path)
    pq.write_table(pa.table({"run_key": ["a"], "started_at": [1]}), path / "rows.parquet")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_no_folder, "does not exist"),
        (_file, "is no result folder"),
        (_empty_folder, "is no result folder"),
        (_no_rows, "holds no rows"),
        (_other_marker, "is no result folder"),
        (_torn_parquet, "cannot be read as Parquet"),
        (_other_columns, "lacks columns"),
    ],
)
def test_folders_that_are_none(tmp_path: Path, make: Callable[[Path], None], reason: str) -> None:
    folder = tmp_path / "sweep"
    make(folder)
    before = _files(tmp_path)
    with pytest.raises(InvalidInput) as caught:
        run(_arguments(str(folder)))
    (problem,) = caught.value.problems
    assert reason in problem.reason
    assert problem.remedy
    assert str(folder) in str(problem.value)
    assert _files(tmp_path) == before


def test_rows_that_are_damaged_inside_are_refused(tmp_path: Path) -> None:
    folder = write([plan("Q1", "m", 1.0, result="x" * 4000)], tmp_path / "sweep", parts=1)
    (part,) = (folder / "parts").glob("*.parquet")
    content = bytearray(part.read_bytes())
    content[4:600] = bytes(596)
    part.write_bytes(content)
    check_folder(folder)  # its footer is whole
    with pytest.raises(InvalidInput, match=r"cannot be read|has rows without"):
        read_sweep(connect(), folder)


@pytest.mark.parametrize("name", ["out.md", "out", "missing/out.html", "folder.html"])
def test_outputs_that_cannot_be(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InvalidInput, match="--output") as caught:
        check_output(tmp_path / name)
    assert caught.value.problems[0].remedy


def test_a_file_where_the_tables_go_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out-tables").write_text("mine")
    with pytest.raises(InvalidInput, match="out-tables"):
        check_output(tmp_path / "out.html")
    assert tables_folder(tmp_path / "out.html") == tmp_path / "out-tables"


@pytest.mark.slow
def test_a_report_is_not_half_written(tmp_path: Path, demo: Report) -> None:
    target = tmp_path / "out.html"
    write_report(demo, target)
    whole = target.read_text()
    assert whole.rstrip().endswith("</html>")
    assert not [path for path in _files(tmp_path) if ".tmp" in path or path.startswith(".")]


# --- the terminal ----------------------------------------------------------------------------


def _lines(report: Report, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    print_report(report, console)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_terminal_keeps_to_its_width_and_shows_every_method(demo: Report, width: int) -> None:
    lines = _lines(demo, width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for name in ("imc-exact", "imc-milp [cp-sat]", "top-down", "virtual best"):
        assert name in text
    assert "\ufffd" not in text


def test_split_keeps_every_column_once(demo: Report) -> None:
    table = brief(demo.sections[0].tables[1])
    for width in (50, 90, 400):
        parts = list(split(table, width))
        kept = [column.key for part in parts for column in part.columns[part.lead :]]
        assert kept == [column.key for column in table.columns[table.lead :]]
        assert all(part.columns[: part.lead] == table.columns[: table.lead] for part in parts)


def test_brief_marks_what_it_leaves_out() -> None:
    columns = (Column("a", "A", "name"), Column("b", "B", "share"), Column("c", "C", detail=True))
    rows = (
        row("x", Cell(0.5, "≤ 60 %"), "z"),
        row("y", Cell(None, "infeasible (by x)"), ""),
    )
    short = brief(Table("t", "T", columns, rows))
    assert [column.key for column in short.columns] == ["a", "b"]
    assert short.rows[0][1] == Cell(0.5, "*")
    assert short.rows[1][1] == Cell(None, "infeasible")
    assert short.caption.startswith("* ")


# --- anywhere --------------------------------------------------------------------------------


def test_reads_and_writes_where_fsspec_does_without_spark(tmp_path: Path) -> None:
    """In a process of its own, with a file system in memory: no pyspark, no JVM, no pandas."""
    folder = write([proof("Q1", "exact", 50.0), plan("Q1", "greedy", 40.0)], tmp_path / "sweep")
    assert run(_arguments(str(folder), "--figures", str(tmp_path / "figures"))) == 0
    program = f"""
import sys
import fsspec
from streamplace.cli.main import main
fsspec.filesystem("memory").put({str(folder)!r}, "/a b/sweep", recursive=True)
assert main(["report", "memory://a b/sweep", "--figures", "memory://drawn"]) == 0
fsspec.filesystem("memory").get("/a b/sweep", {str(tmp_path / "again")!r}, recursive=True)
fsspec.filesystem("memory").get("/drawn", {str(tmp_path / "drawn")!r}, recursive=True)
heavy = {{"pyspark", "py4j", "pandas", "pyarrow", "matplotlib.pyplot", "scipy.stats"}}
loaded = heavy & set(sys.modules)
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "memory://a b/sweep/report.html" in done.stdout
    assert _files(tmp_path / "again") == _files(folder)
    for name in ("report.html", "report-tables/collocation-by-method.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    assert _files(tmp_path / "drawn") == _files(tmp_path / "figures")


@pytest.mark.parametrize("uri", ["memory://nothing/here", "ftp://127.0.0.1:9/sweep"])
def test_a_uri_that_cannot_be_read_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        run(_arguments(uri))
    (problem,) = caught.value.problems
    assert uri in str(problem.value)
    assert problem.remedy
