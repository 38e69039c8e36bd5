"""``streamplace check``: is an instance sound, is a plan feasible?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.exit_codes import ExitCode
from streamplace.present.arguments import add_ignore, add_instance, add_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from optim.errors import Problem
    from optim.format.instance import Instance
    from optim.referee.evaluation import Evaluation
    from optim.rules.violation import Violation

EXAMPLES = """\
examples:
  streamplace check cluster.json
  streamplace check cluster.json.gz plan.json

exit codes: 0 sound, and the plan (if given) feasible; 2 invalid input; 3 no plan can exist;
4 the plan, or without one the current placement, breaks a rule"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_instance(parser)
    parser.add_argument("plan", metavar="PLAN", nargs="?", help="a plan to judge")
    add_ignore(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Validate an instance, look for what is suspicious, and judge a plan where one is given."""
    from optim import Plan, evaluate
    from optim.rules import hopeless, without_limits
    from streamplace.cli.suspicions import current_violations, suspicions
    from streamplace.present.inputs import load_instance

    instance = load_instance(args.instance)
    relaxed = without_limits(instance, args.ignore)
    evaluation = None
    if args.plan is not None:
        evaluation = evaluate(instance, Plan.load(args.plan), args.ignore)
    reasons = hopeless(relaxed)
    now = None if args.plan is not None else current_violations(relaxed)
    show = _print_json if args.json else _print_text
    show(instance, suspicions(relaxed), reasons, evaluation, now)
    if evaluation is not None:
        return int(ExitCode.OK if evaluation.feasible else ExitCode.NO_PLAN)
    if reasons:
        return int(ExitCode.INFEASIBLE)
    return int(ExitCode.NO_PLAN if now else ExitCode.OK)


def _print_json(
    instance: Instance,
    odd: Sequence[Problem],
    reasons: Sequence[Violation],
    evaluation: Evaluation | None,
    now: Sequence[Violation] | None,
) -> None:
    from streamplace.present.json_text import print_json

    document = {
        "instance": instance.name,
        "instance_sha256": instance.sha256,
        "nodes": instance.num_nodes,
        "tasks": instance.num_tasks,
        "operators": instance.num_operators,
        "resources": list(instance.resources),
        "warnings": [vars(problem) for problem in odd],
        "infeasible": [reason.to_dict() for reason in reasons],
        "current_feasible": None if now is None else not now,
        "feasible": None if evaluation is None else evaluation.feasible,
        "drained": None if evaluation is None else evaluation.drained,
        "undrained": None if evaluation is None else evaluation.undrained,
        "violations": None
        if evaluation is None
        else [violation.to_dict() for violation in evaluation.violations],
    }
    print_json(document)


def _print_text(
    instance: Instance,
    odd: Sequence[Problem],
    reasons: Sequence[Violation],
    evaluation: Evaluation | None,
    now: Sequence[Violation] | None,
) -> None:
    from streamplace.present.blocks import print_reasons, print_undrained, print_violations
    from streamplace.present.console import answer_console
    from streamplace.present.numbers import plural
    from streamplace.present.problems import problem_lines
    from streamplace.present.tables import size_line, verdict

    console = answer_console()
    print_undrained(console, evaluation)
    console.print(size_line(instance), soft_wrap=True)
    console.print(f"sha256 {instance.sha256}", soft_wrap=True)
    if odd:
        console.print(f"\nlegal, but suspicious: {plural(len(odd), 'warning')}", style="yellow")
        console.print("\n".join(problem_lines(list(odd))), soft_wrap=True)
    if reasons:
        print_reasons(console, reasons)
    if evaluation is not None:
        console.print()
        console.print(verdict(evaluation))
        print_violations(console, evaluation.violations)
    elif not reasons:
        broken = ", but the current placement breaks a rule (solve mends it)" if now else ""
        console.print(f"valid{broken}", soft_wrap=True)
