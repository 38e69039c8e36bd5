"""Column generation: the linear relaxation over node patterns and its Lagrangian bound.

    max Σ_k Σ_p gain_p λ_kp   s.t.   Σ_k Σ_p y_pg λ_kp = |g|  (price π_g),
                                     Σ_p λ_kp = nodes_k       (price σ_k),   λ ≥ 0.

For *any* prices π the value ``Σ_g π_g |g| + Σ_k nodes_k max_p (gain_p − π·y_p)`` bounds every
allocation from above, so a bound is in hand after every round, whatever the quality of the prices,
as long as each maximum is proven.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.node_patterns.problem import ROUNDING
from optim.solvers.inprocess import solve_lp

if TYPE_CHECKING:
    from formulations.node_patterns.clock import Clock
    from formulations.node_patterns.pricing import Pricer
    from formulations.node_patterns.problem import Counts, Floats, PatternProblem

ROUNDS = 2000

SHORTAGE = 1e-5
"""A proven shortage above this (in tasks) is a proof of infeasibility."""


@dataclass(frozen=True, eq=False)
class Root:
    """What column generation leaves behind.

    Attributes
    ----------
    bound
        Proven upper bound on the scaled gain; ``-inf`` when proven infeasible.
    price, highest
        (G,) prices of the bound, and (K,) the most a pattern of each class is worth at them.
    counts, node_class
        All patterns generated.
    unplaced
        Least number of tasks that no choice of patterns can place (relaxed); 0 when feasible.
    """

    bound: float
    price: Floats
    highest: Floats
    counts: Counts
    node_class: Counts
    unplaced: float = 0.0


class Columns:
    """The patterns of the restricted master, each once."""

    def __init__(self, problem: PatternProblem) -> None:
        self.problem = problem
        self.counts = np.zeros((0, problem.num_classes), dtype=np.int64)
        self.node_class = np.zeros(0, dtype=np.int64)
        self.gain = np.zeros(0)
        self._known: set[bytes] = set()

    def add(self, node_class: int, counts: Counts) -> int:
        """Add patterns of one node class; return how many were new."""
        fresh = []
        for row in np.asarray(counts, dtype=np.int64):
            key = node_class.to_bytes(4, "little") + row.tobytes()
            if key not in self._known:
                self._known.add(key)
                fresh.append(row)
        if fresh:
            rows = np.array(fresh)
            self.counts = np.concatenate([self.counts, rows])
            self.node_class = np.append(self.node_class, np.full(len(rows), node_class))
            self.gain = np.append(self.gain, self.problem.gain(rows))
        return len(fresh)

    def master(self, gain: Floats, penalty: float) -> tuple[Floats, Floats, float, float]:
        """Solve the restricted master; shortages of tasks and of patterns cost ``penalty`` each.

        Returns
        -------
        tuple
            (G,) prices, (K,) prices of nodes, objective, total shortage.
        """
        problem = self.problem
        num_rows = problem.num_classes + problem.num_node_classes
        owned = self.node_class[None, :] == np.arange(problem.num_node_classes)[:, None]
        rows = np.concatenate([self.counts.T, owned])
        matrix = np.hstack([rows, np.eye(num_rows)])
        cost = np.concatenate([-gain, np.full(num_rows, penalty)])
        sides = np.concatenate([problem.sizes, problem.nodes]).astype(np.float64)
        zeros, none = np.zeros(len(cost)), np.full(len(cost), np.inf)
        answer = solve_lp(cost, matrix, sides, sides, zeros, none)
        if answer.x is None or answer.row_duals is None or answer.objective is None:
            raise ArithmeticError(f"the restricted master ended with {answer.termination}")
        shortage = float(answer.x[len(gain) :].sum())
        split = problem.num_classes
        return (
            -answer.row_duals[:split],
            -answer.row_duals[split:],
            -answer.objective,
            shortage,
        )


def generate(
    problem: PatternProblem, pricer: Pricer, clock: Clock, start: Counts | None, floor: float
) -> Root:
    """Run column generation to its end, or until the clock stops it.

    Parameters
    ----------
    start
        (N, G) a feasible allocation, nodes listed class by class; ``None`` when none is known.
    floor
        Its scaled gain, or ``-inf``; generation stops when the bound reaches it.
    """
    columns = Columns(problem)
    nothing = np.zeros((1, problem.num_classes), dtype=np.int64)
    for k in range(problem.num_node_classes):
        if problem.fits(k, nothing)[0]:
            columns.add(k, nothing)
    if start is not None:
        owner = problem.class_of_node()
        for k in range(problem.num_node_classes):
            columns.add(k, start[owner == k])
    else:
        first = _rounds(problem, pricer, clock, columns, -SHORTAGE, gainless=True)
        if first.bound < -SHORTAGE:
            return replace(first, bound=-np.inf, unplaced=-first.bound)
    return _rounds(problem, pricer, clock, columns, floor + ROUNDING, gainless=False)


def _rounds(
    problem: PatternProblem,
    pricer: Pricer,
    clock: Clock,
    columns: Columns,
    floor: float,
    *,
    gainless: bool,
) -> Root:
    penalty = 1.0 if gainless else 10.0 * _dearest_task(problem)
    best = Root(np.inf, np.zeros(problem.num_classes), np.full(problem.num_node_classes, np.inf),
                columns.counts, columns.node_class)  # fmt: skip
    tiny = 0.5 * ROUNDING / max(1, problem.num_nodes)
    for _ in range(ROUNDS):
        gain = np.zeros_like(columns.gain) if gainless else columns.gain
        price, node_price, value, shortage = columns.master(gain, penalty)
        if gainless:  # prices of a shortage of nodes and tasks alike stay within the penalty
            price, node_price = np.maximum(price, -1.0), np.maximum(node_price, -1.0)
        highest, added, proven = np.empty(problem.num_node_classes), 0, True
        for k in range(problem.num_node_classes):
            answer = pricer.price(k, price, node_price[k] + tiny, gainless=gainless)
            highest[k] = answer.highest
            proven &= answer.proven
            added += columns.add(k, answer.counts)
        bound = float(price @ problem.sizes + problem.nodes @ highest)
        if bound < best.bound:
            best = Root(bound, price, highest, columns.counts, columns.node_class)
        clock.note(bound=None if gainless else best.bound)
        if added == 0 and shortage > 1e-7 and not gainless:
            penalty *= 10.0
            if penalty < 1e9:
                continue
        if added == 0 or best.bound <= floor or clock.over():
            break
        if gainless and value > -1e-9:
            break
    return Root(best.bound, best.price, best.highest, columns.counts, columns.node_class)


def _dearest_task(problem: PatternProblem) -> float:
    """Return the most traffic that one task has, and at least 1."""
    weighed = problem.rate @ problem.sizes - np.diag(problem.rate)
    return max(1.0, float(weighed.max(initial=0.0)))
