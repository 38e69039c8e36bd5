"""What one slot can hold, priced and listed: the integer knapsack behind `slots-milp`.

A slot's content is a vector of counts, one for each kind of item that shares slots. Kinds are sizes
here, not tasks: items of equal size can be exchanged, whatever runs in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.patterns.search_tree import DEPTHS, LEVELS, search

if TYPE_CHECKING:
    from formulations.model_driven.performance_model import Counts
    from optim.format.tables import Bools, Floats

BEST_KEPT = 64
"""Improving contents kept of one pricing."""


@dataclass(frozen=True, eq=False)
class Priced:
    """Contents worth more than was asked for, and what no content can be worth more than."""

    contents: Counts
    highest: float
    steps: int


class SlotContents:
    """The contents of one slot.

    Parameters
    ----------
    size
        (C, R) size of an item of each kind in each resource, at most `room`.
    count
        (C,) items there are of each kind.
    room
        What a slot offers of each resource; rounding is the caller's.
    """

    def __init__(self, size: Floats, count: Counts, room: float) -> None:
        kinds, resources = size.shape
        self.size, self.count = np.ascontiguousarray(size), count
        self.limit = np.full(resources, room)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            alone = np.floor(np.where(size > 0, room / size, np.inf).min(axis=1) + 1e-9)
        self.most = np.minimum(alone, count).astype(np.float64)
        self._no_gain = np.zeros((kinds, kinds))
        self._no_least = np.full(resources, -np.inf)
        self._no_planes = np.zeros((resources, DEPTHS, kinds, LEVELS + 1))

    def dearest(self, price: Floats, above: float, steps: int) -> Priced:
        """Find the content of greatest price; only those above a threshold are of interest.

        Parameters
        ----------
        price
            (C,) price of an item.
        steps
            Search nodes after which only a bound is given for the rest.
        """
        rows = np.zeros((BEST_KEPT, len(self.count)), dtype=np.int32)
        values = np.zeros(BEST_KEPT)
        found, rest, taken = self._search(price, above, False, steps, rows, values)
        kept = min(found, BEST_KEPT)
        highest = max(above, rest, float(values[:kept].max(initial=-np.inf)))
        return Priced(rows[:kept].astype(np.int64), highest, taken)

    def listed(self, price: Floats, above: float, most: int, steps: int) -> Counts | None:
        """List the maximal contents dearer than a threshold; ``None`` where that is too many."""
        size = min(4096, most)
        while True:
            rows = np.zeros((size, len(self.count)), dtype=np.int32)
            found, rest, _ = self._search(price, above, True, steps, rows, np.zeros(size))
            if found <= size:
                break
            if size >= most:
                return None
            size = min(8 * size, most)
        if rest > -np.inf:
            return None
        contents = rows[:found].astype(np.int64)
        return contents[self._maximal(contents)]

    def _search(
        self, price: Floats, above: float, every: bool, steps: int, rows: Any, values: Floats
    ) -> tuple[int, float, int]:
        answer: tuple[int, float, int] = search(
            self._no_gain, -price, self.size, self.most, self.limit, self._no_least,
            self._no_planes, above, every, steps, rows, values,
        )  # fmt: skip
        return answer

    def _maximal(self, contents: Counts) -> Bools:
        """(P,) whether no further item fits."""
        left = self.limit - contents @ self.size
        grows = np.zeros(len(contents), dtype=np.bool_)
        for c in range(len(self.count)):
            grows |= (contents[:, c] < self.most[c]) & (self.size[c] <= left).all(axis=1)
        return ~grows
