"""A fixed objective: a changed instance is solved for the objective of the case as it is.

Which objective `solve` takes by itself depends on what an instance holds: a budget, a node that
leaves, a task without a node. A question about a change of an instance (what if, fewer moves) is
one about the same objective, so that its answer can be set beside the first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, UnsuitableMethod
from optim.methods.choose import aim, asked_of, check_suitable, choices, choose_method
from optim.methods.portfolio import PORTFOLIO, SECONDS
from optim.methods.registry import get_method
from optim.methods.solve import goal_of, solve
from optim.referee.evaluate import evaluate_indices
from optim.referee.result import Termination
from optim.rules import BUDGET_NAMES, without_limits

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.methods.registry import Settings
    from optim.referee.result import Result


_UNBUDGETED = 0.3
"""Share of the time for the best plan without budgets."""


@dataclass(frozen=True)
class Aim:
    """What an instance is solved for.

    Attributes
    ----------
    objective
        Name of a figure.
    method
        What solves it: the first of several, where none is asked for.
    asked
        Whether the objective was asked for, so that no other will do.
    """

    objective: str
    method: str
    asked: bool = False


@dataclass(frozen=True)
class Course:
    """How a changed instance is solved.

    Attributes
    ----------
    method, objective, prefer
        As `solve` takes them.
    departs
        What differs from the case as it is, and why; empty where nothing does.
    unbudgeted
        The method of the case as it is where budgets of moves are all that it does not keep: its
        plan is the best where it keeps them by itself.
    """

    method: str | None
    objective: str | None = None
    prefer: str | None = None
    departs: str = ""
    unbudgeted: str | None = None


def aim_of(instance: Instance, method: str | None, asked: Settings) -> Aim | None:
    """Return what `solve` would solve an instance for; ``None`` where nothing suits it."""
    goal = goal_of(instance, asked.objective, asked.target_rate)
    try:
        if method in (None, PORTFOLIO):
            relaxed = asked_of(instance, asked.ignore, asked.target_rate)
            method = choose_method(relaxed, asked.time_limit, goal).name
        assert method is not None
        chosen, _ = aim(get_method(method), goal, {})
    except InvalidInput:  # reported where the instance itself is solved
        return None
    return Aim(chosen.objective, method, goal is not None)


def course_of(changed: Instance, aim_: Aim, method: str | None, asked: Settings) -> Course:
    """Return how a changed instance is solved, so that the aim of the case as it is stays.

    Where options or a solver go with the method that was asked for, no other will do.

    Parameters
    ----------
    changed
        The instance after the changes.
    aim_
        Of the case as it is.
    method
        The method that was asked for; ``None`` or `PORTFOLIO` where none was.
    asked
        As `solve` takes it.

    Raises
    ------
    InvalidInput
        No method suits that may be taken; `UnsuitableMethod`, a kind of it, with the reasons.
    """
    bound = bool(asked.options) or asked.solver is not None
    relaxed = asked_of(changed, asked.ignore, asked.target_rate)
    named = method not in (None, PORTFOLIO)
    goal = aim_.objective
    try:
        why = _refusal(aim_, relaxed, repair=asked.repair)
        if why is None and named:
            return Course(method, goal if aim_.asked else None)
        if why is not None and named and bound:
            raise why
        first = next(choices(relaxed, asked.time_limit, goal, aim_.method))
    except InvalidInput as error:
        if aim_.asked or (named and bound):
            raise
        choice = choose_method(relaxed, asked.time_limit)
        other = get_method(choice.name).objective
        departs = f"another objective, {other} instead of {goal}: {_reason(error, aim_.method)}"
        return Course(PORTFOLIO, other, None, departs)
    if why is None or first.name == aim_.method:
        return Course(PORTFOLIO, goal, aim_.method)
    departs = f"another method for the same objective, {goal}: {_reason(why, aim_.method)}"
    free = _refusal(aim_, without_limits(relaxed, BUDGET_NAMES), repair=False) is None
    return Course(PORTFOLIO, goal, aim_.method, departs, aim_.method if free else None)


def follow(changed: Instance, course: Course, asked: Settings) -> Result:
    """Solve a changed instance as `course_of` says."""
    asked = replace(asked, objective=course.objective, prefer=course.prefer)
    if course.unbudgeted is not None:
        found = _unbudgeted(changed, course.unbudgeted, asked)
        if found is not None:
            return found
    found = solve(changed, course.method, asked)
    return replace(found, departs=course.departs) if course.departs else found


def _unbudgeted(changed: Instance, method: str, asked: Settings) -> Result | None:
    """Solve without budgets of moves; ``None`` where the plan does not keep them by itself.

    Its bound holds with them all the more.
    """
    seconds = _UNBUDGETED * (SECONDS if asked.time_limit is None else asked.time_limit)
    free = replace(
        asked, time_limit=seconds, ignore=(*asked.ignore, *BUDGET_NAMES), prefer=None, explain=0.0
    )
    try:
        found = solve(changed, method, free)
    except InvalidInput:  # it finds out only while it runs
        return None
    if found.plan is None or found.termination is not Termination.OPTIMAL:
        return None
    nodes, slots = found.plan.node_indices(changed), found.plan.slot_indices(changed)
    judged = evaluate_indices(
        without_limits(changed, asked.ignore), nodes, slots, asked.objective or ""
    )
    kept = tuple(name for name in found.ignored if name in asked.ignore)
    return replace(found, evaluation=judged, ignored=kept) if judged.feasible else None


def solve_pinned(
    changed: Instance, aim_: Aim | None, method: str | None, asked: Settings
) -> Result:
    """Solve a changed instance for the aim of the case as it is.

    Parameters
    ----------
    changed
        The instance after the changes.
    aim_
        Of the case as it is (`aim_of`); ``None`` to solve it as any instance.
    method, asked
        As `solve` takes them.

    Returns
    -------
    Result
        Its `departs` says where method or objective had to be another.
    """
    if aim_ is None:
        return solve(changed, method, asked)
    return follow(changed, course_of(changed, aim_, method, asked), asked)


def _refusal(aim_: Aim, relaxed: Instance, *, repair: bool) -> UnsuitableMethod | None:
    """Return why the method of the case as it is cannot take the changed one."""
    method = get_method(aim_.method).aimed_at(aim_.objective)
    try:
        check_suitable(method, relaxed, repair=repair and method.decides != "threads")
    except UnsuitableMethod as error:
        return error
    return None


def _reason(error: InvalidInput, method: str) -> str:
    problem = error.problems[0]
    return f"{problem.path if problem.path != 'instance' else method} {problem.reason}"
