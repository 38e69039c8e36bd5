"""An aim that is kept: a changed instance is solved for the objective of the case as it is.

Which objective `solve` takes by itself depends on what an instance holds: a budget, a node that
leaves, a task without a node. A question about a change of an instance (what if, fewer moves) is
one about the same objective, so that its answer can be set beside the first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, UnsuitableMethod
from optim.figures.rate import carrying
from optim.methods.choose import aim, check_suitable, choices, choose_method
from optim.methods.portfolio import PORTFOLIO, SECONDS
from optim.methods.registry import get_method
from optim.methods.solve import goal_of, solve
from optim.referee.evaluate import evaluate_indices
from optim.referee.result import Termination
from optim.rules import BUDGET_NAMES, without_limits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from optim.format.instance import Instance
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


def aim_of(
    instance: Instance,
    method: str | None = None,
    objective: str | None = None,
    *,
    time_limit: float | None = None,
    ignore: Iterable[str] = (),
    target_rate: float | None = None,
) -> Aim | None:
    """Return what `solve` would solve an instance for; ``None`` where nothing suits it.

    Parameters
    ----------
    instance, method, objective, time_limit, ignore, target_rate
        As `solve` takes them.
    """
    goal = goal_of(instance, objective, target_rate)
    try:
        if method in (None, PORTFOLIO):
            relaxed = _solved(instance, ignore, target_rate)
            method = choose_method(relaxed, time_limit, goal).name
        assert method is not None
        chosen, _ = aim(get_method(method), goal, {})
    except InvalidInput:  # told where the instance itself is solved
        return None
    return Aim(chosen.objective, method, goal is not None)


def course_of(
    changed: Instance,
    aim_: Aim,
    method: str | None,
    *,
    time_limit: float | None = None,
    ignore: Iterable[str] = (),
    target_rate: float | None = None,
    repair: bool = False,
    bound: bool = False,
) -> Course:
    """Return how a changed instance is solved, so that the aim of the case as it is stays.

    Parameters
    ----------
    changed
        The instance after the changes.
    aim_
        Of the case as it is.
    method
        The method that was asked for; ``None`` or `PORTFOLIO` where none was.
    time_limit, ignore, target_rate, repair
        As `solve` takes them.
    bound
        Whether options or a solver go with the method that was asked for, so that no other will do.

    Raises
    ------
    InvalidInput
        No method suits that may be taken; `UnsuitableMethod`, a kind of it, with the reasons.
    """
    relaxed = _solved(changed, ignore, target_rate)
    named = method not in (None, PORTFOLIO)
    goal = aim_.objective
    try:
        why = _refusal(aim_, relaxed, repair=repair)
        if why is None and named:
            return Course(method, goal if aim_.asked else None)
        if why is not None and named and bound:
            raise why
        first = next(choices(relaxed, time_limit, goal, aim_.method))
    except InvalidInput as error:
        if aim_.asked or (named and bound):
            raise
        choice = choose_method(relaxed, time_limit)
        other = get_method(choice.name).objective
        departs = f"another objective, {other} instead of {goal}: {_reason(error, aim_.method)}"
        return Course(PORTFOLIO, other, None, departs)
    if why is None or first.name == aim_.method:
        return Course(PORTFOLIO, goal, aim_.method)
    departs = f"another method for the same objective, {goal}: {_reason(why, aim_.method)}"
    free = _refusal(aim_, without_limits(relaxed, BUDGET_NAMES), repair=False) is None
    return Course(PORTFOLIO, goal, aim_.method, departs, aim_.method if free else None)


def follow(changed: Instance, course: Course, **keywords: Any) -> Result:
    """Solve a changed instance as `course_of` says; keywords as `solve` takes them."""
    if course.unbudgeted is not None:
        found = _unbudgeted(changed, course, **keywords)
        if found is not None:
            return found
    found = solve(
        changed, course.method, objective=course.objective, prefer=course.prefer, **keywords
    )
    return replace(found, departs=course.departs) if course.departs else found


def _unbudgeted(changed: Instance, course: Course, **keywords: Any) -> Result | None:
    """Solve without budgets of moves; ``None`` where the plan does not keep them by itself.

    Its bound holds with them all the more.
    """
    ignore = keywords.pop("ignore", ())
    dropped = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    limit = keywords.pop("time_limit", None)
    seconds = _UNBUDGETED * (SECONDS if limit is None else limit)
    try:
        found = solve(
            changed, course.unbudgeted, objective=course.objective, time_limit=seconds,
            ignore=(*dropped, *BUDGET_NAMES), **keywords,
        )  # fmt: skip
    except InvalidInput:  # it finds out only while it runs
        return None
    if found.plan is None or found.termination is not Termination.OPTIMAL:
        return None
    nodes, slots = found.plan.node_indices(changed), found.plan.slot_indices(changed)
    judged = evaluate_indices(
        without_limits(changed, dropped), nodes, slots, course.objective or ""
    )
    kept = tuple(name for name in found.ignored if name in dropped)
    return replace(found, evaluation=judged, ignored=kept) if judged.feasible else None


def solve_pinned(
    changed: Instance,
    aim_: Aim | None,
    method: str | None = None,
    objective: str | None = None,
    **keywords: Any,
) -> Result:
    """Solve a changed instance for the aim of the case as it is.

    Parameters
    ----------
    changed
        The instance after the changes.
    aim_
        Of the case as it is (`aim_of`); ``None`` to solve it as any instance.
    method, objective
        As they were asked for.
    **keywords
        As `solve` takes them.

    Returns
    -------
    Result
        Its `departs` says where method or objective had to be another.
    """
    if aim_ is None:
        return solve(changed, method, objective=objective, **keywords)
    plain = {"time_limit", "ignore", "target_rate", "repair"}
    known = {"gap", "seed", "threads", "warm_start", "progress", "solver"} | plain
    own = [name for name in keywords if name not in known] or keywords.get("solver") is not None
    course = course_of(
        changed, aim_, method, bound=bool(own),
        **{name: value for name, value in keywords.items() if name in plain},
    )  # fmt: skip
    return follow(changed, course, **keywords)


def _solved(instance: Instance, ignore: Iterable[str], target_rate: float | None) -> Instance:
    dropped = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    relaxed = without_limits(instance, dropped)
    return relaxed if target_rate is None else carrying(relaxed, target_rate)


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
