"""The rows of the master besides those that place executors: workers, and cuts.

Workers. Of a pattern with a set of topologies, topology i may have from ``low_i`` to ``high_i``
workers, all together at most the node's slots. That every topology gets exactly W_i of them over
all nodes holds if and only if, for every set A of topologies,

    Σ_p Σ_{i in A} low_i(p) λ_p  ≤  Σ_{i in A} W_i  ≤  Σ_p most_A(p) λ_p,
    most_A = min(Σ_{i in A} high_i, slots − Σ_{i not in A} low_i),

since such sets of workers are generalised polymatroids, whose sums are described by the sums of
their bounds. So no pattern needs a copy for every number of workers.

Cuts. Of three classes of executors, ⌊(sum of their counts)/2⌋ summed over the patterns is at most
⌊(sum of their sizes)/2⌋ (Chvátal-Gomory with multipliers 1/2; for single executors: no two patterns
hold two of the same three).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from formulations.storm_patterns.states import least_workers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm_patterns.problem import StormProblem
    from formulations.storm_patterns.states import States

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

MAX_TOPOLOGIES = 5
"""There are 2^P rows of workers."""

_VIOLATION = 0.02


@dataclass(eq=False)
class Rows:
    """Rows over the states that nodes can hold.

    Attributes
    ----------
    table
        For each class of nodes (rows, states that fit it).
    lower, upper
        Bounds of the rows; one of them is infinite.
    triples
        Classes of the cuts that are in.
    empty
        How many nodes must hold nothing; ``None`` for any number.
    """

    problem: StormProblem
    states: States
    table: list[NDArray[np.int16]] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    triples: set[tuple[int, ...]] = field(default_factory=set)
    empty: int | None = None

    def __post_init__(self) -> None:
        """Write the rows of workers."""
        problem, of_job = self.problem, self.states.of_job
        jobs = range(len(problem.workers))
        sets = [a for n in range(1, len(jobs) + 1) for a in combinations(jobs, n)]
        least = least_workers(problem, of_job)
        for k, fitting in enumerate(self.states.fitting):
            low = least[:, fitting]
            high = np.minimum(of_job[:, fitting], problem.slots[k])
            most = [
                np.minimum(
                    high[list(a)].sum(axis=0),
                    problem.slots[k] - np.delete(low, list(a), axis=0).sum(axis=0),
                )
                for a in sets
            ]
            self.table.append(np.vstack([low, *most]).astype(np.int16))
        self.upper += [*problem.workers.tolist(), *[np.inf] * len(sets)]
        self.lower += [
            *[-np.inf] * len(jobs),
            *(float(problem.workers[list(a)].sum()) for a in sets),
        ]

    def __len__(self) -> int:
        return len(self.lower)

    def priced(self, k: int, price: Floats) -> Floats:
        """Return the price of the states that fit nodes of class k, at the rows' prices."""
        used = np.flatnonzero(price)
        total = np.zeros(self.table[k].shape[1])
        for row in used:
            total += price[row] * self.table[k][row]
        return total

    def right_side(self) -> Floats:
        """(rows,) the bound that binds."""
        upper = np.array(self.upper)
        return np.where(np.isfinite(upper), upper, np.array(self.lower))

    def clipped(self, price: Floats) -> Floats:
        """Return prices of the sign that a bound allows: an upper one ≥ 0, a lower one ≤ 0."""
        above = np.isfinite(np.array(self.upper))
        return np.where(above, np.maximum(price, 0.0), np.minimum(price, 0.0))

    def fix_empty(self, count: int) -> None:
        """Demand that exactly so many nodes hold nothing."""
        self.empty = count
        for lower, upper in ((-np.inf, float(count)), (float(count), np.inf)):
            for k, fitting in enumerate(self.states.fitting):
                row = (fitting == 0).astype(np.int16)
                self.table[k] = np.vstack([self.table[k], row])
            self.lower.append(lower)
            self.upper.append(upper)

    def add_cuts(self, counts: Integers, value: Floats, most: int) -> int:
        """Add the cuts that a fractional solution violates most.

        Parameters
        ----------
        counts, value
            (…, C) counts and values of the columns it uses.
        most
            Cuts to add.

        Returns
        -------
        int
            How many were added.
        """
        size = self.problem.size
        found = []
        for triple in combinations(range(len(size)), 3):
            if triple in self.triples:
                continue
            chosen = list(triple)
            bound = int(size[chosen].sum()) // 2
            over = float(value @ (counts[:, chosen].sum(axis=1) // 2)) - bound
            if over > _VIOLATION:
                found.append((-over, triple, bound))
        found.sort()
        for _, triple, bound in found[:most]:
            self.triples.add(triple)
            weight = np.zeros(len(size), dtype=np.int64)
            weight[list(triple)] = 1
            for k, fitting in enumerate(self.states.fitting):
                row = self.states.counts(fitting)[:, list(triple)].sum(axis=1) // 2
                self.table[k] = np.vstack([self.table[k], row.astype(np.int16)])
            self.lower.append(-np.inf)
            self.upper.append(float(bound))
        return min(most, len(found))
