"""Batches carried out by commands and on a Kafka in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from optim.errors import ExitCode, InvalidInput
from streamplace.cli.main import main
from streamplace.execute.batches import Journal
from tests.streamplace.clusters.kafka.fake import FakeKafka

MOVES = {"a-0": "3", "b-0": "1", "c-0": "2"}


class Cluster:
    """Three brokers in a ring of moves that only go one after the other, on a Kafka in memory."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        homes = {"a-0": [1, 4], "b-0": [2, 4], "c-0": [3, 4]}
        self.kafka = FakeKafka(homes, id=folder.name)
        monkeypatch.setattr("streamplace.clusters.kafka.admin.KafkaAdmin", lambda *_: self.kafka)
        tasks = [
            {"id": name, "load": {"disk": 6}, "node": str(lists[0]), "allowed": ["1", "2", "3"],
             "labels": {"topic": name[0], "partition": "0", "replicas": ",".join(map(str, lists))}}
            for name, lists in homes.items()
        ]  # fmt: skip
        nodes = [{"id": str(n), "capacity": {"disk": 10}} for n in (1, 2, 4)]
        nodes.insert(2, {"id": "3", "capacity": {"disk": 13}})
        ring = {"name": "ring", "resources": ["disk"], "nodes": nodes, "tasks": tasks}
        self.dump("kafka.json", {"format": "streamplace.instance/1", **ring})
        plan = {"format": "streamplace.plan/1", "instance": "ring", "assignment": MOVES}
        self.dump("plan.json", plan)
        assert self.call("steps", "kafka.json", "plan.json", "-o", "steps.json") == 0

    def dump(self, name: str, document: Any) -> None:
        (self.folder / name).write_text(json.dumps(document))

    @property
    def lists(self) -> dict[str, list[int]]:
        return {str(key): one.replicas for key, one in self.kafka.at.items()}

    @property
    def leaders(self) -> dict[str, int | None]:
        return {str(key): one.leader for key, one in self.kafka.at.items()}

    @property
    def calls(self) -> list[str]:
        return [name for name, to in self.kafka.calls if to is not None]

    def words(self, *words: str) -> list[str]:
        return [str(self.folder / w) if w.endswith(".json") else w for w in words]

    def call(self, *words: str) -> int:
        return main(self.words(*words))

    def run(self, steps: str = "steps.json") -> int:
        server = ("--bootstrap-server", "b:9092", "--poll", "0.01", "--patience", "0.1")
        return self.call("run-steps", "kafka", "kafka.json", steps, *server)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path, monkeypatch)


def test_kafka_batch_by_batch_and_back(cluster: Cluster) -> None:
    assert cluster.run() == ExitCode.OK
    assert cluster.lists == {"a-0": [3, 4], "b-0": [1, 4], "c-0": [2, 4]}
    assert len(cluster.calls) == 3
    calls = len(cluster.calls)
    assert cluster.run() == ExitCode.OK  # nothing is left to do
    assert len(cluster.calls) == calls
    words = ("steps", "kafka.json", "plan.json", "--rollback", "2", "-o", "back.json")
    assert cluster.call(*words) == ExitCode.OK
    back = json.loads((cluster.folder / "back.json").read_text())
    assert [[m["task"] for m in batch] for batch in back["batches"]] == [["b-0"], ["a-0"]]
    cluster.kafka = FakeKafka({"a-0": [3, 4], "b-0": [1, 4], "c-0": [3, 4]})
    assert cluster.run("back.json") == ExitCode.OK
    assert cluster.lists == {"a-0": [1, 4], "b-0": [2, 4], "c-0": [3, 4]}


def test_two_replicas_change_places_in_one_batch(cluster: Cluster) -> None:
    label = {"topic": "d", "partition": "0", "replicas": "1,2", "leader": "1"}
    tasks = [
        {"id": f"d-0#{i}", "load": {"disk": 6}, "node": str(i), "copies": ["1", "2"], "state": 6,
         "labels": {**label, "role": role}}
        for i, role in ((1, "leader"), (2, "follower"))
    ]  # fmt: skip
    nodes = [{"id": str(n), "capacity": {"disk": 10}} for n in (1, 2, 3)]
    apart = {"id": "d-0", "tasks": ["d-0#1", "d-0#2"], "rule": "apart"}
    swap = {"name": "swap", "resources": ["disk"], "nodes": nodes, "tasks": tasks, "sets": [apart]}
    cluster.dump("kafka.json", {"format": "streamplace.instance/1", **swap})
    assignment = {"d-0#1": "2", "d-0#2": "1"}
    plan = {"format": "streamplace.plan/1", "instance": "swap", "assignment": assignment}
    cluster.dump("plan.json", plan)
    words = ("steps", "kafka.json", "plan.json", "--no-parking", "--copy-rate", "1")
    assert cluster.call(*words, "-o", "swap-steps.json") == ExitCode.OK
    written = json.loads((cluster.folder / "swap-steps.json").read_text())
    assert (written["exchanged"], written["seconds"]) == ([["d-0#1", "d-0#2"]], [0.0])
    cluster.kafka = FakeKafka({"d-0": [1, 2]})
    assert cluster.run("swap-steps.json") == ExitCode.OK
    assert (cluster.lists, cluster.leaders) == ({"d-0": [2, 1]}, {"d-0": 2})
    described = cluster.folder / "topics.txt"
    described.write_text(
        "Topic: d\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: \n"
        "\tTopic: d\tPartition: 0\tLeader: 2\tReplicas: 2,1\tIsr: 1,2\n"
    )
    assert cluster.call("verify", "kafka", "plan.json", "--describe", str(described)) == ExitCode.OK


