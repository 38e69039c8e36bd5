"""Texts in CSV: a spreadsheet must take none of them for a formula."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def to_cell(text: str) -> str:
    """Return a text with an apostrophe before it where it would be run as a formula.

    One that begins with apostrophes and goes on like that gets one more, so that it can be told
    from the others.
    """
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA) else text


def from_cell(text: str) -> str:
    """Return what `to_cell` made this of."""
    return text[1:] if text[:1] == "'" and text.lstrip("'").startswith(_FORMULA) else text
