"""The folder of what Kafka's tools print, the operations, verifying, and random clusters."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optim import Instance, Plan, solve
from optim.errors import InvalidInput
from streamplace.cli.main import main
from streamplace.clusters.exchange.sources import Imported, export_plan, import_instance
from tests.streamplace.clusters.kafka import judge

EXAMPLE = Path(__file__).parents[4] / "examples" / "kafka"


def example(*options: tuple[str, str], folder: Path = EXAMPLE) -> Imported:
    return import_instance("kafka", [str(folder)], options)


def planned(instance: Instance, **more: Any) -> dict[str, Any]:
    result = solve(instance, "balance-search", tries=4, **more)
    assert result.plan is not None
    texts = export_plan("kafka", instance, result.plan, [("batches", "2")]).texts
    entries = json.loads(texts[""])["partitions"]
    lists = {f"{e['topic']}-{e['partition']}": e["replicas"] for e in entries}
    return {"lists": lists, "cost": result.evaluation.migration_cost, "texts": texts}


@pytest.mark.seeds(16)
@pytest.mark.parametrize("seed", range(70))
def test_what_is_exported_keeps_what_kafka_and_racks_demand(seed: int, tmp_path: Path) -> None:
    end, wrong = judge.run(seed, tmp_path)
    assert wrong == []
    assert end != "none"


@pytest.mark.slow
def test_so_do_many_more(tmp_path: Path) -> None:
    assert [s for s in range(70, 10_000) if judge.run(s, tmp_path)[1]] == []


def test_a_replica_is_a_task_with_the_load_of_its_role() -> None:
    made = example()
    instance = made.instance
    assert instance.resources == ("disk", "nw_in", "nw_out", "cpu")
    leader, follower = (instance.tasks.index[f"orders-1#{i}"] for i in (1, 2))
    size = 2819951374.0
    into = float(int(size / 20000))
    cpu = round(size / 2e9, 2)
    # what the leader sends: twice what comes in to consumers, and once to each of two followers
    assert instance.tasks.load[leader].tolist() == [size, into, 4 * into, cpu]
    told = instance.tasks.load[follower].tolist()
    assert told == [size, into, 0.0, pytest.approx(cpu * 0.3 / (0.6 + 0.4))]
    assert instance.tasks.migration_cost[follower] == size
    assert {instance.nodes.ids[n] for n in instance.copy_nodes[leader]} == {"1", "5"}
    assert instance.nodes.leaving.tolist() == [False] * 5 + [True]
    assert "offline, no living replica leads; not planned: audit-0" in made.ledger.warnings
    assert "audit-0#1" not in instance.tasks.index


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "topics.txt", tmp_path)
    made = example(folder=tmp_path)
    assert made.instance.resources == ("replicas",)
    assert made.instance.tasks.migration_cost.tolist() == [1.0] * 53
    for name in ("log-dirs.json", "brokers.json", "rates.csv"):
        assert any(name in text for text in made.ledger.readings)
    assert "broker 6 is in no ISR: taken for dead" in made.ledger.warnings
    assert not made.instance.sets.by_rack.any()
    (tmp_path / "topics.txt").unlink()
    with pytest.raises(InvalidInput, match=r"topics\.txt does not exist.*--describe"):
        example(folder=tmp_path)


def line(number: int, old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        lines = text.split("\n")
        assert old in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(old, new)
        return "\n".join(lines)

    return change


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("topics.txt", line(2, "Replicas: 1,2,5", "Replicas: 1,x"), r"txt:2: '1,x' is no list"),
        ("topics.txt", line(2, "Replicas: 1,2,5", "Replicas: 1,1"), r"txt:2: '1,1' lists a broker"),
        ("topics.txt", line(2, "Leader: 1", "Leader: 4"), r"txt:2: 4 leads orders-0"),
        ("topics.txt", line(2, "Isr:", "Sri:"), "txt:2: .* is no list of brokers"),
        (
            "topics.txt",
            line(2, "Isr: 1,2,5", "Isr: 1,2,9"),
            "txt:2: '1,2,9' are in sync, and not all",
        ),
        (
            "topics.txt",
            line(2, "\tElr: ", "\tRemoving Replicas: 1,2,5"),
            "txt:2: '1,2,5' are all replicas of orders-0, and being removed",
        ),
        ("topics.txt", line(3, "Partition: 1", "Partition: 0"), "'orders-0' stands twice"),
        (
            "topics.txt",
            line(1, "Count: 12", "Count: 13"),
            r"txt:1: 13 partitions are reported, and",
        ),
        ("topics.txt", lambda text: "hello\n" + text, "txt:1: 'hello' is no line of --describe"),
        ("topics.txt", lambda text: "", "holds no partition"),
        ("log-dirs.json", lambda text: "none", "log-dirs.json: 'none' holds no JSON"),
        ("log-dirs.json", lambda text: text.replace("orders-1", "orders"), "topic-number"),
        ("brokers.json", lambda text: text.replace('"id": 2', '"id": 1'), r"\[1\]\.id: 1 stands"),
        ("brokers.json", lambda text: text.replace("false", '"no"'), "neither true nor false"),
        (
            "brokers.json",
            lambda text: re.sub(r'"disk": [\d.e+]+', '"disk": "1 TB"', text),
            r"\[0\]\.capacity\.disk: '1 TB' is no number of at least 0",
        ),
        ("rates.csv", line(2, "orders,0", "orders,x"), "csv:2: 'orders-x' is no partition"),
        ("rates.csv", line(1, "topic,", "subject,"), "csv:1: .* lacks topic"),
        ("rates.csv", line(3, "orders,1,", "orders,1,-"), "csv:3: .* is no rate: bytes_in"),
        ("current.txt", lambda text: text.replace("[1,2,5]", "[1,2]"), "differs from"),
    ],
)
def test_bad_files_are_told_by_line(
    tmp_path: Path, name: str, change: Callable[[str], str], told: str
) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "kafka")
    (folder / name).write_text(change((folder / name).read_text()))
    with pytest.raises(InvalidInput, match=told):
        example(folder=folder)


def test_a_dead_broker_is_rebuilt_elsewhere_and_nothing_else_moves() -> None:
    made = planned(example(("mode", "dead-broker")).instance)
    assert set(made["lists"]) == {"orders-4", "clicks-6"}
    assert made["lists"]["orders-4"] == [3, 2, 5]  # the only other rack
    assert made["lists"]["clicks-6"][0] == 1  # who leads now goes on
    assert made["cost"] == 2921726022 + 16802160388


def test_a_way_back_to_a_dead_broker_is_told() -> None:
    instance = example(("mode", "dead-broker")).instance
    ids, dead = instance.tasks.ids, instance.nodes.index["6"]
    node = instance.tasks.node.copy()
    for task in np.flatnonzero(node == dead):
        node[task] = instance.nodes.index["5" if ids[task].startswith("orders") else "4"]
    plan = Plan.from_indices(instance, node, None, "m", {})
    readings = export_plan("kafka", instance, plan).ledger.readings
    assert any("refuses 2 of its 2 lists while broker 6 is dead" in told for told in readings)


def test_racks_are_mended_by_one_copy_a_doubled_replica() -> None:
    instance = example(("mode", "rack-repair")).instance
    assert set(planned(instance)["lists"]) == {"orders-0"}
    lists = planned(instance)["lists"]["orders-0"]
    assert lists[0] == 1
    assert 5 in lists
    assert {3, 4} & set(lists)


@pytest.mark.parametrize("mode", ["leaders", "demote"])
def test_leadership_alone_costs_nothing(mode: str) -> None:
    options = [("mode", mode)] + ([("brokers", "1")] if mode == "demote" else [])
    instance = example(*options).instance
    made = planned(instance)
    assert made["cost"] == 0
    assert made["lists"]
    rollback = json.loads(made["texts"][".rollback.json"])["partitions"]
    for entry in rollback:
        name = f"{entry['topic']}-{entry['partition']}"
        assert sorted(entry["replicas"]) == sorted(made["lists"][name])
        assert mode == "leaders" or made["lists"][name][0] != 1
    assert json.loads(made["texts"][".election.json"])["partitions"]


def test_the_replication_factor_is_changed() -> None:
    more = planned(example(("mode", "replication-factor"), ("factor", "2")).instance)["lists"]
    assert {len(replicas) for replicas in more.values()} == {2}
    assert more["audit-1"][0] == 2
    assert len(more["orders-0"]) == 2
    fewer = planned(example(("mode", "trim"), ("factor", "2")).instance)
    assert fewer["cost"] == 0
    assert len(fewer["lists"]) == 12
    assert fewer["lists"]["orders-4"] == [3, 2]  # the dead one is given up
    assert fewer["lists"]["orders-0"] == [1, 5]  # the double of a rack is


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mode": "demote"}, "--option brokers is missing"),
        ({"mode": "trim"}, "--option factor is missing"),
        ({"brokers": "1"}, "is of no use to rebalance"),
        ({"mode": "demote", "brokers": "9"}, "9 is no broker"),
        ({"mode": "demote", "brokers": "x"}, "'x' is no broker's number"),
        ({"mode": "add-broker", "brokers": "6"}, "are dead"),
        ({"mode": "remove-broker", "brokers": "1,2,3,4,5"}, "are all that live"),
        ({"mode": "remove-broker", "brokers": "1,2,3"}, "cannot be emptied"),
        ({"mode": "replication-factor", "factor": "6"}, "is more than the 5 living brokers"),
        ({"topics": "nope"}, "'nope' is no topic"),
        ({"mode": "trim", "factor": "5"}, "changes no partition"),
    ],
)
def test_operations_that_cannot_be(options: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        example(*options.items())


def test_numbered_parts_are_the_whole() -> None:
    texts = planned(example().instance, time_limit=1.0)["texts"]
    whole, *parts = (json.loads(texts[name])["partitions"] for name in ("", ".1.json", ".2.json"))
    names = [(e["topic"], e["partition"]) for part in parts for e in part]
    assert sorted(names) == sorted((e["topic"], e["partition"]) for e in whole)
    assert all(parts)


def test_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    instance, plan, out = (str(tmp_path / name) for name in ("k.json", "p.json", "r.json"))
    words = ["--option", "mode=dead-broker", "-o", instance, "-q"]
    assert main(["import", "kafka", str(EXAMPLE), *words]) == 0
    assert main(["solve", instance, "--method", "balance-search", "-o", plan, "-q"]) == 0
    assert main(["export", "kafka", instance, plan, "-o", out, "--batches", "-q"]) == 0
    before, after = str(EXAMPLE / "topics.txt"), tmp_path / "after.txt"
    done = Path(before).read_text().replace("3,2,6\tIsr: 3,2\t", "3,2,5\tIsr: 2,3,5\t")
    done = done.replace("Replicas: 6,1\tIsr: 1\t", "Replicas: 1,4\tIsr: 1,4\t")
    after.write_text(done)
    capsys.readouterr()
    for name in (plan, out, str(tmp_path / "r.1.json")):
        assert main(["verify", "kafka", name, "--describe", before]) == 1
        assert "orders-4: replicas" in capsys.readouterr().out
        assert main(["verify", "kafka", name, "--describe", str(after)]) == 0
        assert "2 of 2 partitions as planned" in capsys.readouterr().out
    after.write_text(done.replace("Leader: 3\tReplicas: 3,2,5", "Leader: 2\tReplicas: 3,2,5"))
    assert main(["verify", "kafka", plan, "--describe", str(after), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["differences"]
    assert told == [{"partition": "orders-4", "what": "leader", "running": 2, "planned": 3}]
    after.write_text(done.replace("Isr: 2,3,5", "Isr: 2,3"))
    assert main(["verify", "kafka", plan, "--describe", str(after)]) == 1
    assert "orders-4: in sync [2, 3], planned" in capsys.readouterr().out
    after.write_text("\n".join(w for w in done.split("\n") if "Partition: 4\t" not in w))
    assert main(["verify", "kafka", plan, "--describe", str(after)]) == 2
    assert main(["verify", "kafka", plan]) == 2
    assert "URL is missing (HOST:PORT, or --describe FILE" in capsys.readouterr().err
