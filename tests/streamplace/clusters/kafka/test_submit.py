"""Reassignments carried out, stopped, continued and taken back on a cluster in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optim.errors import InvalidInput, Problem
from streamplace.cli.main import main
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.sources import Exported
from streamplace.clusters.kafka import submit as module
from streamplace.clusters.kafka.admin import EVERY, RATES, SENDERS, Unreachable
from streamplace.clusters.kafka.cluster import Key
from streamplace.clusters.kafka.submit import (
    Outcome,
    Settings,
    alone,
    cancel,
    load_reassignment,
    revert,
    submit,
)
from tests.streamplace.clusters.kafka.fake import FakeKafka

NOW = {f"t-{i}": [1, 2, 3] for i in range(8)}
THEN = {f"t-{i}": [4, 2, 1] for i in range(8)}


def file(folder: Path, lists: dict[str, list[int]], **more: Any) -> Path:
    path = folder / "r.json"
    path.write_text(text_of(lists, **more))
    return path


def text_of(lists: dict[str, list[int]], **more: Any) -> str:
    entries = [
        {"topic": n.rpartition("-")[0], "partition": int(n.rpartition("-")[2]), "replicas": to}
        for n, to in lists.items()
    ]
    return json.dumps({"version": 1, "partitions": entries, **more})


class Clock:
    """Time that passes by sleeping alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def settings(self, **more: Any) -> Settings:
        def sleep(seconds: float) -> None:
            self.now += seconds

        return Settings(sleep=sleep, clock=lambda: self.now, **more)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Outcome]:
    def carry_out(kafka: FakeKafka, lists: dict[str, list[int]], **more: Any) -> Outcome:
        plan = load_reassignment(str(file(tmp_path, lists)))
        return submit(kafka, plan, Clock().settings(**more))

    return carry_out


def test_all_is_moved_in_steps_elected_and_no_throttle_stays(run: Callable[..., Outcome]) -> None:
    kafka = FakeKafka(NOW)
    outcome = run(kafka, THEN, throttle=1000, at_a_time=3)
    assert outcome.verdict.holds
    assert all(one.leader == 4 and one.replicas == [4, 2, 1] for one in kafka.at.values())
    assert kafka.most == {4: 3}
    assert kafka.ever == {("broker", EVERY), ("topic", "t")}
    assert kafka.throttled == []
    assert min(kafka.least.values()) == 3


