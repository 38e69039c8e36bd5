"""What is exported is what was planned, lasts, and changes nothing needlessly; what Kafka tells."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from optim import Instance, Plan, solve
from optim.errors import InvalidInput
from streamplace.cli.main import main
from streamplace.clusters.exchange.sources import Exported, Imported, export_plan, import_instance
from tests.streamplace.clusters.kafka.folders import Line, write_folder
from tests.streamplace.clusters.test_kafka import lists

DRIFTED = {
    "t-0": Line([2, 1], leader=1),
    "t-1": Line([1, 2], leader=2),
    "t-2": Line([1, 2], leader=1),
    "t-3": Line([2, 1], leader=1),
    "t-4": Line([1, 2], leader=1),
    "t-5": Line([2, 1], leader=1),
}
"""Five leaders on broker 1, of which three are not the first of their list."""


def brokers(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": i, **more} for i in range(1, count + 1)]


def imported(folder: Path, **options: str) -> Imported:
    return import_instance("kafka", [str(folder)], list(options.items()))


def stays(instance: Instance) -> Plan:
    return Plan.from_indices(instance, instance.tasks.node, None, "m", {})


def planned(instance: Instance) -> Plan:
    plan = solve(instance).plan
    assert plan is not None
    return plan


def lists_after(partitions: dict[str, Line], exported: Exported) -> dict[str, list[int]]:
    return {n: list(p.replicas) for n, p in partitions.items()} | lists(exported.texts[""])


@pytest.mark.parametrize("mode", ["leaders", "rebalance"])
def test_planned_leaders_last_beyond_the_next_election(mode: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path, DRIFTED, brokers(2))
    instance = imported(folder, mode=mode, balance="leaders").instance
    result = solve(instance)
    assert result.plan is not None
    assert result.objective is not None
    assert result.objective.value == 0
    exported = export_plan("kafka", instance, result.plan)
    after = lists_after(DRIFTED, exported)
    assert Counter(replicas[0] for replicas in after.values()) == {1: 3, 2: 3}
    changed = [n for n, p in DRIFTED.items() if after[n][0] != (p.leader or p.replicas[0])]
    assert len(changed) == 2  # the fewest
    elected = json.loads(exported.texts[".election.json"])["partitions"]
    assert [f"t-{e['partition']}" for e in elected] == changed


@pytest.mark.parametrize("mode", ["leaders", "rebalance", "add-broker", "dead-broker"])
def test_every_list_has_the_planned_leader_first(mode: str, tmp_path: Path) -> None:
    partitions = {
        "t-0": Line([2, 1, 3], leader=1, isr=[1, 3] if mode == "dead-broker" else None),
        "t-1": Line([3, 1, 4], leader=4),
    }
    dead = [{"id": 2, "alive": False}] if mode == "dead-broker" else [{"id": 2}]
    folder = write_folder(tmp_path, partitions, [{"id": 1}, *dead, {"id": 3}, {"id": 4}])
    options = {"brokers": "4"} if mode == "add-broker" else {}
    instance = imported(folder, mode=mode, **options).instance
    plan = planned(instance) if mode == "dead-broker" else stays(instance)
    exported = export_plan("kafka", instance, plan)
    assert lists(exported.texts[""])["t-0"][:2] in ([1, 2], [1, 4], [1, 3])
    assert mode == "dead-broker" or lists(exported.texts[""])["t-1"] == [4, 3, 1]
    assert ".election.json" not in exported.texts
    assert any("only put the present leader first" in t for t in exported.ledger.readings) == (
        mode != "dead-broker"
    )


def test_a_list_with_a_dead_broker_is_not_reordered(tmp_path: Path) -> None:
    partitions = {"t-0": Line([2, 1, 3], leader=1, isr=[1, 2]), "t-1": Line([2, 1], leader=1)}
    folder = write_folder(tmp_path, partitions, [*brokers(2), {"id": 3, "alive": False}])
    instance = imported(folder, mode="leaders").instance
    assert lists(export_plan("kafka", instance, stays(instance)).texts[""]) == {"t-1": [1, 2]}
    plan = Plan(instance.name, {"t-0": "2", "t-1": "1"})
    exported = export_plan("kafka", instance, plan)
    assert lists(exported.texts[""]) == {"t-1": [1, 2]}
    elected = json.loads(exported.texts[".election.json"])["partitions"]
    assert elected == [{"topic": "t", "partition": 0}]


@pytest.mark.parametrize(
    ("mode", "lines", "told"),
    [
        ("leaders", {"t-0": Line([1, 2, 3]), "t-1": Line([1])}, "a dead replica: t-0 "),
        ("leaders", {"t-0": Line([1, 2], isr=[1]), "t-1": Line([1])}, "elected: t-0 "),
        ("leaders", {"t-0": Line([1]), "t-1": Line([2])}, "no partition (nothing is to be done"),
        ("demote", {"t-0": Line([1, 2, 3], leader=2)}, "a dead replica: t-0 "),
        ("demote", {"t-0": Line([1, 2, 3])}, "a dead replica: t-0 "),
        ("demote", {"t-0": Line([1, 3])}, "elected: t-0 "),
        ("demote", {"t-0": Line([1])}, "elected: t-0"),
        ("demote", {"t-0": Line([2, 1, 3])}, "no partition (nothing is to be done"),
    ],
)
def test_leaders_that_cannot_change_are_not_called_good(
    mode: str, lines: dict[str, Line], told: str, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path, lines, [*brokers(2), {"id": 3, "alive": False}])
    options = {"brokers": "1"} if mode == "demote" else {}
    with pytest.raises(InvalidInput) as refused:
        imported(folder, mode=mode, **options)
    assert told in f"{refused.value} "
    assert ("nothing is to be done" in told) == ("nothing is to be done" in str(refused.value))


def test_leaders_that_cannot_change_are_named_beside_those_that_can(tmp_path: Path) -> None:
    lines = {"t-0": Line([1, 2, 3]), "t-1": Line([1, 2])}
    folder = write_folder(tmp_path, lines, [*brokers(2), {"id": 3, "alive": False}])
    made = imported(folder, mode="leaders")
    assert made.instance.tasks.ids == ("t-1",)
    assert any("no other leader, Kafka takes no other" in w for w in made.ledger.warnings)


MOVING = "Adding Replicas: 4\tRemoving Replicas: 2"


@pytest.mark.parametrize("dead", [False, True])
def test_what_is_being_reassigned_is_left_out(dead: bool, tmp_path: Path) -> None:
    partitions = {
        "t-0": Line([1, 3, 4, 2], isr=[1, 3, 2], more=MOVING),
        "t-1": Line([3, 4] if dead else [3, 1], isr=[3] if dead else None),
    }
    told = brokers(5)
    told[3]["alive"] = not dead
    folder = write_folder(tmp_path, partitions, told)
    made = imported(folder, mode="dead-broker" if dead else "rebalance")
    assert made.instance.tasks.ids == ("t-1#1", "t-1#2")
    (text,) = (t for t in made.ledger.warnings if "being reassigned, not planned: t-0" in t)
    assert ("while broker 4 is dead" in text) == dead
    assert ("--cancel" in text) == dead
    held = made.instance.nodes.background[:, 0] > 0  # by its target list
    names = [n for n, h in zip(made.instance.nodes.ids, held, strict=True) if h]
    assert names == (["1", "3"] if dead else ["1", "3", "4"])


def test_where_all_is_being_reassigned_that_is_the_reason(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, {"t-0": Line([1, 2, 3], more=MOVING)}, brokers(4))
    with pytest.raises(InvalidInput, match="changes no partition; being reassigned"):
        imported(folder)
    more = "Adding Replicas: x\tRemoving Replicas: 2"
    folder = write_folder(tmp_path / "b", {"t-0": Line([1, 2, 3], more=more)}, brokers(4))
    with pytest.raises(InvalidInput, match=r"topics\.txt:2 is no list of brokers: Adding"):
        imported(folder)


def test_leaders_alone_are_not_held_to_disks_they_do_not_change(tmp_path: Path) -> None:
    partitions = {f"t-{i}": Line([1, 2 + i % 2]) for i in range(4)}
    told = [{"id": i, "capacity": {"disk": d}} for i, d in ((1, 250), (2, 1000), (3, 1000))]
    folder = write_folder(tmp_path, partitions, told)
    instance = imported(folder, mode="leaders").instance
    assert instance.resources == ("leaders",)
    result = solve(instance)
    assert result.plan is not None
    assert result.evaluation is not None
    assert result.evaluation.feasible
    assert max(Counter(result.plan.assignment.values()).values()) == 2
    with pytest.raises(InvalidInput, match=r"--option balance: 'disk' does not change by who lea"):
        imported(folder, mode="leaders", balance="disk")


def test_a_factor_below_the_least_in_sync_is_warned_of(tmp_path: Path) -> None:
    partitions = {"t-0": Line([1, 2, 3])}
    configs = "cleanup.policy=delete,min.insync.replicas=2"
    folder = write_folder(tmp_path, partitions, brokers(3), configs=configs)
    told = imported(folder, mode="trim", factor="1").ledger.warnings
    assert any("fewer replicas than min.insync.replicas of t (2)" in text for text in told)
    told = imported(folder, mode="trim", factor="2").ledger.warnings
    assert not any("min.insync" in text for text in told)


def test_a_plan_that_fills_a_disk_is_warned_of(tmp_path: Path) -> None:
    told = [{"id": i, "capacity": {"disk": d}} for i, d in ((1, 400), (2, 100), (3, 150))]
    partitions = {"t-0": Line([1]), "t-1": Line([3], size=60)}
    folder = write_folder(tmp_path, partitions, told)
    instance = imported(folder).instance
    plan = Plan(instance.name, {"t-0#1": "2", "t-1#1": "3"})
    (text,) = export_plan("kafka", instance, plan).ledger.warnings
    assert text.startswith("the plan fills the disk of broker 2 to 100 %")
    assert not export_plan("kafka", instance, stays(instance)).ledger.warnings[1:]
    swapped = Plan(instance.name, {"t-0#1": "3", "t-1#1": "1"})
    (text,) = export_plan("kafka", instance, swapped).ledger.warnings
    assert "which takes of the disk of broker 3 107 %" in text


FAILED = "org.apache.kafka.common.errors.KafkaStorageException"


def failed_disk(folder: Path, capacity: float = 1000) -> Path:
    partitions = {
        "t-0": Line([1, 3], isr=[1]),
        "t-1": Line([3, 2], leader=2, isr=[2]),
        "t-2": Line([3, 1]),
    }
    told = brokers(4, capacity={"disk": capacity})
    return write_folder(folder, partitions, told, failed={3: FAILED})


@pytest.mark.parametrize("mode", ["dead-broker", "rebalance"])
def test_what_was_on_a_failed_disk_is_made_anew_elsewhere(mode: str, tmp_path: Path) -> None:
    folder = failed_disk(tmp_path)
    made = imported(folder, mode=mode)
    told = "broker 3: log dir /d2 failed: its replicas there are lost, its disk counts 500 of 1,000"
    assert told in made.ledger.warnings
    nodes = made.instance.nodes
    assert nodes.capacity[nodes.index["3"], 0] == 500
    assert not nodes.leaving.any()
    after = lists(export_plan("kafka", made.instance, planned(made.instance)).texts[""])
    assert 3 not in after["t-0"]
    assert 3 not in after["t-1"]
    assert after["t-0"][0] == 1
    assert after["t-1"][0] == 2
    if mode == "dead-broker":
        assert "t-2" not in after
    else:
        index = made.instance.tasks.index["t-2#1"]
        assert index not in made.instance.copy_nodes or made.instance.tasks.node[index] == 2


def test_a_failed_disk_is_told_in_other_modes(tmp_path: Path) -> None:
    made = imported(failed_disk(tmp_path), mode="leaders")
    assert any(
        "lost with a failed disk, and stays so: t-0, t-1;" in t for t in made.ledger.warnings
    )


def test_a_broker_all_of_whose_disks_failed_is_dead(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, {"t-0": Line([1, 2], isr=[1])}, brokers(3))
    logs = json.loads((folder / "log-dirs.json").read_text())
    (entry,) = (b for b in logs["brokers"] if b["broker"] == 2)
    entry["logDirs"] = [{"logDir": "/d", "error": FAILED, "partitions": []}]
    (folder / "log-dirs.json").write_text(json.dumps(logs))
    made = imported(folder, mode="dead-broker")
    assert any("it has no other: taken for dead" in text for text in made.ledger.warnings)
    after = lists(export_plan("kafka", made.instance, planned(made.instance)).texts[""])
    assert after == {"t-0": [1, 3]}


def test_an_empty_broker_is_seen_by_its_log_dirs(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, {"t-0": Line([1]), "t-1": Line([1])})
    logs = json.loads((folder / "log-dirs.json").read_text())
    logs["brokers"].append({"broker": 2, "logDirs": [{"logDir": "/d", "partitions": []}]})
    (folder / "log-dirs.json").write_text(json.dumps(logs))
    assert imported(folder).instance.nodes.ids == ("1", "2")


def test_no_throttle_is_advised_where_a_dead_broker_is_in_the_lists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = brokers(4)
    told[1]["alive"] = False
    folder = write_folder(tmp_path / "k", {"t-0": Line([1, 2, 3], isr=[1, 3])}, told)
    k, p, r = (str(tmp_path / f"{name}.json") for name in "kpr")
    words = ["--option", "mode=dead-broker", "-o", k, "-q"]
    assert main(["import", "kafka", str(folder), *words]) == 0
    assert main(["solve", k, "-o", p, "-q"]) == 0
    capsys.readouterr()
    assert main(["export", "kafka", k, p, "-o", r]) == 0
    text = capsys.readouterr().err
    assert "reading: no --throttle: the tool would wait for broker 2" in text
    assert "--throttle BYTES" not in text
    assert "--execute; --verify" in text


def test_steps_make_lists_shorter_though_nothing_moves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_folder(tmp_path / "k", {f"t-{i}": Line([1, 2, 3]) for i in range(3)}, brokers(3))
    k, p, s = (str(tmp_path / f"{name}.json") for name in "kps")
    words = ["--option", "mode=trim", "--option", "factor=2", "-o", k, "-q"]
    assert main(["import", "kafka", str(folder), *words]) == 0
    stays(Instance.load(k)).save(p)
    capsys.readouterr()
    assert main(["steps", k, p, "-o", s, "--files", "kafka"]) == 0
    assert "3 partitions change the list of replicas without a move" in capsys.readouterr().out
    (file,) = sorted(Path(f"{s}.run").glob("batch-*.json"))
    assert lists(file.read_text()) == {f"t-{i}": [1, 2] for i in range(3)}
    assert main(["steps", k, p, "-o", s, "--files", "kafka", "--rollback", "1"]) == 0
    assert lists(file.read_text()) == {f"t-{i}": [1, 2, 3] for i in range(3)}


def test_the_way_back_of_shorter_lists_and_moves_ends_with_the_lists_of_now(tmp_path: Path) -> None:
    partitions = {"t-0": Line([1, 2, 3]), "t-1": Line([2, 3, 1]), "u-0": Line([3, 1], leader=1)}
    folder = write_folder(tmp_path / "k", partitions, brokers(4))
    whole = imported(folder, mode="trim", factor="2").instance
    k, p, s = (str(tmp_path / f"{name}.json") for name in "kps")
    whole.save(k)
    at = {n: whole.nodes.ids[i] for n, i in zip(whole.tasks.ids, whole.tasks.node, strict=True)}
    Plan(whole.name, {**at, "t-0#2": "4"}).save(p)
    ways = {}
    for done in (None, 1):
        back = [] if done is None else ["--rollback", str(done)]
        assert main(["steps", k, p, "-o", s, "--files", "kafka", "-q", *back]) == 0
        (file,) = sorted(Path(f"{s}.run").glob("batch-????.json"))
        ways[done] = lists(file.read_text())
    assert ways[1] == {name: list(partitions[name].replicas) for name in ways[None]}
    assert {"t-0", "t-1"} <= ways[1].keys()


def test_steps_move_one_replica_of_a_partition_at_a_time(tmp_path: Path) -> None:
    partitions = {"t-0": Line([1, 2, 3]), "t-1": Line([6, 1], leader=1)}
    folder = write_folder(tmp_path / "k", partitions, brokers(6))
    instance = imported(folder).instance
    at = {"t-0#1": "4", "t-0#2": "5", "t-0#3": "6", "t-1#1": "1", "t-1#2": "6"}
    k, p, s = (str(tmp_path / f"{name}.json") for name in "kps")
    instance.save(k)
    Plan(instance.name, at).save(p)
    assert main(["steps", k, p, "-o", s, "--files", "kafka", "--per-node", "9", "-q"]) == 0
    files = sorted(Path(f"{s}.run").glob("batch-????.json"))
    now, first = {n: set(x.replicas) for n, x in partitions.items()}, []
    for file in files:
        for name, replicas in lists(file.read_text()).items():
            assert len(set(replicas) - now[name]) <= 1
            assert len(replicas) == len(now[name])
            now[name] = set(replicas)
            first.append((name, replicas[0]))
    assert now == {"t-0": {4, 5, 6}, "t-1": {1, 6}}
    assert first.count(("t-1", 1)) == 1  # the present leader comes first, once


def test_steps_of_kafka_are_few(tmp_path: Path) -> None:
    partitions = {f"t-{i}": Line([1, 2]) for i in range(8)}
    instance = imported(write_folder(tmp_path / "k", partitions, brokers(3))).instance
    k, p, s = (str(tmp_path / f"{name}.json") for name in "kps")
    instance.save(k)
    at = {f"t-{i}#{j}": str(2 * j - 1) for i in range(8) for j in (1, 2)}  # all 2 → 3
    Plan(instance.name, at).save(p)
    assert main(["steps", k, p, "-o", s, "-q"]) == 0
    batches = json.loads(Path(s).read_text())["batches"]
    assert list(map(len, batches)) == [5, 3]


def test_verify_writes_who_is_to_be_elected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, elect = tmp_path / "p.json", tmp_path / "e.json"
    Plan("k", {"t-0": "2", "t-1": "1", "t-2": "1"}).save(str(plan))
    partitions = {
        "t-0": Line([2, 1], leader=1),  # left its leader when that died
        "t-1": Line([2, 1], leader=2),  # an election does not help
        "t-2": Line([2, 1], leader=1),  # does not last
    }
    describe = str(write_folder(tmp_path / "k", partitions) / "topics.txt")
    words = ["verify", "kafka", str(plan), "--describe", describe, "--election", str(elect)]
    assert main(words) == 1
    assert json.loads(elect.read_text()) == {"partitions": [{"topic": "t", "partition": 0}]}
    assert "t-2: first of its list 2, planned 1" in capsys.readouterr().out


ENDPOINTS = """\
ID         HOST      PORT       RACK STATE      ENDPOINT_TYPE
1          127.0.0.1 33877      r1 unfenced   broker
2          127.0.0.1 42953      r2 fenced     broker
3          127.0.0.1 36217      null unfenced   broker
4          127.0.0.1 45013      unfenced   broker
"""


def test_racks_and_life_of_all_brokers_are_read_from_the_endpoints(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, {"t-0": Line([1, 2], isr=[1])})
    (folder / "endpoints.txt").write_text(ENDPOINTS)
    nodes = imported(folder, mode="dead-broker").instance.nodes
    assert nodes.ids == ("1", "2", "3", "4")
    assert [nodes.leaving[nodes.index[n]] for n in nodes.ids] == [False, True, False, False]
    assert [nodes.rack_ids[r] for r in nodes.rack] == ["r1", "r2", "of 3", "of 4"]
    capacity = [{"id": 2, "capacity": {"disk": 500}}, {"id": 1, "rack": "r9", "alive": False}]
    (folder / "brokers.json").write_text(json.dumps(capacity))
    with pytest.raises(InvalidInput, match="t-0"):  # 1 is taken for dead: nobody leads
        imported(folder, mode="dead-broker")


@pytest.mark.parametrize(
    "text, told",
    [
        ("", "endpoints.txt lacks the line ID HOST PORT"),
        (ENDPOINTS + "1 h 9 r1 unfenced broker\n", "endpoints.txt:6: 1 stands twice"),
        (ENDPOINTS.replace("fenced     b", "asleep     b"), "endpoints.txt:3: .* no broker's line"),
        (ENDPOINTS + "Timed out\n", "endpoints.txt:6: .* no broker's line"),
    ],
)
def test_endpoints_that_are_none(text: str, told: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path, {"t-0": Line([1, 2])})
    (folder / "endpoints.txt").write_text(text)
    with pytest.raises(InvalidInput, match=told):
        imported(folder)


def test_throttles_that_were_left_are_warned_of(tmp_path: Path) -> None:
    configs = "min.insync.replicas=2,leader.replication.throttled.replicas=0:1"
    made = imported(
        write_folder(tmp_path, {"t-0": Line([1, 2], size=9)}, brokers(3), configs=configs)
    )
    assert any("throttled replicas are set of topic t:" in t for t in made.ledger.warnings)


def test_verify_reads_a_pipe(tmp_path: Path) -> None:
    plan = tmp_path / "p.json"
    Plan("k", {"t-0": "2"}).save(str(plan))
    folder = write_folder(tmp_path / "k", {"t-0": Line([2, 1])})
    read, write = os.pipe()
    os.write(write, (folder / "topics.txt").read_bytes())
    os.close(write)
    assert main(["verify", "kafka", str(plan), "--describe", f"/dev/fd/{read}"]) == 0
    os.close(read)
