"""What can only be a mistake is refused, with path, value, reason and remedy."""

from __future__ import annotations

from typing import Any

import pytest

from optim import Instance, InvalidInput, solve
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
    with pytest.raises(InvalidInput, match=rf"gap: {gap} is more than 100 %.*written {gap:g}%"):
        solve(instance(), "imc-milp", gap=gap)


def test_a_gap_of_load_distance_is_in_percent() -> None:
    made: Any = instance(tasks=[{"id": f"{o}/{i}", "node": "n1"} for o in "ab" for i in (0, 1)])
    assert solve(made, "balance-milp", gap=5).feasible


@pytest.mark.parametrize(
    ("value", "at", "reason"),
    [
        (5, "", "must be an object, not a number"),
        ([1], "", "must be an object, not a list"),
        ({"cpu": -1}, ".cpu", "must be at least 0"),
        ({"cpu": "1"}, ".cpu", "must be a number, not a text"),
        ({"cpu": True}, ".cpu", "must be a number, not true/false"),
        ({"cpu": float("inf")}, ".cpu", "must be a finite number"),
        ({"gpu": 1}, ".gpu", "is not in resources (cpu)"),
    ],
)
@pytest.mark.parametrize("place", ["tasks[0]", "operators[0]", "operators[0].group"])
def test_what_one_task_can_use_is_amounts_of_resources(
    place: str, value: Any, at: str, reason: str
) -> None:
    group: dict[str, Any] = {"tasks": 2, "load": {"cpu": 1}}
    operator: dict[str, Any] = {"id": "a", "group": group}
    task: dict[str, Any] = {"id": "t"}
    {"tasks[0]": task, "operators[0]": operator, "operators[0].group": group}[place]["max_load"] = (
        value
    )
    with pytest.raises(InvalidInput) as caught:
        Instance.from_dict(
            {
                "format": "streamplace.instance/1",
                "name": "x",
                "nodes": [{"id": "n"}],
                "operators": [operator],
                "tasks": [task],
            }
        )
    (problem,) = caught.value.problems
    assert (problem.path, problem.reason) == (f"{place}.max_load{at}", reason)


@pytest.mark.parametrize("how", ["", "no", "MEND", None, 1, ["mend"]])
def test_what_is_done_with_a_broken_start_is_one_of_two_words(how: Any) -> None:
    with pytest.raises(InvalidInput, match=r"--start-broken.* is no mode \(.*(mend|refuse)"):
        solve(instance(), start_broken=how)
