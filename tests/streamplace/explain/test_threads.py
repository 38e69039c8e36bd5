"""Full threads: what gives way first, why no plan exists, and the parallelism that helps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamplace.cli.main import main
from tests.optim.make import document, nodes


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """``Agg`` of two subtasks, each busy 0.9, on nodes of 8 cores."""
    monkeypatch.setenv("COLUMNS", "200")
    agg = {"id": "Agg", "group": {"tasks": 2, "load": {"cpu": 1.8}}, "max_load": {"cpu": 1}}
    tasks = [{"id": "alone", "load": {"cpu": 0.5}, "max_load": {"cpu": 1}}]
    parts: dict[str, Any] = {"nodes": nodes(2, capacity={"cpu": 8}), "operators": [agg]}
    path = tmp_path / "job.json"
    path.write_text(json.dumps(document(**parts, tasks=tasks, streams=[], units={"cpu": "cores"})))
    return str(path)


FULL = (
    "bottleneck threads of Agg (cpu) at 1.111 × current input "
    "(2 × needs at least 4 tasks, it has 2) (next: thread alone (cpu), 2 ×"
)


def test_what_is_full_first_are_the_threads(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("solve", "explain"):
        assert main([command, job, "--objective", "sustainable_rate", "-q"]) == 0
        assert FULL in " ".join(capsys.readouterr().out.split())


def test_a_rate_beyond_them_is_infeasible_at_that_rate(
    job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", job, "--target-rate", "1.1", "-q"]) == 0
    capsys.readouterr()
    assert main(["solve", job, "--target-rate", "2", "-q"]) == 3
    told = " ".join(capsys.readouterr().out.split())
    assert "max_load Agg/0.cpu (Agg has 2 tasks; needs at least 4) 1.8 1 0.8" in told
    assert main(["solve", job, "--target-rate", "2", "-q", "--ignore", "max_load"]) == 0


def test_explain_names_the_parallelism(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", job, "--scale-rate", "2.5"]) == 3
    told = " ".join(capsys.readouterr().out.split())
    assert "max_load on Agg/0.cpu: 2.25 cores needed, 1 cores available" in told
    assert "raise the parallelism of Agg by 3 to 5" in told
    assert "raise the parallelism of alone by 1 to 2" in told
    assert main(["explain", job, "--scale-rate", "2.5", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert [len(conflict["rules"]) for conflict in found["conflicts"]] == [1, 1]
    change = found["relaxation"][0]
    told = {key: change[key] for key in ("rule", "where", "by", "to", "enough")}
    assert told == {"rule": "parallelism", "where": "Agg", "by": 3, "to": 5, "enough": False}


def test_check_tells_it_without_a_plan(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", job]) == 0
    capsys.readouterr()
    text = json.loads(Path(job).read_text())
    text["operators"][0]["max_load"] = {"cpu": 0.8}
    Path(job).write_text(json.dumps(text))
    assert main(["check", job]) == 3
    assert "needs at least 3" in capsys.readouterr().out
