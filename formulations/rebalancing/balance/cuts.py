"""Valid rows for plans better than a known one: least numbers of key groups that leave or arrive.

They hold for every placement within the distance cap of the aim (``docs/proofs/touch-bound.md``,
steps 1 and 2) and turn the fractional moves of the LP relaxation into whole ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.bounds.touch import Needs

if TYPE_CHECKING:
    from formulations.rebalancing.balance.model import Placing
    from formulations.rebalancing.problem import BalanceProblem, Ints
    from optim.solvers.linear_model import LinearModel


def add_touch_rows(
    model: LinearModel, problem: BalanceProblem, placing: Placing, max_distance: float
) -> None:
    """Σ moves out of i ≥ out_i and Σ moves into i ≥ in_i, where a node is outside its cap.

    Only for the form over moves; a node whose key groups cannot suffice makes the model infeasible,
    which it is.
    """
    if not placing.from_home or not np.isfinite(max_distance):
        return
    needs = Needs(problem)
    excess, lack = needs.outside(max_distance)
    over, under = np.flatnonzero(excess > 0), np.flatnonzero(lack > 0)
    leave, _ = needs.leaving_counts(over, excess)
    _add(model, "leave", problem.home[placing.task], placing.column, over, leave)
    arrive = needs.arriving_counts(lack[under])
    _add(model, "arrive", placing.node, placing.column, under, arrive)


def _add(
    model: LinearModel, name: str, node_of: Ints, columns: Ints, nodes: Ints, least: Ints
) -> None:
    """Add one row for each node that needs at least one key group to leave or arrive."""
    nodes, least = nodes[least > 0], least[least > 0]
    number = np.full(int(node_of.max(initial=-1)) + 1 + int(nodes.max(initial=0)) + 1, -1)
    number[nodes] = np.arange(len(nodes))
    row = number[node_of]
    kept = row >= 0
    model.add_rows(name, least, np.inf, row[kept], columns[kept], 1.0, num_rows=len(nodes))
