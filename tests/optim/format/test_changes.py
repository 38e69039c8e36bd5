"""What-if changes of an instance: lists of allowed nodes, derived loads, the last node."""

from __future__ import annotations

from typing import Any

import pytest

from optim import Instance, InvalidInput
from optim.format.changes import altered, read_case
from tests.optim.make import instance, nodes


def test_a_member_of_a_group_stays_within_its_list_when_a_node_is_dropped() -> None:
    group = {"tasks": 2, "load": {"cpu": 4}, "allowed": ["n1", "n2"]}
    made = instance(
        nodes=nodes(3),
        operators=[{"id": "a", "group": group}, {"id": "b"}],
        tasks=[{"id": "a/0", "node": "n1"}, {"id": "b/0", "operator": "b", "node": "n3"}],
        streams=[],
    )
    dropped = altered(made, read_case("drop-node n1"))
    masks = [dropped.allowed_mask(t).tolist() for t in range(3)]
    assert masks == [[False, True, False], [False, True, False], [False, True, True]]


def derived(**group: Any) -> Instance:
    """Two operators of 20 units of CPU each, by 10 tuples/s of 2 units."""
    operators = [{"id": o, "group": {"tasks": 2, **group}, "cpu_per_tuple": 2} for o in "ab"]
    return instance(operators=operators, streams=[], input_rate=10)


@pytest.mark.parametrize("group", [{}, {"load": {"cpu": 20}}])
def test_a_load_that_is_derived_grows_too(group: dict[str, Any]) -> None:
    made = derived(**group)
    assert made.tasks.load[:, 0].tolist() == [10, 10, 10, 10]
    more = altered(made, read_case("scale-load a=1.5"))
    assert more.tasks.load[:, 0].tolist() == [15, 15, 10, 10]
    every = altered(made, read_case("scale-rate 2"))
    assert every.tasks.load[:, 0].tolist() == [20, 20, 20, 20]


@pytest.mark.parametrize("change", ["drop-node n1", "fail-node n1"])
def test_the_only_node_can_neither_be_dropped_nor_fail(change: str) -> None:
    with pytest.raises(InvalidInput, match=r"is the only node \(add one: --add-node\)"):
        altered(instance(nodes=nodes(1)), read_case(change))
