"""The modelling phase: Algorithm 1 on made-up trials, the simulated slot, and a real callable."""

from __future__ import annotations

import itertools
import math
import time
from typing import Any

import pytest

from experiments.modelling import (
    SlotTask,
    TrialResult,
    as_document,
    callable_trial,
    model_task,
    queueing_trial,
)
from experiments.modelling.trials import slope
from optim import Instance, InvalidInput, solve


def trial_of(peaks: list[float], calls: list[tuple[int, float]]):
    """A trial that is stable up to the peak of each thread count, and keeps a list of its calls."""

    def trial(threads: int, rate: float) -> TrialResult:
        calls.append((threads, rate))
        times = [float(i) for i in range(20)]
        grows = rate > peaks[threads - 1]
        return TrialResult(times, [0.1 + 0.5 * t * grows for t in times], rate, threads)

    return trial


def test_rates_rise_until_a_trial_is_unstable() -> None:
    calls: list[tuple[int, float]] = []
    points = model_task(trial_of([2, 4], calls), max_threads=2)
    assert [tuple(p) for p in points] == [(1, 2, 2, 1), (2, 4, 4, 2)]
    assert calls == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (2, 4), (2, 5)]


def test_threads_rise_while_the_window_of_peaks_rises() -> None:
    peaks = [1.0, 2.0, 3.0, 3.0, 3.0, 3.0, 9.0, 9.0]
    points = model_task(trial_of(peaks, []), window=3)
    assert [p.threads for p in points] == [1, 2, 3, 4, 5]  # 3, 3, 3 do not rise
    on = model_task(trial_of(peaks, []), window=3, least_rise=-0.001, max_threads=8)
    assert [p.threads for p in on] == list(range(1, 9))


def test_falling_peaks_end_the_search() -> None:
    points = model_task(trial_of([5, 4, 3, 2, 1], []), window=3)
    assert [p.rate for p in points] == [5, 4, 3]


def test_steps_may_be_functions() -> None:
    calls: list[tuple[int, float]] = []
    points = model_task(
        trial_of([8.0] * 9, calls),
        rate_step=lambda rate: 2 * rate or 1,
        thread_step=lambda threads: 2 * threads,
        max_threads=8,
    )
    assert [(p.threads, p.rate) for p in points] == [(1, 8), (2, 8), (4, 8), (8, 8)]
    assert calls[:5] == [(1, 1), (1, 2), (1, 4), (1, 8), (1, 16)]


def test_the_greatest_rate_is_a_limit() -> None:
    points = model_task(trial_of([100], []), max_threads=1, max_rate=7)
    assert points[0].rate == 7


