"""Trials of one slot: a simulation (the default), and a Python callable that really runs.

The simulation: tuples arrive evenly and wait for a thread. A thread waits first for what lies
outside the slot (a service, a disk), which may take only so many tuples a second, and then for the
core, which works on one tuple after the other. More threads may make each tuple dearer (switching,
contention).

The callable runs on n threads, fed at a rate for a given time; the process that runs the trial is
the slot. CPU is the processor time of the process beyond that of the feeding, in percent of one
core; memory is what the process grew by, in percent of what a slot has. Threads of CPython share
the interpreter, so that a callable that computes in Python gains nothing from more of them, and one
that waits does.
"""

from __future__ import annotations

import heapq
import math
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from optim.errors import InvalidInput, Problem, raise_any
from optim.format.document import MAX_NUMBER
from optim.format.tables import ModelPoint

_ARRIVES, _ANSWERED, _DONE = 0, 1, 2


@dataclass(frozen=True)
class SlotTask:
    """A task as the simulation knows it.

    Attributes
    ----------
    cpu
        Seconds of the core a tuple takes with one thread.
    wait
        Mean seconds that a thread waits outside the slot for each tuple, without using the core.
    contention
        Share by which every further thread makes a tuple's CPU dearer.
    outside_rate
        Tuples/s that the outside serves to all threads together.
    spread
        Coefficient of variation of both times (gamma distributed); 0 for fixed times.
    memory, memory_per_thread, memory_per_tuple
        Percent of the slot: always, for each thread, for each tuple that a thread holds.
    """

    cpu: float
    wait: float = 0.0
    contention: float = 0.0
    outside_rate: float = float("inf")
    spread: float = 0.0
    memory: float = 0.0
    memory_per_thread: float = 0.0
    memory_per_tuple: float = 0.0

    def __post_init__(self) -> None:
        problems = [
            Problem(name, value, f"must be a number from 0 to {MAX_NUMBER:g}")
            for name, value in vars(self).items()
            if not (0 <= value <= MAX_NUMBER or (name == "outside_rate" and value == math.inf))
        ]
        if not problems and not self.cpu + self.wait > 0:
            problems.append(Problem("cpu", self.cpu, "is 0, and so is wait: a tuple takes no time"))
        if self.outside_rate == 0:
            problems.append(Problem("outside_rate", 0, "must be above 0"))
        raise_any(problems)


def queueing_trial(
    task: SlotTask,
    *,
    seconds: float = 60.0,
    warm_up: float = 0.2,
    most_tuples: int = 50_000,
    seed: int = 0,
) -> Trial:
    """Return a trial that simulates a slot; the same seed gives the same trials.

    Parameters
    ----------
    task
        What is simulated.
    seconds
        Simulated time of a trial; shortened so that no more than `most_tuples` arrive.
    warm_up
        Share of a trial that is left out of its measurements.
    most_tuples, seed
        See above.

    Raises
    ------
    InvalidInput
        Times or tuples out of range.
    """
    refuse(
        ("seconds", seconds, 0 < seconds < float("inf"), "must be a number above 0"),
        ("warm_up", warm_up, 0 <= warm_up < 1, "must be a share from 0 to below 1"),
        ("most_tuples", most_tuples, most_tuples >= 1, "must be at least 1"),
    )

    def trial(threads: int, rate: float) -> TrialResult:
        length = min(seconds, most_tuples / rate)
        return _Slot(task, threads, rate, length, seed).run(warm_up * length)

    return trial


