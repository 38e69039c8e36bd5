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
    assert found.events[0].files.format == "csv"
    assert found.events[0].files.zone == "Europe/Paris"
    assert found.edges[0].events == ("clicks",)
    assert found.cluster is not None
    assert [node["id"] for node in found.cluster.nodes] == ["n0", "n1"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "streamplace.job/9"}, "format: 'streamplace.job/9' is not understood"),
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
        ({"period__late": "perhaps"}, "period.late: 'perhaps' is not known"),
        ({"period": None}, "period is missing"),
        ({"events": {}}, "events is missing"),
        ({"events__clicks__path": "events"}, "the path does not tell it"),
        ({"events__clicks__format": "xls"}, "'xls' is no format"),
        ({"events__clicks__columns": {"size": "money"}}, "columns.size: 'money' is no type"),
        ({"events__clicks__delimiter": "::"}, "must be one character"),
        ({"events__clicks__time": "now()"}, "at character 1: there is no function 'now'"),
        ({"events__clicks__join": {"x": {"path": "x.csv"}}}, "join.x.on is missing"),
        ({"operator": []}, "operator is missing"),
        ({"operator__0__key": "user;"}, r"operator\[0\].key: 'user;' at character 5"),
        ({"operator__0__key_groups": 0}, "key_groups: 0 must be from 1"),
        ({"operator__0__key_groups": 10**9}, "must be from 1 to"),
        ({"operator__1__id": "user"}, r"operator\[1\].id: 'user' stands twice"),
        ({"operator__0__null_key": "keep"}, "null_key: 'keep' is not known"),
        ({"operator__0__events": "klicks"}, "'klicks' is no recording"),
        ({"operator__0__input": [{}]}, "key stands beside input"),
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


def test_the_ending_of_another_path_tells_its_format() -> None:
    found = Job.from_dict(job())
    paths = ("a.jsonl", "a.json.gz", "A.PARQUET", "folder.parquet/", "a.txt", "a.zip", "a.csv.zip")
    kinds = [found.with_paths({"clicks": path}).events[0].files.format for path in paths]
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
    folder = repository / "experiments" / "papers" / "albic_real"
    found = load_job(folder / f"real_job_{number}.toml")
    assert found.cluster is not None
    assert len(found.cluster.nodes) == 20
    assert {spec.key_groups for spec in found.operators} == {100}
    assert [len(found.operators), len(found.edges)] == [[3, 2], [2, 1], [3, 2], [8, 7]][number - 1]
