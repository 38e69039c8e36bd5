"""The sustainable rate: what counts, what gives way first, and what traffic across nodes costs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from optim import InvalidInput, Plan, evaluate, solve
from optim.figures.measures import node_loads
from optim.referee import evaluate_indices
from tests.optim.make import document, instance, nodes

APART = [0, 0, 1, 1]
"""a/0 and a/1 (2 each) on n1, b/0 and b/1 (4 each) on n2; all 12 of the traffic cross."""


def judged(at: list[int], **parts: Any) -> Any:
    return evaluate_indices(instance(**parts), np.array(at, dtype=np.int32))


def test_the_fullest_node_decides_and_the_next_is_named() -> None:
    found = judged(APART)
    assert found.sustainable_rate == 10 / 8
    assert found.saturation == [
        {"node": "n2", "resource": "cpu", "rate": 10 / 8},
        {"node": "n1", "resource": "cpu", "rate": 10 / 4},
    ]


def test_background_does_not_grow_and_max_utilisation_counts() -> None:
    own = [{"id": "n1", "capacity": {"cpu": 10}}]
    busy = [*own, {"id": "n2", "capacity": {"cpu": 10}, "background": {"cpu": 4}}]
    assert judged(APART, nodes=busy).sustainable_rate == 6 / 8
    assert judged(APART, limits={"max_utilisation": {"cpu": 0.9}}).sustainable_rate == 9 / 8


def test_empty_nodes_do_not_count_and_full_ones_in_use_carry_nothing() -> None:
    full = [*nodes(2, capacity={"cpu": 20}), {"id": "x", "capacity": {"cpu": 1}}]
    full[2]["background"] = {"cpu": 2}
    assert judged([0, 0, 0, 0], nodes=full).sustainable_rate == 20 / 12
    found = judged([0, 0, 0, 2], nodes=full)
    assert found.sustainable_rate == 0.0
    assert found.saturation[0]["node"] == "x"


def test_only_resources_that_the_rate_drives_count() -> None:
    parts: dict[str, Any] = {
        "resources": ["cpu", "memory"],
        "nodes": nodes(2, capacity={"cpu": 10, "memory": 4}),
        "operators": [
            {"id": "a", "group": {"tasks": 2, "load": {"cpu": 4, "memory": 4}}},
            {"id": "b", "group": {"tasks": 2, "load": {"cpu": 8, "memory": 2}}},
        ],
    }
    assert judged(APART, **parts).sustainable_rate == 10 / 8
    assert judged(APART, **parts, rate_driven=["memory"]).sustainable_rate == 1.0
    both = judged(APART, **parts, rate_driven=["cpu", "memory"])
    assert both.sustainable_rate == 1.0
    assert both.saturation[0] == {"node": "n1", "resource": "memory", "rate": 1.0}


@pytest.mark.parametrize(("direction", "rate"), [("both", 0.5), ("out", 0.5), ("in", 10 / 8)])
def test_links_count_with_their_direction(direction: str, rate: float) -> None:
    link = {"id": "up", "nodes": ["n1"], "capacity": 9, "background": 3, "direction": direction}
    found = judged(APART, links=[link])
    assert found.sustainable_rate == rate
    assert ({"link": "up", "rate": 0.5} in found.saturation) == (rate == 0.5)


def test_idle_links_do_not_count() -> None:
    link = {"id": "up", "nodes": ["n1"], "capacity": 0, "background": 3}
    wide = nodes(2, capacity={"cpu": 24})
    assert judged([0, 0, 0, 0], links=[link], nodes=wide).sustainable_rate == 2.0


def test_nothing_that_is_ever_full_is_unknown() -> None:
    found = judged(APART, nodes=nodes(2))
    assert found.sustainable_rate is None
    assert found.saturation is None


def test_a_task_is_one_thread_wherever_it_runs() -> None:
    limited = [
        {"id": "a", "group": {"tasks": 2, "load": {"cpu": 4}}, "max_load": {"cpu": 5}},
        {"id": "b", "group": {"tasks": 2, "load": {"cpu": 8}, "max_load": {"cpu": 4.4}}},
    ]
    wide = nodes(2, capacity={"cpu": 24})
    for at in (APART, [0, 0, 0, 0]):
        found = judged(at, nodes=wide, operators=limited)
        assert found.sustainable_rate == 4.4 / 4
        thread = {"operator": "b", "task": "b/0", "resource": "cpu", "rate": 4.4 / 4}
        thread |= {"tasks": 2, "tasks_at_twice": 4}  # 16 of 4.4 each
        assert found.saturation is not None
        assert found.saturation[0] == thread
    assert judged([0, 0, -1, -1], nodes=wide, operators=limited).sustainable_rate is None
    alone = [{"id": "t", "load": {"cpu": 3}, "max_load": {"cpu": 6}}]
    made = judged([0], operators=[], streams=[], tasks=alone, nodes=nodes(1))
    told = {"task": "t", "resource": "cpu", "rate": 2.0, "tasks": 1, "tasks_at_twice": 1}
    assert made.saturation == [told]


def test_what_no_input_drives_is_no_part_of_the_rate_but_a_rule() -> None:
    operators = [{"id": "a", "group": {"tasks": 2, "load": {"cpu": 4, "mem": 4}}}]
    parts: dict[str, Any] = {"resources": ["cpu", "mem"], "streams": []}
    operators[0]["max_load"] = {"mem": 1.5}
    made = instance(operators=operators, **parts)
    found = evaluate_indices(made, np.array([0, 1], dtype=np.int32))
    assert found.sustainable_rate == 5.0
    assert [v.rule for v in found.violations] == ["max_load"]
    assert solve(made, objective="sustainable_rate").exit_code == 3


def test_what_crosses_costs_both_ends() -> None:
    parts: dict[str, Any] = {"crossing_cost": {"cpu": {"out": 0.25, "in": 0.5}}}
    made = instance(**parts)
    at = np.array(APART, dtype=np.int32)
    assert node_loads(made, at).tolist() == [[4 + 3], [8 + 6]]
    found = evaluate_indices(made, at)
    assert found.sustainable_rate == 10 / 14
    assert [v.where for v in found.violations] == ["n2.cpu"]
    assert found.mean_load == 10.5
    assert found.load_distance == 3.5
    assert evaluate_indices(made, np.zeros(4, dtype=np.int32)).sustainable_rate == 10 / 12


def test_crossing_cost_is_read_written_and_checked() -> None:
    cost = {"cpu": {"out": 0.25, "in": 0.5}}
    made = instance(crossing_cost=cost)
    assert made.to_dict()["crossing_cost"] == cost
    assert instance(crossing_cost={"cpu": {"in": 2}}).to_dict()["crossing_cost"] == {
        "cpu": {"in": 2.0}
    }
    assert "crossing_cost" not in instance(crossing_cost={"cpu": {}}).to_dict()
    wrong = document(crossing_cost={"gpu": {"out": 1}, "cpu": {"in": -1}})
    with pytest.raises(InvalidInput, match="crossing_cost"):
        instance(**wrong)


def test_methods_that_add_up_loads_alone_refuse_and_say_what_helps() -> None:
    made = instance(crossing_cost={"cpu": {"out": 0.01}})
    with pytest.raises(InvalidInput, match="--ignore crossing_cost"):
        solve(made, "imc-exact")
    assert solve(made, "imc-exact", ignore=("crossing_cost",)).feasible


def test_brute_force_maximises_it_and_keeps_a_plan_that_does_not_carry_the_input() -> None:
    made = instance(nodes=nodes(2, capacity={"cpu": 4.5}), crossing_cost={"cpu": {"out": 0.1}})
    result = solve(made, "imc-brute", objective="sustainable_rate")
    assert result.termination == "optimal"
    assert result.plan is not None
    assert not result.feasible
    assert result.exit_code == 4
    # a/0, b/0 on one node: half of the traffic crosses, a quarter leaves each node
    assert result.objective is not None
    assert result.objective.value == pytest.approx(4.5 / (6 + 0.3))
    again = evaluate(made, Plan.from_json(result.plan.to_json()))
    assert again.sustainable_rate == result.objective.value
    assert math.isclose(result.bound or 0.0, result.objective.value)
