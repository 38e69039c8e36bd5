"""The relative gap between a value and a bound: the one formula that everything uses."""

from __future__ import annotations


def relative_gap(value: float | None, bound: float | None, zero: float = 0.0) -> float | None:
    """Return ``|v - b| / max(|v|, |b|)``; ``None`` where one is unknown.

    Differences up to `zero` are none.

    Examples
    --------
    >>> relative_gap(10.0, 9.0)
    0.1
    >>> relative_gap(0.0, 0.0)
    0.0
    >>> relative_gap(3.0, None) is None
    True
    """
    if value is None or bound is None:
        return None
    distance = abs(value - bound)
    return distance / max(abs(value), abs(bound)) if distance > zero else 0.0
