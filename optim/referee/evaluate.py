"""The referee: feasibility and every quantity, from instance and plan alone.

No figure of a method or solver is used here. The rules and quantities are those of the format's
description, in one place; methods and tests call the same helpers (`optim.figures.measures`).

The core judges plans that give every task a node. A plan of another kind (threads on acquired
machines) is judged by what its family registers in the entry point group
``streamplace.plan_kinds``, so that nothing here imports upwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from optim.errors import InvalidInput, Problem, expect
from optim.figures.catalogue import figures_of
from optim.figures.rate import carrying
from optim.format.instance import Instance
from optim.format.parallelism import spoken_of
from optim.format.plan import Plan
from optim.referee.result import Evaluation
from optim.rules import broken, without_limits
from optim.rules.excess import excess_of
from optim.rules.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from optim.format.tables import Ints

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
    instance: Instance, plan: Plan, ignore: Iterable[str], asked: str
) -> Evaluation:
    """Judge a plan that chooses the parallelism: its limits at the rate that it is for."""
    made, plain = spoken_of(instance, plan)
    scaled = without_limits(made, ignore)
    check_belongs(scaled, plain)
    node, slot = plan.node_indices(scaled), plan.slot_indices(scaled)
    found = evaluate_indices(scaled, node, slot, asked)
    if plan.target_rate is None:
        return found
    kept = evaluate_indices(carrying(scaled, plan.target_rate), node, slot)
    return replace(found, feasible=kept.feasible, violations=kept.violations, excess=kept.excess)


def evaluate_indices(
    instance: Instance, node: Ints, slot: Ints | None = None, asked: str = ""
) -> Evaluation:
    """Judge a placement given as (T,) node and, where decided, slot indices; -1 is unplaced.

    Of the figures that are costly only the one that is asked for is reckoned. The current
    placement, which a solve judges and then shows beside the plan, is evaluated once an instance.
    """
    if slot is None and np.array_equal(node, instance.tasks.node):
        known = _current.setdefault(instance, {})
        if asked not in known:
            known[asked] = _evaluated(instance, node, slot, asked)
        return known[asked]
    return _evaluated(instance, node, slot, asked)


def _evaluated(instance: Instance, node: Ints, slot: Ints | None, asked: str) -> Evaluation:
    placement = Placement(instance, node, slot)
    violations = broken(placement)
    # What is nowhere has no share in a figure.
    excess = excess_of(instance, violations) if placement.complete else None
    figures = {**figures_of(placement, asked), "excess": excess}
    return Evaluation(feasible=not violations, violations=tuple(violations), **figures)


def check_belongs(instance: Instance, plan: Plan) -> None:
    """Refuse a plan that was made for another instance or names what does not exist.

    Raises
    ------
    InvalidInput
        See above.
    """
    expect("instance", instance, Instance, "read a file by Instance.load(FILE)")
    expect("plan", plan, Plan, "read a file by Plan.load(FILE)")
    if plan._instance is instance:
        return
    if plan.parallelism is not None:
        now = zip(instance.operators.ids, instance.operators.num_tasks.tolist(), strict=True)
        wanted = plan.parallelism
        told = [f"{name} {n} → {wanted[name]}" for name, n in now if wanted.get(name, n) != n]
        change = f"changes numbers of tasks ({', '.join(told[:5])}{', …' if told[5:] else ''})"
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
    """How plans of a kind are judged.

    Attributes
    ----------
    name
        The part of a plan that gives its kind.
    evaluate
        The referee: figures and verdict from instance and plan alone.
    remarks
        Notes that a result with such a plan carries.
    """

    name: str
    evaluate: Callable[[Instance, Plan], Evaluation]
    remarks: Callable[[Instance, Plan, Evaluation], Iterator[str]]


@cache
def plan_kind(name: str) -> PlanKind:
    """Load the kind of plans that a family registered under a name.

    Raises
    ------
    LookupError
        None is registered: the installation is incomplete.
    """
    for point in entry_points(group=GROUP, name=name):
        found: PlanKind = point.load()
        return found
    raise LookupError(f"no referee for plans with {name}: install streamplace again")
