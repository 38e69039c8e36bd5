"""What Kafka's Admin interface answers, without a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from optim.errors import InvalidInput
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.sources import import_instance
from streamplace.clusters.kafka.admin import KafkaAdmin
from streamplace.clusters.kafka.cluster import Key


class Client:
    """Answers as kafka-python does: brokers 1 and 2 store, 3 does not answer."""

    def describe_log_dirs(self, brokers: list[int]) -> list[dict[str, Any]]:
        if brokers == [3]:
            raise OSError
        stored = [("orders", 0, 10, False), ("orders", 1, 20, True), ("a-b", 0, 5, False)]
        topics = [
            {"name": t, "partitions": [
                {"partition_index": n, "partition_size": size, "is_future_key": future}]}
            for t, n, size, future in stored
        ]  # fmt: skip
        good = {"log_dir": "/a", "error_code": 0, "total_bytes": 100, "topics": topics}
        bad = {"log_dir": "/b", "error_code": 56, "total_bytes": -1, "topics": topics}
        return [{"broker": brokers[0], "log_dirs": [good, bad] if brokers == [1] else [good]}]

    def close(self) -> None:
        pass


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> KafkaAdmin:
    pytest.importorskip("kafka")
    monkeypatch.setattr(KafkaAdmin, "_client", Client())
    monkeypatch.setattr(KafkaAdmin, "cluster", lambda self: "")
    return KafkaAdmin("h:9092")


def test_log_dirs(admin: KafkaAdmin) -> None:
    ledger = Ledger()
    logs = admin.log_dirs([3, 1, 2], ledger)
    assert logs.sizes == {Key("orders", 0): {1: 10.0, 2: 10.0}, Key("a-b", 0): {1: 5.0, 2: 5.0}}
    assert (logs.failed, logs.working) == ({1: ["/b"]}, {1: (0.5, 100.0)})
    assert logs.brokers == [1, 2]
    assert ledger.warnings == ["broker 3 does not say what it stores: may this user ask it?"]


class Cluster(Client):
    """Three brokers, of which each stores 100 bytes a replica of a topic."""

    def __init__(self) -> None:
        self.brokers: list[dict[str, Any]] = [
            {"broker_id": n, "rack": None, "host": f"h{n}"} for n in (1, 2, 3)
        ]
        lists = {0: [1, 2], 1: [2, 3], 2: [3, 1]}
        self.topics: list[dict[str, Any]] = [
            {"name": "t", "partitions": [
                {"partition_index": n, "replica_nodes": at, "isr_nodes": at, "leader_id": at[0]}
                for n, at in lists.items()]}
        ]  # fmt: skip
        self.size: Any = 100
        self.silent: set[int] = set()
        self.min_isr = "1"

    def describe_cluster(self) -> dict[str, Any]:
        return {"cluster_id": "c", "brokers": self.brokers}

    def describe_topics(self) -> list[dict[str, Any]]:
        return self.topics

    def list_partition_reassignments(self) -> dict[Any, Any]:
        return {}

    def describe_configs(self, asked: Any, config_filter: str) -> dict[str, Any]:
        value = {"value": self.min_isr, "config_source": "DYNAMIC_TOPIC_CONFIG"}
        return {"topic": {one.name: {"min.insync.replicas": value} for one in asked}}

    def describe_log_dirs(self, brokers: list[int]) -> list[dict[str, Any]]:
        parts = [
            {"partition_index": one["partition_index"], "partition_size": self.size,
             "is_future_key": False}
            for one in self.topics[0]["partitions"] if brokers[0] in one["replica_nodes"]
        ]  # fmt: skip
        topics = [{"name": "t", "partitions": parts}]
        folder = {"log_dir": "/a", "error_code": 0, "total_bytes": None, "topics": topics}
        folders = [] if brokers[0] in self.silent else [folder]
        return [{"broker": brokers[0], "log_dirs": folders}]


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    pytest.importorskip("kafka")
    found = Cluster()
    monkeypatch.setattr(KafkaAdmin, "_client", found)
    return found


def test_brokers_without_rack_or_host(live: Cluster) -> None:
    live.brokers = [{"broker_id": 1}, {"broker_id": 2, "host": None}, *live.brokers[2:]]
    assert import_instance("kafka", ["h:9092"]).instance.num_nodes == 3


@pytest.mark.parametrize(("size", "load"), [(None, None), (-1, None), ("100", 100.0)])
def test_a_size_that_is_none_is_not_known(live: Cluster, size: Any, load: float | None) -> None:
    live.size = size
    done = import_instance("kafka", ["h:9092"])
    tasks = done.instance.to_dict()["tasks"]
    assert {task.get("load", {}).get("disk") for task in tasks} == {load}
    assert any("a copy costs 1" in text for text in done.ledger.readings) is (load is None)


def test_a_least_number_in_sync_that_is_none(live: Cluster) -> None:
    live.min_isr = "two"
    assert import_instance("kafka", ["h:9092"]).instance.num_tasks == 6


def test_a_broker_that_one_may_not_ask_answers_without_log_dirs(live: Cluster) -> None:
    live.silent = {2}
    done = import_instance("kafka", ["h:9092"])
    assert "broker 2 does not say what it stores: may this user ask it?" in done.ledger.warnings


def test_a_topic_that_is_not_described_is_named(live: Cluster) -> None:
    live.topics.append({"name": "u", "partitions": []})
    done = import_instance("kafka", ["h:9092"])
    assert any("does not describe topic u" in text for text in done.ledger.warnings)


@pytest.mark.parametrize("field", ["replica_nodes", "isr_nodes"])
def test_a_null_that_kafka_does_not_send(live: Cluster, field: str) -> None:
    live.topics[0]["partitions"][0][field] = None
    with pytest.raises(InvalidInput, match="a field is missing or null"):
        import_instance("kafka", ["h:9092"])


def test_sizes_are_missing_in_the_cluster_and_not_in_a_file(live: Cluster) -> None:
    live.topics.append({"name": "u", "partitions": live.topics[0]["partitions"][:1]})
    done = import_instance("kafka", ["h:9092"])
    assert "no size in the log directories, taken for 0: u-0" in done.ledger.warnings
