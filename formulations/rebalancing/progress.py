"""What a search asks and reports while it runs: time left, best value so far, interruption."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Watch:
    """Clock and ear of a search; without a deadline no clock is read and results repeat.

    Attributes
    ----------
    deadline
        ``time.perf_counter()`` value; ``None`` for no limit.
    tell
        Called with the load distance of each better placement.
    offer
        Given each better placement.
    interrupted
        Whether Ctrl-C ended the search; the best placement so far is then returned.
    expired
        Whether the deadline did.
    """

    deadline: float | None = None
    tell: Callable[[float], None] | None = None
    offer: Callable[[Any], None] | None = None
    interrupted: bool = field(default=False, init=False)
    expired: bool = field(default=False, init=False)

    def over(self) -> bool:
        """Whether to stop now."""
        if self.deadline is not None and time.perf_counter() >= self.deadline:
            self.expired = True
        return self.expired

    def remaining(self) -> float:
        """Seconds left; infinite without a deadline."""
        if self.deadline is None:
            return float("inf")
        return max(0.0, self.deadline - time.perf_counter())
