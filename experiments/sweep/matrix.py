"""Matrix expansion with the semantics of GitHub Actions: product, then exclude, then include."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    Combination = dict[str, Any]
    Matches = Callable[[str, Any, Any], bool]
    Narrow = Callable[[Combination], Iterable[Combination]]


def equal(_key: str, held: Any, wanted: Any) -> bool:
    """Tell whether a combination's value is the one that an entry names."""
    return bool(held == wanted)


def whole(combination: Combination) -> Iterable[Combination]:
    """Leave a combination as it is."""
    return (combination,)


def size(factors: Mapping[str, Sequence[Any]]) -> int:
    """Return the number of combinations before exclusion."""
    return math.prod(len(values) for values in factors.values())


def expand(
    factors: Mapping[str, Sequence[Any]],
    exclude: Sequence[Mapping[str, Any]] = (),
    include: Sequence[Mapping[str, Any]] = (),
    matches: Matches = equal,
    narrow: Narrow = whole,
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
    narrow
        What becomes of a combination of the product before anything else: combinations that may
        lack factors or hold other values, or none. An entry that names a factor which a
        combination lacks does not match it.

    References
    ----------
    GitHub Docs, "Running variations of jobs in a workflow".
    """
    combinations = [
        narrowed
        for values in (itertools.product(*factors.values()) if factors else ())
        for narrowed in narrow(dict(zip(factors, values, strict=True)))
        if not _excluded(narrowed, exclude, matches)
    ]
    own = _keys_of(combinations)
    alone: list[Combination] = []
    for entry in include:
        fits = False
        for combination, keys in zip(combinations, own, strict=True):
            if _fits(combination, entry, keys, factors, matches):
                fits = True
                combination.update({k: v for k, v in entry.items() if k not in keys})
        if not fits:
            alone.append(dict(entry))
    return combinations + alone


def _excluded(
    combination: Combination, exclude: Sequence[Mapping[str, Any]], matches: Matches
) -> bool:
    return any(
        all(key in combination and matches(key, combination[key], entry[key]) for key in entry)
        for entry in exclude
    )


def _keys_of(combinations: Sequence[Combination]) -> list[frozenset[str]]:
    """Return the keys of each combination; equal ones share a set, for there may be a million."""
    shared: dict[frozenset[str], frozenset[str]] = {}
    return [shared.setdefault(keys, keys) for keys in map(frozenset, combinations)]


def _fits(
    combination: Combination,
    entry: Mapping[str, Any],
    own: Collection[str],
    factors: Collection[str],
    matches: Matches,
) -> bool:
    return all(
        key in own and matches(key, combination[key], value)
        for key, value in entry.items()
        if key in own or key in factors
    )
