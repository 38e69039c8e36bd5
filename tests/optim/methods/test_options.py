"""Options of methods and generators: texts become typed values, or are refused with a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from optim.errors import InvalidInput
from optim.methods.registry import Option

FLAG = Option("flag", "bool", False, "")
COUNT = Option("count", "int", 10, "", minimum=0, maximum=20)
BUDGET = Option("budget", "int", 10, "", minimum=0, nullable=True)
LIMIT = Option("limit", "float", None, "", minimum=1)
RULE = Option("rule", "str", "a", "", choices=("a", "none"))


@pytest.mark.parametrize(
    ("option", "given", "read"),
    [
        (FLAG, "true", True), (FLAG, "NO", False), (FLAG, 1, True), (FLAG, False, False),
        (COUNT, "7", 7), (COUNT, 7.0, 7), (COUNT, 20, 20),
        (BUDGET, "none", None), (BUDGET, None, None), (BUDGET, "0", 0),
        (LIMIT, None, None), (LIMIT, "none", None), (LIMIT, "2.5", 2.5),
        (RULE, "none", "none"),
    ],
)  # fmt: skip
def test_values_are_typed(option: Option, given: Any, read: Any) -> None:
    assert option.read(given) == read
    assert type(option.read(given)) is type(read)


@pytest.mark.parametrize(
    ("option", "given", "reason"),
    [
        (FLAG, "maybe", "neither true nor false"), (FLAG, None, "neither true nor false"),
        (COUNT, "none", "no whole number"), (COUNT, None, "no whole number"),
        (COUNT, 1.5, "no whole number"), (COUNT, True, "no whole number"),
        (COUNT, 21, "out of range"), (COUNT, "-1", "out of range"),
        (LIMIT, "nan", "no number"), (LIMIT, "0.5", "out of range"), (LIMIT, [1], "no number"),
        (LIMIT, "inf", "no number"),
        (RULE, "b", "not a choice"),
    ],
)  # fmt: skip
def test_others_are_refused(option: Option, given: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason) as caught:
        option.read(given)
    (problem,) = caught.value.problems
    assert problem.path == f"--option {option.name}"
    assert problem.remedy
