"""Kafka: the reassignment file of ``kafka-reassign-partitions``, and the one that takes it back.

Each moved partition stands with its whole replica list, in which only the broker it leaves is
replaced, in place; ``log_dirs`` is left out, because a list of another length than the replicas'
is refused by the tool. The list has to be known: it comes in the label ``replicas``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from experiments.interchange.declaring import Exporter
from experiments.interchange.ledger import Ledger
from experiments.interchange.placing import Places
from experiments.interchange.record import Record, as_number
from optim.reading import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.instance import Instance

ROLLBACK = ".rollback.json"


class _Partition(NamedTuple):
    topic: str
    number: int
    replicas: list[int]


def write(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """Return the reassignment and the rollback file, in Kafka's JSON.

    Raises
    ------
    InvalidInput
        A replica list is missing, or a broker would hold two replicas of a partition, by name.
    """
    broker_of = [_broker_number(instance, n, ledger) for n in range(instance.num_nodes)]
    if not instance.has_current:
        lost = int((instance.tasks.node < 0).sum())
        reason = f"is missing for {lost} tasks: which replica to replace is unknown"
        ledger.problem("tasks[].node", None, reason, "import the current placement")
    ledger.check()
    moved, kept = [], []
    for t in np.flatnonzero(places.node != instance.tasks.node).tolist():
        partition = _partition(instance, t, ledger)
        if partition is None:
            continue
        source, target = broker_of[instance.tasks.node[t]], broker_of[places.node[t]]
        replicas = _replaced(instance.tasks.ids[t], partition, source, target, ledger)
        moved.append(partition._replace(replicas=replicas))
        kept.append(partition)
    ledger.check()
    if not moved:
        ledger.warn("no partition moves: the file is empty of them")
    return {"": _json(moved), ROLLBACK: _json(kept)}


def _broker_number(instance: Instance, node: int, ledger: Ledger) -> int:
    name = instance.nodes.ids[node]
    text = instance.nodes.labels.get(node, {}).get("broker", name)
    if not text.isdigit() or len(text) > 9:
        ledger.problem(
            f"nodes[{node}].id", text, "is no broker number", "name it in the label broker"
        )
        return -1
    return int(text)


def _partition(instance: Instance, task: int, ledger: Ledger) -> _Partition | None:
    labels = instance.tasks.labels.get(task, {})
    name = instance.tasks.ids[task]
    path = f"tasks[{task}].labels"
    missing = [key for key in ("topic", "partition", "replicas") if not labels.get(key)]
    for key in missing:
        ledger.problem(
            f"{path}.{key}",
            None,
            f"is missing ({name}): Kafka takes whole replica lists only",
            "import with `streamplace import cruise-control`, or add the label",
        )
    if missing:
        return None
    words = [labels["partition"], *labels["replicas"].split(",")]
    numbers = [int(w) if w.strip().isdigit() and len(w) <= 10 else None for w in words]
    if None in numbers:
        ledger.problem(f"{path}.replicas", labels["replicas"], f"is no list of brokers ({name})")
        return None
    first, *replicas = [number for number in numbers if number is not None]
    return _Partition(labels["topic"], first, replicas)


def _replaced(
    name: str, partition: _Partition, source: int, target: int, ledger: Ledger
) -> list[int]:
    replicas = partition.replicas
    if source not in replicas:
        reason = f"is not among its replicas {replicas}"
        ledger.problem(name, source, reason, "import the current state again")
    elif target in replicas:
        reason = f"already holds another replica of it ({replicas})"
        ledger.problem(name, target, reason, "leave that broker out of the task's `allowed`")
    return [target if broker == source else broker for broker in replicas]


def _json(partitions: list[_Partition]) -> str:
    entries = [
        {"topic": p.topic, "partition": p.number, "replicas": p.replicas} for p in partitions
    ]
    return json.dumps({"version": 1, "partitions": entries}, ensure_ascii=False) + "\n"


def read_back(text: str, instance: Instance) -> Places:
    """Return where partitions are after a reassignment; those it does not name stay.

    Raises
    ------
    InvalidInput
        Not a reassignment, or of partitions the instance does not have.
    """
    ledger = Ledger()
    nodes = {_broker_number(instance, n, ledger): n for n in range(instance.num_nodes)}
    tasks = {
        (labels.get("topic"), labels.get("partition")): t
        for t, labels in instance.tasks.labels.items()
    }
    where = instance.tasks.node.copy()
    page = Record(parse_json(text.encode()), "reassignment", ledger)
    for entry in page.records("partitions", needed=True):
        key = (entry.text("topic"), str(entry.whole("partition")))
        task = tasks.get(key)
        value = entry.raw("replicas")
        listed = value if isinstance(value, list) else []
        known = [nodes.get(int(as_number(b) or 0)) for b in listed]
        replicas = [n for n in known if n is not None]
        partition = None if task is None else _partition(instance, task, ledger)
        if task is None or partition is None or not known or None in known:
            ledger.problem(entry.path, "-".join(map(str, key)), "fits no task and its brokers")
            continue
        # the leader's place in the list is where the old list holds the task's current broker
        old = [nodes.get(b) for b in partition.replicas]
        at = old.index(int(where[task])) if int(where[task]) in old else 0
        where[task] = replicas[min(at, len(replicas) - 1)]
    ledger.check()
    return Places(where)


EXPORTER = Exporter(
    name="kafka",
    summary="kafka-reassign-partitions JSON, and beside it the file that takes it back",
    options=(),
    write=write,
    read_back=read_back,
)
