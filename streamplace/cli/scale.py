"""``streamplace scale``: how many tasks, how many nodes, and where, for a rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formulations.throughput.scale import scale
from optim.errors import ExitCode, InvalidInput, Problem
from streamplace.present.arguments import (
    add_instance,
    add_json,
    declare,
    load_instance,
    positive,
    whole,
)
from streamplace.present.numbers import number, plural
from streamplace.present.streams import (
    console_beside,
    plain_table,
    print_json,
    talk_console,
    write_document,
)
from streamplace.present.table import printable

if TYPE_CHECKING:
    import argparse

    from formulations.throughput.scale import ScaleLevel, Scaling
    from optim.format.instance import Instance

EXAMPLES = """\
examples:
  streamplace scale examples/capsys-rate-q6.json --target-rate 2
  streamplace scale cluster.json --target-rate 1 1.5 2 3 --json
  streamplace scale cluster.json --target-rate 2 --like n3 -o plan.json
  streamplace export flink cluster.json plan.json -o job

exit codes: 0 a plan for every rate; 2 invalid input; 3 a rate that nothing carries, proven;
4 a rate for which no plan was found"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_instance(parser)
    declare(
        parser, "--target-rate R", "multiples of the current input to be carried", positive,
        nargs="+", required=True
    )  # fmt: skip
    declare(
        parser, "--like NODE", "node that added nodes are like; default the first of each vm_type, "
        "else the largest"
    )  # fmt: skip
    declare(parser, "--seed N", "of the search (0)", whole, 0)
    declare(parser, "-o, --output FILE", "write the plan (one rate only); - is standard output")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Scale to each rate, and print what it takes."""
    # each rate once, in the order of the table's columns
    rates = sorted(set(args.target_rate))
    if args.output is not None and len(rates) > 1:
        reason = "is for the plan of one rate"
        raise InvalidInput(Problem("--output", args.output, reason, "name one --target-rate"))
    if args.output == "-" and args.json:
        reason = "needs standard output for itself"
        raise InvalidInput(Problem("--json", None, reason, "the plan stands in it: leave -o out"))
    instance = load_instance(args.instance)
    scalings = [scale(instance, rate, like=args.like, seed=args.seed) for rate in rates]
    if args.output is not None and scalings[0].plan is not None:
        write_document(args.output, scalings[0].plan.to_json())
    if args.json:
        print_json(
            [one.to_dict() for one in scalings] if len(scalings) > 1 else scalings[0].to_dict()
        )
    else:
        _print(instance, scalings, args.output)
    if not args.quiet:
        for note in dict.fromkeys(note for one in scalings for note in one.notes):
            talk_console().print(f"note: {note}", soft_wrap=True)
    if any(one.infeasible for one in scalings):
        return int(ExitCode.INFEASIBLE)
    return int(ExitCode.OK if all(one.plan is not None for one in scalings) else ExitCode.NO_PLAN)


def _print(instance: Instance, scalings: list[Scaling], output: str | None) -> None:
    """Print a table with a column for each rate."""
    console = console_beside(output)
    parallelism = {name: int(n) for name, n in zip(
        instance.operators.ids, instance.operators.num_tasks, strict=True)}  # fmt: skip
    rows = [
        [name, str(count), *(str(one.parallelism.get(name, "")) for one in scalings)]
        for name, count in parallelism.items()
    ]
    for k, level in enumerate(next((one.levels for one in scalings if one.levels), ())):
        values = [_level(one.levels[k]) if one.levels else "" for one in scalings]
        rows.append([level.name, "", *values])
    rates = [
        "" if one.evaluation is None or one.evaluation.sustainable_rate is None
        else number(one.evaluation.sustainable_rate)
        for one in scalings
    ]  # fmt: skip
    rows.append(["sustainable_rate", "", *rates])
    heads = ["", "now", *(f"{number(one.rate)} ×" for one in scalings)]
    table = plain_table(heads, right=heads[1:])
    for cells in rows:
        table.add_row(*map(printable, cells))
    console.print(table)
    for one in scalings:
        if one.plan is None:
            why = "infeasible, proven" if one.infeasible else "no plan found"
            console.print(f"{number(one.rate)} × current input: {why}", style="bold red")
        elif one.plan.added_nodes:
            like = sorted(set(one.plan.added_nodes.values()))
            count = len(one.plan.added_nodes)
            are = "is" if count == 1 else "are"
            more = f"{plural(count, 'node')} like {', '.join(like)} {are} added"
            console.print(f"{number(one.rate)} × current input: {more}", soft_wrap=True)


def _level(level: ScaleLevel) -> str:
    """Write a value, and whether it is proved or what is."""
    if level.proven:
        return f"{number(level.value)} proven"
    return number(level.value) if level.bound is None else (
        f"{number(level.value)} (bound {number(level.bound)})"
    )  # fmt: skip
