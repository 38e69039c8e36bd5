"""A trace against sums made by hand; what counts and what does not; what is refused."""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.traces.folder import TraceFolder
from experiments.traces.job import Job
from experiments.traces.trace import run_trace
from optim.errors import InvalidInput
from tests.experiments.traces.cases import (
    COLUMNS,
    EVENTS,
    by_operator,
    job,
    rows,
    trace,
    write_csv,
    write_jsonl,
)
from tests.slowly import slowly

pytestmark = pytest.mark.usefixtures("spark")


def test_sums_by_hand(tmp_path: Path) -> None:
    found = trace(tmp_path)
    assert [(p.start, p.seconds) for p in found.manifest.periods] == [
        ("2024-01-01T00:00:00Z", 3600.0),
        ("2024-01-01T01:00:00Z", 3600.0),
        ("2024-01-01T02:00:00Z", 3600.0),
    ]
    # ann 1 + 4, bob 2.5; then cat 8; the event without user costs there nothing
    assert by_operator(found) == {
        (0, "user"): (3, 7.5),
        (0, "page"): (3, 3.0),
        (2, "user"): (1, 8.0),
        (2, "page"): (2, 2.0),
    }
    loads = rows(found, "loads")
    assert all(row["load"] == pytest.approx(row["cost"] / 3600) for row in loads)
    assert sum(row["amount"] for row in rows(found, "rates")) == 8.0
    assert all(row["rate"] == row["amount"] / 3600 for row in rows(found, "rates"))
    recording = found.manifest.recordings["clicks"]
    assert recording["events"] == recording["counted"] == 5
    assert recording["without_key"] == {"user": 1, "page": 0}


def test_state_is_that_of_all_keys_so_far(tmp_path: Path) -> None:
    found = trace(tmp_path, operator__0__key_groups=1)
    states = [(r["period"], r["operator"], r["keys"], r["state"]) for r in rows(found, "states")]
    assert states == [(0, "user", 2, 20.0), (2, "user", 3, 30.0)]


def test_a_key_counts_with_its_largest_state(tmp_path: Path) -> None:
    found = trace(tmp_path, operator__0__state="size", operator__0__key_groups=1)
    assert [r["state"] for r in rows(found, "states")] == [4 + 2.5, 4 + 2.5 + 8]


@pytest.mark.slow
def test_equal_keys_fall_into_equal_groups(tmp_path: Path) -> None:
    found = trace(tmp_path, operator__1__key="user", operator__1__key_groups=4)
    assert all(r["source_group"] == r["target_group"] for r in rows(found, "rates"))


def same(one: TraceFolder, other: TraceFolder) -> bool:
    return all(rows(one, name) == rows(other, name) for name in ("loads", "rates", "states"))


@pytest.mark.slow
def test_every_format_says_the_same(tmp_path: Path, spark: Any) -> None:
    plain = trace(tmp_path)
    write_jsonl(tmp_path / "events.jsonl", EVENTS)
    halves = tmp_path / "halves"
    halves.mkdir()
    for number, part in enumerate((EVENTS[:2], EVENTS[2:])):
        write_csv(halves / f"{number}.csv", part)
    with zipfile.ZipFile(tmp_path / "events.csv.zip", "w") as archive:
        for path in sorted(halves.iterdir()):
            archive.write(path, path.name)
    typed = [(at, user, page, float(size)) for at, user, page, size in EVENTS]  # type: ignore[arg-type]
    frame = spark.createDataFrame(typed, "at string, user string, page string, size double")
    frame.write.parquet((tmp_path / "events.parquet").as_uri())
    for name in ("events.jsonl", "halves", "halves/*.csv", "events.csv.zip", "events.parquet"):
        kind = {} if "half" not in name and "halves" not in name else {"format": "csv"}
        document = job(events__clicks__path=name)
        document["events"]["clicks"].update(kind)
        found = run_trace(Job.from_dict(document, tmp_path), tmp_path / "again")
        assert same(plain, found), name


