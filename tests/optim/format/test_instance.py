"""The instance: spreading, canonical form, hash, files."""

from __future__ import annotations

import gc
import gzip
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim import Instance, InvalidInput
from optim.rules import without_limits
from tests.optim.make import document, instance, nodes


def test_group_members_share_evenly() -> None:
    made = instance()
    assert made.tasks.ids == ("a/0", "a/1", "b/0", "b/1")
    assert made.tasks.load[:, 0].tolist() == [2, 2, 4, 4]
    assert made.tasks.state[2:].tolist() == [3, 3]
    assert made.tasks.migration_cost.tolist() == [1, 1, 3, 3]  # state, else 1
    assert made.total_traffic == 12
    assert made.pairs.rate.tolist() == [3, 3, 3, 3]


def test_override_changes_one_member_only() -> None:
    made = instance(
        tasks=[
            {"id": "b/1", "load": {"cpu": 7}, "migration_cost": 9, "node": "n2", "allowed": ["n2"]}
        ]
    )
    assert made.tasks.load[:, 0].tolist() == [2, 2, 4, 7]
    assert made.tasks.migration_cost.tolist() == [1, 1, 3, 9]
    assert made.tasks.node.tolist() == [-1, -1, -1, 1]
    assert made.allowed_mask(3).tolist() == [False, True]
    assert made.allowed_mask(2).all()


def test_listed_tasks_follow_the_groups() -> None:
    made = instance(
        operators=[{"id": "x"}, {"id": "a", "group": {"tasks": 2}}],
        tasks=[{"id": "t", "operator": "x"}, {"id": "a/1", "node": "n1"}, {"id": "free"}],
        streams=[],
    )
    assert made.tasks.ids == ("a/0", "a/1", "t", "free")
    assert made.tasks_of(0).tolist() == [2]
    assert made.tasks_of(1).tolist() == [0, 1]
    assert made.tasks.operator.tolist() == [1, 1, 0, -1]
    assert made.tasks.member.tolist() == [0, 1, 0, -1]


def test_traffic_replaces_the_spread_of_its_stream_only() -> None:
    made = instance(
        operators=[{"id": o, "group": {"tasks": 2}} for o in "abc"],
        streams=[{"from": "a", "to": "b", "rate": 12}, {"from": "b", "to": "c", "rate": 8}],
        traffic=[["a/0", "b/0", 5], ["b/0", "a/0", 1]],
    )
    # a→b is replaced by its entries; b→a never had a stream; b→c keeps its spread of 2 a pair
    assert made.total_traffic == 5 + 1 + 8
    assert made.adjacency[0, 2] == 6
    assert made.adjacency[1, 2] == 0
    starts, partners, rates = made.partners
    assert starts.tolist() == made.adjacency.indptr.tolist()
    assert partners.tolist() == made.adjacency.indices.tolist()
    assert rates.tolist() == made.adjacency.data.tolist()


def test_headroom_takes_background_and_utilisation() -> None:
    made = instance(
        nodes=[{"id": "n1", "capacity": {"cpu": 10}, "background": {"cpu": 2}}, {"id": "n2"}],
        limits={"max_utilisation": {"cpu": 0.9}},
    )
    assert made.headroom.tolist() == [[7.0], [np.inf]]


