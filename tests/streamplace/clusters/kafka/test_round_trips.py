"""Random placements through export and back, by a reader that knows Kafka's formats alone."""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optim import Instance, Plan, evaluate, solve
from optim.errors import InvalidInput
from streamplace.clusters.exchange.sources import export_plan, import_instance
from streamplace.clusters.kafka.cluster import Key
from streamplace.clusters.kafka.exporter import read_back
from streamplace.clusters.kafka.submit import load_reassignment
from streamplace.clusters.kafka.verify import Planned, planned_of
from tests.streamplace.clusters.kafka import judge
from tests.streamplace.clusters.kafka.folders import Line, write_folder

Lists = dict[tuple[str, int], list[int]]
TOPICS = ("orders", "a.b-1", "_x-0-2", "a_b-1.c", "t" * 249)


def cluster_of(rng: random.Random) -> judge.Cluster:
    """Return one of few partitions, with topics that hold dots, dashes and underscores."""
    made = judge.make(rng.randrange(10**9))
    names = dict(zip(sorted({t for t, _ in made.lists}), rng.sample(TOPICS, 5), strict=False))
    keys = {key: (names[key[0]], key[1]) for key in list(made.lists)[:6]}
    for name in ("lists", "leader", "size"):
        told = getattr(made, name)
        setattr(made, name, {new: told[old] for old, new in keys.items()})
    return made


def test_leaders_that_are_elected_alone_come_back(tmp_path: Path) -> None:
    """No list changes: the election file has it, and the reassignment in a field of our own."""
    folder = str(write_folder(tmp_path / "k", {"t-0": Line([1, 2], leader=2)}))
    instance = import_instance("kafka", [folder], [("mode", "leaders")]).instance
    exported = export_plan("kafka", instance, Plan(instance.name, {"t-0": "1"}))
    assert json.loads(exported.texts[""])["partitions"] == []
    assert instance.nodes.ids[read_back(exported.texts[""], instance).node[0]] == "1"
    file = exported.save(tmp_path / "r.json")[0]
    assert planned_of(str(file)) == {Key("t", 0): Planned([1, 2], 1, ordered=True)}
    (tmp_path / "r.election.json").unlink()
    assert load_reassignment(str(file)).elected == (Key("t", 0),)


def test_a_file_places_no_replica_it_does_not_name(tmp_path: Path) -> None:
    folder = str(write_folder(tmp_path / "k", {"t-0": Line([1, 2]), "t-1": Line([2, 3])}))
    document = import_instance("kafka", [folder]).instance.to_dict()
    del document["tasks"][1]["node"]
    entry = {"topic": "t", "partition": 0, "replicas": [1, 2]}
    back = read_back(json.dumps({"partitions": [entry]}), Instance.from_dict(document))
    assert back.node.tolist() == [0, -1, 1, 2]
    entry["replicas"] = [1, 3]
    back = read_back(json.dumps({"partitions": [entry]}), Instance.from_dict(document))
    assert back.node.tolist() == [0, 2, 1, 2]


def cruise_control(cluster: judge.Cluster, folder: Path) -> None:
    """Write what Cruise Control answers for a cluster: load, partition_load, state, and order."""
    brokers = [
        {"Broker": b, "Host": f"k{b}", "Rack": rack, "CpuPct": 1.0, "LeaderNwInRate": 1.0}
        | {
            "NwOutRate": 1.0,
            "DiskMB": 1.0,
            "BrokerState": "ALIVE" if b in cluster.alive else "DEAD",
        }
        for b, rack in cluster.racks.items()
    ]
    records, order = [], []
    for (topic, number), replicas in cluster.lists.items():
        entry: dict[str, Any] = {"topic": topic, "partition": number}
        leader = cluster.leader[topic, number]
        order.append({**entry, "replicas": replicas})
        entry |= {"leader": leader, "followers": [b for b in replicas if b != leader]}
        size = cluster.size[topic, number] / 1e6
        records.append(
            entry | {"cpu": 1.0, "networkInbound": 1.0, "networkOutbound": 2.0, "disk": size}
        )
    pages = {"load": {"brokers": brokers}, "partition_load": {"records": records}}
    for name, page in (pages | {"current": {"version": 1, "partitions": order}}).items():
        (folder / f"{name}.json").write_text(json.dumps(page))