@pytest.mark.slow
def test_fields_inside_columns_have_names_of_their_own(tmp_path: Path, spark: Any) -> None:
    plain = trace(tmp_path)
    document = job(events__clicks__path="nested.jsonl", operator__0__cost="body.item.size")
    clicks = document["events"]["clicks"]
    clicks |= {"time": "time(body.at)", "columns": {"body.item.size": "number"}}
    document["operator"][0]["key"] = "body.who.user"
    document["operator"][1]["key"] = "body.item.`the page`"
    lines = [
        {
            "body": {"at": at, "who": None if user is None else {"user": user}}
            | {"item": {"the page": page, "size": size}}
        }
        for at, user, page, size in EVENTS
    ]
    (tmp_path / "nested.jsonl").write_text("\n".join(map(json.dumps, lines)))
    nested = run_trace(Job.from_dict(document, tmp_path), tmp_path / "nested")
    assert same(plain, nested)
    clicks |= {"path": "nested.parquet"}
    clicks.pop("columns")
    frame = spark.read.json(str(tmp_path / "nested.jsonl"))
    frame.write.parquet(str(tmp_path / "nested.parquet"))
    document["operator"][0]["cost"] = "number(body.item.size)"
    assert same(plain, run_trace(Job.from_dict(document, tmp_path), tmp_path / "parquet"))


def test_a_field_that_is_not_inside_is_told(tmp_path: Path) -> None:
    document = job(events__clicks__path="nested.jsonl", events__clicks__time="time(body.when)")
    (tmp_path / "nested.jsonl").write_text('{"body": {"at": "2024-01-01T00:00:00Z"}}\n')
    document["events"]["clicks"].pop("columns")
    with pytest.raises(InvalidInput, match=r"no column .body\.when.*body\.at"):
        run_trace(Job.from_dict(document, tmp_path), tmp_path / "out")


@pytest.mark.slow
def test_columns_may_have_any_name(tmp_path: Path) -> None:
    names = ("e1", "e0", "bad", "my.size")
    document = job(events__clicks__time="time(e1)", operator__0__cost="my.size")
    document["events"]["clicks"]["columns"] = {"my.size": "number"}
    document["operator"][0]["key"] = "e0"
    document["operator"][1]["key"] = "bad"
    plain = trace(tmp_path)
    write_csv(tmp_path / "events.csv", EVENTS, names)
    assert same(plain, run_trace(Job.from_dict(document, tmp_path), tmp_path / "renamed"))


@pytest.mark.slow
def test_null_keys_may_be_a_group_of_their_own(tmp_path: Path) -> None:
    found = trace(tmp_path, operator__0__null_key="group")
    assert by_operator(found)[(2, "user")] == (2, 24.0)
    assert sum(row["amount"] for row in rows(found, "rates")) == 10.0


@pytest.mark.slow
def test_what_stands_for_null(tmp_path: Path) -> None:
    write_csv(tmp_path / "events.csv", EVENTS, null="NA")
    description = Job.from_dict(job(events__clicks__null="NA"), tmp_path)
    found = run_trace(description, tmp_path / "out")
    assert found.manifest.recordings["clicks"]["without_key"]["user"] == 1


@pytest.mark.slow
def test_events_without_time_or_cost_are_told(tmp_path: Path) -> None:
    events = [*EVENTS, ("soon", "ann", "a", "1"), (None, "ann", "a", "1")]
    events.append(("2024-01-01T00:40:00Z", "ann", "a", None))
    told = trace(tmp_path, events).manifest.recordings["clicks"]
    assert (told["events"], told["no_time"], told["counted"]) == (8, 2, 6)
    assert told["without_cost"] == {"user": 1, "page": 0}


@pytest.mark.slow
def test_the_recording_has_bounds_and_keeps_empty_periods(tmp_path: Path) -> None:
    found = trace(
        tmp_path, period__start="2023-12-31T23:30:00Z", period__end="2024-01-01T02:00:00Z"
    )
    assert [p.seconds for p in found.manifest.periods] == [3600, 3600, 1800]
    assert by_operator(found) == {(0, "user"): (2, 3.5), (0, "page"): (2, 2.0)} | {
        (1, "user"): (1, 4.0),
        (1, "page"): (1, 1.0),
    }
    assert found.manifest.recordings["clicks"]["outside"] == 2
    empty = trace(
        tmp_path, output="empty", period__start="2030-01-01", period__end="2030-01-01T03:00:00"
    )
    assert len(empty.manifest.periods) == 3
    assert rows(empty, "loads") == []


