"""All placements of a small instance, with their figures and which of them keep every rule."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from tests.fuzz.figures import Figures, measure
from tests.fuzz.reading import Reading
from tests.fuzz.rules import LOOSE, TIGHT, kept

LARGEST = 60_000


class Space:
    """The placements of an instance that keep `allowed` and `leaving`; (M, T) node indices."""

    def __init__(self, reading: Reading, largest: int = LARGEST) -> None:
        self.reading = reading
        self.choices = [np.flatnonzero(row).astype(np.int8) for row in reading.open]
        self.size = math.prod(len(c) for c in self.choices)
        #: whether all of them are looked at
        self.complete = len(reading.node_ids) > 0 and self.size <= largest

    @cached_property
    def at(self) -> np.ndarray:
        """(M, T) every placement."""
        if not self.choices:
            return np.zeros((1, 0), dtype=np.int8)
        grid = np.meshgrid(*self.choices, indexing="ij")
        return np.stack([g.reshape(-1) for g in grid], axis=1)

    @cached_property
    def figures(self) -> Figures:
        """Figures of all of them."""
        return measure(self.reading, self.at)

    def _all(self, slack: float) -> np.ndarray:
        return np.logical_and.reduce(
            list(kept(self.reading, self.at, self.figures, slack).values())
        )

    @cached_property
    def tight(self) -> np.ndarray:
        """(M,) which keep every rule without any tolerance."""
        return self._all(TIGHT)

    @cached_property
    def loose(self) -> np.ndarray:
        """(M,) which keep every rule within the tolerance."""
        return self._all(LOOSE)

    @cached_property
    def emptied(self) -> np.ndarray:
        """(M,) which leave no task on a leaving node that may be elsewhere."""
        stays = self.reading.leaving[self.at] & self.reading.can_stay_off
        return ~stays.any(axis=1)

    def best(self, name: str, sense: str, among: np.ndarray) -> float | None:
        """Return the best value of a figure among some placements; ``None`` without any."""
        values = self.figures.by_name.get(name)
        if values is None or not among.any():
            return None
        return float(values[among].max() if sense == "max" else values[among].min())

    def example(self, among: np.ndarray) -> dict[str, str]:
        """Return one placement by names."""
        first = self.at[int(np.flatnonzero(among)[0])]
        ids = self.reading.node_ids
        return {t: ids[n] for t, n in zip(self.reading.task_ids, first, strict=True)}
