"""The one translator of problems: every path is the file's, and several are told at once."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from optim.errors import InvalidInput, Problem, raise_any
from optim.format.document import Fault, check, validate


def even(value: int) -> int:
    if value % 2:
        raise Fault("is odd", "add one")
    return value


def ends(value: Any) -> Any:
    raise Fault(problems=[Problem("a", 1, "is one"), Problem("", None, "is whole")])


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    size: Annotated[int, Field(ge=1, le=20_000_000), AfterValidator(even)] = 2
    share: float = Field(0.5, alias="part", lt=1)


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: Annotated[str, Field(min_length=1)]
    inner: list[Inner] = []
    named: dict[str, Inner] = {}
    alone: Annotated[list[Inner], BeforeValidator(lambda v: v if isinstance(v, list) else [v])] = []
    either: int | bool = 0
    checked: Annotated[dict[str, int], AfterValidator(ends)] = {}


OUTER = TypeAdapter(Outer)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": ""}, ["name: '' is empty"]),
        ({"name": 3}, ["name: 3 must be a text, not a number"]),
        ({"inner": [{"size": 0}]}, ["inner[0].size: 0 must be at least 1"]),
        ({"inner": [{"size": 10**9}]},
         ["inner[0].size: 1000000000 must be at most 20000000 (check the unit)"]),
        ({"inner": [{}, {"size": 3}]}, ["inner[1].size: 3 is odd (add one)"]),
        ({"inner": [{"part": 1.5}]}, ["inner[0].part: 1.5 must be below 1"]),
        ({"inner": [{"prat": 0.5}]}, ["inner[0].prat is not a known key (did you mean part?)"]),
        ({"named": {"x": {"colour": 1}}},
         ["named.x.colour is not a known key (known: size, part)"]),
        ({"inner": {"size": 1}}, ["inner: {'size': 1} must be a list, not a table"]),
        ({"inner": [5]}, ["inner[0]: 5 must be a table, not a number"]),
        # a place in a list that a validator made is no place of the file
        ({"alone": {"size": 0}}, ["alone.size: 0 must be at least 1"]),
        # which of two types was tried is no place of the file either
        ({"either": "x"}, ["either: 'x' must be a whole number, not a text",
                           "either: 'x' must be true or false, not a text"]),
        ({"checked": {"a": 1}}, ["checked.a: 1 is one", "checked is whole"]),
        ({"name": 1, "extra": 2, "inner": [{"size": "x"}]}, [
            "name: 1 must be a text, not a number",
            "inner[0].size: 'x' must be a whole number, not a text",
            "extra is not a known key (known: name, inner, named, alone, either, checked)"]),
    ],
)  # fmt: skip
def test_what_is_told(change: dict[str, Any], told: list[str]) -> None:
    problems: list[Problem] = []
    assert check(OUTER, {"name": "n", **change}, problems, table="a table") is None
    assert [str(problem) for problem in problems] == told


def test_a_part_is_told_by_its_path_in_the_whole() -> None:
    problems: list[Problem] = []
    check(OUTER, {"inner": [{"size": 0}]}, problems, "jobs[2]")
    check(OUTER, 5, problems, "jobs[3]")
    assert [str(problem) for problem in problems] == [
        "jobs[2].name is missing (add it)",
        "jobs[2].inner[0].size: 0 must be at least 1",
        "jobs[3]: 5 must be an object, not a number",
    ]


def test_what_is_right_is_returned() -> None:
    problems: list[Problem] = []
    found = check(OUTER, {"name": "n", "inner": [{"size": 4}]}, problems)
    assert found == validate(OUTER, {"name": "n", "inner": [{"size": 4}]})
    assert not problems
    raise_any(problems)


def test_problems_are_raised_with_their_source() -> None:
    with pytest.raises(InvalidInput, match=r"job\.toml: name is missing"):
        raise_any([Problem("name", None, "is missing")], "job.toml")
    with pytest.raises(InvalidInput, match=r"\$: 5 must be an object"):
        validate(OUTER, 5)
