"""What a running method tells while it runs: best value so far, proven bound, phase."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds that pass at least between two calls of a progress callback.
INTERVAL = 0.2

#: Longer traces are thinned to every second bound-only entry.
MAX_TRACE = 4096


@dataclass(frozen=True)
class Progress:
    """A moment of a run.

    Attributes
    ----------
    seconds
        Since the method's clock started.
    incumbent
        Objective of the best solution so far; ``None`` while there is none.
    bound
        Best proven bound so far; ``None`` while nothing is proven.
    phase
        What is being done, in a word or two: ``build``, ``solve``, ``search``.
    """

    seconds: float
    incumbent: float | None
    bound: float | None
    phase: str


@dataclass(frozen=True)
class TracePoint:
    """One entry of a trace: time in seconds, incumbent and bound as in `Progress`."""

    seconds: float
    incumbent: float | None
    bound: float | None

    def as_tuple(self) -> tuple[float, float | None, float | None]:
        """Return ``(seconds, incumbent, bound)``, the form results are written in."""
        return (self.seconds, self.incumbent, self.bound)


class ProgressRecorder:
    """Keeps the best incumbent and bound, writes the trace and calls back at a limited rate.

    Parameters
    ----------
    sense
        ``"min"`` or ``"max"``: which incumbent is the better one.
    callback
        Called with a `Progress` at most every `interval` seconds, and once at the end
        (`finish`). Exceptions it raises end the run.
    started
        ``time.perf_counter()`` at the start of the clock; now if not given.
    interval
        Least time between two calls, s.
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
        self._told: tuple[float | None, float | None] = (None, None)
        self._points: list[TracePoint] = []

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
        better_x = self._keep_incumbent(incumbent)
        better_b = self._keep_bound(bound)
        if phase is not None:
            self.phase = phase
        now = self.seconds
        if better_x or better_b:
            self._record(now, better_x)
        if self._callback is not None and now - self._last_call >= self._interval:
            self._last_call = now
            self._call(now)

    def finish(self, phase: str | None = None) -> None:
        """Tell the last state, whatever the rate."""
        if phase is not None:
            self.phase = phase
        if self._callback is not None and self._told != (self.incumbent, self.bound):
            self._call(self.seconds)

    @property
    def trace(self) -> list[tuple[float, float | None, float | None]]:
        """All moments at which incumbent or bound changed: (seconds, incumbent, bound)."""
        return [point.as_tuple() for point in self._points]

    def _call(self, now: float) -> None:
        assert self._callback is not None
        self._told = (self.incumbent, self.bound)
        self._callback(Progress(now, self.incumbent, self.bound, self.phase))

    def _record(self, now: float, better_incumbent: bool) -> None:
        point = TracePoint(now, self.incumbent, self.bound)
        last = self._points[-1] if self._points else None
        bound_only = last is not None and not better_incumbent
        if bound_only and last is not None and now - last.seconds < self._interval / 4:
            self._points[-1] = TracePoint(last.seconds, last.incumbent, last.bound)
            if len(self._points) > 1 and self._points[-2].incumbent == last.incumbent:
                self._points[-1] = point
                return
        self._points.append(point)
        if len(self._points) > MAX_TRACE:
            self._points = self._thinned()

    def _thinned(self) -> list[TracePoint]:
        """Drop every second entry in which only the bound moved."""
        kept: list[TracePoint] = []
        for i, point in enumerate(self._points):
            same = i > 0 and self._points[i - 1].incumbent == point.incumbent
            if not same or i % 2 == 0 or i == len(self._points) - 1:
                kept.append(point)
        return kept

    def _keep_incumbent(self, value: float | None) -> bool:
        if value is None or not math.isfinite(value):
            return False
        sign = 1.0 if self.sense == "min" else -1.0
        if self.incumbent is not None and sign * value >= sign * self.incumbent:
            return False
        self.incumbent = float(value)
        return True

    def _keep_bound(self, value: float | None) -> bool:
        if value is None or not math.isfinite(value):
            return False
        sign = 1.0 if self.sense == "min" else -1.0
        if self.bound is not None and sign * value <= sign * self.bound:
            return False
        self.bound = float(value)
        return True
