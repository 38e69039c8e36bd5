"""Performance models: interpolation, the best point, and what needs more than a slot."""

from __future__ import annotations

import pytest

from formulations.model_driven.performance_model import PerformanceModel, performance_models
from optim import InvalidInput
from optim.format.tables import ModelPoint
from tests.formulations.model_driven.model_cases import COMPUTES, WAITS, model_instance

MODEL = PerformanceModel("waits", [ModelPoint(**p) for p in WAITS])


def test_linear_between_points_and_flat_outside() -> None:
    assert MODEL.rate(2) == pytest.approx(2 + 4 / 3)
    assert MODEL.cpu(6) == pytest.approx(45)
    assert MODEL.memory(100) == 40
    assert MODEL.rate([1, 4, 8]).tolist() == [2, 6, 10]
    late = PerformanceModel("late", [ModelPoint(5, 7, 8, 9)])
    assert (late.rate(1), late.cpu(9), late.memory(5)) == (7, 8, 9)


@pytest.mark.parametrize(("threads", "rate"), [(1, 2), (2, 2), (3, 6), (6, 10), (5, 6), (99, 10)])
def test_nearest_count(threads: int, rate: float) -> None:
    assert MODEL.rate(threads, "nearest") == rate


def test_best_is_the_least_count_of_the_greatest_rate_within_a_slot() -> None:
    assert MODEL.threads[MODEL.best] == 8
    flat = PerformanceModel("flat", [ModelPoint(1, 5, 1, 1), ModelPoint(2, 5, 1, 1)])
    assert flat.threads[flat.best] == 1
    wide = PerformanceModel("wide", [ModelPoint(1, 5, 50, 1), ModelPoint(2, 9, 100.1, 1)])
    assert wide.threads[wide.best] == 1


def test_threads_for_a_rate_are_measured_ones() -> None:
    assert MODEL.threads[MODEL.position_for(2.1)] == 4
    assert MODEL.threads[MODEL.position_for(6)] == 4
    with pytest.raises(ValueError, match="reaches 11"):
        MODEL.position_for(11)


def test_no_count_within_a_slot_is_told() -> None:
    huge = PerformanceModel("huge", [ModelPoint(1, 5, 120, 1)])
    with pytest.raises(InvalidInput, match=r"models\.huge has no thread count .* 100 %"):
        _ = huge.best


def test_a_task_without_a_model_is_told() -> None:
    made = model_instance({"m": COMPUTES}, {"a": "m"})
    without = made.replace(operators=[{"id": "a", "model": "m"}, {"id": "b"}])
    with pytest.raises(InvalidInput, match=r"operators\[1\]\.model is missing \(b has none\)"):
        performance_models(without)
