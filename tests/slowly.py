"""Members of a family that `make test` leaves out, beside those that it runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slowly(*values: Any) -> list[Any]:
    """Return values of a parameter as those of slow tests; a tuple has one for each name."""
    given = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*value, marks=pytest.mark.slow) for value in given]


def product_of(names: Iterable[Any], first: Any, others: Iterable[Any]) -> list[Any]:
    """Return pairs of each name with the first partner, and slow ones with the others.

    Of the others, one a name is kept, in turn: each partner meets a part of the names.
    """
    pairs: list[Any] = []
    rest = list(others)
    for number, name in enumerate(names):
        kept = rest[number % len(rest)]
        pairs += [(name, first), (name, kept)]
        pairs += slowly(*((name, other) for other in rest if other != kept))
    return pairs
