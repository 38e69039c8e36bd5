"""The referee and the prediction of model-driven plans, by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest

from formulations.model_driven.referee import checked_bundles
from optim import Instance, InvalidInput, Plan, evaluate
from tests.formulations.model_driven.model_cases import COMPUTES, WAITS, model_instance, points


@pytest.fixture
def chain() -> Instance:
    """Eight tuples/s through `waits` (gains from threads) into `computes`."""
    return model_instance(
        {"w": WAITS, "c": COMPUTES}, {"waits": "w", "computes": "c"}, [("waits", "computes", 1.0)],
        rate=8,
    )  # fmt: skip


def plan_of(instance: Instance, places: dict[str, list[tuple[str, int]]], **parts: Any) -> Plan:
    """Return a plan from task to (machine, slot) of each thread, on two large machines."""
    rows = {f"{t}/{i}": p for t, listed in places.items() for i, p in enumerate(listed)}
    return Plan.from_dict(
        {
            "format": "streamplace.plan/1",
            "instance": instance.name,
            "assignment": {t: v for t, (v, _) in rows.items()},
            "slots": {t: s for t, (_, s) in rows.items()},
            "threads": {t: len(listed) for t, listed in places.items()},
            "nodes": [{"id": v, "vm_type": "large", "slots": 2} for v in ("v1", "v2")],
            "planned_slots": 3,
            **parts,
        }
    )


SPREAD = {"waits": [("v1", 0)] * 4 + [("v2", 0)], "computes": [("v1", 1)]}


def test_rates_shuffled_and_by_capacity(chain: Instance) -> None:
    found = evaluate(chain, plan_of(chain, SPREAD))
    assert found.feasible
    # 4 threads reach 6 tuples/s and get 4/5; one reaches 2 and gets 1/5; computes reaches 10
    assert found.supported_rate == pytest.approx(6 / (4 / 5))
    assert found.bottleneck == "waits on v1#0"
    assert found.capacity_rate == pytest.approx(8)
    assert (found.slots, found.extra_slots, found.price) == (4, 1, pytest.approx(0.4))
    assert found.node_tasks == {"v1": 5, "v2": 1}


def test_use_is_what_shuffle_grouping_sends(chain: Instance) -> None:
    found = evaluate(chain, plan_of(chain, SPREAD))
    assert found.slot_utilisation is not None
    # sent 6.4 of a peak of 6: full; one thread is sent 1.6 of 2; computes 8 of 10
    assert found.slot_utilisation["v1#0"] == pytest.approx({"cpu": 0.3, "memory": 0.3})
    assert found.slot_utilisation["v2#0"] == pytest.approx({"cpu": 0.08, "memory": 0.16})
    assert found.slot_utilisation["v1#1"] == pytest.approx({"cpu": 0.64, "memory": 0.04})
    assert found.utilisation is not None
    assert found.utilisation["v1"] == pytest.approx({"cpu": 0.47, "memory": 0.17})
    assert found.max_utilisation == pytest.approx(0.47)


def test_use_at_another_rate(chain: Instance) -> None:
    found = evaluate(chain.replace(input_rate=4), plan_of(chain, SPREAD))
    assert found.slot_utilisation is not None
    assert found.utilisation is not None
    assert found.slot_utilisation["v1#0"]["cpu"] == pytest.approx(0.3 * 3.2 / 6)
    assert found.utilisation["v2"]["memory"] == pytest.approx(0.2 / 2 * 0.8 / 2)
    assert found.bottleneck == "waits on v1#0"


def test_traffic_between_machines_and_slots(chain: Instance) -> None:
    found = evaluate(chain, plan_of(chain, SPREAD))
    assert found.total_traffic == 8
    assert found.internode_traffic == pytest.approx(8 / 5)
    assert found.interslot_traffic == pytest.approx(8)


def test_memory_binds_the_slot_and_cpu_the_machine() -> None:
    made = model_instance(
        {"m": [{"threads": 1, "rate": 10, "cpu": 95, "memory": 40}]}, dict.fromkeys("abc", "m")
    )
    two = {"a": [("v1", 0)], "b": [("v1", 0)], "c": [("v2", 0)]}
    assert evaluate(made, plan_of(made, two)).feasible  # 190 % CPU on the two cores of v1
    three = {t: [("v1", 0)] for t in "abc"}
    found = evaluate(made, plan_of(made, three))
    assert [(v.rule, v.where, v.amount) for v in found.violations] == [
        ("slot_capacity", "v1#0.memory", pytest.approx(20)),
        ("capacity", "v1.cpu", pytest.approx(85)),
    ]


def test_planned_use_fills_the_best_slots_first() -> None:
    """A lone thread that gets the rest is booked with the rest, whatever shuffling sends it."""
    made = model_instance({"c": points((1, 10, 80, 60))}, {"a": "c", "b": "c"}, rate=11)
    places = {"a": [("v1", 0), ("v1", 1)], "b": [("v2", 0), ("v1", 1)]}
    found = evaluate(made, plan_of(made, places))
    assert found.feasible  # the shared slot gets 1 of 11 tuples/s of both: 12 % memory
    assert found.slot_utilisation is not None
    assert found.slot_utilisation["v1#1"]["memory"] == pytest.approx(0.66)  # shuffled: half of both


def test_more_slots_than_the_machine_has(chain: Instance) -> None:
    nodes = [{"id": v, "vm_type": "small", "slots": 2} for v in ("v1", "v2")]
    found = evaluate(chain, plan_of(chain, SPREAD, nodes=nodes))
    assert [(v.rule, v.where) for v in found.violations] == [("slots", "v1"), ("slots", "v2")]


def test_threads_that_stand_nowhere(chain: Instance) -> None:
    plan = plan_of(chain, {"waits": [("v1", 7)], "computes": []})
    found = evaluate(chain, plan)
    assert [(v.rule, v.where) for v in found.violations] == [
        ("slots", "waits/0"),
        ("placed", "computes"),
    ]
    with pytest.raises(InvalidInput, match="breaks the rule"):
        checked_bundles(chain, plan)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"assignment": {"waits/0": "v9"}}, "'v9' is not an acquired machine (name one of nodes"),
        ({"assignment": {"waits/9": "v1"}}, "assignment.waits/9 is no thread"),
        ({"assignment": {"waits/00": "v1"}}, "assignment.waits/00 is no thread"),
        ({"threads": {"nobody": 1}}, "threads.nobody is not an operator"),
        (
            {"nodes": [{"id": "v1", "vm_type": "huge", "slots": 2}]},
            "'huge' is not a vm_type of the instance (use one of ",
        ),
        ({"nodes": [{"id": "v1", "vm_type": "large", "slots": 2}] * 2}, "names a machine twice"),
    ],
)
def test_plans_that_name_what_is_not_there(
    chain: Instance, change: dict[str, Any], message: str
) -> None:
    base = {"waits": [("v1", 0)], "computes": [("v1", 1)]}
    plan = plan_of(chain, base, **change)
    with pytest.raises(InvalidInput, match=re.escape(message)):
        evaluate(chain, plan)


def test_a_plan_of_tasks_has_no_prediction(chain: Instance) -> None:
    plan = Plan(instance_name=chain.name, assignment={})
    with pytest.raises(InvalidInput, match="this is no model-driven plan"):
        checked_bundles(chain, plan)


def test_without_an_input_rate_there_is_no_supported_rate(chain: Instance) -> None:
    value = chain.to_dict()
    del value["input_rate"]
    silent = Instance.from_dict(value)
    found = evaluate(silent, plan_of(silent, SPREAD))
    assert found.supported_rate is None
    assert found.slot_utilisation is not None
    assert found.slot_utilisation["v1#1"]["cpu"] == pytest.approx(0.8)


def test_the_plan_file_keeps_threads_machines_and_rate(chain: Instance) -> None:
    plan = plan_of(chain, SPREAD, planned_rate=8.0)
    again = Plan.from_json(plan.to_json())
    assert again.sha256 == plan.sha256
    assert (again.planned_rate, again.planned_slots, again.threads) == (8, 3, plan.threads)
    assert again.nodes == plan.nodes
