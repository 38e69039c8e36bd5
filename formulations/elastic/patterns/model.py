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
    from formulations.elastic.goals import Goal
    from formulations.elastic.patterns.columns import Columns
    from formulations.elastic.problem import EoaProblem
    from optim.format.tables import Floats


def pool_of(columns: Columns, cost: Floats) -> Pool:
    """Return all columns as patterns; costs are gains below 0."""
    return Pool(columns.counts, columns.of, -cost, np.arange(columns.num))


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
