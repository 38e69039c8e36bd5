"""What the public functions say of arguments that are wrong: `InvalidInput`, with what would do."""

# mypy: disable-error-code="arg-type"

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from streamplace import Instance, InvalidInput, Plan, evaluate, solve, steps

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def two() -> tuple[Instance, Plan]:
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "two",
            "nodes": [{"id": "a"}, {"id": "b"}],
            "tasks": [{"id": "t", "node": "a", "state": 4}],
        }
    )
    return instance, Plan.from_indices(instance, [1])


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "instance: 'x' is of type str, not Instance": lambda _, plan: evaluate("x", plan),
    r"instance: {} is of type dict, .*Instance\.load": lambda *_: solve({}),
    "plan: {} is of type dict, not Plan": lambda instance, _: evaluate(instance, {}),
    "plan is of type NoneType": lambda instance, _: steps(instance, None),
    "--gap: 'x' must be a number": lambda instance, _: solve(instance, gap="x"),
    "--time-limit: '1' must be": lambda instance, _: solve(instance, time_limit="1"),
    "--copy-rate: 0 must be a number above 0": lambda i, plan: steps(i, plan, copy_rate=0),
    "--per-node: 0 must be a whole number": lambda i, plan: steps(i, plan, per_node=0),
    "did you mean capacity": lambda instance, _: solve(instance, ignore="capasity"),
    "did you mean priority": lambda i, _: solve(i, "top-down", prioriti="imc"),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_argument_is_told_with_what_would_do(
    words: str, two: tuple[Instance, Plan]
) -> None:
    with pytest.raises(InvalidInput, match=words):
        WRONG[words](*two)


def test_a_task_beyond_the_last_has_no_places(two: tuple[Instance, Plan]) -> None:
    with pytest.raises(IndexError, match="task 7 of 1"):
        two[0].allowed_mask(7)
