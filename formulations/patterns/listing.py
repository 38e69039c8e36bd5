"""Pricing of patterns that are all listed: exact maxima, whatever side rows there are."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from formulations.patterns.pool import Pool, Priced, joined

if TYPE_CHECKING:
    from formulations.patterns.pool import Rows
    from formulations.patterns.problem import Counts, Floats


class Listing(Protocol):
    """A list of patterns for each node class.

    Attributes
    ----------
    dearest
        A large gain, as for a pricer.
    lengths
        (K,) patterns of each class.
    """

    dearest: float
    lengths: list[int]

    def values(self, price: Floats, side: Floats, *, gainless: bool) -> list[Floats]:
        """Return for each node class the gain less the prices of all its patterns."""
        ...

    def pool(self, node_class: int, at: Counts) -> Pool:
        """Return the patterns at some places in the list of a node class."""
        ...


class TableListing:
    """Patterns in one table, of any order, with their rows.

    Parameters
    ----------
    pool
        All of them.
    kinds
        Classes of nodes, K.
    rows
        The side rows.
    """

    def __init__(self, pool: Pool, kinds: int, rows: Rows) -> None:
        self._pool, self._table = pool, rows.of(pool)
        self._lists = [np.flatnonzero(pool.node_class == k) for k in range(kinds)]
        self.lengths = [len(some) for some in self._lists]
        self.dearest = float(np.abs(pool.gain).max(initial=0.0))

    @cached_property
    def _counts(self) -> Floats:
        return self._pool.counts.astype(np.float64)

    def values(self, price: Floats, side: Floats, *, gainless: bool) -> list[Floats]:
        """Return for each node class the gain less the prices of all its patterns."""
        value = -np.einsum("pg,g->p", self._counts, price)
        if len(side):
            value -= side @ self._table
        if not gainless:
            value += self._pool.gain
        return [value[some] for some in self._lists]

    def pool(self, node_class: int, at: Counts) -> Pool:
        """Return the patterns at some places in the list of a node class."""
        return self._pool.only(self._lists[node_class][at])


class ListPricer:
    """Looks through a list.

    Parameters
    ----------
    listing
        The list.
    per_round, begin
        Most patterns of a class that one pricing returns; how many to begin with, spread evenly.
    """

    weights: tuple[float, ...] = (0.7, 0.0)

    def __init__(self, listing: Listing, per_round: int = 40, begin: int = 0) -> None:
        self.listing, self.per_round, self.begin = listing, per_round, begin
        self.dearest = listing.dearest

    def first(self) -> Pool:
        """Return some patterns; with none, the first prices are those of what is missing."""
        lengths = self.listing.lengths
        spread = [np.linspace(0, n - 1, min(n, self.begin)).astype(np.int64) for n in lengths]
        return joined([self.listing.pool(k, np.unique(at)) for k, at in enumerate(spread)])

    def price(self, price: Floats, side: Floats, threshold: Floats, *, gainless: bool) -> Priced:
        """Return the patterns that are worth most, of those above the thresholds."""
        parts, highest = [], []
        for k, values in enumerate(self.listing.values(price, side, gainless=gainless)):
            count = min(self.per_round, len(values))
            top = np.argpartition(-values, count - 1)[:count] if count else np.zeros(0, np.int64)
            parts.append(self.listing.pool(k, top[np.lexsort((top, -values[top]))]))
            highest.append(values.max(initial=-np.inf))
        return Priced(joined(parts), np.array(highest))

    def enumerate(self, price: Floats, side: Floats, threshold: Floats, room: int) -> Pool | None:
        """Return all patterns above the thresholds; ``None`` where they are too many."""
        values = self.listing.values(price, side, gainless=False)
        near = [np.flatnonzero(v > t) for v, t in zip(values, threshold, strict=True)]
        if sum(map(len, near)) > room:
            return None
        return joined([self.listing.pool(k, at) for k, at in enumerate(near)])
