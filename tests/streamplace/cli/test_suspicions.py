"""What is legal but suspicious: each warning has an instance that earns it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from optim import Instance
from streamplace.cli.check import suspicions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Change = Callable[[dict[str, Any]], object]


def set_load(document: dict[str, Any], *loads: float) -> None:
    for operator, load in zip(document["operators"], loads, strict=False):
        operator["group"]["load"]["cpu"] = load


CASES: dict[str, tuple[Change, str, str]] = {
    "apart_for_nothing": (
        lambda d: d.update(sets=[{"id": "s", "operator": "a", "rule": "apart", "at_most": 9}]),
        "sets[0].at_most",
        "binds nothing",
    ),
    "spread_for_nothing": (
        lambda d: d.update(sets=[{"id": "s", "operator": "a", "rule": "spread", "at_least": 1}]),
        "sets[0].at_least",
        "binds nothing",
    ),
    "together_alone": (
        lambda d: d.update(sets=[{"id": "s", "tasks": ["a/0"], "rule": "together"}]),
        "sets[0]",
        "binds nothing",
    ),
    "nearly_full": (lambda d: set_load(d, 49, 49, 49, 49), "resources[0]", "nearly full"),
    "unbounded": (
        lambda d: [node.pop("capacity") for node in d["nodes"]],
        "resources[0]",
        "bounded on no node",
    ),
    "range": (lambda d: set_load(d, 1e-9), "resources[0]", "range above 1e9"),
    "large_task": (lambda d: set_load(d, 95, 1, 1, 1), "tasks a/0", "more than 90 %"),
    "idle_task": (lambda d: set_load(d, 0), "tasks a/0", "have no load"),
    "some_slots": (lambda d: d["nodes"][0].update(slots=2), "nodes[1].slots", "not given"),
    "no_slots": (
        lambda d: [node.update(slots=i) for i, node in enumerate(d["nodes"])],
        "nodes[0].slots",
        "no task",
    ),
    "no_room": (
        lambda d: d["nodes"][0].update(background={"cpu": 100}),
        "nodes[0].capacity.cpu",
        "no room",
    ),
    "all_leaving": (
        lambda d: [node.update(leaving=True) for node in d["nodes"]],
        "nodes",
        "all leaving",
    ),
    "stuck": (
        lambda d: (
            d["nodes"][0].update(leaving=True),
            d["tasks"][0].update(allowed=["n1"]),
            set_load(d, 10, 10, 10, 10),
        ),
        "tasks a/0",
        "leaving nodes",
    ),
    "silent": (
        lambda d: [stream.update(rate=0) for stream in d["streams"]],
        "streams",
        "carry nothing",
    ),
    "rates": (
        lambda d: d["streams"][0].update(rate=1e12),
        "streams and traffic",
        "range above 1e9",
    ),
    "half_placed": (lambda d: d["tasks"].pop(), "tasks[].node", "3 of 4 tasks"),
    "idle_budget": (
        lambda d: d.update(tasks=[], limits={"max_migrations": 3}),
        "limits.max_migrations",
        "binds nothing",
    ),
    "over_full": (
        lambda d: d.update(limits={"max_utilisation": {"cpu": 1.2}}),
        "limits.max_utilisation.cpu",
        "more than the capacity",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_suspicion(case: str, document: dict[str, Any]) -> None:
    change, path, reason = CASES[case]
    changed = copy.deepcopy(document)
    change(changed)
    found = suspicions(Instance.from_dict(changed))
    assert [p.path for p in found if reason in p.reason] == [path], [str(p) for p in found]


def test_what_the_current_placement_breaks_is_told_with_its_figures(
    document: dict[str, Any],
) -> None:
    document = copy.deepcopy(document)
    for node in document["nodes"]:
        node["capacity"]["cpu"] = 100
    names = Instance.from_dict(document).tasks.ids
    document["tasks"] = [{"id": name, "node": "n1"} for name in names]
    problems = [p for p in suspicions(Instance.from_dict(document)) if "breaks" in p.reason]
    assert [(p.value, p.reason) for p in problems] == [
        ("n1.cpu", "the current placement breaks capacity: needs 160, has 100")
    ]


def test_a_sound_instance_earns_none(document: dict[str, Any]) -> None:
    assert suspicions(Instance.from_dict(document)) == []


def test_the_examples_earn_none(examples: Path) -> None:
    for path in sorted(examples.glob("capsys-q*.json")):
        assert suspicions(Instance.load(path)) == []