def test_the_lists_before_are_kept_and_brought_back(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    kafka = FakeKafka(NOW)
    run(kafka, THEN)
    plan = load_reassignment(str(tmp_path / "r.json"))
    assert plan.before == {Key("t", i): [1, 2, 3] for i in range(8)}
    assert revert(kafka, plan, Clock().settings()).verdict.holds
    assert all(one.leader == 1 and one.replicas == [1, 2, 3] for one in kafka.at.values())


def test_files_beside_one_whose_name_has_a_dot(tmp_path: Path) -> None:
    texts = {"": text_of(THEN), ".rollback.json": text_of({"t-0": [1, 2, 3]})}
    texts[".election.json"] = json.dumps({"partitions": [{"topic": "u", "partition": 7}]})
    Exported(texts, Ledger()).save(tmp_path / "day.1")
    plan = load_reassignment(str(tmp_path / "day.1"))
    assert plan.before == {Key("t", 0): [1, 2, 3]} and plan.elected == (Key("u", 7),)


def test_a_killed_run_is_continued(run: Callable[..., Outcome]) -> None:
    kafka = FakeKafka(NOW, takes=5)
    kafka.reassign({Key("t", i): [4, 2, 1] for i in range(3)})  # as a run left it
    kafka.alter("broker", {EVERY: dict.fromkeys(RATES, "10")})
    kafka.alter("topic", {"t": {SENDERS: "0:1"}})
    assert run(kafka, THEN, throttle=1000).verdict.holds
    begun = [name for name, to in kafka.calls if to is not None]
    assert sorted(begun) == sorted(NOW)  # none twice
    assert kafka.throttled == []


def test_a_broker_that_comes_back_is_waited_for(run: Callable[..., Outcome]) -> None:
    kafka = FakeKafka(NOW)
    kafka.events = {4: lambda: kafka.kill(4), 14: lambda: kafka.start(4)}
    told: list[str] = []
    outcome = run(kafka, THEN, throttle=1000, at_a_time=2, say=told.append)
    assert outcome.verdict.holds
    assert any("waits for broker 4, which is dead" in text for text in told)
    assert kafka.throttled == []


def test_what_waits_for_a_dead_broker_is_taken_back(run: Callable[..., Outcome]) -> None:
    kafka = FakeKafka(NOW, min_isr=2)
    kafka.events = {6: lambda: kafka.kill(4)}
    outcome = run(kafka, THEN, throttle=1000, at_a_time=2, patience=5)
    assert not outcome.verdict.holds
    assert set(outcome.given_up.values()) == {"broker 4 is dead"}
    assert not any(one.is_moving for one in kafka.at.values())
    assert {tuple(p.replicas) for p in kafka.at.values()} == {(4, 2, 1), (1, 2, 3)}
    assert any(kafka.at[key].replicas == [1, 2, 3] for key in outcome.given_up)
    assert kafka.throttled == []  # though a broker is dead, which is never asked
    assert min(kafka.least.values()) >= 2


def test_an_interrupt_leaves_nothing_under_way_and_no_throttle(tmp_path: Path) -> None:
    kafka, plan = FakeKafka(NOW), load_reassignment(str(file(tmp_path, THEN)))

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        submit(kafka, plan, Settings(throttle=10, sleep=interrupt))
    assert not any(one.is_moving for one in kafka.at.values())
    assert kafka.throttled == []
    assert ("broker", EVERY) in kafka.ever


def test_the_wait_is_an_end_too(run: Callable[..., Outcome]) -> None:
    kafka = FakeKafka(NOW, takes=50)
    assert not run(kafka, THEN, throttle=10, wait=5).verdict.holds
    assert not any(one.is_moving for one in kafka.at.values())
    assert kafka.throttled == []


def test_the_end_waits_out_a_silence(run: Callable[..., Outcome]) -> None:
    kafka = FakeKafka(NOW, takes=50)

    def silent() -> None:
        assert kafka.throttled
        raise Unreachable(Problem("fake", None, "does not answer in time"))

    kafka.events = dict.fromkeys((7, 8, 9), silent)  # the last steps, and the first of the end
    assert not run(kafka, THEN, throttle=10, wait=5, patience=4).verdict.holds
    assert not any(one.is_moving for one in kafka.at.values())
    assert kafka.throttled == []
    assert kafka.events == {}


def test_no_partition_falls_below_its_least_in_sync_by_a_move(run: Callable[..., Outcome]) -> None:
    lists = {"t-0": [1, 2, 3], "t-1": [1, 2, 3]}
    kafka = FakeKafka(lists, min_isr=2, isr={"t-0": [1, 2]})  # 3 lags
    outcome = run(kafka, {"t-0": [1, 3], "t-1": [1, 3]}, wait=20)
    assert kafka.least == {Key("t", 0): 2, Key("t", 1): 2}
    assert [d.partition for d in outcome.verdict.differences] == ["t-0"]
    kafka.events = {kafka.looks + 4: lambda: kafka.at[Key("t", 0)].isr.append(3)}
    assert run(kafka, {"t-0": [1, 3], "t-1": [1, 3]}, wait=20).verdict.holds


def test_an_election_alone(tmp_path: Path) -> None:
    kafka = FakeKafka({"t-0": [2, 1]})
    kafka.at[Key("t", 0)].leader = 1
    path = file(tmp_path, {})
    path.write_text('{"version": 1, "partitions": []}')
    election = {"partitions": [{"topic": "t", "partition": 0}]}
    path.with_suffix(".election.json").write_text(json.dumps(election))
    plan = load_reassignment(str(path))
    assert submit(kafka, plan, Clock().settings()).verdict.holds
    assert kafka.at[Key("t", 0)].leader == 2
    # 1 led before and was not the first: no election brings that back
    with pytest.raises(InvalidInput, match=r"no list to bring back; 1 leader elected .* t-0 \(im"):
        revert(kafka, plan, Clock().settings())


def test_a_silence_is_waited_out_and_no_longer(run: Callable[..., Outcome]) -> None:
    kafka = FakeKafka(NOW)

    def silent() -> None:
        raise Unreachable(Problem("fake", None, "does not answer in time"))

    kafka.events = {5: silent, 6: silent}
    assert run(kafka, THEN).verdict.holds
    kafka = FakeKafka(NOW)
    kafka.events = dict.fromkeys(range(5, 500), silent)
    with pytest.raises(Unreachable):
        run(kafka, THEN, patience=5)


def test_a_replica_in_no_log_directory_is_no_success(run: Callable[..., Outcome]) -> None:
    kafka = FakeKafka(NOW, failed={"t-3": {4}})
    (found,) = run(kafka, THEN).verdict.differences
    assert (found.partition, found.what, found.running, found.planned) == (
        "t-3",
        "log dir",
        None,
        4,
    )


BAD: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"lists": {"t-9": [1, 2]}}, "t-9 is no partition of fake:9092"),
    ({}, {"lists": {"t-0": [1, 9]}}, "9 is no broker of fake:9092"),
    ({"dead": {4}}, {"lists": THEN}, "4 is a dead broker .*start it, or import"),
    ({}, {"lists": THEN, "cluster": "other"}, "is of another cluster than fake:9092, which is the"),
    ({"min_isr": 2}, {"lists": {"t-0": [1]}}, "1 replicas, fewer than min.insync.replicas"),
    ({"lists": {**NOW, "t-0": [3, 1]}}, {"lists": THEN, "before": NOW}, r"t-0 is on \[3, 1\], and"),
]


