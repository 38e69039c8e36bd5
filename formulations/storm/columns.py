"""Every vector of counts a node may hold, listed once: its traffic inside, its load, who may."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.column_generation.problem import Pool, Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm.problem import StormProblem

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class States:
    """S vectors of counts; number s stands for counts (s // stride) % (size + 1).

    Attributes
    ----------
    size, stride
        (C,) executors of each class, and what one of them adds to the number of a state.
    gain
        (S,) scaled traffic among the executors.
    of_job
        (P, S) executors of each topology.
    fitting
        For each class of nodes the states that such a node can hold.
    """

    size: Integers
    stride: Integers
    gain: Floats
    of_job: NDArray[np.int16]
    fitting: tuple[Integers, ...]

    def counts(self, state: Integers) -> Integers:
        """Return (…, C) counts of states."""
        if (self.size == 1).all():  # bits: shifts are much cheaper than divisions
            return (np.asarray(state)[..., None] >> np.arange(len(self.size))) & 1
        return (np.asarray(state)[..., None] // self.stride) % (self.size + 1)

    def number(self, counts: Integers) -> Integers:
        """Return the numbers of (…, C) counts."""
        return np.asarray(counts) @ self.stride

    def pool(self, node_class: int, state: Integers) -> Pool:
        """Return states as patterns of a class of nodes."""
        kinds = np.full(len(state), node_class, dtype=np.int64)
        return Pool(self.counts(state), kinds, self.gain[state])


class StateListing:
    """The states as a list to price from, under rows of workers."""

    def __init__(self, states: States, rows: WorkerRows) -> None:
        self.states, self.rows = states, rows
        self.dearest = float(states.gain.max(initial=0.0))
        self.lengths = [len(fitting) for fitting in states.fitting]

    def values(self, price: Floats, side: Floats, *, gainless: bool) -> list[Floats]:
        """Return for each class of nodes the value of the states that fit it."""
        states = self.states
        value = -outer_sum(states.size, price)
        if not gainless:
            value += states.gain
        return [
            value[fitting] - self.rows.priced(k, side) for k, fitting in enumerate(states.fitting)
        ]

    def pool(self, node_class: int, at: Integers) -> Pool:
        """Return patterns by their place among the fitting states."""
        return self.states.pool(node_class, self.states.fitting[node_class][at])


def list_states(problem: StormProblem) -> States:
    """List all states of a problem and find which nodes can hold them."""
    inner = problem.inner
    of_job = np.stack(
        [
            outer_sum(inner.sizes, (problem.job == p).astype(np.float64))
            for p in range(problem.num_jobs)
        ]
    ).astype(np.int16)
    fitting = tuple(_fitting(problem, of_job, k) for k in range(inner.num_node_classes))
    gain = inner_gain(inner.sizes, inner.rate)
    return States(inner.sizes, strides(inner.sizes), gain, of_job, fitting)


def strides(size: Integers) -> Integers:
    """(C,) what one executor of each class adds to the number of a state."""
    return np.concatenate([[1], np.cumprod(size + 1)[:-1]]).astype(np.int64)


def inner_gain(size: Integers, rate: Floats) -> Floats:
    """(S,) traffic among the executors of every state."""
    gain = np.zeros(1)
    for c, most in enumerate(size.tolist()):
        count = np.arange(most + 1, dtype=np.float64)
        # what one more executor of this class has with those listed already
        partner = outer_sum(size[:c], rate[c, :c])
        own = rate[c, c] * count * (count - 1) / 2
        gain = (gain[None, :] + count[:, None] * partner[None, :] + own[:, None]).ravel()
    return gain


def outer_sum(size: Integers, weight: Floats) -> Floats:
    """Return Σ_c weight_c count_c for every state of these classes."""
    total = np.zeros(1)
    for count, w in zip(size.tolist(), weight.tolist(), strict=True):
        total = (total[None, :] + w * np.arange(count + 1.0)[:, None]).ravel()
    return total


def _fitting(problem: StormProblem, of_job: NDArray[np.int16], k: int) -> Integers:
    """Return the states that a node of class k can hold."""
    inner = problem.inner
    fits = np.ones(of_job.shape[1], dtype=np.bool_)
    for r in range(inner.load.shape[1]):
        limit, least = inner.limit[k, r], inner.least[k, r]
        if np.isfinite(limit) or np.isfinite(least):
            load = outer_sum(inner.sizes, inner.load[:, r])
            fits &= (load <= limit) & (load >= least)
    barred = (inner.most[k] == 0).astype(np.float64)
    if barred.any():
        fits &= outer_sum(inner.sizes, barred) == 0
    fits &= problem.least_workers(of_job).sum(axis=0) <= problem.slots[k]
    return np.flatnonzero(fits)


MAX_TOPOLOGIES = 5
"""With given numbers of workers: there are 2^P rows of these."""

_VIOLATION = 0.02


class WorkerRows(Rows):
    """Rows over the states that nodes can hold: workers, and cuts.

    Workers. Of a pattern with a set of topologies, topology i may have from ``low_i`` to ``high_i``
    workers, all together at most the node's slots. That every topology gets exactly W_i of them
    over all nodes holds if and only if, for every set A of topologies that have such a W_i,

        Σ_p Σ_{i in A} low_i(p) λ_p  ≤  Σ_{i in A} W_i  ≤  Σ_p most_A(p) λ_p,
        most_A = min(Σ_{i in A} high_i, slots − Σ_{i not in A} low_i),

    since such sets of workers are generalised polymatroids, whose sums are described by the sums of
    their bounds. So no pattern needs a copy for every number of workers. A topology with any number
    from 1 to E has no rows: none of its own, since ``low ≤ E`` and all executors have a place; and
    in A it would add Σ low_i(p) λ_p ≥ 1 to the right side at least, and 1 to the left.

    Cuts. Of three classes of executors, ⌊(sum of their counts)/2⌋ summed over the patterns is at
    most ⌊(sum of their sizes)/2⌋ (Chvátal-Gomory with multipliers 1/2; for single executors: no two
    patterns hold two of the same three).

    Attributes
    ----------
    empty
        How many nodes must hold nothing; ``None`` for any number.
    """

    def __init__(self, problem: StormProblem, states: States) -> None:
        """Write the rows of workers."""
        jobs = problem.exact_jobs.tolist()
        self._sets = [list(a) for n in range(1, len(jobs) + 1) for a in combinations(jobs, n)]
        needed = [float(problem.workers[a].sum()) for a in self._sets]
        super().__init__(
            lower=np.concatenate([np.full(len(jobs), -np.inf), needed]),
            upper=np.concatenate([problem.workers[jobs], np.full(len(needed), np.inf)]),
        )
        self.problem, self.states = problem, states
        self._triples: list[tuple[int, ...]] = []
        self._table = [
            self._of_workers(states.of_job[:, fitting], problem.slots[k]).astype(np.int16)
            for k, fitting in enumerate(states.fitting)
        ]
        self.empty: int | None = None

    def of(self, pool: Pool) -> Floats:
        """(M, P) coefficients of patterns."""
        counts, jobs = pool.counts, range(self.problem.num_jobs)
        of_job = np.stack([counts[:, self.problem.job == p].sum(axis=1) for p in jobs])
        parts = [self._of_workers(of_job, self.problem.slots[pool.node_class])]
        if self.empty is not None:
            parts += [np.tile((counts.sum(axis=1) == 0).astype(np.int64), (2, 1))]
        parts += [counts[:, list(triple)].sum(axis=1)[None, :] // 2 for triple in self._triples]
        return np.concatenate(parts).astype(np.float64)

    def _of_workers(self, of_job: NDArray[Any], slots: Integers) -> NDArray[Any]:
        """(rows, P) coefficients from (jobs, P) executors and the slots of the nodes."""
        low, high = self.problem.least_workers(of_job), np.minimum(of_job, slots)
        most = [
            np.minimum(high[a].sum(axis=0), slots - np.delete(low, a, axis=0).sum(axis=0))
            for a in self._sets
        ]
        return np.vstack([low[self.problem.exact_jobs], *most])

    def hold(self, pool: Pool) -> bool:
        """Whether patterns keep the rows and find slots on their nodes."""
        jobs = range(self.problem.num_jobs)
        of_job = np.stack([pool.counts[:, self.problem.job == p].sum(axis=1) for p in jobs])
        least = self.problem.least_workers(of_job).sum(axis=0)
        return bool((least <= self.problem.slots[pool.node_class]).all()) and super().hold(pool)

    def priced(self, k: int, price: Floats) -> Floats:
        """Return the price of the states that fit nodes of class k, at the rows' prices."""
        total = np.zeros(self._table[k].shape[1])
        for row in np.flatnonzero(price):
            total += price[row] * self._table[k][row]
        return total

    def fix_empty(self, count: int) -> None:
        """Demand that exactly so many nodes hold nothing; before any cuts."""
        self.empty = count
        for lower, upper in ((-np.inf, float(count)), (float(count), np.inf)):
            self._append(lower, upper, [fitting == 0 for fitting in self.states.fitting])

    def _append(self, lower: float, upper: float, rows: list[NDArray[np.bool_]]) -> None:
        self.lower, self.upper = np.append(self.lower, lower), np.append(self.upper, upper)
        for k, row in enumerate(rows):
            self._table[k] = np.vstack([self._table[k], row.astype(np.int16)])

    def add_cuts(self, counts: Integers, value: Floats, most: int) -> int:
        """Add the cuts that a fractional solution violates most.

        Parameters
        ----------
        counts, value
            (…, C) counts and values of the patterns it uses.
        most
            Cuts to add.

        Returns
        -------
        int
            How many were added.
        """
        size = self.problem.inner.sizes
        found = []
        for triple in combinations(range(len(size)), 3):
            if triple in self._triples:
                continue
            chosen = list(triple)
            bound = int(size[chosen].sum()) // 2
            over = float(value @ (counts[:, chosen].sum(axis=1) // 2)) - bound
            if over > _VIOLATION:
                found.append((-over, triple, bound))
        found.sort()
        for _, triple, bound in found[:most]:
            self._triples.append(triple)
            states = self.states
            rows = [states.counts(f)[:, list(triple)].sum(axis=1) // 2 for f in states.fitting]
            self._append(-np.inf, float(bound), rows)
        return min(most, len(found))
