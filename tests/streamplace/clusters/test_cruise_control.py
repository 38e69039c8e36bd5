"""Cruise Control: figures by hand, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from optim import Instance, solve
from optim.errors import InvalidInput
from streamplace.clusters.exchange.sources import export_plan, import_instance
from tests.streamplace.clusters import systems


def load(saved: Callable[..., str], documents: dict[str, Any], *options: Any) -> Instance:
    return import_instance("cruise-control", [saved(documents)], options).instance


def test_replicas_and_brokers(saved: Callable[..., str]) -> None:
    instance = load(saved, systems.cruise_control())
    assert instance.resources == ("cpu", "network_in", "network_out", "disk")
    ids = ("orders-0#1", "orders-0#2", "orders-1#1", "orders-1#2", "orders-2#1", "orders-2#2")
    assert instance.tasks.ids == (*ids, "clicks-0#1")
    # a follower has the disk and what comes in: 0.3·100 / (0.6·100 + 0.1·200) of the CPU
    assert instance.tasks.load[0].tolist() == [20.0, 100.0, 200.0, 1000.0]
    assert instance.tasks.load[1].tolist() == [7.5, 100.0, 0.0, 1000.0]
    assert instance.tasks.migration_cost.tolist() == [1000.0] * 7
    assert instance.has_current
    assert instance.nodes.rack_ids == ("r1", "r2")
    # broker 1 leads 50 of its 60 % CPU and all its disk; follower 2 has 13.1 of 5 %
    assert instance.nodes.background[:, 0].tolist() == [10.0, 0.0, 1.25]
    assert instance.nodes.background[:, 3].tolist() == [0.0, 1000.0, 0.0]
    # strings; -1 is the default; log directories add up
    assert instance.nodes.capacity[:, 3].tolist() == [9000.0, 9000.0, 3000.0]
    assert instance.nodes.capacity[:, 0].tolist() == [100.0, 100.0, 100.0]
    assert instance.tasks.labels[1] == {
        "topic": "orders",
        "partition": "0",
        "replicas": "1,2",
        "leader": "1",
        "role": "follower",
        "factor": "2",
    }
    # brokers that hold the partition are free to go to; its replicas are on distinct racks
    copies = {t: instance.nodes.ids[next(iter(n))] for t, n in instance.copy_nodes.items()}
    assert copies == {0: "2", 1: "1", 2: "2", 3: "1", 4: "3", 5: "1", 6: "1"}  # 6: its own
    assert instance.sets.ids == ("orders-0", "orders-1", "orders-2")
    assert instance.sets.by_rack.all()


def test_the_balanced_resource_is_chosen(saved: Callable[..., str]) -> None:
    instance = load(saved, systems.cruise_control(), ("balance", "disk"))
    assert instance.resources[0] == "disk"
    assert instance.tasks.load[0, 0] == 1000.0


def test_dead_brokers_are_left_and_partitions_without_a_leader_left_out(
    saved: Callable[..., str],
) -> None:
    documents = systems.cruise_control()
    documents["load"]["brokers"][1]["BrokerState"] = "DEAD"
    lost = documents["partition_load"]["records"][3]
    lost |= {"leader": -1, "followers": [2, 9]}  # 9 is gone, and the load response lacks it
    documents["current"] = {
        "partitions": [{"topic": "clicks", "partition": 0, "replicas": [1, 2, 9]}]
    }
    made = import_instance("cruise-control", [saved(documents)])
    instance = made.instance
    assert instance.nodes.leaving.tolist() == [False, True, False]
    assert instance.operators.ids == ("orders",)
    told = "left out for want of a leader, their load stays where it is: clicks-0"
    assert told in made.ledger.warnings
    # broker 1 leads 45 of its 60 % CPU: what the lost partition costs is background
    assert instance.nodes.background[0, 0] == 15.0
    result = solve(instance, "balance-search")
    assert result.plan is not None
    for entry in json.loads(export_plan("kafka", instance, result.plan).texts[""])["partitions"]:
        assert sorted(entry["replicas"]) == [1, 3]
    for record in documents["partition_load"]["records"]:
        record["leader"] = -1
    with pytest.raises(InvalidInput, match="with a partition that has a leader"):
        load(saved, documents)


@pytest.mark.parametrize(
    "end",
    [
        *["", "/", "/kafkacruisecontrol/", "/kafkacruisecontrol/load?json=true", "/#/main"],
        *["/index.html", "/index.html#/x", "/kafkacruisecontrol/state;jsessionid=1F"],
    ],
)
def test_from_an_address(serve: Callable[..., str], saved: Callable[..., str], end: str) -> None:
    documents = systems.cruise_control()
    capacity = saved({"capacity": documents["capacity"]})
    address = serve(documents, "kafkacruisecontrol") + end
    by_net = import_instance("cruise-control", [address, capacity]).instance
    assert by_net.sha256 == load(saved, documents).sha256


def computed(document: Any, asked: list[str | None], rounds: int) -> Callable[[Any], Any]:
    """Return a response that takes some rounds of asking, told by the headers of each."""

    def answer(headers: Any) -> Any:
        asked.append(headers.get("User-Task-ID"))
        if len(asked) > rounds:
            return document
        progress = {"progress": [{"operation": "LOAD"}], "version": 1}
        return 202, {"User-Task-ID": "ab-12"}, json.dumps(progress).encode()

    return answer


def test_waits_for_what_is_still_computed(
    serve: Callable[..., str], saved: Callable[..., str]
) -> None:
    documents = systems.cruise_control()
    by_file = load(saved, documents)
    asked: list[str | None] = []
    documents["partition_load"] = computed(documents["partition_load"], asked, 2)
    address = serve(documents, "kafkacruisecontrol")
    capacity = saved({"capacity": documents["capacity"]}, "capacity")
    assert import_instance("cruise-control", [address, capacity]).instance.sha256 == by_file.sha256
    assert asked == [None, "ab-12", "ab-12"]


def test_does_not_wait_longer_than_told(serve: Callable[..., str]) -> None:
    documents = systems.cruise_control()
    asked: list[str | None] = []
    documents["load"] = computed(documents["load"], asked, 1_000)
    with pytest.raises(InvalidInput, match=r"is no result yet.*wait=600"):
        import_instance(
            "cruise-control", [serve(documents, "kafkacruisecontrol")], options=[("wait", "0.3")]
        )
    assert 1 <= len(asked) <= 3


@pytest.mark.parametrize(
    ("break_it", "told"),
    [
        (
            lambda d: d["partition_load"]["records"][1].pop("followers"),
            r"records\[1\]\.followers is missing: without all replicas",
        ),
        (lambda d: d["partition_load"]["records"][1].pop("leader"), r"\[1\]\.leader is missing"),
        (lambda d: d["partition_load"]["records"][1].pop("disk"), r"\[1\]\.disk is missing"),
        (lambda d: d["partition_load"]["records"][1].update(cpu="lots"), "cpu: 'lots' is not"),
        (lambda d: d["partition_load"]["records"][1].update(partition=0), "stands twice"),
        (
            lambda d: d["partition_load"]["records"][1].update(followers=[9]),
            "brokers that the load response lacks",
        ),
        (lambda d: d["load"]["brokers"][2].pop("DiskMB"), r"brokers\[2\]\.DiskMB is missing"),
        (lambda d: d["load"]["brokers"][2].pop("CpuPct"), r"brokers\[2\]\.CpuPct is missing"),
        (lambda d: d["load"]["brokers"][2].update(Broker=1), "stands twice"),
        (lambda d: d["load"]["brokers"][2].update(Broker=1.5), "is not a whole number"),
        (
            lambda d: d["capacity"]["brokerCapacities"][0]["capacity"].update(DISK="big"),
            "DISK: 'big' is no number",
        ),
        (lambda d: d.update(load={"progress": [{"operation": "Load"}]}), "is no result yet"),
        (lambda d: d.pop("load"), "there are no nodes"),
        (lambda d: d.pop("partition_load"), "holds no partition_load"),
    ],
)
def test_what_is_needed_and_absent(
    saved: Callable[..., str], break_it: Callable[[dict[str, Any]], Any], told: str
) -> None:
    documents = systems.cruise_control()
    break_it(documents)
    with pytest.raises(InvalidInput, match=told):
        load(saved, documents)


def test_what_an_address_answers_is_what_was_asked_for(serve: Callable[..., str]) -> None:
    documents = systems.cruise_control()
    documents["load"] = documents["partition_load"]
    with pytest.raises(InvalidInput, match=r"load\.brokers is missing"):
        import_instance("cruise-control", [serve(documents, "kafkacruisecontrol")])


def test_unequal_brokers_are_filled_alike(saved: Callable[..., str]) -> None:
    documents = systems.cruise_control()
    for broker, disk in zip(documents["load"]["brokers"], (8000, 8000, 4000), strict=True):
        broker |= {"DiskCapacityMB": disk}
    documents = {key: documents[key] for key in ("load", "partition_load")}
    made = import_instance("cruise-control", [saved(documents)], [("balance", "disk")])
    assert made.instance.nodes.weight.tolist() == [1.0, 1.0, 0.5]
    assert any("in proportion to a node's capacity" in text for text in made.ledger.readings)
    even = import_instance("cruise-control", [saved(documents)])  # by CPU; none is reported
    assert even.instance.nodes.weight.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("by_dir", [False, True])
def test_failed_disks_do_not_count(saved: Callable[..., str], by_dir: bool) -> None:
    documents = systems.cruise_control()
    dirs = {"/a": {"DiskMB": 900.0, "DiskPct": 90.0}, "/b": {"DiskMB": "DEAD", "DiskPct": "DEAD"}}
    documents["load"]["brokers"][2] |= {"BrokerState": "BAD_DISKS", "DiskState": dirs}
    if not by_dir:
        documents["capacity"]["brokerCapacities"].pop()
    made = import_instance("cruise-control", [saved(documents)], [])
    assert made.instance.nodes.capacity[2, 3] == (1000.0 if by_dir else 4500.0)
    (told,) = (text for text in made.ledger.warnings if "failed" in text)
    assert told.startswith("broker 3: log dir /b failed, its disk counts")
    assert "add kafka_cluster_state?verbose=true" in told
    record = {"topic": "orders", "partition": 2, "leader": 1, "replicas": [1, 3], "offline": [3]}
    documents["state"] = {"KafkaPartitionState": {"with-offline-replicas": [record], "urp": []}}
    made = import_instance("cruise-control", [saved(documents)], [("mode", "dead-broker")])
    assert any("lost with it: orders-2" in text for text in made.ledger.warnings)
    assert made.instance.tasks.ids == ("orders-2#1", "orders-2#2")
    lost = made.instance.allowed_mask(1)
    assert lost.tolist() == [False, True, False]


def test_failed_disks_that_are_not_named_are_told(saved: Callable[..., str]) -> None:
    documents = systems.cruise_control()
    documents["load"]["brokers"][2]["BrokerState"] = "BAD_DISKS"
    made = import_instance("cruise-control", [saved(documents)], [])
    assert any("broker 3 has failed disks" in text for text in made.ledger.warnings)
    disks = {"/a": {"DiskMB": "DEAD", "DiskPct": "DEAD"}}
    documents["load"]["brokers"][2] |= {"DiskState": disks}
    made = import_instance("cruise-control", [saved(documents)], [])
    assert made.instance.nodes.leaving.tolist() == [False, False, True]
