"""`plan-milp`: any linear objective by one variable a task and node; `imc-milp`: traffic by it.

The textbook linearisation of task allocation. Levels are solved one after the other, each among the
plans that are as good by those before. It is a judge for small instances; `imc-exact` is the method
for large ones of which traffic counts.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.task_allocation.common import (
    HONOURS,
    KNOWN_FORMS,
    LINEAR_FORMS,
    LINEAR_ONLY,
    STARTS,
    UNDECIDED,
    check_known,
    feasible_among,
    feasible_starts,
    relabelled,
)
from formulations.task_allocation.model import (
    CONTINUOUS_FIGURES,
    LINEAR_FIGURES,
    OTHERS,
    SCALED_TOTAL,
    TRAFFIC_FIGURES,
    WHY_NOT_LINEAR,
    FigureRows,
    build,
    node_keys,
    solve_exactly,
)
from formulations.task_allocation.slots import SlotRows
from optim.errors import Problem, SolverError, UnsuitableMethod
from optim.figures.catalogue import find_objective
from optim.figures.figure import in_units
from optim.kernels.place_rules import place_rules, placing_masks
from optim.methods.reduce import emptied_or_any, without_slots
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Level, Termination
from optim.rules import Form, kept_by
from optim.rules.placement import Placement
from optim.solvers import solve_linear
from optim.solvers.interface import ABSOLUTE_ZERO, refuse_continuous
from optim.solvers.mps import PosedModel
from optim.util.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.task_allocation.model import Expression
    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution

_HONOURS = HONOURS | LINEAR_ONLY

_OTHERS = {"imc-milp": OTHERS, "eoa-milp": "use gma"}
"""What to use where a model would be too large."""
_PLAN_CELLS = 20_000
"""Tasks × nodes up to which any plan is looked for, in at most `_PLAN_NODES` nodes of the tree."""
_PLAN_NODES = 2000
_SHARE = 0.6
"""Of the time that is left, what a level has that others follow."""
_HELD = 1e-9
"""Of the size of a level, by how much its row lets later ones fall short of it. Plans that do by
more than their tenth digit are cut off."""
_TOLERANCE = 1e-6
"""By how much, of a thousand, a solver's tolerances may keep its bound from what a plan has."""


def run(name: str, instance: Instance, request: Request, *, drain: bool = True) -> Outcome:
    """Build the model, hand it to the solver level by level, read the placement back.

    `drain`: whether what is on leaving nodes must leave them.
    Raises `UnsuitableMethod`: the model would be too large, or the solver takes integers only and a
        figure is continuous.
    """
    request.start()  # an incumbent, should Ctrl-C come while the model is built
    solve = _Solve(name, instance, request, drain=drain)
    starts = solve.starts()
    solve.outcome.times["build"] = request.elapsed()
    for start in starts:
        solve.take(start)
    if solve.node is not None:
        request.offer(solve.node)
    solve.run()
    return solve.outcome


def pose(name: str, instance: Instance, request: Request) -> PosedModel:
    """Return the whole model of the first level, to be written."""
    solve = _Solve(name, instance, request)
    level = solve.objective.levels[0]
    unit = solve.aim_at(level)
    sign = 1.0 if level.sense == "max" else -1.0
    if not solve.exact:
        reason = f"would lack the rows of slots, which {name} adds as cuts while it solves"
        raise UnsuitableMethod(Problem("--write-model", request.model, reason, "use storm-milp"))
    ids = {"resource": solve.binding.resources}
    return PosedModel(solve.allocation.model, level.name, sign * unit, ids)


