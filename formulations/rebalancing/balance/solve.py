"""Solve a rebalancing level by level: load distance, load left on leaving nodes, tighter sides.

Where nodes hold copies of each other's state (`tasks[].copies`) every copied byte and every switch
is a change that somebody has to carry out: then the last levels are the least of these.

Moves that no better placement can make are left out, by reduced costs of the budget: for a target
distance below the best known one, the LP relaxation gives the least budget any placement within
the target spends. A move whose reduced cost lifts that above the budget is in no such placement,
so the model without it has the same bound up to the target.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from formulations.rebalancing.balance.model import (
    MAX_BINARIES,
    Aim,
    build_full,
    build_moves,
    candidate_moves,
)
from formulations.rebalancing.bounds.forced_moves import forced_moves_bound
from formulations.rebalancing.covers import add_cuts, cuts_of
from formulations.rebalancing.problem import lexicographically_less, ordered
from optim.errors import SolverError
from optim.solvers import LIMITED_WORK, LinearTermination, solve_kept, solve_linear
from optim.solvers.inprocess import solve_lp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from formulations.rebalancing.balance.model import BalanceModel, Form, Goal
    from formulations.rebalancing.covers import Cut
    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints, Levels
    from optim.kernels.place_rules import PlaceRules
    from optim.solvers import LinearSolution
    from optim.util.progress import Progress


#: What a later level grants an earlier one: solvers work to about this; plans that use it are
#: dropped again.
CAP = 1e-7

#: A solver and our own count may differ by this much (relative above 1) before it is an error.
AGREE = 1e-5

#: Beyond this size both sides are tightened by the search alone: a third level is not worth hours.
MAX_TIE_BINARIES = 10_000

#: Seconds a binary variable takes until a solver has it: 20 million took 54 s on a core.
MODELLED = 2.5e-6

#: Solvers stop a little inside the gap: one that stops right at it may land outside by rounding.
STOP_SHARE = 0.999

#: Share of the remaining time for each level but the last.
TIME_SHARE = 0.8

#: Levels of what a plan changes.
CHANGES: tuple[Goal, ...] = ("cost", "switches")


def solve_balance(
    problem: BalanceProblem,
    settings: Settings,
    starts: Sequence[Ints] = (),
    min_distance: float | None = None,
) -> BalanceAnswer:
    """Solve ALBIC's MILP, lexicographically or weighted.

    Parameters
    ----------
    problem, settings
        What to solve and how.
    starts
        Placements to begin from; those that are not feasible are passed over. The answer is never
        worse than the best of them.
    min_distance
        A proven lower bound of the load distance; the forced-moves bound if not given.

    Raises
    ------
    SolverError
        A solver's claim does not survive our own count.
    """
    least = forced_moves_bound(problem) if min_distance is None else min_distance
    answer = BalanceAnswer()
    for start in starts:
        if problem.is_feasible(start):
            _take(problem, settings, start, answer)
    for goal in settings.goals(problem):
        level = _solve_level(problem, settings, goal, answer, least)
        answer.levels.append(level)
        if answer.placement is None or level.termination in ("interrupted", "error"):
            break
    if answer.placement is not None:
        _refresh(problem, settings, answer)
    return answer


def _refresh(problem: BalanceProblem, settings: Settings, answer: BalanceAnswer) -> None:
    """Count all levels on the final placement: a later level may have improved an earlier one."""
    assert answer.placement is not None
    reached = problem.levels(answer.placement)
    for level in answer.levels:
        level.value = value_of(reached, level.goal, settings.weights)
        if level.bound is not None:
            level.bound = min(level.bound, level.value)


def least_changed(
    problem: BalanceProblem, settings: Settings, placement: Ints, rules: PlaceRules
) -> BalanceAnswer:
    """Of all placements that are as good, find the one with least migration cost, then switches.

    Parameters
    ----------
    problem, settings
        What was solved and how.
    placement
        The best one that is known; its load distance, and what it leaves on leaving nodes, are
        preserved, its sides are not.
    rules
        Of the instance, with all copies.

    Returns
    -------
    BalanceAnswer
        The placement itself, and no levels, where the model is too large.
    """
    answer = BalanceAnswer(placement=placement)
    if problem.num_tasks * problem.num_nodes > MAX_TIE_BINARIES:
        return answer
    reached = problem.levels(placement)
    aim = Aim("cost", max_distance=reached.distance, max_left=reached.left)
    within = replace(problem, max_distance=reached.distance, counted=rules)
    settings = replace(settings, form="moves")
    for goal in CHANGES:
        best = changed(within, placement, goal)
        bound, why = 0.0, "optimal"
        if best > 0 and settings.remaining() != 0.0:
            solution, built = _run_kept(within, settings, replace(aim, goal=goal), answer, None)
            bound, why = solution.bound or 0.0, str(solution.termination)
            found = None if solution.x is None else built.read(solution.x)
            if found is not None and changed(within, found, goal) < best:
                left = problem.levels(found).left
                if left <= reached.left + problem.same:
                    best, placement = changed(within, found, goal), found
        elif best > 0:
            why = "time_limit"
        if best - bound <= max(0.5 if goal == "switches" else 0.0, 1e-6 * best):
            bound = best
        answer.levels.append(LevelAnswer(goal, best, min(bound, best), why))
        within = within.cost_within(within.moving_cost(placement))
        answer.placement = placement
        if why == "interrupted":
            break
    return answer


def changed(problem: BalanceProblem, placement: Ints, goal: Goal) -> float:
    """Return the migration cost of a placement or the number of its switches."""
    if goal == "cost":
        return problem.moving_cost(placement)
    rules = problem.rules
    moved = (placement != rules.home) & (rules.home >= 0)
    return float(np.count_nonzero(moved & ~rules.migrates(placement)))


def value_of(levels: Levels, goal: Goal, weights: tuple[float, float] = (1.0, 0.0)) -> float:
    """Return what a goal minimises, counted from a placement's levels."""
    if goal == "distance":
        return levels.distance
    if goal == "left":
        return levels.left
    if goal == "sides":
        return levels.over + levels.under
    return weights[0] * levels.distance - weights[1] * levels.tightened


