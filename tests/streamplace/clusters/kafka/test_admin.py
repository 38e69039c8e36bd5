"""What Kafka's Admin interface answers, without a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from streamplace.clusters.exchange.declarations import Ledger
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
    assert (logs.failed, logs.left) == ({1: ["/b"]}, {1: (0.5, 100.0)})
    assert logs.brokers == [1, 2]
    assert ledger.warnings == ["broker 3 does not say what it stores"]