def test_counts_without_a_stable_rate_have_no_point() -> None:
    points = model_task(trial_of([0, 3], []), max_threads=2)
    assert [p.threads for p in points] == [2]
    with pytest.raises(InvalidInput, match="unstable at 1 tuples/s with every number of threads"):
        model_task(trial_of([0, 0], []), max_threads=2)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"max_threads": 0}, "max_threads"),
        ({"max_rate": 0}, "max_rate"),
        ({"window": 1}, "a slope needs two points"),
        ({"rate_step": 0}, "rate_step leads from 0 to 0"),
        ({"thread_step": lambda k: k}, "thread_step leads from 1 to 1"),
    ],
)
def test_parameters_out_of_range(keywords: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        model_task(trial_of([1, 2], []), **{"max_threads": 2, **keywords})


def test_growth_stands_out_of_chance() -> None:
    assert TrialResult([1, 2], [1, 2], 0, 0).growth() == math.inf
    line = TrialResult(list(range(10)), [0.5 * i for i in range(10)], 0, 0)
    assert line.growth() == pytest.approx(0.5)
    noise = TrialResult(list(range(6)), [1.0, 1.2, 0.9, 1.1, 0.95, 1.3], 0, 0)
    assert slope(noise.times, noise.latencies) > 0.001
    assert noise.growth() < 0


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_core_serves_its_rate_whatever_the_threads(threads: int) -> None:
    trial = queueing_trial(SlotTask(cpu=0.02, memory=3, memory_per_thread=2), seconds=20)
    below, above = trial(threads, 49), trial(threads, 52)
    assert below.growth() <= 0.001 < above.growth()
    assert below.cpu == pytest.approx(98, abs=0.5)
    assert below.memory == 3 + 2 * threads


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_waiting_threads_add_their_rates(threads: int) -> None:
    """A thread holds a tuple for 0.5 s: k threads serve 2 k tuples/s."""
    trial = queueing_trial(SlotTask(cpu=0.0001, wait=0.4999, memory_per_tuple=1), seconds=60)
    below, above = trial(threads, 1.95 * threads), trial(threads, 2.1 * threads)
    assert below.growth() <= 0.001 < above.growth()
    assert below.memory == pytest.approx(0.975 * threads, rel=0.01)
    assert above.memory == pytest.approx(threads, rel=0.01)


def test_the_outside_and_contention_limit_the_rate() -> None:
    outside = queueing_trial(SlotTask(cpu=0.001, wait=0.1, outside_rate=20), seconds=60)
    assert outside(50, 19).growth() <= 0.001 < outside(50, 21).growth()
    contended = queueing_trial(SlotTask(cpu=0.01, contention=0.25), seconds=20)
    assert contended(1, 99).growth() <= 0.001
    assert contended(5, 51).growth() > 0.001 >= contended(5, 49).growth()


def test_models_of_simulated_tasks_have_the_shapes_of_the_paper() -> None:
    parse = model_task(
        queueing_trial(SlotTask(cpu=1 / 310, contention=0.03), seconds=10), rate_step=10
    )
    assert [(p.threads, p.rate) for p in parse][:2] == [(1, 310), (2, 300)]
    assert all(a.rate >= b.rate for a, b in itertools.pairwise(parse))
    query = model_task(
        queueing_trial(SlotTask(cpu=0.002, wait=0.3, outside_rate=30, spread=0.3), seconds=60),
        thread_step=lambda k: k + 5,
        max_threads=31,
    )
    assert query[0].rate < query[1].rate < query[-1].rate
    assert query[-1].rate in (29, 30, 31)


def test_simulated_trials_repeat() -> None:
    task = SlotTask(cpu=0.01, wait=0.05, spread=0.5)
    first, second, other = (queueing_trial(task, seconds=5, seed=s)(3, 40) for s in (1, 1, 2))
    assert first == second
    assert first != other


@pytest.mark.parametrize(
    "fields", [{"cpu": -1}, {"cpu": 0}, {"cpu": 1, "outside_rate": 0}, {"cpu": float("nan")}]
)
def test_tasks_that_cannot_be(fields: dict) -> None:
    with pytest.raises(InvalidInput):
        SlotTask(**fields)


def test_a_callable_really_runs() -> None:
    calls = []

    def sleep() -> None:
        calls.append(None)
        time.sleep(0.01)

    result = callable_trial(sleep, seconds=0.5)(4, 40)
    assert 10 <= len(calls) <= 20
    assert all(latency >= 0.01 for latency in result.latencies)
    assert all(when >= 0.125 for when in result.times)
    assert result.memory >= 0


def test_a_callable_that_cannot_keep_up_queues() -> None:
    result = callable_trial(lambda: time.sleep(0.05), seconds=1.0)(1, 100)
    assert result.growth() > 0.2  # 80 of 100 tuples wait for ever longer


def test_what_the_callable_raises_is_raised() -> None:
    def fail() -> None:
        raise RuntimeError("no connection")

    with pytest.raises(RuntimeError, match="no connection"):
        callable_trial(fail, seconds=0.2)(2, 50)


@pytest.mark.parametrize("fields", [{"seconds": 0}, {"warm_up": 1}, {"slot_memory": 0}])
def test_callable_trials_that_cannot_be(fields: dict) -> None:
    with pytest.raises(InvalidInput):
        callable_trial(lambda: None, **fields)


def test_a_model_goes_into_an_instance() -> None:
    points = model_task(queueing_trial(SlotTask(cpu=0.02), seconds=5), rate_step=10, max_threads=2)
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "modelled",
            "operators": [{"id": "t", "model": "simulated"}],
            "models": {"simulated": as_document(points)},
            "input_rate": 120,
            "vm_types": [{"id": "vm", "slots": 4, "price": 1}],
        }
    )
    assert solve(instance, "mba+sam").evaluation.slots == 3  # type: ignore[union-attr]


@pytest.mark.parametrize("step", [0.4, 0.5, lambda k: 1.2 * k])
def test_threads_rise_whatever_rounding_makes_of_the_step(step: Any) -> None:
    trial = queueing_trial(SlotTask(cpu=0.02), seconds=5)
    points = model_task(trial, rate_step=25, thread_step=step, max_threads=4)
    assert [point.threads for point in points] == [1, 2, 3, 4]


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"warm_up": 1.0}, {"most_tuples": 0}])
def test_trials_that_could_not_measure_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        queueing_trial(SlotTask(cpu=0.02), **wrong)


def test_a_negative_time_is_one_mistake_not_two() -> None:
    with pytest.raises(InvalidInput) as caught:
        SlotTask(cpu=-1.0)
    assert [str(problem) for problem in caught.value.problems] == [
        "cpu: -1.0 must be a number from 0 to 1e+15"
    ]
