"""Watching Storm: a plan is carried out by a rebalance, and holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamplace.cli.main import main
from tests.streamplace.clusters.kafka.fake import FakeKafka
from tests.streamplace.clusters.nimbus import Fake, Served

WATCH = ["--every", "0.01", "--option", "interval=0.01", "--wait", "5", "--json"]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))


def test_storm_is_rebalanced_once(capsys: pytest.CaptureFixture[str]) -> None:
    fake = Fake()
    with Served(fake) as url:
        words = ["watch", "storm", url, *WATCH, "--policy", "solve", "--rounds", "2"]
        assert main([*words, "--apply"]) == 0
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [one["verdict"] for one in told] == ["applied", "stays"]
        assert len(fake.rebalances) == 1
        planned = told[0]["plan"]["assignment"]
        assert {name: fake.at[name][0] for name in fake.at} == {
            task.partition("[")[2].rstrip("]"): node for task, node in planned.items()
        }


def test_a_plan_that_breaks_a_rule_is_held_back_and_repair_keeps_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Served(Fake()) as url:
        words = ["watch", "storm", url, *WATCH, "--rounds", "1"]
        for policy, breaks in (("imc-search", True), ("imc-search:repair=true", False)):
            assert main([*words, "--policy", policy]) == 0
            told = json.loads(capsys.readouterr().out)
            assert ("the plan violates workers" in told["reason"]) is breaks
            assert told["decision"] == "keep" or not breaks


def test_storm_without_its_plug_in_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    fake = Fake(scheduler="org.apache.storm.scheduler.DefaultScheduler")
    with Served(fake) as url:
        words = ["watch", "storm", url, *WATCH, "--policy", "solve", "--rounds", "1"]
        assert main([*words, "--apply"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "reads no placement" in told["verdict"]
    assert not told["applied"]
    assert not fake.rebalances


def test_kafka_is_reassigned_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = FakeKafka({"t-0": [1, 2], "t-1": [1, 2], "t-2": [1, 2]}, count=3)
    monkeypatch.setattr("streamplace.clusters.kafka.importer.KafkaAdmin", lambda *_: kafka)
    monkeypatch.setattr("streamplace.clusters.kafka.admin.KafkaAdmin", lambda *_: kafka)
    words = ["watch", "kafka", "fake:9092", "--every", "0.01", "--rounds", "2", "--json"]
    assert main([*words, "--apply", "--throttle", "10"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["verdict"] for one in told] == ["applied", "stays"]
    assert any(3 in one.replicas for one in kafka.at.values())


def test_nothing_is_applied_by_the_ui(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "storm", "http://127.0.0.1:9", "--apply"]) == 2
    assert "is not Nimbus" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["kafka", "folder", "--apply"], "is no address of a broker"),
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
