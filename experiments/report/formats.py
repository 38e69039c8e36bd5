"""Values as the report shows them: numbers as `present.numbers` writes them, and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamplace.present.numbers import in_column, in_line

if TYPE_CHECKING:
    from experiments.report.document import Kind, Value
    from streamplace.present import numbers

_SPACES = "\u00a0\u202f"


def show(value: Value, kind: Kind) -> str:
    """Return the text of a cell without its unit; unknown is an empty text, never a zero."""
    return _parts(value, kind)[0]


def unit(value: Value, kind: Kind) -> str:
    """Return the unit that follows a value of this kind."""
    return _parts(value, kind)[1]


def with_unit(value: Value, kind: Kind) -> str:
    """Return a value as it stands in a sentence, not to be broken from its unit."""
    if value is None or isinstance(value, str):
        return show(value, kind)
    return in_line(float(value), _number_kind(kind)).replace(" ", "\u00a0")


def _parts(value: Value, kind: Kind) -> tuple[str, str]:
    if value is None:
        return "", ""
    if isinstance(value, str):
        return printable(value), ""
    return in_column(float(value), _number_kind(kind))


def _number_kind(kind: Kind) -> numbers.Kind:
    return "number" if kind == "text" or kind == "name" else kind


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
