"""The referee, and what it judges: evaluations, the result of one solve, both as tables of pandas.

No figure of a method or solver is used to judge. The rules and quantities are those of the format's
description, in one place; methods and tests call the same helpers (`optim.figures.measures`).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from optim.errors import ExitCode, InvalidInput, Problem, expect
from optim.figures.catalogue import FIGURES, Figures, figures_of, find_objective
from optim.figures.load import carrying
from optim.format.html import figure, page
from optim.format.instance import Instance
from optim.format.parallelism import spoken_of
from optim.format.plan import Plan
from optim.rules import broken, excess_of, without_limits
from optim.rules.placement import Placement
from optim.util.files import finite, write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    import pandas as pd

    from optim.figures.figure import ObjectiveValue
    from optim.format.tables import Ints
    from optim.rules.base import Violation


@dataclass(frozen=True, kw_only=True)
class Evaluation(Figures):
    """The referee's verdict on one plan, and its figures (`optim.figures.catalogue`).

    Attributes
    ----------
    feasible, violations
        Whether the plan keeps every rule, and those it breaks.
    """

    feasible: bool
    violations: tuple[Violation, ...]

    def objective(self, name: str) -> float | None:
        """Return the value of an objective, as `find_objective` reads it.

        Raises
        ------
        InvalidInput
            There is no such objective.
        """
        return find_objective(name).read(self)

    def _repr_html_(self) -> str:
        return evaluation_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as plain data."""
        verdict = {"feasible": self.feasible, "violations": [v.to_dict() for v in self.violations]}
        return verdict | {figure.name: getattr(self, figure.name) for figure in FIGURES}


RESULT_FORMAT = "streamplace.result/1"
_NAMED = 3
_NO_PROGRESS = 1e-6


class Termination(StrEnum):
    """Why a solve stopped; its incumbent is another question.

    Attributes
    ----------
    OPTIMAL, GAP_REACHED
        The bound is met, within 1e-6 (load distance: 0.001 % of the mean load), or within the gap
        that was asked for.
    TIME_LIMIT, ITERATION_LIMIT
        Its time was over, or its fixed amount of work was done.
    HEURISTIC
        It ended by itself, and does not claim that more is not to be had.
    INFEASIBLE
        It is proven that there is no plan; `Result.reasons` says why.
    INTERRUPTED, ERROR
        By Ctrl-C or a signal; by a failure, with an incumbent.
    """

    OPTIMAL = "optimal"
    GAP_REACHED = "gap_reached"
    TIME_LIMIT = "time_limit"
    ITERATION_LIMIT = "iteration_limit"
    HEURISTIC = "heuristic"
    INFEASIBLE = "infeasible"
    INTERRUPTED = "interrupted"
    ERROR = "error"


@dataclass(frozen=True)
class Level:
    """One level of a lexicographic objective; `unit` as figures have it, for scaling."""

    name: str
    sense: str
    value: float | None
    bound: float | None = None
    unit: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the level as plain data."""
        named = ("name", "sense", "value", "bound")
        return {name: getattr(self, name) for name in named}


@dataclass(frozen=True)
class Mending:
    """What a plan leaves broken of a current placement that breaks limits."""

    #: Excess (`optim.rules`) of the current placement, and of the plan.
    excess_now: float
    excess: float
    #: What the plan breaks, each with the amount by which that is broken now.
    still: tuple[tuple[Violation, float], ...]
    budget: bool  # Whether moves are limited, so that further rounds may mend more.
    least: bool  # Whether it is proven that no plan has less excess.
    #: What a certificate proves that no plan has less excess than, maybe less.
    certified: float | None = None

    @property
    def rounds(self) -> int | None:
        """Further rounds of the budget that mend the rest at this pace; ``None`` if none do."""
        # rounds left = excess that is left / excess mended in this one
        done = self.excess_now - self.excess
        if not self.still:
            return 0
        if not self.budget or done <= _NO_PROGRESS * self.excess_now:
            return None
        return math.ceil(self.excess / done - _NO_PROGRESS)

    def __str__(self) -> str:
        """Say what is still broken, and how many rounds it takes."""
        if not self.still:
            return "mends all that is broken now"
        named = [
            f"{v.rule} of {v.place} by {v.amount:.6g} (was {was:.6g})"
            for v, was in self.still[:_NAMED]
        ]
        rest = len(self.still) - _NAMED
        more = f" and {rest} more" if rest > 0 else ""
        if not self.budget and not self.least:
            after = "whether a plan mends more is not known"
        elif not self.budget:
            after = "no plan mends more" if self.excess < self.excess_now else "no plan mends any"
        elif self.rounds is None:
            after = "this budget mends nothing of it"
        else:
            after = f"about {self.rounds} more round{'s' * (self.rounds != 1)} of the budget"
        return f"still broken: {', '.join(named)}{more}; {after}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as in the result file."""
        still = [{**v.to_dict(), "was": was} for v, was in self.still]
        figures = {"excess_now": self.excess_now, "excess": self.excess, "rounds": self.rounds}
        figures["certified_excess"] = self.certified
        return {**figures, "still_broken": still}


