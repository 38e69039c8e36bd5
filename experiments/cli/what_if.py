"""What if: options that change an instance before it is solved, explained or evaluated."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from experiments.cli.arguments import assignment, count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.format.altered import Change
    from optim.format.instance import Instance
    from optim.referee.result import Result

_HELP = {
    "add-node": ("like=NODE [count=N]", "nodes like one that there is"),
    "drop-node": ("NODE", "a node that has to be emptied"),
    "fail-node": ("NODE", "a node that is gone, with what was there"),
    "scale-load": ("OPERATOR=X", "loads that the input drives, of an operator, times X"),
    "scale-rate": ("X", "all input, and loads and traffic with it, times X"),
    "budget": ("N", "at most N moves"),
}


def add_what_if(parser: argparse.ArgumentParser) -> None:
    """Add the options; ``--or`` begins another case."""
    group = parser.add_argument_group("what if (several of a case together; --or begins another)")
    for name, (metavar, words) in _HELP.items():
        more: dict[str, Any] = {"nargs": "+"} if name == "add-node" else {}
        shown: Any = ("like=NODE", "count=N") if name == "add-node" else metavar
        group.add_argument(
            f"--{name}", metavar=shown, action=_Collect, dest="what_if", default=[[]], help=words,
            **more,
        )  # fmt: skip
    group.add_argument("--or", action=_Or, nargs=0, dest="what_if", help="begin another case")


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
    from optim.format.altered import Change

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
        from experiments.cli.arguments import whole

        return Change(name, "", whole(given))
    return Change(name, given)


def _factor(text: str) -> float:
    from experiments.cli.arguments import seconds

    try:
        return seconds(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r} is no factor above 0") from None


def cases_of(args: argparse.Namespace) -> list[list[Change]]:
    """Return the cases that were asked for, without empty ones."""
    return [case for case in args.what_if if case]


def the_case(args: argparse.Namespace, instance: Instance) -> Instance:
    """Return the instance with the changes of the only case; as it is where there is none."""
    from optim.format.altered import altered

    cases = cases_of(args)
    return altered(instance, cases[0]) if cases else instance


def words(case: Sequence[Change]) -> str:
    """Name a case."""
    return ", ".join(map(str, case)) or "as it is"


def print_cases(
    found: Sequence[tuple[Sequence[Change], Instance, Result]], *, as_json: bool
) -> None:
    """Print what came out of several cases: one JSON document, or a table with a line each."""
    if as_json:
        from experiments.cli.json_text import print_json

        print_json([{"case": words(case), **result.to_dict()} for case, _, result in found])
        return
    from experiments.cli.console import answer_console, plain_table
    from experiments.cli.result_text import departs_line
    from experiments.cli.tables import figure
    from experiments.numbers import number
    from optim.figures.catalogue import BY_NAME

    heads = ["case", "method", "ended", "objective", "bound", "moves", "highest utilisation"]
    table = plain_table(heads, right=heads[3:])
    for case, _, result in found:
        if result.departs:
            answer_console().print(departs_line(result, words(case)), soft_wrap=True)
    for case, instance, result in found:
        told, seen = result.objective, result.evaluation
        value = "–" if told is None else figure(instance, BY_NAME[told.name].unit, told.value)
        label = "" if told is None else f"{BY_NAME[told.name].label} "
        table.add_row(
            words(case), result.method, str(result.termination),
            f"{label}{value}" if result.plan else "no plan", number(result.bound),
            f"{len(result.moves):,}" if result.plan else "–",
            figure(instance, "share", seen and seen.max_utilisation),
        )  # fmt: skip
    answer_console().print(table)
