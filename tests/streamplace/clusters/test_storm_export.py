"""Storm placement files: threads by worker, and the way back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optim import Instance, evaluate, solve
from optim.errors import InvalidInput
from optim.format.plan import Plan
from streamplace.clusters.exchange.declarations import Ledger, Places
from streamplace.clusters.exchange.sources import export_plan, import_instance
from streamplace.clusters.storm.exporter import decided_slots, read_back, remote_share
from tests.streamplace.clusters import systems

THREADS = [("form", "threads")]


def test_the_file(saved: Callable[..., str]) -> None:
    instance = import_instance("storm", [saved(systems.storm())]).instance
    now = Plan.from_indices(instance, instance.tasks.node, instance.tasks.slot)
    content = json.loads(export_plan("storm", instance, now, THREADS).texts[""])
    assert content == {
        "wordcount": {
            "sentences": {"conf": "s1#6700,1", "threads": "1"},
            "split": {"conf": "s1#6700,1/s2#6701,1", "threads": "2"},
            "count": {"conf": "s1#6700,1/s2#6701,1", "threads": "2"},
            "report": {"conf": "s1#6700,1/s2#6701,1", "threads": "2"},
        }
    }


def test_there_and_back(saved: Callable[..., str], tmp_path: Path) -> None:
    documents = systems.storm()
    instance = import_instance("storm", [saved(documents)]).instance
    plan = solve(instance, "storm-milp").plan
    assert plan is not None
    out = tmp_path / "placement.json"
    done = export_plan("storm", instance, plan)
    done.save(out)
    after = import_instance("storm", [saved(documents)], placement=str(out)).instance
    assert after.tasks.node.tolist() == plan.node_indices(instance).tolist()
    # the cluster as a scheduler would have made it
    for name in ("sentences", "split", "count", "report"):
        page = documents[f"topology/wordcount-1-1700000000/component/{name}"]
        for entry in page["executorStats"]:
            t = after.tasks.index[f"{name}{entry['id']}"]
            ports = after.nodes.labels[int(after.tasks.node[t])]["ports"].split(",")
            entry["host"] = after.nodes.ids[after.tasks.node[t]]
            entry["port"] = int(ports[after.tasks.slot[t]])
    anew = import_instance("storm", [saved(documents, "anew")]).instance
    assert anew.tasks.node.tolist() == plan.node_indices(instance).tolist()


def test_executors_that_stay_keep_their_slot(saved: Callable[..., str]) -> None:
    instance = import_instance("storm", [saved(systems.storm())]).instance
    nodes = instance.tasks.node.copy()
    nodes[instance.tasks.index["report[4-4]"]] = 1
    done = export_plan("storm", instance, Plan.from_indices(instance, nodes), THREADS)
    assert json.loads(done.texts[""])["wordcount"]["report"]["conf"] == "s2#6701,2"
    assert any("decides no slots" in reading for reading in done.ledger.readings)


def cluster(counts: list[int], now: list[tuple[int, int]] | None = None) -> Instance:
    """Components of these sizes on three hosts of three slots."""
    tasks: list[dict[str, Any]] = []
    for c, count in enumerate(counts):
        for i in range(count):
            entry: dict[str, Any] = {"id": f"c{c}[{i}]", "operator": f"c{c}"}
            if now is not None:
                node, slot = now[len(tasks)]
                entry |= {"node": f"h{node}", "slot": slot}
            tasks.append(entry)
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "job",
            "nodes": [{"id": f"h{n}", "slots": 3} for n in range(3)],
            "topologies": [{"id": "t"}],
            "operators": [{"id": f"c{c}", "topology": "t"} for c in range(len(counts))],
            "tasks": tasks,
        }
    )


PLACE = st.tuples(st.integers(0, 2), st.integers(0, 2))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_threads_by_worker_come_back(counts: list[int], data: st.DataObject) -> None:
    total = sum(counts)
    now = data.draw(st.lists(PLACE, min_size=total, max_size=total))
    then = data.draw(st.lists(PLACE, min_size=total, max_size=total))
    instance = cluster(counts, now)
    node, slot = (np.array(column) for column in zip(*then, strict=True))
    done = export_plan("storm", instance, Plan.from_indices(instance, node, slot))
    back = read_back(done.texts[""], instance)
    assert back.slot is not None
    for o in range(instance.num_operators):
        tasks = instance.tasks_of(o).tolist()
        found = sorted((back.node[t], back.slot[t]) for t in tasks)
        assert found == sorted((node[t], slot[t]) for t in tasks)
    same = [(back.node[t], back.slot[t]) == then[t] for t in range(total)]
    told = any("may trade places" in text for text in done.ledger.warnings)
    assert told is not all(same)


def test_slots_of_a_plan_that_decides_none() -> None:
    instance = cluster([3, 2], [(0, 2), (0, 1), (0, 2), (1, 0), (2, 0)])
    # the last two executors come to h0, where their topology's fullest worker is slot 2
    done = export_plan("storm", instance, Plan.from_indices(instance, [0, 0, 0, 0, 0]))
    content = json.loads(done.texts[""])["t"]
    assert content["c0"]["conf"] == "h0#6701,1/h0#6702,2"
    assert content["c1"]["conf"] == "h0#6702,2"
    # a node without a worker gives its first idle slot
    done = export_plan("storm", instance, Plan.from_indices(instance, [1, 1, 1, 1, 1]))
    assert json.loads(done.texts[""])["t"]["c0"]["conf"] == "h1#6700,3"


def test_a_component_that_begins_like_its_topology_keeps_its_name() -> None:
    """The import puts the topology before a component only where there are several."""
    document = cluster([1, 1], [(0, 0), (0, 0)]).to_dict()
    for name, entry in zip(("t:c1", "c1"), document["operators"], strict=True):
        entry["id"] = name
    for name, entry in zip(("t:c1", "c1"), document["tasks"], strict=True):
        entry["operator"] = name
    instance = Instance.from_dict(document)
    done = export_plan("storm", instance, Plan.from_indices(instance, [0, 1], [0, 0]))
    content = json.loads(done.texts[""])["t"]
    assert {name: entry["conf"] for name, entry in content.items()} == {
        "t:c1": "h0#6700,1", "c1": "h1#6700,1",
    }  # fmt: skip


def test_too_few_slots_are_refused() -> None:
    document = cluster([1, 1]).to_dict()
    document["topologies"].append({"id": "u"})
    document["operators"][1]["topology"] = "u"
    document["nodes"] = [{"id": "h0", "slots": 1}]
    instance = Instance.from_dict(document)
    with pytest.raises(InvalidInput, match=r"slots: h0.*needs 2, has 1"):
        export_plan("storm", instance, Plan.from_indices(instance, [0, 0]))


def draining() -> Instance:
    """Four tasks on b, which leaves, in one slot; a has four; two workers, two tasks a slot."""
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "drain",
            "nodes": [{"id": "a", "slots": 4}, {"id": "b", "slots": 4, "leaving": True}],
            "topologies": [{"id": "t", "workers": 2}],
            "operators": [{"id": "c", "topology": "t"}],
            "tasks": [{"id": f"c/{i}", "operator": "c", "node": "b", "slot": 0} for i in range(4)],
            "limits": {"max_tasks_per_slot": 2},
        }
    )


def test_the_referees_dealing_is_written() -> None:
    instance = draining()
    plan = Plan.from_indices(instance, [0] * 4)
    assert evaluate(instance, plan).feasible
    done = export_plan("storm", instance, plan)
    assert json.loads(done.texts[""])["t"]["c"]["conf"] == "a#6700,2/a#6701,2"
    assert any("that the referee assigned" in reading for reading in done.ledger.readings)


def test_a_plan_that_decides_half_of_its_slots_is_refused() -> None:
    instance = draining()
    plan = Plan("drain", dict.fromkeys(instance.tasks.ids, "a"), slots={"c/0": 0})
    with pytest.raises(InvalidInput, match=r"slots\.c/1: None is missing|slots\.c/1 is missing"):
        export_plan("storm", instance, plan)


@pytest.mark.parametrize(
    ("more", "slots"),
    [
        ({"sets": [{"id": "p", "operator": "c", "rule": "apart", "over": "slot"}]}, [0, 1]),
        ({"limits": {"max_workers_restarted": 1}}, [1, 1]),
    ],
)
def test_slots_keep_what_the_referee_demands_of_them(
    more: dict[str, Any], slots: list[int]
) -> None:
    """Both executors would join one worker; or take a new one though only one may change."""
    now = [("b", 0), ("b", 1)] if "sets" in more else [("a", 1), ("a", 1)]
    document = draining().to_dict() | {"limits": {}, "topologies": [{"id": "t"}]} | more
    document["tasks"] = [
        {"id": f"c/{i}", "operator": "c", "node": n, "slot": k} for i, (n, k) in enumerate(now)
    ]
    instance = Instance.from_dict(document)
    plan = Plan.from_indices(instance, [0, 0])
    assert evaluate(instance, plan).feasible
    found = decided_slots(instance, Places(np.array([0, 0])), Ledger())
    assert sorted(found.tolist()) == slots
    assert evaluate(instance, Plan.from_indices(instance, [0, 0], found)).feasible


@st.composite
def placed(draw: st.DrawFn) -> tuple[Instance, list[int]]:
    """Topologies with workers, loads, slots of a size, and a placement without slots."""
    nodes = draw(st.integers(1, 3))
    topologies = draw(st.integers(1, 2))
    tasks: list[dict[str, Any]] = []
    for i in range(draw(st.integers(1, 7))):
        owner = draw(st.integers(0, topologies - 1))
        entry = {"id": f"x{i}", "operator": f"c{owner}", "load": {"cpu": draw(st.integers(1, 4))}}
        if draw(st.booleans()):
            entry |= {
                "node": f"h{draw(st.integers(0, nodes - 1))}",
                "slot": draw(st.integers(0, 2)),
            }
        tasks.append(entry)
    limits = {"max_tasks_per_slot": draw(st.integers(1, 4))}
    if all("slot" in task for task in tasks) and draw(st.booleans()):
        limits["max_workers_restarted"] = draw(st.integers(0, 4))
    rules = draw(st.lists(st.sampled_from(["apart", "together", "spread"]), max_size=2))
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "job",
            "resources": ["cpu"],
            "nodes": [
                {"id": f"h{n}", "slots": 3, "slot_capacity": {"cpu": draw(st.integers(4, 9))}}
                for n in range(nodes)
            ],
            "topologies": [
                {"id": f"t{i}", "workers": draw(st.integers(1, 4))} for i in range(topologies)
            ],
            "operators": [{"id": f"c{i}", "topology": f"t{i}"} for i in range(topologies)],
            "tasks": tasks,
            "sets": [
                {"id": f"s{i}", "operator": "c0", "over": "slot", "rule": rule}
                | ({"at_least": 2} if rule == "spread" else {})
                for i, rule in enumerate(rules)
                if any(task["operator"] == "c0" for task in tasks)
            ],
            "limits": limits,
        }
    )
    return instance, [draw(st.integers(0, nodes - 1)) for _ in tasks]


@given(placed())
@settings(max_examples=300, deadline=None)
def test_what_is_written_is_what_the_referee_accepts(case: tuple[Instance, list[int]]) -> None:
    """A plan that it accepts is written in slots that it accepts; any other is refused."""
    instance, nodes = case
    plan = Plan.from_indices(instance, nodes)
    if any(v.rule in _OF_SLOTS for v in evaluate(instance, plan).violations):
        with pytest.raises(InvalidInput, match="slots"):
            export_plan("storm", instance, plan)
        return
    back = read_back(export_plan("storm", instance, plan).texts[""], instance)
    assert back.slot is not None
    # the file counts threads of a component: which of them is where is the scheduler's choice
    slots = decided_slots(instance, Places(np.array(nodes)), Ledger())
    assert evaluate(instance, Plan.from_indices(instance, nodes, slots)).violations == ()
    for o in range(instance.num_operators):
        tasks = instance.tasks_of(o)
        assert sorted(zip(back.node[tasks], back.slot[tasks], strict=True)) == sorted(
            zip(np.array(nodes)[tasks], slots[tasks], strict=True)
        )


_OF_SLOTS = {
    "slots", "slot_capacity", "one_topology_a_slot", "workers", "max_tasks_per_slot", "slot_sets",
    "max_workers_restarted",
}  # fmt: skip


def test_names_the_format_cannot_hold() -> None:
    document = cluster([1]).to_dict()
    document["nodes"] = [{"id": "a/b", "slots": 1}]
    instance = Instance.from_dict(document)
    with pytest.raises(InvalidInput, match="holds one of # / ,"):
        export_plan("storm", instance, Plan.from_indices(instance, [0]))


def test_ports_that_are_no_numbers_are_passed_over() -> None:
    document = cluster([1]).to_dict()
    document["nodes"] = [{"id": "h0", "slots": 2, "labels": {"ports": "²,7000"}}]
    instance = Instance.from_dict(document)
    done = export_plan("storm", instance, Plan.from_indices(instance, [0], [0]))
    assert json.loads(done.texts[""])["t"]["c0"]["conf"] == "h0#7000,1"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "t.c0.conf is missing"),
        ('{"t": {"c0": {"conf": "h0#6700,3"}}}', "3 threads are placed, of 2 executors"),
        ('{"t": {"c0": {"conf": "h9#6700,2"}}}', "is no worker of the instance"),
        ('{"t": {"c0": {"conf": "h0#1,2"}}}', "is no worker of the instance"),
        ('{"t": {"c0": {"conf": "h0"}}}', "is no worker of the instance"),
        ('{"t": []}', "t.c0.conf is missing"),
        ("[]", "t.c0.conf is missing"),
    ],
)
def test_files_that_do_not_fit(text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        read_back(text, cluster([2]))


def test_what_near_receivers_send_on_counts_in_the_share() -> None:
    """Both spouts are beside b[3-3], which gets all; b[4-4], beside the sink, sends nothing on."""
    document = {
        "format": "streamplace.instance/1",
        "name": "words",
        "nodes": [{"id": n, "slots": 2} for n in ("n1", "n2")],
        "operators": [{"id": o} for o in "abc"],
        "tasks": [
            {"id": name, "operator": name[0]}
            for name in ("a[1-1]", "a[2-2]", "b[3-3]", "b[4-4]", "c[5-5]", "c[6-6]")
        ],
        "streams": [
            {"from": "a", "to": "b", "rate": 100, "pattern": "local_first"},
            {"from": "b", "to": "c", "rate": 300},
        ],
        "traffic": [[b, c, 75] for b in ("b[3-3]", "b[4-4]") for c in ("c[5-5]", "c[6-6]")],
    }
    made = Instance.from_dict(document)
    gathered, slot = np.array([0, 0, 0, 1, 1, 1]), np.zeros(6, dtype=int)
    assert remote_share(made, gathered, slot) == pytest.approx(300 / 400)
    parted = np.array([0, 1, 0, 1, 0, 1])  # each spout to its own, 150 each, half to the other node
    assert remote_share(made, parted, slot) == pytest.approx(150 / 400)
    away = np.array([0, 0, 1, 1, 0, 0])  # nobody near: evenly, and all of it crosses
    assert remote_share(made, away, slot) == pytest.approx(1.0)
    worker = np.array([0, 0, 0, 0, 0, 1])  # in the sender's worker before its node
    assert remote_share(made, worker, np.array([0, 0, 0, 1, 0, 0])) == pytest.approx(150 / 400)
    whole = Instance.from_dict({**document, "streams": document["streams"][1:]})
    assert remote_share(whole, gathered, slot) == pytest.approx(150 / 300)
