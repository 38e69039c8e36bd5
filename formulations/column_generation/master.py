"""Column generation: the linear relaxation over node patterns and its Lagrangian bound.

    max Σ_k Σ_p gain_p λ_kp   s.t.   Σ_k Σ_p y_pg λ_kp = |g|  (price π_g),
                                     Σ_p λ_kp = nodes_k       (price σ_k),   λ ≥ 0,
                                     side rows                (price ρ)      `pool.Rows`

For *any* prices π, and ρ of the right sign, the value ``Σ_g π_g |g| + Σ ρ · side
+ Σ_k nodes_k max_p (gain_p − π·y_p − ρ·a_p)`` bounds every allocation from above, so a bound is in
hand after every round, whatever the quality of the prices, as long as each maximum is proven.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.column_generation.problem import ROUNDING, Rows, joined
from optim.solvers.inprocess import solve_lp

if TYPE_CHECKING:
    from formulations.column_generation.problem import Clock, Counts, Floats, Pool, Pricer


ROUNDS = 2000

SHORTAGE = 1e-5  # A proven shortage above this (in tasks) is a proof of infeasibility.

_PLACED = 1e-7
_DEAREST = 1e9


@dataclass(frozen=True, eq=False)
class Root:
    """The best prices that column generation found."""

    bound: float  # Proven upper bound on the scaled gain; ``-inf`` when proven infeasible.
    #: (G,) and (M,) prices of the bound, and (K,) the most a pattern of a class is worth at them.
    price: Floats
    side: Floats
    highest: Floats
    #: Least number of tasks that no choice of patterns can place (relaxed); 0 when feasible.
    unplaced: float = 0.0
    finished: bool = False  # Whether the relaxation was solved to its end.

    def loss(self, pool: Pool, rows: Rows) -> Floats:
        """(P,) by how much allocations that use a pattern stay below the bound, at least."""
        value = pool.value(self.price) - self.side @ rows.of(pool)
        return np.asarray(self.highest[pool.node_class] - value)


class _Solved(NamedTuple):
    """Prices of tasks, nodes and rows, and the objective."""

    price: Floats
    node_price: Floats
    side: Floats
    value: float


def _keys(pool: Pool) -> list[bytes]:
    """Distinguish patterns."""
    # each row viewed as one void value: its bytes are the key
    rows = np.ascontiguousarray(np.column_stack([pool.node_class, pool.counts]), dtype=np.int64)
    whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))
    return list(map(bytes, whole.ravel().tolist()))


class Master:
    """The restricted master of a problem: patterns that were generated so far, each once.

    `sizes`, `nodes`: (G,) tasks of each class; (K,) nodes of each class.
    `pricer`, `clock`, `rows`: what finds patterns; when to stop; the side rows, to which more may
        be added.
    `close`: distance of bound and relaxation at which it is solved.
    `pool`, `uses`, `shortage`: (P,) patterns, how often the relaxation uses each, and what it
        misses.
    """

    def __init__(
        self,
        sizes: Counts,
        nodes: Counts,
        pricer: Pricer,
        clock: Clock,
        rows: Rows | None = None,
        close: float = ROUNDING,
    ) -> None:
        self.sizes, self.nodes, self.pricer, self.clock = sizes, nodes, pricer, clock
        self.rows, self.close = Rows() if rows is None else rows, close
        self.pool = pricer.first()
        self.uses, self.shortage = np.zeros(0), np.inf
        self.root = self._nothing()
        self._keys_in_pool = set(_keys(self.pool))
        self._placed = False
        self._columns: Any = None

    def add(self, pool: Pool) -> int:
        """Add patterns; return how many were new."""
        from scipy.sparse import hstack

        fresh = []
        for i, key in enumerate(_keys(pool)):
            if key not in self._keys_in_pool:
                self._keys_in_pool.add(key)
                fresh.append(i)
        if fresh:
            new = pool.only(np.array(fresh))
            self.pool = joined([self.pool, new])
            if self._columns is not None:
                self._columns = hstack([self._columns, self._matrix(new)], "csc")
        return len(fresh)

    def run(self, start: Pool | None = None, floor: float = -np.inf) -> Root:
        """Generate patterns to the end, or until the clock stops it; again where rows were added.

        `start`: patterns of an allocation that keeps everything; ``None`` when none is known.
        `floor`: its scaled gain, or ``-inf``; generation stops when the bound reaches it.
        """
        if start is not None:
            self._placed = True
            self.add(start)
        more = np.zeros(len(self.rows) - len(self.root.side))
        self.root = replace(self.root, side=np.append(self.root.side, more), finished=False)
        self._columns = self._matrix(self.pool)
        self.root = self._rounds(self.root, floor + self.close, gainless=False)
        return self.root

    def covers(self) -> bool | None:
        """Whether fractions of patterns, within the rows, use up all tasks and nodes.

        Gains do not count. ``False`` is a proof; ``None``: neither is certain.
        """
        self._columns = self._matrix(self.pool)
        first = self._rounds(self._nothing(), -SHORTAGE, gainless=True)
        if first.bound < -SHORTAGE:
            return False
        return True if self.shortage <= _PLACED else None

    def _nothing(self) -> Root:
        groups, kinds = len(self.sizes), len(self.nodes)
        return Root(np.inf, np.zeros(groups), np.zeros(len(self.rows)), np.full(kinds, np.inf))

    def _rounds(self, best: Root, floor: float, *, gainless: bool) -> Root:
        # above what any task is worth: leaving one out must never pay
        penalty = 1.0 if gainless else 10.0 * max(1.0, self.pricer.largest_gain)
        for _ in range(ROUNDS):
            solved = self._solve(penalty, gainless)
            if solved is None:
                return best  # out of time, or the program failed: the bound so far holds
            best, added = self._priced(best, solved, gainless)
            self.clock.note(bound=None if gainless else best.bound)
            if added == 0 and self.shortage > _PLACED and not gainless:
                if not self._placed:
                    least = self._least_shortage()
                    if least is not None:
                        return least
                penalty *= 10.0
                if penalty < _DEAREST:
                    continue
            all_placed_and_closed = (
                self.shortage <= _PLACED and best.bound - solved.value <= self.close
            )
            if added == 0 or best.bound <= floor or (gainless and solved.value > -1e-9):
                return replace(best, finished=True)
            if all_placed_and_closed and not gainless:
                return replace(best, finished=True)
            if self.clock.over():
                return best
        return best

    def _least_shortage(self) -> Root | None:
        """Find patterns that place everything; where there are none, return the proof."""
        self._placed = True
        first = self._rounds(self._nothing(), -SHORTAGE, gainless=True)
        if first.bound >= -SHORTAGE:
            return None
        return replace(first, bound=-np.inf, unplaced=-first.bound)

    def _priced(self, best: Root, solved: _Solved, gainless: bool) -> tuple[Root, int]:
        """Price patterns at, or near, the master's prices: the best bound, and how many joined."""
        # the master's own prices swing from one extreme to the other; patterns that are best at
        # prices between these and the best ones so far do more for it
        tiny = 0.5 * self.close / max(1, int(self.nodes.sum()))
        between = not gainless and np.isfinite(best.bound)
        for weight in self.pricer.weights if between else (0.0,):
            price, side, threshold = solved.price, solved.side, solved.node_price + tiny
            if weight:
                price = weight * best.price + (1 - weight) * price
                side = weight * best.side + (1 - weight) * side
                threshold = np.full(len(self.nodes), -np.inf)
            priced = self.pricer.price(price, side, threshold, gainless=gainless)
            bound = float(price @ self.sizes + self.nodes @ priced.highest) + self.rows.charge(side)
            if bound < best.bound:
                best = Root(bound, price, side, priced.highest)
            pool = priced.pool
            reduced_gain = pool.value(solved.price) - (pool.gain if gainless else 0.0)
            reduced_gain -= solved.side @ self.rows.of(pool)
            added = self.add(pool.only(reduced_gain > solved.node_price[pool.node_class] + tiny))
            if added:
                self.add(pool)  # what is nearly as good now may be better after
                break
        return best, added

    def _matrix(self, pool: Pool) -> Any:
        """(G + K + M, P) coefficients of patterns."""
        from scipy.sparse import csc_array, vstack

        owned = pool.node_class[None, :] == np.arange(len(self.nodes))[:, None]
        side = csc_array(self.rows.of(pool))
        return vstack([csc_array(np.concatenate([pool.counts.T, owned]) * 1.0), side], "csc")

    def _solve(self, penalty: float, gainless: bool) -> _Solved | None:
        """Solve the restricted master; what the rows miss costs ``penalty`` each."""
        from scipy.sparse import csc_array, hstack

        pool, rows, groups, kinds = self.pool, self.rows, len(self.sizes), len(self.nodes)
        lower = np.concatenate([self.sizes, self.nodes, rows.lower]).astype(np.float64)
        upper = np.concatenate([self.sizes, self.nodes, rows.upper]).astype(np.float64)
        short, over = np.flatnonzero(lower > 0), np.flatnonzero(upper < 0)
        # what no pattern covers yet is bought at the penalty, so that there is always a solution
        missing, many = len(short) + len(over), len(rows.most)
        others = np.zeros((len(lower), missing + many))
        others[short, np.arange(len(short))] = 1.0
        others[over, np.arange(len(short), missing)] = -1.0
        if rows.beside is not None:
            others[groups + kinds :, missing:] = rows.beside
        matrix = hstack([self._columns, csc_array(others)], "csr")
        gain = np.zeros(len(pool)) if gainless else pool.gain
        cost = np.concatenate([-gain, np.full(missing, penalty), np.zeros(many)])
        most = np.concatenate([np.full(len(pool) + missing, np.inf), rows.most])
        answer = solve_lp(cost, matrix, lower, upper, np.zeros(len(cost)), most, self.clock.left())
        if answer.x is None or answer.row_duals is None or answer.objective is None:
            return None
        price = -answer.row_duals
        if gainless:  # what is missing costs 1: no price is higher
            price = np.where(lower > 0, np.maximum(price, -1.0), price)
            price = np.where(upper < 0, np.minimum(price, 1.0), price)
        self.uses = answer.x[: len(pool)]
        self.shortage = float(answer.x[len(pool) : len(pool) + missing].sum())
        return _Solved(
            price[:groups],
            price[groups : groups + kinds],
            rows.clipped(price[groups + kinds :]),
            -answer.objective,
        )
