"""Folders of what Kafka's tools print, of a few partitions and brokers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Line(NamedTuple):
    """A partition: its list, who leads it (its first unless told), those in sync (all)."""

    replicas: Sequence[int]
    leader: int | None = None
    isr: Sequence[int] | None = None
    size: int = 100
    more: str = ""


def write_folder(
    folder: Path,
    partitions: Mapping[str, Line],
    brokers: Sequence[Mapping[str, Any]] = (),
    *,
    configs: str = "",
    rates: Mapping[str, Sequence[float]] | None = None,
    failed: Mapping[int, str] | None = None,
) -> Path:
    """Write a folder and return it.

    Parameters
    ----------
    partitions
        By name, ``topic-number``, those of a topic together.
    brokers
        Entries of ``brokers.json``; none for no such file.
    configs
        What stands after ``Configs:`` of every topic.
    rates
        Bytes in and out by partition.
    failed
        Broker to the error of its second log dir, on which are the replicas not in sync.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    for topic in dict.fromkeys(name.rpartition("-")[0] for name in partitions):
        mine = {n: p for n, p in partitions.items() if n.rpartition("-")[0] == topic}
        lines.append(
            f"Topic: {topic}\tPartitionCount: {len(mine)}\tReplicationFactor: 1\tConfigs: {configs}"
        )
        for name, p in mine.items():
            isr = p.replicas if p.isr is None else p.isr
            leader = p.leader if p.leader is not None else (p.replicas[0] if isr else "none")
            lists = (",".join(map(str, each)) for each in (p.replicas, isr))
            lines.append(
                "\tTopic: {}\tPartition: {}\tLeader: {}\tReplicas: {}\tIsr: {}{}".format(
                    topic, name.rpartition("-")[2], leader, *lists, p.more and f"\t{p.more}"
                )
            )
    (folder / "topics.txt").write_text("\n".join(lines) + "\n")
    if brokers:
        (folder / "brokers.json").write_text(json.dumps(brokers))
    if rates:
        rows = ["topic,partition,bytes_in,bytes_out"]
        for name, told in rates.items():
            topic, _, number = name.rpartition("-")
            rows.append(",".join([topic, number, *map(str, told)]))
        (folder / "rates.csv").write_text("\n".join(rows) + "\n")
    dirs: dict[int, list[dict[str, Any]]] = {
        int(b["id"]): [] for b in brokers if b.get("alive", True)
    }
    for name, p in partitions.items():
        isr = p.replicas if p.isr is None else p.isr
        for broker in isr:
            dirs.setdefault(broker, []).append({"partition": name, "size": p.size})
    logs: list[dict[str, Any]] = []
    for broker, held in dirs.items():
        told: list[dict[str, Any]] = [{"logDir": "/d1", "error": None, "partitions": held}]
        if failed and broker in failed:
            told.append({"logDir": "/d2", "error": failed[broker], "partitions": []})
        logs.append({"broker": broker, "logDirs": told})
    (folder / "log-dirs.json").write_text(json.dumps({"version": 1, "brokers": logs}))
    return folder