@pytest.mark.parametrize("cluster, asked, told", BAD)
def test_what_does_not_fit_is_refused_and_nothing_is_changed(
    cluster: dict[str, Any], asked: dict[str, Any], told: str, tmp_path: Path
) -> None:
    kafka = FakeKafka(**{"lists": NOW, **cluster})
    more = {"cluster": asked["cluster"]} if "cluster" in asked else {}
    path = file(tmp_path, asked["lists"], **more)
    if "before" in asked:
        path.with_suffix(".rollback.json").write_text(text_of(asked["before"]))
    with pytest.raises(InvalidInput, match=told):
        submit(kafka, load_reassignment(str(path)), Clock().settings(throttle=9))
    assert kafka.calls == []
    assert kafka.ever == set()


def test_a_reassignment_of_another_is_left_alone(run: Callable[..., Outcome]) -> None:
    kafka = FakeKafka({**NOW, "u-0": [1, 2]})
    kafka.reassign({Key("u", 0): [1, 3]})
    kafka.kill(3)
    kafka.calls.clear()
    with pytest.raises(InvalidInput, match=r"u-0 is being reassigned already.*3, which is dead"):
        run(kafka, {"t-0": [4, 2, 1]})
    assert kafka.calls == []


def test_cancel_takes_back_all_or_those_of_a_file(tmp_path: Path) -> None:
    kafka = FakeKafka({**NOW, "u-0": [1, 2]})
    kafka.reassign({Key("u", 0): [1, 3], Key("t", 0): [4, 2, 1]})
    kafka.alter("broker", {EVERY: {RATES[0]: "9"}, "1": {RATES[0]: "9"}})
    kafka.kill(4)
    assert cancel(kafka, load_reassignment(str(file(tmp_path, THEN)))) == [Key("t", 0)]
    assert kafka.throttled == []
    kafka.reassign({Key("u", 0): [1, 3]})
    assert cancel(kafka, None) == [Key("u", 0)]
    assert kafka.at[Key("u", 0)].replicas == [1, 2]


def test_a_revert_cancels_what_is_under_way(run: Callable[..., Outcome], tmp_path: Path) -> None:
    kafka = FakeKafka(NOW, takes=9)
    run(kafka, THEN, wait=12)
    kafka.reassign({Key("t", 7): [4, 2, 1]})  # as after a kill
    assert revert(
        kafka, load_reassignment(str(tmp_path / "r.json")), Clock().settings()
    ).verdict.holds
    assert all(one.replicas == [1, 2, 3] for one in kafka.at.values())