class _Solve:
    """One model, its levels, and the best plan so far.

    `node`: (T,) the best plan so far; ``None`` without one.
    `values`: its levels, each rounded and less for the better plan.
    """

    def __init__(
        self, name: str, instance: Instance, request: Request, *, drain: bool = True
    ) -> None:
        objective = find_objective(request.objective or METHOD.objective)
        self.instance, self.request = instance, request
        self.objective = in_units(objective, request.scale.of)
        self.solver = request.solver or "highs"
        check_known(instance, self.objective, _anywhere(instance))
        self.binding, self.exact = without_slots(instance, _HONOURS)
        names = {figure.name for figure in self.objective.singles}
        most = self.binding.limits.max_load_distance if instance.open_nodes.any() else None
        if most is not None:  # else capacities say it
            names.add("load_distance")
        for figure in sorted(names.intersection(CONTINUOUS_FIGURES)):
            refuse_continuous(self.solver, f"{figure} is continuous in the model")
        self.rules_kept = kept_by(METHOD.honours if name == METHOD.name else _HONOURS)
        self.ordered = bool(request.options["break_symmetry"])
        keys = node_keys(instance, names)
        products = bool(names.intersection(TRAFFIC_FIGURES)) or bool(instance.crossing_cost.any())
        if not self.exact:  # nodes of equal room may have other slots
            slot_keys = np.column_stack([instance.nodes.slots, instance.nodes.slot_capacity])
            keys = slot_keys if keys is None else np.column_stack([keys, slot_keys])
        others = _OTHERS.get(name, "use plan-search")
        self.allocation = build(
            self.binding, break_symmetry=self.ordered, alike=keys,
            whole_products=self.solver == "cp-sat", products=products,
            star_rows=name != IMC_MILP.name, drain=drain, method=name, others=others,
        )  # fmt: skip
        self.slots: SlotRows | None = None
        if not self.exact:
            self.slots = SlotRows(instance, self.allocation, whole_only=self.solver == "cp-sat")
        self.figures = FigureRows(instance, self.allocation, place_rules(instance))
        if most is not None:
            columns = self.figures.of(find_objective("load_distance")).column
            self.allocation.model.add_rows("distance", -np.inf, most, 0, columns, 1.0, num_rows=1)
        self.aimed: tuple[Any, Floats, float] | None = None
        self.outcome = Outcome(Termination.TIME_LIMIT)
        self.node: Ints | None = None
        self.values: tuple[float, ...] = ()

    def starts(self) -> list[Ints]:
        """Return the starts that are feasible, identical nodes numbered as the model wants."""
        classes, request = self.allocation.classes, self.request
        starts = feasible_starts(self.instance, request, classes)
        incumbent = request.start()
        starts += (
            [] if incumbent is None else feasible_among(self.instance, [incumbent.node], classes)
        )
        if self.ordered:
            starts = [relabelled(start, classes) for start in starts]
        if request.warm_start is not None:
            self.outcome.warm_start_accepted = False
        return starts

    def take(self, node: Ints) -> bool:
        """Take a plan that keeps all rules, if it is better than the best so far."""
        values = self._values(node)
        if self.node is not None and not values < self.values:
            return False
        self.node, self.values = node, values
        return True

    def _values(self, node: Ints) -> tuple[float, ...]:
        placement, values = Placement(self.instance, node), []
        for level in self.objective.levels:
            value = level.measured(placement).value
            assert value is not None
            values.append(float(f"{-value if level.sense == 'max' else value:.9e}"))
        return tuple(values)

    def run(self) -> None:
        """Solve the levels; the plan and what is proved go into the outcome."""
        outcome, levels = self.outcome, self.objective.levels
        bounds: list[float | None] = []
        for k, level in enumerate(levels):
            if k and (self.node is None or outcome.termination is Termination.INTERRUPTED):
                break
            if k and self.request.remaining() == 0.0:
                outcome.notes.append(f"{level.name}: best effort, no time was left")
                continue
            if k:
                self._hold(levels[k - 1])
            bounds.append(self._level(k, level))
        outcome.node = self.node
        if self.allocation.unknown:
            outcome.notes.append(UNDECIDED)
        if self.node is None:
            return
        placement = Placement(self.instance, self.node)
        values = [level.measured(placement).value for level in levels]
        bounds += [None] * (len(levels) - len(bounds))
        outcome.bound = self._proved(levels[0], values[0], bounds[0])
        outcome.levels = tuple(
            Level(f.name, str(f.sense), v, self._proved(f, v, b), f.unit)
            for f, v, b in zip(levels[1:], values[1:], bounds[1:], strict=True)
        )
        if outcome.claimed is None:
            outcome.claimed = values[0]

    def _level(self, k: int, level: Figure) -> float | None:
        """Solve one level; return its bound, in the figure's unit."""
        request, outcome, allocation = self.request, self.outcome, self.allocation
        began, unit = request.elapsed(), self.aim_at(level)
        sign = unit if level.sense == "max" else -unit
        share = _SHARE if k + 1 < len(self.objective.levels) else 1.0

        def solve() -> LinearSolution:
            settings = request.solving(share)
            if settings["gap"] is None and len(self.objective.levels) > 1:
                settings["gap"] = 0.0
            return solve_linear(
                allocation.model, self.solver, **settings,
                warm_start=None if self.node is None else self.vector(self.node),
                progress=_scaled_progress(request, sign, began) if k == 0 else None,
            )  # fmt: skip

        def worse(node: Ints) -> bool:
            return self._values(node)[:k] > self.values[:k]

        answer, cuts = solve_exactly(
            self.instance, allocation, self.rules_kept, request, solve, worse
        )
        if cuts:
            outcome.notes.append(
                f"{cuts} placements that {answer.solver} took for feasible within its tolerance "
                "were cut off"
            )
        if answer.message:
            outcome.notes.append(answer.message)
        if k == 0:
            self._first(answer, sign, began)
        elif str(answer.termination) not in ("optimal", "gap_reached"):
            outcome.notes.append(f"{level.name}: best effort, stopped by {answer.termination}")
            if str(answer.termination) == "interrupted":
                outcome.termination = Termination.INTERRUPTED
        if answer.x is not None:
            node = allocation.place(answer.x)
            if k == 0 and answer.objective is not None:
                # a stopped run may hold a placement whose products are not all switched on yet
                claimed = max(allocation.model.objective_of(self.vector(node)), answer.objective)
            if self.take(node):
                request.offer(node)
                # of a sum the solver's value is as blurred as its bound
                outcome.claimed = claimed * sign if k == 0 and not level.parts else None
        unknown = self._unknown(level)
        if outcome.termination is Termination.INFEASIBLE and unknown is not None:
            outcome.termination, outcome.bound = Termination.ITERATION_LIMIT, unknown
        if answer.bound is None or str(answer.termination) == "infeasible":
            return None
        bound = answer.bound * sign
        return unknown if unknown is not None and level.better(unknown, bound) else bound

    def _proved(self, level: Figure, value: float | None, bound: float | None) -> float | None:
        """Return what a solver's bound proves of a level, within its tolerances."""
        expression = self.figures.of(level)
        if level.parts and value is not None and bound is not None:
            # a sum is counted in thousandths of all its terms: beside large ones a solver does not
            # see the least
            hidden = _TOLERANCE * expression.unit
            least = min(abs(weight) * self.figures.of(part).unit for weight, part in level.parts)
            if hidden > level.optimal_gap * max(abs(value), SCALED_TOTAL * least):
                return max(bound, value) + hidden
        settled = _settled(level, expression, value, bound)
        terms = np.abs(expression.value[expression.value != 0])
        if settled is None or level.parts or not len(terms) or value is None:
            return settled
        # beside a term this much larger a solver does not see the least
        hidden = _TOLERANCE / SCALED_TOTAL * float(terms.max())
        if hidden <= terms.min() / 2 or hidden <= level.optimal_gap * abs(value):
            return settled
        if level.sense == "max":
            return min(max(settled, value) + hidden, expression.best)
        return max(min(settled, value) - hidden, expression.best)

    def _unknown(self, level: Figure) -> float | None:
        """Return the best value of what was cut off though it may fit the slots."""
        measured = (
            level.measured(Placement(self.instance, n)).value for n in self.allocation.unknown
        )
        values = [value for value in measured if value is not None]
        return (max if level.sense == "max" else min)(values, default=None)

    def _first(self, answer: LinearSolution, sign: float, began: float) -> None:
        """Write down how the first level ended."""
        outcome = self.outcome
        outcome.termination = Termination(str(answer.termination))
        outcome.solver = answer.solver
        outcome.times["build"] = outcome.times.get("build", 0.0) + answer.build_seconds
        outcome.trace = [(s + began, _times(v, sign), _times(b, sign)) for s, v, b in answer.trace]
        if outcome.warm_start_accepted is not None and self.node is not None:
            outcome.warm_start_accepted = answer.warm_start_accepted

    def aim_at(self, level: Figure) -> float:
        """Make a level the objective, better is more; return the unit it is counted in."""
        expression, model = self.figures.of(level), self.allocation.model
        if self.aimed is not None:
            column, value, constant = self.aimed
            model.set_objective(column, -value, -constant)
        sign, unit = 1.0 if level.sense == "max" else -1.0, expression.unit
        self.aimed = (
            expression.column,
            sign * expression.value / unit,
            sign * expression.constant / unit,
        )
        model.set_objective(*self.aimed)
        return unit

    def _hold(self, level: Figure) -> None:
        """Let no plan be worse than the best so far by the level that is aimed at."""
        assert self.aimed is not None
        assert self.node is not None
        column, value, constant = self.aimed
        now = level.measured(Placement(self.instance, self.node)).value
        assert now is not None
        least = (now if level.sense == "max" else -now) / self.figures.of(level).unit
        self.allocation.model.add_rows(
            "level", least - constant - _HELD * SCALED_TOTAL, np.inf,
            0, column, value, num_rows=1, of={"": [level.name]},
        )  # fmt: skip

    def vector(self, node: Ints) -> Floats:
        """Write a placement as a full column vector."""
        vector = self.allocation.vector(node)
        self.figures.complete(vector, node)
        if self.slots is not None:
            self.slots.complete(vector, node)
        return vector


