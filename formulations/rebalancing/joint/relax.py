"""The linear relaxation of the joint model: a bound, and which columns are worth trying.

Columns with small reduced cost make a small model ("kernel") in which branch and bound finds good
plans within a second, where the whole model takes minutes to find any (the idea is known as kernel
search: Angelelli, Mansini, Speranza 2010).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.joint.search import make_arcs
from optim.solvers.duals import dual_bound
from optim.solvers.inprocess import solve_lp, solve_small_milp

if TYPE_CHECKING:
    from formulations.rebalancing.joint.model import JointModel
    from formulations.rebalancing.joint.state import Arcs
    from formulations.rebalancing.problem import Floats, Ints

#: LP values are trusted to this much, relative; mostly what the duals prove is nearer.
LP_ERROR = 1e-7


@dataclass(frozen=True)
class Relaxed:
    """A solved relaxation.

    Attributes
    ----------
    bound
        No placement over the model's columns has more; ``-inf`` where there is none.
    order
        Columns, most promising first.
    worth
        What the order is by: minus the reduced cost, above 0 for those in the LP's solution.
    """

    bound: float
    order: Ints
    worth: Floats


def relax(built: JointModel, time_limit: float | None = None) -> Relaxed | None:
    """Solve the relaxation; ``None`` when time runs out or the LP solver fails."""
    arrays = built.model.freeze()
    program = (
        -arrays.cost, arrays.matrix, arrays.row_lower, arrays.row_upper, arrays.lower, arrays.upper,
    )  # fmt: skip
    answer = solve_lp(*program, time_limit)
    count = len(arrays.cost)
    if str(answer.termination) == "infeasible":
        return Relaxed(-np.inf, np.arange(count), np.zeros(count))
    if answer.x is None or answer.objective is None:
        return None
    assert answer.reduced_costs is not None
    assert answer.row_duals is not None
    worth = np.where(answer.x > 1e-9, 1.0 + answer.x, -answer.reduced_costs)
    bound = -answer.objective + arrays.offset
    order = np.argsort(-worth, kind="stable")
    proven = -dual_bound(*program, answer.row_duals) + arrays.offset
    return Relaxed(min(proven, bound + LP_ERROR * max(1.0, abs(bound))), order, worth)


def arcs_of(built: JointModel, relaxed: Relaxed, most: int) -> Arcs:
    """Return the most promising moves, for the annealing."""
    placing = built.placing
    chosen = np.argsort(-relaxed.worth[placing.column], kind="stable")[:most]
    # columns of staying pairs move only the partner: nothing to add for them
    return make_arcs(
        built.problem,
        placing.task[chosen],
        placing.node[chosen],
        relaxed.worth[placing.column[chosen]],
    )


def rounded(built: JointModel, relaxed: Relaxed, rng: np.random.Generator) -> Ints:
    """Return a placement near the relaxation's: its columns whole, while the budgets last.

    The largest come first, blurred by half a column at most; key groups placed once stay there.
    Loads may exceed what they may be.
    """
    balance, placing = built.problem.balance, built.placing
    placement, free = balance.home.copy(), np.ones(balance.num_tasks, dtype=np.bool_)
    value = np.where(relaxed.worth > 1.0, relaxed.worth - 1.0, 0.0)
    chosen = np.flatnonzero(value[placing.column] > 0.0)
    chosen = chosen[np.argsort(placing.column[chosen], kind="stable")]
    parts = np.split(chosen, np.flatnonzero(np.diff(placing.column[chosen])) + 1)
    blurred = [value[placing.column[part[0]]] + rng.random() / 2 for part in parts if len(part)]
    moves = np.inf if balance.max_moves is None else balance.max_moves
    cost = np.inf if balance.max_cost is None else balance.max_cost
    for k in np.argsort(-np.array(blurred), kind="stable"):
        tasks = placing.task[parts[k]]
        price = float(balance.cost[tasks].sum())
        if free[tasks].all() and len(tasks) <= moves and price <= cost:
            placement[tasks], free[tasks] = placing.node[parts[k]], False
            moves, cost = moves - len(tasks), cost - price
    return placement


def solve_kernel(
    built: JointModel,
    order: Ints,
    size: int,
    *,
    gap: float,
    nodes: int,
    time_limit: float | None = None,
) -> Ints | None:
    """Solve the model over its `size` best columns; return the placement, ``None`` without one.

    Parameters
    ----------
    built, order
        Model, and its columns, most promising first.
    size
        Columns kept; the others are 0.
    gap, nodes
        Relative gap and branch-and-bound nodes at which to stop: work that repeats.
    time_limit
        Seconds.
    """
    arrays = built.model.freeze()
    # what says nothing of a key group's place is kept in any case
    keep = np.union1d(order[:size], np.arange(len(built.columns), len(arrays.cost)))
    kernel = replace(
        arrays, cost=arrays.cost[keep], lower=arrays.lower[keep], upper=arrays.upper[keep],
        integrality=arrays.integrality[keep], matrix=arrays.matrix[:, keep],
    )  # fmt: skip
    limit = None if time_limit is None else max(0.01, time_limit)
    answer = solve_small_milp(kernel, limit, gap=gap, node_limit=nodes)
    if answer.x is None:
        return None
    x = np.zeros(len(arrays.cost))
    x[keep] = answer.x
    return built.read(x)
