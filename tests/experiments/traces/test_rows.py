"""Lines of CSV: whole ones count, torn ones are refused, whatever columns are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.traces.files import spark_trouble
from experiments.traces.folder import TraceFolder
from experiments.traces.job import Files, Job
from experiments.traces.trace import run_trace
from optim.errors import InvalidInput
from tests.experiments.traces.cases import EVENTS, by_operator, job, rows, write_jsonl
from tests.slowly import slowly

pytestmark = pytest.mark.usefixtures("spark")

HEADER = "at,user,page,size,remark"
"""One column more than the job uses."""
LINE = "2024-01-01T00:10:00Z,ann,a,1,"


def told(folder: Path, *lines: str, header: str = HEADER, **changes: Any) -> TraceFolder:
    """Trace lines of CSV."""
    (folder / "events.csv").write_text("\n".join((header, *lines)) + "\n")
    return run_trace(Job.from_dict(job(**changes), folder), folder / "out")


@pytest.mark.parametrize(
    "line",
    ["2024-01-01T00:00:00Z", LINE + "x,y", *slowly("2024-01-01T00:0", LINE + ",,", LINE[:-1])],
)
def test_lines_of_another_length_are_refused_though_a_column_is_unused(
    line: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=r"events.clicks.path.*cannot be read.*MALFORMED"):
        told(tmp_path, LINE, line)


def test_lines_of_a_joined_table_are_as_long_as_its_header(tmp_path: Path) -> None:
    (tmp_path / "pages.csv").write_text("page,weight,remark\na,3,x\nb,5\n")
    join = {"info": {"path": "pages.csv", "columns": {"weight": "number"}, "on": ["page"]}}
    with pytest.raises(InvalidInput, match=r"cannot be read.*MALFORMED"):
        told(tmp_path, LINE, events__clicks__join=join, operator__1__cost="info.weight")


@pytest.mark.parametrize("remark", ['"two\nlines, with, many,,commas"', *slowly('"two\nlines"')])
def test_quoted_line_breaks_make_no_events(remark: str, tmp_path: Path) -> None:
    lines = (LINE + remark, LINE + '"says ""so"""', LINE + '"""so"" says"')
    with pytest.raises(InvalidInput, match=r"events\.clicks\.path"):
        told(tmp_path, *lines)
    found = told(tmp_path, *lines, events__clicks__multiline=True)
    assert found.manifest.recordings["clicks"]["events"] == 3
    assert by_operator(found)[(0, "page")] == (3, 3.0)


def test_a_quote_left_open_is_told(tmp_path: Path) -> None:
    # the second half has as many commas as a whole line
    with pytest.raises(InvalidInput, match=r"quote that it does not close.*multiline = true"):
        told(tmp_path, LINE + '"two\nlines, with, many,,commas"')


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ((LINE, LINE + '"two', LINE, LINE + "x"), 3),
        *slowly(
            ((LINE, LINE + '"two', LINE + '"three"', LINE + '"four"'), 3),
            ((LINE + '"a\nb"', LINE + '"x""', LINE), 4),
            ((LINE + '"a\nb"', LINE, LINE + '"'), 5),
            ((LINE, LINE + '"two', LINE + "\ufffd"), 3),
            ((LINE, '2024-01-01T00:10:00Z,ann,a,"1,', LINE), 3),
            ((LINE, '"2024-01-01T00:10:00Z,ann,a,1,', LINE), 3),
        ),
    ],
)
def test_a_quote_that_nothing_closes_does_not_take_the_rest(
    lines: tuple[str, ...], line: int, tmp_path: Path
) -> None:
    closed = rf"events.csv, line {line}\) \(close it, or name other signs: read.options.quote"
    with pytest.raises(InvalidInput, match=rf"quote that nothing closes \(.*{closed}"):
        told(tmp_path, *lines, events__clicks__multiline=True)


@pytest.mark.slow
@pytest.mark.parametrize("read", [{"encoding": "utf-16"}, {"sep": ";;", "comment": "#"}])
def test_a_quote_that_nothing_closes_whatever_the_options(
    read: dict[str, str], tmp_path: Path
) -> None:
    """Comments with quotes and closed values of several lines are no fault."""
    sep = read.get("sep", ",")
    rows_ = [HEADER, LINE + '"two\n""lines"""', LINE + '"""a\nb"', LINE + '"x', LINE]
    lines = [row.replace(",", sep) for row in rows_]
    if "comment" in read:
        lines.insert(2, '# no;;"record')
    path = tmp_path / "events.csv"
    changes = {"events__clicks__multiline": True, "events__clicks__read": {"options": read}}
    description = Job.from_dict(job(**changes), tmp_path)
    for closed in (True, False):
        text = "\n".join(lines[:-2] if closed else lines) + "\n"
        path.write_bytes(text.encode(read.get("encoding", "utf-8")))
        if closed:
            assert (
                run_trace(description, tmp_path / "out").manifest.recordings["clicks"]["events"]
                == 2
            )
        else:
            with pytest.raises(InvalidInput, match=r"quote that nothing closes \(.*line \d"):
                run_trace(description, tmp_path / "out")


@pytest.mark.slow
def test_quotes_that_are_closed_or_open_nothing(tmp_path: Path) -> None:
    remarks = ('"a,"""', '5" pipe', '"two" x', '"""so"" he, ""said"""', '"a, b"', '""')
    lines = [LINE + remark for remark in remarks]
    assert told(tmp_path, *lines).manifest.recordings["clicks"]["events"] == 6


def test_lines_are_whole_where_a_value_holds_line_breaks(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot be read.*MALFORMED"):
        told(tmp_path, LINE, "2024-01-01T00:0", events__clicks__multiline=True)


@pytest.mark.parametrize("header", ["at,k,page,size,k", "at,k,page,size,K"])
@pytest.mark.parametrize("key", ["k", "page"])
def test_a_name_that_stands_twice_is_told(header: str, key: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"path: 'k' stands more than once in the header"):
        told(tmp_path, LINE, header=header, operator__0__key=key)


@pytest.mark.slow
def test_names_may_end_with_their_position(tmp_path: Path) -> None:
    header = "at,k1,page,size,k4"
    with pytest.raises(InvalidInput, match=r"there is no column 'k'"):
        told(tmp_path, LINE, header=header, operator__0__key="k")
    assert by_operator(told(tmp_path, LINE, header=header, operator__0__key="k1"))


def test_a_zone_that_java_does_not_know_is_told() -> None:
    from pyspark.errors import PySparkException

    text = "[INVALID_TIMEZONE] The timezone: Mars/Olympus is invalid. The timezone must be either …"
    message = str(
        spark_trouble(PySparkException(text), Files(where="events.e", path="e.csv", format="csv"))
    )
    assert message.startswith("timezone: 'Mars/Olympus' is not known to this Java")


@pytest.mark.slow
def test_another_recording_may_be_of_another_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # such paths are relative to the working folder
    write_jsonl(tmp_path / "other.jsonl", EVENTS)
    description = Job.from_dict(job(), tmp_path)
    found = run_trace(description, tmp_path / "out", paths={"clicks": "other.jsonl"})
    assert by_operator(found)[(0, "user")] == (3, 7.5)
    (tmp_path / "torn.csv").write_text(f"{HEADER}\n2024\n")
    with pytest.raises(InvalidInput, match=r"torn\.csv' cannot be read"):
        run_trace(description, tmp_path / "out", paths={"clicks": "torn.csv"})


@pytest.mark.slow
def test_moments_outside_the_years_that_calendars_have_are_none(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        "1,ann,a,1,",
        "-9223372036854,ann,a,1,",
        "9e18,ann,a,1,",
        events__clicks__time="epoch(number(at))",
    )
    recording = found.manifest.recordings["clicks"]
    assert (recording["counted"], recording["no_time"]) == (1, 2)


@pytest.mark.slow
def test_parquet_with_moments_that_no_calendar_has(tmp_path: Path, spark: Any) -> None:
    for kind in ("timestamp", "date"):
        made = {
            "timestamp": "timestamp_micros(if(id = 0, 0L, -9223372036854000000L))",
            "date": "date_from_unix_date(if(id = 0, 0, 2147483647))",
        }[kind]
        frame = spark.range(2).selectExpr(f"{made} at", "'a' user", "'b' page", "1.5D size")
        frame.write.parquet((tmp_path / f"{kind}.parquet").as_uri())
        document = job(events__clicks__path=f"{kind}.parquet", period__timezone="Europe/Paris")
        found = run_trace(Job.from_dict(document, tmp_path), tmp_path / f"out-{kind}")
        assert found.manifest.recordings["clicks"]["no_time"] == 1
        assert len(rows(found, "loads")) == 2


@pytest.mark.slow
def test_encodings(tmp_path: Path) -> None:
    """Bytes that are no text are an error: as U+FFFD all such keys would be one."""
    text = "at,user,page,size\n" + "".join(f"2024-01-01T00:00:00Z,{u},a,1\n" for u in "üöä")
    (tmp_path / "l.csv").write_bytes(text.encode("latin-1"))

    def traced(**changes: Any) -> TraceFolder:
        changes = {"events__clicks__path": "l.csv", **changes}
        return run_trace(Job.from_dict(job(**changes), tmp_path), tmp_path / "out")

    with pytest.raises(InvalidInput, match=r"clicks\.path: .*no utf-8 \(/.*l\.csv\) \(name"):
        traced()
    found = traced(events__clicks__encoding="latin-1")
    assert {row["key"] for row in rows(found, "keys")} == set("üöä")
    (tmp_path / "l.csv").write_bytes(text.encode("latin-1").replace(b"\xfc", b"\x81"))
    with pytest.raises(InvalidInput, match="holds bytes that are no cp1252"):
        traced(events__clicks__encoding="cp1252")
    with pytest.raises(InvalidInput, match=r"clicks\.encoding: 'klingon' is no encoding"):
        traced(events__clicks__encoding="klingon")
