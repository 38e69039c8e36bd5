"""The linear master over node patterns and the exact pricing of its columns.

    max  Σ gain(p) λ_p
    s.t. Σ count_c(p) λ_p  = size_c        every class of executors is placed
         Σ_{p on class k} λ_p = nodes_k    every node has a pattern, maybe the empty one
         rows of workers, and cuts         `formulations.storm_patterns.rows`

With prices π, y of the rows no placement collocates more than
``Σ π size + Σ y right side + Σ_k nodes_k max_p (gain − π·count − y·row)``: the bound that is told.
All patterns are listed, so that the maximum is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.storm_patterns.rows import Rows
from optim.solvers.inprocess import solve_lp

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.storm_patterns.problem import StormProblem
    from formulations.storm_patterns.states import States

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

TOLERANCE = 1e-7
_PER_ROUND = 40
_CUTS_PER_ROUND = 15
_WEIGHTS = {False: (0.0,), True: (0.7, 0.0)}
"""Weights of the prices with the best bound against the master's own, tried in turn."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Patterns: class of nodes, and position among the states that fit such a node."""

    node_class: Integers
    position: Integers

    def __len__(self) -> int:
        return len(self.position)

    def as_lists(self) -> tuple[list[int], list[int]]:
        """Return classes of nodes and positions."""
        return self.node_class.tolist(), self.position.tolist()


@dataclass(frozen=True, eq=False)
class Prices:
    """Of executors (C,) and rows; best reduced value of each class of nodes (K,); the bound."""

    executor: Floats
    row: Floats
    best: Floats
    bound: float