@dataclass(frozen=True)
class Move:
    """A task that leaves its current node, and what moving it costs."""

    task: str
    source: str
    target: str
    cost: float

    def to_dict(self) -> dict[str, Any]:
        """Return the move as in the result file."""
        return {"task": self.task, "from": self.source, "to": self.target, "cost": self.cost}


@dataclass(frozen=True)
class WarmStart:
    """Where a solve started: the method or file, its objective, and whether the solver took it."""

    method: str
    objective: float | None
    accepted: bool | None


@dataclass(frozen=True)
class Result:
    """What a solve returns; every figure of the plan is the referee's.

    Attributes
    ----------
    instance_name, instance_sha256
        What it is of.
    method, solver, seed
        What ran.
    termination
        Why it stopped.
    plan
        ``None`` when there is none.
    objective, bound, bound_of, gap
        Value, proven bound (of the ``problem``, or of a ``restricted`` one), and their distance:
        relative, or in percent of the mean load for load distance; ``None`` where unknown, or where
        the plan breaks a limit, so that its value says nothing.
    bound_by
        What the bound rests on: a checked ``certificate``, ``two solvers`` or ``one solver``.
    certified_bound, certified_gap
        The bound that a certificate proves, maybe a weaker one, and the value's gap to it.
    assumes
        What the bound assumes beyond the file; empty for one of the problem.
    objective_levels
        Further levels of a lexicographic objective; where the current placement breaks limits that
        cannot all be satisfied, the first one is ``excess``, which comes before the objective.
    mending
        What is still broken then; ``None`` where the plan had nothing to leave broken.
    evaluation
        The referee's figures; ``None`` without a plan.
    moves
        Tasks that leave their current node: ``task``, ``source``, ``target``, ``cost``.
    most_of_gain
        How many of the moves bring 95 % of the gain over staying, and of how many; ``None`` where
        there is no gain, or there are too many moves to find out.
    warm_start
        ``None`` when there was none.
    repaired, ignored
        Whether repair finished the plan; limits that were dropped.
    unplaced
        Tasks that a heuristic could not place.
    reasons
        Why the instance is infeasible, where it is proven so.
    departs
        Of a changed instance: in what its solve differs from that of the case as it is (another
        method, or another objective), and why; empty where it does not.
    notes
        Readings used, best-effort parts, anything a reader should know.
    times
        Seconds: read, build, solve, check, total; ``compile`` for a kernel's first use;
        ``warm_start`` of the method that made the start, which has the time limit for itself.
    trace
        (seconds, incumbent, bound) over time.
    versions
        Of everything that took part.
    """

    instance_name: str
    instance_sha256: str
    method: str
    termination: Termination
    solver: str | None = None
    seed: int = 0
    plan: Plan | None = None
    objective: ObjectiveValue | None = None
    bound: float | None = None
    bound_of: str | None = None
    assumes: tuple[str, ...] = ()
    gap: float | None = None
    bound_by: str | None = None
    certified_bound: float | None = None
    certified_gap: float | None = None
    objective_levels: tuple[Level, ...] = ()
    mending: Mending | None = None
    evaluation: Evaluation | None = None
    moves: tuple[Move, ...] = ()
    most_of_gain: tuple[int, int] | None = None
    warm_start: WarmStart | None = None
    repaired: bool = False
    ignored: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()
    reasons: tuple[Violation, ...] = ()
    departs: str = ""
    notes: tuple[str, ...] = ()
    times: Mapping[str, float] = field(default_factory=dict)
    trace: tuple[tuple[float, float | None, float | None], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def feasible(self) -> bool:
        """Whether there is a plan that keeps every rule."""
        return self.evaluation is not None and self.evaluation.feasible

    @property
    def whole_bound(self) -> float | None:
        """The bound where it is one of all plans; ``None`` where of fewer, or there is none."""
        return self.bound if self.bound_of == "problem" else None

    @property
    def exit_code(self) -> ExitCode:
        """Exit status of the command line for this result."""
        if self.termination is Termination.INTERRUPTED:
            return ExitCode.INTERRUPTED
        if self.feasible:
            return ExitCode.OK
        if self.termination is Termination.INFEASIBLE:
            return ExitCode.INFEASIBLE
        return ExitCode.NO_PLAN

    def _repr_html_(self) -> str:
        return result_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as the document ``streamplace.result/1``; unknown numbers are null."""
        document = {
            "format": RESULT_FORMAT,
            "instance": self.instance_name,
            "instance_sha256": self.instance_sha256,
            "method": self.method,
            "solver": self.solver,
            "seed": self.seed,
            "termination": str(self.termination),
            "plan": None if self.plan is None else self.plan.to_dict(),
            "objective": None if self.objective is None else vars(self.objective),
            "bound": self.bound,
            "bound_of": self.bound_of,
            "assumes": list(self.assumes),
            "gap": self.gap,
            "bound_by": self.bound_by,
            "certified_bound": self.certified_bound,
            "certified_gap": self.certified_gap,
            "objective_levels": [level.to_dict() for level in self.objective_levels],
            "mending": None if self.mending is None else self.mending.to_dict(),
            "evaluation": None if self.evaluation is None else self.evaluation.to_dict(),
            "moves": [move.to_dict() for move in self.moves],
            "most_of_gain": self.most_of_gain
            and dict(zip(("moves", "of"), self.most_of_gain, strict=True)),
            "warm_start": None if self.warm_start is None else vars(self.warm_start),
            "repaired": self.repaired,
            "ignored": list(self.ignored),
            "unplaced": list(self.unplaced),
            "reasons": [reason.to_dict() for reason in self.reasons],
            "departs": self.departs or None,
            "notes": list(self.notes),
            "times": dict(self.times),
            "trace": [list(point) for point in self.trace],
            "versions": dict(self.versions),
        }
        return finite(document)

    def to_json(self) -> str:
        """Return the result as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1, allow_nan=False) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the result atomically."""
        write_atomic(path, self.to_json())


def result_html(result: Result) -> str:
    """Return status, objective, bound, and the moves."""
    objective = result.objective
    summary = f"{result.method}: {result.termination}"
    if objective is not None:
        summary += f"; {objective.name} {figure(objective.value)}, bound {figure(result.bound)}"
    if result.evaluation is not None:
        summary += "; feasible" if result.feasible else "; not feasible"
    rows = [[m.task, m.source, m.target, figure(m.cost)] for m in result.moves]
    head = ["moves", "from", "to", "cost"] if rows else []
    return page(f"result for {result.instance_name}", summary, head, rows)


def evaluation_html(evaluation: Evaluation) -> str:
    """Return whether the plan is feasible, what it breaks, and its figures of one value."""
    broken = [
        [f"breaks {v.rule}", f"{v.place}: needs {figure(v.needed)}, has {figure(v.available)}"]
        for v in evaluation.violations
    ]
    values = (
        (one.label, getattr(evaluation, one.name))
        for one in FIGURES
        if one.single and not one.quiet
    )
    rows = [
        [label, figure(value) if isinstance(value, float) else value]
        for label, value in values
        if value is not None
    ]
    summary = "feasible" if evaluation.feasible else "not feasible"
    return page("evaluation", summary, ["figure", "value"], broken + rows, most=len(broken + rows))


# Instances and results as tables of pandas.


def to_frames(of: Instance | Result, plan: Plan | None = None) -> Mapping[str, pd.DataFrame]:
    """Return an instance, or a result, as tables.

    Parameters
    ----------
    of
        The tables of an instance are taken again by `InstanceBuilder.frame`.
    plan
        Of an instance: adds to the tasks where it puts them, as ``planned``.

    Returns
    -------
    Mapping
        Of an instance: ``nodes`` (id, capacity of each resource, rack), ``tasks`` (id, load of each
        resource, node), and ``traffic`` (from, to, rate).

        Of a result: ``tasks`` (id, node, and slot where the plan has some), ``nodes`` (id, tasks,
        load and utilisation of each resource), ``moves`` (task, from, to, cost), ``figures``
        (figure, value, unit), ``violations``, and ``trace`` (seconds, incumbent, bound); without
        rows where there is no plan.

    Examples
    --------
    >>> from streamplace import Instance, solve, to_frames
    >>> frames = to_frames(solve(Instance.load("examples/hand-8-tasks.json")))
    >>> list(frames), float(frames["figures"].set_index("figure").value["imc_gain"])
    (['tasks', 'nodes', 'moves', 'figures', 'violations', 'trace'], 14.0)
    """
    if isinstance(of, Result):
        return _result_frames(of)
    expect("of", of, Instance, "an Instance, or a Result of solve")
    return _instance_frames(of, plan)


def _instance_frames(instance: Instance, plan: Plan | None) -> Mapping[str, pd.DataFrame]:
    import pandas as pd

    nodes, tasks = instance.nodes, instance.tasks
    racks = [nodes.rack_ids[r] if r >= 0 else None for r in nodes.rack.tolist()]
    capacity = np.where(np.isfinite(nodes.capacity), nodes.capacity, np.nan)
    homes = [nodes.ids[n] if n >= 0 else None for n in tasks.node.tolist()]
    names = instance.resources
    places = pd.DataFrame({"id": nodes.ids, **dict(zip(names, capacity.T, strict=True))})
    placed = pd.DataFrame({"id": tasks.ids, **dict(zip(names, tasks.load.T, strict=True))})
    source, target, rate = instance.flows.directed()
    pairs = {
        "from": [tasks.ids[t] for t in source.tolist()],
        "to": [tasks.ids[t] for t in target.tolist()],
        "rate": rate,
    }
    placed = placed.assign(node=pd.Series(homes, dtype=object))
    if plan is not None:
        planned = [plan.assignment.get(task) for task in tasks.ids]
        placed = placed.assign(planned=pd.Series(planned, dtype=object))
    places = places.assign(rack=pd.Series(racks, dtype=object))
    return {"nodes": places, "tasks": placed, "traffic": pd.DataFrame(pairs)}


def _result_frames(result: Result) -> Mapping[str, pd.DataFrame]:
    import pandas as pd

    evaluation, plan = result.evaluation, result.plan
    tasks: dict[str, Any] = (
        {"id": list(plan.assignment), "node": list(plan.assignment.values())}
        if plan
        else {"id": [], "node": []}
    )
    if plan is not None and plan.slots is not None:
        tasks["slot"] = [plan.slots[task] for task in plan.assignment]
    node_tasks = (evaluation and evaluation.node_tasks) or {}
    nodes: dict[str, Any] = {"id": list(node_tasks), "tasks": list(node_tasks.values())}
    for suffix, table in (
        ("", evaluation and evaluation.node_loads),
        (" utilisation", evaluation and evaluation.utilisation),
    ):
        for resource in dict.fromkeys(r for row in (table or {}).values() for r in row):
            nodes[f"{resource}{suffix}"] = [
                (table or {}).get(n, {}).get(resource) for n in node_tasks
            ]
    single = [figure for figure in FIGURES if figure.single] if evaluation else []
    moves = [move.to_dict() for move in result.moves]
    violations = [violation.to_dict() for violation in evaluation.violations] if evaluation else []
    return {
        "tasks": pd.DataFrame(tasks),
        "nodes": pd.DataFrame(nodes),
        "moves": pd.DataFrame(moves, columns=["task", "from", "to", "cost"]),
        "figures": pd.DataFrame(
            [(figure.name, getattr(evaluation, figure.name), figure.unit) for figure in single],
            columns=["figure", "value", "unit"],
        ),
        "violations": pd.DataFrame(
            violations, columns=["rule", "where", "amount", "needed", "available"]
        ),
        "trace": pd.DataFrame(list(result.trace), columns=["seconds", "incumbent", "bound"]),
    }


# Feasibility and every quantity, from instance and plan alone.
#
# The core judges plans that give every task a node. A plan of another kind (threads on acquired
# machines) is judged by what its family registers in the entry point group
# `streamplace.plan_kinds`, so that nothing here imports upwards.

_current: WeakKeyDictionary[Instance, dict[str, Evaluation]] = WeakKeyDictionary()
"""Evaluations of current placements, by what was asked for; instances do not change."""


def evaluate(
    instance: Instance, plan: Plan, ignore: Iterable[str] = (), *, objective: str | None = None
) -> Evaluation:
    """Judge a plan.

    Parameters
    ----------
    instance, plan
        The only sources of every figure.
    ignore
        Limits that do not count (`optim.rules.RULE_NAMES`).
    objective
        What is asked of the evaluation (`Evaluation.objective`), where that is of figures that take
        long.

    Returns
    -------
    Evaluation
        Also of a plan that breaks rules, with what it breaks; rates, loads and state are in the
        units of the instance.

    Raises
    ------
    InvalidInput
        The plan was made for another instance, or names tasks or nodes that do not exist.

    Examples
    --------
    >>> from streamplace import InstanceBuilder, Plan, evaluate
    >>> builder = InstanceBuilder("two").node("n1", capacity=100).node("n2", capacity=100)
    >>> builder = builder.task("map", load=60, node="n1").task("sink", load=30, node="n2")
    >>> instance = builder.traffic("map", "sink", 12.5).build()
    >>> found = evaluate(instance, Plan.from_indices(instance, [0, 0]))
    >>> found.feasible, found.imc_gain, found.migrations
    (True, 12.5, 1)
    """
    expect("plan", plan, Plan, "read a file by Plan.load(FILE)")
    if plan.parallelism is not None:
        return _evaluate_scaled(instance, plan, ignore, objective or "")
    check_belongs(instance, plan)
    if plan.threads is not None:
        return plan_kind("threads").evaluate(without_limits(instance, ignore), plan)
    judged = without_limits(instance, ignore)
    node = plan.node_indices(instance)
    slot = plan.slot_indices(instance)
    return evaluate_indices(judged, node, slot, objective or "")


def _evaluate_scaled(
    instance: Instance, plan: Plan, ignore: Iterable[str], objective: str
) -> Evaluation:
    """Judge a plan that chooses the parallelism: its limits at the rate that it is for."""
    at_parallelism, plain = spoken_of(instance, plan)
    scaled = without_limits(at_parallelism, ignore)
    check_belongs(scaled, plain)
    node, slot = plan.node_indices(scaled), plan.slot_indices(scaled)
    evaluation = evaluate_indices(scaled, node, slot, objective)
    if plan.target_rate is None:
        return evaluation
    at_target = evaluate_indices(carrying(scaled, plan.target_rate), node, slot)
    return replace(
        evaluation,
        feasible=at_target.feasible,
        violations=at_target.violations,
        excess=at_target.excess,
    )


def evaluate_indices(
    instance: Instance, node: Ints, slot: Ints | None = None, objective: str = ""
) -> Evaluation:
    """Judge a placement given as (T,) node and, where decided, slot indices; -1 is unplaced.

    Of the figures that are costly only the one that is asked for is reckoned. The current
    placement, which a solve judges and then shows beside the plan, is evaluated once an instance.
    """
    if slot is None and np.array_equal(node, instance.tasks.node):
        evaluations = _current.setdefault(instance, {})
        if objective not in evaluations:
            evaluations[objective] = _evaluated(instance, node, slot, objective)
        return evaluations[objective]
    return _evaluated(instance, node, slot, objective)


def _evaluated(instance: Instance, node: Ints, slot: Ints | None, objective: str) -> Evaluation:
    placement = Placement(instance, node, slot)
    violations = broken(placement)
    # What is nowhere has no share in a figure.
    excess = excess_of(instance, violations) if placement.complete else None
    figures = {**figures_of(placement, objective), "excess": excess}
    return Evaluation(feasible=not violations, violations=tuple(violations), **figures)


def check_belongs(instance: Instance, plan: Plan) -> None:
    """Refuse, by `InvalidInput`, a plan of another instance, or one with names unknown there."""
    expect("instance", instance, Instance, "read a file by Instance.load(FILE)")
    expect("plan", plan, Plan, "read a file by Plan.load(FILE)")
    if plan._instance is instance:
        return
    if plan.parallelism is not None:
        now = zip(instance.operators.ids, instance.operators.num_tasks.tolist(), strict=True)
        wanted = plan.parallelism
        sizes = [f"{name} {n} → {wanted[name]}" for name, n in now if wanted.get(name, n) != n]
        change = f"changes numbers of tasks ({', '.join(sizes[:5])}{', …' if sizes[5:] else ''})"
        reason = f"{change}: that takes a restart or a rescale, not moves"
        remedy = "`streamplace export flink` or `storm` writes it; `evaluate` and `check` judge it"
        raise InvalidInput(Problem("parallelism", None, reason, remedy))
    if plan.instance_sha256 is not None and plan.instance_sha256 != instance.sha256:
        raise InvalidInput(
            Problem(
                "instance_sha256",
                plan.instance_sha256,
                f"is another instance's; {instance.name!r} has {instance.sha256}",
                "use the instance the plan was made for, or make a new plan",
            )
        )
    _check_sort(instance, plan)
    if plan.threads is not None:
        return
    tasks, nodes = instance.tasks.index, instance.nodes.index
    problems = []
    for task, node in plan.assignment.items():
        if task not in tasks:
            problems.append(Problem(f"assignment.{task}", None, "is not a task of the instance"))
        if node not in nodes:
            problems.append(Problem(f"assignment.{task}", node, "is not a node of the instance"))
    for task in plan.slots or ():
        if task not in tasks:
            problems.append(Problem(f"slots.{task}", None, "is not a task of the instance"))
    if problems:
        raise InvalidInput(problems)


def _check_sort(instance: Instance, plan: Plan) -> None:
    """Refuse a plan of tasks for operators with models, and one of threads without these.

    It would place nothing, and be feasible for that.
    """
    modelled = any(model is not None for model in instance.operators.model)
    if plan.threads is None and modelled and instance.num_tasks == 0:
        reason = f"is missing: {instance.name!r} has operators with models and no tasks"
        remedy = "give the threads of each operator, and a slot for every one"
        raise InvalidInput(Problem("threads", None, reason, remedy))
    if plan.threads is not None and not modelled:
        reason = f"is of no use: no operator of {instance.name!r} has a model"
        raise InvalidInput(Problem("threads", None, reason, "give the node of every task instead"))


GROUP = "streamplace.plan_kinds"


@dataclass(frozen=True)
class PlanKind:
    """How plans of a kind are judged."""

    name: str  # The part of a plan that gives its kind.
    #: The referee: figures and verdict from instance and plan alone.
    evaluate: Callable[[Instance, Plan], Evaluation]
    #: Notes that a result with such a plan carries.
    remarks: Callable[[Instance, Plan, Evaluation], Iterator[str]]


@cache
def plan_kind(name: str) -> PlanKind:
    """Load the kind of plans that a family registered under a name.

    Raises `LookupError`: None is registered: the installation is incomplete.
    """
    for point in entry_points(group=GROUP, name=name):
        kind: PlanKind = point.load()
        return kind
    raise LookupError(f"no referee for plans with {name}: install streamplace again")
