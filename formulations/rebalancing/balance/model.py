"""A rebalancing model: the linear model, where its variables are, and how to read it.

Both forms share everything but the variables that say where a key group goes: the *full* form of
the paper has one for each key group and node, the *moves* form one for each real move (the
variable of staying is eliminated).

They hold for every placement within the distance cap of the aim
(``docs/proofs/forced-moves-bound.md``, steps 1 and 2) and turn the fractional moves of the LP
relaxation into whole ones.

The two forms of ALBIC's MILP (Madsen, Zhou, Cao 2016, section 4.3.1, constraints (1)–(5)): the
paper's full one, and one with variables for real moves only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from formulations.model_rows import (
    Placing,
    add_assignment,
    add_budgets,
    add_capacity,
    add_load_distance,
    load_left,
)
from formulations.rebalancing.bounds.forced_moves import Needs
from formulations.rule_rows import add_rule_rows
from optim.errors import InvalidInput, Problem
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints
    from formulations.rule_rows import RuleRows
    from optim.solvers.linear_model import VariableBlock


Goal = Literal["distance", "left", "sides", "weighted", "cost", "switches"]


@dataclass(frozen=True)
class Aim:
    """What one solve minimises and what earlier levels have settled.

    Attributes
    ----------
    goal
        ``distance`` (d), ``left`` (load left on leaving nodes), ``sides`` (−d_u − d_l),
        ``weighted`` (w1·d − w2·(d_u + d_l)), ``cost`` (of the migrations) or ``switches`` (moves
        onto copies).
    max_distance, max_left
        Values that an earlier level has reached; ``inf`` for none.
    min_distance
        A proven lower bound of d.
    weights
        (w1, w2), read for ``weighted`` only.
    """

    goal: Goal = "distance"
    max_distance: float = np.inf
    max_left: float = np.inf
    min_distance: float = 0.0
    weights: tuple[float, float] = (1.0, 0.0)


@dataclass(frozen=True)
class BalanceModel:
    """A built model.

    Attributes
    ----------
    problem, model
        What is modelled and the linear model.
    placing
        The binaries.
    sides
        The block of d, d_u, d_l.
    rules
        Rows and columns of the rules that count key groups on places.
    """

    problem: BalanceProblem
    model: LinearModel
    placing: Placing
    sides: VariableBlock
    rules: RuleRows

    def read(self, x: Floats) -> Ints:
        """Return the placement a solution vector stands for."""
        return self.placing.read(x)

    def write(self, placement: Ints) -> Floats | None:
        """Return the solution vector of a placement; ``None`` when a move of it is not modelled."""
        x = np.zeros(self.model.num_variables)
        chosen = placement[self.placing.task] == self.placing.node
        x[self.placing.column[chosen]] = 1.0
        if not np.array_equal(self.read(x), placement):
            return None
        levels = self.problem.levels(placement)
        x[self.sides.start] = levels.distance
        x[self.sides.start + 1] = levels.distance - levels.over
        x[self.sides.start + 2] = levels.distance - levels.under
        self.rules.complete(x, placement)
        return x


def add_sides(model: LinearModel, problem: BalanceProblem, aim: Aim) -> VariableBlock:
    """Add d, d_u, d_l and constraint (5), 0 ≤ d_u ≤ d and 0 ≤ d_l ≤ d.

    d is bounded by what an earlier level or `max_load_distance` allows, and at most by the load of
    everything: solvers that need finite ranges get one. The objective of the aim goes on them.
    """
    roof = float(problem.load.sum() + problem.base_load.max() + problem.share.max())
    roof = min(roof, problem.most_distance, aim.max_distance)
    w1, w2 = {"distance": (1.0, 0.0), "sides": (0.0, 1.0), "weighted": aim.weights}.get(
        aim.goal, (0.0, 0.0)
    )
    sides = model.add_variables(
        "load_distance",
        3,
        lower=[min(aim.min_distance, roof), 0.0, 0.0],
        upper=roof,
        objective=[w1, -w2, -w2],
        of={"": ["d", "d_u", "d_l"]},
    )
    d, d_u, d_l = sides.indices
    model.add_rows(
        "within_d", -np.inf, 0.0, [0, 0, 1, 1], [d_u, d, d_l, d], [1, -1, 1, -1],
        of={"": ["d_u", "d_l"]},
    )  # fmt: skip
    return sides


def add_changes(model: LinearModel, problem: BalanceProblem, placing: Placing, aim: Aim) -> None:
    """Minimise Σ mc_k·y_ik over the moves that migrate, or the number of those onto copies."""
    pays = problem.rules.pays(placing.task, placing.node)
    if aim.goal == "cost":
        model.set_objective(placing.column[pays], problem.cost[placing.task[pays]])
    elif aim.goal == "switches":
        free = ~pays & (problem.rules.home[placing.task] >= 0)
        model.set_objective(placing.column[free], np.ones(int(free.sum())))


def add_resource_rows(model: LinearModel, problem: BalanceProblem, placing: Placing) -> None:
    """Capacities, and on staying nodes least loads, of every resource that binds somewhere."""
    floor = problem.floor
    lower = np.where((floor > 0) & ~problem.leaving[:, None], floor, -np.inf)
    add_capacity(model, placing, problem.usage, lower, problem.headroom)


def add_left(
    model: LinearModel, problem: BalanceProblem, placing: Placing, most: float, sign: float = 0.0
) -> None:
    """Bound the load on leaving nodes by `most`; with a sign, that times it is the objective."""
    if not problem.has_leaving:
        return
    cols, values, now = load_left(placing, problem.load, problem.leaving)
    if sign:
        model.set_objective(cols, sign * values, offset=sign * now)
    if np.isfinite(most):
        rows = np.zeros(len(cols), np.int64)
        model.add_rows("load_left", -np.inf, most - now, rows, cols, values, num_rows=1)


def add_forced_moves_rows(
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
    of = {"node": nodes}
    model.add_rows(name, least, np.inf, row[kept], columns[kept], 1.0, num_rows=len(nodes), of=of)


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
    each = {"task": np.arange(t)[:, None], "node": np.arange(n)}
    x = model.add_variables("x", (t, n), upper=_reachable(problem), integer=True, of=each)
    task, node = np.repeat(np.arange(t), n), np.tile(np.arange(n), t)
    placing = Placing.by_columns(x.indices.ravel(), task, node, (t, n))
    add_assignment(model, placing)
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
    of = {"task": task, "node": node}
    y = model.add_variables("move", len(task), upper=1.0, integer=True, of=of)
    placing = Placing(y.indices, task, node, problem.home, problem.num_nodes)
    _add_move_once(model, problem, placing)
    add_forced_moves_rows(model, problem, placing, aim.max_distance)
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
        of={"task": with_moves},
    )
    stranded = np.setdiff1d(np.flatnonzero(problem.must_move), with_moves)
    if len(stranded):  # a key group that must leave and may go nowhere: no solution, said by a row
        model.add_rows("may_go_nowhere", 1.0, np.inf, [], [], [], num_rows=1)


def _finish(
    problem: BalanceProblem, model: LinearModel, placing: Placing, aim: Aim
) -> BalanceModel:
    """Add what both forms share: constraints (2)–(5), capacities and the objective."""
    sides = add_sides(model, problem, aim)
    share = problem.share - problem.background
    columns = tuple(sides.indices.tolist())
    add_load_distance(model, placing, problem.load, share, problem.leaving, columns)
    full = not placing.from_home
    add_budgets(model, placing, problem.rules, problem.budgets, by_staying=full)
    add_resource_rows(model, problem, placing)
    add_left(model, problem, placing, aim.max_left, 1.0 if aim.goal == "left" else 0.0)
    add_changes(model, problem, placing, aim)
    rules = add_rule_rows(model, problem.rules, placing.where)
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
