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
from experiments.interchange.foreign import Page, Text, Whole, is_whole, read_page
from experiments.interchange.ledger import Ledger
from experiments.interchange.placing import Places
from experiments.interchange.replicas import (
    REPLICAS,
    labelled_brokers,
    listed_brokers,
    replaced,
)
from optim.format.read import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.format.instance import Instance

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
    broker_of = _broker_numbers(instance, ledger)
    ledger.check()
    moved, kept = [], []
    for t in np.flatnonzero(places.node != instance.tasks.node).tolist():
        name, now = instance.tasks.ids[t], int(instance.tasks.node[t])
        if now < 0:
            reason = f"is missing ({name}): which replica to replace is unknown"
            ledger.problem(f"tasks[{t}].node", None, reason, "import the current placement")
        partition = _partition(instance, t, ledger)
        if partition is None or now < 0:
            continue
        source, target = broker_of[now], broker_of[places.node[t]]
        replicas = replaced(name, partition.replicas, source, target, ledger)
        moved.append(partition._replace(replicas=replicas))
        kept.append(partition)
    ledger.check()
    if not moved:
        ledger.warn("no partition moves: the file is empty of them")
    return {"": _json(moved), ROLLBACK: _json(kept)}


def _broker_numbers(instance: Instance, ledger: Ledger) -> list[int]:
    """Return the broker of each node; one that two nodes name is a problem."""
    found: list[int] = []
    for node in range(instance.num_nodes):
        number = _broker_number(instance, node, ledger)
        if number >= 0 and number in found:
            ledger.problem(f"nodes[{node}].id", number, "is the broker of two nodes")
        found.append(number)
    return found


def _broker_number(instance: Instance, node: int, ledger: Ledger) -> int:
    name = instance.nodes.ids[node]
    text = instance.nodes.labels.get(node, {}).get("broker", name)
    if not is_whole(text):
        ledger.problem(
            f"nodes[{node}].id", text, "is no broker number", "name it in the label broker"
        )
        return -1
    return int(text)


def _partition(instance: Instance, task: int, ledger: Ledger) -> _Partition | None:
    labels = instance.tasks.labels.get(task, {})
    name = instance.tasks.ids[task]
    path = f"tasks[{task}].labels"
    missing = [key for key in ("topic", "partition", REPLICAS) if not labels.get(key)]
    for key in missing:
        ledger.problem(
            f"{path}.{key}",
            None,
            f"is missing ({name}): Kafka takes whole replica lists only",
            "import with `streamplace import cruise-control`, or add the label",
        )
    if missing:
        return None
    replicas = labelled_brokers(labels[REPLICAS])
    if replicas is None:
        reason = f"is no list of brokers ({name})"
        ledger.problem(f"{path}.{REPLICAS}", labels[REPLICAS], reason, "numbers with commas: 1,2")
    if not is_whole(labels["partition"]):
        ledger.problem(f"{path}.partition", labels["partition"], f"is no number ({name})")
        return None
    return (
        None
        if replicas is None
        else _Partition(labels["topic"], int(labels["partition"]), replicas)
    )


def _json(partitions: list[_Partition]) -> str:
    entries = [
        {"topic": p.topic, "partition": p.number, "replicas": p.replicas} for p in partitions
    ]
    return json.dumps({"version": 1, "partitions": entries}, ensure_ascii=False) + "\n"


class _Reassigned(Page):
    topic: Text
    partition: Whole
    replicas: Any = None


class _Reassignment(Page):
    partitions: list[_Reassigned]


def read_back(text: str, instance: Instance) -> Places:
    """Return where partitions are after a reassignment; those it does not name stay.

    Raises
    ------
    InvalidInput
        Not a reassignment, of partitions or brokers the instance does not have, or with other
        changes than `write` makes.
    """
    ledger = Ledger()
    broker_of = _broker_numbers(instance, ledger)
    nodes = {broker: n for n, broker in enumerate(broker_of)}
    tasks = {
        (labels.get("topic"), labels.get("partition")): t
        for t, labels in instance.tasks.labels.items()
    }
    where = instance.tasks.node.copy()
    seen: set[int] = set()
    page: _Reassignment | None = read_page(
        _Reassignment, parse_json(text.encode()), "reassignment", ledger
    )
    for i, entry in enumerate(page.partitions if page else ()):
        key, path = (entry.topic, str(entry.partition)), f"reassignment.partitions[{i}]"
        task = tasks.get(key)
        if task is None or task in seen:
            reason = "is no partition of the instance" if task is None else "stands twice"
            ledger.problem(path, "-".join(key), reason)
            continue
        seen.add(task)
        partition = _partition(instance, task, ledger)
        path = f"{path}.{REPLICAS}"
        listed = entry.replicas
        target = partition and _target(listed, path, partition, broker_of, int(where[task]), ledger)
        if target is not None:
            where[task] = nodes[target]
    ledger.check()
    return Places(where)


def _target(
    value: Any, path: str, partition: _Partition, broker_of: list[int], now: int, ledger: Ledger
) -> int | None:
    """Return the broker that the leader's replica goes to; ``None`` where the list stays."""
    old, new = partition.replicas, listed_brokers(value)
    if new is None or not set(new) <= {*broker_of, *old}:
        reason = "is no list of brokers" if new is None else "names brokers the instance lacks"
        ledger.problem(path, value, reason)
        return None
    if new == old:
        return None
    changed = [i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b]
    one = len(new) == len(old) == len(set(new)) and len(changed) == 1
    if not one or now < 0 or old[changed[0]] != broker_of[now]:
        reason = f"differs from {old} in more than the broker that the leader leaves"
        ledger.problem(path, value, reason, "import the state that the file was written for")
        return None
    return new[changed[0]]


EXPORTER = Exporter(
    name="kafka",
    summary="kafka-reassign-partitions JSON, and beside it the file that takes it back",
    options=(),
    write=write,
    read_back=read_back,
    next_step="kafka-reassign-partitions.sh --bootstrap-server HOST:PORT --reassignment-json-file "
    "{0} --execute (--throttle limits its speed); the same with {1} takes it back",
)
