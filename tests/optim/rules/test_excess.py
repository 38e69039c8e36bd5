"""The excess of a placement, and limits loosened to what is exceeded."""

from __future__ import annotations

import numpy as np
import pytest

from optim import Instance, evaluate
from optim.format.plan import Plan
from optim.rules import broken, excess_of, loosened, worsened
from optim.rules.base import Violation
from optim.rules.placement import Placement
from streamplace import InstanceBuilder


def three() -> InstanceBuilder:
    builder = InstanceBuilder("three").node("a", capacity=10, max_tasks=2).node("b", capacity=10)
    builder = builder.node("c", capacity=4, min_load=3)
    for name, load, node in (("x", 6, "a"), ("y", 5, "a"), ("z", 1, "a"), ("v", 8, "b")):
        builder = builder.task(name, load=load, node=node)
    return builder


def test_every_amount_counts_as_a_share_of_all_there_is() -> None:
    instance = three().build()
    found = broken(Placement(instance, instance.tasks.node))
    assert {(v.rule, v.where): v.amount for v in found} == {
        ("capacity", "a.cpu"): 2,
        ("max_tasks", "a"): 1,
        ("min_load", "c.cpu"): 3,
    }
    assert excess_of(instance, found) == pytest.approx(2 / 20 + 1 / 4 + 3 / 20)
    plan = Plan.from_indices(instance, instance.tasks.node)
    assert evaluate(instance, plan).excess == pytest.approx(0.5)


def test_a_placement_keeps_limits_that_are_loosened_to_it() -> None:
    instance = three().build()
    loose = loosened(instance, instance.tasks.node)
    assert broken(Placement(loose, instance.tasks.node)) == []
    assert loose.nodes.capacity[:, 0].tolist() == pytest.approx([12, 10, 4])
    assert loose.nodes.max_tasks.tolist() == [3, -1, -1]
    worse = np.array([0, 0, 0, 0], dtype=np.int32)
    assert {v.rule for v in broken(Placement(loose, worse))} == {"capacity", "max_tasks"}


def test_worse_is_what_was_kept_or_broken_less() -> None:
    now = [Violation("capacity", "a.cpu", 2.0, 12.0, 10.0)]
    same = Violation("capacity", "a.cpu", 2.0, 12.0, 10.0)
    more = Violation("capacity", "a.cpu", 3.0, 13.0, 10.0)
    other = Violation("capacity", "b.cpu", 1.0, 11.0, 10.0)
    assert worsened(now, [same]) == []
    assert worsened(now, [more, other]) == [more, other]


@pytest.mark.parametrize(
    ("rule", "extra", "limit"), [("apart", {}, [2]), ("spread", {"at_least": 3}, [2])]
)
def test_sets_are_loosened_by_their_number(
    rule: str, extra: dict[str, int], limit: list[int]
) -> None:
    document = three().build().to_dict()
    document["sets"] = [
        {"id": "s", "rule": rule, "over": "node", "tasks": ["x", "y", "v"], **extra}
    ]
    instance = Instance.from_dict(document)
    loose = loosened(instance, instance.tasks.node)
    assert loose.sets.limit.tolist() == limit
    assert broken(Placement(loose, instance.tasks.node)) == []


def test_sets_to_be_together_are_dropped_or_made_as_narrow() -> None:
    document = three().build().to_dict()
    document["sets"] = [{"id": "s", "rule": "together", "over": "node", "tasks": ["x", "y", "v"]}]
    instance = Instance.from_dict(document)
    assert loosened(instance, instance.tasks.node).sets.ids == ()
    narrow = loosened(instance, instance.tasks.node, narrow=True).sets
    assert [narrow.tasks_of(i).tolist() for i in range(len(narrow.ids))] == [[0, 1]]