def test_arrays_cannot_be_changed() -> None:
    made = instance()
    for array in (made.tasks.load, made.nodes.capacity, made.pairs.rate, made.headroom):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_canonical_form_survives_a_round_trip() -> None:
    made = instance(
        resources=["cpu", "mem"],
        units={"cpu": "%"},
        labels={"k": "v"},
        nodes=[
            {
                "id": "n1",
                "capacity": {"cpu": 10, "mem": 4},
                "min_load": {"cpu": 1},
                "weight": 2,
                "slots": 2,
                "slot_capacity": {"mem": 2},
                "rack": "r",
                "labels": {"h": "x"},
            },
            {"id": "n2", "leaving": True},
        ],
        links=[{"id": "up", "nodes": ["n1"], "capacity": 5}],
        topologies=[{"id": "t", "workers": 2}],
        operators=[
            {"id": "a", "topology": "t", "role": "source", "group": {"tasks": 3}},
            {"id": "b", "cpu_per_tuple": 0.5, "group": {"tasks": 2, "load": {"mem": 1}}},
            {"id": "c", "model": "m"},
        ],
        tasks=[
            {"id": "a/2", "node": "n1", "slot": 1},
            {"id": "b/0", "load": {"cpu": 0}, "labels": {"topic": "y"}},
            {"id": "loose", "load": {"mem": 1}, "state": 2, "allowed": ["n2", "n1"]},
        ],
        streams=[{"from": "a", "to": "b", "selectivity": 2, "tuple_bytes": 3, "pattern": "merge"}],
        traffic=[["loose", "a/0", 1]],
        limits={"max_migrations": 3, "max_utilisation": {"cpu": 0.5, "links": 0.8}},
        models={"m": [{"threads": 1, "rate": 5, "cpu": 10, "memory": 20}]},
        input_rate=10,
        vm_types=[{"id": "D1", "slots": 1, "price": 0.1}],
    )
    again = Instance.from_json(made.to_json())
    assert again.to_json() == made.to_json()
    assert again.sha256 == made.sha256
    for table in ("nodes", "tasks", "operators", "links"):
        for name, value in vars(getattr(made, table)).items():
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(value, getattr(getattr(again, table), name), name)
    assert again.streams == made.streams or str(again.streams) == str(made.streams)  # nan ≠ nan


def test_hash_sees_meaning_and_not_layout() -> None:
    text = json.dumps(document(), indent=3)
    assert Instance.from_json(text).sha256 == instance().sha256
    shuffled = dict(reversed(document().items()))
    assert Instance.from_dict(shuffled).sha256 == instance().sha256
    assert instance(name="other").sha256 != instance().sha256
    assert instance(nodes=nodes(2, capacity={"cpu": 11})).sha256 != instance().sha256


def test_files_packed_and_plain(tmp_path: Any) -> None:
    made = instance()
    for name in ("x.json", "x.json.gz"):
        made.save(tmp_path / name)
        assert Instance.load(tmp_path / name).sha256 == made.sha256
    assert (
        gzip.decompress((tmp_path / "x.json.gz").read_bytes()) == (tmp_path / "x.json").read_bytes()
    )
    first = (tmp_path / "x.json.gz").read_bytes()
    made.save(tmp_path / "x.json.gz")
    assert (tmp_path / "x.json.gz").read_bytes() == first  # no time stamp inside
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.json", "x.json.gz"]


def test_replace_and_dropped_limits() -> None:
    made = instance(
        limits={"max_migrations": 1}, links=[{"id": "l", "nodes": ["n1"], "capacity": 1}]
    )
    assert made.replace(name="renamed").name == "renamed"
    free = without_limits(made, ["max_migrations", "capacity", "links"])
    assert free.limits.max_migrations is None
    assert np.isinf(free.headroom).all()
    assert np.isinf(free.links.capacity).all()
    assert made.limits.max_migrations == 1
    assert without_limits(made, []) is made


@given(st.integers(1, 9), st.integers(1, 9), st.floats(0.1, 100), st.data())
def test_every_pattern_spreads_the_whole_rate(
    a: int, b: int, rate: float, data: st.DataObject
) -> None:
    patterns = ["full", "rescale", "merge"] + (["one_to_one"] if a == b else [])
    pattern = data.draw(st.sampled_from(patterns))
    made = instance(
        operators=[
            {"id": "a", "group": {"tasks": a}},
            {"id": "b", "group": {"tasks": b}},
        ],
        streams=[{"from": "a", "to": "b", "rate": rate, "pattern": pattern}],
    )
    assert made.total_traffic == pytest.approx(rate)
    assert made.pairs.rate.sum() == pytest.approx(rate)
    sent = np.bincount(made.pairs.u, made.pairs.rate, a)
    assert sent == pytest.approx(np.full(a, rate / a))  # every pattern sends evenly


def rescale_pairs(a: int, b: int) -> list[tuple[int, int]]:
    made = instance(
        operators=[{"id": "a", "group": {"tasks": a}}, {"id": "b", "group": {"tasks": b}}],
        streams=[{"from": "a", "to": "b", "rate": 1, "pattern": "rescale"}],
    )
    return [(int(u), int(v) - a) for u, v in zip(made.pairs.u, made.pairs.v, strict=True)]


