"""Time, progress and the best value and bound so far, in scaled units."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim.util.progress import ProgressRecorder


@dataclass
class Clock:
    """When to stop, and whom to tell.

    Attributes
    ----------
    deadline
        `time.perf_counter` value at which to stop, ``None`` for no limit.
    recorder
        Told of values and bounds in the instance's unit.
    scale, offset
        Instance's unit per scaled unit, and what a scaled 0 is in that unit.
    hurried
        Something was cut short because of the deadline.
    """

    deadline: float | None = None
    recorder: ProgressRecorder | None = None
    scale: float = 1.0
    offset: float = 0.0
    hurried: bool = False

    def over(self) -> bool:
        """Whether the time is up."""
        return self.deadline is not None and time.perf_counter() >= self.deadline

    def left(self) -> float | None:
        """Seconds left, never below 0; ``None`` without a limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.perf_counter())

    def note(
        self, value: float | None = None, bound: float | None = None, phase: str | None = None
    ) -> None:
        """Record a value or a bound."""
        if self.recorder is not None:
            self.recorder.note(
                None if value is None else value * self.scale + self.offset,
                None if bound is None else bound * self.scale + self.offset,
                phase,
            )
