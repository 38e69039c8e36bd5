"""Watching Storm: a plan is carried out by a rebalance, and holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamplace.cli.main import main
from tests.streamplace.clusters.nimbus import Fake, Served

WATCH = ["--every", "0.01", "--option", "interval=0.01", "--wait", "5", "--json"]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))


def test_storm_is_rebalanced_once(capsys: pytest.CaptureFixture[str]) -> None:
    fake = Fake()
    with Served(fake) as url:
        words = ["watch", "storm", url, *WATCH, "--policy", "imc-search", "--rounds", "2"]
        assert main([*words, "--apply"]) == 0
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [one["verdict"] for one in told] == ["applied", "stays"]
        assert len(fake.rebalances) == 1
        planned = told[0]["plan"]["assignment"]
        assert {name: fake.at[name][0] for name in fake.at} == {
            task.partition("[")[2].rstrip("]"): node for task, node in planned.items()
        }


def test_storm_without_its_plug_in_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    fake = Fake(scheduler="org.apache.storm.scheduler.DefaultScheduler")
    with Served(fake) as url:
        words = ["watch", "storm", url, *WATCH, "--policy", "imc-search", "--rounds", "1"]
        assert main([*words, "--apply"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "reads no placement" in told["verdict"]
    assert not told["applied"]
    assert not fake.rebalances


def test_nothing_is_applied_by_the_ui(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "storm", "http://127.0.0.1:9", "--apply"]) == 2
    assert "is not the address of Nimbus" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["kafka", "folder", "--apply"], "needs a command"),
        (["storm", "nimbus://127.0.0.1:9", "--policy", "nothing"], "is no policy"),
        (["storm", "nimbus://127.0.0.1:9", "--apply", " "], "is no command"),
        (["storm", "nimbus://127.0.0.1:9", "--gain", "-1"], "--gain"),
        (["storm", "nimbus://127.0.0.1:9", "--rounds", "0"], "--rounds"),
        (["storm", "nimbus://127.0.0.1:9", "--state", "/dev/null/x"], "cannot be made"),
        (["storm", "nimbus://127.0.0.1:9", "--rounds", "1"], "cannot be reached"),
    ],
)
def test_what_cannot_be_watched_is_refused(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["watch", *words])
    except SystemExit as stop:
        code = int(str(stop.code))
    assert code == 2
    assert reason in capsys.readouterr().err
