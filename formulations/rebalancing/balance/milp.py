"""`balance-milp`: ALBIC's load-balance MILP, exact, with a budget of migrations.

Madsen, Zhou, Cao 2016, section 4.3.1: minimise the load distance d first, then (leaving nodes) what
is left on them, then tighten both sides of d.

Where nodes hold copies of each other's state (`tasks[].copies`) every copied byte and every switch
is a change that somebody has to carry out: then the last levels are the least of these.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.rebalancing.balance.classes import solve_by_classes
from formulations.rebalancing.balance.model import (
    MAX_BINARIES,
    Aim,
    BalanceAnswer,
    LevelAnswer,
    Pruned,
    Settings,
    add_cuts,
    build_full,
    build_moves,
    cuts_of,
    prune_moves,
    value_of,
)
from formulations.rebalancing.balance.search import (
    Prepared,
    best_start,
    by_exchanges,
    drained_start,
    prepare_balance,
    warm_up,
)
from formulations.rebalancing.bound import cannot_be_emptied, forced_moves_bound, impossible
from formulations.rebalancing.problem import (
    balance_problem,
    binding_names,
    emptied,
    lexicographically_less,
    note_infeasible,
    note_not_drained,
    ordered,
    plain_problem,
)
from optim.errors import InvalidInput, Problem, SolverError, UnsuitableMethod
from optim.kernels.place_rules import place_rules
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Level, Termination
from optim.rules.base import LOADS, OF_MOVES, Form
from optim.solvers import LIMITED_WORK, LinearTermination, solve_kept, solve_linear
from optim.solvers.mps import PosedModel
from optim.util.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from formulations.rebalancing.balance.model import BalanceModel, Goal
    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints
    from optim.format.instance import Instance
    from optim.kernels.place_rules import PlaceRules
    from optim.methods.registry import Request
    from optim.referee import Evaluation
    from optim.solvers import LinearSolution

    Rank = Callable[[Any, Evaluation], tuple[float, ...] | None]


_NAMES = {
    "distance": "load_distance",
    "left": "load_on_leaving_nodes",
    "sides": "sum_of_sides",
    "weighted": "weighted",
    "moves": "migrations",
    "cost": "migration_cost",
    "switches": "switches",
}

_UNITS = {"moves": "count", "cost": "cost", "switches": "count"}

SEARCH_TRIES = 100  # Levels that the search before the solver may fail at, one after the other.


def run(instance: Instance, request: Request) -> Outcome:
    """Rebalance an instance; the method's entry point.

    Raises `UnsuitableMethod`: a task that stands on a staying node may be on leaving ones only.
    Raises `SolverError`: a solver's claim does not survive our own count.
    """
    options = request.options
    problem = balance_problem(instance, "balance-milp")
    hard = options["drain"] == "hard" and problem.has_leaving
    none = impossible(instance, problem) or (hard and cannot_be_emptied(problem))
    if hard:
        problem = emptied(problem)
    rank = _rank(problem, options)
    if none:
        notes = [note_not_drained(problem)] if hard else []
        return Outcome(Termination.INFEASIBLE, notes=notes, rank=rank)
    classes = (_warm_up_classes,) if options["form"] in ("auto", "classes") else ()
    request, compiled = request.warmed(warm_up, *classes)
    starts, notes = _starts(problem, request)
    settings = replace(_settings(request), sides=not len(instance.tasks.copied))
    # exchanges of replicas cost nothing: a start, and preferred where nothing is better
    exchanged = None if request.cold else by_exchanges(problem)
    starts += [] if exchanged is None else [exchanged]
    prepared = prepare_balance(problem, settings, starts, 0 if request.cold else SEARCH_TRIES)
    if prepared.interrupted:
        return _interrupted(problem, prepared)
    starts = prepared.starts
    if best_start(problem, starts) is None:
        family_start = request.start()
        starts += [] if family_start is None else [family_start.node.astype(np.int64)]
    if settings.drain_first and problem.has_leaving and not request.cold:
        drained = drained_start(problem, settings, SEARCH_TRIES)
        starts += [] if drained is None else [drained]
    answer = _by_classes(problem, settings, options["form"], starts)
    if answer is None:
        answer = solve_balance(problem, settings, starts, prepared.bound)
    if exchanged is not None and answer.placement is not None and not options["weighted"]:
        levels = (problem.levels(placement) for placement in (answer.placement, exchanged))
        if not problem.is_better(*levels):  # as good, and nothing is copied
            answer = replace(answer, placement=exchanged)
    if answer.placement is not None and _may_change_less(settings, answer):
        changes = least_changed(problem, settings, answer.placement, place_rules(instance))
        answer.placement = changes.placement
        answer.levels += changes.levels
    outcome = _outcome(problem, answer, settings)
    # what is not reported here, the search before the solver too, counts as solving
    outcome.times = {"compile": compiled, "build": answer.build_seconds}
    outcome.notes[:0] = notes
    outcome.rank = rank
    if settings.drain_first and problem.has_leaving:
        outcome.assumes = ("that leave as little as can be on leaving nodes",)
    if hard and outcome.termination is Termination.INFEASIBLE:
        outcome.notes.append(note_not_drained(problem))
    elif hard:
        outcome.assumes = ("that empty leaving nodes of all that may go elsewhere",)
        if outcome.node is None:
            outcome.notes.append(note_not_drained(problem))
    if request.warm_start is not None and outcome.warm_start_accepted is None:
        outcome.warm_start_accepted = problem.is_feasible(request.warm_start.astype(np.int64))
    return outcome


def _may_change_less(settings: Settings, answer: BalanceAnswer) -> bool:
    """Whether what a plan changes is minimised: with copies, or where all levels are proved."""
    if settings.objective == "weighted":
        return False
    return not settings.sides or all(level.termination == "optimal" for level in answer.levels)


def pose(instance: Instance, request: Request) -> PosedModel:
    """Return the model of the first level over all moves, or in the paper's full form."""
    problem, settings = balance_problem(instance, METHOD.name), _settings(request)
    if request.options["drain"] == "hard" and problem.has_leaving:
        problem = emptied(problem)
    goal: Goal = "weighted" if request.options["weighted"] else "distance"
    if settings.drain_first and problem.has_leaving:
        goal = "left"
    build = build_full if settings.form == "full" else build_moves
    built = build(problem, Aim(goal, weights=settings.weights))
    return PosedModel(built.model, _NAMES[goal], ids=binding_names(instance))


