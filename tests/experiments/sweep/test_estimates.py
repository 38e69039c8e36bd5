"""Estimates learn from rows; chunks hold every run once, longest first, of bounded length."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.sweep.execution import Estimator, guess, make_chunks
from experiments.sweep.plan import plan_runs
from experiments.sweep.spec import Spec


@given(st.lists(st.floats(1e-6, 1e4), max_size=300), st.integers(1, 16))
def test_chunks_hold_every_run_once(seconds: list[float], slots: int) -> None:
    chunks = make_chunks(seconds, slots)
    assert sorted(i for chunk in chunks for i in chunk) == list(range(len(seconds)))
    order = [seconds[i] for chunk in chunks for i in chunk]
    assert order == sorted(order, reverse=True)
    for chunk in chunks:
        total = sum(seconds[i] for i in chunk)
        assert len(chunk) == 1 or total - seconds[chunk[-1]] < 60
    for chunk in chunks[:-1]:
        assert sum(seconds[i] for i in chunk) >= 1


def test_many_short_runs_make_few_chunks_that_shrink() -> None:
    chunks = make_chunks([0.01] * 1000, 2)
    assert 5 <= len(chunks) <= 12
    assert len(chunks[0]) >= len(chunks[-2])


def test_bad_estimates_still_leave_work_for_every_slot_to_the_end() -> None:
    chunks = make_chunks([5.0] * 400, 2)
    assert len(chunks) > 30
    assert len(chunks[-1]) == 1


def test_a_long_run_is_a_chunk_of_its_own() -> None:
    assert make_chunks([0.1, 500.0, 0.2], 2)[0] == [1]


def test_estimates_follow_kind_limit_and_size(make_spec: Callable[..., Spec]) -> None:
    spec = make_spec({"method": ["balance-milp", "top-down"]}, time_limit=0.051)
    exact, heuristic = plan_runs(spec).runs
    assert 0 < guess(heuristic) < guess(exact) <= 0.051


def test_rows_teach_the_same_instance_before_the_same_method(
    make_spec: Callable[..., Spec],
) -> None:
    spec = make_spec({"method": ["top-down", "storm-even"]}, instances={"files": ["*.json"]})
    runs = {(r.method, r.instance.name): r for r in plan_runs(spec).runs}

    def row(instance: str, seconds: float | None) -> dict[str, object]:
        sha = runs["top-down", instance].instance.sha256
        base = {"method_label": "top-down", "solver": None, "instance_sha256": sha}
        return {**base, "time_total": seconds}

    estimator = Estimator([row("tiny", 4.0), row("tiny", 6.0), row("tiny", None)])
    assert estimator.seconds(runs["top-down", "tiny"]) == 5.0
    assert estimator.seconds(runs["top-down", "other"]) == 5.0
    unseen = runs["storm-even", "tiny"]
    assert estimator.seconds(unseen) == pytest.approx(guess(unseen))