class Master:
    """Column generation for one problem.

    Attributes
    ----------
    rows
        Of workers, and cuts.
    prices
        Those with the least bound so far.
    unplaced
        How far the rows are missed at best; above 0 no placement exists, once `finished`.
    finished
        Whether the linear master is solved.
    """

    def __init__(self, problem: StormProblem, states: States) -> None:
        self.problem = problem
        self.states = states
        self.rows = Rows(problem, states)
        self.columns = Columns(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        self.unplaced = float("inf")
        self.finished = False
        self._value = np.zeros(0)
        self._reached = -np.inf
        self.prices = self._price_at_zero()

    def run(self, out_of_time: Callable[[], bool]) -> None:
        """Find a fractional placement at all, then the best one, or stop when time is up."""
        if self.unplaced > TOLERANCE:
            if not self._generate(False, out_of_time):
                return
            if self.unplaced > TOLERANCE:
                self.finished = True
                return
        self.finished = self._generate(True, out_of_time)

    def _price_at_zero(self) -> Prices:
        """Return prices of 0, and the bound they give."""
        problem, states = self.problem, self.states
        best = np.array(
            [states.gain[fitting].max(initial=-np.inf) for fitting in states.fitting],
            dtype=np.float64,
        )
        zero = np.zeros(problem.num_classes), np.zeros(len(self.rows))
        return Prices(*zero, best, float(problem.num_nodes @ best))

    @property
    def bound(self) -> float:
        """Proven upper bound of the traffic inside nodes."""
        everything = float(self.states.gain[self.states.number(self.problem.size)])
        return min(everything, self.prices.bound)

    def start_from(self, columns: Columns) -> None:
        """Put the columns of a placement into the master: it needs no first phase then."""
        self.columns = columns
        self.unplaced = 0.0

    def cut(self, rounds: int, out_of_time: Callable[[], bool]) -> int:
        """Tighten the solved master by cuts; return how many were added."""
        added = 0
        for _ in range(rounds):
            used = np.flatnonzero(self._value > TOLERANCE)
            counts = self.counts(
                Columns(self.columns.node_class[used], self.columns.position[used])
            )
            new = self.rows.add_cuts(counts, self._value[used], _CUTS_PER_ROUND)
            if not new or out_of_time():
                break
            added += new
            if not self._generate(True, out_of_time):
                break
        return added

    def state_of(self, columns: Columns) -> Integers:
        """Return the number of each column's state."""
        state = np.zeros(len(columns), dtype=np.int64)
        for k, fitting in enumerate(self.states.fitting):
            here = columns.node_class == k
            state[here] = fitting[columns.position[here]]
        return state

    def counts(self, columns: Columns) -> Integers:
        """(…, C) executors of each class in the columns."""
        return self.states.counts(self.state_of(columns))

    def matrix(self, columns: Columns) -> Floats:
        """(C + K + rows, …) coefficients of columns."""
        on = columns.node_class[None, :] == np.arange(len(self.problem.nodes))[:, None]
        rest = np.zeros((len(self.rows), len(columns)))
        for k in range(len(self.problem.nodes)):
            here = np.flatnonzero(columns.node_class == k)
            rest[:, here] = self.rows.table[k][:, columns.position[here]]
        return np.vstack([self.counts(columns).T, on, rest]).astype(np.float64)

    def bounds(self) -> tuple[Floats, Floats]:
        """(C + K + rows,) lower and upper bounds of the rows of `matrix`."""
        equal = np.concatenate([self.problem.size, self.problem.num_nodes]).astype(np.float64)
        return (
            np.concatenate([equal, np.array(self.rows.lower)]),
            np.concatenate([equal, np.array(self.rows.upper)]),
        )

    def within(self, gap: float, most: int) -> Columns | None:
        """Return all columns that lie within `gap` of their class's best under the best prices.

        A placement that loses at most `gap` against the bound uses no others.

        Returns
        -------
        Columns or None
            ``None`` when there are more than `most`.
        """
        found: list[tuple[Integers, Integers]] = []
        for k, lost in enumerate(self.losses()):
            near = np.flatnonzero(lost <= gap)
            found.append((np.full(len(near), k), near))
        if sum(len(near) for _, near in found) > most:
            return None
        return Columns(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def losses(self) -> list[Floats]:
        """Return, for each class of nodes, what each state loses against the best one."""
        reduced = self._reduced(self.prices.executor, self.prices.row, True)
        return [best - values for best, values in zip(self.prices.best, reduced, strict=True)]

    def _reduced(self, executor: Floats, row: Floats, with_gain: bool) -> list[Floats]:
        value = -self.states.priced(executor)
        if with_gain:
            value += self.states.gain
        return [
            value[fitting] - self.rows.priced(k, row)
            for k, fitting in enumerate(self.states.fitting)
        ]

    def _generate(self, with_gain: bool, out_of_time: Callable[[], bool]) -> bool:
        """Generate columns until none betters the master; whether that was reached."""
        while True:
            price = self._solve(with_gain)
            if price is None:
                return False
            if not with_gain and self.unplaced <= TOLERANCE:
                return True
            if not any(self._add(price, with_gain, weight) for weight in _WEIGHTS[with_gain]):
                return True
            if with_gain and self.bound - self._reached <= TOLERANCE:
                return True
            if out_of_time():
                return False

    def _add(self, price: Floats, with_gain: bool, weight: float) -> bool:
        """Take in the best columns at prices between the best ones so far and the master's own.

        The master's own prices swing from one extreme to the other, and columns that are best in
        between do more for it. Whether there were any that better the master.
        """
        executor, row = self._parts(price)
        row = self.rows.clipped(row)
        if weight:
            old = np.append(self.prices.row, np.zeros(len(row) - len(self.prices.row)))
            executor = weight * self.prices.executor + (1 - weight) * executor
            row = weight * old + (1 - weight) * row
        reduced = self._reduced(executor, row, with_gain)
        if with_gain:
            self._note(executor, row, np.array([r.max(initial=-np.inf) for r in reduced]))
        known = set(zip(*self.columns.as_lists(), strict=True))
        classes, positions = [], []
        for k, values in enumerate(reduced):
            count = min(_PER_ROUND, len(values))
            top = np.argpartition(-values, count - 1)[:count] if count else np.zeros(0, np.int64)
            for p in sorted(top.tolist(), key=lambda p: (-values[p], p)):
                if (k, p) not in known:
                    classes.append(k)
                    positions.append(p)
        new = Columns(np.array(classes, dtype=np.int64), np.array(positions, dtype=np.int64))
        gain = self.states.gain[self.state_of(new)] if with_gain else 0.0
        better = np.flatnonzero(gain - price @ self.matrix(new) > TOLERANCE)
        self.columns = Columns(
            np.append(self.columns.node_class, new.node_class[better]),
            np.append(self.columns.position, new.position[better]),
        )
        return len(better) > 0

    def _parts(self, price: Floats) -> tuple[Floats, Floats]:
        """Return the prices of executors and of the last rows."""
        classes = self.problem.num_classes
        return price[:classes], price[classes + len(self.problem.nodes) :]

    def _note(self, executor: Floats, row: Floats, best: Floats) -> None:
        problem = self.problem
        bound = float(executor @ problem.size + problem.num_nodes @ best)
        used = np.flatnonzero(row)
        bound += float(row[used] @ self.rows.right_side()[used])
        old = self.prices
        if bound < old.bound:
            self.prices = Prices(executor, row, best, bound)
        elif len(old.row) < len(row):
            more = np.append(old.row, np.zeros(len(row) - len(old.row)))
            self.prices = Prices(old.executor, more, old.best, old.bound)

    def _solve(self, with_gain: bool) -> Floats | None:
        """Solve the master over the columns in hand; return the prices of all rows."""
        matrix = self.matrix(self.columns)
        lower, upper = self.bounds()
        count, soft = len(self.columns), len(lower)
        # every row may be missed at a cost: only that counts in the first phase
        matrix = np.hstack([matrix, np.eye(soft), -np.eye(soft)])
        gain = self.states.gain[self.state_of(self.columns)] if with_gain else np.zeros(count)
        miss, free = np.full(2 * soft, 0.0 if with_gain else 1.0), 0.0 if with_gain else np.inf
        most = np.concatenate([np.full(count, np.inf), np.full(2 * soft, free)])
        cost = np.concatenate([-gain, miss])
        answer = solve_lp(cost, matrix, lower, upper, np.zeros(len(cost)), most)
        if answer.row_duals is None or answer.x is None:
            return None
        self._value = answer.x[:count]
        self._reached = float(gain @ self._value)
        if not with_gain:
            self.unplaced = float(answer.x[count:].sum())
        return -answer.row_duals
