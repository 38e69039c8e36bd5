"""ALBIC's MILP (Madsen, Zhou, Cao 2016, section 4.3.1, constraints (1) to (5)): columns and rows.

Two forms share everything but the variables that say where a key group goes: the *full* form of
the paper has one for each key group and node, the *moves* form one for each real move (the
variable of staying is eliminated).

Rows of forced moves hold for every placement within the distance cap of the aim
(``docs/proofs/forced-moves-bound.md``, steps 1 and 2) and turn the fractional moves of the LP
relaxation into whole ones.

Cuts: solvers keep rows to about 1e-6, the referee to 1e-9 of all there is. A plan in between is
found by who stands where, and cut off by that: not all these key groups on this node, or one more.

Moves that no better placement can make are left out, by reduced costs of the budget: for a target
distance below the best known one, the LP relaxation gives the least budget any placement within
the target spends. A move whose reduced cost lifts that above the budget is in no such placement,
so the model without it has the same bound up to the target.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from formulations.model_rows import (
    Placing,
    add_assignment,
    add_budgets,
    add_capacity,
    add_load_distance,
    add_rule_rows,
    load_left,
)
from formulations.rebalancing.bound import Needs
from formulations.rebalancing.problem import Solving
from optim.errors import InvalidInput, Problem
from optim.solvers.inprocess import solve_lp
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from formulations.model_rows import RuleRows
    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints, Levels
    from optim.solvers.linear_model import VariableBlock
    from optim.util.progress import Progress


Goal = Literal["distance", "left", "sides", "weighted", "moves", "cost", "switches"]


@dataclass(frozen=True)
class Aim:
    """What one solve minimises and what earlier levels have settled."""

    #: ``distance`` (d), ``left`` (load left on leaving nodes), ``sides`` (−d_u − d_l), ``weighted``
    #: (w1·d − w2·(d_u + d_l)), ``moves`` (migrations), their ``cost``, or ``switches`` (moves onto
    #: copies).
    goal: Goal = "distance"
    #: Values that an earlier level has reached; ``inf`` for none.
    max_distance: float = np.inf
    max_left: float = np.inf
    max_sides: float = np.inf
    min_distance: float = 0.0  # A proven lower bound of d.
    weights: tuple[float, float] = (1.0, 0.0)  # (w1, w2), read for ``weighted`` only.


@dataclass(frozen=True)
class BalanceModel:
    """A built model."""

    #: What is modelled and the linear model.
    problem: BalanceProblem
    model: LinearModel
    placing: Placing  # The binaries.
    sides: VariableBlock  # The block of d, d_u, d_l.
    rules: RuleRows  # Rows and columns of the rules that count key groups on places.

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
    ceiling = float(problem.load.sum() + problem.base_load.max() + problem.share.max())
    ceiling = min(ceiling, problem.most_distance, aim.max_distance)
    w1, w2 = {"distance": (1.0, 0.0), "sides": (0.0, 1.0), "weighted": aim.weights}.get(
        aim.goal, (0.0, 0.0)
    )
    sides = model.add_variables(
        "load_distance",
        3,
        lower=[min(aim.min_distance, ceiling), 0.0, 0.0],
        upper=ceiling,
        objective=[w1, -w2, -w2],
        of={"": ["d", "d_u", "d_l"]},
    )
    # (5) d_u − d ≤ 0, d_l − d ≤ 0
    d, d_u, d_l = sides.indices
    model.add_rows(
        "within_d", -np.inf, 0.0, [0, 0, 1, 1], [d_u, d, d_l, d], [1, -1, 1, -1],
        of={"": ["d_u", "d_l"]},
    )  # fmt: skip
    if np.isfinite(aim.max_sides):
        # over + under ≤ S with d = D: d_u + d_l ≥ 2·D − S
        model.add_rows(
            "within_sides", 2.0 * ceiling - aim.max_sides, np.inf, 0, [d_u, d_l], 1.0, num_rows=1
        )
    return sides


def add_changes(model: LinearModel, problem: BalanceProblem, placing: Placing, aim: Aim) -> None:
    """Minimise Σ y_ik or Σ mc_k·y_ik over the moves that migrate, or the number onto copies."""
    pays = problem.rules.pays(placing.task, placing.node)
    if aim.goal == "moves":
        model.set_objective(placing.column[pays], np.ones(int(pays.sum())))
    elif aim.goal == "cost":
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
        model.add_rows("load_left", -np.inf, most - now, 0, cols, values, num_rows=1)


def add_forced_moves_rows(
    model: LinearModel, problem: BalanceProblem, placing: Placing, max_distance: float
) -> None:
    """Σ moves out of i ≥ out_i and Σ moves into i ≥ in_i, where a node is outside its cap.

    Only for the form over moves; a node whose key groups cannot suffice makes the model infeasible,
    which it is.
    """
    if not placing.from_home or not np.isfinite(max_distance):
        return
    # steps 1 and 2 of the proof, for the greatest distance that the aim allows
    needs = Needs(problem)
    excess, shortage = needs.outside(max_distance)
    over, under = np.flatnonzero(excess > 0), np.flatnonzero(shortage > 0)
    leave, _ = needs.leaving_counts(over, excess)
    _add(model, "leave", problem.home[placing.task], placing.column, over, leave)
    arrive = needs.arriving_counts(shortage[under])
    _add(model, "arrive", placing.node, placing.column, under, arrive)


def _add(
    model: LinearModel, name: str, node_of: Ints, columns: Ints, nodes: Ints, least: Ints
) -> None:
    """Add one row for each node that needs at least one key group to leave or arrive."""
    nodes, least = nodes[least > 0], least[least > 0]
    number = np.full(int(node_of.max(initial=-1)) + 1 + int(nodes.max(initial=0)) + 1, -1)
    number[nodes] = np.arange(len(nodes))
    row = number[node_of]
    in_row = row >= 0
    of = {"node": nodes}
    model.add_rows(
        name, least, np.inf, row[in_row], columns[in_row], 1.0, num_rows=len(nodes), of=of
    )


ModelForm = Literal["moves", "full"]

#: Models beyond this many binaries are refused: they would need tens of gigabytes.
MAX_BINARIES = 30_000_000


def build_full(problem: BalanceProblem, aim: Aim | None = None) -> BalanceModel:
    """Build the paper's literal form: x_ik for every key group k and node i.

    Raises `InvalidInput`: more than `MAX_BINARIES` binaries.
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
    problem: BalanceProblem, aim: Aim | None = None, moves: tuple[Ints, Ints] | None = None
) -> BalanceModel:
    """Build the form over candidate moves: y_ik = 1 when key group k moves to node i.

    `moves`: key group and target of each candidate; all moves that may be by default. Leaving some
        out is exact only where a proof excludes them.
    Raises `InvalidInput`: more than `MAX_BINARIES` binaries.
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

    Raises `InvalidInput`: more than `MAX_BINARIES` of them.
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


class Cut(NamedTuple):
    """Of the key groups `task` on `node`, at least `least` and at most `most` are there."""

    task: Ints
    node: Ints
    least: float
    most: float


def cuts_of(problem: BalanceProblem, placement: Ints) -> list[Cut]:
    """Return cuts that every feasible placement keeps and this infeasible one does not."""
    used = problem.node_usage(placement)
    floor = np.where(problem.leaving[:, None], -np.inf, problem.floor)
    cuts: list[Cut] = []
    for e in range(problem.num_resources):
        limits = (floor[:, e], problem.headroom[:, e])
        cuts += _cuts(problem.usage[:, e], used[:, e], limits, placement)
    load = problem.node_load(placement) - problem.background
    room = problem.share - problem.background
    reach = problem.most_distance
    lower = np.where(problem.leaving, -np.inf, room - reach)
    cuts += _cuts(problem.load, load, (lower, room + reach), placement)
    over = problem.spent(placement) > problem.budget
    cuts += [_stay(problem, placement, price) for price in problem.price.T[over]]
    if not cuts:
        every = np.arange(problem.num_tasks)
        cuts.append(Cut(every, placement.copy(), -np.inf, problem.num_tasks - 1.0))
    return cuts


def _cuts(
    load: Floats, used: Floats, limits: tuple[Floats, Floats], placement: Ints
) -> Iterable[Cut]:
    """Cut off nodes that hold more, or less, of a load than they may."""
    lower, upper = limits
    for node in np.flatnonzero(used > upper).tolist():
        yield from _too_much(load, upper, node, np.flatnonzero(placement == node))
    for node in np.flatnonzero(used < lower).tolist():
        others = np.flatnonzero((placement != node) & (load > 0))
        yield Cut(others, np.full(len(others), node), 1.0, np.inf)


def _too_much(load: Floats, upper: Floats, node: int, there: Ints) -> Iterable[Cut]:
    """Fewer of the key groups there, and of all as heavy, on every node with as little room."""
    there = there[np.argsort(-load[there], kind="stable")]
    there = there[load[there] > 0]
    count = int(np.searchsorted(np.cumsum(load[there]), upper[node], side="right")) + 1
    # a cover: the fewest of the heaviest key groups there that are too much together; any as many
    # of those at least as heavy are too much as well
    cover = there[:count]
    heavy = np.flatnonzero(load >= load[cover].max())
    tasks = np.union1d(cover, heavy)
    for like in np.flatnonzero(upper <= upper[node]).tolist():
        yield Cut(tasks, np.full(len(tasks), like), -np.inf, len(cover) - 1.0)


def _stay(problem: BalanceProblem, placement: Ints, price: Floats) -> Cut:
    """Ask one of the key groups that migrate to stay, or to go where there is a copy."""
    rules = problem.rules
    moved = np.flatnonzero(rules.migrates(placement) & (price > 0))
    copied = np.concatenate(
        [np.arange(rules.copies_indptr[k], rules.copies_indptr[k + 1]) for k in moved.tolist()]
        or [np.zeros(0, np.int64)]
    )
    counts = rules.copies_indptr[moved + 1] - rules.copies_indptr[moved]
    task = np.concatenate([moved, np.repeat(moved, counts)])
    node = np.concatenate([problem.home[moved], rules.copies[copied]])
    task, node = np.unique(np.stack([task, node]), axis=1)
    return Cut(task, node, 1.0, np.inf)


def add_cuts(model: LinearModel, cuts: list[Cut], placing: Placing) -> None:
    """Add the rows of some cuts."""
    if not cuts:
        return
    where, num_nodes = placing.where, placing.num_nodes
    key = where.task * num_nodes + where.node
    order = np.argsort(key, kind="stable")
    for cut in cuts:
        wanted = cut.task * num_nodes + cut.node
        begin = np.searchsorted(key[order], wanted)
        counts = np.searchsorted(key[order], wanted, side="right") - begin
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        entries = order[np.repeat(begin, counts) + within]
        constant = float((where.base[cut.task] == cut.node).sum())
        model.add_rows(
            "cut", cut.least - constant, cut.most - constant, 0,
            where.column[entries], where.value[entries], num_rows=1,
        )  # fmt: skip


MOST_PRICED = 100_000  # LP relaxations beyond this size take longer than they save.
TRUST = 1e-5  # An LP optimum is trusted up to this part of the budget.


class Pruned(NamedTuple):
    """Moves that are left, and whether the target is refuted altogether."""

    task: Ints
    node: Ints
    refuted: bool


def prune_moves(
    problem: BalanceProblem, target: float, incumbent: Ints, seconds: float | None = None
) -> Pruned | None:
    """Return the moves a placement with load distance ≤ `target` can make; ``None`` if not tried.

    `problem`: with a budget; without one nothing can be left out.
    `target`: load distance to stay within, below that of `incumbent`.
    `incumbent`: a placement whose moves hold in any case.
    `seconds`: for each LP; nothing is left out where that is too short.
    """
    if problem.num_tasks * problem.num_nodes > MOST_PRICED or target <= 0.0:
        return None
    task, node = candidate_moves(problem)
    keep = np.ones(len(task), dtype=np.bool_)
    for budget, price in ((budget.limit, budget.weight) for budget in problem.budgets):
        least = _least_spending(problem, target, price, (task, node), seconds)
        if least is None:
            return None
        value, reduced = least
        allowed = budget + TRUST * max(1.0, budget)
        if value > allowed:
            return Pruned(task[:0], node[:0], refuted=True)
        # LP value + reduced cost is what any placement with this move spends at least
        keep &= value + reduced <= allowed
    keep |= incumbent[task] == node
    return Pruned(task[keep], node[keep], refuted=False)


def _least_spending(
    problem: BalanceProblem,
    target: float,
    price: Floats,
    moves: tuple[Ints, Ints],
    seconds: float | None,
) -> tuple[float, Floats] | None:
    """Return the LP's least spending within the target, and the reduced cost of each move."""
    # an infeasible LP spends infinitely much. ``None`` when the LP was not solved
    # least Σ price·move subject to all rows but the budgets
    free = replace(problem, budgets=())
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


