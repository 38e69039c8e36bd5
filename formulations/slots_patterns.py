"""What one slot can hold: all maximal vectors of counts within its CPU and memory.

Source of the idea: Gilmore and Gomory, Operations Research 9 (1961), cutting patterns.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.performance import Counts


def maximal_patterns(
    sizes: Sequence[Sequence[float]],
    count: Sequence[int],
    room: Sequence[float],
    most: int,
    deadline: float | None = None,
) -> Counts | None:
    """Enumerate the vectors of counts to which no further item fits.

    Parameters
    ----------
    sizes
        (D, C) size of an item of each class in each of D resources.
    count
        (C,) items there are.
    room
        (D,) what a slot offers; rounding is the caller's.
    most
        Patterns beyond which the search gives up; so it does after ten times as many steps.
    deadline
        `time.perf_counter` at which it gives up as well.

    Returns
    -------
    ndarray or None
        (P, C) counts, in a fixed order; ``None`` when the search gave up.
    """
    rows = [list(map(float, row)) for row in sizes]
    search = _Search(rows, list(map(int, count)), most, deadline)
    search.extend(0, [float(r) for r in room])
    if search.too_many:
        return None
    return np.array(search.found, dtype=np.int64).reshape(len(search.found), len(count))


class _Search:
    """Depth first: the classes in order, of each as many as fit down to none."""

    def __init__(
        self, sizes: list[list[float]], count: list[int], most: int, deadline: float | None
    ) -> None:
        self.sizes, self.count, self.most, self.deadline = sizes, count, most, deadline
        self.chosen = [0] * len(count)
        self.found: list[list[int]] = []
        self.visited = 0
        self.too_many = False

    def _count(self) -> None:
        """Count a step, and give up where there are too many."""
        self.visited += 1
        if len(self.found) > self.most or self.visited > 10 * self.most + 1000:
            self.too_many = True
        elif self.deadline is not None and self.visited % 1024 == 0:
            self.too_many = time.perf_counter() > self.deadline

    def fitting(self, k: int, room: list[float]) -> int:
        """How many more items of class k fit."""
        fit = self.count[k] - self.chosen[k]
        for size, free in zip(self.sizes, room, strict=True):
            if size[k] * fit > free:  # else a tiny size would overflow the quotient
                fit = min(fit, int(free / size[k] + 1e-12))
        return max(fit, 0)

    def extend(self, k: int, room: list[float]) -> None:
        """Choose classes from k on."""
        self._count()
        if self.too_many:
            return
        if k == len(self.count):
            if not any(self.fitting(j, room) for j in range(k)):
                self.found.append(list(self.chosen))
            return
        fit = self.fitting(k, room)
        # of the last class anything but all that fits would not be maximal
        least = fit if k == len(self.count) - 1 else 0
        for take in range(fit, least - 1, -1):
            self.chosen[k] = take
            left = [free - take * size[k] for size, free in zip(self.sizes, room, strict=True)]
            self.extend(k + 1, left)
        self.chosen[k] = 0
