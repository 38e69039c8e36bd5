"""What a method is asked to optimise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optim import Instance, solve
from optim.errors import InvalidInput
from optim.methods.choose import aim
from optim.methods.registry import get_method
from optim.plugins import Option
from tests.optim.make import instance, nodes


def loose() -> Instance:
    return instance(nodes=nodes(3, capacity={"cpu": 20}))


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (None, "used_capacity"),
        ("used_capacity", "used_capacity"),
        ("cpu_deviation", "cpu_deviation"),
        ("mean_absolute_deviation", "mean_absolute_deviation"),
        ("utilisation", "used_capacity"),
        ("deviation", "cpu_deviation"),  # as earlier versions called them
        ("absolute_deviation", "mean_absolute_deviation"),
    ],
)
def test_a_method_of_several_objectives(asked: str | None, name: str) -> None:
    result = solve(loose(), "eoa-milp", objective=asked)
    assert result.objective is not None
    assert result.termination == "optimal"
    assert (result.objective.name, result.objective.sense) == (name, "min")
    assert result.evaluation is not None
    assert result.objective.value == result.evaluation.objective(name)


def test_each_objective_is_what_is_optimised() -> None:
    names = ("used_capacity", "cpu_deviation")
    told = [solve(loose(), "gma", objective=name).evaluation for name in names]
    packed, spread = (
        [0.0 if e is None else e.objective(name) or 0.0 for name in names] for e in told
    )
    assert packed[0] < spread[0]
    assert packed[1] > spread[1]


def test_an_objective_that_a_method_has_not_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(InvalidInput) as caught:
        solve(loose(), "eoa-milp", objective="load_distance")
    (problem,) = caught.value.problems
    assert (problem.path, problem.value) == ("--objective", "load_distance")
    assert problem.reason == "is not supported by eoa-milp, which does not minimise load_distance"
    assert problem.remedy.startswith("use --method balance-milp or ")
    assert problem.remedy.endswith(
        "; its objectives: used_capacity, cpu_deviation, mean_absolute_deviation"
    )
    with pytest.raises(InvalidInput, match="'speed' is no figure to optimise"):
        solve(loose(), "eoa-milp", objective="speed")


def test_an_option_of_that_name_still_takes_its_own_words() -> None:
    option = Option("objective", "str", "plain", "what for", choices=("plain", "weighted"))
    method = replace(get_method("balance-milp"), options=(option,))
    assert aim(method, "weighted", {"w1": 3}) == (method, {"w1": 3, "objective": "weighted"})
    assert aim(method, "load_distance", {}) == (method, {})


def test_a_method_declares_its_objectives_with_the_default_first() -> None:
    method = get_method("top-down")
    assert method.objectives == (method.objective,)
    assert replace(method, objectives=("nodes_used", "imc_gain")).objectives == (
        "imc_gain",
        "nodes_used",
    )
