"""Another parallelism: what an operator does is split over its new tasks, and nothing is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optim import Instance, InvalidInput, Plan, evaluate
from optim.format.parallelism import at_parallelism, largest_share, shares, spoken_of, why_fixed
from optim.referee import check_belongs
from streamplace.cli.main import main


def document(**operator: Any) -> dict[str, Any]:
    """A source of two tasks, a count of three, and a sink that takes pairs; two nodes."""
    return {
        "format": "streamplace.instance/1",
        "name": "job",
        "resources": ["cpu", "slot"],
        "nodes": [{"id": n, "capacity": {"cpu": 10, "slot": 4}} for n in ("n1", "n2")],
        "links": [{"id": "up", "nodes": ["n1"], "capacity": 20}],
        "operators": [
            {"id": "in", "group": {"tasks": 2, "load": {"cpu": 2, "slot": 2}}},
            {"id": "count", "group": {"tasks": 3, "load": {"cpu": 6, "slot": 3}, "state": 12}}
            | operator,
            {"id": "out"},
        ],
        "tasks": [
            {"id": "in/1", "node": "n2"},
            {"id": "o1", "operator": "out", "load": {"cpu": 3, "slot": 1}, "node": "n1"},
            {"id": "o2", "operator": "out", "load": {"cpu": 1, "slot": 1}, "max_load": {"cpu": 4}},
        ],
        "streams": [{"from": "in", "to": "count", "rate": 6.0}],
        "traffic": [["count/0", "o1", 2.0], ["count/1", "o1", 1.0]],
    }


def made(**operator: Any) -> Instance:
    return Instance.from_dict(document(**operator))


def test_of_traffic_within_an_operator_the_part_of_a_task_itself_is_none() -> None:
    """Slots that share all vertices: of what is spread evenly over 3, two thirds leave a slot."""
    job = document()
    job["traffic"] = [["count/0", "count/1", 2.0], ["count/1", "count/2", 2.0]]
    four = at_parallelism(Instance.from_dict(job), {"count": 4})
    within = four.tasks.operator[four.traffic.source] == four.tasks.operator[four.traffic.target]
    assert int(within.sum()) in (6, 12)  # pairs, of one direction or of both
    assert four.traffic.rate[within].sum() == pytest.approx(4 / (1 - 1 / 3) * (1 - 1 / 4))
    one = at_parallelism(Instance.from_dict(job), {"count": 1})
    assert not (one.tasks.operator[one.traffic.source] == 1).any()


def test_tasks_that_stay_keep_lists_and_copies_of_their_own() -> None:
    job = document(key_groups=5)
    own = {"id": "count/0", "allowed": ["n1"], "node": "n2", "copies": ["n1"]}
    job["tasks"].append(own)
    same = at_parallelism(Instance.from_dict(job), {"count": 3})
    assert not np.allclose(same.tasks.load[2:5, 0], 2)  # of five key groups, 1, 2 and 2
    assert [same.allowed_mask(t).tolist() for t in (2, 3)] == [[True, False], [True, True]]
    assert same.copy_nodes == {2: frozenset({0})}


def test_totals_stay_and_slots_are_of_each_task() -> None:
    before = made()
    after = at_parallelism(before, {"count": 5, "out": 1, "in": 3})
    assert after.tasks.ids == ("in/0", "in/1", "in/2", *(f"count/{i}" for i in range(5)), "o1")
    assert after.total_load.tolist() == [12.0, 9.0]
    assert after.total_traffic == pytest.approx(before.total_traffic)
    assert after.tasks.load[after.tasks_of(1), 0] == pytest.approx(np.full(5, 1.2))
    assert after.tasks.state[after.tasks_of(1)].sum() == pytest.approx(12)
    assert after.tasks.node.tolist() == [-1, 1, -1, *[-1] * 5, 0]
    # the pairs of count and out have become a stream, spread fully
    crossing = evaluate(after, Plan.from_indices(after, [0] * 8 + [1])).internode_traffic
    assert crossing == pytest.approx(3.0)


def test_what_does_not_change_stays_as_measured() -> None:
    before = made()
    assert at_parallelism(before, {"count": 3, "out": 2}).sha256 == before.sha256
    assert at_parallelism(before, {"in": 1}).tasks.load[:, 0].tolist() == [2, 2, 2, 2, 3, 1]


@pytest.mark.parametrize("tasks", range(1, 13))
def test_key_groups_are_whole(tasks: int) -> None:
    share = shares(tasks, 12)
    ranges = [  # as Flink's KeyGroupRangeAssignment computes them
        ((i + 1) * 12 - 1) // tasks - (i * 12 + tasks - 1) // tasks + 1 for i in range(tasks)
    ]
    assert (share * 12).tolist() == ranges
    assert share.max() == largest_share(tasks, 12)
    after = at_parallelism(made(key_groups=12), {"count": tasks})
    assert after.tasks.load[after.tasks_of(1), 0] == pytest.approx(6 * share)
    assert after.total_traffic == pytest.approx(9)
    received = np.zeros(after.num_tasks)
    flows = after.flows.directed()
    np.add.at(received, flows[1], flows[2])
    assert received[after.tasks_of(1)] == pytest.approx(6 * share)


def test_128_key_groups_on_85_tasks() -> None:
    share = shares(85, 128)
    assert (share.max() * 128, (share == share.max()).sum(), share.sum()) == (2, 43, 1)


@pytest.mark.parametrize(
    ("bounds", "path"),
    [
        ({"min_parallelism": 3, "max_parallelism": 2}, r"operators\[1\].min_parallelism"),
        ({"max_parallelism": 9, "key_groups": 8}, r"operators\[1\].max_parallelism"),
        ({"min_parallelism": 9, "key_groups": 8}, r"operators\[1\].min_parallelism"),
        ({"key_groups": 0}, "key_groups"),
    ],
)
def test_bounds_that_contradict(bounds: dict[str, int], path: str) -> None:
    with pytest.raises(InvalidInput, match=path):
        made(**bounds)


@pytest.mark.parametrize(
    ("parallelism", "added", "reason"),
    [
        ({"cuont": 2}, {}, "did you mean count"),
        ({"count": 1}, {}, "must be at least 2"),
        ({"count": 5}, {}, "must be at most 4"),
        ({"in": 3}, {"n1": "n2"}, "is a node already"),
        ({"in": 3}, {"n3": "n4"}, "is like 'n4'"),
    ],
)
def test_what_cannot_be(parallelism: dict[str, int], added: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        at_parallelism(made(min_parallelism=2, key_groups=4), parallelism, added)


def test_one_to_one_stays_equal_and_listed_tasks_stay() -> None:
    value = document()
    value["streams"].append({"from": "count", "to": "out", "rate": 1, "pattern": "merge"})
    value["streams"].append({"from": "out", "to": "in", "rate": 1, "pattern": "one_to_one"})
    value["sets"] = [{"id": "far", "tasks": ["count/0", "count/1"], "rule": "apart"}]
    before = Instance.from_dict(value)
    assert why_fixed(before, 1) == "has tasks that the set far lists"
    with pytest.raises(InvalidInput, match="set far lists"):
        at_parallelism(before, {"count": 4})
    with pytest.raises(InvalidInput, match="one to one"):
        at_parallelism(before, {"in": 4})
    assert at_parallelism(before, {"in": 4, "out": 4}).num_tasks == 11


def plan_of(before: Instance, **changes: Any) -> Plan:
    after = at_parallelism(before, {"count": 2}, {"n3": "n1"})
    places = dict(zip(after.tasks.ids, ("n1", "n2", "n3", "n3", "n1", "n1"), strict=True))
    plan = Plan(
        before.name, places, parallelism={"count": 2}, added_nodes={"n3": "n1"}, target_rate=2.0,
        claimed_instance_sha256=before.sha256,
    )  # fmt: skip
    return replace(plan, **changes)


def test_the_referee_judges_a_plan_at_its_rate(tmp_path: Path, capsys: Any) -> None:
    before = made()
    plan = plan_of(before)
    again = Plan.from_json(plan.to_json())
    assert again.sha256 == plan.sha256
    found = evaluate(before, again)
    assert found.sustainable_rate == pytest.approx(10 / 6)  # 6 cpu of 10 on n3
    assert [v.rule for v in found.violations] == ["capacity"]
    assert evaluate(before, plan_of(before, target_rate=1.5)).feasible
    assert spoken_of(before, plan)[0].num_nodes == 3
    with pytest.raises(InvalidInput, match="another instance"):
        evaluate(made(max_parallelism=9), plan)
    with pytest.raises(InvalidInput, match=r"assignment.count/0"):
        evaluate(before, plan_of(before, assignment={"count/0": "n4"}))
    before.save(tmp_path / "job.json")
    plan_of(before, target_rate=1.5).save(tmp_path / "plan.json")
    assert (
        main(["evaluate", str(tmp_path / "job.json"), str(tmp_path / "plan.json"), "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["nodes_used"] == 3
    assert main(["evaluate", str(tmp_path / "job.json"), str(tmp_path / "plan.json")]) == 0
    assert main(["check", str(tmp_path / "job.json"), str(tmp_path / "plan.json")]) == 0
    with pytest.raises(InvalidInput, match="takes a restart or a rescale"):
        check_belongs(before, plan)


def test_machine_types_of_nodes() -> None:
    value = document()
    value["nodes"][0]["vm_type"] = "small"
    with pytest.raises(InvalidInput, match=r"nodes\[0\].vm_type"):
        Instance.from_dict(value)
    value["vm_types"] = [{"id": "small", "slots": 4, "price": 1.5}]
    read = Instance.from_dict(value)
    assert read.nodes.vm_type.tolist() == [0, -1]
    assert Instance.from_dict(read.to_dict()).sha256 == read.sha256


def test_fields_survive_a_round_trip() -> None:
    read = made(min_parallelism=2, max_parallelism=5, key_groups=6)
    again = Instance.from_json(read.to_json())
    table = again.operators
    told = (table.min_parallelism, table.max_parallelism, table.key_groups)
    assert [x.tolist() for x in told] == [[-1, 2, -1], [-1, 5, -1], [-1, 6, -1]]
    assert again.sha256 == read.sha256


def test_weights_of_senders_follow_their_number() -> None:
    document = {
        "format": "streamplace.instance/1", "name": "near",
        "nodes": [{"id": "n"}],
        "operators": [
            {"id": "a", "group": {"tasks": 2, "load": {"cpu": 4}}},
            {"id": "b", "group": {"tasks": 2, "load": {"cpu": 4}}},
        ],
        "streams": [
            {"from": "a", "to": "b", "rate": 8, "pattern": "local_first", "sender_weights": [3, 1]}
        ],
    }  # fmt: skip
    scaled = at_parallelism(Instance.from_dict(document), {"a": 4, "b": 3})
    (stream,) = scaled.streams
    assert stream.pattern == "local_first"
    assert stream.sender_weights == pytest.approx((0.25,) * 4)
    assert [len(near.targets) for near in scaled.flows.local] == [3]