def test_two_at_once(run: Callable[..., Outcome]) -> None:
    kafka = FakeKafka(NOW, id="locked")
    script = (
        "import sys; from streamplace.clusters.kafka.submit import alone\n"
        "with alone('locked'): print(1, flush=True); sys.stdin.read()"
    )
    import subprocess
    import sys

    held = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert held.stdout is not None and held.stdout.readline()
    with pytest.raises(InvalidInput, match="another streamplace is changing this cluster"):
        run(kafka, THEN)
    assert kafka.calls == []
    held.communicate()
    with alone("locked"):
        pass


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    made = FakeKafka({"t-0": [1, 2], "t-1": [1, 2], "t-2": [1, 2]}, count=3)
    monkeypatch.setattr("streamplace.clusters.kafka.importer.KafkaAdmin", lambda *_: made)
    monkeypatch.setattr("streamplace.clusters.kafka.admin.KafkaAdmin", lambda *_: made)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    return made


def test_the_round_on_the_command_line(
    kafka: FakeKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    k, p, r = (str(tmp_path / f"{name}.json") for name in "kpr")
    address = "fake:9092"
    assert main(["import", "kafka", address, "-o", k, "-q"]) == 0
    assert json.loads(Path(k).read_text())["labels"]["cluster"] == kafka.id
    assert main(["solve", k, "-o", p, "-q"]) == 0
    assert main(["export", "kafka", k, p, "-o", r, "-q"]) == 0
    assert main(["verify", "kafka", address, r]) == 1
    capsys.readouterr()
    assert main(["submit", "kafka", address, r, "--dry-run", "--throttle", "10"]) == 0
    assert "s at least" in capsys.readouterr().err
    assert kafka.calls == []
    assert main(["submit", "kafka", address, r, "--throttle", "10", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"]["holds"] and answer["verdict"]["throttled"] == []
    assert main(["verify", "kafka", address, p]) == 0
    assert main(["revert", "kafka", address, r, "-q"]) == 0
    assert all(one.replicas == [1, 2] for one in kafka.at.values())
    assert main(["revert", "kafka", address, "--cancel"]) == 0
    assert main(["submit", "kafka", address, p]) == 2
    assert main(["submit", "kafka", address]) == 2
    assert main(["revert", "kafka", address]) == 2
    kafka.id = "other"
    assert main(["submit", "kafka", address, r]) == 2
    assert "is of another cluster than fake:9092" in capsys.readouterr().err
    assert kafka.closed


def test_verify_looks_once(kafka: FakeKafka, tmp_path: Path) -> None:
    """What is deleted after that look is neither compared nor elected."""
    plan, elected = tmp_path / "r.json", tmp_path / "e.json"
    lists = [{"topic": "t", "partition": i, "replicas": [1, 2]} for i in range(3)]
    plan.write_text(json.dumps({"version": 1, "partitions": lists}))
    kafka.events[2] = kafka.at.clear
    words = ["verify", "kafka", "fake:9092", str(plan), "--election", str(elected)]
    assert main(words) == 0


def test_nothing_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("kafka")
    path = file(tmp_path, NOW)
    words = ["submit", "kafka", "127.0.0.1:9", str(path), "--timeout", "0.5"]
    assert main(words) == 2
    assert "127.0.0.1:9 does not answer in time" in capsys.readouterr().err


def test_files_that_are_no_reassignment(tmp_path: Path) -> None:
    path = file(tmp_path, NOW)
    path.with_suffix(".election.json").write_text("[]")
    with pytest.raises(InvalidInput, match=r"r.election.json is no list of partitions to elect"):
        load_reassignment(str(path))


def test_settings_of_a_secured_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    api = pytest.importorskip("kafka.admin")
    from streamplace.clusters.kafka.admin import client_settings

    config = tmp_path / "client.properties"
    config.write_text(
        "# of mine\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.cafile=ca.pem\n"
        'sasl.jaas.config=o.a.PlainLoginModule required username="u" password="p";\n'
    )
    assert client_settings(str(config), api) == {
        "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "ssl_cafile": "ca.pem",
        "sasl_plain_username": "u", "sasl_plain_password": "p",
    }  # fmt: skip
    config.write_text("ssl.truststore.location=x.jks\n")
    words = ["import", "kafka", "127.0.0.1:9", "--option", f"command_config={config}"]
    assert main(words) == 2
    assert (
        "client.properties:1: 'ssl.truststore.location' is not supported" in capsys.readouterr().err
    )
