"""Matrix expansion with the semantics of GitHub Actions: product, then exclude, then include."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Combination = dict[str, Any]
    Matches = Callable[[str, Any, Any], bool]


def equal(_key: str, held: Any, wanted: Any) -> bool:
    """Tell whether a combination's value is the one that an entry names."""
    return bool(held == wanted)


def size(factors: Mapping[str, Sequence[Any]]) -> int:
    """Return the number of combinations before exclusion."""
    return math.prod(len(values) for values in factors.values())


def expand(
    factors: Mapping[str, Sequence[Any]],
    exclude: Sequence[Mapping[str, Any]] = (),
    include: Sequence[Mapping[str, Any]] = (),
    matches: Matches = equal,
) -> list[Combination]:
    """Return all combinations, in the order of the factors and of their values.

    Parameters
    ----------
    factors
        Values of each factor; the last one varies fastest.
    exclude
        A combination goes when it matches *all* keys of an entry.
    include
        An entry's pairs are added to every combination of the product none of whose original
        values it would overwrite (values added by an earlier entry may be). An entry that can be
        added to none becomes a combination of its own, to which later entries are not added.
    matches
        (key, value held, value wanted) -> bool.

    References
    ----------
    GitHub Docs, "Running variations of jobs in a workflow".
    """
    combinations = [
        combination
        for values in (itertools.product(*factors.values()) if factors else ())
        if not _excluded(combination := dict(zip(factors, values, strict=True)), exclude, matches)
    ]
    alone: list[Combination] = []
    for entry in include:
        fitting = [c for c in combinations if _fits(c, entry, factors, matches)]
        added = {key: value for key, value in entry.items() if key not in factors}
        for combination in fitting:
            combination.update(added)
        if not fitting:
            alone.append(dict(entry))
    return combinations + alone


def _excluded(
    combination: Combination, exclude: Sequence[Mapping[str, Any]], matches: Matches
) -> bool:
    return any(
        all(key in combination and matches(key, combination[key], entry[key]) for key in entry)
        for entry in exclude
    )


def _fits(
    combination: Combination,
    entry: Mapping[str, Any],
    factors: Mapping[str, Sequence[Any]],
    matches: Matches,
) -> bool:
    return all(
        matches(key, combination[key], value) for key, value in entry.items() if key in factors
    )
