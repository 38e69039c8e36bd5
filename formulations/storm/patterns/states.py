"""Every vector of counts a node may hold, listed once: its traffic inside, its load, who may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.patterns.pool import Pool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm.patterns.problem import StormProblem
    from formulations.storm.patterns.rows import WorkerRows

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
