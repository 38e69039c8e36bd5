"""Allocations of threads by hand, their limits, and machines for a number of slots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.model_driven.allocate import acquire, allocate
from optim import InvalidInput
from tests.formulations.model_driven.model_cases import COMPUTES, WAITS, model_instance, points


def one(model: Any, rate: float, **parts: Any) -> Any:
    return model_instance({"m": model}, {"t": "m"}, rate=rate, **parts)


def test_lsa_scales_one_thread() -> None:
    made = allocate(one(WAITS, 7), "lsa")  # 2 tuples/s a thread: 3.5 threads
    assert made.threads.tolist() == [4]
    assert made.totals == pytest.approx((35, 70))
    assert made.slots == 1


def test_lsa_takes_no_further_thread_where_the_rate_is_a_multiple() -> None:
    made = allocate(one(WAITS, 6), "lsa")
    assert made.threads.tolist() == [3]
    assert made.totals == pytest.approx((30, 60))


def test_mba_fills_bundles_and_takes_the_next_measured_count() -> None:
    made = allocate(one(WAITS, 23), "mba")  # 2 × 8 threads for 20, then 4 threads for 3
    assert made.threads.tolist() == [20]
    assert made.full_bundles.tolist() == [2]
    assert made.totals == pytest.approx((230, 230))
    assert made.slots == 3


def test_mba_scales_a_single_thread_only() -> None:
    made = allocate(one(COMPUTES, 25), "mba")  # peak 10 with 1 thread: 2 bundles, 5 of 10 left
    assert (made.full_bundles.tolist(), made.rest_threads.tolist()) == ([2], [1])
    assert made.totals == pytest.approx((240, 202.5))


def test_mba_without_a_rest() -> None:
    made = allocate(one(COMPUTES, 30), "mba")
    assert (made.full_bundles.tolist(), made.rest_threads.tolist()) == ([3], [0])
    assert made.threads.tolist() == [3]


def test_rates_follow_selectivities() -> None:
    edges = [("a", "b", 0.5), ("a", "c", 2.0), ("b", "d", 1.0), ("c", "d", 1.0)]
    made = model_instance({"m": COMPUTES}, dict.fromkeys("abcd", "m"), edges, rate=10)
    assert made.operators.tuple_rate.tolist() == [10, 5, 20, 25]
    assert allocate(made, "lsa").threads.tolist() == [1, 1, 2, 3]


def test_a_task_that_receives_nothing_gets_a_thread() -> None:
    made = model_instance({"m": COMPUTES}, {"a": "m", "b": "m"}, [("a", "b", 0.0)], rate=10)
    for name in ("lsa", "mba"):
        found = allocate(made, name)
        assert found.threads.tolist() == [1, 1]
        assert found.cpu[1] == 0


def test_sources_and_sinks_take_their_static_use() -> None:
    made = model_instance(
        {"m": COMPUTES, "end": points((1, 1000, 10, 15))}, {"s": "end", "t": "m"}, [("s", "t", 1.0)]
    )
    ends = made.replace(
        operators=[{"id": "s", "role": "source", "model": "end"}, {"id": "t", "model": "m"}]
    )
    assert allocate(made, "mba").cpu[0] == pytest.approx(0.1)
    assert allocate(ends, "mba").cpu[0] == 10
    assert allocate(ends, "lsa").memory[0] == 15


def test_no_thread_count_supports_the_rate() -> None:
    made = one(points((1, 0, 10, 10), (2, 0, 20, 10)), 10)
    for name in ("lsa", "mba"):
        with pytest.raises(InvalidInput) as caught:
            allocate(made, name)
        problem = caught.value.problems[0]
        assert problem.path == "models.m"
        assert "t receives 10 tuples/s" in problem.reason
        assert "selectivity" in problem.remedy


def test_one_thread_supports_nothing_but_more_do() -> None:
    made = one(points((1, 0, 10, 10), (2, 5, 20, 10)), 10)
    assert allocate(made, "mba").threads.tolist() == [4]
    with pytest.raises(InvalidInput, match=r"with 1 thread.*use mba"):
        allocate(made, "lsa")


def test_lsa_needs_one_thread_measured() -> None:
    made = one(points((2, 5, 20, 10)), 10)
    with pytest.raises(InvalidInput, match=r"no point for 1 thread.*measure 1 thread, or use mba"):
        allocate(made, "lsa")
    assert allocate(made, "mba").threads.tolist() == [4]


def test_thread_counts_beyond_a_slot_do_not_count() -> None:
    made = one(points((1, 5, 60, 10), (2, 9, 120, 10)), 10)
    assert allocate(made, "mba").threads.tolist() == [2]


def test_absurd_rates_are_refused_before_anything_is_made() -> None:
    with pytest.raises(InvalidInput, match=r"asks for .* threads on .* slots, most of them for t"):
        allocate(one(WAITS, 1e12), "mba")


@given(st.floats(0.01, 5000), st.sampled_from(["lsa", "mba"]))
def test_threads_suffice_and_slots_cover_the_sums(rate: float, name: str) -> None:
    made = allocate(one(WAITS, rate), name)
    cpu, memory = made.totals
    assert made.slots * 100 + 1e-6 >= max(cpu, memory)
    assert (made.slots - 1) * 100 < max(cpu, memory) + 1e-6 or made.slots == 1
    if name == "lsa":
        assert int(made.threads[0]) * 2 >= rate - 1e-6
    else:
        rest = int(made.rest_threads[0])
        reached = int(made.full_bundles[0]) * 10 + {0: 0, 1: 2, 4: 6, 8: 10}[rest]
        assert reached >= rate - 1e-6


@pytest.mark.parametrize(
    ("slots", "expected"),
    [(1, ["D1"]), (2, ["D2"]), (3, ["D3"]), (4, ["D3"]), (5, ["D3", "D1"]), (7, ["D3", "D3"]),
     (10, ["D3", "D3", "D2"])],
)  # fmt: skip
def test_largest_machines_first_then_the_smallest_that_covers_the_rest(
    slots: int, expected: list[str]
) -> None:
    types = [
        {"id": f"D{i}", "slots": 2 ** (i - 1), "price": 0.098 * 2 ** (i - 1)} for i in (1, 2, 3)
    ]
    found = acquire(one(WAITS, 5, vm_types=types), slots)
    assert [node.vm_type for node in found] == expected
    assert sum(node.slots for node in found) == slots


def test_the_cheaper_of_equal_machines() -> None:
    types = [{"id": "dear", "slots": 2, "price": 3}, {"id": "cheap", "slots": 2, "price": 1}]
    found = acquire(one(WAITS, 5, vm_types=types), 3)
    assert [node.vm_type for node in found] == ["cheap", "cheap"]


def test_allocation_arrays_agree() -> None:
    made = allocate(one(WAITS, 23), "mba")
    whole = made.full_bundles * made.bundle_threads + made.rest_threads
    assert np.array_equal(whole, made.threads)
