"""Leave out moves that no better placement can make, by reduced costs of the budget.

For a target distance below the best known one, the LP relaxation gives the least budget any
placement within the target spends. A move whose reduced cost lifts that above the budget is in no
such placement, so the model without it has the same bound up to the target.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.rebalancing.balance.forms import build_moves, candidate_moves
from formulations.rebalancing.balance.model import Aim
from optim.solvers.inprocess import solve_lp

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints

#: LP relaxations beyond this size take longer than they save.
MAX_BINARIES = 100_000

#: An LP optimum is trusted up to this part of the budget.
TRUST = 1e-5


class Pruned(NamedTuple):
    """Moves that are left, and whether the target is refuted altogether."""

    task: Ints
    node: Ints
    refuted: bool


def prune_moves(
    problem: BalanceProblem, target: float, known: Ints, seconds: float | None = None
) -> Pruned | None:
    """Return the moves a placement with load distance ≤ `target` can make; ``None`` if not tried.

    Parameters
    ----------
    problem
        With a budget; without one nothing can be left out.
    target
        Load distance to stay within, below that of `known`.
    known
        A placement whose moves are kept in any case.
    seconds
        For each LP; nothing is left out where that is too short.
    """
    if problem.num_tasks * problem.num_nodes > MAX_BINARIES or target <= 0.0:
        return None
    task, node = candidate_moves(problem)
    keep = np.ones(len(task), dtype=np.bool_)
    for budget, price in _budgets(problem):
        least = _least_spending(problem, target, price, (task, node), seconds)
        if least is None:
            return None
        value, reduced = least
        allowed = budget + TRUST * max(1.0, budget)
        if value > allowed:
            return Pruned(task[:0], node[:0], refuted=True)
        keep &= value + reduced <= allowed
    keep |= known[task] == node
    return Pruned(task[keep], node[keep], refuted=False)


def _budgets(problem: BalanceProblem) -> list[tuple[float, Floats]]:
    """Return each budget with what a key group takes of it."""
    found = []
    if problem.max_moves is not None:
        found.append((float(problem.max_moves), np.ones(problem.num_tasks)))
    if problem.max_cost is not None:
        found.append((problem.max_cost, problem.cost))
    return found


def _least_spending(
    problem: BalanceProblem,
    target: float,
    price: Floats,
    moves: tuple[Ints, Ints],
    seconds: float | None,
) -> tuple[float, Floats] | None:
    """Return the LP's least spending within the target, and the reduced cost of each move.

    An infeasible LP spends infinitely much. ``None`` when the LP was not solved.
    """
    free = replace(problem, max_moves=None, max_cost=None)
    built = build_moves(free, Aim(max_distance=target), moves)
    arrays = built.model.freeze()
    cost = np.zeros(arrays.num_variables)
    placing = built.placing
    pays = problem.rules.pays(placing.task, placing.node)
    cost[placing.column] = np.where(pays, price[placing.task], 0.0)
    answer = solve_lp(
        cost, arrays.matrix, arrays.row_lower, arrays.row_upper, arrays.lower, arrays.upper, seconds
    )
    if answer.termination == "infeasible":
        return np.inf, np.zeros(len(moves[0]))
    if answer.objective is None or answer.reduced_costs is None:
        return None
    return answer.objective, answer.reduced_costs[placing.column]
