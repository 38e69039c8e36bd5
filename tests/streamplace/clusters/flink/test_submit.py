"""Submitting: what is refused before anything is sent, and scripts as statements."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optim.errors import ExitCode, InvalidInput
from streamplace.cli import submit as command
from streamplace.cli.main import main
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.pages import read_page
from streamplace.clusters.exchange.sources import WebClient
from streamplace.clusters.flink import fetch as live
from streamplace.clusters.flink.exporter import Group, Sheet
from streamplace.clusters.flink.pages import TaskManager, TaskManagers
from streamplace.clusters.flink.submit import check_quotas, groups_of_job, read_script

SHEET = Sheet(
    (
        Group(
            operator="in", job="A", vertices={"a": "in"}, parallelism=2, counts={"tm1": 1, "tm2": 1}
        ),
        Group(
            operator="b + c",
            job="A",
            vertices={"b": "b", "c": "c"},
            parallelism=3,
            counts={"tm2": 3},
        ),
        Group(operator="z", job="B", vertices={"z": "z"}, parallelism=1, counts={"tm1": 1}),
    ),
    {"A": "1" * 32, "B": "2" * 32},
)
FITTING = {"a": ("in", 2), "b": ("b", 3), "c": ("c", 3)}


def test_the_job_is_told_by_its_vertices() -> None:
    assert [g.operator for g in groups_of_job(SHEET, FITTING)] == ["in", "b + c"]
    assert [g.operator for g in groups_of_job(SHEET, {"z": ("any name", 1)})] == ["z"]


@pytest.mark.parametrize(
    ("vertices", "told"),
    [
        ({"a": ("in", 2), "b": ("b", 3)}, r"only one of both has c \(c\)"),
        (FITTING | {"d": ("new", 1)}, r"only one of both has new \(d\)"),
        ({}, "is not the one that was planned"),
        (FITTING | {"a": ("in", 4)}, "in: 4 is its parallelism, the plan places 2"),
    ],
)
def test_another_program_is_refused(vertices: dict[str, tuple[str, int]], told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        groups_of_job(SHEET, vertices)
    assert "nothing was submitted" in str(caught.value)


def managers(change: Callable[[dict[str, Any]], Any] = lambda _: None) -> list[TaskManager]:
    """Return both task managers with their quotas, as REST tells them."""
    page: dict[str, Any] = {}
    for name in ("tm1", "tm2"):
        quotas = {
            key.removeprefix("external-resource.").removesuffix(".amount"): float(value)
            for key, value in SHEET.configuration(name).items()
            if key.endswith(".amount")
        }
        resources = {"totalResource": quotas, "freeResource": dict(quotas)}
        page[name] = {k: {"extendedResources": v} for k, v in resources.items()}
        page[name] |= {"id": name, "slotsNumber": 2}
    change(page)
    read = read_page(TaskManagers, {"taskmanagers": list(page.values())}, "page", Ledger())
    return list(read.taskmanagers)


def test_quotas_that_are_there_will_do() -> None:
    check_quotas(SHEET, groups_of_job(SHEET, FITTING), managers())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda p: p.pop("tm2"), r"task manager tm2: p\w+-0 is not there"),
        (
            lambda p: p["tm2"].update(totalResource={}),
            r"p\w+-1: '?0'? are offered, the plan takes 3",
        ),
        (
            lambda p: p["tm1"]["totalResource"]["extendedResources"].update(
                {SHEET.resource(SHEET.groups[1]): 1}
            ),
            "'?1'? are offered, the plan takes 0",
        ),
        (
            lambda p: p["tm2"]["freeResource"]["extendedResources"].clear(),
            "'?0'? are free, the plan takes 1.*cancel the job that runs there",
        ),
    ],
)
def test_quotas_that_are_not(change: Callable[[dict[str, Any]], Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        check_quotas(SHEET, groups_of_job(SHEET, FITTING), managers(change))


def test_a_script_becomes_statements() -> None:
    script = read_script(
        """
        -- a comment; with a semicolon
        SET 'pipeline.name' = 'it''s mine';
        CREATE TABLE t (`odd;name` STRING /* why; not */) WITH ('connector' = 'data;gen');
        CREATE VIEW v AS SELECT * FROM t;
        EXECUTE STATEMENT SET BEGIN
        INSERT INTO s SELECT /*+ OPTIONS('a'='b') */ * FROM t;
        insert into s select 'x--y' from t;
        END;
        """
    )
    assert script.settings == {"pipeline.name": "it's mine"}
    assert [d.split()[:3] for d in script.definitions] == [
        ["CREATE", what, name] for what, name in (("TABLE", "t"), ("VIEW", "v"))
    ]
    assert "'data;gen'" in script.definitions[0]
    assert script.inserts == [
        "INSERT INTO s SELECT /*+ OPTIONS('a'='b') */ * FROM t",
        "insert into s select 'x--y' from t",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CREATE TABLE t (a INT)", "there is no job in it"),
        ("SELECT 1; INSERT INTO s SELECT 1", "writes no table"),
        ("CREATE TABLE u AS SELECT 1; INSERT INTO s SELECT 1", "starts a job of its own"),
        ("replace table u with ('a' = 'b') as select 1; INSERT INTO s SELECT 1", "of its own"),
    ],
)
def test_scripts_without_a_job(text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        read_script(text)


def test_files_are_looked_at_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"format": "streamplace.plan/1", "instance": "x", "assignment": {"a/0": "n"}}')
    arguments = ["submit", "flink", "http://127.0.0.1:9", str(plan), "--jar", "none.jar"]
    assert main(arguments) == ExitCode.USAGE
    assert "does not name vertices" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["submit", "flink"], ["flink", "submit"]])
def test_how_long_is_waited(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheet, jar = tmp_path / "sheet.json", tmp_path / "job.jar"
    sheet.write_text(json.dumps(SHEET.to_dict()))
    jar.touch()
    limits: list[Any] = []
    monkeypatch.setattr(command, "read_managers", lambda client: [])
    monkeypatch.setattr(command, "submit", lambda *given, **more: ("the job", []))
    monkeypatch.setattr(command, "wait_until_running", lambda *given: limits.append(given[2]))
    assert main([*words, "http://127.0.0.1:9", str(sheet), "--jar", str(jar)]) == 1
    assert main([*words, "http://127.0.0.1:9", str(sheet), "--jar", str(jar), "--wait", "7"]) == 1
    assert limits == [60.0, 7.0]


def test_a_task_manager_that_has_just_registered_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is listed with no slots and no resources until its report is there."""
    monkeypatch.setattr(live, "_PAUSE", 0.0)
    bare = {"id": "tm1", "slotsNumber": 0, "totalResource": {"extendedResources": {}}}
    whole = {**bare, "slotsNumber": 1, "totalResource": {"extendedResources": {"g": 3.0}}}
    pages = iter([bare, bare, whole])

    class Client(WebClient):
        def get(self, *_: Any, **__: Any) -> Any:
            return {"taskmanagers": [next(pages)]}

    (manager,) = live.read_managers(Client("http://localhost:1"))
    assert manager.totalResource
    assert manager.totalResource.amount("g") == 3.0


def test_a_task_manager_without_slots_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "_PAUSE", 0.0)
    monkeypatch.setattr(live, "_REPORTED", 0.01)

    class Client(WebClient):
        def get(self, *_: Any, **__: Any) -> Any:
            return {"taskmanagers": [{"id": "tm1", "slotsNumber": 0}]}

    assert live.read_managers(Client("http://localhost:1"))[0].slots == 0