@dataclass(frozen=True)
class Settings(Solving):
    """How to solve; `gap` is a difference to the bound of a level.

    Where it is wider than optimal, the sides get no model: what the search made of them stands.

    Attributes
    ----------
    form
        ``moves`` or ``full``.
    objective
        ``lexicographic``, or ``weighted``: w1·d − w2·(d_u + d_l) in one solve.
    weights
        (w1, w2).
    drain_first
        Whether load left on leaving nodes comes before the load distance, not after it.
    sides
        Whether both sides are tightened in the end.
    options
        Passed to the solver.
    progress
        Receives the load distance and its bound.
    """

    form: ModelForm = "moves"
    objective: Literal["lexicographic", "weighted"] = "lexicographic"
    weights: tuple[float, float] = (1e4, 1.0)
    drain_first: bool = False
    sides: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[Progress], None] | None = None

    def gap_of(self, problem: BalanceProblem) -> float:
        """Difference to the bound at which a level may stop."""
        return problem.optimal_gap if self.gap is None else self.gap

    def goals(self, problem: BalanceProblem) -> list[Goal]:
        """Levels in the order in which they are solved."""
        if self.objective == "weighted":
            return ["weighted"]
        left: list[Goal] = ["left"] if problem.has_leaving else []
        sides: list[Goal] = ["sides"] if self.sides else []
        if self.drain_first:
            return [*left, "distance", *sides]
        return ["distance", *left, *sides]


