"""The default trial: a simulation of one slot, threads that queue for its core.

Tuples arrive evenly and wait for a thread. A thread waits first for what lies outside the slot (a
service, a disk), which may take only so many tuples a second, and then for the core, which works on
one tuple after the other. More threads may make each tuple dearer (switching, contention).
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.modelling.algorithm import TrialResult, refuse
from optim.errors import Problem, raise_any

if TYPE_CHECKING:
    from experiments.modelling.algorithm import Trial

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
            Problem(name, value, "must be at least 0")
            for name, value in vars(self).items()
            if not value >= 0
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
        dearer = 1.0 + task.contention * (threads - 1)
        self.work = _times(rng, task.cpu * dearer, task.spread, count)
        self.waits = _times(rng, task.wait, task.spread, count)
        self.events: list[tuple[float, int, int]] = [(0.0, _ARRIVES, 0)]
        self.waiting: deque[int] = deque()
        self.for_core: deque[int] = deque()
        self.idle, self.core_busy = threads, False
        self.outside_free = 0.0
        self.worked = self.held = self.clock = 0.0

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
                    self._at(float(self.arrivals[tuple_ + 1]), _ARRIVES, tuple_ + 1)
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
        memory += task.memory_per_tuple * self.held / measured
        return TrialResult(times, latencies, 100.0 * self.worked / measured, memory)

    def _advance(self, now: float, warm_up: float) -> None:
        """Add up core time, and threads times the time they hold a tuple."""
        passed = max(0.0, now - max(self.clock, warm_up))
        self.worked += passed * self.core_busy
        self.held += passed * (self.threads - self.idle)
        self.clock = now

    def _start(self, now: float) -> None:
        """Let idle threads take tuples, and the core the next one."""
        while self.idle and self.waiting:
            tuple_ = self.waiting.popleft()
            self.idle -= 1
            begin = max(now, self.outside_free)
            self.outside_free = begin + 1.0 / self.task.outside_rate
            self._at(begin + float(self.waits[tuple_]), _ANSWERED, tuple_)
        if not self.core_busy and self.for_core:
            tuple_ = self.for_core.popleft()
            self.core_busy = True
            self._at(now + float(self.work[tuple_]), _DONE, tuple_)

    def _at(self, when: float, what: int, tuple_: int) -> None:
        heapq.heappush(self.events, (when, what, tuple_))


def _times(rng: np.random.Generator, mean: float, spread: float, count: int) -> np.ndarray:
    if spread == 0 or mean == 0:
        return np.full(count, mean)
    shape = 1.0 / spread**2
    return rng.gamma(shape, mean / shape, count)
