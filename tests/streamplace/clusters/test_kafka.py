"""Kafka's reassignment files: there and back, the state after a plan, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim import Instance, solve
from optim.errors import InvalidInput
from optim.format.plan import Plan
from streamplace.clusters.exchange.sources import export_plan, import_instance
from streamplace.clusters.kafka.exporter import read_back
from tests.streamplace.clusters import systems


def load(saved: Callable[..., str], documents: dict[str, Any], **words: Any) -> Instance:
    return import_instance("cruise-control", [saved(documents)], **words).instance


def plan_for(instance: Instance, moves: dict[str, str]) -> Plan:
    ids, node = instance.nodes.ids, instance.tasks.node
    now = {t: ids[n] for t, n in zip(instance.tasks.ids, node.tolist(), strict=True)}
    return Plan(instance.name, now | moves)


def lists(text: str) -> dict[str, list[int]]:
    entries = json.loads(text)["partitions"]
    return {f"{e['topic']}-{e['partition']}": e["replicas"] for e in entries}


def test_there_and_back(saved: Callable[..., str], tmp_path: Path) -> None:
    documents = systems.cruise_control()
    instance = load(saved, documents)
    result = solve(instance, "balance-search")
    assert result.plan is not None
    out = tmp_path / "reassignment.json"
    written = export_plan("kafka", instance, result.plan).save(out)
    more = ("", ".rollback", ".election", ".rollback.election")
    assert [path.name for path in written] == [f"reassignment{name}.json" for name in more]
    placed = load(saved, documents, placement=str(out))
    back = load(saved, documents, placement=str(written[1]))
    assert back.tasks.node.tolist() == instance.tasks.node.tolist()
    # the cluster after Kafka carried it out, imported anew
    moved = lists(out.read_text())
    for record in documents["partition_load"]["records"]:
        replicas = moved.get(f"{record['topic']}-{record['partition']}")
        if replicas:
            record["leader"], record["followers"] = replicas[0], replicas[1:]
    after = load(saved, documents)
    assert after.tasks.node.tolist() == placed.tasks.node.tolist()
    assert after.copy_nodes == placed.copy_nodes
    assert moved


@pytest.mark.parametrize(
    ("moves", "replicas", "elected"),
    [
        ({"orders-0#1": "3"}, [3, 2], True),
        ({"orders-0#2": "3"}, [1, 3], False),
        ({"orders-0#1": "2", "orders-0#2": "1"}, [2, 1], True),
        ({"orders-0#1": "2", "orders-0#2": "3"}, [2, 3], True),
        ({}, None, False),
    ],
)
def test_the_reassignment_file(
    saved: Callable[..., str], moves: dict[str, str], replicas: list[int] | None, elected: bool
) -> None:
    instance = load(saved, systems.cruise_control())
    texts = export_plan("kafka", instance, plan_for(instance, moves)).texts
    changed = {} if replicas is None else {"orders-0": replicas}
    assert lists(texts[""]) == changed
    assert lists(texts[".rollback.json"]) == {key: [1, 2] for key in changed}
    assert (".election.json" in texts) is elected
    placed = read_back(texts[""], instance).node
    again = export_plan("kafka", instance, plan_for(instance, named(instance, placed))).texts
    assert again == texts


def named(instance: Instance, node: Any) -> dict[str, str]:
    return {t: instance.nodes.ids[n] for t, n in zip(instance.tasks.ids, node, strict=True)}


def test_present_leaders_become_the_first_and_unchanged_partitions_are_left_out(
    saved: Callable[..., str],
) -> None:
    documents = systems.cruise_control()
    current = [{"topic": "orders", "partition": 0, "replicas": [2, 1], "log_dirs": ["any"]}]
    documents["current"] = {"version": 1, "partitions": current}
    instance = load(saved, documents)
    # 1 leads although 2 is preferred, which the next election would put first
    texts = export_plan("kafka", instance, plan_for(instance, {})).texts
    assert lists(texts[""]) == {"orders-0": [1, 2]}
    assert ".election.json" not in texts
    texts = export_plan("kafka", instance, plan_for(instance, {"orders-0#2": "3"})).texts
    assert lists(texts[""]) == {"orders-0": [1, 3]}
    assert ".election.json" not in texts
    texts = export_plan("kafka", instance, plan_for(instance, {"orders-0#1": "3"})).texts
    assert lists(texts[""]) == {"orders-0": [3, 2]}
    current[0]["replicas"] = [2, 3]
    with pytest.raises(InvalidInput, match="differs from the replicas"):
        load(saved, documents)


def test_the_state_after_a_plan_can_be_exported_again(
    saved: Callable[..., str], tmp_path: Path
) -> None:
    documents = systems.cruise_control()
    instance = load(saved, documents)
    plan = plan_for(instance, {"orders-0#1": "3", "clicks-0#1": "2"})
    out = tmp_path / "r.json"
    export_plan("kafka", instance, plan).save(out)
    after = load(saved, documents, placement=str(out))
    labels = [after.tasks.labels[t]["replicas"] for t in range(7)]
    assert labels == ["3,2", "3,2", "1,2", "1,2", "1,3", "1,3", "2"]
    texts = export_plan("kafka", after, plan_for(after, {"orders-0#1": "1"})).texts
    assert lists(texts[""]) == {"orders-0": [1, 2]}
    assert lists(texts[".rollback.json"]) == {"orders-0": [3, 2]}
    plan.save(tmp_path / "p.json")
    export_plan("moves", instance, plan).save(tmp_path / "moves.csv")
    for name in ("p.json", "moves.csv"):
        assert load(saved, documents, placement=str(tmp_path / name)).sha256 == after.sha256
    (tmp_path / "moves.csv").write_text("task,from,to\norders-0#1,1,2\n")
    with pytest.raises(InvalidInput, match=r"moves\.csv.*orders-0: \[2, 2\] lists a broker twice"):
        load(saved, documents, placement=str(tmp_path / "moves.csv"))


@pytest.mark.parametrize(
    ("replicas", "told"),
    [
        ([3], "differs from"),
        ([3, 2, 1], "differs from"),
        ([2, 2], "differs from"),
        ([1.7, 2], "is no list of brokers"),
        (["junk", 2], "is no list of brokers"),
        ([True, 2], "is no list of brokers"),
        ([-1, 2], "is no list of brokers"),
        ([], "is no list of brokers"),
        (None, "is no list of brokers"),
        ([9, 2], "names brokers the instance lacks"),
    ],
)
def test_reassignments_with_other_changes_are_refused(
    saved: Callable[..., str], replicas: Any, told: str
) -> None:
    instance = load(saved, systems.cruise_control())
    entry = {"topic": "orders", "partition": 0, "replicas": replicas}
    with pytest.raises(InvalidInput, match=rf"partitions\[0\]\.replicas.* {told}"):
        read_back(json.dumps({"partitions": [entry]}), instance)


def test_reassignments_of_what_is_not_there(saved: Callable[..., str]) -> None:
    instance = load(saved, systems.cruise_control())
    entry = {"topic": "orders", "partition": 0, "replicas": [3, 2]}
    with pytest.raises(InvalidInput, match=r"partitions\[1\]: 'orders-0' stands twice"):
        read_back(json.dumps({"partitions": [entry, entry]}), instance)
    with pytest.raises(InvalidInput, match="'nope-0' is no partition of the instance"):
        read_back(json.dumps({"partitions": [{**entry, "topic": "nope"}]}), instance)


def without(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda document: document["tasks"][0]["labels"].pop(key)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: d["tasks"][0]["labels"].update(replicas="1,²"), "'1,²' is no list of brokers"),
        (lambda d: d["tasks"][0]["labels"].update(partition="²"), "partition: '²' is no number"),
        (without("replicas"), r"tasks\[0\]\.labels\.replicas is missing"),
        (lambda d: d["tasks"][0].pop("node"), r"tasks\[0\]\.node is missing \(orders-0#1\)"),
        (lambda d: d["nodes"][2].update(labels={"dead": "true"}), "orders-0: 3 is dead"),
        (lambda d: d["nodes"][2].update(labels={"broker": "²"}), "'²' is no broker number"),
        (lambda d: d["nodes"][2].update(labels={"broker": "01"}), "1 is the broker of two nodes"),
        (lambda d: d["tasks"].pop(1), r"orders-0: \[3\] has 1 replicas, not 2"),
        (lambda d: d["tasks"][1].update(node="3"), "orders-0: 3 already holds another replica"),
    ],
)
def test_what_kafka_would_refuse_is_refused_by_name(
    saved: Callable[..., str], change: Callable[[dict[str, Any]], Any], told: str
) -> None:
    document = load(saved, systems.cruise_control()).to_dict()
    document.pop("sets")
    change(document)
    instance = Instance.from_dict(document)
    with pytest.raises(InvalidInput, match=told):
        export_plan("kafka", instance, plan_for(instance, {"orders-0#1": "3"}))


@given(st.data())
def test_any_allowed_plan_comes_back(data: st.DataObject) -> None:
    """Tasks without a role stand for the replica where they are, and its place in the list."""
    brokers = data.draw(st.integers(2, 5))
    tasks = []
    plan = {}
    for p in range(data.draw(st.integers(1, 6))):
        order = data.draw(st.permutations(range(brokers)))
        replicas = order[: data.draw(st.integers(1, brokers))]
        leader = data.draw(st.sampled_from(replicas))
        label = ",".join(map(str, replicas))
        labels = {"topic": "t", "partition": str(p), "replicas": label}
        tasks.append({"id": f"t-{p}", "node": str(leader), "labels": labels})
        free = [b for b in range(brokers) if b not in replicas or b == leader]
        plan[f"t-{p}"] = str(data.draw(st.sampled_from(free)))
    nodes = [{"id": str(b)} for b in range(brokers)]
    document = {"format": "streamplace.instance/1", "name": "k", "nodes": nodes, "tasks": tasks}
    instance = Instance.from_dict(document)
    texts = export_plan("kafka", instance, Plan("k", plan)).texts
    assert named(instance, read_back(texts[""], instance).node) == plan
    old, new = lists(texts[".rollback.json"]), lists(texts[""])
    for name, replicas in new.items():
        assert sum(a != b for a, b in zip(old[name], replicas, strict=True)) == 1
        assert len(set(replicas)) == len(replicas)