@dataclass
class LevelAnswer:
    """What is known of one level: the value reached, what is proven, and why it stopped.

    `value` and `bound` are in the units of the goal, always minimised.
    """

    goal: Goal
    value: float | None
    bound: float | None
    termination: str


@dataclass
class BalanceAnswer:
    """What `solve_balance` found."""

    placement: Ints | None = None  # Best one, ``None`` if there is none.
    #: One answer for each level that was solved, in order.
    levels: list[LevelAnswer] = field(default_factory=list)
    #: Whether the solver took the start it was given at the first level.
    start_accepted: bool | None = None
    #: What plans broke that a solver took for feasible; see `cuts_of`.
    cuts: list[Cut] = field(default_factory=list)
    #: For the result.
    notes: list[str] = field(default_factory=list)
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    build_seconds: float = 0.0
    solver: str | None = None

    def recount(self, problem: BalanceProblem, weights: tuple[float, float] = (1.0, 0.0)) -> None:
        """Count all levels on the final placement: a later one may have improved an earlier one."""
        if self.placement is None:
            return
        reached = problem.levels(self.placement)
        for level in self.levels:
            level.value = value_of(reached, level.goal, weights)
            if level.bound is not None:
                level.bound = min(level.bound, level.value)


def value_of(levels: Levels, goal: Goal, weights: tuple[float, float] = (1.0, 0.0)) -> float:
    """Return what a goal minimises, counted from a placement's levels."""
    if goal == "distance":
        return levels.distance
    if goal == "left":
        return levels.left
    if goal == "sides":
        return levels.over + levels.under
    return weights[0] * levels.distance - weights[1] * levels.tightened