def _solve_level(
    problem: BalanceProblem,
    settings: Settings,
    goal: Goal,
    answer: BalanceAnswer,
    min_distance: float,
) -> LevelAnswer:
    """Improve and bound one level; `answer` takes in the better placement and the times."""
    aim = _aim(problem, settings, goal, answer, min_distance)
    known = _known_bound(problem, goal, answer, aim)
    if answer.placement is not None:
        value = value_of(problem.levels(answer.placement), goal, settings.weights)
        if value - known <= _tolerance(problem, settings, goal):
            return LevelAnswer(goal, value, min(known, value), _proven(problem, value - known))
    late = _is_late(problem, settings)
    if answer.placement is not None and (late or _left_as_is(problem, settings, goal)):
        value = value_of(problem.levels(answer.placement), goal, settings.weights)
        bound = min(known, value) if known > -math.inf else None
        return LevelAnswer(goal, value, bound, "time_limit" if late else "iteration_limit")
    target, pruned = _prune(problem, settings, goal, answer)
    if pruned is not None and pruned.refuted:
        value = value_of(problem.levels(answer.placement), goal)  # type: ignore[arg-type]
        known = max(known, target)
        return LevelAnswer(goal, value, known, _proven(problem, value - known))
    solution, built = _run_kept(problem, settings, aim, answer, pruned)
    solution = _in_our_terms(solution, aim, built)
    solution = _believed(problem, settings, goal, solution, built, answer)
    first = not answer.levels
    if first:
        answer.start_accepted = solution.warm_start_accepted
        offset = time.perf_counter() - solution.seconds - settings.started
        answer.trace = _trace_of(solution, goal, offset)
    if solution.x is not None:
        _take(problem, settings, built.read(solution.x), answer)
    if answer.placement is None:
        if solution.termination == "error":
            raise SolverError(f"{solution.solver}: {solution.message}")
        return LevelAnswer(goal, None, solution.bound, str(solution.termination))
    value = value_of(problem.levels(answer.placement), goal, settings.weights)
    bound = solution.bound
    if pruned is not None and bound is not None:
        bound = min(bound, target)
    if known > -math.inf:
        bound = known if bound is None else max(known, bound)
    bound = None if bound is None else min(bound, value)
    return LevelAnswer(goal, value, bound, _why(problem, settings, goal, value, bound, solution))


