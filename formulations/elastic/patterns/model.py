"""The sets that a node can hold as patterns to choose from, and what they cost.

min  Σ_p cost_p λ_p
s.t. Σ_p tasks_gp λ_p = n_g             every free task of a group in one set
     Σ_(p of class k) λ_p = n_k         every node holds one set, maybe the empty one
     rows of the level                  `rows.LevelRows`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.elastic.goals import counted_nodes
from formulations.patterns.pool import Pool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.elastic.goals import Goal
    from formulations.elastic.patterns.columns import Columns
    from formulations.elastic.patterns.rows import LevelRows
    from formulations.elastic.problem import EoaProblem
    from optim.format.tables import Floats


class ColumnListing:
    """The columns as a list to price from; costs are gains below 0.

    Attributes
    ----------
    dearest, lengths
        As for any list of patterns.
    """

    def __init__(self, columns: Columns, rows: LevelRows, cost: Floats) -> None:
        self.columns, self.rows, self.cost = columns, rows, cost
        self.dearest = float(np.abs(cost).max(initial=0.0))
        self.lengths = np.bincount(columns.of, minlength=len(columns.size)).tolist()
        self._first = np.concatenate([[0], np.cumsum(self.lengths)])

    def values(self, price: Floats, side: Floats, *, gainless: bool) -> list[Floats]:
        """Return for each class of nodes the value of its columns."""
        value = -np.einsum("pg,g->p", self.columns.whole, price)
        if len(side):
            value -= side @ self.rows.table
        if not gainless:
            value -= self.cost
        return np.split(value, self._first[1:-1])

    def pool(self, node_class: int, at: NDArray[np.int64]) -> Pool:
        """Return the columns at some places in the list of a class of nodes."""
        return self.at(self._first[node_class] + at)

    def at(self, index: NDArray[np.int64]) -> Pool:
        """Return columns by their numbers."""
        columns = self.columns
        counts = columns.counts[index]
        return Pool(counts, columns.of[index], -self.cost[index], index)


def costs(problem: EoaProblem, columns: Columns, goal: Goal) -> tuple[Floats, float]:
    """(P,) cost of each column, and what to add to their sum; deviations need a fixed mean."""
    first = columns.first[columns.of]
    if goal == "network":
        return -columns.inside, problem.instance.total_traffic
    if goal == "capacity":
        used = problem.occupied[first] | columns.counts.any(axis=1)
        return np.where(used, problem.capacity_share[first], 0.0), 0.0
    capacity = problem.instance.nodes.capacity[first, 0]
    share = (problem.base[first] + columns.load) / np.where(capacity > 0, capacity, 1.0)
    assert problem.even_mean is not None
    off = np.where(problem.instance.open_nodes[first], share - problem.even_mean, 0.0)
    if goal == "squares":
        return off**2, 0.0
    return np.abs(off) / len(counted_nodes(problem)), 0.0
