"""``streamplace explain``: why nothing fits, or why these moves and what binds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.cli.arguments import add_ignore, add_instance, add_json, seconds
from optim.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse

    from experiments.explain.why import Explanation
    from optim.format.instance import Instance

EXAMPLES = """\
examples:
  streamplace explain cluster.json               no plan: which rules clash, and what would help
  streamplace explain cluster.json plan.json     what each move is worth, and what binds
  streamplace explain cluster.json --json | python -m json.tool

exit codes: 0 there is a plan, and it is explained; 2 invalid input; 3 proven infeasible;
4 not decided in the time given, or the plan breaks a rule"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_instance(parser)
    parser.add_argument("plan", metavar="PLAN", nargs="?", help="a plan; solved for if left out")
    parser.add_argument("--method", metavar="M", help="solve by this method where no plan is given")
    parser.add_argument("--objective", metavar="NAME", help="what moves are judged by")
    parser.add_argument(
        "--time-limit", metavar="S", type=seconds, default=30.0, help="seconds; default 30"
    )
    parser.add_argument("--full", action="store_true", help="every move and every rule that binds")
    add_ignore(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Explain an instance, or a plan for it."""
    from experiments.cli.inputs import load_instance
    from experiments.cli.json_text import print_json
    from experiments.explain.why import why_infeasible
    from optim.rules import without_limits

    instance = without_limits(load_instance(args.instance), args.ignore)
    found = None
    if args.plan is None:
        found = why_infeasible(instance, args.time_limit)
    if found is None or found.feasible is not False:
        found = _of_plan(args, instance, found)
    if args.json:
        print_json(found.to_dict(instance))
    else:
        from experiments.cli.console import answer_console
        from experiments.explain.text import print_explanation

        print_explanation(answer_console(), instance, found, full=args.full)
    return int(_exit_code(found))


def _of_plan(
    args: argparse.Namespace, instance: Instance, before: Explanation | None
) -> Explanation:
    """Explain the plan that is given, or the one that is solved for."""
    from experiments.explain.why import Explanation, why_plan
    from optim import Plan, solve

    if args.plan is not None:
        return why_plan(instance, Plan.load(args.plan), args.objective)
    result = solve(instance, args.method, objective=args.objective, time_limit=args.time_limit)
    if result.plan is None:
        return before or Explanation(None)
    name = args.objective or (result.objective.name if result.objective else None)
    found = why_plan(instance, result.plan, name)
    return replace(found, bound=result.bound, bound_of=result.bound_of, gap=result.gap)


def _exit_code(found: Explanation) -> ExitCode:
    if found.feasible is False:
        return ExitCode.INFEASIBLE
    told = found.evaluation is not None and found.evaluation.feasible
    return ExitCode.OK if told else ExitCode.NO_PLAN
