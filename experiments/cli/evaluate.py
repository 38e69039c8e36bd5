"""``streamplace evaluate``: every figure of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.cli.arguments import add_ignore, add_instance, add_json
from optim.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  streamplace evaluate cluster.json plan.json
  streamplace evaluate cluster.json plan.json --json | python -m json.tool

exit codes: 0 the plan is feasible; 2 invalid input; 4 it breaks a rule"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_instance(parser)
    parser.add_argument("plan", metavar="PLAN", help="a plan file")
    add_ignore(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Have the referee judge a plan, and print all it found."""
    from experiments.cli.inputs import load_instance
    from experiments.cli.json_text import print_json
    from optim import Plan, evaluate

    instance = load_instance(args.instance)
    plan = Plan.load(args.plan)
    evaluation = evaluate(instance, plan, args.ignore)
    if args.json:
        print_json(evaluation.to_dict())
    else:
        from experiments.cli.blocks import (
            print_carries,
            print_nodes,
            print_undrained,
            print_violations,
        )
        from experiments.cli.console import answer_console
        from experiments.cli.tables import metric_table, size_line, verdict
        from experiments.cli.threads_text import print_threads

        console = answer_console()
        print_undrained(console, evaluation)
        console.print(size_line(instance), soft_wrap=True)
        console.print()
        console.print(metric_table(instance, [("plan", evaluation)]))
        print_carries(console, evaluation)
        print_nodes(console, instance, evaluation)
        print_threads(console, instance, plan, evaluation)
        console.print()
        console.print(verdict(evaluation))
        print_violations(console, evaluation.violations)
    return int(ExitCode.OK if evaluation.feasible else ExitCode.NO_PLAN)
