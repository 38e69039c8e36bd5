"""Job descriptions: what is wrong with one is told with its place, all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.traces.job import Job, load_job
from optim.errors import InvalidInput
from tests.experiments.traces.cases import job


def test_a_description(tmp_path: Path) -> None:
    found = Job.from_dict(job(period__timezone="Europe/Paris"), tmp_path)
    assert [spec.id for spec in found.operators] == ["user", "page"]
    assert found.events[0].format == "csv"
    assert found.events[0].zone == "Europe/Paris"
    assert found.edges[0].events == ("clicks",)
    assert found.cluster is not None
    assert [node["id"] for node in found.cluster.nodes] == ["n0", "n1"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"format": "streamplace.job/9"},
            "format: 'streamplace.job/9' must be 'streamplace.job/1'",
        ),
        ({"nmae": "x"}, "nmae is not a known key .did you mean name"),
        ({"period__length": "0 s"}, "period.length: '0 s' has no length"),
        ({"period__length": 0}, "period.length: 0 has no length"),
        ({"period__length": "soon"}, "is no length"),
        ({"period__timezone": "Mars/Olympus"}, "is no time zone"),
        ({"period__timezone": "../../etc/passwd"}, "is no time zone"),
        *(
            ({"events__clicks__timezone": zone}, "events.clicks.timezone: .* is no time zone")
            for zone in ("localtime", "Factory", "right/UTC", "posix/Europe/Paris", "posixrules")
        ),
        ({"events__clicks__multiline": "yes"}, "multiline: 'yes' must be true or false"),
        ({"events__clicks": {"path": "a.json", "time": "t", "multiline": True}}, "for CSV only"),
        ({"period__start": "x"}, "period.start: 'x' is no moment"),
        ({"period__start": "2024-01-02", "period__end": "2024-01-01"}, "must lie after"),
        ({"period__start": "2024-01-02T01:00", "period__length": "1 day"}, "must be a midnight"),
        ({"period__start": "2024-01-02", "period__length": "1 month"}, "the first of a month"),
        ({"period__lateness": "1 month"}, "must be a fixed time"),
        ({"period__late": "perhaps"}, "period.late: 'perhaps' must be 'keep'"),
        ({"period": None}, "period must be a table, not null"),
        ({"events": {}}, "events: {} is empty"),
        ({"events__clicks__path": "events"}, "does not follow from"),
        ({"events__clicks__format": "xls"}, "'xls' is no format"),
        ({"events__clicks__columns": {"size": "money"}}, "columns.size: 'money' must be 'text'"),
        ({"events__clicks__delimiter": "::"}, "must be one character"),
        ({"events__clicks__time": "now()"}, "at character 1: there is no function 'now'"),
        ({"events__clicks__join": {"x": {"path": "x.csv"}}}, "join.x.on is missing"),
        ({"operator": []}, r"operator: \[\] is empty"),
        ({"operator__0__key": "user;"}, r"operator\[0\].key: 'user;' at character 5"),
        ({"operator__0__key_groups": 0}, "key_groups: 0 must be at least 1"),
        ({"operator__0__key_groups": 10**9}, "key_groups: 1000000000 must be at most 1000000"),
        ({"operator__1__id": "user"}, r"operator\[1\].id: 'user' stands twice"),
        ({"operator__0__null_key": "keep"}, "null_key: 'keep' must be 'drop' or 'group'"),
        ({"operator__0__events": "klicks"}, "'klicks' is no recording"),
        ({"operator__0__input": [{}]}, r"operator\[0\].input\[0\].key is missing"),
        ({"operator__0__input": [{"key": "user"}]}, r"operator\[0\].key stands beside input"),
        ({"operator__0__kye": "user"}, r"operator\[0\].kye is not a known key .did you mean key"),
        ({"events__clicks__name": "x"}, "events.clicks.name: .x. is not a known key"),
        ({"events__clicks__where": "x"}, "events.clicks.where: .x. is not a known key"),
        (
            {"events__clicks__join": {"x": {"path": "x.csv", "on": [["a", "b", "c"]]}}},
            r"join.x.on\[0\]: .* must be one expression, or a pair",
        ),
        (
            {"events__clicks__join": {"x": {"path": "x.csv", "on": [["a", "b("]]}}},
            r"join.x.on\[0\]\[1\]: 'b\(' at character",
        ),
        ({"events__a-b": {"path": "a.csv", "time": "t"}}, "events.a-b: .a-b. is no name"),
        ({"edge__0__to": "pages"}, "'pages' is no operator"),
        ({"edge__0__to": "user"}, "leads from an operator to itself"),
        ({"edge__0__rate": True}, "must be an expression"),
        ({"edge": [{"from": "user", "to": "page"}] * 2}, "stands twice"),
        ({"cluster__nodes": 0}, "cluster.nodes: 0 must be from 1"),
        ({"cluster__nodes": [{"id": "a"}, {"id": "a"}]}, "cluster.nodes"),
        ({"cluster__nodes": [{"id": "a", "colour": "red"}]}, "cluster.nodes.*colour"),
        ({"cluster__utilisation": -1}, "utilisation: -1 must be above 0"),
        ({"cluster": {"nodes": 2, "utilisation": 50}}, "needs a capacity"),
        ({"cluster__load_scale": 1, "cluster__utilisation": 9}, "stands beside load_scale"),
        ({"limits": {"max_moves": 3}}, "limits.*max_moves"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Job.from_dict(job(**changes))


@pytest.mark.parametrize(
    "changes", [{"period__length": "1 fortnight"}, {"events__clicks__format": "xls"}]
)
def test_one_mistake_is_one_problem(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        Job.from_dict(job(**changes), Path())
    assert len(caught.value.problems) == 1


def test_everything_is_told_at_once() -> None:
    wrong = job(operator__0__key="a +", operator__1__key_groups=-1, edge__0__rate="b(")
    with pytest.raises(InvalidInput) as error:
        Job.from_dict(wrong)
    assert {p.path for p in error.value.problems} >= {
        "operator[0].key",
        "operator[1].key_groups",
        "edge[0].rate",
    }


def test_what_is_missing_is_told_at_once() -> None:
    with pytest.raises(InvalidInput) as error:
        Job.from_dict({"format": "streamplace.job/1"})
    assert {str(p) for p in error.value.problems} == {
        f"{path} is missing (add it)" for path in ("name", "period", "events", "operator")
    }


def test_parts_know_their_place() -> None:
    join = {"info": {"path": "i.csv", "on": ["page", ["user", "name"]]}}
    inputs = [{"key": "user"}, {"key": "page", "events": "views", "cost": 2}]
    views = {"path": "v.csv", "time": "time(at)", "timezone": "Asia/Tokyo"}
    changes = {"events__views": views, "operator__0": {"id": "a", "key_groups": 1, "input": inputs}}
    with pytest.raises(InvalidInput) as error:
        Job.from_dict(job(events__clicks__join=join, **changes, edge=[]))
    assert {p.path for p in error.value.problems} == {
        "operator[0].input[0].events",
        "operator[1].events",
    }
    inputs[0]["events"] = "clicks"
    changes["operator__1__events"] = "clicks"
    found = Job.from_dict(job(events__clicks__join=join, **changes, edge=[]))
    clicks = found.events[0]
    assert (clicks.where, clicks.time.where) == ("events.clicks", "events.clicks.time")
    assert clicks.joins[0].where == "events.clicks.join.info"
    assert clicks.joins[0].name == "info"
    assert [mine.where for mine, _ in clicks.joins[0].on] == [
        "events.clicks.join.info.on[0]",
        "events.clicks.join.info.on[1]",
    ]
    assert [theirs.text for _, theirs in clicks.joins[0].on] == ["page", "name"]
    assert [events.zone for events in found.events] == ["UTC", "Asia/Tokyo"]
    assert [i.cost.where for i in found.operators[0].inputs] == [
        "operator[0].input[0].cost",
        "operator[0].input[1].cost",
    ]
    assert found.operators[1].inputs[0].key.where == "operator[1].key"


def test_the_ending_of_another_path_tells_its_format() -> None:
    found = Job.from_dict(job())
    paths = ("a.jsonl", "a.json.gz", "A.PARQUET", "folder.parquet/", "a.txt", "a.zip", "a.csv.zip")
    kinds = [found.with_paths({"clicks": path}).events[0].format for path in paths]
    assert kinds == ["jsonl", "jsonl", "parquet", "parquet", "csv", "csv", "csv"]


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("name = ")
    with pytest.raises(InvalidInput, match="is not TOML"):
        load_job(tmp_path / "job.toml")
    (tmp_path / "job.toml").write_text(f"name = {'9' * 5000}")
    with pytest.raises(InvalidInput, match="is not TOML"):
        load_job(tmp_path / "job.toml")
    with pytest.raises(InvalidInput, match="does not exist"):
        load_job(tmp_path / "other.toml")


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_real_jobs_are_whole(number: int, repository: Path) -> None:
    folder = repository / "experiments" / "studies" / "papers" / "albic_real"
    found = load_job(folder / f"real_job_{number}.toml")
    assert found.cluster is not None
    assert len(found.cluster.nodes) == 20
    assert {spec.key_groups for spec in found.operators} == {100}
    assert [len(found.operators), len(found.edges)] == [[3, 2], [2, 1], [3, 2], [8, 7]][number - 1]
