"""``max_load``: one task is one thread; per task everywhere, and the same on every placement."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optim import Instance, InvalidInput, evaluate, solve
from optim.figures.load import carrying, without_measured
from optim.format.builder import InstanceBuilder
from optim.format.changes import Change, altered
from optim.methods.reduce import scale_of, scaled
from optim.rules import hopeless, without_limits
from tests.optim.make import document, instance


def limited(operator: Any = None, group: Any = None, task: Any = None, load: float = 1.8) -> Any:
    """Two tasks ``Agg/0`` and ``Agg/1`` that share a load."""
    agg: dict[str, Any] = {"id": "Agg", "group": {"tasks": 2, "load": {"cpu": load}}}
    if operator is not None:
        agg["max_load"] = {"cpu": operator}
    if group is not None:
        agg["group"]["max_load"] = {"cpu": group}
    tasks = [] if task is None else [{"id": "Agg/1", "max_load": {"cpu": task}}]
    return document(operators=[agg], tasks=tasks, streams=[])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None, None), [np.inf, np.inf]),
        ((1, None, None), [1, 1]),
        ((None, 2, None), [2, 2]),
        ((1, 2, None), [2, 2]),
        ((1, 2, 3), [2, 3]),
        ((1, None, 3), [1, 3]),
        ((None, None, 3), [np.inf, 3]),
        ((0, None, None), [0, 0]),
    ],
)
def test_the_most_specific_holds_and_is_written_as_it_was_given(given: Any, expected: Any) -> None:
    made = Instance.from_dict(limited(*given))
    assert made.tasks.max_load[:, 0].tolist() == expected
    again = Instance.from_json(made.to_json())
    assert again.sha256 == made.sha256
    assert again.tasks.max_load[:, 0].tolist() == expected
    agg = made.to_dict()["operators"][0]
    assert agg.get("max_load") == (None if given[0] is None else {"cpu": given[0]})
    assert agg["group"].get("max_load") == (None if given[1] is None else {"cpu": given[1]})


def test_an_instance_without_it_keeps_its_hash() -> None:
    plain = instance()
    assert "max_load" not in plain.to_json()
    assert without_limits(plain, "max_load").sha256 == plain.sha256
    dropped = without_limits(Instance.from_dict(limited(1, 2, 3)), "max_load")
    assert dropped.sha256 == Instance.from_dict(limited()).sha256


def test_it_is_of_each_resource_by_itself() -> None:
    parts = limited(1)
    parts["resources"] = ["cpu", "net"]
    parts["operators"][0]["group"]["max_load"] = {"net": 5}
    parts["tasks"] = [{"id": "Agg/1", "max_load": {"cpu": 2}}, {"id": "free", "load": {"cpu": 9}}]
    made = Instance.from_dict(parts)
    assert made.tasks.max_load.tolist() == [[1, 5], [2, 5], [np.inf, np.inf]]
    assert Instance.from_json(made.to_json()).sha256 == made.sha256


def test_listed_tasks_have_that_of_their_operator() -> None:
    tasks = [{"id": "x", "operator": "o", "load": {"cpu": 1}}, {"id": "y", "load": {"cpu": 1}}]
    made = instance(
        operators=[{"id": "o", "max_load": {"cpu": 2}}], tasks=tasks, streams=[]
    )  # fmt: skip
    assert made.tasks.max_load[:, 0].tolist() == [2, np.inf]
    assert made.to_dict()["tasks"] == [
        {"id": "x", "operator": "o", "load": {"cpu": 1.0}}, {"id": "y", "load": {"cpu": 1.0}}
    ]  # fmt: skip


@pytest.mark.parametrize(
    "place", ["operators[0].max_load", "operators[0].group.max_load", "tasks[0].max_load"]
)
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"cpu": -1}, "-1"),
        ({"gpu": 1}, "is not in resources (cpu)"),
        ({"cpu": "1"}, "number, not a text"),
        ({"cpu": 1e16}, "1e+16"),
        ({"cpu": None}, "cpu"),
        (1.0, "must be an object"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_its_path(place: str, value: Any, words: str) -> None:
    parts = limited(task=1)
    entry = parts["tasks"][0] if place.startswith("tasks") else parts["operators"][0]
    (entry["group"] if "group" in place else entry)["max_load"] = value
    with pytest.raises(InvalidInput) as caught:
        Instance.from_dict(parts)
    assert place in str(caught.value)
    assert words in str(caught.value)


def test_the_builder_takes_it_for_operators_and_tasks() -> None:
    builder = InstanceBuilder("b").node("n").operator("o", tasks=2, load=1, max_load=1)
    made = builder.task("o/1", max_load={"cpu": 3}).task("t", load=1, max_load=2).build()
    assert made.tasks.max_load[:, 0].tolist() == [1, 3, 2]


def test_what_breaks_it_is_a_proof_that_names_the_parallelism() -> None:
    made = Instance.from_dict(limited(0.5))
    result = solve(made)
    assert result.exit_code == 3
    assert [str(reason) for reason in result.reasons] == [
        "max_load at Agg/0.cpu (Agg has 2 tasks; needs at least 4): needs 0.9, has 0.5 (0.4 off)"
    ]
    for node in ([0, 1], [0, 0], [-1, 1]):
        plan = {f"Agg/{i}": made.nodes.ids[n] for i, n in enumerate(node) if n >= 0}
        found = evaluate(made, _plan(made, plan))
        assert "max_load" in {v.rule for v in found.violations}
    assert solve(made, ignore="max_load").feasible
    assert solve(Instance.from_dict(limited(0.9))).feasible
    assert solve(Instance.from_dict(limited(0.9 * (1 - 5e-10)))).feasible
    assert not solve(Instance.from_dict(limited(0.9 * (1 - 2e-9)))).feasible


def _plan(made: Instance, assignment: dict[str, str]) -> Any:
    from optim import Plan

    return Plan.from_dict({
        "format": "streamplace.plan/1", "instance": made.name,
        "instance_sha256": made.sha256, "assignment": assignment,
    })  # fmt: skip


def test_a_number_elsewhere_does_not_switch_it_off() -> None:
    parts = limited(0.5)
    parts["tasks"] = [{"id": "big", "load": {"cpu": 1e12}}]
    parts["nodes"] = [{"id": "n"}]
    assert [v.rule for v in hopeless(Instance.from_dict(parts))] == ["max_load"]


def test_skew_is_told_from_too_few_tasks() -> None:
    parts = limited(1, load=1.0)
    parts["tasks"] = [{"id": "Agg/1", "load": {"cpu": 1.2}}]
    told = str(hopeless(Instance.from_dict(parts))[0])
    assert "Agg/1.cpu (Agg has 2 tasks, enough if they shared its load evenly)" in told
    alone = [{"id": "t", "load": {"cpu": 2.5}, "max_load": {"cpu": 1}}]
    told = str(hopeless(instance(operators=[], streams=[], tasks=alone))[0])
    assert "t.cpu (it is one task; needs at least 3)" in told


def test_a_what_if_keeps_it_and_the_load_grows_beyond_it() -> None:
    made = Instance.from_dict(limited(1))
    for change in (Change("scale-load", "Agg", 1.2), Change("scale-rate", "", 1.2)):
        more = altered(made, [change])
        assert more.tasks.max_load.tolist() == made.tasks.max_load.tolist()
        assert [v.rule for v in hopeless(more)] == ["max_load"]
    assert altered(made, [Change("fail-node", "n1")]).tasks.max_load.tolist() == [[1], [1]]


def test_a_rate_that_is_asked_for_divides_it_and_a_measured_one_is_no_limit() -> None:
    made = Instance.from_dict(limited(1))
    assert not hopeless(carrying(made, 1.1))
    assert [v.rule for v in hopeless(carrying(made, 1.2))] == ["max_load"]
    assert not np.isfinite(without_measured(made).tasks.max_load).any()


@pytest.mark.parametrize("factor", [1e-6, 0.1, 1e3, 1e9])
def test_units_change_nothing(factor: float) -> None:
    made = Instance.from_dict(limited(1))
    parts = limited(factor, load=1.8 * factor)
    parts["nodes"] = [{"id": n, "capacity": {"cpu": 10 * factor}} for n in ("n1", "n2")]
    other = Instance.from_dict(parts)
    one, two = scaled(made, scale_of(made)), scaled(other, scale_of(other))
    assert one.tasks.max_load.tolist() == two.tasks.max_load.tolist()
    rates = [solve(x, objective="sustainable_rate").objective for x in (made, other)]
    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[0].value == pytest.approx(rates[1].value)
