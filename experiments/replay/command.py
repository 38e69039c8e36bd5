"""``streamplace replay``: an adaptation policy over recorded or synthetic load."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from experiments.replay.periods import day_periods, find_files, load_periods, load_trace
from experiments.replay.run import DEFAULT_POLICIES, FIGURES, Replayed, ReplayOptions, run_replay
from formulations.rebalancing.problem import bottleneck_of, resource_first
from optim.errors import ExitCode, InvalidInput, Problem
from optim.format.instance import Instance
from optim.rules import BUDGETS
from streamplace.policies.nodes import CostModel
from streamplace.policies.parallelism import ScalingChoice
from streamplace.present.arguments import (
    add_json,
    add_option,
    amount,
    count,
    declare,
    delay,
    growth,
    seconds,
    whole,
)
from streamplace.present.streams import answer_console, plain_table, print_json

EXAMPLES = """\
examples:
  streamplace replay periods/ -o build/replay --policy albic --policy flux --policy static
  streamplace replay --day -o build/day --policy albic:pairs_per_round=3 --policy static \\
    --scaling utilisation --serialise 0.1 --deserialise 0.1
  streamplace replay build/trace -o build/real --policy albic --policy cola --placement worst

The same command continues an interrupted replay; further policies may be added to it.
docs/replay.md describes policies, scaling rules, costs and columns."""


_AMOUNTS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "": ("N", whole, "key groups"),
    "given_cost": ("C", amount, "their cost"),
}
"""Of budgets by the column of tasks that they weigh by: what the help calls their amounts."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(
        parser, "INSTANCE", "the periods in order: files, folders of them, or a folder of "
        "`streamplace trace`", nargs="*"
    )  # fmt: skip
    declare(parser, "--day", "make a synthetic day instead")
    add_option(parser, "a parameter of the day, such as nodes=20 or periods=96", "--day-option")
    declare(parser, "-o, --output DIR", "result folder", required=True)
    declare(
        parser, "--policy P", "a method, static or a trigger, with options as "
        "albic:score_factor=2,time_limit=5; may be given again (default: albic, flux, static)",
        default=[], action="append"
    )  # fmt: skip
    declare(parser, "--periods N", "replay only the first N periods", count)
    declare(
        parser, "--placement P", "first placement of a trace: round-robin, worst, or a method "
        "(default: its description's)"
    )  # fmt: skip
    declare(
        parser, "--bottleneck", "balance the most used resource of the first period (ALBIC, "
        "section 3), not the first one"
    )  # fmt: skip
    budget = parser.add_argument_group("budget a period, in place of the recording's")
    for rule in BUDGETS:
        what = rule.weight_column or rule.limits[0].unit
        metavar, kind, words = _AMOUNTS.get(what, ("A", amount, f"their {what}"))
        declare(budget, f"--{rule.name.replace('_', '-')} {metavar}", words, kind)
    costs = parser.add_argument_group("costs, in units of the first resource; default 0")
    for name, text in (
        ("--serialise", "load of a sender per unit of rate"),
        ("--deserialise", "load of a receiver per unit of rate"),
        ("--migration-load", "load of both nodes per unit of migration cost"),
    ):
        costs.add_argument(name, metavar="F", type=amount, default=0.0, help=text)
    declare(
        parser, "--scaling RULE", "none (default), utilisation, or module:factory", default="none"
    )
    add_option(parser, "a parameter of the rule, such as upper=0.8", "--scaling-option")
    guard = parser.add_argument_group("what is carried out, as `watch` has it; default all")
    declare(guard, "--gain SHARE", "least improvement", growth)
    declare(guard, "--cool-down S", "from change to change", delay)
    declare(guard, "--confirm N", "periods in a row that must ask for a change", count)
    declare(parser, "--time-limit S", "seconds for each plan; default none", seconds)
    declare(parser, "--seed N", "default 0", whole, 0)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Replay, and report one line a policy."""
    from experiments.spark.remote import output_at

    periods, names = _periods(args)
    if args.bottleneck:
        # one for all periods: load distances of different resources are not comparable
        name = bottleneck_of(periods[0])
        sys.stderr.write(f"balanced: {name}, the most used resource of the first period\n")
        periods = [resource_first(period, name) for period in periods]
    options = ReplayOptions(
        policies=tuple(args.policy) or DEFAULT_POLICIES,
        costs=CostModel(args.serialise, args.deserialise, args.migration_load),
        scaling=ScalingChoice(args.scaling, dict(args.scaling_option)),
        budgets={
            name: value
            for name in [rule.name for rule in BUDGETS]
            if (value := vars(args)[name]) is not None
        },
        time_limit=args.time_limit,
        seed=args.seed,
        guard=_guard_options(args),
    )
    try:
        with output_at(args.output) as path:
            done = run_replay(periods, path, options, quiet=args.quiet, names=names)
    except KeyboardInterrupt:
        sys.stderr.write(
            f"\ninterrupted: finished periods are stored in {args.output}; the same command "
            "goes on from there\n"
        )
        return int(ExitCode.INTERRUPTED)
    _print(done, args.output, args.json)
    return int(ExitCode.OK)


def _guard_options(args: argparse.Namespace) -> dict[str, Any] | None:
    """Return what is given of the guard, each for itself: none of it stands for another."""
    given = {"gain": args.gain, "cool_down": args.cool_down, "confirm": args.confirm}
    if all(value is None for value in given.values()):
        return None
    none = {"gain": 0.0, "cool_down": 0.0, "confirm": 1}
    return {name: none[name] if value is None else value for name, value in given.items()}


def _periods(args: argparse.Namespace) -> tuple[list[Instance], list[str]]:
    from experiments.traces.folder import is_trace

    if args.day == bool(args.instance):
        reason = "stands beside --day" if args.day else "is missing"
        raise InvalidInput(
            Problem("INSTANCE", None, reason, "name files or folders, or take --day")
        )
    trace = any(is_trace(path) for path in args.instance)
    if args.placement and not trace:
        reason = "is of use with a trace only"
        raise InvalidInput(Problem("--placement", args.placement, reason, "leave it out"))
    if args.day_option and not args.day:
        name, value = args.day_option[0]
        reason = "is of no use without --day"
        raise InvalidInput(Problem(f"--day-option {name}", value, reason, "add --day"))
    if trace and len(args.instance) > 1:
        raise InvalidInput(Problem("INSTANCE", None, "names a trace and more", "name one"))
    if not trace and not args.day:
        names = [str(file) for file in find_files(args.instance)]
        return load_periods(args.instance)[: args.periods], names[: args.periods]
    if args.day:
        periods = day_periods(args.seed, **dict(args.day_option))
    else:
        periods = load_trace(args.instance[0], args.placement, seed=args.seed, most=args.periods)
    return periods[: args.periods], [period.name for period in periods][: args.periods]


def _print(done: Replayed, where: str, as_json: bool) -> None:
    if as_json:
        content = {"path": where, "policies": list(done.summaries), "rows": list(done.rows)}
        print_json(content, indent=None)
        return
    console = answer_console()
    # a table that is read on a terminal stands upright: one column a policy
    names = [summary["policy"] for summary in done.summaries]
    table = plain_table(["", *names], right=names)
    for heading, key, text in FIGURES:
        table.add_row(heading, *(text(summary[key]) for summary in done.summaries))
    console.print(table)
    sys.stdout.write(f"rows, table and picture: {where}\n")