class _Slot:
    """One simulated trial."""

    def __init__(
        self, task: SlotTask, threads: int, rate: float, seconds: float, seed: int
    ) -> None:
        self.task, self.threads, self.seconds = task, threads, seconds
        count = max(1, int(rate * seconds))
        rng = np.random.default_rng([seed, threads])
        self.arrivals = np.arange(count) / rate
        # work of a tuple on the core: cpu · (1 + contention · (threads − 1))
        dearer = 1.0 + task.contention * (threads - 1)
        self.work = _times(rng, task.cpu * dearer, task.spread, count)
        self.waits = _times(rng, task.wait, task.spread, count)
        self.events: list[tuple[float, int, int]] = [(0.0, _ARRIVES, 0)]
        self.waiting: deque[int] = deque()
        self.for_core: deque[int] = deque()
        self.idle, self.core_busy = threads, False
        self.outside_free = 0.0
        self.worked = self.thread_seconds = self.clock = 0.0

    def run(self, warm_up: float) -> TrialResult:
        """Simulate until the time is over."""
        times, latencies = [], []
        while self.events:
            now, what, tuple_ = heapq.heappop(self.events)
            if now > self.seconds:
                break
            self._advance(now, warm_up)
            if what == _ARRIVES:
                self.waiting.append(tuple_)
                if tuple_ + 1 < len(self.arrivals):
                    self._schedule(float(self.arrivals[tuple_ + 1]), _ARRIVES, tuple_ + 1)
            elif what == _ANSWERED:
                self.for_core.append(tuple_)
            else:
                self.core_busy, self.idle = False, self.idle + 1
                if now >= warm_up:
                    times.append(now)
                    latencies.append(now - float(self.arrivals[tuple_]))
            self._start(now)
        self._advance(self.seconds, warm_up)
        measured = max(self.seconds - warm_up, 1e-12)
        task = self.task
        memory = task.memory + task.memory_per_thread * self.threads
        memory += task.memory_per_tuple * self.thread_seconds / measured
        return TrialResult(times, latencies, 100.0 * self.worked / measured, memory)

    def _advance(self, now: float, warm_up: float) -> None:
        """Add up core time, and threads times the time they hold a tuple."""
        # time before the end of the warm-up does not count
        passed = max(0.0, now - max(self.clock, warm_up))
        self.worked += passed * self.core_busy
        self.thread_seconds += passed * (self.threads - self.idle)
        self.clock = now

    def _start(self, now: float) -> None:
        """Let idle threads take tuples, and the core the next one."""
        while self.idle and self.waiting:
            tuple_ = self.waiting.popleft()
            self.idle -= 1
            begin = max(now, self.outside_free)
            # the outside starts one tuple each 1 / outside_rate seconds, in order of arrival
            self.outside_free = begin + 1.0 / self.task.outside_rate
            self._schedule(begin + float(self.waits[tuple_]), _ANSWERED, tuple_)
        if not self.core_busy and self.for_core:
            tuple_ = self.for_core.popleft()
            self.core_busy = True
            self._schedule(now + float(self.work[tuple_]), _DONE, tuple_)

    def _schedule(self, when: float, what: int, tuple_: int) -> None:
        heapq.heappush(self.events, (when, what, tuple_))


def _times(rng: np.random.Generator, mean: float, spread: float, count: int) -> np.ndarray:
    if spread == 0 or mean == 0:
        return np.full(count, mean)
    # gamma of this mean: its coefficient of variation is 1 / √shape
    shape = 1.0 / spread**2
    return rng.gamma(shape, mean / shape, count)


def callable_trial(
    function: Callable[[], Any],
    *,
    seconds: float = 2.0,
    warm_up: float = 0.25,
    slot_memory: float = 3.5e9,
) -> Trial:
    """Return a trial that calls `function` once for each tuple.

    Parameters
    ----------
    function
        Called without arguments by several threads at once; what it returns is dropped.
    seconds
        Wall-clock time of a trial. A call that runs at its end is waited for.
    warm_up
        Share of a trial that is left out of the latencies.
    slot_memory
        Bytes of a slot; 3.5 GB as the paper's.

    Raises
    ------
    InvalidInput
        Times or memory out of range. The trial itself raises what `function` raises.
    """
    refuse(
        ("seconds", seconds, seconds > 0, "must be above 0"),
        ("warm_up", warm_up, 0 <= warm_up < 1, "must be a share from 0 to below 1"),
        ("slot_memory", slot_memory, slot_memory > 0, "must be above 0"),
    )

    def trial(threads: int, rate: float) -> TrialResult:
        return _Running(function, threads, rate, seconds).measure(warm_up, slot_memory)

    return trial


