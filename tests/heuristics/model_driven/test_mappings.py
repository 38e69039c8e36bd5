"""DSM, RSM and SAM by hand, further slots when they fail, and what the results say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.generators import generate
from optim import Instance, InvalidInput, Plan, UnsuitableMethod, evaluate, solve
from optim.referee import Result
from tests.formulations.model_driven.model_cases import COMPUTES, WAITS, model_instance, points

METHODS = [f"{a}+{m}" for a in ("lsa", "mba") for m in ("dsm", "rsm", "sam")]


def places(result: Result) -> dict[str, str]:
    """Thread to machine#slot."""
    assert result.plan is not None
    assert result.plan.slots is not None
    slots = result.plan.slots
    return {t: f"{v}#{slots[t]}" for t, v in result.plan.assignment.items()}


def figure_4() -> Instance:
    """The paper's Figure 4: 5, 4, 3 and 5 threads; full bundles of 2, 3, 3 and 4."""

    def model(bundle: int) -> list[dict[str, Any]]:
        peak = float(bundle)
        return points((1, 1, 20, 20), *([(bundle, peak, 50, 50)] if bundle > 1 else []))

    rates = {"B": 5, "O": 4, "Y": 3, "G": 5}
    bundles = {"B": 2, "O": 3, "Y": 3, "G": 4}
    made = model_instance(
        {t: model(k) for t, k in bundles.items()},
        {t: t for t in rates},
        [("B", "O", 4 / 5), ("B", "Y", 3 / 5), ("O", "G", 5 / 8), ("Y", "G", 5 / 6)],
        rate=5,
    )
    return made.replace(vm_types=[{"id": "vm", "slots": 2, "price": 1}])


def test_dsm_goes_round_robin_as_in_figure_4() -> None:
    result = solve(figure_4(), "lsa+dsm", slots=6)
    found = places(result)
    slots = [f"vm{v}#{s}" for v in (1, 2, 3) for s in (0, 1)]
    threads = [*(f"B/{i}" for i in range(5)), *(f"O/{i}" for i in range(4))]
    threads += [*(f"Y/{i}" for i in range(3)), *(f"G/{i}" for i in range(5))]
    assert [found[t] for t in threads] == [slots[i % 6] for i in range(17)]


def test_sam_places_the_bundles_of_figure_4() -> None:
    """Four full bundles and one more of blue take five slots, the three rests share the sixth."""
    found = places(solve(figure_4(), "mba+sam", slots=6))
    by_slot: dict[str, list[str]] = {}
    for thread, place in found.items():
        by_slot.setdefault(place, []).append(thread[0])
    assert {p: "".join(sorted(t)) for p, t in by_slot.items()} == {
        "vm1#0": "BB",
        "vm1#1": "OOO",
        "vm2#0": "YYY",
        "vm2#1": "GGGG",
        "vm3#0": "BB",
        "vm3#1": "BGO",
    }


def test_sam_prefers_the_tightest_slot() -> None:
    """Rests of 60 and 30 lie apart, the last of 35 goes to the one with 40 left, not 70."""
    made = model_instance(
        {n: points((1, 10, c, 1)) for n, c in (("a", 60), ("b", 45), ("c", 35))},
        {"t1": "a", "t2": "b", "t3": "c"},
        [("t1", "t2", 1.0), ("t2", "t3", 1.0)],
        rate=9.999999,
    )
    found = places(solve(made, "mba+sam"))
    assert found["t1/0"] != found["t2/0"]
    assert found["t3/0"] == found["t1/0"]


def test_rsm_takes_the_machine_that_is_left_with_least() -> None:
    """Two machines of two slots: the second thread joins the first machine, which has less left."""
    made = model_instance({"m": points((1, 5, 40, 60))}, {"t": "m"}, rate=20)
    found = places(solve(made, "lsa+rsm", slots=4))
    assert [found[f"t/{i}"] for i in range(4)] == ["vm1#0", "vm1#1", "vm2#0", "vm2#1"]


def test_rsm_needs_cpu_on_the_machine_and_memory_in_a_slot() -> None:
    made = model_instance(
        {"m": points((1, 5, 90, 30)), "n": points((1, 5, 10, 80))},
        {"t": "m", "u": "n"},
        [("t", "u", 0.5)],
        rate=10,
    )
    found = places(solve(made, "lsa+rsm", slots=2))
    # both t stand in one slot: 180 % of the machine's 200 % CPU, 60 % memory, and leave u the other
    assert [found["t/0"], found["u/0"], found["t/1"]] == ["vm1#0", "vm1#1", "vm1#0"]


@pytest.mark.parametrize(
    ("rule", "expected"), [("first", [3, 0]), ("least_free", [3, 0]), ("most_free", [2, 1])]
)
def test_rsm_slot_rules(rule: str, expected: list[int]) -> None:
    made = model_instance({"m": points((1, 5, 10, 20))}, {"t": "m"}, rate=15)
    found = places(solve(made, "lsa+rsm", slots=2, slot_rule=rule))
    counts = [list(found.values()).count(f"vm1#{s}") for s in (0, 1)]
    assert counts == expected