def test_a_failed_batch_stops_the_run_and_it_goes_on_there(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.kafka.events = {3: lambda: cluster.kafka.kill(1)}  # the target of the second batch
    assert cluster.run() == ExitCode.NO_PLAN
    assert cluster.lists == {"a-0": [3, 4], "b-0": [2, 4], "c-0": [3, 4]}
    assert "batch 2: " in capsys.readouterr().err
    assert cluster.run() == ExitCode.NO_PLAN
    assert "1 is a dead broker" in capsys.readouterr().err
    cluster.kafka.start(1)
    assert cluster.run() == ExitCode.OK
    assert cluster.lists == {"a-0": [3, 4], "b-0": [1, 4], "c-0": [2, 4]}


def test_no_partition_loses_a_replica(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    short = json.dumps({"partitions": [{"topic": "a", "partition": 0, "replicas": [3]}]})
    monkeypatch.setattr("streamplace.execute.batches.batch_files", lambda *rest: [{"": short}])
    assert cluster.run() == ExitCode.NO_PLAN
    assert cluster.calls == []


def test_an_address_is_needed(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert cluster.call("run-steps", "kafka", "kafka.json", "steps.json") == 2
    assert "--bootstrap-server is missing" in capsys.readouterr().err
    assert cluster.calls == []


def test_commands_and_their_journal(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    log = cluster.folder / "log"
    script = cluster.folder / "move.py"
    script.write_text(
        "import json, os, sys\n"
        "moves = [m['task'] for m in json.load(open(sys.argv[1]))['moves']]\n"
        "again = os.environ['STREAMPLACE_AGAIN']\n"
        f"print(sys.argv[2], moves, again, file=open({str(log)!r}, 'a'))\n"
        "sys.exit(sys.argv[2] == '2' and again == '0')\n"
    )
    words = ("run-steps", "command", "kafka.json", "steps.json")
    run = ("--run", f"{sys.executable} -IS {script} {{file}} {{batch}}")
    assert cluster.call(*words, *run) == ExitCode.NO_PLAN
    assert "batch 2" in capfd.readouterr().err
    assert cluster.call(*words, *run) == ExitCode.OK
    lines = log.read_text().splitlines()
    assert lines == ["1 ['a-0'] 0", "2 ['b-0'] 0", "2 ['b-0'] 1", "3 ['c-0'] 0"]
    journal = json.loads((cluster.folder / "steps.json.run" / "journal.json").read_text())
    assert (journal["done"], journal["running"]) == (3, False)
    other = json.loads((cluster.folder / "steps.json").read_text())
    other["batches"][0][0]["from"] = "2"
    cluster.dump("steps.json", other)
    capfd.readouterr()
    assert cluster.call(*words, *run) == ExitCode.USAGE
    told = capfd.readouterr().err
    assert "holds another run: steps_sha256 is" in told
    assert "name another --folder" in told


@pytest.mark.parametrize(
    "content", ["", "[]", '{"done": 1}', '{"done": -1, "running": false}', '{"done": true}']
)
def test_a_damaged_journal(content: str, tmp_path: Path) -> None:
    Journal(tmp_path, "0" * 64).end()
    assert Journal(tmp_path, "0" * 64).done == 1
    known = json.loads((tmp_path / "journal.json").read_text())
    assert known == {"steps_sha256": "0" * 64, "done": 1, "running": False}
    if content.startswith("{"):
        content = json.dumps({"steps_sha256": "0" * 64, "running": "yes"} | json.loads(content))
    (tmp_path / "journal.json").write_text(content)
    with pytest.raises(InvalidInput, match="name another --folder"):
        Journal(tmp_path, "0" * 64)


def test_a_journal_is_held_until_the_command_of_a_killed_run_ends(tmp_path: Path) -> None:
    journal, waited = Journal(tmp_path, "0" * 64), []
    with journal.locked(lambda: None) as handle:
        child = subprocess.Popen(["sleep", "0.5"], pass_fds=(handle,))
    with Journal(tmp_path, "0" * 64).locked(lambda: waited.append(child.poll())):
        assert child.wait(10) == 0
    assert waited == [None]


def test_no_order_says_why(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads((cluster.folder / "kafka.json").read_text())
    document["nodes"][2]["capacity"]["disk"] = 10
    cluster.dump("tight.json", document)
    words = ("steps", "tight.json", "plan.json")
    assert cluster.call(*words, "--no-parking", "--json") == ExitCode.INFEASIBLE
    answer = json.loads(capsys.readouterr().out)
    assert (answer["found"], answer["batches"]) == (False, [])
    assert answer["proven_no_order_without_parking"]
    first = answer["blocked"][0]
    assert (first["rule"], first["where"], first["needed"], first["available"]) == (
        "capacity", "3.disk", 12.0, 10.0
    )  # fmt: skip
    assert [move["task"] for move in first["waits_for"]] == ["c-0"]
    assert cluster.call(*words) == ExitCode.NO_PLAN  # broker 4 may hold none of them
    assert "a-0 1 → 3: capacity at 3.disk needs 12, has 10" in capsys.readouterr().out
    for task in document["tasks"]:
        del task["allowed"]
    cluster.dump("tight.json", document)
    out = ("--copy-rate", "0.5", "-o", "parked.json", "--files", "moves")
    assert cluster.call(*words, *out) == ExitCode.OK
    assert "4 moves in 4 batches, 8.00 s of copying" in capsys.readouterr().out
    assert len(list((cluster.folder / "parked.json.run").iterdir())) == 4
