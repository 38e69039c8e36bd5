"""`slots-milp`: brute force as the judge, bounds, both levels, every back end, failures."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from experiments.generators import generate
from formulations.column_generation import driver
from formulations.model_driven import fewest, milp
from formulations.model_driven.allocate import allocate
from formulations.model_driven.slots import Items, first_fit, make_items
from optim import Instance, InvalidInput, evaluate, get_method, solve
from tests.formulations.model_driven.brute_force import fewest_and_least
from tests.formulations.model_driven.model_cases import WAITS, model_instance, points

if TYPE_CHECKING:
    from optim import Result

SOLVERS = get_method("slots-milp").solvers
FEW_ITEMS = 9


def fits(items: Items, classes: list[int]) -> bool:
    return all(sum(size[c] for c in classes) <= 100 + 1e-6 for size in (items.cpu, items.memory))


def small(seed: int, rate: float | None = None) -> Instance:
    """One to four tasks, models of one to three measured points, one or two types of milp."""
    rng = np.random.default_rng(seed)
    models = {}
    for m in range(int(rng.integers(1, 4))):
        counts = [1, *sorted(rng.choice(np.arange(2, 9), int(rng.integers(0, 3)), replace=False))]
        most, peak, cpu, memory = rng.choice([30, 60, 95]), 0.0, 0.0, 0.0
        rows = []
        for threads in counts:
            peak = max(0.5, peak + rng.uniform(-1, 8))
            cpu, memory = (
                min(100, cpu + rng.uniform(2, most)),
                min(100, memory + rng.uniform(2, most)),
            )
            rows.append((int(threads), round(peak, 2), round(cpu, 1), round(memory, 1)))
        models[f"m{m}"] = points(*rows)
    tasks = {f"t{i}": str(rng.choice(list(models))) for i in range(int(rng.integers(1, 5)))}
    edges = [
        (a, b, float(rng.choice([0.3, 0.5, 1, 2])))
        for a, b in itertools.combinations(tasks, 2)
        if rng.random() < 0.6
    ]
    sizes = rng.choice([1, 2, 3, 4], int(rng.integers(1, 3)), replace=False).tolist()
    types = [{"id": f"v{slots}", "slots": slots, "price": 0.1 * slots} for slots in sizes]
    return model_instance(
        models, tasks, edges, rate=rate or float(rng.choice([1, 4, 9])), vm_types=types
    )


def packed(result: Result) -> bool:
    """Whether the plan is the packing, and no plan of a heuristic that splits bundles."""
    return str(result.termination) != "heuristic"


@pytest.mark.parametrize("cpu", ["slot", "vm"])
@pytest.mark.parametrize("items", ["bundles", "threads"])
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_both_levels_against_brute_force(first: int, items: str, cpu: str) -> None:
    checked = 0
    for seed in range(first, first + 10):
        made = small(seed)
        allocation = allocate(made, "lsa" if items == "threads" else "mba")
        every = make_items(made, allocation, items)
        if every.count.sum() > FEW_ITEMS:
            continue
        slots, least = fewest_and_least(made, every, pooled=cpu == "vm")
        result = solve(made, "slots-milp", items=items, cpu=cpu)
        assert result.feasible
        assert result.objective is not None
        if not packed(result):
            assert result.objective.value < slots  # type: ignore[operator]
            continue
        assert (result.objective.value, result.bound) == (slots, slots)
        (level,) = result.objective_levels
        assert level.value == pytest.approx(least, abs=1e-6)
        assert level.bound == pytest.approx(least, abs=1e-5)
        assert str(result.termination) == "gap_reached"
        checked += 1
    assert checked


SLOW: dict[str, tuple[Any, ...]] = {
    "five tasks on 13 machines of 8": (
        {
            "m0": points((1, 2.02, 28.29, 23.8), (3, 0.33, 37.18, 51.44), (7, 4.7, 41.93, 65.82)),
            "m1": points((1, 3.02, 11.3, 20.3)),
        },
        {"o0": "m1", "o1": "m0", "o2": "m1", "o3": "m1", "o4": "m0"},
        [("o0", "o1", 1), ("o0", "o2", 2), ("o0", "o4", 1), ("o1", "o2", 2), ("o2", "o3", 1),
         ("o2", "o4", 2)],
        20, 8, 101, 323.404028,
    ),
    "four tasks on 28 machines of 4": (
        {"m0": points((1, 2.95, 14.43, 16.27))},
        {"o0": "m0", "o1": "m0", "o2": "m0", "o3": "m0"},
        [("o0", "o2", 1), ("o0", "o3", 0), ("o1", "o3", 2), ("o2", "o3", 0.5)],
        60, 4, 111, 197.839136,
    ),
}  # fmt: skip
"""Jobs whose traffic the plain model did not prove in minutes; slots and traffic by both."""


@pytest.mark.parametrize("case", SLOW)
def test_jobs_on_many_machines_are_proven_without_a_limit(case: str) -> None:
    models, tasks, edges, rate, slots, fewest_slots, least = SLOW[case]
    types = [{"id": "v", "slots": slots, "price": 0}]
    made = model_instance(models, tasks, edges, rate=rate, vm_types=types)
    result = solve(made, "slots-milp")
    assert result.objective is not None
    assert (result.objective.value, result.bound) == (fewest_slots, fewest_slots)
    (level,) = result.objective_levels
    assert level.value == pytest.approx(least)
    assert level.bound == pytest.approx(least)
    assert str(result.termination) == "gap_reached"


def test_of_what_the_bound_is() -> None:
    made = generate("micro_dag", shape="linear", rate=50)
    bundles = solve(made, "slots-milp", traffic=False)
    assert bundles.bound_of == "restricted"
    assert bundles.assumes == (
        "that run the threads of mba", "that keep its bundles whole", "that bind CPU by slot",
    )  # fmt: skip
    threads = solve(made, "slots-milp", items="threads", cpu="vm", traffic=False)
    assert threads.assumes[1:] == (
        "that book each thread as measured alone", "that acquire the largest machines first",
    )  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"cpu": "vm"}, {"items": "threads", "cpu": "vm"}])
def test_never_more_slots_than_the_familys_heuristics(options: dict[str, Any]) -> None:
    """Not even where these split bundles: the plan then is theirs, and its bound none."""
    for seed in range(100, 130):
        made = small(seed)
        result = solve(made, "slots-milp", traffic=False, **options)
        assert result.evaluation is not None
        assert result.feasible
        for mapping in ("sam", "rsm", "dsm"):
            other = solve(made, ("lsa+" if "items" in options else "mba+") + mapping).evaluation
            if other is None or not other.feasible:
                continue
            mine, theirs = result.evaluation.capacity_rate, other.capacity_rate
            enough = min(mine or 0, made.input_rate or 0) * (1 - 1e-9)
            if "cpu" in options and (theirs is None or theirs >= enough):
                assert result.evaluation.slots <= other.slots  # type: ignore[operator]
            if mapping == "sam" and not options:
                assert result.evaluation.slots <= other.slots  # type: ignore[operator]
        if not packed(result):
            assert result.bound is None
            assert any("since it splits" in note for note in result.notes)


def test_several_threads_a_task_and_their_shares() -> None:
    """Three threads of a, two of b, 45 % memory each: three slots on two machines of two."""
    made = model_instance(
        {"m": points((1, 4, 10, 45))}, {"a": "m", "b": "m"}, [("a", "b", 2 / 3)], rate=12
    )
    items = make_items(made, allocate(made, "lsa"), "threads")
    assert items.count.tolist() == [3, 2]
    result = solve(made, "slots-milp", items="threads")
    assert result.objective is not None
    assert result.objective.value == 3
    _, expected = fewest_and_least(made, items, pooled=False)
    assert expected == pytest.approx(8 * (1 - (2 * 2) / 6))
    assert result.objective_levels[0].value == pytest.approx(expected)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("options", [{}, {"items": "threads", "cpu": "vm"}])
def test_every_back_end_proves_the_same(solver: str, options: dict[str, Any]) -> None:
    made = generate("micro_dag", shape="diamond", rate=50) if not options else small(3, rate=9.0)
    result = solve(made, "slots-milp", solver=solver, **options)
    reference = solve(made, "slots-milp", **options)
    assert result.objective == reference.objective
    assert result.bound == reference.bound == result.objective.value  # type: ignore[union-attr]
    first, second = result.objective_levels[0], reference.objective_levels[0]
    assert first.value == pytest.approx(second.value, rel=1e-5)
    assert first.bound == pytest.approx(second.bound, rel=1e-5)
    assert str(result.termination) == "gap_reached"
    assert result.bound_of == "restricted"


def test_traffic_is_no_more_than_that_of_any_dealing() -> None:
    made = generate("micro_dag", shape="star", rate=100)
    with_traffic = solve(made, "slots-milp")
    without = solve(made, "slots-milp", traffic=False)
    sam = solve(made, "mba+sam")
    assert with_traffic.objective == without.objective
    values = [r.evaluation.internode_traffic for r in (with_traffic, without, sam)]  # type: ignore[union-attr]
    assert values[0] <= min(values[1:]) + 1e-9  # type: ignore[operator,type-var]


def test_too_many_products_leave_the_traffic_unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milp, "MOST_CLASSES", 0)  # else the patterns prove it
    made = generate("micro_dag", shape="linear", rate=200)
    monkeypatch.setattr("formulations.model_driven.milp.MOST_PRODUCTS", 3)
    result = solve(made, "slots-milp")
    assert result.objective_levels[0].bound is None
    assert any("more than 3 products" in note for note in result.notes)


@pytest.mark.parametrize("seed", range(200, 206))
@pytest.mark.parametrize("cpu", ["slot", "vm"])
def test_the_plain_model_proves_what_the_patterns_leave(
    seed: int, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = small(seed, rate=4.0)
    expected = solve(made, "slots-milp", cpu=cpu)
    monkeypatch.setattr(milp, "MOST_CLASSES", 0)
    monkeypatch.setattr(fewest, "_MOST_LISTED", 0)
    monkeypatch.setattr(fewest, "_generate", lambda *_: np.zeros((0, 1), dtype=np.int64))
    monkeypatch.setattr(fewest, "_least", lambda *_, **__: NO_ANSWER)
    found = solve(made, "slots-milp", cpu=cpu)
    assert (found.objective, found.bound) == (expected.objective, expected.bound)
    first, second = found.objective_levels[0], expected.objective_levels[0]
    assert first.value == pytest.approx(second.value, abs=1e-6)
    if second.bound is not None:
        assert first.bound == pytest.approx(second.bound, abs=1e-4)


class NO_ANSWER:
    x = None
    termination = "time_limit"
    bound = None


FAILURES = (ValueError("vector::reserve"), MemoryError(), KeyboardInterrupt())
PLACES: list[tuple[Any, str]] = [
    (fewest, "solve_linear"),
    (fewest, "solve_lp"),
    (fewest, "prove_fewest"),
    (milp, "prove_fewest"),
    (milp, "family_starts"),
    (milp, "place_on_machines"),
    (driver, "prove"),
    (milp, "which_pack"),
    (fewest, "_add_products"),
]


@pytest.mark.parametrize(("module", "name"), PLACES)
@pytest.mark.parametrize(
    "error", [ValueError("vector::reserve"), MemoryError(), KeyboardInterrupt()]
)
def test_a_failure_inside_keeps_the_packing(
    module: Any, name: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(module, name, fail)
    for made in (generate("micro_dag", shape="star", rate=100), small(7)):
        result = solve(made, "slots-milp")
        assert result.feasible
        assert result.objective is not None
        assert result.bound is None or result.bound <= result.objective.value  # type: ignore[operator]
        sam = solve(made, "mba+sam").evaluation
        assert sam is not None
        if name != "family_starts":
            assert result.objective.value <= sam.slots  # type: ignore[operator]


@pytest.mark.parametrize("limit", [0.001, 0.05, 0.5])
@pytest.mark.parametrize("options", [{}, {"items": "threads"}, {"items": "threads", "cpu": "vm"}])
def test_a_short_limit_keeps_the_packing_and_the_bound(
    limit: float, options: dict[str, Any]
) -> None:
    made = generate("model_dag", seed=1, tasks=60, rate=90)
    result = solve(made, "slots-milp", time_limit=limit, **options)
    assert result.feasible
    assert result.bound is not None
    assert result.objective is not None
    assert result.bound <= result.objective.value  # type: ignore[operator]


@pytest.mark.parametrize("power", [-9, -3, 4, 12])
def test_units_of_rates_and_prices_change_nothing(power: int) -> None:
    for seed in range(300, 312):
        made = small(seed)
        factor = 10.0**power
        told = made.to_dict()
        told["input_rate"] *= factor
        for rows in told["models"].values():
            for row in rows:
                row["rate"] *= factor
        for kind in told["vm_types"]:
            kind["price"] *= factor
        first, second = solve(made, "slots-milp"), solve(Instance.from_dict(told), "slots-milp")
        assert first.plan is not None
        assert second.plan is not None
        assert first.plan.assignment == second.plan.assignment
        assert first.plan.slots == second.plan.slots
        assert [n.vm_type for n in first.plan.nodes] == [n.vm_type for n in second.plan.nodes]
        assert (first.termination, first.bound) == (second.termination, second.bound)
        one, other = first.objective_levels[0], second.objective_levels[0]
        assert (one.bound is None) == (other.bound is None)
        if one.bound is not None:
            assert other.bound == pytest.approx(one.bound * factor, rel=1e-6, abs=1e-6 * factor)


def test_the_same_plan_twice() -> None:
    made = generate("micro_dag", shape="diamond", rate=100)
    first, second = (solve(made, "slots-milp").plan for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.to_json() == second.to_json()


def test_what_fits_no_slot_is_told() -> None:
    made = model_instance({"m": points((1, 5, 10, 120), (4, 6, 10, 50))}, {"t": "m"}, rate=3)
    with pytest.raises(InvalidInput, match=r"'t' needs 120 % of a slot's memory for a thread"):
        solve(made, "slots-milp", items="threads")
    late = model_instance({"m": points((2, 5, 10, 20))}, {"t": "m"}, rate=3)
    with pytest.raises(InvalidInput, match="no point for 1 thread"):
        solve(late, "slots-milp", items="threads", allocation="mba")
    assert solve(late, "slots-milp").feasible


def test_threads_are_booked_so_that_the_model_is_kept() -> None:
    """Ten threads need 90 % memory by the model: 9 % each, not the 1 % of one alone."""
    made = model_instance({"m": points((1, 1, 5, 1), (10, 3, 50, 90))}, {"t": "m"}, rate=30)
    items = make_items(made, allocate(made, "lsa"), "threads")
    assert items.memory.tolist() == [9]
    assert solve(made, "slots-milp", items="threads").feasible


@pytest.mark.parametrize(("cpu", "rate"), [(50.0, 8), (50.00000004, 8), (33.33333336, 12)])
def test_every_slot_has_the_rounding(cpu: float, rate: float) -> None:
    """Two threads of 50.00000004 % share a slot, and so do two more: four slots, not five."""
    models = {"m": points((1, 1, cpu, 1)), "s": points((1, 100, cpu, 1))}
    made = model_instance(models, {"work": "m"}, rate=rate)
    result = solve(made, "slots-milp", items="threads")
    assert result.feasible
    assert result.objective is not None
    assert (result.objective.value, result.bound) == (4, 4)


def test_first_fit_holds_every_item_once() -> None:
    made = generate("micro_dag", shape="diamond", rate=200)
    for name, kind in (("lsa", "threads"), ("mba", "bundles")):
        items = make_items(made, allocate(made, name), kind)
        slots = first_fit(items)
        held = np.zeros(len(items.count), dtype=int)
        for slot in slots:
            for c, n in slot.items():
                held[c] += n
            assert fits(items, [c for c, n in slot.items() for _ in range(n)])
        assert held.tolist() == items.count.tolist()


def test_plans_are_judged_from_their_file() -> None:
    made = model_instance({"m": WAITS}, {"t": "m", "u": "m"}, [("t", "u", 1.0)], rate=23)
    result = solve(made, "slots-milp")
    assert result.plan is not None
    again = type(result.plan).from_json(result.plan.to_json())
    assert evaluate(made, again) == result.evaluation
