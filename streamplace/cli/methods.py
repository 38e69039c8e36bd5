"""``streamplace methods``: what there is, what each needs, keeps and offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.errors import ExitCode
from optim.figures.catalogue import find_objective
from optim.methods.reduce import kept_lowered
from optim.methods.registry import METHODS
from streamplace.present.arguments import add_json, declare
from streamplace.present.streams import answer_console, load_all, plain_table, print_json

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from optim.methods.registry import Method

EXAMPLES = """\
examples:
  streamplace methods
  streamplace methods imc-exact
  streamplace methods --json"""


_WIDE = 110
"""Columns of a terminal from which on the listing has room for more than what a method does."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(parser, "name", "show one method in full", nargs="?", metavar="METHOD")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """List the methods by family, or all about one."""
    methods = [METHODS.get(args.name)] if args.name else load_all(METHODS)
    if args.json:
        print_json([method.to_dict() for method in methods])
    elif args.name:
        _print_one(answer_console(), methods[0])
    else:
        _print_all(answer_console(), methods)
    return int(ExitCode.OK)


def _print_all(console: Console, methods: list[Method]) -> None:
    for family in sorted({method.family for method in methods}):
        console.print(f"\n{family}", style="bold")
        between = ["objective", "needs", "solvers"] if console.width >= _WIDE else []
        table = plain_table(["method", "kind", *between, "what it does"])
        for method in methods:
            if method.family == family:
                cells = [
                    f"{method.sense} {method.objective}",
                    ", ".join(need for need in method.needs if need not in ("tasks", "nodes")),
                    ", ".join(method.solvers),
                ]
                table.add_row(method.name, method.kind, *cells[: len(between)], method.summary)
        console.print(table)
    console.print("\n`streamplace methods METHOD` reports a method's source, limits and options.")


def _print_one(console: Console, method: Method) -> None:
    console.print(f"{method.name}: {method.summary}", soft_wrap=True)
    honoured, default = kept_lowered(method.honours), method.default_solver
    lowered = (f"{name} ({when})" if when else name for name, when in honoured.items())
    solvers = (f"{name} (default)" if name == default else name for name in method.solvers)
    rows = [
        ("family", f"{method.family}, {method.kind}"),
        ("objective", ", or ".join(f"{find_objective(n).sense} {n}" for n in method.objectives)),
        ("source", method.source or "–"),
        ("needs", ", ".join(method.needs)),
        ("honours", ", ".join(sorted(method.honours))),
        ("honours as capacities", ", ".join(lowered) or "–"),
        ("solvers", ", ".join(solvers) or "–"),
        ("promises a feasible plan", "yes" if method.promises_feasibility else "no"),
        ("takes a warm start", "yes" if method.takes_warm_start else "no"),
        ("can start without a plan", "yes" if method.cold else "no"),
    ]
    table = plain_table(["", ""])
    table.show_header = False
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if not method.options:
        return
    options = plain_table(["--option", "type", "default", "meaning"])
    for option in method.options:
        kind = "|".join(map(str, option.choices)) or option.kind
        options.add_row(option.name, kind, str(option.default), option.help)
    console.print()
    console.print(options)
