"""Verdicts from comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.papers.claims.claim import Verdict


def graded(*holds: object) -> Verdict:
    """Return ``same`` where all comparisons hold, ``in part`` where some do, else ``different``.

    >>> graded(True, True), graded(2 > 1, 1 > 2), graded(False)
    ('same', 'in part', 'different')
    """
    known = [bool(one) for one in holds]
    if all(known):
        return "same"
    return "in part" if any(known) else "different"