def _proven(problem: BalanceProblem, gap: float) -> str:
    """Name the end of a level that a known bound closes."""
    return "optimal" if gap <= problem.optimal_gap else "gap_reached"


def _prune(
    problem: BalanceProblem, settings: Settings, goal: Goal, answer: BalanceAnswer
) -> tuple[float, Pruned | None]:
    """Leave out moves that cannot better the known load distance by nine tenths of the gap."""
    if goal != "distance" or settings.form != "moves" or answer.placement is None:
        return 0.0, None
    if answer.levels:  # emptied first: the cap on what is left on leaving nodes is not in that LP
        return 0.0, None
    target = problem.levels(answer.placement).distance - 0.9 * settings.gap_of(problem)
    return target, prune_moves(problem, target, answer.placement, settings.remaining())


def _is_late(problem: BalanceProblem, settings: Settings) -> bool:
    """Whether the time that is left would go by while a level's model is made."""
    remaining = settings.remaining()
    if remaining is None:
        return False
    made_in = problem.num_tasks * problem.num_nodes * MODELLED if settings.form == "moves" else 0.0
    return remaining <= made_in


def _left_as_is(problem: BalanceProblem, settings: Settings, goal: Goal) -> bool:
    """Whether no model is solved for a level: the plan known and its bound stand."""
    binaries = problem.num_tasks * problem.num_nodes
    if goal == "sides":
        return binaries > MAX_TIE_BINARIES or settings.gap_of(problem) > problem.optimal_gap
    return binaries > MAX_BINARIES and settings.form == "moves"


def _aim(
    problem: BalanceProblem,
    settings: Settings,
    goal: Goal,
    answer: BalanceAnswer,
    min_distance: float,
) -> Aim:
    """Fix what earlier levels reached; on the first level cap d at the start's value."""
    if answer.placement is None:
        return Aim(goal, min_distance=min_distance, weights=settings.weights)
    reached = problem.levels(answer.placement)
    settled = [level.goal for level in answer.levels]
    caps = {}
    if "distance" in settled or goal == "distance":
        caps["max_distance"] = reached.distance + CAP * max(1.0, reached.distance)
    if "left" in settled:
        caps["max_left"] = reached.left + CAP * max(1.0, reached.left)
    return Aim(goal, min_distance=min_distance, weights=settings.weights, **caps)


def _known_bound(problem: BalanceProblem, goal: Goal, answer: BalanceAnswer, aim: Aim) -> float:
    """Return what is proven of a level before any solve, −inf if nothing is."""
    if goal == "distance":
        return max(0.0, aim.min_distance)
    if goal == "left":
        return 0.0
    if goal == "sides" and answer.placement is not None:
        # one of both sides is the load distance itself, the other is at least 0
        proven = [level.bound for level in answer.levels if level.goal == "distance"]
        return 0.0 if not proven or proven[0] is None else proven[0]
    return -math.inf


def _tolerance(problem: BalanceProblem, settings: Settings, goal: Goal) -> float:
    """Absolute gap at which a level may stop, in its own unit."""
    if goal == "switches":
        return 0.5
    if goal == "cost":
        return 1e-9 * float(problem.cost.sum())
    gap = settings.gap_of(problem)
    if goal == "weighted":
        return gap * min(weight for weight in settings.weights if weight > 0)
    return gap