def another_plan(instance: Instance, rng: random.Random) -> Plan | None:
    """Return a plan that the referee accepts: one that is found, and then changed at random."""
    found = solve(instance, "balance-search", seed=rng.randrange(99), tries=1)
    if found.plan is None or found.evaluation is None or not found.evaluation.feasible:
        return None
    plan = found.plan
    tasks, nodes = list(instance.tasks.ids), list(instance.nodes.ids)
    for _ in range(12):
        one, other = rng.choice(tasks), rng.choice(tasks)
        now = dict(plan.assignment)
        swap = (
            {one: now[other], other: now[one]} if rng.random() < 0.5 else {one: rng.choice(nodes)}
        )
        changed = Plan(instance.name, now | swap)
        if evaluate(instance, changed).feasible:
            plan = changed
    return plan


def carried_out(lists: Lists, text: str) -> Lists:
    """Return what Kafka has after a reassignment: whole lists of the partitions it names."""
    entries = json.loads(text)["partitions"]  # all that Kafka's tool looks at
    assert all(set(e) == {"topic", "partition", "replicas"} for e in entries)
    assert len({(e["topic"], e["partition"]) for e in entries}) == len(entries)
    return lists | {(e["topic"], e["partition"]): e["replicas"] for e in entries}


def elected(text: str | None) -> set[tuple[str, int]]:
    """Return the partitions of which the first replica is made the leader."""
    entries = json.loads(text)["partitions"] if text else ()
    return {(e["topic"], e["partition"]) for e in entries}


def by_partition(instance: Instance, told: Any) -> dict[tuple[str, int], list[tuple[str, int]]]:
    """Return role and broker of the tasks of each partition."""
    found: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for t, name in enumerate(instance.tasks.ids):
        labels = instance.tasks.labels[t]
        key = labels["topic"], int(labels["partition"])
        found.setdefault(key, []).append((labels["role"], int(told[name])))
    return found


@pytest.mark.parametrize("source", ["kafka", "cruise-control"])
@given(st.randoms(use_true_random=False))
@settings(deadline=None)
def test_kafka_has_the_plan_and_nothing_else(source: str, rng: random.Random) -> None:
    cluster = cluster_of(rng)
    with tempfile.TemporaryDirectory() as folder:
        cluster.save(Path(folder)) if source == "kafka" else cruise_control(cluster, Path(folder))
        try:
            instance = import_instance(source, [folder], cluster.options).instance
        except InvalidInput:
            return  # nothing to be done
    plan = another_plan(instance, rng)
    if plan is None:
        return
    texts = export_plan("kafka", instance, plan).texts
    after = carried_out(cluster.lists, texts[""])
    planned = by_partition(instance, plan.assignment)
    for key, old in cluster.lists.items():
        new, tasks = after[key], planned.get(key)
        # Kafka keeps a leader that is still there; else, or when it is asked to, the first leads
        leader = cluster.leader[key]
        if key in elected(texts.get(".election.json")) or leader not in new:
            leader = new[0] if set(new) & cluster.alive else None
        if tasks is None:
            assert new == old
        elif tasks[0][0] == "leadership":
            assert Counter(new) == Counter(old)
            assert leader == tasks[0][1]
        else:
            assert Counter(new) == Counter(broker for _, broker in tasks)
            assert leader == next(broker for role, broker in tasks if role == "leader")
        # a leader that is not the first does not last; Kafka orders no list with a dead broker
        if tasks is not None and set(new) <= cluster.alive:
            assert new[0] == leader
    assert carried_out(after, texts[".rollback.json"]) == cluster.lists
    if parts := sorted(name for name in texts if name[1:2].isdigit()):
        assert {n for p in parts for n in elected(texts[p])} == elected(texts[""])
    # the product reads its own file as the same, but for followers that trade places
    node = read_back(texts[""], instance).node
    back = dict(zip(instance.tasks.ids, np.array(instance.nodes.ids)[node], strict=True))
    for key, tasks in by_partition(instance, back).items():
        assert sorted(tasks) == sorted(planned[key])
