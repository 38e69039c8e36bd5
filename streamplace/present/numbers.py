"""Numbers as text: one way for each kind, in terminal, report, pages and progress lines alike.

Few digits, never a false claim: what is not nothing is never shown as zero, what is not all never
as a full hundred, and unknown is never a number. Commas group thousands and a point marks
decimals, as in the prose of all pages: plain characters, which can be copied and searched. A number
in a column keeps the decimals of its kind, so that points stand under one another (100.0 under
99.5); in a line, zeros at the end are left out (100).
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Literal, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = Literal["count", "number", "share", "gap", "points", "duration", "chance"]

UNKNOWN = "–"

_NO_GAP = 1e-6
_NO_POINTS = 1e-3
_LEAST_CHANCE = 0.001
_LONGEST = 15
_SCALES = ((1e-4, 1e-6, "µs"), (1.0, 1e-3, "ms"), (600.0, 1.0, "s"), (math.inf, 60.0, "min"))
_EIGHTHS = "▏▎▍▌▋▊▉█"


def in_column(value: float, kind: Kind) -> tuple[str, str]:
    """Return the text of a number in a column of its kind, and the unit that follows it.

    >>> in_column(12345, "count"), in_column(1.0, "share"), in_column(0.0689, "gap")
    (('12,345', ''), ('100.0', '%'), ('6.89', '%'))
    """
    if kind == "count":
        return f"{int(value):,}", ""
    if kind == "share":
        return _share(value, 1), "%"
    if kind == "gap":
        return _share(value if abs(value) > _NO_GAP else 0.0, 2), "%"
    if kind == "points":
        return _decimals(value if abs(value) > _NO_POINTS else 0.0, 2), ""
    if kind == "duration":
        return _duration(value)
    if kind == "chance":
        return (f"{value:.3f}" if value >= _LEAST_CHANCE else f"<{_LEAST_CHANCE}"), ""
    return number(value), ""


def in_line(value: float | None, kind: Kind) -> str:
    """Return a number with its unit as it stands in a line of text; ``–`` for unknown.

    >>> in_line(1.0, "share"), in_line(2e-5, "gap"), in_line(3.25, "duration"), in_line(None, "gap")
    ('100 %', '<0.01 %', '3.25 s', '–')
    """
    if value is None or math.isnan(value):
        return UNKNOWN
    text, unit = in_column(value, kind)
    return f"{text if kind == 'duration' else _short(text)} {unit}".rstrip()


def number(value: float | None, digits: int = 4) -> str:
    """Write a number with about `digits` significant digits; ``–`` for unknown.

    >>> number(1250.8125), number(0.361), number(40.0), number(2e9), number(None)
    ('1,251', '0.361', '40', '2,000,000,000', '–')
    """
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    decimals = max(0, digits - 1 - size)
    if decimals > 9 or size >= _LONGEST:
        return f"{value:.{digits}g}"
    return _short(f"{value:,.{decimals}f}")


_BYTES = re.compile(r"([kKMGTP]?)(B|[Bb]ytes?)(/.*)?")
_PREFIXES = "kMGTP"
_LONG_BYTES, _LONG = 1e5, 1e9


def is_bytes(unit: str | None) -> TypeGuard[str]:
    """Whether a unit is one of bytes, or of bytes in a time."""
    return _BYTES.fullmatch(unit or "") is not None


def quantity(value: float | None, unit: str = "", digits: int = 4) -> str:
    """Write a number with its unit, never a row of digits: bytes get the prefix that suits them.

    `value`: the number; ``–`` for unknown.
    `unit`: as an instance states it; bytes may have a prefix (``kB``, ``MB/s``).
    `digits`: significant ones, about.

    >>> quantity(123456789012.0, "bytes"), quantity(250000.0, "MB/s"), quantity(1250.8, "MB/s")
    ('123.5 GB', '250 GB/s', '1,251 MB/s')
    >>> quantity(2.5e9, "tuples/s"), quantity(4e12), quantity(None, "B"), quantity(0.5, "cores")
    ('2.5 billion tuples/s', '4 trillion', '–', '0.5 cores')
    """
    if value is None or not math.isfinite(value):
        return number(value, digits)
    size, match = abs(value), _BYTES.fullmatch(unit)
    if match is not None and size >= _LONG_BYTES:
        place = " kMGTP".index(match[1].replace("K", "k") or " ")
        while size >= 1000 and place < len(_PREFIXES):
            size, value, place = size / 1000, value / 1000, place + 1
        unit = f"{_PREFIXES[place - 1]}B{match[3] or ''}"
    elif size >= _LONG:
        word, scale = ("trillion", 1e12) if 1e12 <= size < 1e15 else ("billion", 1e9)
        if size < 1e15:
            value, unit = value / scale, f"{word} {unit}".rstrip()
    return f"{number(value, digits)} {unit}".rstrip()


def percent(share: float | None, decimals: int = 1) -> str:
    """Write a share as a percentage; ``–`` for unknown.

    >>> percent(0.8), percent(None), percent(1e-9), percent(0.99999)
    ('80 %', '–', '<0.1 %', '99.9 %')
    """
    if share is None or math.isnan(share):
        return UNKNOWN
    return f"{_short(_share(share, decimals))} %"


def duration(seconds: float | None) -> str:
    """Write a time.

    >>> duration(0.00042), duration(3.25), duration(312.0), duration(3600.0)
    ('0.42 ms', '3.25 s', '312 s', '60.0 min')
    """
    return in_line(seconds, "duration")


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


def listed(names: Sequence[str], most: int) -> str:
    """Write the first names, and how many there are beyond them.

    >>> listed(["a", "b", "c"], 3), listed(["a", "b", "c"], 1)
    ('a, b, c', 'a and 2 more')
    """
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def _short(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _share(share: float, decimals: int) -> str:
    """Return per cent; what is not whole is never rounded up to a full hundred."""
    text = _decimals(100 * share, decimals)
    # 99.96 % with one decimal would be 100.0 %: 99.9 % is shown
    if text == f"{100:.{decimals}f}" and share < 1 - _NO_GAP:
        return f"{100 - 10**-decimals:.{decimals}f}"
    return text


def _decimals(value: float, decimals: int) -> str:
    """Return a number with so many decimals; what is not nothing is never rounded to zero."""
    if math.isinf(value):
        return "∞"
    text = f"{value:,.{decimals}f}"
    return f"<{10**-decimals:.{decimals}f}" if value and float(text.replace(",", "")) == 0 else text


def _duration(seconds: float) -> tuple[str, str]:
    """Return a time with three significant digits at most, and its unit."""
    if seconds == 0:
        return "0", "s"
    # what rounds up to the next unit belongs to it: 999.6 ms is 1.00 s
    size, name = next((size, name) for below, size, name in _SCALES if seconds < below * (1 - 5e-4))
    amount = seconds / size
    decimals = 0 if amount >= 99.95 else 1 if amount >= 9.995 else 2
    return f"{amount:,.{decimals}f}", name
