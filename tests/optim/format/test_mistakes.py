"""What can only be a mistake is refused, with path, value, reason and remedy."""

from __future__ import annotations

from typing import Any

import pytest

from optim import InvalidInput, solve
from tests.optim.make import instance


@pytest.mark.parametrize("name", ["cpu", "links"])
@pytest.mark.parametrize(("value", "remedy"), [(90, "0.9"), (100, "1 for"), (10.5, "0.105")])
def test_percent_where_a_share_is_meant(name: str, value: float, remedy: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        instance(limits={"max_utilisation": {name: value}})
    (problem,) = caught.value.problems
    assert problem.path == f"limits.max_utilisation.{name}"
    assert problem.value == value
    assert problem.remedy.startswith(f"write {remedy}")


def test_a_share_above_one_is_read() -> None:
    assert instance(limits={"max_utilisation": {"cpu": 1.5}}).limits.max_utilisation[0] == 1.5


@pytest.mark.parametrize("name", ["a/2", "a/9", "a/01", "a/1 ", "a/-1", "a/+1", "a/1.0", " a/0"])
def test_an_id_that_is_meant_as_a_groups_member(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        instance(tasks=[{"id": name, "load": {"cpu": 1}}])
    (problem,) = caught.value.problems
    assert (problem.path, problem.value) == ("tasks[0].id", name)
    assert problem.reason == "is no member of the group of a, which has 2, and has no operator"
    assert problem.remedy.startswith("use a/0 … a/1")


@pytest.mark.parametrize("name", ["x/9", "a", "a/backup", "a/0/1"])
def test_other_ids_are_taken(name: str) -> None:
    assert instance(tasks=[{"id": name}]).num_tasks == 5


@pytest.mark.parametrize("gap", [5, 1.5])
def test_a_relative_gap_in_percent(gap: float) -> None:
    with pytest.raises(InvalidInput, match=rf"gap: {gap} is relative .*write {gap / 100:g}"):
        solve(instance(), "imc-milp", gap=gap)


def test_a_gap_of_load_distance_is_in_percent() -> None:
    made: Any = instance(tasks=[{"id": f"{o}/{i}", "node": "n1"} for o in "ab" for i in (0, 1)])
    assert solve(made, "balance-milp", gap=5).feasible