def _warm_up_classes() -> None:
    """Compile the programme over counts, or load it from the disk, on a tiny problem."""
    solve_by_classes(plain_problem([1.0, 1.0], [0, 0], 2), Settings())


def _by_classes(
    problem: BalanceProblem, settings: Settings, form: str, starts: list[Ints]
) -> BalanceAnswer | None:
    """Solve by counts of equal key groups, where asked for or where that is the smaller form."""
    if form not in ("auto", "classes"):
        return None
    answer = solve_by_classes(problem, settings, starts)
    if answer is None and form == "classes":
        raise UnsuitableMethod(
            Problem(
                "--option form",
                form,
                "needs many equal key groups, one kind of budget, no weighted objective, a "
                "drain other than first, and no sets, limits of inflow or copies",
                "use form=moves",
            )
        )
    return answer


def _starts(problem: BalanceProblem, request: Request) -> tuple[list[Ints], list[str]]:
    """Return the placements to start from, and notes on one that was not used."""
    home = [] if request.cold else [problem.home]
    if request.warm_start is None:
        return home, []
    start = request.warm_start.astype(np.int64)
    if problem.is_feasible(start):
        return [start, *home], []
    return home, ["the warm start violates a limit and was not used"]


def _settings(request: Request) -> Settings:
    options = request.options
    if options["weighted"] and not options["w1"] > 2 * options["w2"]:
        reason = f"is not above 2·w2 = {2 * options['w2']:g}: more load distance would pay"
        raise InvalidInput(
            Problem("--option w1", options["w1"], reason, "choose w1 far above 2·w2")
        )
    return Settings.of(
        request,
        progress=request.progress,
        form="full" if options["form"] == "full" else "moves",
        objective="weighted" if options["weighted"] else "lexicographic",
        weights=(float(options["w1"]), float(options["w2"])),
        drain_first=options["drain"] == "first",
    )


