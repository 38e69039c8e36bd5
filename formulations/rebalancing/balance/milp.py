"""`balance-milp`: ALBIC's load-balance MILP, exact, with a budget of migrations.

Madsen, Zhou, Cao 2016, section 4.3.1: minimise the load distance d first, then (leaving nodes) what
is left on them, then tighten both sides of d.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.balance.classes import solve_by_classes
from formulations.rebalancing.balance.instance import balance_problem, binding_names
from formulations.rebalancing.balance.model import Aim, build_full, build_moves
from formulations.rebalancing.balance.prepare import (
    Prepared,
    best_start,
    cannot_be_emptied,
    drained_start,
    emptied,
    impossible,
    none_within,
    not_emptied,
    prepare_balance,
)
from formulations.rebalancing.balance.search import by_exchanges, warm_up
from formulations.rebalancing.balance.solve import (
    BalanceAnswer,
    LevelAnswer,
    Settings,
    least_changed,
    solve_balance,
    value_of,
)
from formulations.rebalancing.problem import make_problem, ordered
from optim.errors import InvalidInput, Problem, UnsuitableMethod
from optim.kernels.place_rules import place_rules
from optim.methods.registry import Method, Option, Outcome
from optim.referee.result import Level, Termination
from optim.rules.base import LOADS, OF_MOVES, Form
from optim.solvers.mps import PosedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from formulations.rebalancing.balance.model import Goal
    from formulations.rebalancing.problem import BalanceProblem, Ints
    from optim.format.instance import Instance
    from optim.methods.registry import Request
    from optim.referee.evaluation import Evaluation

    Rank = Callable[[Any, Evaluation], tuple[float, ...] | None]

_NAMES = {
    "distance": ("load_distance", "min"),
    "left": ("load_on_leaving_nodes", "min"),
    "sides": ("sum_of_sides", "min"),
    "weighted": ("weighted", "min"),
    "cost": ("migration_cost", "min"),
    "switches": ("switches", "min"),
}

_UNITS = {"cost": "cost", "switches": "count"}

#: Levels that the search before the solver may fail at, one after the other.
SEARCH_TRIES = 100


def run(instance: Instance, request: Request) -> Outcome:
    """Rebalance an instance; the method's entry point.

    Raises
    ------
    UnsuitableMethod
        A task that stands on a staying node may be on leaving ones only.
    SolverError
        A solver's claim does not survive our own count.
    """
    options = request.options
    problem = balance_problem(instance, "balance-milp")
    hard = options["drain"] == "hard" and problem.has_leaving
    none = impossible(instance, problem) or (hard and cannot_be_emptied(problem))
    if hard:
        problem = emptied(problem)
    rank = _rank(problem, options)
    if none:
        notes = [not_emptied(problem)] if hard else []
        return Outcome(Termination.INFEASIBLE, notes=notes, rank=rank)
    classes = (_warm_up_classes,) if options["form"] in ("auto", "classes") else ()
    request, compiled = request.warmed(warm_up, *classes)
    starts, notes = _starts(problem, request)
    settings = replace(_settings(request), sides=not len(instance.tasks.copied))
    exchanged = None if request.cold else by_exchanges(problem)
    starts += [] if exchanged is None else [exchanged]
    prepared = prepare_balance(problem, settings, starts, 0 if request.cold else SEARCH_TRIES)
    if prepared.interrupted:
        return _interrupted(problem, prepared)
    starts = prepared.starts
    if best_start(problem, starts) is None:
        held = request.start()
        starts += [] if held is None else [held.node.astype(np.int64)]
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
    if not settings.sides and answer.placement is not None and not options["weighted"]:
        changes = least_changed(problem, settings, answer.placement, place_rules(instance))
        answer.placement = changes.placement
        answer.levels += changes.levels
    outcome = _outcome(instance, problem, answer, settings)
    # what is not reported here, the search before the solver too, counts as solving
    outcome.times = {"compile": compiled, "build": answer.build_seconds}
    outcome.notes[:0] = notes
    outcome.rank = rank
    if settings.drain_first and problem.has_leaving:
        outcome.assumes = ("that leave as little as can be on leaving nodes",)
    if hard and outcome.termination is Termination.INFEASIBLE:
        outcome.notes.append(not_emptied(problem))
    elif hard:
        outcome.assumes = ("that empty leaving nodes of all that may go elsewhere",)
        if outcome.node is None:
            outcome.notes.append(not_emptied(problem))
    if request.warm_start is not None and outcome.warm_start_accepted is None:
        outcome.warm_start_accepted = problem.is_feasible(request.warm_start.astype(np.int64))
    return outcome


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
    return PosedModel(built.model, _NAMES[goal][0], ids=binding_names(instance))


def _warm_up_classes() -> None:
    """Compile the programme over counts, or load it from the disk, on a tiny problem."""
    solve_by_classes(make_problem([1.0, 1.0], [0, 0], 2), Settings())


def _by_classes(
    problem: BalanceProblem, settings: Settings, form: str, starts: list[Ints]
) -> BalanceAnswer | None:
    """Solve by counts of equal key groups, where asked for or where that is the smaller form.

    Raises
    ------
    UnsuitableMethod
        The form is asked for and there are too many classes, or it does not know an option.
    """
    if form not in ("auto", "classes"):
        return None
    answer = solve_by_classes(problem, settings, starts)
    if answer is None and form == "classes":
        raise UnsuitableMethod(
            Problem(
                "--option form",
                form,
                "needs many equal key groups, one kind of budget, no weighted objective, a "
                "drain other than first, and no sets, max_inflow or copies",
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
    return home, ["the warm start breaks a limit and was not used"]


def _settings(request: Request) -> Settings:
    options, limit = request.options, request.time_limit
    if options["weighted"] and not options["w1"] > 2 * options["w2"]:
        reason = f"is not above 2·w2 = {2 * options['w2']:g}: more load distance would pay"
        raise InvalidInput(Problem("--option w1", options["w1"], reason, "w1 is to be much larger"))
    return Settings(
        solver=request.solver or METHOD.default_solver or "highs",
        form="full" if options["form"] == "full" else "moves",
        objective="weighted" if options["weighted"] else "lexicographic",
        weights=(float(options["w1"]), float(options["w2"])),
        drain_first=options["drain"] == "first",
        gap=request.gap,
        deadline=None if limit is None else request.started + limit,
        seed=request.seed,
        threads=request.threads,
        progress=request.progress,
        offer=request.offer,
        started=request.started,
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


def _outcome(
    instance: Instance, problem: BalanceProblem, answer: BalanceAnswer, settings: Settings
) -> Outcome:
    """Turn the levels into an outcome: the load distance with its bound, the others beside it."""
    main = _main(answer)
    outcome = Outcome(
        Termination(_termination(answer, main)),
        node=answer.placement,
        bound=_distance_bound(problem, main, settings),
        levels=tuple(told_level(level) for level in answer.levels),
        notes=answer.notes,
        warm_start_accepted=answer.start_accepted,
        trace=answer.trace,
        solver=answer.solver,
    )
    if answer.placement is not None:
        outcome.claimed = problem.levels(answer.placement).distance
        for level in answer.levels:
            if level is not main and level.termination not in ("optimal", "gap_reached"):
                name = _NAMES[level.goal][0]
                outcome.notes.append(f"{name}: best effort, stopped by {level.termination}")
        if main.goal == "weighted" and main.termination in ("optimal", "gap_reached"):
            outcome.termination = Termination.HEURISTIC  # of the load distance, until it is met
            outcome.notes.append("optimal is the weighted sum; the bound is of load distance alone")
    elif outcome.termination is Termination.INFEASIBLE:
        outcome.notes.append(none_within(problem))
    return outcome


def _main(answer: BalanceAnswer) -> LevelAnswer:
    """Return the level that is reported as the objective; an unsolved one where none was
    reached.
    """
    for level in answer.levels:
        if level.goal in ("distance", "weighted"):
            return level
    why = answer.levels[-1].termination if answer.levels else "time_limit"
    return LevelAnswer("distance", None, None, why)


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


def told_level(level: LevelAnswer) -> Level:
    """Return a level as results report it."""
    name, sense = _NAMES[level.goal]
    sign = -1.0 if sense == "max" else 1.0
    value = None if level.value is None else sign * level.value + 0.0
    bound = None
    if level.bound is not None and math.isfinite(level.bound):
        bound = sign * level.bound + 0.0
    return Level(name, sense, value, bound, _UNITS.get(level.goal, "resource"))


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
