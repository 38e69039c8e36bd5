"""``streamplace evaluate``: every figure of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.cli.arguments import add_ignore, add_instance, add_json
from experiments.cli.what_if import add_what_if, cases_of, words
from optim.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse

    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.referee.evaluation import Evaluation

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
    add_what_if(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Have the referee judge a plan, and print all it found."""
    from experiments.cli.inputs import load_instance
    from experiments.cli.json_text import print_json
    from optim import Plan, evaluate

    instance = load_instance(args.instance)
    plan = Plan.load(args.plan)
    evaluation = evaluate(instance, plan, args.ignore)
    columns = [("plan", evaluation), *_cases(args, instance, plan)]
    if args.json and len(columns) > 1:
        print_json([{"case": name, **found.to_dict()} for name, found in columns])
    elif args.json:
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
        console.print(metric_table(instance, columns))
        print_carries(console, evaluation)
        print_nodes(console, instance, evaluation)
        print_threads(console, instance, plan, evaluation)
        console.print()
        console.print(verdict(evaluation))
        print_violations(console, evaluation.violations)
        for name, found in columns[1:]:
            console.print(f"\nwhat if {name}")
            console.print(verdict(found))
            print_violations(console, found.violations)
    return int(ExitCode.OK if evaluation.feasible else ExitCode.NO_PLAN)


def _cases(
    args: argparse.Namespace, instance: Instance, plan: Plan
) -> list[tuple[str, Evaluation]]:
    """Judge the plan in each case that was asked for; what it puts on a failed node is nowhere."""
    from optim.format.altered import altered, carried
    from optim.referee.evaluate import evaluate_indices
    from optim.rules import without_limits

    found = []
    for case in cases_of(args):
        changed = without_limits(altered(instance, case), args.ignore)
        node = carried(instance, changed, plan.node_indices(instance))
        found.append((words(case), evaluate_indices(changed, node, plan.slot_indices(instance))))
    return found
