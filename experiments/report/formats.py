"""Texts as the report shows them."""

from __future__ import annotations

from streamplace.present.table import printable


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