def _anywhere(instance: Instance) -> Ints:
    """Return a placement of all tasks, whatever rules it breaks."""
    kind, _, target = placing_masks(instance)
    return np.asarray(target[kind].argmax(axis=1), dtype=np.int32)


def _settled(
    level: Figure, expression: Expression, value: float | None, bound: float | None
) -> float | None:
    """Return a bound that no tolerance of a solver makes better, or worse, than it is."""
    if bound is None or value is None or not math.isfinite(bound):
        return None
    # a model's first bound may not see what no plan is better than
    bound = min(bound, expression.best) if level.sense == "max" else max(bound, expression.best)
    off = abs(bound - value) / expression.unit
    tolerance = ABSOLUTE_ZERO
    if level.better(value, bound):
        tolerance = _TOLERANCE
    elif not value:  # what is more than nothing is at least half of a term
        terms = np.abs(expression.value[expression.value != 0]) / expression.unit
        tolerance = max(tolerance, min([_TOLERANCE, *(terms / 2)]))
    return value if off <= tolerance else bound


def find_plan(instance: Instance, request: Request) -> Ints | None:
    """Return any plan that keeps what `imc-milp` keeps, of an instance that is small enough.

    `request`: its seed and its clock count.
    """
    if instance.num_tasks * instance.num_nodes > _PLAN_CELLS:
        return None
    allocation = build(instance, products=False, drain=False)

    def solve() -> LinearSolution:
        settings = {**request.solving(), "gap": None}
        return solve_linear(
            allocation.model, "highs", options={"mip_max_nodes": _PLAN_NODES}, **settings
        )

    try:
        answer, _ = solve_exactly(instance, allocation, kept_by(_HONOURS), request, solve)
    except SolverError:
        return None
    return None if answer.x is None else allocation.place(answer.x)


