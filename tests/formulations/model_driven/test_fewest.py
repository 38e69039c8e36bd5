"""The fewest slots from the worst start, against every packing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from formulations.model_driven import fewest
from formulations.model_driven.fewest import Fewest, SolverCalls, prove_fewest
from formulations.model_driven.slots import Items, fits
from optim.methods.registry import Request
from optim.solvers import LIMITED_WORK
from optim.solvers.interface import SolveTask
from tests.optim.solvers.models import knapsacks

if TYPE_CHECKING:
    from formulations.model_driven.slots import Slot


def random_items(seed: int) -> Items:
    rng = np.random.default_rng(seed)
    count = rng.integers(1, 4, 4)
    return Items(
        operator=np.arange(4),
        threads=np.ones(4, dtype=np.int64),
        count=count.astype(np.int64),
        cpu=rng.integers(15, 60, 4).astype(float),
        memory=rng.integers(15, 60, 4).astype(float),
        exclusive=np.zeros(4, dtype=np.bool_),
    )


def by_brute_force(items: Items) -> int:
    every = np.repeat(np.arange(4), items.count).tolist()
    best = len(every)

    def extend(i: int, slots: list[Slot]) -> None:
        nonlocal best
        if len(slots) >= best:
            return
        if i == len(every):
            best = len(slots)
            return
        c = every[i]
        for slot in [*slots, {}]:
            grown = {**slot, c: slot.get(c, 0) + 1}
            if fits(items, [[grown]], None):
                extend(i + 1, [*(s for s in slots if s is not slot), grown])

    extend(0, [])
    return best


@pytest.mark.parametrize("way", ["all steps", "no short try", "contents too many to list"])
def test_the_fewest_slots_from_one_item_a_slot(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    least = fewest._least

    def no_short_try(*given: Any, **limits: Any) -> Any:
        if limits:
            return SimpleNamespace(x=None, bound=None, termination="time_limit")
        return least(*given)

    if way != "all steps":
        monkeypatch.setattr(fewest, "_least", no_short_try)
    if way == "contents too many to list":
        monkeypatch.setattr(fewest, "_MOST_LISTED", 1)
    for seed in range(12):
        items = random_items(seed)
        start = [{c: 1} for c in range(4) for _ in range(int(items.count[c]))]
        known = Fewest(items, start, len(start), 1)
        prove_fewest(known, SolverCalls(Request(solver="highs")), pooled=False)
        expected = by_brute_force(items)
        assert (known.num_slots, known.bound) == (expected, expected)
        assert fits(items, [known.slots], None)
        held = [sum(slot.get(c, 0) for slot in known.slots) for c in range(4)]
        assert held == items.count.tolist()


def test_a_packing_that_the_generated_contents_do_not_hold() -> None:
    """The listing must reach as far as the gap: a start one slot above the optimum."""
    for seed in range(40, 55):
        items = random_items(seed)
        expected = by_brute_force(items)
        start = [{c: 1} for c in range(4) for _ in range(int(items.count[c]))]
        known = Fewest(items, start, expected + 1, 1)
        prove_fewest(known, SolverCalls(Request(solver="highs")), pooled=False)
        assert (known.num_slots, known.bound) == (expected, expected)


def test_a_short_try_is_of_limited_work_where_no_time_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that a busy machine, or another unit or order of names, changes no plan."""
    asked: list[SolveTask] = []

    def task(*args: Any, **more: Any) -> SolveTask:
        asked.append(SolveTask(*args, **more))
        return asked[-1]

    monkeypatch.setattr("optim.solvers.solve.SolveTask", task)
    SolverCalls(Request()).solve(knapsacks(6, 2), most=10.0)
    assert (asked[0].time_limit, asked[0].options) == (None, LIMITED_WORK["highs"])
    SolverCalls(Request()).solve(knapsacks(6, 2))
    assert (asked[1].time_limit, asked[1].options) == (None, {})
    SolverCalls(Request(time_limit=100.0)).solve(knapsacks(6, 2), share=0.5, most=10.0)
    assert asked[2].time_limit is not None and asked[2].time_limit <= 10.0
