"""How numbers are shown: one way for a kind, in HTML, Markdown and the terminal alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.report.document import Kind, Value

_NO_GAP = 1e-6
_NO_POINTS = 1e-3
_SCALES = ((1e-4, 1e-6, "µs"), (1.0, 1e-3, "ms"), (600.0, 1.0, "s"), (float("inf"), 60.0, "min"))
_SPACES = "\u00a0\u202f"


def show(value: Value, kind: Kind) -> str:
    """Return the text of a value without its unit; unknown is an empty text, never a zero."""
    if value is None:
        return ""
    if isinstance(value, str):
        return printable(value)
    if kind == "count":
        return f"{int(value):,}".replace(",", "\u202f")
    if kind == "share":
        return _percent(float(value), 1)
    if kind == "gap":
        return _small(100 * float(value), 100 * _NO_GAP, 2)
    if kind == "points":
        return _small(float(value), _NO_POINTS, 2)
    if kind == "duration":
        return duration(float(value))[0]
    return significant(float(value))


def unit(value: Value, kind: Kind) -> str:
    """Return the unit that follows a value of this kind."""
    if value is None or isinstance(value, str):
        return ""
    if kind in ("share", "gap"):
        return "%"
    return duration(float(value))[1] if kind == "duration" else ""


def with_unit(value: Value, kind: Kind) -> str:
    """Return the text of a value with its unit."""
    return f"{show(value, kind)}\u00a0{unit(value, kind)}".rstrip("\u00a0")


def duration(seconds: float) -> tuple[str, str]:
    """Return a time with three significant digits at most, and its unit: µs, ms, s or min."""
    if seconds == 0:
        return "0", "s"
    # what rounds up to the next unit belongs to it: 999.6 ms is 1.00 s
    size, name = next((size, name) for below, size, name in _SCALES if seconds < below * (1 - 5e-4))
    amount = seconds / size
    decimals = 0 if amount >= 99.95 else 1 if amount >= 9.995 else 2
    return f"{amount:.{decimals}f}", name


def significant(value: float, digits: int = 4) -> str:
    """Return a number with this many significant digits, without an exponent where it is short."""
    if value == 0:
        return "0"
    text = f"{value:.{digits}g}"
    if "e" in text and 1e-4 <= abs(value) < 1e9:
        text = f"{value:.0f}"
    return text


def _percent(value: float, decimals: int) -> str:
    """Return per cent; what is not whole is never rounded up to a full hundred."""
    text = f"{100 * value:.{decimals}f}"
    if text == f"{100:.{decimals}f}" and value < 1 - _NO_GAP:
        return f"{100 - 10**-decimals:.{decimals}f}"
    return text


def _small(value: float, nothing: float, decimals: int) -> str:
    """Return a distance; what is not nothing is never rounded to zero."""
    text = f"{value:.{decimals}f}"
    return f"<{10**-decimals:.{decimals}f}" if float(text) == 0 and value > nothing else text


def printable(text: str) -> str:
    """Replace control characters: names come from files, and pages and terminals obey them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _SPACES else "\ufffd" for c in text)


def shortened(text: str, length: int) -> str:
    """Return a text of at most this many characters."""
    text = printable(text)
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def first_line(text: str | None) -> str:
    """Return the first line of a message that says something."""
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "")


def listed(names: list[str]) -> str:
    """Return names as a person lists them: ``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
