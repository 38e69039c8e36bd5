"""A trial that really runs: a Python callable on n threads, fed at a rate for a given time.

The process that runs the trial is the slot. CPU is the processor time of the process beyond that of
the feeding, in percent of one core; memory is what the process grew by, in percent of what a slot
has. Threads of CPython share the interpreter, so that a callable that computes in Python gains
nothing from more of them, and one that waits does.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.modelling.algorithm import TrialResult, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.modelling.algorithm import Trial


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
        own = (time.process_time() - busy) - (time.thread_time() - feeding)
        grown = max(0, _resident_bytes() - memory)
        if self.failed:
            raise self.failed[0]
        kept = sorted(pair for pair in self.done if pair[0] >= warm_up * self.seconds)
        return TrialResult(
            [when for when, _ in kept],
            [latency for _, latency in kept],
            100.0 * max(0.0, own) / wall,
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
