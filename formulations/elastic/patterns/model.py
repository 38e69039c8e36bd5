"""The sets that a node can hold as patterns to choose from, priced from a list or in a model.

min  Σ_p cost_p λ_p
s.t. Σ_p tasks_gp λ_p = n_g             every free task of a group in one set
     Σ_(p of class k) λ_p = n_k         every node holds one set, maybe the empty one
     rows of the level                  `rows.LevelRows`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, hstack

from formulations.elastic.goals import counted_nodes
from formulations.patterns.pool import Pool
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.elastic.goals import Goal
    from formulations.elastic.patterns.columns import Columns
    from formulations.elastic.patterns.rows import LevelRows
    from formulations.elastic.problem import EoaProblem
    from optim.format.tables import Floats, Ints


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


@dataclass(frozen=True, eq=False)
class PatternModel:
    """A built model: its columns come first, then the products of shared links."""

    model: LinearModel
    keep: NDArray[np.int64]

    def vector(self, problem: EoaProblem, uses: NDArray[np.int64], place: Ints) -> Floats:
        """Write a placement as a full column vector."""
        behind = [np.isin(place, link.nodes) for link in problem.shared]
        products = [here[problem.u] & here[problem.v] for here in behind]
        return np.concatenate([uses[self.keep], *products]).astype(np.float64)


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


def build(
    columns: Columns,
    rows: LevelRows,
    cost: Floats,
    offset: float,
    keep: NDArray[np.int64],
    *,
    whole: bool,
) -> PatternModel:
    """Build the model over some of the columns.

    Parameters
    ----------
    cost, offset
        (P,) objective and its constant.
    keep
        Columns that take part.
    whole
        Declare the products integer, for a solver that knows nothing else.
    """
    model = LinearModel("eoa-milp")
    of, counts = columns.of[keep], columns.counts[keep]
    every = len(columns.classes.node_class)
    each = np.where(counts > 0, columns.group_size // np.maximum(counts, 1), every)
    upper = np.minimum(columns.size[of], each.min(axis=1, initial=every))
    model.add_variables("pattern", len(keep), upper=upper, integer=True, objective=cost[keep])
    model.set_objective(np.zeros(0, dtype=np.int64), np.zeros(0), offset)
    column, group = np.nonzero(counts)
    tasks = columns.group_size.astype(np.float64)
    held = counts[column, group]
    model.add_rows("assign", tasks, tasks, group, column, held, num_rows=len(tasks))
    size = columns.size.astype(np.float64)
    model.add_rows("node", size, size, of, np.arange(len(keep)), 1.0, num_rows=len(size))
    model.add_variables("behind", len(rows.most), upper=rows.most, integer=whole)
    if len(rows) and rows.beside is not None:
        matrix: Any = hstack([rows.table[:, keep], csr_array(rows.beside)])
        model.add_matrix_rows("level", matrix, rows.lower, rows.upper)
    return PatternModel(model, keep)