def _run_kept(
    problem: BalanceProblem,
    settings: Settings,
    aim: Aim,
    answer: BalanceAnswer,
    pruned: Pruned | None,
) -> tuple[LinearSolution, BalanceModel]:
    """Solve one level's model, anew while its plan breaks a limit by the solver's rounding."""
    built: list[BalanceModel] = []

    def solve() -> LinearSolution:
        solution, model = _run(problem, settings, aim, answer, pruned)
        built[:] = [model]
        return solution

    def cut_off(x: Floats) -> bool:
        placement = built[0].read(x)
        if problem.is_feasible(placement):
            return False
        answer.cuts += cuts_of(problem, placement)
        return True

    solution, _ = solve_kept(solve, cut_off, lambda: settings.remaining() == 0.0)
    return solution, built[0]


def _run(
    problem: BalanceProblem,
    settings: Settings,
    aim: Aim,
    answer: BalanceAnswer,
    pruned: Pruned | None,
) -> tuple[LinearSolution, BalanceModel]:
    """Build and solve one level's model, the best placement so far as its start."""
    begun = time.perf_counter()
    if settings.form == "full":
        built = build_full(problem, aim)
    else:
        moves = None if pruned is None else (pruned.task, pruned.node)
        built = build_moves(problem, aim, moves)
    add_cuts(built.model, answer.cuts, built.placing)
    start = None if answer.placement is None else built.write(answer.placement)
    built.model.freeze()
    built_at = time.perf_counter()
    remaining = settings.remaining()
    last = aim.goal in ("sides", "weighted", "switches")
    solution = solve_linear(
        built.model,
        settings.solver,
        time_limit=remaining if remaining is None or last else remaining * TIME_SHARE,
        abs_gap=STOP_SHARE * _tolerance(problem, settings, aim.goal),
        seed=settings.seed,
        threads=settings.threads,
        warm_start=start,
        options=_native(settings, aim.goal, bool(answer.levels) or aim.goal in CHANGES),
        progress=settings.progress if aim.goal == "distance" else None,
    )
    answer.build_seconds += built_at - begun + solution.build_seconds
    answer.solver = solution.solver
    if solution.message and solution.message not in answer.notes:
        answer.notes.append(solution.message)
    return solution, built


def _in_our_terms(solution: LinearSolution, aim: Aim, built: BalanceModel) -> LinearSolution:
    """Report the third level as the sum of both sides, which does not depend on d.

    Its model minimises −(d_u + d_l) with d ≤ D, where d_u ≤ d − over and d_l ≤ d − under. Adding
    2·D gives an upper estimate of over + under for a solution, and its minimum is that of the sum.
    """
    if aim.goal != "sides":
        return solution
    shift = 2.0 * float(built.model.freeze().upper[built.sides.start])
    objective = None if solution.objective is None else solution.objective + shift
    bound = None if solution.bound is None else solution.bound + shift
    return replace(solution, objective=objective, bound=bound)


def _native(settings: Settings, goal: Goal, later: bool) -> dict[str, Any]:
    """Return native options: a later level without a time limit gets a limited amount of work."""
    limited = settings.deadline is None and later and goal != "distance"
    return {**(LIMITED_WORK[settings.solver] if limited else {}), **settings.options}


def _believed(
    problem: BalanceProblem,
    settings: Settings,
    goal: Goal,
    solution: LinearSolution,
    built: BalanceModel,
    answer: BalanceAnswer,
) -> LinearSolution:
    """Compare a solver's claims with our own count; what a known plan refutes is not believed.

    Raises
    ------
    SolverError
        An objective our count does not give.
    """
    if solution.x is not None and solution.objective is not None:
        placement = built.read(solution.x)
        value = value_of(problem.levels(placement), goal, settings.weights)
        if value > solution.objective + _agreement(value, settings, goal):
            raise SolverError(
                f"{solution.solver}: claims {goal} {solution.objective}, our count gives {value}"
            )
    if answer.placement is None:
        return solution
    false = ""
    value = value_of(problem.levels(answer.placement), goal, settings.weights)
    if solution.termination == "infeasible" and goal in ("distance", "weighted"):
        false = "calls infeasible what a known plan solves"
    elif solution.bound is not None and solution.bound > value + _agreement(value, settings, goal):
        false = f"claims the bound {solution.bound} on {goal}, a known plan has {value}"
    if not false:
        return solution
    answer.notes.append(f"{solution.solver} {false}: not believed")
    return replace(solution, bound=None, termination=LinearTermination.ITERATION_LIMIT)