def _scaled_progress(
    request: Request, scale: float, built: float
) -> Callable[[Progress], None] | None:
    tell = request.progress
    if tell is None:
        return None

    def scaled(moment: Progress) -> None:
        value, bound = _times(moment.incumbent, scale), _times(moment.bound, scale)
        tell(Progress(moment.seconds + built, value, bound, moment.phase))

    return scaled


def _times(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


_ORDER = Option("break_symmetry", "bool", True, "number identical nodes by their first task")
_SOLVERS = ("highs", "scip", "cbc", "cp-sat")

METHOD = Method(
    name="plan-milp",
    family="task allocation",
    kind="exact",
    objective="imc_gain",
    objectives=LINEAR_FIGURES,
    combines=True,
    why_not=WHY_NOT_LINEAR,
    run=emptied_or_any(partial(run, "plan-milp"), partial(run, "plan-milp", drain=False)),
    pose=partial(pose, "plan-milp"),
    summary="Any linear figure, weighted sum or list of levels, proven by one linear model",
    forms=KNOWN_FORMS
    | LINEAR_FORMS
    | {Form.TASK_COUNT, Form.DISTANCE, Form.SLOTS, Form.SLOT_COUNT, Form.SLOT_SETS}
    | {Form.LOCAL_FIRST, Form.CROSSING},
    options=(_ORDER,),
    solvers=_SOLVERS,
    default_solver="highs",
    takes_warm_start=True,
    starts=("plan-search",),
    cold=True,
)

IMC_MILP = Method(
    name="imc-milp",
    family="task allocation",
    kind="exact",
    objective="imc_gain",
    run=emptied_or_any(partial(run, "imc-milp")),
    pose=partial(pose, "imc-milp"),
    summary="The textbook linearisation: one variable a task and node, products of pairs; a judge",
    source="Chatzistergiou and Viglas 2014, section 2, linearised",
    forms=KNOWN_FORMS | LINEAR_FORMS | {Form.LOCAL_FIRST},
    options=(_ORDER,),
    solvers=_SOLVERS,
    default_solver="highs",
    takes_warm_start=True,
    starts=STARTS,
    cold=True,
)
