"""How a run on a case is scored: distance from what is proved, and how soon it came near."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Point(NamedTuple):
    """A plan on the way: seconds since the start, and its value in the objective's unit."""

    seconds: float
    value: float


def primal_gap(value: float | None, best: float, sense: str) -> float:
    """Return how far a value is from the best known one, from 0 (as good, or better) to 1.

    ``|best - value| / max(|best|, |value|)``; 1 without a value, or one of the other sign.
    Source: Berthold, "Measuring the impact of primal heuristics", Operations Research Letters
    41(6), 2013, section 2.

    Examples
    --------
    >>> primal_gap(8.0, 10.0, "max"), primal_gap(12.0, 10.0, "max"), primal_gap(None, 10.0, "max")
    (0.2, 0.0, 1.0)
    """
    if value is None or not math.isfinite(value):
        return 1.0
    if value == best or (value > best if sense == "max" else value < best):
        return 0.0
    if value * best < 0:
        return 1.0
    return abs(best - value) / max(abs(best), abs(value))


def primal_integral(points: Iterable[Point], best: float, sense: str, limit: float) -> float:
    """Return the primal gap's mean over the time from 0 to the limit: 0 best, 1 worst.

    At each moment the best plan so far counts, and 1 before there is one. What comes after the
    limit does not count. Berthold's integral is this times the limit.

    Parameters
    ----------
    points
        Feasible plans in any order; those worse than one before change nothing.
    limit
        Seconds, above 0.

    Examples
    --------
    >>> primal_integral([Point(1.0, 5.0), Point(3.0, 10.0)], 10.0, "max", 4.0)
    0.5
    """
    area, since, gap = 0.0, 0.0, 1.0
    for point in sorted(points):
        if point.seconds > limit:
            break
        now = max(point.seconds, 0.0)
        area += gap * (now - since)
        since, gap = now, min(gap, primal_gap(point.value, best, sense))
    return (area + gap * (limit - since)) / limit


def kept(points: Iterable[Point], final: Point, sense: str) -> list[Point]:
    """Return a trajectory as a method reports it, as far as its last plan bears them out.

    Nothing on the way counts for more than the plan returned at the end and judged, and
    nothing after it.
    """
    worse = min if sense == "max" else max
    before = [Point(p.seconds, worse(p.value, final.value)) for p in points]
    return [*(p for p in before if p.seconds < final.seconds), final]


def median(values: Sequence[float]) -> float | None:
    """Return the median; ``None`` of nothing. Infinite ones, of runs without a plan, count."""
    return statistics.median(values) if values else None


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; ``None`` of nothing."""
    return statistics.fmean(values) if values else None
