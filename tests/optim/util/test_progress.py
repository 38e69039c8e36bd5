"""The recorder: monotone values, limited rate, an honest trace."""

from __future__ import annotations

import time

import pytest

from optim.util.progress import Progress, ProgressRecorder


def test_worse_values_and_noise_are_dropped() -> None:
    recorder = ProgressRecorder("min")
    recorder.note(incumbent=10.0, bound=1.0)
    recorder.note(incumbent=11.0, bound=0.0)
    recorder.note(incumbent=10.0 - 1e-13)
    recorder.note(incumbent=9.0, bound=2.0)
    assert (recorder.incumbent, recorder.bound) == (9.0, 2.0)
    assert [point[1:] for point in recorder.trace] == [(10.0, 1.0), (9.0, 2.0)]


def test_maximisation_turns_the_order_around() -> None:
    recorder = ProgressRecorder("max")
    recorder.note(incumbent=1.0, bound=9.0)
    recorder.note(incumbent=2.0, bound=8.0)
    recorder.note(incumbent=1.5, bound=8.5)
    assert (recorder.incumbent, recorder.bound) == (2.0, 8.0)


def test_infinite_and_missing_values_are_unknown() -> None:
    recorder = ProgressRecorder("min")
    recorder.note(incumbent=float("inf"), bound=float("-inf"))
    recorder.note(bound=float("nan"))
    assert recorder.trace == []


def test_callback_is_called_at_a_limited_rate_and_at_the_end() -> None:
    calls: list[Progress] = []
    recorder = ProgressRecorder("min", calls.append, interval=3600.0)
    for value in range(100, 0, -1):
        recorder.note(incumbent=float(value))
    assert len(calls) == 1
    recorder.finish()
    recorder.finish()
    assert [call.incumbent for call in calls] == [100.0, 1.0]
    assert calls[-1].phase == "solve"


def test_a_callback_that_interrupts_is_not_called_again() -> None:
    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    recorder = ProgressRecorder("min", interrupt, interval=0.0)
    with pytest.raises(KeyboardInterrupt):
        recorder.note(incumbent=2.0)
    recorder.note(incumbent=1.0)
    recorder.finish()
    assert recorder.incumbent == 1.0


def test_bounds_that_crowd_share_an_entry_incumbents_do_not() -> None:
    recorder = ProgressRecorder("min", interval=3600.0)
    recorder.note(incumbent=100.0)
    for value in range(50):
        recorder.note(bound=float(value))
    recorder.note(incumbent=99.0)
    recorder.note(incumbent=98.0)
    assert [point[1:] for point in recorder.trace] == [
        (100.0, None),
        (100.0, 49.0),
        (99.0, 49.0),
        (98.0, 49.0),
    ]


def test_settling_removes_claims_that_were_not_verified() -> None:
    recorder = ProgressRecorder("min")
    recorder.note(incumbent=10.0, bound=1.0)
    recorder.note(incumbent=5.0, bound=2.0)
    recorder.note(incumbent=3.0)
    recorder.settle(5.0, 2.0)
    assert [point[1:] for point in recorder.trace] == [(10.0, 1.0), (5.0, 2.0)]
    recorder.settle(None, None)
    assert [point[1:] for point in recorder.trace] == [(None, None)]


def test_seconds_count_from_the_given_start() -> None:
    assert ProgressRecorder("min", started=time.perf_counter() - 100.0).seconds >= 100.0
