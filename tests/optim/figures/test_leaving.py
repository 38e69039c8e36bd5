"""Whether leaving nodes are emptied, and why not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optim.referee import Evaluation, evaluate_indices
from tests.optim.make import instance, nodes

TASKS = ("a/0", "a/1", "b/0", "b/1")


def judged(at: list[int], *, capacity: float = 20.0, **parts: Any) -> Evaluation:
    """Judge a placement where n1 leaves and every task stood there."""
    three = nodes(3, capacity={"cpu": capacity})
    three[0]["leaving"] = True
    own = parts.pop("own", {})
    home = [{"id": name, "node": "n1", **own.get(name, {})} for name in TASKS]
    made = instance(nodes=three, tasks=home, **parts)
    return evaluate_indices(made, np.array(at, dtype=np.int32))


def why(evaluation: Evaluation) -> dict[str, int]:
    assert evaluation.drained is False
    assert evaluation.undrained is not None
    reasons: dict[str, int] = evaluation.undrained["why"]
    assert sum(reasons.values()) == evaluation.undrained["count"]
    return reasons


def test_nothing_to_say_where_no_node_leaves_or_all_are_empty() -> None:
    made = instance()
    staying = evaluate_indices(made, np.zeros(4, dtype=np.int32))
    assert (staying.drained, staying.undrained) == (None, None)
    emptied = judged([1, 1, 2, 2])
    assert (emptied.drained, emptied.undrained) == (True, None)


@pytest.mark.parametrize(
    ("at", "parts", "reasons"),
    [
        ([0, 0, 2, 2], {}, {"not proven necessary": 2}),
        ([0, 0, 2, 2], {"limits": {"max_migrations": 2}}, {"max_migrations 2 used up": 2}),
        ([1, 1, 0, 2], {"limits": {"max_migrations": 9}}, {"not proven necessary": 1}),
        # b costs 3 a move, a costs 1
        ([1, 0, 0, 2], {"limits": {"max_migration_cost": 5}},
         {"not proven necessary": 1, "max_migration_cost 5 used up": 1}),
        ([0, 0, 1, 2], {"capacity": 5.0}, {"no staying node has the capacity left": 2}),
        ([0, 1, 2, 2], {"own": {"a/0": {"allowed": ["n1"]}}}, {"allowed only there": 1}),
    ],
)  # fmt: skip
def test_the_reason_follows_from_instance_and_plan(
    at: list[int], parts: dict[str, Any], reasons: dict[str, int]
) -> None:
    assert why(judged(at, **parts)) == reasons


def test_what_stays_is_named_up_to_a_cap() -> None:
    made = instance(
        nodes=[{"id": "old", "leaving": True}, {"id": "new"}],
        operators=[{"id": "a", "group": {"tasks": 50, "load": {"cpu": 50}}}],
        streams=[],
    )
    left = evaluate_indices(made, np.zeros(50, dtype=np.int32)).undrained
    assert left is not None
    assert (left["count"], left["nodes"], len(left["tasks"])) == (50, ["old"], 20)
    assert left["tasks"][0] == {"task": "a/0", "node": "old", "why": "not proven necessary"}
