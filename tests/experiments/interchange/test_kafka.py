"""Kafka's reassignment files: there and back, the state after a plan, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.interchange.exporters.kafka import read_back
from experiments.interchange.exporting import export_plan
from experiments.interchange.importing import import_instance
from optim import Instance, solve
from optim.errors import InvalidInput
from optim.format.plan import Plan
from tests.experiments.interchange import systems


def load(saved: Callable[..., str], documents: dict[str, Any]) -> Instance:
    return import_instance("cruise-control", [saved(documents)]).instance


def test_there_and_back(saved: Callable[..., str], tmp_path: Path) -> None:
    documents = systems.cruise_control()
    instance = load(saved, documents)
    result = solve(instance, "balance-search")
    assert result.plan is not None
    done = export_plan("kafka", instance, result.plan)
    out = tmp_path / "reassignment.json"
    written = done.save(out)
    assert [path.name for path in written] == ["reassignment.json", "reassignment.rollback.json"]
    placed = import_instance("cruise-control", [saved(documents)], placement=str(out)).instance
    assert placed.tasks.node.tolist() == result.plan.node_indices(instance).tolist()
    back = import_instance("cruise-control", [saved(documents)], placement=str(written[1])).instance
    assert back.tasks.node.tolist() == instance.tasks.node.tolist()
    # the cluster after Kafka carried it out, imported anew
    moved = {
        (p["topic"], p["partition"]): p["replicas"]
        for p in json.loads(out.read_text())["partitions"]
    }
    for record in documents["partition_load"]["records"]:
        replicas = moved.get((record["topic"], record["partition"]))
        if replicas:
            record["leader"], record["followers"] = replicas[0], replicas[1:]
    after = load(saved, documents)
    assert after.tasks.node.tolist() == result.plan.node_indices(instance).tolist()
    assert moved


def plan_for(instance: Instance, **moves: str) -> Plan:
    ids, node = instance.nodes.ids, instance.tasks.node
    now = {t: ids[n] for t, n in zip(instance.tasks.ids, node.tolist(), strict=True)}
    return Plan(instance.name, {**now, **{k.replace("_", "-"): v for k, v in moves.items()}})


def test_the_reassignment_file(saved: Callable[..., str]) -> None:
    instance = load(saved, systems.cruise_control())
    done = export_plan("kafka", instance, plan_for(instance, orders_0="3", clicks_0="2"))
    assert json.loads(done.texts[""]) == {
        "version": 1,
        "partitions": [
            {"topic": "orders", "partition": 0, "replicas": [3, 2]},
            {"topic": "clicks", "partition": 0, "replicas": [2]},
        ],
    }
    assert json.loads(done.texts[".rollback.json"])["partitions"] == [
        {"topic": "orders", "partition": 0, "replicas": [1, 2]},
        {"topic": "clicks", "partition": 0, "replicas": [1]},
    ]


def test_the_order_of_replicas_is_kept(saved: Callable[..., str]) -> None:
    documents = systems.cruise_control()
    documents["current"] = {
        "version": 1,
        "partitions": [
            {"topic": "orders", "partition": 0, "replicas": [2, 1], "log_dirs": ["any"]}
        ],
    }
    instance = load(saved, documents)
    done = export_plan("kafka", instance, plan_for(instance, orders_0="3"))
    moved = json.loads(done.texts[""])["partitions"]
    assert moved == [{"topic": "orders", "partition": 0, "replicas": [2, 3]}]
    assert read_back(done.texts[""], instance).node[0] == 2
    documents["current"]["partitions"][0]["replicas"] = [2, 3]
    with pytest.raises(InvalidInput, match="differs from the replicas"):
        load(saved, documents)


def state_after(saved: Callable[..., str], placement: Path, *options: Any) -> Instance:
    documents = systems.cruise_control()
    return import_instance(
        "cruise-control", [saved(documents)], options, placement=str(placement)
    ).instance


def test_the_state_after_a_plan_can_be_exported_again(
    saved: Callable[..., str], tmp_path: Path
) -> None:
    instance = load(saved, systems.cruise_control())
    out = tmp_path / "r.json"
    plan = plan_for(instance, orders_0="3", clicks_0="2")
    _, rollback = export_plan("kafka", instance, plan).save(out)
    after = state_after(saved, out)
    labels = [after.tasks.labels[t]["replicas"] for t in range(4)]
    assert labels == ["3,2", "1,2", "1,3", "2"]
    again = export_plan("kafka", after, plan_for(after, orders_0="1"))
    entry = {"topic": "orders", "partition": 0}
    assert json.loads(again.texts[""])["partitions"] == [{**entry, "replicas": [1, 2]}]
    assert json.loads(again.texts[".rollback.json"])["partitions"] == [
        {**entry, "replicas": [3, 2]}
    ]
    assert read_back(out.read_text(), after).node.tolist() == after.tasks.node.tolist()
    assert read_back(rollback.read_text(), after).node.tolist() == instance.tasks.node.tolist()
    # the same state by a plan, and by the plain moves
    plan.save(tmp_path / "p.json")
    export_plan("moves", instance, plan).save(tmp_path / "moves.csv")
    for name in ("p.json", "moves.csv"):
        assert state_after(saved, tmp_path / name).sha256 == after.sha256


def test_where_a_leader_may_go_follows_a_placement(
    saved: Callable[..., str], tmp_path: Path
) -> None:
    moves = tmp_path / "moves.csv"
    moves.write_text("task,from,to\norders-0,1,3\n")
    plain = state_after(saved, moves)
    assert plain.allowed_mask(0).tolist() == [True, False, True]
    # broker 1 shares rack r1 with the replica on 2: it may keep the leader, not take it back
    racks = state_after(saved, moves, ("rack_aware", "true"))
    assert racks.allowed_mask(0).tolist() == [False, False, True]
    moves.write_text("task,from,to\norders-0,1,2\n")
    with pytest.raises(InvalidInput, match=r"moves\.csv.*orders-0: 2 already holds another"):
        state_after(saved, moves)


@pytest.mark.parametrize(
    ("replicas", "told"),
    [
        ([3], "differs from"),
        ([3, 2, 1], "differs from"),
        ([2, 1], "differs from"),
        ([1, 3], "differs from"),
        ([3, 1], "differs from"),
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


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"replicas": "1,²"}, r"replicas: '1,²' is no list of brokers \(orders-0\)"),
        ({"partition": "²"}, r"partition: '²' is no number \(orders-0\)"),
    ],
)
def test_labels_that_are_no_numbers(
    saved: Callable[..., str], change: dict[str, str], told: str
) -> None:
    document = load(saved, systems.cruise_control()).to_dict()
    document["tasks"][0]["labels"] |= change
    instance = Instance.from_dict(document)
    with pytest.raises(InvalidInput, match=told):
        export_plan("kafka", instance, plan_for(instance, orders_0="3"))


@pytest.mark.parametrize(("name", "told"), [("²", "is no broker number"), ("01", "of two nodes")])
def test_nodes_that_are_no_brokers(name: str, told: str) -> None:
    document = {
        "format": "streamplace.instance/1",
        "name": "k",
        "nodes": [{"id": "1"}, {"id": name}],
        "tasks": [{"id": "t-0", "node": "1"}],
    }
    instance = Instance.from_dict(document)
    with pytest.raises(InvalidInput, match=told):
        export_plan("kafka", instance, Plan("k", {"t-0": "1"}))


def test_a_task_that_is_nowhere_is_refused_by_name(saved: Callable[..., str]) -> None:
    document = load(saved, systems.cruise_control()).to_dict()
    del document["tasks"][3]["node"]
    instance = Instance.from_dict(document)
    where = {t: str(n + 1) for t, n in zip(instance.tasks.ids, instance.tasks.node, strict=True)}
    with pytest.raises(InvalidInput, match=r"tasks\[3\]\.node is missing \(clicks-0\)"):
        export_plan("kafka", instance, Plan("k", {**where, "clicks-0": "1"}))


def test_a_broker_with_another_replica_is_refused_by_name(saved: Callable[..., str]) -> None:
    instance = load(saved, systems.cruise_control())
    with pytest.raises(InvalidInput, match=r"orders-0: 2 already holds another replica"):
        export_plan("kafka", instance, plan_for(instance, orders_0="2"))


def test_refused_without_replica_lists(saved: Callable[..., str]) -> None:
    document = load(saved, systems.cruise_control()).to_dict()
    for task in document["tasks"]:
        del task["labels"]["replicas"]
    bare = Instance.from_dict(document)
    with pytest.raises(InvalidInput, match=r"tasks\[0\]\.labels\.replicas is missing"):
        export_plan("kafka", bare, plan_for(bare, orders_0="3"))
    unplaced = Instance.from_dict(
        {
            **document,
            "tasks": [{k: v for k, v in t.items() if k != "node"} for t in document["tasks"]],
        }
    )
    everywhere = Plan("x", dict.fromkeys(unplaced.tasks.ids, "1"))
    with pytest.raises(InvalidInput, match="which replica to replace is unknown"):
        export_plan("kafka", unplaced, everywhere)


@given(st.data())
def test_any_allowed_plan_comes_back(data: st.DataObject) -> None:
    brokers = data.draw(st.integers(2, 5))
    tasks = []
    plan = {}
    for p in range(data.draw(st.integers(1, 6))):
        order = data.draw(st.permutations(range(brokers)))
        replicas = order[: data.draw(st.integers(1, brokers))]
        leader = data.draw(st.sampled_from(replicas))
        tasks.append(
            {
                "id": f"t-{p}",
                "node": str(leader),
                "labels": {
                    "topic": "t",
                    "partition": str(p),
                    "replicas": ",".join(map(str, replicas)),
                },
            }
        )
        free = [b for b in range(brokers) if b not in replicas or b == leader]
        plan[f"t-{p}"] = str(data.draw(st.sampled_from(free)))
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "k",
            "nodes": [{"id": str(b)} for b in range(brokers)],
            "tasks": tasks,
        }
    )
    done = export_plan("kafka", instance, Plan("k", plan))
    back = read_back(done.texts[""], instance)
    assert [instance.nodes.ids[n] for n in back.node] == list(plan.values())
    for old, new in zip(
        json.loads(done.texts[".rollback.json"])["partitions"],
        json.loads(done.texts[""])["partitions"],
        strict=True,
    ):
        changed = [
            i
            for i, (a, b) in enumerate(zip(old["replicas"], new["replicas"], strict=True))
            if a != b
        ]
        assert len(changed) == 1
        assert len(set(new["replicas"])) == len(new["replicas"])