def test_rsm_books_mba_threads_with_their_share() -> None:
    made = model_instance({"m": WAITS}, {"t": "m"}, rate=10)  # 8 threads, one full bundle
    assert solve(made, "mba+rsm").evaluation.slots == 1  # type: ignore[union-attr]


def test_further_slots_one_by_one_until_it_fits() -> None:
    """Three threads of 60 % memory ask for 2 slots and need 3."""
    made = model_instance({"m": points((1, 5, 10, 60))}, {"t": "m"}, rate=15)
    result = solve(made, "lsa+rsm")
    assert result.evaluation is not None
    assert (result.plan.planned_slots, result.evaluation.extra_slots) == (2, 1)  # type: ignore[union-attr]
    assert any("1 extra slots acquired" in note for note in result.notes)
    assert solve(made, "lsa+rsm", step=3).evaluation.slots == 5  # type: ignore[union-attr]


def test_a_fixed_number_of_slots_that_does_not_do() -> None:
    made = model_instance({"m": points((1, 5, 10, 60))}, {"t": "m"}, rate=15)
    result = solve(made, "lsa+rsm", slots=2)
    assert result.plan is None
    assert result.exit_code == 4
    assert "insufficient resources for t on 2 slots; more slots may do" in result.notes[1]


def test_a_thread_of_more_than_a_core_takes_a_larger_machine() -> None:
    """150 % CPU: one slot is asked for by memory, two by CPU; a machine of two cores holds it."""
    made = model_instance({"m": points((1, 5, 150, 30), (2, 5, 90, 30))}, {"t": "m"}, rate=2)
    result = solve(made, "lsa+rsm")
    assert result.evaluation is not None
    assert (result.plan.planned_slots, result.evaluation.slots) == (1, 2)  # type: ignore[union-attr]


@pytest.mark.parametrize("method", ["lsa+rsm", "lsa+sam"])
def test_what_no_number_of_slots_would_hold(method: str) -> None:
    """A thread of 120 % memory; the other counts of the model fit."""
    made = model_instance({"m": points((1, 5, 10, 120), (4, 5, 10, 50))}, {"t": "m"}, rate=5)
    result = solve(made, method)
    assert result.plan is None
    assert result.exit_code == 4
    assert "no number of slots would do" in result.notes[1]
    assert " t:" in result.notes[1]


def test_the_literal_reading_of_lsa_and_sam_fails_for_good() -> None:
    """LSA books 25 blob threads with 598 % memory, as one partial bundle."""
    result = solve(generate("micro_dag", rate=50), "lsa+sam", literal=True)
    assert result.plan is None
    assert "insufficient resources for blob" in result.notes[1]
    assert solve(generate("micro_dag", rate=50), "lsa+sam").feasible


def test_a_literal_plan_that_overloads_is_kept_and_told() -> None:
    """Three threads of 30 %: 100 % off for a bundle of two leaves nothing for the third."""
    models = {
        "a": points((1, 5, 30, 30), (2, 6, 90, 90)),
        "b": points((1, 15.01, 99, 99), (2, 24, 99, 99)),
    }
    made = model_instance(models, {"a": "a", "b": "b"}, [("a", "b", 1)], rate=15)
    result = solve(made, "lsa+sam", literal=True)
    assert result.exit_code == 4
    assert result.evaluation is not None
    assert "slot_capacity" in {v.rule for v in result.evaluation.violations}
    assert solve(made, "lsa+sam").feasible


@pytest.mark.parametrize("method", [*METHODS, "slots-milp"])
@pytest.mark.parametrize("measured", [[(1, 0, 10, 10)], [(1, 0, 10, 10), (2, 5, 20, 20)]])
def test_an_idle_task_may_have_a_model_without_a_rate(method: str, measured: Any) -> None:
    models = {"m": points((1, 5, 50, 20)), "n": points(*measured)}
    made = model_instance(models, {"a": "m", "b": "n"}, [("a", "b", 0)], rate=3)
    result = solve(made, method)
    assert result.plan is not None
    assert result.plan.threads == {"a": 1, "b": 1}
    assert result.feasible
    assert result.evaluation is not None
    assert result.evaluation.slots == 1


@pytest.mark.parametrize("method", ["lsa+sam", "mba+sam", "slots-milp"])
def test_an_idle_task_shares_a_slot(method: str) -> None:
    models = {"m": points((1, 5, 50, 20)), "n": points((1, 5, 90, 90))}
    made = model_instance(models, {"a": "m", "b": "n"}, [("a", "b", 0)], rate=3)
    assert solve(made, method).evaluation.slots == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("method", [*METHODS, "slots-milp"])
def test_a_rate_that_no_thread_count_supports(method: str) -> None:
    made = model_instance({"m": points((1, 0, 10, 10))}, {"t": "m"})
    with pytest.raises(InvalidInput, match=r"models\.m supports no tuples .* t receives 10"):
        solve(made, method)


