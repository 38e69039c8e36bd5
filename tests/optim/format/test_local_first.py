"""`local_first` streams: figures against tuples sent one sender at a time, and what is refused."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from optim.errors import InvalidInput
from optim.figures.catalogue import INTERSLOT_TRAFFIC
from optim.format.instance import Instance
from optim.rules import limits_set, without_limits
from optim.rules.placement import Placement

FORMAT = {"format": "streamplace.instance/1", "name": "near"}


def drawn(seed: int) -> tuple[dict[str, Any], list[int], list[int]]:
    """A random document with a stream of the pattern, others, links and racks; nodes and slots."""
    rng = random.Random(seed)
    nodes = [
        {"id": f"n{n}", "slots": 2}
        | ({"rack": f"r{rng.randrange(2)}"} if rng.random() < 0.6 else {})
        for n in range(rng.randint(2, 5))
    ]
    sizes = {name: rng.randint(1, 4) for name in "abcd"}
    streams: list[dict[str, Any]] = []
    for one, other in (("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")):
        stream: dict[str, Any] = {"from": one, "to": other, "rate": rng.choice([1.0, 7.5, 12.0])}
        if rng.random() < 0.7:
            stream["pattern"] = "local_first"
            if rng.random() < 0.5:
                weights = [rng.choice([0, 1, 1, 3.5]) for _ in range(sizes[one])]
                stream["sender_weights"] = weights if any(weights) else [2] * sizes[one]
        streams.append(stream)
    names = [node["id"] for node in nodes]
    links = [
        {
            "id": f"l{i}", "nodes": rng.sample(names, rng.randint(1, len(names))),
            "capacity": 5.0, "direction": rng.choice(["both", "in", "out"]),
        }
        for i in range(3)
    ]  # fmt: skip
    document = FORMAT | {
        "resources": ["cpu"],
        "nodes": nodes,
        "streams": streams,
        "links": links,
        "operators": [{"id": o, "group": {"tasks": k}} for o, k in sizes.items()],
        "crossing_cost": {"cpu": {"out": 0.5, "in": 0.25}},
    }
    count = sum(sizes.values())
    return (
        document,
        [rng.randrange(len(nodes)) for _ in range(count)],
        [rng.randrange(2) for _ in range(count)],
    )


Flows = list[tuple[int, int, float]]


def sent(document: dict[str, Any], node: list[int], slot: list[int]) -> Flows:
    """Who sends how much to whom, one sender after the other."""
    first, at = {}, 0
    for operator in document["operators"]:
        first[operator["id"]] = range(at, at + operator["group"]["tasks"])
        at += operator["group"]["tasks"]
    racks = [each.get("rack") for each in document["nodes"]]
    found = []
    for stream in document["streams"]:
        senders, receivers = first[stream["from"]], first[stream["to"]]
        weights = stream.get("sender_weights", [1] * len(senders))
        for i, weight in zip(senders, weights, strict=True):
            rate = stream["rate"] * weight / sum(weights)
            near = list(receivers)
            if stream.get("pattern") == "local_first":
                rack = racks[node[i]]
                scopes = (
                    [j for j in receivers if (node[j], slot[j]) == (node[i], slot[i])],
                    [j for j in receivers if node[j] == node[i]],
                    [j for j in receivers if rack is not None and racks[node[j]] == rack],
                    list(receivers),
                )
                near = next(scope for scope in scopes if scope)
            found += [(i, j, rate / len(near)) for j in near]
    return found


@pytest.mark.parametrize("seed", range(300))
def test_figures_are_those_of_tuples_sent_one_by_one(seed: int) -> None:
    document, node, slot = drawn(seed)
    instance = Instance.from_dict(document)
    placement = Placement(instance, np.array(node, np.int32), np.array(slot, np.int32))
    flows = sent(document, node, slot)
    total = sum(rate for _, _, rate in flows)
    apart = sum(rate for i, j, rate in flows if node[i] != node[j])
    slots = sum(rate for i, j, rate in flows if (node[i], slot[i]) != (node[j], slot[j]))
    assert instance.total_traffic == pytest.approx(total)
    assert placement.parted == pytest.approx((total - apart, apart))
    assert INTERSLOT_TRAFFIC.measured(placement).value == pytest.approx(slots)
    for i, link in enumerate(document["links"]):
        inside = {int(name[1:]) for name in link["nodes"]}
        out = sum(r for a, b, r in flows if node[a] in inside and node[b] not in inside)
        into = sum(r for a, b, r in flows if node[a] not in inside and node[b] in inside)
        load = {"both": out + into, "out": out, "in": into}[link["direction"]]
        assert placement.crossing[i] == pytest.approx(load)
    loads = [0.0] * len(document["nodes"])
    for i, j, rate in flows:
        if node[i] != node[j]:
            loads[node[i]] += 0.5 * rate
            loads[node[j]] += 0.25 * rate
    assert placement.loads[:, 0] == pytest.approx(loads)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_written_as_it_was_read_and_ignored_as_full(seed: int) -> None:
    document, _, _ = drawn(seed)
    instance = Instance.from_dict(document)
    again = Instance.from_dict(instance.to_dict())
    assert again.sha256 == instance.sha256
    assert [s.sender_weights for s in again.streams] == [s.sender_weights for s in instance.streams]
    full = without_limits(instance, "local_first")
    assert not full.flows.local
    assert full.total_traffic == pytest.approx(instance.total_traffic)
    assert not {"local_first", "local_first_links"} & limits_set(full).keys()


def test_one_receiver_is_a_plain_pair() -> None:
    made = Instance.from_dict(
        FORMAT
        | {
            "nodes": [{"id": "n"}],
            "operators": [{"id": "a", "group": {"tasks": 2}}, {"id": "b", "group": {"tasks": 1}}],
            "streams": [
                {"from": "a", "to": "b", "rate": 8, "pattern": "local_first",
                 "sender_weights": [3, 1]}
            ],
        }
    )  # fmt: skip
    assert made.pairs.rate.tolist() == [6.0, 2.0]
    assert "local_first" not in limits_set(made)


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        ({"pattern": "full", "sender_weights": [1, 1]}, "is of local_first streams"),
        ({"pattern": "local_first", "sender_weights": [1]}, "is 1 numbers for the 2 tasks of a"),
        ({"pattern": "local_first", "sender_weights": [0, 0]}, "is 0 for every sending task"),
        ({"pattern": "local_first", "sender_weights": [1, -1]}, "must be at least 0"),
        ({"pattern": "local"}, "local_first"),
    ],
)
def test_a_wrong_stream_is_told_with_its_place(stream: dict[str, Any], reason: str) -> None:
    document = FORMAT | {
        "nodes": [{"id": "n"}],
        "operators": [{"id": o, "group": {"tasks": 2}} for o in "ab"],
        "streams": [{"from": "a", "to": "b", "rate": 8} | stream],
    }
    with pytest.raises(InvalidInput) as error:
        Instance.from_dict(document)
    assert reason in str(error.value)
    assert "streams[0]" in str(error.value)