@pytest.mark.parametrize(
    ("late", "counted", "expected"),
    [
        *slowly(("keep", 3, {(0, "page"): (3, 3.0)}), ("drop", 2, {(0, "page"): (2, 2.0)})),
        ("move", 3, {(0, "page"): (2, 2.0), (2, "page"): (1, 1.0)}),
    ],
)
def test_late_events(late: str, counted: int, expected: Any, tmp_path: Path) -> None:
    # the second arrives within the ten minutes allowed, the third long after its period
    arrivals = ("00:30", "01:09", "02:30")
    events = [("2024-01-01T00:10:00Z", "ann", "a", "1", f"2024-01-01T{a}:00Z") for a in arrivals]
    write_csv(tmp_path / "events.csv", events, (*COLUMNS, "arrived"))
    document = job(
        events__clicks__arrival="time(arrived)", period__late=late, period__lateness="10 min"
    )
    found = run_trace(Job.from_dict(document, tmp_path), tmp_path / "out")
    pages = {k: v for k, v in by_operator(found).items() if k[1] == "page"}
    assert pages == expected
    told = found.manifest.recordings["clicks"]
    name = {"keep": "late_kept", "drop": "late_dropped", "move": "late_moved"}[late]
    assert told[name] == 1
    assert told["counted"] + told["late_kept"] + told["late_moved"] == counted


@pytest.mark.slow
def test_days_are_those_of_the_time_zone(tmp_path: Path) -> None:
    # the night in which New York's clocks go forward; the first event is still the day before
    events = [(f"2013-03-{d}", "ann", "a", "1") for d in ("10T04:59Z", "10T05:00Z", "11T03:59Z")]
    events.append(("2013-03-11 00:00", "ann", "a", "1"))  # local: it names no offset
    found = trace(tmp_path, events, period__length="1 day", period__timezone="America/New_York")
    assert [p.seconds / 3600 for p in found.manifest.periods] == [24, 23, 24]
    counts = {period: n for (period, name), (n, _) in by_operator(found).items() if name == "page"}
    assert counts == {0: 1, 1: 2, 2: 1}


def test_a_joined_table_is_looked_up(tmp_path: Path) -> None:
    table = [("a", "3"), ("b", "5"), ("b", "4"), (None, "9"), ("z", "7")]
    write_csv(tmp_path / "pages.csv", table, ("page", "weight"))
    join = {"path": "pages.csv", "columns": {"weight": "number"}, "on": ["page"]}
    found = trace(
        tmp_path,
        [*EVENTS, ("2024-01-01T00:50:00Z", "ann", "unknown", "1")],
        events__clicks__join={"info": join},
        operator__1__cost="info.weight",
    )
    # a, a, b, and one that the table lacks; of the two rows of b the least counts
    assert by_operator(found)[(0, "page")] == (4, 10.0)
    told = found.manifest.recordings["clicks"]
    assert told["lookups"] == {"info": {"rows": 5, "doubled": 1, "unmatched": 1}}
    assert told["without_cost"]["page"] == 1


@pytest.mark.slow
def test_operators_may_take_several_recordings(tmp_path: Path) -> None:
    write_csv(tmp_path / "news.csv", [("2024-01-01T02:10:00Z", "a")] * 3, ("at", "page"))
    document = job()
    document["events"]["news"] = {"path": "news.csv", "time": "time(at)"}
    document["operator"][0]["events"] = "clicks"
    document["operator"][1] = {
        "id": "page",
        "key_groups": 3,
        "input": [
            {"events": "clicks", "key": "page"},
            {"events": "news", "key": "page", "cost": 10},
        ],
    }
    write_csv(tmp_path / "events.csv", EVENTS)
    found = run_trace(Job.from_dict(document, tmp_path), tmp_path / "out")
    assert by_operator(found)[(2, "page")] == (5, 32.0)
    assert sum(row["amount"] for row in rows(found, "rates")) == 8.0


EVENT = st.tuples(
    st.integers(0, 5 * 3600).map(lambda s: f"2024-01-01T{s // 3600:02d}:{s // 60 % 60:02d}:00Z"),
    st.sampled_from(["ann", "bob", "cat", None]),
    st.sampled_from(["a", "b", None]),
    st.integers(0, 10**9).map(lambda n: str(n / 1000)),
)


