"""Verifying against a small server: counts, what crosses, and plans of other jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optim.errors import ExitCode
from optim.format.plan import Plan
from streamplace.cli.main import main
from streamplace.clusters.exchange.sources import import_instance
from tests.streamplace.clusters import systems
from tests.streamplace.clusters.systems import JOB, MAP, OTHER, SINK, SOURCE

ONE, TWO = "tm-1-container", "tm-2-container"
NOW = ["--interval", "0", "--wait", "0"]


def running(places: dict[str, list[str]]) -> dict[str, Any]:
    """Return the job of `systems.flink` with its subtasks where they are said to be."""
    documents = systems.flink()
    for vertex in documents[f"jobs/{JOB}"]["vertices"]:
        vertex["tasks"] = {"RUNNING": vertex["parallelism"], "FAILED": 0}
    for vertex, managers in places.items():
        subtasks = documents[f"jobs/{JOB}/vertices/{vertex}"]["subtasks"]
        for subtask, manager in zip(subtasks, managers, strict=True):
            subtask["taskmanager-id"] = manager
    remote, local = (f"Shuffle.Netty.Input.numBytesIn{way}PerSecond" for way in ("Remote", "Local"))
    documents[f"jobs/{JOB}/vertices/{MAP}/metrics"] = [
        {"id": f"{i}.{name}", "value": value}
        for i in range(4)
        for name, value in ((remote, 300.0), (local, 500.0))
    ]
    documents[f"jobs/{JOB}/vertices/{SINK}/metrics"] = [
        {"id": f"{i}.{local}", "value": 400.0} for i in range(4)
    ]
    return documents


AS_PLANNED = {SOURCE: [TWO, ONE], MAP: [TWO, ONE, ONE, ONE], SINK: [TWO, ONE, ONE, ONE]}


@pytest.fixture
def files(saved: Callable[..., str], tmp_path: Path) -> dict[str, str]:
    """Instance, plan and sheet: a source on each, map and sink 3 and 1."""
    instance = import_instance("flink", [saved(systems.flink())]).instance
    plan = Plan.from_indices(instance, [0, 1, 0, 0, 0, 1])
    names = {name: str(tmp_path / f"{name}.json") for name in ("instance", "plan", "sheet")}
    instance.save(names["instance"])
    plan.save(names["plan"])
    assert (
        main(["export", "flink", names["instance"], names["plan"], "-o", names["sheet"], "-q"]) == 0
    )
    return names


def test_a_plan_that_is_run(
    files: dict[str, str], serve: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = serve(running(AS_PLANNED))
    assert main(["verify", "flink", url, files["sheet"], *NOW]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "10 of 10 subtasks as planned"
    # a source each, map 3 and 1: half of 4 MB/s crosses; 2 MB/s go from map to sink in a slot;
    # of 3200 + 1600 bytes/s, 1200 came from the other task manager
    assert out[1].startswith("remote share 0.250 measured, 0.333 predicted")
    assert main(["verify", "flink", url, files["plan"], "--json", *NOW]) == 0  # joined by name
    answer = json.loads(capsys.readouterr().out)
    assert (answer["planned"], answer["as_planned"], answer["holds"]) == (10, 10, True)
    by_id = ["--instance", files["instance"]]
    assert main(["verify", "flink", url, files["plan"], *by_id, *NOW]) == 0


def test_a_plan_that_is_not_run(
    files: dict[str, str], serve: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = serve(running(AS_PLANNED | {SINK: [TWO, TWO, ONE, ONE]}))
    assert main(["verify", "flink", url, files["sheet"], *NOW]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[:3] == [
        "9 of 10 subtasks as planned",
        f"  Sink on {ONE}: 2, planned 3",
        f"  Sink on {TWO}: 2, planned 1",
    ]


@pytest.mark.parametrize("state", ["FINISHED", "CANCELED"])
def test_subtasks_that_have_ended_are_the_past(
    files: dict[str, str],
    serve: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    state: str,
) -> None:
    """Wherever they were; those that run are judged, and where none does the plan is not run."""
    documents = running(AS_PLANNED | {SINK: [TWO, TWO, ONE, ONE]})
    subtasks = documents[f"jobs/{JOB}/vertices/{SINK}"]["subtasks"]
    subtasks[0]["status"] = state
    assert main(["verify", "flink", serve(documents), files["sheet"], *NOW]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "9 of 9 subtasks as planned; 1 ended"
    subtasks[0]["status"], subtasks[3]["status"] = "RUNNING", state
    assert main(["verify", "flink", serve(documents), files["sheet"], "--json", *NOW]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["planned"], answer["as_planned"], answer["ended"]) == (9, 8, 1)
    for vertex in (SOURCE, MAP, SINK):
        for subtask in documents[f"jobs/{JOB}/vertices/{vertex}"]["subtasks"]:
            subtask["status"] = state
    assert main(["verify", "flink", serve(documents), files["sheet"], *NOW]) == 1
    assert capsys.readouterr().out.startswith("0 of 0 subtasks as planned; 10 ended")


@pytest.mark.parametrize("state", ["SCHEDULED", "DEPLOYING", "INITIALIZING", "CANCELING", "FAILED"])
def test_what_has_its_place_and_does_not_run_is_not_as_planned(
    files: dict[str, str], serve: Callable[..., str], capsys: pytest.CaptureFixture[str], state: str
) -> None:
    """As where its state is restored for longer than `--wait`."""
    documents = running(AS_PLANNED)
    documents[f"jobs/{JOB}/vertices/{SINK}"]["subtasks"][1]["status"] = state
    assert main(["verify", "flink", serve(documents), files["sheet"], *NOW]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[:3] == [
        "9 of 10 subtasks as planned",
        f"  Sink on ({state}): 1, planned 0",
        f"  Sink on {ONE}: 2, planned 3",
    ]


def test_narrow_vertices_fill_the_slots_they_like(
    saved: Callable[..., str], serve: Callable[..., str], tmp_path: Path
) -> None:
    """Where groups stay, the source (2) is in two of four slots, whichever they are."""
    options = [("place", "slots")]
    instance = import_instance("flink", [saved(systems.flink())], options).instance
    instance.save(tmp_path / "i.json")
    Plan.from_indices(instance, [0, 0, 0, 1]).save(tmp_path / "p.json")
    arguments = [str(tmp_path / "p.json"), "--instance", str(tmp_path / "i.json"), *NOW]
    for source, code in (([ONE, ONE], 0), ([ONE, TWO], 0), ([TWO, TWO], 1)):
        url = serve(running(AS_PLANNED | {SOURCE: source}))
        assert main(["verify", "flink", url, *arguments]) == code


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: d[f"jobs/{JOB}"]["vertices"].pop(), "is no vertex of orders"),
        (lambda d: d.update({"jobs/overview": {"jobs": []}}), "has no running job"),
        (lambda d: d.update(other_job(d)), "no running job has just the vertices of the plan"),
        (lambda d: d.update(narrower(d)), "is its parallelism, the plan places 2"),
    ],
)
def test_what_cannot_be_told(
    files: dict[str, str],
    serve: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, Any]], Any],
    told: str,
) -> None:
    documents = running(AS_PLANNED)
    change(documents)
    assert main(["verify", "flink", serve(documents), files["sheet"], *NOW]) == ExitCode.USAGE
    assert told in capsys.readouterr().err


def other_job(documents: dict[str, Any]) -> dict[str, Any]:
    """Return the pages with another id for the sink, as a changed program has."""
    return {
        name.replace(SINK, "c0ffee"): json.loads(json.dumps(page).replace(SINK, "c0ffee"))
        for name, page in documents.items()
    }


def narrower(documents: dict[str, Any]) -> dict[str, Any]:
    """Return the pages with a source of one subtask."""
    page = documents[f"jobs/{JOB}/vertices/{SOURCE}"]
    page |= {"parallelism": 1, "subtasks": page["subtasks"][:1]}
    documents[f"jobs/{JOB}"]["vertices"][0]["parallelism"] = 1
    return {}


def test_files_that_are_no_plan(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "http://127.0.0.1:9"
    assert main(["verify", "flink", url, files["instance"], *NOW]) == ExitCode.USAGE
    assert "is no plan" in capsys.readouterr().err
    assert main(["verify", "flink", url, files["sheet"], *NOW]) == ExitCode.USAGE
    assert "cannot be reached" in capsys.readouterr().err


def test_two_jobs_of_one_name(
    saved: Callable[..., str],
    serve: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Their plan without its instance: each job is known by part of its id."""
    documents = systems.flink_pair()
    managers = documents["taskmanagers"]["taskmanagers"]
    for j, job in enumerate((JOB, OTHER)):
        documents[f"jobs/{job}"]["name"] = "A"
        documents["jobs/overview"]["jobs"][j]["name"] = "A"
        for vertex in documents[f"jobs/{job}"]["vertices"]:
            vertex["tasks"] = {"RUNNING": 2}
    for name, page in documents.items():
        for subtask in page.get("subtasks", ()) if "/vertices/" in name else ():
            subtask["taskmanager-id"] = managers[subtask["host"].startswith("tm-2")]["id"]
    instance = import_instance("flink", [saved(documents)]).instance
    file = tmp_path / "p.json"
    Plan.from_indices(instance, instance.tasks.node).save(file)
    assert main(["verify", "flink", serve(documents), str(file), *NOW]) == 0
    assert capsys.readouterr().out.startswith("8 of 8 subtasks as planned")