def _rank(problem: BalanceProblem, options: Mapping[str, Any]) -> Rank | None:
    """Return how plans are ranked where that is not by the load distance alone."""
    hard = options["drain"] == "hard" and problem.has_leaving
    weights = (float(options["w1"]), float(options["w2"]))

    def rank(node: Any, evaluation: Evaluation) -> tuple[float, ...] | None:
        placement = node.astype(np.int64)
        if hard and problem.must_move[placement == problem.home].any():
            return None
        levels = problem.levels(placement)
        if options["weighted"]:
            return (_rounded(value_of(levels, "weighted", weights)),)
        return tuple(map(_rounded, ordered(levels, options["drain"] == "first")))

    return None if options["drain"] == "soft" and not options["weighted"] else rank


def _rounded(value: float) -> float:
    """Return a value without differences of rounding."""
    return float(f"{value:.9e}")


def _outcome(problem: BalanceProblem, answer: BalanceAnswer, settings: Settings) -> Outcome:
    """Turn the levels into an outcome: the load distance with its bound, the others beside it."""
    main = _main(answer)
    outcome = Outcome(
        Termination(_termination(answer, main)),
        node=answer.placement,
        bound=_distance_bound(problem, main, settings),
        levels=tuple(reported_level(level) for level in answer.levels),
        notes=answer.notes,
        warm_start_accepted=answer.start_accepted,
        trace=answer.trace,
        solver=answer.solver,
    )
    if answer.placement is not None:
        outcome.claimed = problem.levels(answer.placement).distance
        for level in answer.levels:
            if level is not main and level.termination not in ("optimal", "gap_reached"):
                outcome.notes.append(
                    f"{_NAMES[level.goal]}: best effort, stopped by {level.termination}"
                )
        if main.goal == "weighted" and main.termination in ("optimal", "gap_reached"):
            outcome.termination = Termination.HEURISTIC  # of the load distance, until it is met
            outcome.notes.append("optimal is the weighted sum; the bound is of load distance alone")
    elif outcome.termination is Termination.INFEASIBLE:
        outcome.notes.append(note_infeasible(problem))
    return outcome


def _main(answer: BalanceAnswer) -> LevelAnswer:
    """Return the level reported as the objective; an unsolved one where none was reached."""
    for level in answer.levels:
        if level.goal in ("distance", "weighted"):
            return level
    termination = answer.levels[-1].termination if answer.levels else "time_limit"
    return LevelAnswer("distance", None, None, termination)


def _interrupted(problem: BalanceProblem, prepared: Prepared) -> Outcome:
    """Report the best placement when Ctrl-C came before the solver did."""
    best = best_start(problem, prepared.starts)
    if best is None:
        return Outcome(Termination.INTERRUPTED, bound=prepared.bound)
    distance = problem.levels(best).distance
    bound = min(prepared.bound, distance)
    return Outcome(Termination.INTERRUPTED, node=best, claimed=distance, bound=bound)


def _termination(answer: BalanceAnswer, main: LevelAnswer) -> str:
    stopped = [level.termination for level in answer.levels]
    return "interrupted" if "interrupted" in stopped else main.termination


def _distance_bound(problem: BalanceProblem, main: LevelAnswer, settings: Settings) -> float | None:
    """Return the bound on d: of a weighted one, w1·d ≥ w1·d − w2·(d_u + d_l) ≥ bound."""
    if main.bound is None:
        return None
    bound = main.bound if main.goal == "distance" else main.bound / settings.weights[0]
    # the same loads added in another order may give a rounding less
    return max(0.0, bound - problem.same)