@pytest.mark.slow
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EVENT, min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_sums_are_kept_and_the_order_does_not_matter(
    tmp_path: Path, events: Any, random: Any
) -> None:
    found = trace(tmp_path, events)
    users = [float(size) for _, user, _, size in events if user is not None]
    costs = [row["cost"] for row in rows(found, "loads") if row["operator"] == "user"]
    assert sum(costs) == pytest.approx(math.fsum(users))
    both = sum(user is not None and page is not None for _, user, page, _ in events)
    assert sum(row["amount"] for row in rows(found, "rates")) == 2 * both
    shuffled = list(events)
    random.shuffle(shuffled)
    assert same(found, trace(tmp_path, shuffled, output="shuffled"))


# -- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"operator__0__key": "usr"}, r"operator\[0\]\.key.*no column 'usr' \(did you mean user"),
        ({"operator__0__key": "page + 1"}, "column 'page' is text"),
        ({"operator__0__cost": "page"}, "is text, not an amount"),
        ({"operator__0__cost": "size - 3"}, "cost.*is negative for some events .down to -2"),
        ({"edge__0__rate": "1 - size"}, "rate.*is negative"),
        ({"operator__0__state": "-size"}, "state.*is negative"),
        ({"events__clicks__time": "at"}, "events.clicks.time.*is text, not a time"),
        ({"events__clicks__columns": {"sise": "number"}}, "columns.sise is no column .*size"),
        ({"events__clicks__columns__user": "whole"}, "columns.user: 'ann' is no whole"),
        ({"events__clicks__path": "none.csv"}, "'none.csv' does not exist"),
        ({"events__clicks__path": "*.tsv", "events__clicks__format": "csv"}, "matches no file"),
        ({"events__clicks__path": "package:nowhere/a.csv"}, "pip install nowhere"),
        ({"events__clicks__path": "package:optim/../a.csv"}, "no file of a package"),
        ({"events__clicks__path": "package:optim/a.csv"}, "not in the installed package"),
        ({"events__clicks__path": "s3a://bucket/a.csv.zip"}, "zip that is not local"),
        ({"events__clicks__path": "bad.zip"}, "no whole zip"),
        ({"events__clicks__path": "bad.parquet"}, "events.clicks.path.* cannot be read"),
        ({"events__clicks__path": "bad.jsonl"}, "events.clicks.path.* cannot be read"),
        ({"period__length": "1 ms"}, "makes .* periods"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    for name in ("bad.zip", "bad.parquet", "bad.jsonl"):
        (tmp_path / name).write_text("{no such thing")
    with pytest.raises(InvalidInput, match=message):
        trace(tmp_path, **changes)
    assert not (tmp_path / "out" / "trace.json").exists()


def test_no_event_counts(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no event that counts"):
        trace(tmp_path, [])


def test_lines_that_are_torn_are_refused(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("at,user,page,size,unused\n2024-01-01T00:00Z,ann\n")
    with pytest.raises(InvalidInput, match="cannot be read"):
        run_trace(Job.from_dict(job(), tmp_path), tmp_path / "out")


def test_files_of_one_recording_have_one_header(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    write_csv(tmp_path / "events" / "a.csv", EVENTS)
    write_csv(tmp_path / "events" / "b.csv", [], ("user", "at", "size", "page"))
    document = job(events__clicks__path="events", events__clicks__format="csv")
    with pytest.raises(InvalidInput, match="cannot be read"):
        run_trace(Job.from_dict(document, tmp_path), tmp_path / "out")


def test_unknown_recordings_and_strange_folders(tmp_path: Path) -> None:
    description = Job.from_dict(job(), tmp_path)
    write_csv(tmp_path / "events.csv", EVENTS)
    with pytest.raises(InvalidInput, match="--events: 'klicks' is no recording"):
        run_trace(description, tmp_path / "out", paths={"klicks": "x"})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="holds no trace"):
        run_trace(description, tmp_path / "full")
    assert (tmp_path / "full" / "letter.txt").exists()


@pytest.mark.slow
def test_an_older_trace_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    before = rows(trace(tmp_path), "loads")
    with pytest.raises(InvalidInput):
        trace(tmp_path, operator__0__cost="-1")
    assert rows(TraceFolder.open(tmp_path / "out"), "loads") == before
    assert rows(trace(tmp_path, EVENTS[:1]), "loads") != before
