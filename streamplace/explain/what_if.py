"""What if: options that change an instance before it is solved, explained or evaluated."""

from __future__ import annotations

import argparse
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.errors import InvalidInput, StreamplaceError, UnsuitableMethod
from optim.figures.load import restarted
from optim.format.changes import Change, altered, carried, held
from optim.methods.choose import aim, asked_of, check_suitable, choices, choose_method
from optim.methods.portfolio import PORTFOLIO, SECONDS
from optim.methods.registry import Settings, get_method, method_names
from optim.methods.solve import goal_of, solve
from optim.referee import Termination, evaluate_indices
from optim.rules import BUDGET_NAMES, without_limits
from streamplace.present.arguments import assignment, count, declare, positive, whole
from streamplace.present.numbers import listed, plural
from streamplace.present.streams import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.format.tables import Ints
    from optim.referee import Result

_SECONDS = 2.0
"""For placing the tasks of a failed node anew."""
_SHOWN = 5
_HELP = {
    "add-node": ("like=NODE [count=N]", "add nodes like an existing one"),
    "drop-node": ("NODE", "a node that must be emptied"),
    "fail-node": ("NODE", "a node that fails: its tasks start elsewhere"),
    "scale-load": ("OPERATOR=X", "multiply the rate-driven loads of the operator"),
    "scale-rate": ("X", "multiply all rate-driven loads and all traffic"),
    "budget": ("N", "at most N moves"),
}


def add_what_if(parser: argparse.ArgumentParser, *, replace: bool = False) -> None:
    """Add the options; ``--replace`` where plans are judged in the changed instance, too."""
    group = parser.add_argument_group("what if (several of a case together; --or begins another)")
    for name, (metavar, words) in _HELP.items():
        more: dict[str, Any] = {"nargs": "+"} if name == "add-node" else {}
        shown: Any = ("like=NODE", "count=N") if name == "add-node" else metavar
        group.add_argument(
            f"--{name}", metavar=shown, action=_Collect, dest="what_if", default=[[]], help=words,
            **more,
        )  # fmt: skip
    if replace:
        declare(
            group, "--replace", "place the tasks of a failed node again, others stay (default); "
            "with --no-replace they stay unplaced, and figures of the whole job unknown",
            default=True, action=argparse.BooleanOptionalAction
        )  # fmt: skip
    declare(group, "--or", "begin another case", action=_Or, nargs=0, dest="what_if")


class _Collect(argparse.Action):
    """Adds a change to the last case."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        name = (option_string or "").removeprefix("--")
        try:
            change = _change(name, values)
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentError(self, str(error)) from None
        cases = getattr(namespace, self.dest)
        namespace.what_if = [*cases[:-1], [*cases[-1], change]]


class _Or(argparse.Action):
    """Begins another case."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        namespace.what_if = [*getattr(namespace, self.dest), []]


def _change(name: str, given: Any) -> Change:
    if name == "add-node":
        parts = dict(assignment(word) for word in given)
        if set(parts) - {"like", "count"} or "like" not in parts:
            raise argparse.ArgumentTypeError(f"{' '.join(given)!r} is not like=NODE [count=N]")
        return Change(name, parts["like"], count(parts.get("count", "1")))
    if name == "scale-load":
        what, value = assignment(given)
        return Change(name, what, positive(value))
    if name == "scale-rate":
        return Change(name, "", positive(given))
    if name == "budget":
        return Change(name, "", whole(given))
    return Change(name, given)


def cases_of(args: argparse.Namespace) -> list[list[Change]]:
    """Return the cases that were asked for, without empty ones."""
    return [case for case in args.what_if if case]


def the_case(args: argparse.Namespace, instance: Instance) -> Instance:
    """Return the instance with the changes of the only case; as it is where there is none."""
    cases = cases_of(args)
    return altered(instance, cases[0]) if cases else instance


class Carried(NamedTuple):
    """A plan in a changed instance."""

    #: (T,) indices; `slot` is ``None`` where the plan decides none, or tasks are placed anew.
    node: Ints
    slot: Ints | None
    anew: tuple[int, ...] = ()  # Tasks whose node is gone, and which have another.

    def placed_anew(self, instance: Instance) -> dict[str, str]:
        """Name the tasks that are placed anew, and where."""
        tasks, nodes = instance.tasks.ids, instance.nodes.ids
        return {tasks[t]: nodes[self.node[t]] for t in self.anew}

    def unplaced(self, instance: Instance) -> list[str]:
        """Name the tasks that have no node."""
        return [instance.tasks.ids[t] for t in np.flatnonzero(self.node < 0)]


def carry(original: Instance, changed: Instance, plan: Plan, *, replace: bool) -> Carried:
    """Take a plan over into a changed instance; place what was on a failed node anew.

    The other tasks stay. Those of the failed node are placed for the objective of the plan's method
    where that breaks no rule; otherwise as the rate after a loss has it, whatever that breaks; and
    where one finds no place, none of them is placed.
    """
    before, slot = plan.node_indices(original), plan.slot_indices(original)
    node = carried(original, changed, before)
    lost = np.flatnonzero(node < 0)
    if not len(lost) or not replace or before.min(initial=0) < 0:
        return Carried(node, slot)
    aim = aim_of(original, plan.method if plan.method in method_names() else None, Settings())
    with suppress(StreamplaceError):
        # all other tasks are fixed: only what was lost is placed
        rest = held(changed, node)
        settings = Settings(time_limit=_SECONDS, repair=aim is None, explain=0.0)
        result = solve_pinned(rest, aim, PORTFOLIO, settings)
        if result.plan is not None and result.feasible:
            return Carried(result.plan.node_indices(rest), None, tuple(lost.tolist()))
    # as `rate_after_loss` has it: heaviest first, whatever rates and sets that breaks
    placed = restarted(changed, node)
    return Carried(node, slot) if placed is None else Carried(placed, None, tuple(lost.tolist()))


