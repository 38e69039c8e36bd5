"""What if: options that change an instance before it is solved, explained or evaluated."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.errors import StreamplaceError
from optim.figures.rate import restarted
from optim.format.changes import Change, altered, carried, held
from streamplace.present.arguments import assignment, count, declare, seconds, whole
from streamplace.present.console import printable
from streamplace.present.numbers import listed, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.format.tables import Ints
    from optim.methods.fixed_objective import Aim

_SECONDS = 2.0
"""For placing the tasks of a failed node anew."""
_SHOWN = 5
_HELP = {
    "add-node": ("like=NODE [count=N]", "nodes like one that there is"),
    "drop-node": ("NODE", "a node that has to be emptied"),
    "fail-node": ("NODE", "a node that fails: its tasks start elsewhere"),
    "scale-load": ("OPERATOR=X", "input-driven loads of the operator times X"),
    "scale-rate": ("X", "all input, and loads and traffic with it, times X"),
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
            group, "--replace", "place the tasks of a failed node anew, the others stay (default); "
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
        return Change(name, what, _factor(value))
    if name == "scale-rate":
        return Change(name, "", _factor(given))
    if name == "budget":
        return Change(name, "", whole(given))
    return Change(name, given)


def _factor(text: str) -> float:
    try:
        return seconds(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r} is no factor above 0") from None


def cases_of(args: argparse.Namespace) -> list[list[Change]]:
    """Return the cases that were asked for, without empty ones."""
    return [case for case in args.what_if if case]


def the_case(args: argparse.Namespace, instance: Instance) -> Instance:
    """Return the instance with the changes of the only case; as it is where there is none."""
    cases = cases_of(args)
    return altered(instance, cases[0]) if cases else instance


class Carried(NamedTuple):
    """A plan in a changed instance.

    Attributes
    ----------
    node, slot
        (T,) indices; `slot` is ``None`` where the plan decides none, or tasks are placed anew.
    anew
        Tasks whose node is gone, and which have another.
    """

    node: Ints
    slot: Ints | None
    anew: tuple[int, ...] = ()

    def placed_anew(self, instance: Instance) -> dict[str, str]:
        """Name the tasks that are placed anew, and where."""
        tasks, nodes = instance.tasks.ids, instance.nodes.ids
        return {tasks[t]: nodes[self.node[t]] for t in self.anew}

    def unplaced(self, instance: Instance) -> list[str]:
        """Name the tasks that have no node."""
        return [instance.tasks.ids[t] for t in np.flatnonzero(self.node < 0)]


def carry(given: Instance, changed: Instance, plan: Plan, *, replace: bool) -> Carried:
    """Take a plan over into a changed instance; place what was on a failed node anew.

    The other tasks stay. Those of the failed node are placed for the objective of the plan's method
    where that breaks no rule; otherwise as the rate after a loss has it, whatever that breaks; and
    where one finds no place, none of them is placed.
    """
    before, slot = plan.node_indices(given), plan.slot_indices(given)
    node = carried(given, changed, before)
    lost = np.flatnonzero(node < 0)
    if not len(lost) or not replace or before.min(initial=0) < 0:
        return Carried(node, slot)
    from optim.methods.fixed_objective import solve_pinned
    from optim.methods.portfolio import PORTFOLIO
    from optim.methods.registry import Settings

    aim = _aim_of_plan(given, plan)
    with suppress(StreamplaceError):
        rest = held(changed, node)
        asked = Settings(time_limit=_SECONDS, repair=aim is None, explain=0.0)
        found = solve_pinned(rest, aim, PORTFOLIO, asked)
        if found.plan is not None and found.feasible:
            return Carried(found.plan.node_indices(rest), None, tuple(lost.tolist()))
    again = restarted(changed, node)
    return Carried(node, slot) if again is None else Carried(again, None, tuple(lost.tolist()))


def _aim_of_plan(given: Instance, plan: Plan) -> Aim | None:
    from optim.methods.fixed_objective import aim_of
    from optim.methods.registry import Settings, method_names

    named = plan.method in method_names()
    return aim_of(given, plan.method if named else None, Settings())


def print_carried(console: Console, instance: Instance, carried: Carried) -> None:
    """Say which tasks are placed anew, and which are nowhere."""
    anew, lost = carried.placed_anew(instance), carried.unplaced(instance)
    if anew:
        shown = listed([f"{task} on {node}" for task, node in anew.items()], _SHOWN)
        told = f"{plural(len(anew), 'task')} placed anew: {shown}"
        console.print(printable(told), soft_wrap=True)
    if lost:
        shown = listed(lost, _SHOWN)
        told = f"{plural(len(lost), 'task')} without a node: {shown}; figures of the whole "
        console.print(printable(f"{told}job are unknown"), soft_wrap=True)


def words(case: Sequence[Change]) -> str:
    """Name a case."""
    return ", ".join(map(str, case)) or "as it is"
