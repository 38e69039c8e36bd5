"""`slots-milp`: brute force as the judge, bounds, both levels, every back end."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.generators import generate
from formulations.slots_items import Items, make_items
from formulations.slots_packing import first_fit
from formulations.slots_patterns import maximal_patterns
from optim import Instance, InvalidInput, evaluate, get_method, solve
from optim.acquisition import acquire, cores_of
from optim.allocation import allocate
from tests.optim.model_cases import WAITS, model_instance, points

SOLVERS = get_method("slots-milp").solvers


def one_by_one(items: Items) -> list[int]:
    """Class of every item."""
    return [c for c, n in enumerate(items.count.tolist()) for _ in range(n)]


def fits(items: Items, classes: list[int]) -> bool:
    return all(sum(size[c] for c in classes) <= 100 + 1e-6 for size in (items.cpu, items.memory))


def fewest_by_brute_force(items: Items) -> int:
    """Place item after item in every open slot or a new one; keep the least."""
    every = one_by_one(items)
    best = len(every)

    def extend(i: int, slots: list[list[int]]) -> None:
        nonlocal best
        if len(slots) >= best:
            return
        if i == len(every):
            best = len(slots)
            return
        tried = set()
        for slot in slots:
            key = tuple(sorted(slot))
            if key not in tried and fits(items, [*slot, every[i]]):
                tried.add(key)
                slot.append(every[i])
                extend(i + 1, slots)
                slot.pop()
        extend(i + 1, [*slots, [every[i]]])

    extend(0, [])
    return best


def least_traffic_by_brute_force(made: Instance, items: Items, slots: int, *, pooled: bool) -> Any:
    """Try every slot for every item on the machines of that many slots; ``None``: nothing fits."""
    every, nodes = one_by_one(items), acquire(made, slots)
    places = [(v, s) for v, node in enumerate(nodes) for s in range(node.slots)]
    rates, best = made.operators.tuple_rate, None
    threads = np.bincount(items.operator, items.count * items.threads, made.num_operators)
    for chosen in itertools.product(range(len(places)), repeat=len(every)):
        at: dict[int, list[int]] = {}
        for c, place in zip(every, chosen, strict=True):
            at.setdefault(place, []).append(c)
        memory = all(sum(items.memory[c] for c in held) <= 100 + 1e-6 for held in at.values())
        if not memory or not (pooled or all(fits(items, held) for held in at.values())):
            continue
        on = np.zeros((len(nodes), made.num_operators))
        cpu = np.zeros(len(nodes))
        for c, place in zip(every, chosen, strict=True):
            on[places[place][0], items.operator[c]] += items.threads[c]
            cpu[places[place][0]] += items.cpu[c]
        cores = cores_of(made, nodes)
        if pooled and any(c > 100 * k + 1e-6 for c, k in zip(cpu, cores, strict=True)):
            continue
        inside = sum(
            rates[s.source] * s.selectivity * float(on[:, s.source] @ on[:, s.target])
            / threads[s.source] / threads[s.target]
            for s in made.streams
        )  # fmt: skip
        total = sum(rates[s.source] * s.selectivity for s in made.streams)
        best = total - inside if best is None else min(best, total - inside)
    return best


def small(seed: int) -> Instance:
    """Three or four tasks of one to three threads each, on machines of two slots."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 5))
    models = {
        f"m{i}": points((1, 10, float(rng.integers(5, 95)), float(rng.integers(5, 95))))
        for i in range(count)
    }
    edges = [(f"t{i}", f"t{j}", 1.0) for j in range(count) for i in range(j) if rng.random() < 0.6]
    tasks = {f"t{i}": f"m{i}" for i in range(count)}
    made = model_instance(models, tasks, edges, rate=float(rng.integers(3, 9)))
    # selectivities into each task sum to at most one, so that few threads are needed
    streams = made.to_dict().get("streams", [])
    for stream in streams:
        stream["selectivity"] = 1.0 / sum(s["to"] == stream["to"] for s in streams)
    return made.replace(streams=streams)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", ["bundles", "threads"])
def test_fewest_slots_and_least_traffic_against_brute_force(seed: int, kind: str) -> None:
    made = small(seed)
    allocation = allocate(made, "lsa" if kind == "threads" else "mba")
    items = make_items(made, allocation, kind)
    result = solve(made, "slots-milp", items=kind)
    assert result.objective is not None
    fewest = fewest_by_brute_force(items)
    assert (result.objective.value, result.bound) == (fewest, fewest)
    assert result.feasible
    expected = least_traffic_by_brute_force(made, items, fewest, pooled=False)
    (level,) = result.objective_levels
    assert level.value == pytest.approx(expected, abs=1e-6)
    assert level.bound == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("seed", range(40, 60))
def test_cores_of_a_machine_pooled_against_brute_force(seed: int) -> None:
    made = small(seed)
    if seed % 2:  # the last machine may have more cores than slots in use
        made = made.replace(vm_types=[{"id": "large", "slots": 2, "price": 1}])
    items = make_items(made, allocate(made, "lsa"), "threads")
    result = solve(made, "slots-milp", items="threads", cpu="vm")
    assert result.objective is not None
    slots = 1
    while (least := least_traffic_by_brute_force(made, items, slots, pooled=True)) is None:
        slots += 1
    assert (result.objective.value, result.bound) == (slots, slots)
    assert result.objective_levels[0].value == pytest.approx(least, abs=1e-6)


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
    expected = least_traffic_by_brute_force(made, items, 3, pooled=False)
    assert expected == pytest.approx(8 * (1 - (2 * 2) / 6))
    assert result.objective_levels[0].value == pytest.approx(expected)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("options", [{}, {"items": "threads", "cpu": "vm"}])
