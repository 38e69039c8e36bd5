"""The linear model of the pattern form, whole or of a part of its columns.

    min  Σ_p cost_p λ_p
    s.t. Σ_p tasks_gp λ_p = n_g                  every free task of a group in one set
         Σ_(p of class k) λ_p = n_k              every node holds one set, maybe the empty one
         Σ_p capacity_p λ_p ≤ what was reached   earlier level
         Σ_p moves_p λ_p ≤ budget                migrations
         w_uv ≤ Σ_(p ∋ u, behind link) λ_p       both ends behind a shared link …
         Σ_p crossing_p λ_p − 2 Σ r_uv w_uv ≤ room   … whose traffic it carries

Capacities, load bounds and the nodes' own uplinks are in the sets themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.eoa_goals import counted_nodes
from optim.linear_model import LinearModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.eoa_goals import Goal
    from formulations.eoa_patterns.columns import Columns
    from formulations.eoa_problem import EoaProblem, SharedLink
    from optim.tables import Floats, Ints


@dataclass(frozen=True, eq=False)
class PatternModel:
    """A built model: its columns come first, then the products of shared links."""

    model: LinearModel
    keep: NDArray[np.int64]
    products: tuple[tuple[SharedLink, int], ...]

    def vector(self, problem: EoaProblem, uses: NDArray[np.int64], place: Ints) -> Floats:
        """Write a placement as a full column vector."""
        x = np.zeros(self.model.num_variables)
        x[: len(self.keep)] = uses[self.keep]
        for link, start in self.products:
            behind = np.isin(place, link.nodes)
            x[start : start + len(problem.u)] = behind[problem.u] & behind[problem.v]
        return x


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
    problem: EoaProblem,
    columns: Columns,
    cost: Floats,
    offset: float,
    caps: Sequence[tuple[Floats, float]],
    keep: NDArray[np.int64],
    *,
    whole: bool,
) -> PatternModel:
    """Build the model over some of the columns.

    Parameters
    ----------
    cost, offset
        (P,) objective and its constant.
    caps
        Costs of earlier levels and the most they may add up to.
    keep
        Columns that take part.
    whole
        Declare the products integer, for a solver that knows nothing else.
    """
    model = LinearModel("eoa-milp")
    of, counts = columns.of[keep], columns.counts[keep]
    each = np.where(
        counts > 0, columns.group_size // np.maximum(counts, 1), len(columns.node_class)
    )
    upper = np.minimum(columns.size[of], each.min(axis=1, initial=len(columns.node_class)))
    model.add_variables("pattern", len(keep), upper=upper, integer=True, objective=cost[keep])
    model.set_objective(np.zeros(0, dtype=np.int64), np.zeros(0), offset)
    column, group = np.nonzero(counts)
    tasks = columns.group_size.astype(np.float64)
    held = counts[column, group]
    model.add_rows("assign", tasks, tasks, group, column, held, num_rows=len(tasks))
    size = columns.size.astype(np.float64)
    model.add_rows("node", size, size, of, np.arange(len(keep)), 1.0, num_rows=len(size))
    for i, (values, most) in enumerate(caps):
        _add_row(model, f"level {i + 1}", values[keep], most)
    for name, most, price in problem.budgets:
        _add_row(model, name, _moves(problem, columns, price)[keep], most)
    products = tuple(
        (link, add_shared(model, problem, columns, keep, link, whole=whole))
        for link in problem.shared
    )
    return PatternModel(model, keep, products)


def _add_row(model: LinearModel, name: str, values: Floats, most: float) -> None:
    used = np.flatnonzero(values)
    model.add_rows(name, -np.inf, most, np.zeros(len(used), np.int64), used, values[used], 1)


def _moves(problem: EoaProblem, columns: Columns, price: Floats) -> Floats:
    """(P,) cost of the moves that a column makes; homes are node classes of their own."""
    here = columns.first[columns.of]
    one = np.unique(columns.group, return_index=True)[1]  # a group has one home and one price
    home, price = problem.home[one], price[one]
    moved = (home[None, :] >= 0) & (home[None, :] != here[:, None])
    return np.asarray((columns.counts * moved * price[None, :]).sum(axis=1))


def add_shared(
    model: LinearModel,
    problem: EoaProblem,
    columns: Columns,
    keep: NDArray[np.int64],
    link: SharedLink,
    *,
    whole: bool,
) -> int:
    """A link of several nodes carries what crosses it; return where its products start.

    Crossing = all traffic of the tasks behind it − 2 × the traffic between two of them.
    """
    pairs = len(problem.u)
    w = model.add_variables("behind", pairs, upper=1.0, integer=whole)
    inside_class = np.isin(columns.first, link.nodes)
    behind = np.flatnonzero(inside_class[columns.of[keep]])
    holds = columns.counts[keep][behind] > 0  # groups are single tasks here
    for name, end in (("behind first", problem.u), ("behind second", problem.v)):
        row, col, value = [np.arange(pairs)], [w.indices], [np.ones(pairs)]
        for i, t in enumerate(end):
            at = behind[holds[:, t]]
            row.append(np.full(len(at), i))
            col.append(at)
            value.append(-np.ones(len(at)))
        rows, cols, values = (np.concatenate(part) for part in (row, col, value))
        model.add_rows(name, -np.inf, 0.0, rows, cols, values, num_rows=pairs)
    running = problem.beside[:, link.nodes].sum(axis=1)
    crossing = columns.incident[keep][behind] - 2.0 * (holds @ running)
    cols = np.concatenate([behind, w.indices])
    values = np.concatenate([crossing, -2.0 * problem.rate])
    most = link.room + 2.0 * link.inside
    model.add_rows("shared link", -np.inf, most, np.zeros(len(cols), np.int64), cols, values, 1)
    return w.start
