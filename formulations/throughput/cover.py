"""Whether patterns up to some utilisation can use up all tasks and nodes: relaxed, and in whole.

The relaxation misses as few tasks and nodes as it can; patterns are priced from the list. For any
prices π of tasks and nodes between -1 and 1, and ρ ≥ 0 of budgets,

    π·n − ρ·b + Σ_k nodes_k · min_p (ρ·a_p − π·x_p)

is a lower bound on what any choice misses, so that a positive one proves that there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from formulations.patterns.integer import choose
from formulations.patterns.pool import Pool, Rows
from optim.solvers.inprocess import solve_lp

if TYPE_CHECKING:
    from formulations.patterns.clock import Clock
    from formulations.patterns.integer import Backend, Chosen
    from formulations.patterns.problem import Counts
    from formulations.throughput.groups import Grouped, Listed
    from optim.format.tables import Floats

_MISSED = 1e-6
"""Tasks or nodes that any choice misses at least: more is a proof."""
_NEARLY = 1e-7
_ROUNDS = 400
_EACH = 30
"""Patterns of a node class that one pricing brings in."""


@dataclass(eq=False)
class Budgets(Rows):
    """Rows over moves and their cost, and over traffic between nodes where that is bounded."""

    coefficients: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def of(self, pool: Pool) -> Floats:
        """(M, P) coefficients; patterns of a pool know their place in the list."""
        assert pool.at is not None
        return self.coefficients[:, pool.at]


def budgets_of(grouped: Grouped, listed: Listed) -> Budgets:
    """Write the budgets of moves as rows."""
    paying = grouped.paying(listed.counts, listed.node_class)
    rows = np.stack([paying.sum(axis=1), paying @ grouped.cost]).astype(np.float64)
    bound = np.isfinite(grouped.budget)
    most = grouped.budget[bound]
    return Budgets(np.full(len(most), -np.inf), most, coefficients=rows[bound])


class Cover:
    """Covers of all tasks and nodes by the first patterns of a list.

    Parameters
    ----------
    grouped, listed
        The problem, and its patterns by utilisation.
    clock, backend
        When to stop; who solves integer programs.
    """

    def __init__(self, grouped: Grouped, listed: Listed, clock: Clock, backend: Backend) -> None:
        self.grouped, self.listed, self.clock, self.backend = grouped, listed, clock, backend
        self.rows = budgets_of(grouped, listed)
        self.used: Counts = np.zeros(0, dtype=np.int64)
        self._counts = listed.counts.astype(np.float64)

    def pool(self, at: Counts, gain: Floats | None = None) -> Pool:
        """Return patterns of the list; without gains, all are worth nothing."""
        worth = np.zeros(len(at)) if gain is None else gain
        return Pool(self.listed.counts[at], self.listed.node_class[at], worth, at)

    def whole(
        self, at: Counts, gain: Floats | None = None, time_limit: float | None = None
    ) -> Chosen:
        """Choose whole patterns among some; of greatest gain where there is one."""
        rows = self.rows if len(self.rows) else None
        return choose(
            self.grouped.problem, self.pool(at, gain), self.clock, self.backend,
            rows=rows, time_limit=time_limit,
        )  # fmt: skip

    def relaxed(self, count: int) -> bool | None:
        """Whether fractions of the first patterns cover all; ``None`` where that is not known.

        ``False`` is a proof.
        """
        classes, problem = self.grouped.classes, self.grouped.problem
        groups, kinds = problem.num_classes, classes.num_classes
        kind = self.listed.node_class[:count]
        lists = [np.flatnonzero(kind == k) for k in range(kinds)]
        if any(len(some) == 0 for some in lists):
            return False
        chosen = self.used[self.used < count]
        chosen = np.union1d(chosen, [some[0] for some in lists]).astype(np.int64)
        needed = np.concatenate([problem.sizes, problem.nodes]).astype(np.float64)
        budgets = self.rows.upper
        for _ in range(_ROUNDS):
            if self.clock.over():
                return None
            answer = self._missing(chosen, needed, budgets)
            if answer is None:
                return None
            missed, dual = answer
            if missed <= _NEARLY:
                self.used = chosen
                return True
            price = np.clip(dual[: groups + kinds], -1.0, 1.0)
            charge = np.maximum(-dual[groups + kinds :], 0.0)
            worth = self._counts[:count] @ price[:groups] + price[groups + kind]
            worth -= charge @ self.rows.coefficients[:, :count]
            best = np.array([worth[some].max() for some in lists])
            # prices of nodes are part of the worth, and come with each node once
            bound = price @ needed - charge @ budgets - float(problem.nodes @ best)
            if bound > _MISSED:
                self.used = chosen
                return False
            fresh = [some[np.argsort(-worth[some], kind="stable")[:_EACH]] if len(some) <= 4 * _EACH
                     else _largest(some, worth) for some in lists]  # fmt: skip
            more = np.concatenate([some[worth[some] > _NEARLY / 10] for some in fresh])
            grown = np.union1d(chosen, more)
            if len(grown) == len(chosen):
                return None  # the tolerances of the program are in the way of a proof
            chosen = grown
        return None

    def _missing(
        self, chosen: Counts, needed: Floats, budgets: Floats
    ) -> tuple[float, Floats] | None:
        """Miss as little as the chosen patterns let; return how much, and the rows' prices."""
        from scipy.sparse import csc_array, hstack

        kinds = self.grouped.classes.num_classes
        owned = self.listed.node_class[chosen][None, :] == np.arange(kinds)[:, None]
        columns = np.concatenate([
            self._counts[chosen].T, owned, self.rows.coefficients[:, chosen],
        ])  # fmt: skip
        count = len(needed)
        slack = np.zeros((len(columns), 2 * count))
        slack[:count, :count], slack[:count, count:] = np.eye(count), -np.eye(count)
        matrix = hstack([csc_array(columns), csc_array(slack)], "csr")
        cost = np.concatenate([np.zeros(len(chosen)), np.ones(2 * count)])
        lower = np.concatenate([needed, np.full(len(budgets), -np.inf)])
        upper = np.concatenate([needed, budgets])
        answer = solve_lp(
            cost, matrix, lower, upper, np.zeros(len(cost)), np.full(len(cost), np.inf),
            self.clock.left(),
        )  # fmt: skip
        if answer.objective is None or answer.row_duals is None:
            return None
        return float(answer.objective), answer.row_duals


def _largest(some: Counts, worth: Floats) -> Counts:
    value = worth[some]
    return some[np.argpartition(-value, _EACH)[:_EACH]]
