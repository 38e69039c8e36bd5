"""Steps that wait for their batch, with their nodes, so that a look at most of them is a mask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formulations.stepping.move import Step
    from optim.format.tables import Bools

AT_ONCE = 512
"""Steps whose nodes are looked at together; what became busy meanwhile is looked at again."""


class Waiting:
    """Steps in their order, until they are taken.

    Parameters
    ----------
    steps
        All of them.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        ends = [node for step in steps for node in (step[0].source, step[0].target)]
        self._ends = np.array(ends, np.int64).reshape(-1, 2)
        self._left = np.arange(len(steps))

    def __len__(self) -> int:
        return len(self._left)

    def __getitem__(self, number: int) -> Step:
        return self._steps[number]

    def numbers(self) -> list[int]:
        """Return the numbers of those that are left."""
        found: list[int] = self._left.tolist()
        return found

    def steps(self) -> list[Step]:
        """Return those that are left."""
        return [self._steps[i] for i in self.numbers()]

    def off(self, busy: Bools) -> Iterator[int]:
        """Go through the numbers of the steps that are on no busy node.

        Parameters
        ----------
        busy
            (N + 1,) mask of nodes, the last for nowhere, which never is; may change on the way.
        """
        for begin in range(0, len(self._left), AT_ONCE):
            some = self._left[begin : begin + AT_ONCE]
            yield from some[~busy[self._ends[some]].any(axis=1)].tolist()

    def take(self, numbers: Sequence[int]) -> None:
        """Leave steps out, by their numbers in rising order."""
        self._left = np.delete(self._left, np.searchsorted(self._left, numbers))
