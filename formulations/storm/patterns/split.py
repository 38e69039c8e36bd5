"""The best split of the executors that a node holds of a topology into so many workers.

``best(q, k) = max over parts t ≤ q of gain(t) + best(q − t, k − 1)``, every part at least one
executor and at most what a slot holds; of equal splits one is looked at by demanding that t holds
an executor of the first class that q has.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.storm.patterns.states import inner_gain, strides
from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm.patterns.problem import StormProblem

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

MOST_STEPS = 1e9
"""Parts of parts that are looked at, above which a split is not made."""


@helper
def first_part(size, stride, state, count, part):
    """Write the digits of a state and its first part; return the first class it has."""
    first = -1
    for c in range(len(size)):
        count[c] = (state // stride[c]) % (size[c] + 1)
        part[c] = 0
        if first < 0 and count[c] > 0:
            first = c
    if first >= 0:
        part[first] = 1
    return first


@helper
def next_part(count, part, first):
    """Count one further; whether there is a next part."""
    for c in range(len(count)):
        if part[c] < count[c]:
            part[c] += 1
            return True
        part[c] = 1 if c == first else 0
    return False


@kernel
def split_all(size, stride, gain, largest, needed):
    """Fill the tables of the best splits.

    Parameters
    ----------
    size, stride, gain
        Of the topology's classes of executors and its states.
    largest
        Most executors in a slot.
    needed
        (workers + 1, S) which splits are asked for; changed.

    Returns
    -------
    tuple
        (workers + 1, S) best gain inside the slots, -inf where there is none; and the first part.
    """
    most, num_states = needed.shape[0] - 1, needed.shape[1]
    count = np.zeros(len(size), np.int64)
    part = np.zeros(len(size), np.int64)
    best = np.full(needed.shape, -np.inf)
    choice = np.full(needed.shape, -1, np.int64)
    for workers in range(most, 1, -1):
        for state in range(num_states):
            if not needed[workers, state]:
                continue
            first = first_part(size, stride, state, count, part)
            total = count.sum()
            more = first >= 0
            while more:
                own = part.sum()
                if own <= largest and total - own >= workers - 1:
                    number = 0
                    for c in range(len(size)):
                        number += part[c] * stride[c]
                    needed[workers - 1, state - number] = True
                more = next_part(count, part, first)
    for state in range(num_states):
        if needed[1, state]:
            first_part(size, stride, state, count, part)
            if 0 < count.sum() <= largest:
                best[1, state] = gain[state]
                choice[1, state] = state
    for workers in range(2, most + 1):
        for state in range(num_states):
            if not needed[workers, state]:
                continue
            first = first_part(size, stride, state, count, part)
            total = count.sum()
            more = first >= 0
            while more:
                own = part.sum()
                if own <= largest and total - own >= workers - 1:
                    number = 0
                    for c in range(len(size)):
                        number += part[c] * stride[c]
                    value = gain[number] + best[workers - 1, state - number]
                    if value > best[workers, state]:
                        best[workers, state] = value
                        choice[workers, state] = number
                more = next_part(count, part, first)
    return best, choice


class Splitter:
    """Splits the executors of one topology.

    Attributes
    ----------
    classes
        The topology's classes of executors.
    """

    def __init__(self, problem: StormProblem, job: int) -> None:
        self.classes = np.flatnonzero(problem.job == job)
        self.size = problem.inner.sizes[self.classes]
        self.stride = strides(self.size)
        rate = problem.inner.rate[np.ix_(self.classes, self.classes)]
        self._gain = inner_gain(self.size, rate)
        limit = problem.per_slot
        self._largest = int(self.size.sum()) if limit is None else limit

    def steps(self, counts: Integers, workers: Integers) -> float:
        """Bound the work for (…, C) counts and (…,) workers from above."""
        known = np.unique(np.column_stack([counts[:, self.classes], workers]), axis=0)
        held = known[:, :-1].astype(np.float64)
        pairs = np.prod((held + 1) * (held + 2) / 2, axis=1)
        single = np.prod(held + 1, axis=1)
        layers = known[:, -1].astype(np.float64)
        return float((single * (layers >= 2) + pairs * np.maximum(0, layers - 2)).sum())

    def prepare(self, counts: Integers, workers: Integers) -> None:
        """Make the tables for (…, C) counts and (…,) workers."""
        states = counts[:, self.classes] @ self.stride
        needed = np.zeros((max(1, int(workers.max(initial=1))) + 1, len(self._gain)), np.bool_)
        needed[workers, states] = True
        self._best, self._choice = split_all(
            self.size, self.stride, self._gain, self._largest, needed
        )

    def gain(self, counts: Integers, workers: Integers) -> Floats:
        """Return the best gain inside slots; 0 where there is nothing to split."""
        states = counts[:, self.classes] @ self.stride
        return np.where(workers > 0, self._best[workers, states], 0.0)

    def parts(self, counts: Integers, workers: int) -> Integers:
        """(workers, C) counts of each worker in the best split of (C,) counts."""
        state = int(counts[self.classes] @ self.stride)
        table = np.zeros((workers, len(counts)), dtype=np.int64)
        for row, left in enumerate(range(workers, 0, -1)):
            part = int(self._choice[left, state])
            table[row, self.classes] = (part // self.stride) % (self.size + 1)
            state -= part
        return table


def warm_up() -> None:
    """Compile the kernel, or load it from the cache."""
    size = np.array([1, 1])
    needed = np.zeros((3, 4), dtype=np.bool_)
    needed[2, 3] = True
    split_all(size, np.array([1, 2]), np.zeros(4), 2, needed)
