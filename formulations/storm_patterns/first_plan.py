"""A first placement from the priced patterns, and its improvement two nodes at a time.

A beam of partial placements takes one node after the other, each time the patterns that lose least
under the master's prices and leave what the other nodes can hold. Then the executors of every two
nodes are dealt anew in the best of all ways, until no two nodes gain by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.storm_patterns.master import Columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm_patterns.master import Master

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

_BEAM = 12
_LOOKED_AT = 30_000
_MOST_DEALS = 300_000
_GAINS = 1e-9


class FirstPlan:
    """Looks for a placement of a master whose prices are known.

    Attributes
    ----------
    of_node
        Class of each node, all nodes of a class in turn.
    """

    def __init__(self, master: Master) -> None:
        self.master = master
        problem = master.problem
        self.of_node = np.repeat(np.arange(len(problem.nodes)), problem.num_nodes)
        self._fits = []
        for fitting in master.states.fitting:
            flags = np.zeros(len(master.states.gain), dtype=np.bool_)
            flags[fitting] = True
            self._fits.append(flags)

    def find(self) -> Columns | None:
        """Return an improved placement, or ``None`` where the beam ends before the nodes do."""
        state = self._beam()
        if state is None:
            return None
        return self.columns(self.improved(state))

    def columns(self, state: Integers) -> Columns:
        """Return the columns of (N',) states of the nodes."""
        fitting = self.master.states.fitting
        position = [
            np.searchsorted(fitting[k], s) for k, s in zip(self.of_node, state, strict=True)
        ]
        return Columns(self.of_node.copy(), np.array(position, dtype=np.int64))

    def _beam(self) -> Integers | None:
        """Return (N',) states of the nodes that place everything and keep the rows of workers."""
        states, problem = self.master.states, self.master.problem
        near = []
        for k, loss in enumerate(self.master.losses()):
            order = np.argsort(loss, kind="stable")[:_LOOKED_AT]
            number = states.fitting[k][order]
            near.append((loss, number, states.counts(number)))
        whole = int(states.number(problem.size))
        beam: list[tuple[float, int, tuple[int, ...]]] = [(0.0, whole, ())]
        last = len(self.of_node) - 1
        for row, k in enumerate(self.of_node.tolist()):
            found = []
            loss, number, counts = near[k]
            for lost, left, taken in beam:
                chosen = [left, 0]
                if row < last:
                    fits = np.flatnonzero((counts <= states.counts(np.array(left))).all(axis=1))
                    chosen += number[fits[:_BEAM]].tolist()
                for state in sorted(set(chosen)):
                    if self._fits[k][state] and (row < last or state == left):
                        at = int(np.searchsorted(states.fitting[k], state))
                        found.append((lost + float(loss[at]), left - state, (*taken, state)))
            beam = sorted(found)[: _BEAM if row < last else None]
        for _, _, taken in beam:
            done = np.array(taken, dtype=np.int64)
            if self._workers_fit(done):
                return done
        return None

    def _workers_fit(self, state: Integers) -> bool:
        """Whether these states keep the rows of workers."""
        columns = self.columns(state)
        total = np.zeros(len(self.master.rows))
        for k, position in zip(columns.node_class, columns.position, strict=True):
            total += self.master.rows.table[k][:, position]
        lower, upper = np.array(self.master.rows.lower), np.array(self.master.rows.upper)
        return bool(((total >= lower - 1e-9) & (total <= upper + 1e-9)).all())

    def improved(self, state: Integers) -> Integers:
        """Deal the executors of two nodes anew as long as some pair gains by it."""
        state = state.copy()
        better = True
        while better:
            better = False
            for a in range(len(state)):
                for b in range(a + 1, len(state)):
                    better |= self._deal(state, a, b)
        return state

    def _deal(self, state: Integers, a: int, b: int) -> bool:
        """Deal the executors of two nodes in the best way; whether that gained anything."""
        gain = self.master.states.gain
        counts = self.master.states.counts(state[a]) + self.master.states.counts(state[b])
        if np.prod(counts + 1.0) > _MOST_DEALS:
            return False
        first = np.zeros(1, dtype=np.int64)
        for count, stride in zip(counts.tolist(), self.master.states.stride.tolist(), strict=True):
            if count:
                first = (first[None, :] + stride * np.arange(count + 1)[:, None]).ravel()
        second = int(state[a] + state[b]) - first
        fits = self._fits[self.of_node[a]][first] & self._fits[self.of_node[b]][second]
        value = np.where(fits, gain[first] + gain[second], -np.inf)
        old = gain[state[a]] + gain[state[b]]
        # the best that keeps the workers' rows; few need to be looked at
        for i in np.argsort(-value, kind="stable")[:20].tolist():
            if value[i] <= old + _GAINS:
                return False
            changed = state.copy()
            changed[a], changed[b] = first[i], second[i]
            if self._workers_fit(changed):
                state[:] = changed
                return True
        return False