def _agreement(value: float, settings: Settings, goal: Goal) -> float:
    scale = settings.weights[0] if goal == "weighted" else 1.0
    return AGREE * max(scale, abs(value))


def _take(
    problem: BalanceProblem, settings: Settings, placement: Ints, answer: BalanceAnswer
) -> None:
    """Keep the better of the known placement and a new one, by the objective as set."""
    new = problem.levels(placement)
    old = None if answer.placement is None else problem.levels(answer.placement)
    if old is None:
        less = True
    elif settings.objective == "weighted":
        less = value_of(new, "weighted", settings.weights) < (
            value_of(old, "weighted", settings.weights) - problem.same
        )
    else:
        first = settings.drain_first
        less = lexicographically_less(ordered(new, first), ordered(old, first), problem.same)
    if less:
        answer.placement = placement
        if settings.offer is not None:
            settings.offer(placement)


def _why(
    problem: BalanceProblem,
    settings: Settings,
    goal: Goal,
    value: float,
    bound: float | None,
    solution: LinearSolution,
) -> str:
    """Say why a level stopped: proven, within the gap asked for, or what the solver says."""
    if bound is not None:
        if goal != "weighted" and value - bound <= problem.optimal_gap:
            return "optimal"
        if value - bound <= _tolerance(problem, settings, goal):
            return "gap_reached" if goal != "weighted" else "optimal"
    stopped = str(solution.termination)
    if stopped == "infeasible":  # only a later level: caps lost in the solver's rounding
        return "error"
    # the solver met its own relative gap, which says less than ours in points
    return "gap_reached" if stopped == "optimal" and goal != "weighted" else stopped


def _trace_of(
    solution: LinearSolution, goal: Goal, offset: float
) -> list[tuple[float, float | None, float | None]]:
    """Return a level's trace on the method's clock; only the load distance has one."""
    if goal != "distance":
        return []
    return [(seconds + offset, value, bound) for seconds, value, bound in solution.trace]


@dataclass(frozen=True)
class Settings:
    """How to solve.

    Attributes
    ----------
    solver
        Back end.
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
    gap
        Difference to the bound at which a level may stop; optimal by default. Where it is wider,
        the sides get no model: what the search made of them stands.
    deadline
        ``time.perf_counter()`` value; ``None`` for no limit.
    seed, threads, options
        Passed to the solver.
    progress
        Receives the load distance and its bound.
    offer
        Given each better placement.
    started
        ``time.perf_counter()`` value from which the trace counts.
    """

    solver: str = "highs"
    form: Form = "moves"
    objective: Literal["lexicographic", "weighted"] = "lexicographic"
    weights: tuple[float, float] = (1e4, 1.0)
    drain_first: bool = False
    sides: bool = True
    gap: float | None = None
    deadline: float | None = None
    seed: int = 0
    threads: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[Progress], None] | None = None
    offer: Callable[[Any], None] | None = None
    started: float = field(default_factory=time.perf_counter)

    def remaining(self) -> float | None:
        """Seconds left, never negative; ``None`` without a limit."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - time.perf_counter())

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
    """What `solve_balance` found.

    Attributes
    ----------
    placement
        Best one, ``None`` if there is none.
    levels
        One answer for each level that was solved, in order.
    start_accepted
        Whether the solver took the start it was given at the first level.
    cuts
        What plans broke that a solver took for feasible; see `formulations.rebalancing.covers`.
    notes, trace, build_seconds, solver
        For the result.
    """

    placement: Ints | None = None
    levels: list[LevelAnswer] = field(default_factory=list)
    start_accepted: bool | None = None
    cuts: list[Cut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    build_seconds: float = 0.0
    solver: str | None = None


#: LP relaxations beyond this size take longer than they save.
MOST_PRICED = 100_000

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
        A placement whose moves hold in any case.
    seconds
        For each LP; nothing is left out where that is too short.
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
        keep &= value + reduced <= allowed
    keep |= known[task] == node
    return Pruned(task[keep], node[keep], refuted=False)


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