def reported_level(level: LevelAnswer) -> Level:
    """Return a level as results report it."""
    value = None if level.value is None else level.value + 0.0
    bound = None
    if level.bound is not None and math.isfinite(level.bound):
        bound = level.bound + 0.0
    return Level(_NAMES[level.goal], "min", value, bound, _UNITS.get(level.goal, "resource"))


#: Forms of what the model of the paper keeps, and so the published methods that solve it.
PUBLISHED = LOADS | {Form.NODE_FLOOR, Form.BUDGET, Form.DISTANCE}

METHOD = Method(
    name="balance-milp",
    family="rebalancing",
    kind="exact",
    objective="load_distance",
    run=run,
    pose=pose,
    summary="ALBIC's MILP: least load distance within a budget of migrations, proven",
    source="Madsen, Zhou, Cao 2016, section 4.3.1",
    needs=("tasks", "nodes"),
    forms=PUBLISHED | OF_MOVES | {Form.SETS, Form.NODE_COUNT, Form.LOCAL_FIRST},
    options=(
        Option(
            "form",
            "str",
            "auto",
            "variables for real moves only, the paper's one for each key group and node, or counts "
            "of equal key groups without a solver; auto: classes where these are few, else moves",
            choices=("auto", "classes", "moves", "full"),
        ),
        Option(
            "weighted",
            "bool",
            False,
            "the paper's w1·d − w2·(d_u + d_l) in one solve, not levels one after the other",
        ),
        Option("w1", "float", 1e4, "weight of d (weighted)", minimum=1e-9),
        Option("w2", "float", 1.0, "weight of d_u + d_l (weighted)", minimum=0.0),
        Option(
            "drain",
            "str",
            "soft",
            "load left on leaving nodes comes after the load distance, or (first) before it, as "
            "far as budgets go, or (hard) all that may go elsewhere must be off them",
            choices=("soft", "first", "hard"),
        ),
        Option(
            "allow_into_leaving",
            "bool",
            False,
            "let key groups move onto leaving nodes, as the paper's literal model does, and drop "
            "the limit leaving",
            drops="leaving",
        ),
    ),
    solvers=("cbc", "highs", "scip"),
    default_solver="highs",
    promises_feasibility=True,
    takes_warm_start=True,
    starts=("balance-search", "flux"),
    cold=True,
)


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

TIME_SHARE = 0.8  # Share of the remaining time for each level but the last.
COST_UNSEEN = 1e-9  # Of the sum of all costs: what a solver's tolerance may hide of a plan's.
#: Levels of what a plan changes, where nodes hold copies and where none do.
CHANGES: tuple[Goal, ...] = ("cost", "switches")
CHANGES_ALONE: tuple[Goal, ...] = ("moves", "cost")
MAX_ALONE_BINARIES = 2_000  # Size up to which that is a model where nodes hold no copies.
CHANGES_SHARE = 10  # Of the work that other levels get without a time limit, a tenth.


