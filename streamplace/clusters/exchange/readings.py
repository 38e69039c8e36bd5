"""A figure of a running system: an amount, the seconds it was counted over, and by what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamplace.clusters.exchange.pages import as_number

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPAN = re.compile(r"(?:(\d{1,9})d)?\s*(?:(\d{1,9})h)?\s*(?:(\d{1,9})m)?\s*(?:(\d{1,9})s)?")
_UNITS = (86_400.0, 3_600.0, 60.0, 1.0)


@dataclass(frozen=True)
class Reading:
    """What was counted, and since when.

    Attributes
    ----------
    amount
        ``None`` where it is not reported, negative or no number.
    seconds
        For how long it was counted: the age of the counter, the window, or the time between two
        readings, whichever is shortest; ``None`` where unknown.
    """

    amount: float | None
    seconds: float | None

    @property
    def rate(self) -> float | None:
        """The amount a second; ``None`` where it is unknown, or counted over no time at all."""
        if self.amount is None or self.seconds is None or self.seconds <= 0:
            return None
        return self.amount / self.seconds

    @classmethod
    def mean(cls, rate: float | None, seconds: float) -> Reading:
        """Return the reading of a rate that a system computed over so many seconds."""
        return cls(None if rate is None else rate * seconds, seconds)


def completed(rates: Sequence[float | None]) -> list[float] | None:
    """Return rates of equals, unknown ones as the mean of the known; ``None`` if all are."""
    known = [rate for rate in rates if rate is not None]
    if not known:
        return None
    mean = sum(known) / len(known)
    return [mean if rate is None else rate for rate in rates]


def seconds_of(text: object) -> float | None:
    """Return a span such as ``1h 21m 20s`` or ``4m 0s``, or a number of seconds, in s."""
    if isinstance(text, str):
        found = _SPAN.fullmatch(text.strip().lower())
        if found and any(found.groups()):
            return sum(unit * int(n or 0) for unit, n in zip(_UNITS, found.groups(), strict=True))
    return as_number(text)
