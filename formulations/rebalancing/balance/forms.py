"""The two forms of ALBIC's MILP: the paper's full one, and one with variables for real moves only.

Madsen, Zhou, Cao 2016, section 4.3.1, constraints (1)–(5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from formulations.rebalancing.balance.model import (
    Aim,
    BalanceModel,
    Placing,
    add_budget_rows,
    add_changes,
    add_left,
    add_load_rows,
    add_resource_rows,
    add_sides,
    add_touch_rows,
)
from formulations.rule_rows import add_rule_rows
from optim.errors import InvalidInput, Problem
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Ints

Form = Literal["moves", "full"]

#: Models beyond this many binaries are refused: they would need tens of gigabytes.
MAX_BINARIES = 30_000_000


def build_full(problem: BalanceProblem, aim: Aim | None = None) -> BalanceModel:
    """Build the paper's literal form: x_ik for every key group k and node i.

    Raises
    ------
    InvalidInput
        More than `MAX_BINARIES` binaries.
    """
    aim = aim or Aim()
    t, n = problem.num_tasks, problem.num_nodes
    _check_size(t * n, "full")
    model = LinearModel("balance")
    x = model.add_variables("x", (t, n), upper=_reachable(problem), integer=True)
    task, node = np.repeat(np.arange(t), n), np.tile(np.arange(n), t)
    placing = Placing(x.indices.ravel(), task, node, from_home=False)
    model.add_rows("placed_once", 1.0, 1.0, task, placing.column, 1.0, num_rows=t)  # (1)
    return _finish(problem, model, placing, aim)


def build_moves(
    problem: BalanceProblem,
    aim: Aim | None = None,
    moves: tuple[Ints, Ints] | None = None,
) -> BalanceModel:
    """Build the form over candidate moves: y_ik = 1 when key group k moves to node i.

    Parameters
    ----------
    problem, aim
        What is modelled.
    moves
        Key group and target of each candidate; all moves that may be by default. Leaving some out
        is exact only where a proof excludes them.

    Raises
    ------
    InvalidInput
        More than `MAX_BINARIES` binaries.
    """
    aim = aim or Aim()
    task, node = candidate_moves(problem) if moves is None else moves
    model = LinearModel("balance_moves")
    y = model.add_variables("y", len(task), upper=1.0, integer=True)
    placing = Placing(y.indices, task, node, from_home=True)
    _add_move_once(model, problem, placing)
    add_touch_rows(model, problem, placing, aim.max_distance)
    return _finish(problem, model, placing, aim)


def candidate_moves(problem: BalanceProblem) -> tuple[Ints, Ints]:
    """Return key group and target of every move that may be, by key group, then node.

    Raises
    ------
    InvalidInput
        More than `MAX_BINARIES` of them.
    """
    t, n = problem.num_tasks, problem.num_nodes
    _check_size(t * n, "moves")
    mask = problem.may_be_rows(np.arange(t))
    mask[np.arange(t), problem.home] = False
    task, node = np.nonzero(mask)
    return task.astype(np.int64), node.astype(np.int64)


def _add_move_once(model: LinearModel, problem: BalanceProblem, placing: Placing) -> None:
    """Constraint (1) with staying eliminated: at most one move, exactly one where it must move."""
    with_moves, row = np.unique(placing.task, return_inverse=True)
    forced = problem.must_move[with_moves]
    model.add_rows(
        "moved_once",
        np.where(forced, 1.0, -np.inf),
        np.ones(len(with_moves)),
        row.ravel(),
        placing.column,
        1.0,
        num_rows=len(with_moves),
    )
    stranded = np.setdiff1d(np.flatnonzero(problem.must_move), with_moves)
    if len(stranded):  # a key group that must leave and may go nowhere: no solution, said by a row
        model.add_rows("may_go_nowhere", 1.0, np.inf, [], [], [], num_rows=1)


def _finish(
    problem: BalanceProblem, model: LinearModel, placing: Placing, aim: Aim
) -> BalanceModel:
    """Add what both forms share: constraints (2)–(5), capacities and the objective."""
    sides = add_sides(model, problem, aim)
    add_load_rows(model, problem, placing, sides)
    add_budget_rows(model, problem, placing)
    add_resource_rows(model, problem, placing)
    add_left(model, problem, placing, aim)
    add_changes(model, problem, placing, aim)
    rules = add_rule_rows(model, problem.rules, placing.whereabouts(problem.home))
    return BalanceModel(problem, model, placing, sides, rules)


def _reachable(problem: BalanceProblem) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """(T, N) upper bounds: 0 where a key group may not be."""
    if not problem.has_leaving and not len(problem.restricted):
        return np.ones((1, 1))
    mask = problem.may_be_rows(np.arange(problem.num_tasks))
    return mask.astype(np.float64)


def _check_size(binaries: int, form: str) -> None:
    if binaries > MAX_BINARIES:
        remedy = "use --option form=moves" if form == "full" else "use --method flux"
        raise InvalidInput(
            Problem("balance-milp", binaries, f"binaries are more than {MAX_BINARIES}", remedy)
        )
