"""Numbers as text: few digits, never a false zero."""

from __future__ import annotations

import math

_EIGHTHS = "▏▎▍▌▋▊▉█"


def number(value: float | None, digits: int = 4) -> str:
    """Write a number with about `digits` significant digits; ``–`` for unknown.

    >>> number(1250.8125), number(0.361), number(40.0), number(2e9), number(None)
    ('1,251', '0.361', '40', '2,000,000,000', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    if decimals > 9:
        return f"{value:.{digits - 1}e}"
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float | None, decimals: int = 1) -> str:
    """Write a share as a percentage; ``–`` for unknown.

    >>> percent(0.8), percent(None), percent(1e-9)
    ('80 %', '–', '<0.1 %')
    """
    if share is None or math.isnan(share):
        return "–"
    if math.isinf(share):
        return "∞"
    if share and abs(share) * 100 < 0.5 * 10**-decimals:
        return f"<{10**-decimals:g} %"
    text = f"{share * 100:.{decimals}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + " %"


def duration(seconds: float | None) -> str:
    """Write a time.

    >>> duration(0.00042), duration(3.25), duration(312.0)
    ('<1 ms', '3.25 s', '5 min 12 s')
    """
    if seconds is None:
        return "–"
    if seconds < 0.001:
        return "<1 ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def bar(share: float, width: int = 10) -> str:
    """Draw a share as a bar; more than the whole ends in an arrow.

    >>> bar(0.5, 4), bar(0.0, 4), bar(1.2, 4)
    ('██', '', '███▶')
    """
    if not math.isfinite(share) or share <= 0:
        return ""
    if share > 1 + 1e-9:
        return "█" * (width - 1) + "▶"
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest - 1] if rest else "")


def plural(amount: int, noun: str) -> str:
    """Write a count with its noun.

    >>> plural(1, "task"), plural(12000, "task")
    ('1 task', '12,000 tasks')
    """
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"