def solve_balance(
    problem: BalanceProblem,
    settings: Settings,
    starts: Sequence[Ints] = (),
    min_distance: float | None = None,
) -> BalanceAnswer:
    """Solve ALBIC's MILP, lexicographically or weighted.

    `starts`: placements to begin from; those that are not feasible are passed over. The answer is
        never worse than the best of them.
    `min_distance`: a proven lower bound of the load distance; the forced-moves bound if not given.
    Raises `SolverError`: a solver's claim does not survive our own count.
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
    answer.recount(problem, settings.weights)
    return answer


def least_changed(
    problem: BalanceProblem, settings: Settings, placement: Ints, rules: PlaceRules
) -> BalanceAnswer:
    """Of all placements that are as good, find the one that changes least.

    With copies that has the least migration cost, then the fewest switches; the sides of the load
    distance are not preserved. Without copies it has the fewest migrations, then their least cost.

    `placement`: the best one that is known; its load distance, and what it leaves on leaving nodes,
        are preserved.
    `rules`: of the instance, with all copies.
    Returns the placement itself, and no levels, where the model is too large.
    """
    answer = BalanceAnswer(placement=placement)
    binaries = problem.num_tasks * problem.num_nodes
    if binaries > (MAX_ALONE_BINARIES if settings.sides else MAX_TIE_BINARIES):
        return answer
    reached = problem.levels(placement)
    aim = Aim("cost", max_distance=reached.distance, max_left=reached.left)
    within = replace(problem, max_distance=reached.distance, counted=rules)
    if settings.sides:
        aim = replace(aim, max_sides=reached.over + reached.under + problem.same)
        settings = replace(settings, deadline=_soon(settings))
    settings = replace(settings, form="moves")
    for goal in CHANGES_ALONE if settings.sides else CHANGES:
        best = changed(within, placement, goal)
        bound, termination = 0.0, "optimal"
        if best > 0 and settings.remaining() != 0.0:
            solution, built = _run_until_kept(
                within, settings, replace(aim, goal=goal), answer, None
            )
            bound, termination = solution.bound or 0.0, str(solution.termination)
            if goal == "cost":  # a solver sees no cost below its tolerance of all costs together
                bound = max(0.0, bound - COST_UNSEEN * float(problem.cost.sum()))
            read_off = None if solution.x is None else built.read(solution.x)
            if read_off is not None and changed(within, read_off, goal) < best:
                other = problem.levels(read_off)
                good = other.left <= reached.left + problem.same
                if good and not (settings.sides and problem.is_better(reached, other)):
                    best, placement = changed(within, read_off, goal), read_off
        elif best > 0:
            termination = "time_limit"
        if best - bound <= max(1e-6 * best, 0.0 if goal == "cost" else 0.5):
            bound = best
        elif termination == "optimal":
            termination = "iteration_limit"
        answer.levels.append(LevelAnswer(goal, best, min(bound, best), termination))
        if goal == "moves":
            within = within.moves_within(int(best))
        else:
            within = within.cost_within(within.moving_cost(placement))
        answer.placement = placement
        if termination == "interrupted":
            break
    return answer


def _soon(settings: Settings) -> float | None:
    """Return the deadline of the last levels: they take no more than all before them, or 1 s."""
    if settings.deadline is None:
        return None
    now = time.perf_counter()
    return min(settings.deadline, now + max(1.0, now - settings.started))


def changed(problem: BalanceProblem, placement: Ints, goal: Goal) -> float:
    """Return the migrations of a placement, what they cost, or the number of its switches."""
    if goal == "moves":
        return float(problem.moves(placement))
    if goal == "cost":
        return problem.moving_cost(placement)
    rules = problem.rules
    moved = (placement != rules.home) & (rules.home >= 0)
    return float(np.count_nonzero(moved & ~rules.migrates(placement)))


def _solve_level(
    problem: BalanceProblem,
    settings: Settings,
    goal: Goal,
    answer: BalanceAnswer,
    min_distance: float,
) -> LevelAnswer:
    """Improve and bound one level; `answer` takes in the better placement and the times."""
    aim = _aim(problem, settings, goal, answer, min_distance)
    proven = _bound_before_solving(goal, answer, aim)
    if answer.placement is not None:
        value = value_of(problem.levels(answer.placement), goal, settings.weights)
        if value - proven <= _tolerance(problem, settings, goal):
            return LevelAnswer(goal, value, min(proven, value), _proven(problem, value - proven))
    late = _is_late(problem, settings)
    if answer.placement is not None and (late or _left_as_is(problem, settings, goal)):
        value = value_of(problem.levels(answer.placement), goal, settings.weights)
        bound = min(proven, value) if proven > -math.inf else None
        return LevelAnswer(goal, value, bound, "time_limit" if late else "iteration_limit")
    # the LP relaxation with a cap below the known distance: refuted, or fewer moves
    target, pruned = _prune(problem, settings, goal, answer)
    if pruned is not None and pruned.refuted:
        value = value_of(problem.levels(answer.placement), goal)  # type: ignore[arg-type]
        proven = max(proven, target)
        return LevelAnswer(goal, value, proven, _proven(problem, value - proven))
    solution, built = _run_until_kept(problem, settings, aim, answer, pruned)
    solution = _as_sum_of_sides(solution, aim, built)
    solution = _checked_claims(problem, settings, goal, solution, built, answer)
    # only the first level's start and trace are reported
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
    if proven > -math.inf:
        bound = proven if bound is None else max(proven, bound)
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
    build_seconds = (
        problem.num_tasks * problem.num_nodes * MODELLED if settings.form == "moves" else 0.0
    )
    return remaining <= build_seconds


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


def _bound_before_solving(goal: Goal, answer: BalanceAnswer, aim: Aim) -> float:
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
    if goal in ("switches", "moves"):
        return 0.5
    if goal == "cost":
        return COST_UNSEEN * float(problem.cost.sum())
    gap = settings.gap_of(problem)
    if goal == "weighted":
        return gap * min(weight for weight in settings.weights if weight > 0)
    return gap


def _run_until_kept(
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
    last = aim.goal in ("sides", "weighted", "switches", "moves")
    solution = solve_linear(
        built.model,
        settings.solver,
        time_limit=remaining if remaining is None or last else remaining * TIME_SHARE,
        abs_gap=STOP_SHARE * _tolerance(problem, settings, aim.goal),
        seed=settings.seed,
        threads=settings.threads,
        warm_start=start,
        options=_native(
            settings, aim.goal, bool(answer.levels) or aim.goal in (*CHANGES, *CHANGES_ALONE)
        ),
        progress=_progress_of(settings, aim.goal, answer),
    )
    answer.build_seconds += built_at - begun + solution.build_seconds
    answer.solver = solution.solver
    if solution.message and solution.message not in answer.notes:
        answer.notes.append(solution.message)
    return solution, built


def _progress_of(
    settings: Settings, goal: Goal, answer: BalanceAnswer
) -> Callable[[Progress], None] | None:
    """Report the load distance; of another level, that it runs, beside what is known of it."""
    report = settings.progress
    if report is None or goal == "distance":
        return report
    first = next((level for level in answer.levels if level.goal == "distance"), None)
    value, bound = (None, None) if first is None else (first.value, first.bound)
    before = time.perf_counter() - settings.started
    return lambda now: report(Progress(before + now.seconds, value, bound, f"least {goal}"))


def _as_sum_of_sides(solution: LinearSolution, aim: Aim, built: BalanceModel) -> LinearSolution:
    """Report the third level as the sum of both sides, which does not depend on d."""
    # its model minimises −(d_u + d_l) with d ≤ D, where d_u ≤ d − over and d_l ≤ d − under. Adding
    # 2·D gives an upper estimate of over + under for a solution, and its minimum is that of the
    # sum
    if aim.goal != "sides":
        return solution
    shift = 2.0 * float(built.model.freeze().upper[built.sides.start])
    objective = None if solution.objective is None else solution.objective + shift
    bound = None if solution.bound is None else solution.bound + shift
    return replace(solution, objective=objective, bound=bound)


def _native(settings: Settings, goal: Goal, later: bool) -> dict[str, Any]:
    """Return native options: a later level without a time limit gets a limited amount of work."""
    if settings.deadline is not None or not later or goal == "distance":
        return dict(settings.options)
    # without copies, what a plan changes comes after all that the paper asks for
    share = CHANGES_SHARE if settings.sides and goal in CHANGES_ALONE else 1
    limited = {name: most // share for name, most in LIMITED_WORK[settings.solver].items()}
    return {**limited, **settings.options}


def _checked_claims(
    problem: BalanceProblem,
    settings: Settings,
    goal: Goal,
    solution: LinearSolution,
    built: BalanceModel,
    answer: BalanceAnswer,
) -> LinearSolution:
    """Compare a solver's claims with our own count; what a known plan refutes is not believed."""
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
