"""Every vector of counts a node may hold, listed once: its traffic inside, its load, who may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm_patterns.problem import StormProblem

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class States:
    """S vectors of counts; number s stands for counts (s // stride) % (size + 1).

    Attributes
    ----------
    stride
        (C,) of each class of executors in the number of a state.
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

    def priced(self, price: Floats) -> Floats:
        """(S,) price of all executors in each state, at (C,) prices of one."""
        return _outer_sum(self.size, price)


def list_states(problem: StormProblem) -> States:
    """List all states of a problem and find which nodes can hold them."""
    stride, gain = strides(problem.size), inner_gain(problem.size, problem.rate)
    jobs = len(problem.workers)
    of_job = np.stack(
        [_outer_sum(problem.size, (problem.job == p).astype(np.float64)) for p in range(jobs)]
    ).astype(np.int16)
    fitting = tuple(_fitting(problem, of_job, k) for k in range(len(problem.nodes)))
    return States(problem.size, stride, gain, of_job, fitting)


def strides(size: Integers) -> Integers:
    """(C,) what one executor of each class adds to the number of a state."""
    return np.concatenate([[1], np.cumprod(size + 1)[:-1]]).astype(np.int64)


def inner_gain(size: Integers, rate: Floats) -> Floats:
    """(S,) traffic among the executors of every state."""
    gain = np.zeros(1)
    for c, most in enumerate(size.tolist()):
        count = np.arange(most + 1, dtype=np.float64)
        # what one more executor of this class has with those listed already
        partner = _outer_sum(size[:c], rate[c, :c])
        own = rate[c, c] * count * (count - 1) / 2
        gain = (gain[None, :] + count[:, None] * partner[None, :] + own[:, None]).ravel()
    return gain


def _outer_sum(size: Integers, weight: Floats) -> Floats:
    """Return Σ_c weight_c count_c for every state of these classes."""
    total = np.zeros(1)
    for count, w in zip(size.tolist(), weight.tolist(), strict=True):
        total = (total[None, :] + w * np.arange(count + 1.0)[:, None]).ravel()
    return total


def _fitting(problem: StormProblem, of_job: NDArray[np.int16], k: int) -> Integers:
    """Return the states that a node of class k can hold."""
    fits = np.ones(of_job.shape[1], dtype=np.bool_)
    for r in range(problem.load.shape[1]):
        if np.isfinite(problem.room[k, r]) or np.isfinite(problem.floor[k, r]):
            load = _outer_sum(problem.size, problem.load[:, r])
            fits &= (load <= problem.room[k, r]) & (load >= problem.floor[k, r])
    barred = (~problem.may[k]).astype(np.float64)
    if barred.any():
        fits &= _outer_sum(problem.size, barred) == 0
    fits &= least_workers(problem, of_job).sum(axis=0) <= problem.slots[k]
    return np.flatnonzero(fits)


def least_workers(problem: StormProblem, of_job: NDArray[np.int16]) -> NDArray[np.int16]:
    """Return how many workers hold so many executors of a topology at least."""
    if problem.per_slot is None:
        return (of_job > 0).astype(np.int16)
    return -(-of_job // np.int16(min(problem.per_slot, 32767)))