def test_every_back_end_proves_the_same(solver: str, options: dict[str, Any]) -> None:
    made = generate("micro_dag", shape="diamond", rate=50) if not options else small(3)
    result = solve(made, "slots-milp", solver=solver, **options)
    reference = solve(made, "slots-milp", **options)
    assert result.objective == reference.objective
    assert result.bound == reference.bound == result.objective.value  # type: ignore[union-attr]
    first, second = result.objective_levels[0], reference.objective_levels[0]
    assert first.value == pytest.approx(second.value, rel=1e-5)
    assert first.bound == pytest.approx(second.bound, rel=1e-5)
    assert str(result.termination) == "gap_reached"
    assert result.bound_of == "restricted"


def test_never_more_slots_than_sam_and_rsm() -> None:
    for shape in ("linear", "diamond", "star"):
        for rate in (50, 200):
            made = generate("micro_dag", shape=shape, rate=rate)
            slots = {m: solve(made, m).evaluation.slots for m in ("mba+sam", "lsa+rsm")}  # type: ignore[union-attr]
            bundles = solve(made, "slots-milp", traffic=False)
            threads = solve(made, "slots-milp", items="threads", cpu="vm", traffic=False)
            assert bundles.bound <= slots["mba+sam"]  # type: ignore[operator]
            assert threads.bound <= slots["lsa+rsm"]  # type: ignore[operator]
            assert bundles.bound >= allocate(made, "mba").slots  # type: ignore[operator]


def test_traffic_is_no_more_than_that_of_any_dealing() -> None:
    made = generate("micro_dag", shape="star", rate=100)
    with_traffic = solve(made, "slots-milp")
    without = solve(made, "slots-milp", traffic=False)
    sam = solve(made, "mba+sam")
    assert with_traffic.objective == without.objective
    values = [r.evaluation.internode_traffic for r in (with_traffic, without, sam)]  # type: ignore[union-attr]
    assert values[0] <= min(values[1:]) + 1e-9  # type: ignore[operator,type-var]


def test_too_many_patterns_leave_first_fit_and_a_bound() -> None:
    made = generate("micro_dag", shape="linear", rate=200)
    result = solve(made, "slots-milp", items="threads", most_patterns=5)
    assert result.feasible
    assert result.bound == 26  # the sums of 100 × 23.92 % memory and the rest
    assert result.objective is not None
    assert result.objective.value is not None
    assert result.objective.value >= 28
    assert str(result.termination) == "iteration_limit"
    assert any("most_patterns" in note for note in result.notes)


def test_too_many_products_leave_the_traffic_out() -> None:
    made = generate("micro_dag", shape="linear", rate=200)
    result = solve(made, "slots-milp", most_products=3)
    assert result.objective_levels[0].bound is None
    assert any("most_products" in note for note in result.notes)


def test_a_time_limit_keeps_the_packing_and_the_bound() -> None:
    made = generate("model_dag", seed=1, tasks=60, rate=90)
    result = solve(made, "slots-milp", time_limit=0.5)
    assert result.feasible
    assert result.bound is not None
    assert result.objective is not None
    assert result.bound <= result.objective.value  # type: ignore[operator]


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


@pytest.mark.parametrize(("cpu", "rate"), [(50.0, 8), (50.0000002, 8), (33.3333335, 12)])
def test_every_slot_has_the_rounding(cpu: float, rate: float) -> None:
    """Two threads of 50.0000002 % share a slot, and so do two more: four slots, not five."""
    models = {"m": points((1, 1, cpu, 1)), "s": points((1, 100, cpu, 1))}
    made = model_instance(models, {"work": "m"}, rate=rate)
    result = solve(made, "slots-milp", items="threads")
    assert result.feasible
    assert (result.objective.value, result.bound) == (4, 4)


def test_maximal_patterns_by_hand() -> None:
    found = maximal_patterns([[50, 30], [10, 10]], [2, 3], [100, 100], 100)
    assert found is not None
    assert sorted(map(tuple, found.tolist())) == [(0, 3), (1, 1), (2, 0)]
    assert maximal_patterns([[1, 1]], [9, 9], [9], 3) is None
    nothing = maximal_patterns([[]], [], [100], 5)
    assert nothing is not None
    assert nothing.shape == (1, 0)


# whole 64ths add up without rounding, which is the caller's to allow for
SIZES = st.integers(0, 6400).map(lambda parts: parts / 64)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), SIZES, SIZES), min_size=1, max_size=4))
def test_patterns_are_all_maximal_ones(rows: list[tuple[int, float, float]]) -> None:
    count = [n for n, _, _ in rows]
    sizes = [[c for _, c, _ in rows], [m for _, _, m in rows]]
    found = maximal_patterns(sizes, count, [100, 100], 10_000)
    assert found is not None

    def within(counts: tuple[int, ...]) -> bool:
        return all(sum(n * s for n, s in zip(counts, row, strict=True)) <= 100 for row in sizes)

    every = set(filter(within, itertools.product(*(range(n + 1) for n in count))))
    grown = {
        counts: any(
            (*counts[:k], counts[k] + 1, *counts[k + 1 :]) in every for k in range(len(counts))
        )
        for counts in every
    }
    assert sorted(map(tuple, found.tolist())) == sorted(c for c, more in grown.items() if not more)


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
