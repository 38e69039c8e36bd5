"""What a running method reports while it runs: best value so far, proven bound, phase."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INTERVAL = 0.2  # Seconds that pass at least between two calls of a progress callback.
MAX_TRACE = 4096  # Longer traces are thinned to every second bound-only entry.


@dataclass(frozen=True)
class Progress:
    """A moment of a run."""

    seconds: float  # Since the method's clock started.
    incumbent: float | None  # Objective of the best solution so far; ``None`` while there is none.
    bound: float | None  # Best proven bound so far; ``None`` while nothing is proven.
    phase: str  # What is being done, one or two words: ``build``, ``solve``, ``search``.


class TracePoint(NamedTuple):
    """One entry of a trace: time in seconds, incumbent and bound as in `Progress`."""

    seconds: float
    incumbent: float | None
    bound: float | None


class ProgressRecorder:
    """Keeps the best incumbent and bound, writes the trace and calls back at a limited rate.

    `sense`: ``"min"`` or ``"max"``: which incumbent is the better one.
    `callback`: called with a `Progress` at most every `interval` seconds, and once at the end
        (`finish`). Exceptions it raises end the run.
    `started`: ``time.perf_counter()`` at the start of the clock; now if not given.
    `interval`: least time between two calls, s.
    """

    def __init__(
        self,
        sense: str,
        callback: Callable[[Progress], None] | None = None,
        started: float | None = None,
        interval: float = INTERVAL,
    ) -> None:
        self.sense = sense
        self.incumbent: float | None = None
        self.bound: float | None = None
        self.phase = "solve"
        self._callback = callback
        self._started = time.perf_counter() if started is None else started
        self._interval = interval
        self._last_call = -math.inf
        self._reported: tuple[float | None, float | None] = (None, None)
        self._points: list[TracePoint] = []
        self._bound_only = False

    @property
    def seconds(self) -> float:
        """Seconds since the clock started."""
        return time.perf_counter() - self._started

    def note(
        self,
        incumbent: float | None = None,
        bound: float | None = None,
        phase: str | None = None,
    ) -> None:
        """Take in what is known now; worse values than the known ones are dropped."""
        sign = 1.0 if self.sense == "min" else -1.0
        better_x = self._improve("incumbent", incumbent, -sign)
        better_b = self._improve("bound", bound, sign)
        if phase is not None:
            self.phase = phase
        now = self.seconds
        if better_x or better_b:
            self._record(now, better_x)
        if self._callback is not None and now - self._last_call >= self._interval:
            self._last_call = now
            self._call(now)

    def finish(self, phase: str | None = None) -> None:
        """Report the last state, whatever the rate."""
        if phase is not None:
            self.phase = phase
        if self._callback is not None and self._reported != (self.incumbent, self.bound):
            self._call(self.seconds)

    def settle(self, incumbent: float | None, bound: float | None) -> None:
        """Set what was verified in the end, and drop entries that claimed more than that."""
        self._points = [p for p in self._points if not self._beyond(p, incumbent, bound)]
        self.incumbent, self.bound, self._bound_only = incumbent, bound, False
        last = self._points[-1] if self._points else None
        if last is None or (last.incumbent, last.bound) != (incumbent, bound):
            self._points.append(TracePoint(self.seconds, incumbent, bound))

    def _beyond(self, point: TracePoint, incumbent: float | None, bound: float | None) -> bool:
        """Whether an entry has a better incumbent or bound than the verified ones."""
        sign = 1.0 if self.sense == "min" else -1.0
        if point.incumbent is not None and (
            incumbent is None or sign * point.incumbent < sign * incumbent - _noise(incumbent)
        ):
            return True
        return point.bound is not None and (
            bound is None or sign * point.bound > sign * bound + _noise(bound)
        )

    @property
    def trace(self) -> list[tuple[float, float | None, float | None]]:
        """All moments at which incumbent or bound changed: (seconds, incumbent, bound)."""
        return list(self._points)

    def _call(self, now: float) -> None:
        assert self._callback is not None
        self._reported = (self.incumbent, self.bound)
        try:
            self._callback(Progress(now, self.incumbent, self.bound, self.phase))
        except KeyboardInterrupt:
            self._callback = None  # asked to stop once is enough
            raise

    def _record(self, now: float, better_incumbent: bool) -> None:
        point = TracePoint(now, self.incumbent, self.bound)
        # bounds that move many times a second are one entry, the last
        crowded = (
            self._bound_only
            and not better_incumbent
            and now - self._points[-1].seconds < self._interval / 4
        )
        if crowded:
            self._points[-1] = point
            return
        self._points.append(point)
        self._bound_only = len(self._points) > 1 and not better_incumbent
        if len(self._points) > MAX_TRACE:
            self._points = self._thinned()

    def _thinned(self) -> list[TracePoint]:
        """Drop every second entry in which only the bound moved."""
        thinned: list[TracePoint] = []
        for i, point in enumerate(self._points):
            same = i > 0 and self._points[i - 1].incumbent == point.incumbent
            if not same or i % 2 == 0 or i == len(self._points) - 1:
                thinned.append(point)
        return thinned

    def _improve(self, name: str, value: float | None, sign: float) -> bool:
        """Take a value in place of the known one where it is larger, times a sign; whether so."""
        current = getattr(self, name)
        if value is None or not math.isfinite(value):
            return False
        if current is not None and sign * value <= sign * current + _noise(current):
            return False
        setattr(self, name, float(value))
        return True


def _noise(value: float) -> float:
    """Differences this small are floating-point noise, not progress."""
    return 1e-12 * max(1.0, abs(value))


# Who wants to know that a kernel is compiled: the first use of a method on a machine takes
# longer.
#
# Separate from `optim.util.machine_code` so that listening does not load numba.

_watchers: list[Callable[[bool], None]] = []
_begun: list[float] = []
_done = [0.0]
_homeless = [False]


@contextmanager
def watching(watcher: Callable[[bool], None]) -> Iterator[None]:
    """Call `watcher` with True where compiling, or waiting for another process that compiles,
    begins, and with False where it ends; loading from disk is not reported."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def begin() -> None:
    """Notify every listener; kernels are compiled within others."""
    _begun.append(time.perf_counter())
    if len(_begun) == 1:
        for watcher in _watchers:
            watcher(True)


def end() -> None:
    """Count the seconds of what was compiled."""
    began = _begun.pop()
    if not _begun:
        _done[0] += time.perf_counter() - began
        for watcher in _watchers:
            watcher(False)


@contextmanager
def waiting() -> Iterator[None]:
    """Count the seconds within, of waiting for another process that compiles."""
    begin()
    try:
        yield
    finally:
        end()


def lose() -> None:
    """Note that there is no folder to keep machine code in: it goes with this process."""
    _homeless[0] = True


def is_kept() -> bool:
    """Return whether what this process compiles is there for the next one."""
    return not _homeless[0] or not (_begun or _done[0] > 0.0)


def seconds() -> float:
    """Return how long this process has compiled so far, or waited for another one to."""
    return _done[0]