@pytest.mark.parametrize("method", [*METHODS, "slots-milp"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_rate": None}, "input_rate.*the instance has none.*give input_rate"),
        ({"input_rate": 0}, "input_rate.*it is 0"),
        ({"vm_types": []}, "needs vm_types; the instance has none.*list the machines"),
        ({"operators": [{"id": "a", "model": "m"}, {"id": "b"}]}, "model; b has none"),
        ({"streams": [{"from": "a", "to": "b", "rate": 3}]}, "that of b does not"),
        ({"limits": {"max_utilisation": {"cpu": 0.9}}}, "cpu has 0.9.*--ignore max_utilisation"),
        ({"limits": {"max_tasks_per_slot": 9}}, "max_tasks_per_slot = 9.*--ignore"),
    ],
)
def test_instances_that_lack_a_part(method: str, change: dict[str, Any], message: str) -> None:
    made = model_instance({"m": COMPUTES}, {"a": "m", "b": "m"}, [("a", "b", 1.0)])
    with pytest.raises(UnsuitableMethod, match=message):
        solve(made.replace(**change), method)


def test_limits_that_no_model_driven_method_keeps_can_be_dropped() -> None:
    """And are never dropped silently, even where the method is chosen."""
    made = model_instance(
        {"m": WAITS}, {"t": "m"}, limits={"max_tasks_per_slot": 2, "max_utilisation": {"cpu": 0.9}}
    )
    with pytest.raises(InvalidInput):
        solve(made)
    dropped = ("max_tasks_per_slot", "max_utilisation")
    result = solve(made, ignore=dropped)
    assert result.feasible
    assert result.ignored == dropped
    judged = evaluate(made, result.plan)  # type: ignore[arg-type]
    assert [v.rule for v in judged.violations] == ["max_tasks_per_slot"]
    assert evaluate(made, result.plan, ignore=dropped).feasible  # type: ignore[arg-type]


def test_a_cycle_is_named() -> None:
    edges = [("a", "b", 1.0), ("b", "c", 0.5), ("c", "b", 0.5)]
    with pytest.raises(InvalidInput, match=r"streams: 'c → b → c' is a cycle.*break the cycle"):
        model_instance({"m": COMPUTES}, dict.fromkeys("abc", "m"), edges)


def test_the_same_plan_twice_and_through_a_file() -> None:
    made = generate("model_dag", seed=3, tasks=30, rate=70)
    for method in METHODS:
        first, second = solve(made, method), solve(made, method)
        assert first.plan is not None
        assert second.plan is not None
        assert first.plan.to_json() == second.plan.to_json()
        judged = evaluate(made, Plan.from_json(first.plan.to_json()))
        assert judged == first.evaluation


def test_the_method_is_chosen_for_instances_with_models() -> None:
    result = solve(generate("micro_dag", rate=50))
    assert result.method == "mba+sam"
    assert "performance models" in result.notes[0]


@st.composite
def dags(draw: st.DrawFn) -> Instance:
    """Random models that gain or lose from threads, random DAGs."""
    models = {}
    for m in range(draw(st.integers(1, 3))):
        counts = sorted(draw(st.sets(st.integers(2, 60), max_size=3)) | {1})
        percent = st.floats(0, 100, allow_subnormal=False)
        models[f"m{m}"] = points(
            *((k, draw(st.floats(0.5, 200)), draw(percent), draw(percent)) for k in counts)
        )
    tasks = {f"t{i}": draw(st.sampled_from(sorted(models))) for i in range(draw(st.integers(1, 6)))}
    edges = [
        (f"t{i}", f"t{j}", draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])))
        for j in range(len(tasks))
        for i in range(j)
        if draw(st.booleans())
    ]
    return model_instance(models, tasks, edges, rate=draw(st.floats(0.1, 150)))


@settings(max_examples=60, deadline=None)
@given(dags())
def test_every_thread_stands_and_sam_keeps_every_rule(made: Instance) -> None:
    for method in METHODS:
        result = solve(made, method)
        if result.plan is None:
            assert method != "mba+sam", result.notes
            continue
        assert result.evaluation is not None
        placed = {v.rule for v in result.evaluation.violations}
        assert not placed & {"placed", "slots"}
        assert result.evaluation.extra_slots >= 0  # type: ignore[operator]
        if method.endswith("sam"):
            assert result.feasible, result.evaluation.violations


@settings(max_examples=30, deadline=None)
@given(dags(), st.floats(1.1, 4))
def test_scaling_rates_and_models_alike_changes_nothing(made: Instance, factor: float) -> None:
    value = made.to_dict()
    for rows in value["models"].values():
        for row in rows:
            row["rate"] *= factor
    value["input_rate"] *= factor
    first, second = solve(made, "mba+sam"), solve(Instance.from_dict(value), "mba+sam")
    assert first.plan is not None
    assert second.plan is not None
    assert dict(first.plan.assignment) == dict(second.plan.assignment)
