"""`eoa-milp`: exact elastic operator allocation under CPU and bandwidth limits.

Utilisation is settled level by level: least CPU capacity in use, then least traffic between nodes.
Deviation is the paper's R_dev, or its linear counterpart, the mean absolute deviation. Where the
sets of tasks that a node can hold are few enough, the model has one variable for each (the pattern
form); else one for each task and node with products of communicating pairs (the compact form).

Source: the elastic operator allocation problem of the Elastic Allocator, SOSE 2014, section IV.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.column_generation.driver import warm_up
from formulations.elastic.problem import (
    FIGURES,
    LEVELS,
    EoaProblem,
    LevelAnswer,
    Settings,
    counted_nodes,
    eoa_problem,
    in_figure,
    largest_share,
    scale_of,
    shares,
    surely,
    value_of,
)
from formulations.model_rows import add_deviation, add_in_use, check_products
from formulations.task_allocation.common import (
    HONOURS,
    KNOWN_FORMS,
    LINEAR_FORMS,
    LINEAR_ONLY,
    relabelled,
)
from formulations.task_allocation.model import MOST_PRODUCTS, solve_exactly
from formulations.task_allocation.model import build as build_allocation
from optim.errors import Problem, UnsuitableMethod
from optim.figures.measures import node_loads
from optim.kernels.classes import node_classes
from optim.kernels.place_rules import at_the_edge, link_room, placing_room
from optim.methods.reduce import emptied_or_any, lowered, may_be_rewritten, without_leaving
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Level, Termination, evaluate_indices
from optim.rules import kept_by
from optim.rules.base import Form
from optim.solvers.interface import refuse_continuous
from optim.solvers.mps import PosedModel
from optim.util.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.elastic.exact import PatternForm
    from formulations.elastic.problem import Goal
    from formulations.task_allocation.model import AllocationModel
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.methods.registry import Request

MOST_PATTERNS = 1_000_000  # Sets of tasks beyond which the pattern form is not used.
_NO_FIGURE = 1e-12  # Deviations below this part of the largest share in use are 0 up to rounding.


def run(instance: Instance, request: Request, counted: Bools | None = None) -> Outcome:
    """Solve the levels of the objective one after the other.

    `counted`: (N,) nodes over which deviations are counted; the staying ones where it is not given.
    Raises `UnsuitableMethod`: the models would be too large, the form asked for does not suit the
        instance, or it has continuous variables and the solver takes integers only.
    """
    request.start()  # an incumbent for a Ctrl-C while kernels compile or the first level runs
    request, compiling = request.warmed(warm_up)
    options = request.options
    problem = _problem(instance, counted)
    settings = Settings(request, request.solver or "highs", options["break_symmetry"])
    objective = request.objective or METHOD.objective
    goals = LEVELS[objective]
    form = _form(problem, settings, options["form"], objective)
    if "absolute" in goals and form.name == "products":
        refuse_continuous(settings.solver, "the mean utilisation is continuous")
    built = request.elapsed()
    starts = _starts(problem, request, heuristics=form.large)
    answers: list[LevelAnswer] = []
    for goal in goals:
        caps = [(a.goal, a.value) for a in answers if a.value is not None]
        answer = form.solve(goal, caps, starts)
        answers.append(answer)
        if len(answers) == 1:
            _report(request, answer)
        if answer.place is None or answer.termination == "interrupted" or settings.over():
            break
        starts = [answer.place]
    outcome = _outcome(problem, form.name, answers)
    outcome.times = {"compile": compiling, "build": built + sum(a.build for a in answers)}
    if request.warm_start is not None and outcome.warm_start_accepted is None:
        outcome.warm_start_accepted = bool(starts)
    return outcome


def pose(instance: Instance, request: Request) -> PosedModel:
    """Return the compact model of the first level.

    Raises `UnsuitableMethod`: it would be too large, or the objective is quadratic.
    """
    problem, ordered = _problem(instance), request.options["break_symmetry"]
    form = ProductForm(problem, Settings(request, request.solver or "highs", ordered))
    goal = LEVELS[request.objective or METHOD.objective][0]
    product_model, unit = form.build(goal)
    ids = {"resource": problem.instance.resources}
    return PosedModel(product_model.allocation.model, FIGURES[goal], -unit, ids)


def _among_all(instance: Instance, request: Request) -> Outcome | None:
    """Look among all plans for the least deviation of the staying nodes; ``None`` where it cannot.

    It takes products: deviations do not add up over patterns beside nodes that are not counted.
    """
    if not may_be_rewritten(instance):
        return None
    try:
        return run(without_leaving(instance, may_stay=True), request, instance.open_nodes)
    except UnsuitableMethod:
        return None


def _problem(instance: Instance, counted: Bools | None = None) -> EoaProblem:
    """Put an instance into the terms of the models; what capacities can say is written so."""
    return eoa_problem(lowered(instance, METHOD.honours - {"sets", "max_load_distance"}), counted)


def _report(request: Request, answer: LevelAnswer) -> None:
    """Note what the first level found, in the trace and to whoever listens."""
    value, bound = in_figure(answer.goal, answer.value), in_figure(answer.goal, answer.bound)
    seconds = request.elapsed()
    answer.trace.append((seconds, value, bound))
    if request.progress is not None:
        request.progress(Progress(seconds, value, bound, FIGURES[answer.goal]))


def _form(
    problem: EoaProblem, settings: Settings, wanted: str, objective: str
) -> PatternForm | ProductForm:
    """Choose the form: patterns where they are few enough and the goal adds up over nodes."""
    from formulations.elastic.exact import PatternForm, columns_of, unknown_set

    if wanted == "products":
        return ProductForm(problem, settings)
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
    return ProductForm(problem, settings)


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


def _outcome(problem: EoaProblem, form: str, answers: list[LevelAnswer]) -> Outcome:
    """Turn the levels into an outcome: the first one's figure and bound, the others beside it."""
    main, last = answers[0], next((a for a in reversed(answers) if a.place is not None), None)
    stopped = [a.termination for a in answers]
    outcome = Outcome(
        Termination("interrupted" if "interrupted" in stopped else main.termination),
        warm_start_accepted=main.accepted,
        solver=main.solver,
        notes=[f"{form} form", *(note for a in answers for note in a.notes)],
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


# The compact form of `eoa-milp`: the textbook model of task allocation, and what EOA adds to it.
#
# y_n    node n is in use                    x_tn ≤ y_n,  Σ_t load_t x_tn ≤ room_n y_n
# d_n    distance of a share from the mean   d_n ≥ |u_n − ū|


@dataclass(frozen=True, eq=False)
class ProductModel:
    """A built model and where its variables are."""

    #: Tasks on nodes, products, links and rules: the first columns. To be maximised.
    allocation: AllocationModel
    used: NDArray[np.int64]  # Column of y of each node, -1 for none.
    #: Column of the mean share, after which those of the distances from it come; -1 for none.
    sides: int

    def vector(self, problem: EoaProblem, node: Ints) -> Floats:
        """Write (T,) nodes as a full column vector."""
        x = self.allocation.vector(node)
        modelled = np.flatnonzero(self.used >= 0)
        x[self.used[modelled]] = np.isin(modelled, node)
        if self.sides >= 0:
            load = node_loads(problem.instance, node)[:, 0]
            share = shares(problem, load) / largest_share(problem)
            x[self.sides] = share.mean()
            x[self.sides + 1 : self.sides + 1 + len(share)] = np.abs(share - share.mean())
        return x


class _Builder:
    """Adds one family of rows a method."""

    def __init__(self, problem: EoaProblem, allocation: AllocationModel) -> None:
        self.problem, self.allocation, self.model = problem, allocation, allocation.model
        self.task, self.node = allocation.task, allocation.node
        self.x = np.arange(len(self.task))
        self.z, self.rate = allocation.traffic()
        self.load, self.room = problem.instance.tasks.load, placing_room(problem.instance)
        self.used = np.full(problem.num_nodes, -1, dtype=np.int64)
        self.sides = -1

    def add_used(self) -> None:
        """What holds a task is in use, and else carries nothing; nodes of running ones are so."""
        problem, n = self.problem, self.problem.num_nodes
        empty = np.flatnonzero(problem.may.any(axis=0) & ~problem.occupied)
        y = self.model.add_variables(
            "used", len(empty), upper=1.0, integer=True, of={"node": empty}
        ).indices
        self.used[empty] = y
        add_in_use(self.model, self.allocation.placing, self.used)
        # Σ_t load_tr x_tn ≤ room_nr y_n, which is stronger than x ≤ y in the relaxation
        limited = np.flatnonzero(self.used[self.node] >= 0)
        x, node = self.x[limited], self.node[limited]
        for r in range(self.load.shape[1]):
            bound = empty[np.isfinite(self.room[empty, r])]
            on = np.isin(node, bound)
            self.model.add_sum(
                "capacity_in_use", -np.inf, 0.0, n,
                (node[on], x[on], self.load[self.task[limited[on]], r]),
                (bound, self.used[bound], -self.room[bound, r]),
                of={"node": np.arange(n), "resource": r},
            )  # fmt: skip

    def add_sides(self) -> None:
        """d_n ≥ |u_n − ū| over the staying nodes, ū a variable; in parts of the largest share."""
        problem, counted = self.problem, counted_nodes(self.problem)
        unit = largest_share(problem)
        # u_n = base_n + of_one_n Σ_t load_t x_tn, in parts of the largest share so that all are ≤ 1
        of_one = shares(problem, np.ones(problem.num_nodes)) / unit  # 0 for one without capacity
        base = shares(problem, problem.instance.nodes.background[:, 0]) / unit
        ids = [problem.instance.nodes.ids[n] for n in counted.tolist()]
        placing, load = self.allocation.placing, self.load[:, 0]
        columns = add_deviation(self.model, placing, load, base, of_one, ids, counted)
        self.sides = int(columns[0])

    def terms(self, goal: Goal) -> tuple[NDArray[Any], Floats, float]:
        """Columns, coefficients and constant of a goal."""
        problem = self.problem
        if goal == "capacity":
            nodes = np.flatnonzero(self.used >= 0)
            constant = float(problem.capacity_share[problem.occupied].sum())
            return self.used[nodes], problem.capacity_share[nodes], constant
        if goal == "network":
            return self.z, -self.rate, problem.instance.total_traffic
        m = len(counted_nodes(problem))
        weight = largest_share(problem) / m
        return np.arange(self.sides + 1, self.sides + 1 + m), np.full(m, weight), 0.0


def build(
    problem: EoaProblem,
    goal: Goal,
    caps: Sequence[tuple[Goal, float]],
    unit: float,
    *,
    whole: bool,
    break_symmetry: bool,
) -> ProductModel:
    """Build the model, the goal's negative to be maximised.

    `goal`, `caps`: what is minimised; goals of earlier levels with the most they may reach.
    `unit`: the objective is counted in this unit.
    """
    goals = {goal, *(name for name, _ in caps)}
    placement = build_allocation(
        problem.instance,
        break_symmetry=break_symmetry,
        alike=problem.node_keys,
        whole_products=whole,
        products="network" in goals or bool(np.isfinite(link_room(problem.instance)).any()),
        star_rows=True,
    )
    builder = _Builder(problem, placement)
    if "capacity" in goals:
        builder.add_used()
    if "absolute" in goals:
        builder.add_sides()
    cols, values, constant = builder.terms(goal)
    builder.model.set_objective(cols, -values / unit, -constant / unit)
    for name, most in caps:
        cols, values, constant = builder.terms(name)
        builder.model.add_rows(f"level_{name}", -np.inf, most - constant, 0, cols, values, 1)
    return ProductModel(placement, builder.used, builder.sides)


# Solving one level in the compact form, until a placement keeps the rules exactly.

_KEPT = kept_by(HONOURS | LINEAR_ONLY)


class ProductForm:
    """The compact form of one problem, solved level by level.

    Raises `UnsuitableMethod`: it would have too many products.
    """

    name = "products"
    large = True

    def __init__(self, problem: EoaProblem, settings: Settings) -> None:
        self.problem, self.settings = problem, settings
        check_products("eoa-milp", problem.instance, MOST_PRODUCTS, "use gma")

    def build(
        self, goal: Goal, caps: Sequence[tuple[Goal, float]] = ()
    ) -> tuple[ProductModel, float]:
        """Return the model of a goal, and the unit in which it maximises the goal's negative.

        Raises `UnsuitableMethod`: the goal is quadratic.
        """
        if goal == "squares":
            reason = (
                "needs all sets of tasks that a node can hold, which are too many here, or bound "
                "by limits that sets do not show, or nodes of unequal capacity"
            )
            remedy = "use --objective mean_absolute_deviation"
            raise UnsuitableMethod(Problem("--objective", "cpu_deviation", reason, remedy))
        problem, settings = self.problem, self.settings
        unit = scale_of(problem, goal) / 1000.0
        # earlier levels may lose what a solver's tolerance is, or their own plan would be cut off
        slack = [(name, most + 1e-7 * scale_of(problem, name)) for name, most in caps]
        ordered = settings.break_symmetry
        builder = build(problem, goal, slack, unit, whole=settings.whole, break_symmetry=ordered)
        return builder, unit

    def solve(
        self, goal: Goal, caps: Sequence[tuple[Goal, float]], starts: Sequence[Ints]
    ) -> LevelAnswer:
        """Minimise a goal; `caps` are goals of earlier levels with the most they may reach.

        Raises
        ------
        UnsuitableMethod
            The goal is quadratic.
        """
        problem, settings, answer = self.problem, self.settings, LevelAnswer(goal)
        for start in starts:
            answer.offer(problem, start)
        product_model, unit = self.build(goal, caps)
        vector = None
        if answer.place is not None:
            node = problem.placement(answer.place)
            if settings.break_symmetry:
                node = relabelled(node, node_classes(problem.instance, problem.node_keys))
            vector = product_model.vector(problem, node)
        solution, _ = solve_exactly(
            problem.instance, product_model.allocation, _KEPT, settings.request,
            lambda: settings.solve(product_model.allocation.model, vector),
        )  # fmt: skip
        answer.solver, answer.build = solution.solver, solution.build_seconds
        answer.termination = str(solution.termination)
        if vector is not None:
            answer.accepted = solution.warm_start_accepted
        if solution.message:
            answer.notes.append(solution.message)
        if solution.x is not None:
            node = product_model.allocation.place(solution.x)
            if answer.offer(problem, node[problem.free]):
                settings.request.offer(node)
        if solution.bound is not None:
            answer.bound = surely(problem, goal, -solution.bound * unit)
        return answer
