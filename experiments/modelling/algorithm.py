"""Algorithm 1: raise threads, and for each number of threads the rate, until trials are unstable.

Source: Shukla and Simmhan, JPDC 2018, section 5.1, Algorithm 1. A trial is unstable when latency
grows over it: by more than 0.001 s a second. Threads are raised no further once the peak rates of
the last window do not rise.

Readings: the paper's loop tests the slope against a maximum where its text has a minimum; the
text holds. Growth is the slope less two standard errors, since trials are shorter here than the
paper's 12 minutes. The window is five thread counts. A thread count that supports not even the
least rate gets no point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, raise_any
from optim.format.tables import ModelPoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

LATENCY_SLOPE = 0.001
"""Growth of latency, seconds a second, up to which a trial is stable."""


@dataclass(frozen=True)
class TrialResult:
    """What a trial of a task on one slot measured.

    Attributes
    ----------
    times, latencies
        Seconds since the trial began at which tuples were done, and how long each took from its
        arrival; warm-up left out.
    cpu, memory
        Use of the slot above its base load, percent.
    """

    times: Sequence[float]
    latencies: Sequence[float]
    cpu: float
    memory: float

    def growth(self) -> float:
        """Growth of the latency beyond doubt, seconds a second; infinite when hardly any was done.

        The least-squares slope less twice its standard error: few tuples of varying times have a
        slope by chance, a queue that grows has one that stands out.
        """
        count = len(self.times)
        if count < 3:
            return math.inf
        x, y = np.asarray(self.times), np.asarray(self.latencies)
        steep, spread = slope(x, y), float(((x - x.mean()) ** 2).sum())
        if spread == 0:
            return math.inf
        off = y - y.mean() - steep * (x - x.mean())
        return steep - 2.0 * math.sqrt(float((off**2).sum()) / (count - 2) / spread)


Trial = Callable[[int, float], TrialResult]
"""Runs a task with (threads, tuples/s) on one slot for a while."""

Step = float | Callable[[float], float]
"""A fixed step, or from a value to the next one."""


def model_task(
    trial: Trial | Sequence[Trial],
    *,
    rate_step: Step = 1.0,
    thread_step: Step = 1.0,
    max_threads: int = 100,
    max_rate: float = 1e6,
    window: int = 5,
    least_rise: float = 0.0,
    latency_slope: float = LATENCY_SLOPE,
) -> list[ModelPoint]:
    """Build the performance model of a task.

    Parameters
    ----------
    trial
        Called with threads and rate; see `queueing_trial` and `callable_trial`. Of several, as of
        several seeds, more than half must be stable, so that one noisy trial does not end the
        search; CPU and memory are the means of the stable ones.
    rate_step, thread_step
        Steps of both loops. Rates begin at one step (or at what the function makes of 0), threads
        at 1 and rise by one at least; a function such as ``lambda k: 2 * k`` makes the model
        coarser and cheaper.
    max_threads, max_rate
        Where both loops end at the latest.
    window
        Thread counts whose peak rates decide whether more threads are tried.
    least_rise
        Stop when the slope of the last window's peak rates over threads is at most this; the paper
        uses -0.001, which goes on along a plateau.
    latency_slope
        Growth of latency that still counts as stable, seconds a second.

    Returns
    -------
    list of ModelPoint
        Threads, peak stable rate, CPU and memory at it.

    Raises
    ------
    InvalidInput
        A parameter is out of range, a step does not rise, or no rate is stable with any number of
        threads.
    """
    refuse(
        ("max_threads", max_threads, max_threads >= 1, "must be at least 1"),
        ("max_rate", max_rate, max_rate > 0, "must be above 0"),
        ("window", window, window >= 2, "must be at least 2: a slope needs two points"),
    )
    trials = [trial] if callable(trial) else list(trial)
    if not trials:
        raise InvalidInput(Problem("trial", [], "is empty", "give at least one trial"))
    points: list[ModelPoint] = []
    peaks: list[tuple[float, float]] = []
    threads = 1
    while threads <= max_threads:
        point = _peak(trials, threads, rate_step, max_rate, latency_slope)
        if point is not None:
            points.append(point)
        peaks.append((float(threads), 0.0 if point is None else point.rate))
        last = peaks[-window:]
        if len(last) == window and slope(*zip(*last, strict=True)) <= least_rise:
            break
        # a step that rounding would undo (0.4, or a factor of 1.2 from 1) is one thread
        threads = max(threads + 1, round(_next("thread_step", thread_step, threads)))
    if not points:
        least, most = _next("rate_step", rate_step, 0.0), int(peaks[-1][0])
        reason = f"is unstable at {least:g} tuples/s with every number of threads up to {most}"
        remedy = "try lower rates (a smaller rate_step), or longer trials"
        raise InvalidInput(Problem("trial", None, reason, remedy))
    return points


def _peak(
    trials: Sequence[Trial], threads: int, step: Step, max_rate: float, most: float
) -> ModelPoint | None:
    """Raise the rate until most trials are unstable; return the last stable one."""
    found = None
    rate = _next("rate_step", step, 0.0)
    while rate <= max_rate:
        results = [trial(threads, rate) for trial in trials]
        stable = [result for result in results if result.growth() <= most]
        if 2 * len(stable) <= len(trials):
            break
        cpu = float(np.mean([result.cpu for result in stable]))
        memory = float(np.mean([result.memory for result in stable]))
        found = ModelPoint(threads, float(rate), cpu, memory)
        rate = _next("rate_step", step, rate)
    return found


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """Least-squares slope of y over x; 0 where x does not vary."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    off = a - a.mean()
    spread = float((off**2).sum())
    return float((off * (b - b.mean())).sum()) / spread if spread > 0 else 0.0


def as_document(points: Sequence[ModelPoint]) -> list[dict[str, Any]]:
    """Return points as an instance file's ``models`` holds them."""
    return [dict(point._asdict()) for point in points]


def _next(name: str, step: Step, value: float) -> float:
    following = step(value) if callable(step) else value + step
    if not math.isfinite(following) or following <= value:
        reason = f"leads from {value:g} to {following:g}"
        raise InvalidInput(Problem(name, None, reason, "a step must rise"))
    return following


def refuse(*parameters: tuple[str, float, bool, str]) -> None:
    """Refuse parameters that do not do: of each name, value, whether it does, and what it must."""
    raise_any([Problem(name, value, must) for name, value, does, must in parameters if not does])