def print_carried(console: Console, instance: Instance, carried: Carried) -> None:
    """Say which tasks are placed anew, and which are nowhere."""
    anew, lost = carried.placed_anew(instance), carried.unplaced(instance)
    if anew:
        shown = listed([f"{task} on {node}" for task, node in anew.items()], _SHOWN)
        text = f"{plural(len(anew), 'task')} placed anew: {shown}"
        console.print(printable(text), soft_wrap=True)
    if lost:
        shown = listed(lost, _SHOWN)
        text = f"{plural(len(lost), 'task')} without a node: {shown}; figures of the whole "
        console.print(printable(f"{text}job are unknown"), soft_wrap=True)


def words(case: Sequence[Change]) -> str:
    """Name a case."""
    return ", ".join(map(str, case)) or "as it is"


# A fixed objective: a changed instance is solved for the objective of the case as it is.
#
# Which objective `solve` takes by itself depends on what an instance holds: a budget, a node that
# leaves, a task without a node. A question about a change of an instance (what if, fewer moves)
# is one about the same objective, so that its answer can be set beside the first.

_UNBUDGETED = 0.3
"""Share of the time for the best plan without budgets."""


@dataclass(frozen=True)
class Aim:
    """What an instance is solved for."""

    objective: str  # Name of a figure.
    method: str  # What solves it: the first of several, where none is asked for.
    asked: bool = False  # Whether the objective was asked for, so that no other will do.


def aim_of(instance: Instance, method: str | None, settings: Settings) -> Aim | None:
    """Return what `solve` would solve an instance for; ``None`` where nothing suits it."""
    goal = goal_of(instance, settings.objective, settings.target_rate)
    try:
        if method in (None, PORTFOLIO):
            relaxed = asked_of(instance, settings.ignore, settings.target_rate)
            method = choose_method(relaxed, settings.time_limit, goal).name
        assert method is not None
        chosen, _ = aim(get_method(method), goal, {})
    except InvalidInput:  # reported where the instance itself is solved
        return None
    return Aim(chosen.objective, method, goal is not None)


def solve_pinned(
    changed: Instance, aim_: Aim | None, method: str | None, settings: Settings
) -> Result:
    """Solve a changed instance for the aim of the case as it is.

    Where options or a solver go with the method that was asked for, no other will do.

    `aim_`: of the case as it is (`aim_of`); ``None`` to solve it as any instance.
    `method`, `settings`: as `solve` takes them.
    Returns its `departs` says where method or objective had to be another.
    Raises `InvalidInput`: no method suits that may be taken; `UnsuitableMethod`, a kind of it, with
        the reasons.
    """
    if aim_ is None:
        return solve(changed, method, settings)
    bound = bool(settings.options) or settings.solver is not None
    relaxed = asked_of(changed, settings.ignore, settings.target_rate)
    named = method not in (None, PORTFOLIO)
    goal, first = aim_.objective, None
    try:
        why = _refusal(aim_, relaxed, repair=settings.repair)
        # options and a solver are the method's own: no other method can take them
        if why is not None and named and bound:
            raise why
        if why is not None or not named:
            first = next(choices(relaxed, settings.time_limit, goal, aim_.method)).name
    except InvalidInput as error:
        if aim_.asked or (named and bound):
            raise
        other = get_method(choose_method(relaxed, settings.time_limit).name).objective
        result = solve(changed, PORTFOLIO, replace(settings, objective=other))
        reason = _reason(error, aim_.method)
        return replace(result, departs=f"another objective, {other} instead of {goal}: {reason}")
    if first is None:
        return solve(changed, method, replace(settings, objective=goal if aim_.asked else None))
    settings = replace(settings, objective=goal, prefer=aim_.method)
    if why is None or first == aim_.method:
        return solve(changed, PORTFOLIO, settings)
    # budgets of moves may be all that it does not keep: its plan is the best where it keeps them
    if _refusal(aim_, without_limits(relaxed, BUDGET_NAMES), repair=False) is None:
        unbudgeted = _unbudgeted(changed, aim_.method, settings)
        if unbudgeted is not None:
            return unbudgeted
    departs = f"another method for the same objective, {goal}: {_reason(why, aim_.method)}"
    return replace(solve(changed, PORTFOLIO, settings), departs=departs)


def _unbudgeted(changed: Instance, method: str, settings: Settings) -> Result | None:
    """Solve without budgets of moves; ``None`` where the plan does not keep them by itself."""
    # its bound holds with them all the more
    seconds = _UNBUDGETED * (SECONDS if settings.time_limit is None else settings.time_limit)
    free = replace(
        settings,
        time_limit=seconds,
        ignore=(*settings.ignore, *BUDGET_NAMES),
        prefer=None,
        explain=0.0,
    )
    try:
        result = solve(changed, method, free)
    except InvalidInput:  # it finds out only while it runs
        return None
    # only an optimum: another plan may be better with the budgets
    if result.plan is None or result.termination is not Termination.OPTIMAL:
        return None
    nodes, slots = result.plan.node_indices(changed), result.plan.slot_indices(changed)
    judged = evaluate_indices(
        without_limits(changed, settings.ignore), nodes, slots, settings.objective or ""
    )
    still_ignored = tuple(name for name in result.ignored if name in settings.ignore)
    return replace(result, evaluation=judged, ignored=still_ignored) if judged.feasible else None


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