class _Running:
    """One trial: feeder in the calling thread, workers beside it."""

    def __init__(
        self, function: Callable[[], Any], threads: int, rate: float, seconds: float
    ) -> None:
        self.function, self.rate, self.seconds = function, rate, seconds
        self.tuples: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self.done: list[tuple[float, float]] = []
        self.failed: list[BaseException] = []
        self.stop = threading.Event()
        self.workers = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]

    def measure(self, warm_up: float, slot_memory: float) -> TrialResult:
        """Feed, stop, and sum up."""
        memory = _resident_bytes()
        busy, feeding = time.process_time(), time.thread_time()
        self.began = time.perf_counter()
        for worker in self.workers:
            worker.start()
        try:
            self._feed()
        finally:
            self.stop.set()
            for _ in self.workers:
                self.tuples.put(None)
            for worker in self.workers:
                worker.join()
        wall = time.perf_counter() - self.began
        # processor time of the workers: of the process without that of the feeding thread
        worker_time = (time.process_time() - busy) - (time.thread_time() - feeding)
        grown = max(0, _resident_bytes() - memory)
        if self.failed:
            raise self.failed[0]
        counted = sorted(pair for pair in self.done if pair[0] >= warm_up * self.seconds)
        return TrialResult(
            [when for when, _ in counted],
            [latency for _, latency in counted],
            100.0 * max(0.0, worker_time) / wall,
            100.0 * grown / slot_memory,
        )

    def _feed(self) -> None:
        """Put a tuple at each of its times; late ones at once, with the time they were due."""
        for i in range(max(1, int(self.rate * self.seconds))):
            due = self.began + i / self.rate
            pause = due - time.perf_counter()
            if pause > 0:
                time.sleep(pause)
            if self.failed:
                return
            self.tuples.put(due)
        rest = self.began + self.seconds - time.perf_counter()
        if rest > 0:
            self.stop.wait(rest)

    def _work(self) -> None:
        while not self.stop.is_set():
            due = self.tuples.get()
            if due is None or self.stop.is_set():
                return
            try:
                self.function()
            except BaseException as error:  # reported by the calling thread, whatever it is
                self.failed.append(error)
                return
            now = time.perf_counter()
            self.done.append((now - self.began, now - due))


def _resident_bytes() -> int:
    """Memory of this process; 0 where the system does not report."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


# -- algorithm 1 -----------------------------------------------------------------------------------

LATENCY_SLOPE = 0.001  # Growth of latency, seconds a second, up to which a trial is stable.


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
        # standard error of a slope: √(Σ residual² / (n − 2) / Σ (x − mean)²)
        off = y - y.mean() - steep * (x - x.mean())
        return steep - 2.0 * math.sqrt(float((off**2).sum()) / (count - 2) / spread)


Trial = Callable[[int, float], TrialResult]
"""Runs a task with (threads, tuples/s) on one slot for a while."""

Step = float | Callable[[float], float]  # A fixed step, or from a value to the next one.


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
        # Algorithm 1: more threads are tried while the peak rates of the window rise
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
    stable_point = None
    rate = _next("rate_step", step, 0.0)
    while rate <= max_rate:
        results = [trial(threads, rate) for trial in trials]
        stable = [result for result in results if result.growth() <= most]
        # one noisy trial of several does not end the search
        if 2 * len(stable) <= len(trials):
            break
        cpu = float(np.mean([result.cpu for result in stable]))
        memory = float(np.mean([result.memory for result in stable]))
        stable_point = ModelPoint(threads, float(rate), cpu, memory)
        rate = _next("rate_step", step, rate)
    return stable_point


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
