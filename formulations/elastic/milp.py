"""`eoa-milp`: exact elastic operator allocation under CPU and bandwidth limits.

Utilisation is settled level by level: least CPU capacity in use, then least traffic between nodes.
Deviation is the paper's R_dev, or its linear counterpart, the mean absolute deviation. Where the
sets of tasks that a node can hold are few enough, the model has one variable for each (the pattern
form); else one for each task and node with products of communicating pairs (the compact form).

Source: the elastic operator allocation problem of the Elastic Allocator, SOSE 2014, section IV.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.column_generation.driver import warm_up
from formulations.elastic.problem import (
    FIGURES,
    LEVELS,
    EoaProblem,
    LevelAnswer,
    Settings,
    eoa_problem,
    in_figure,
    largest_share,
    value_of,
)
from formulations.task_allocation import milp as linear
from formulations.task_allocation.common import KNOWN_FORMS, LINEAR_FORMS
from optim.errors import Problem, UnsuitableMethod
from optim.kernels.place_rules import at_the_edge
from optim.methods.reduce import emptied_or_any, lowered
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Level, Termination, evaluate_indices
from optim.rules.base import Form
from optim.util.progress import Progress

if TYPE_CHECKING:
    from formulations.elastic.exact import PatternForm
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Request
    from optim.solvers.mps import PosedModel

MOST_PATTERNS = 1_000_000  # Sets of tasks beyond which the pattern form is not used.
_NO_FIGURE = 1e-12  # Deviations below this part of the largest share in use are 0 up to rounding.


def run(instance: Instance, request: Request) -> Outcome:
    """Solve the levels of the objective one after the other.

    Raises `UnsuitableMethod`: the models would be too large, the form asked for does not suit the
        instance, or it has continuous variables and the solver takes integers only.
    """
    request.start()  # an incumbent for a Ctrl-C while kernels compile or the first level runs
    request, compiling = request.warmed(warm_up)
    instance = _lowered(instance)
    problem = eoa_problem(instance)
    settings = Settings(request, request.solver or "highs")
    objective = request.objective or METHOD.objective
    form = _form(problem, settings, request.options["form"], objective)
    if form is None:
        outcome = _by_products(instance, request)
        outcome.times["compile"] = compiling
        return outcome
    built = request.elapsed()
    starts = _starts(problem, request, heuristics=form.large)
    answers: list[LevelAnswer] = []
    for goal in LEVELS[objective]:
        caps = [(a.goal, a.value) for a in answers if a.value is not None]
        answer = form.solve(goal, caps, starts)
        answers.append(answer)
        if len(answers) == 1:
            _report(request, answer)
        if answer.place is None or answer.termination == "interrupted" or settings.over():
            break
        starts = [answer.place]
    outcome = _outcome(problem, answers)
    outcome.times = {"compile": compiling, "build": built + sum(a.build for a in answers)}
    if request.warm_start is not None and outcome.warm_start_accepted is None:
        outcome.warm_start_accepted = bool(starts)
    return outcome


def pose(instance: Instance, request: Request) -> PosedModel:
    """Return the compact model of the first level.

    Raises `UnsuitableMethod`: it would be too large, or the objective is quadratic.
    """
    return linear.pose(METHOD.name, _lowered(instance), _by_figures(request))


def _lowered(instance: Instance) -> Instance:
    """Write what capacities can say as such."""
    return lowered(instance, METHOD.honours - {"sets", "max_load_distance"})


def _by_figures(request: Request) -> Request:
    """Ask for the levels as figures of the linear model.

    Raises `UnsuitableMethod`: one is quadratic.
    """
    goals = LEVELS[request.objective or METHOD.objective]
    if "squares" in goals:
        reason = (
            "needs all sets of tasks that a node can hold, which are too many here, or bound "
            "by limits that sets do not show, or nodes of unequal capacity"
        )
        remedy = "use --objective mean_absolute_deviation"
        raise UnsuitableMethod(Problem("--objective", "cpu_deviation", reason, remedy))
    return replace(request, objective=",".join(FIGURES[goal] for goal in goals))


def _by_products(instance: Instance, request: Request, *, drain: bool = True) -> Outcome:
    """Solve by the linear model of `plan-milp`: products of communicating pairs.

    `drain`: whether what is on leaving nodes must leave them.
    """
    outcome = linear.run(METHOD.name, instance, _by_figures(request), drain=drain)
    first = FIGURES[LEVELS[request.objective or METHOD.objective][0]]
    outcome.levels = (Level(first, "min", outcome.claimed, outcome.bound), *outcome.levels)
    outcome.notes.insert(0, "products form")
    return outcome


def _among_all(instance: Instance, request: Request) -> Outcome | None:
    """Look among all plans for the least deviation of the staying nodes; ``None`` where it cannot.

    It takes products: deviations do not add up over patterns beside nodes that are not counted.
    """
    try:
        return _by_products(_lowered(instance), request, drain=False)
    except UnsuitableMethod:
        return None


def _report(request: Request, answer: LevelAnswer) -> None:
    """Note what the first level found, in the trace and to whoever listens."""
    value, bound = in_figure(answer.goal, answer.value), in_figure(answer.goal, answer.bound)
    seconds = request.elapsed()
    answer.trace.append((seconds, value, bound))
    if request.progress is not None:
        request.progress(Progress(seconds, value, bound, FIGURES[answer.goal]))


def _form(
    problem: EoaProblem, settings: Settings, wanted: str, objective: str
) -> PatternForm | None:
    """Return the pattern form, where sets are few enough and the goal adds up over nodes.

    ``None`` for the form of products.
    """
    from formulations.elastic.exact import PatternForm, columns_of, unknown_set

    if wanted == "products":
        return None
    adds_up = objective == "used_capacity" or problem.even_mean is not None
    unknown = unknown_set(problem)
    # what stays of these streams is in no pair, and sets of tasks add up pairs
    follows = bool(problem.instance.flows.local) and "network" in LEVELS[objective]
    listed = adds_up and unknown is None and not follows
    columns = columns_of(problem, MOST_PATTERNS) if listed else None
    if columns is not None:
        return PatternForm(problem, columns, settings)
    if wanted == "patterns":
        reason = f"has more than {MOST_PATTERNS:,} sets of tasks that a node can hold"
        if not adds_up:
            reason = "has nodes of unequal capacity, whose deviations do not add up over the nodes"
        if unknown is not None:
            reason = (
                f"does not support sets together on one rack, or spread over racks, as {unknown}"
            )
        if follows:
            reason = "does not support local_first streams: it adds up the traffic of pairs"
        remedy = "use form=products"
        raise UnsuitableMethod(Problem("--option form", "patterns", reason, remedy))
    return None


def _starts(problem: EoaProblem, request: Request, *, heuristics: bool) -> list[Ints]:
    """Return the warm start and the current placement, where they are complete and feasible."""
    # one at the edge of the tolerance is none: the models do not hold it. Heuristics of the family
    # run where the model is large
    instance = problem.instance
    candidates = [] if request.warm_start is None else [np.asarray(request.warm_start)]
    if instance.has_current and not request.cold:
        candidates.append(instance.tasks.node)
    family_start = request.start() if heuristics else None
    if family_start is not None:
        candidates.append(family_start.node)
    free, runs = problem.free, problem.fixed >= 0
    return [
        node[free].astype(np.int32)
        for node in candidates
        if (node[runs] == problem.fixed[runs]).all()
        and problem.may[np.arange(len(free)), node[free]].all()
        and evaluate_indices(instance, node.astype(np.int32)).feasible
        and not at_the_edge(instance, node.astype(np.int32))
    ]


def _outcome(problem: EoaProblem, answers: list[LevelAnswer]) -> Outcome:
    """Turn the levels into an outcome: the first one's figure and bound, the others beside it."""
    main, last = answers[0], next((a for a in reversed(answers) if a.place is not None), None)
    stopped = [a.termination for a in answers]
    outcome = Outcome(
        Termination("interrupted" if "interrupted" in stopped else main.termination),
        warm_start_accepted=main.accepted,
        solver=main.solver,
        notes=["patterns form", *(note for a in answers for note in a.notes)],
        trace=main.trace,
    )
    if outcome.termination is Termination.INFEASIBLE:
        return outcome
    outcome.bound = in_figure(main.goal, main.bound)
    if last is not None and last.place is not None:
        outcome.node = problem.placement(last.place)
        if last is not main:  # stopped at a gap, the next level may have bettered this one
            main.value = value_of(problem, main.goal, last.place)
        value = in_figure(main.goal, main.value)
        outcome.claimed = value
        deviates = main.goal in ("squares", "absolute")
        nothing = _NO_FIGURE * largest_share(problem)
        if deviates and value is not None and value < nothing:
            outcome.bound = value if outcome.bound is not None else 0.0
    outcome.levels = tuple(_level(a) for a in answers)
    for a in answers[1:]:
        if a.termination not in ("optimal", "gap_reached"):
            outcome.notes.append(f"{FIGURES[a.goal]}: best effort, stopped by {a.termination}")
    return outcome


def _level(answer: LevelAnswer) -> Level:
    value, bound = (in_figure(answer.goal, x) for x in (answer.value, answer.bound))
    unit = "rate" if answer.goal == "network" else ""
    return Level(FIGURES[answer.goal], "min", value, bound, unit)


METHOD = Method(
    name="eoa-milp",
    family="elastic allocator",
    kind="exact",
    objective="used_capacity",
    objectives=tuple(LEVELS),
    run=emptied_or_any(run, _among_all),
    pose=pose,
    summary="Least CPU capacity in use, then least network use, or least deviation; proven",
    source="Elastic Allocator, SOSE 2014, section IV",
    needs=("tasks", "nodes", "capacity"),
    forms=KNOWN_FORMS | LINEAR_FORMS | {Form.DISTANCE, Form.LOCAL_FIRST},
    options=(
        Option(
            "form",
            "str",
            "auto",
            "a variable for each set of tasks a node can hold, or products of pairs",
            choices=("auto", "patterns", "products"),
        ),
        Option("break_symmetry", "bool", True, "compact form: number identical nodes"),
    ),
    solvers=("highs", "scip", "cbc", "cp-sat"),
    default_solver="highs",
    takes_warm_start=True,
    starts=("gma",),
    cold=True,
)
