"""The plan: frozen, hashed, complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optim import InvalidInput, Plan
from tests.optim.make import instance


def test_round_trip_keeps_hash_and_places(tmp_path: Path) -> None:
    made = instance()
    plan = Plan.from_indices(made, [0, 1, 1, 0], [2, 0, 1, 0], method="m", versions={"x": "1"})
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again.sha256 == plan.sha256
    assert dict(again.assignment) == {"a/0": "n1", "a/1": "n2", "b/0": "n2", "b/1": "n1"}
    assert again.assignment == dict(plan.assignment)
    assert again.node_indices(made).tolist() == [0, 1, 1, 0]
    slots = again.slot_indices(made)
    assert slots is not None
    assert slots.tolist() == [2, 0, 1, 0]
    assert again.instance_sha256 == made.sha256


def test_changed_plan_is_noticed() -> None:
    value = json.loads(Plan.from_indices(instance(), [0, 1, 1, 0]).to_json())
    value["assignment"]["a/0"] = "n2"
    with pytest.raises(InvalidInput, match="it was changed"):
        Plan.from_dict(value)
    del value["sha256"]  # a plan made by hand has none
    assert Plan.from_dict(value).assignment["a/0"] == "n2"


@pytest.mark.parametrize("node", [[0, 1, 0], [0, 1, 0, -1], [0, 1, 0, 2], [0, 1.5, 0, 1]])
def test_incomplete_placement_is_no_plan(node: list[float]) -> None:
    with pytest.raises(ValueError, match=r"indices|place"):
        Plan.from_indices(instance(), node)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "format is missing"),
        ('{"format":"streamplace.plan/1","instance":"x","assignment":{"a":1}}', "assignment.a: 1"),
        ('{"format":"streamplace.plan/1","instance":"x","assignment":{"a":"n","a":"m"}}', "twice"),
        ('{"format":"streamplace.plan/1","instance":"x","assignment":{},"more":1}', "more is not"),
    ],
)
def test_malformed(text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Plan.from_json(text)