def test_rescale_forms_blocks_as_flink_does() -> None:
    # Flink's pointwise distribution: 4 → 2 two senders each; 2 → 4 two receivers each; 3 → 2
    # gives receiver 0 one sender and receiver 1 two; 2 → 3 gives sender 0 two receivers.
    assert rescale_pairs(4, 2) == [(0, 0), (1, 0), (2, 1), (3, 1)]
    assert rescale_pairs(2, 4) == [(0, 0), (0, 1), (1, 2), (1, 3)]
    assert rescale_pairs(3, 2) == [(0, 0), (1, 1), (2, 1)]
    assert rescale_pairs(2, 3) == [(0, 0), (0, 1), (1, 2)]


def test_reading_leaves_the_garbage_collector_as_it_was() -> None:
    for switch in (gc.disable, gc.enable):
        switch()
        found = gc.isenabled()
        Instance.from_json(instance().to_json())
        with pytest.raises(InvalidInput):
            Instance.from_json('{"nodes": 3}')
        assert gc.isenabled() == found


def _long_document(operators: Any = ()) -> dict[str, Any]:
    """Return tasks and traffic that are read in several parts; every third task has a state."""
    number = 4_500
    tasks: list[dict[str, Any]] = []
    for i in range(number):
        task: dict[str, Any] = {"id": f"t{i}", "load": {"cpu": i / 7}, "node": f"n{i % 2 + 1}"}
        if i % 3 == 0:
            task["state"] = i / 11
        if i % 5 == 0:
            task["load"]["memory"] = i / 13
        if i % 1000 == 999:
            del task["node"], task["load"]
        tasks.append(task)
    traffic = [[f"t{i}", f"t{i - 1}", i / 3] for i in range(1, number)]
    resources = ["cpu", "memory"]
    value = document(nodes=nodes(2), tasks=tasks, traffic=traffic, operators=[*operators])
    return {**value, "resources": resources, "streams": []}


@pytest.mark.parametrize("operators", [[], [{"id": "g", "group": {"tasks": 3}}]])
def test_lists_read_part_by_part_mean_what_they_mean_whole(operators: Any) -> None:
    value = _long_document(operators)
    read = Instance.from_json(json.dumps(value))
    table, first = read.tasks, 3 * len(operators)
    assert read.sha256 == Instance.from_dict(value).sha256
    for i, task in enumerate(value["tasks"], first):
        load = task.get("load", {})
        assert table.load[i].tolist() == [load.get("cpu", 0.0), load.get("memory", 0.0)]
        assert table.node[i] == (int(task["node"][1:]) - 1 if "node" in task else -1)
        state = table.state[i]
        assert state == task["state"] if "state" in task else np.isnan(state)
    assert read.traffic.source.tolist() == [*range(first + 1, first + 4_500)]
    assert value == _long_document(operators)  # what is given stays


@pytest.mark.parametrize(
    ("where", "change"),
    [
        ("tasks[4400].node", lambda v: v["tasks"][4400].update(node="n7")),
        ("tasks[4400].load.cpu", lambda v: v["tasks"][4400].update(load={"cpu": -1.0})),
        ("tasks[10].load.disk", lambda v: v["tasks"][10].update(load={"disk": 1.0})),
        ("tasks[4400].id", lambda v: v["tasks"][4400].update(id="t3")),
        ("traffic[3000]", lambda v: v["traffic"].__setitem__(3000, ["t1", "t1", 1.0])),
        ("traffic[3000]", lambda v: v["traffic"].__setitem__(3000, ["t1", "t2"])),
    ],
)
def test_mistakes_in_long_lists_are_named_as_in_short_ones(where: str, change: Any) -> None:
    value = _long_document()
    change(value)
    value["limits"] = {"max_migrations": -1} if where == "tasks[4400].load.cpu" else {}
    with pytest.raises(InvalidInput) as parts:
        Instance.from_json(json.dumps(value))
    with pytest.raises(InvalidInput) as whole:
        Instance.from_dict(value)
    assert where in str(parts.value)
    assert str(parts.value) == str(whole.value)
