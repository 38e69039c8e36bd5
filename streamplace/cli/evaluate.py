"""``streamplace evaluate``: every figure of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from optim import Plan, evaluate
from optim.errors import ExitCode
from optim.figures.catalogue import find_objective
from optim.format.changes import altered
from optim.format.parallelism import spoken_of
from optim.referee import evaluate_indices
from optim.rules import without_limits
from streamplace.explain.what_if import Carried, add_what_if, carry, cases_of, print_carried, words
from streamplace.present.arguments import (
    add_ignore,
    add_instance,
    add_json,
    declare,
    load_instance,
    load_plan,
)
from streamplace.present.streams import answer_console, print_json
from streamplace.present.tables import print_measured, print_undrained, print_verdict, size_line

if TYPE_CHECKING:
    import argparse

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.referee import Evaluation

EXAMPLES = """\
examples:
  streamplace evaluate cluster.json plan.json
  streamplace evaluate cluster.json plan.json --json | python -m json.tool

exit codes: 0 the plan is feasible, in every case; 2 invalid input; 4 it breaks a rule"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_instance(parser)
    declare(parser, "PLAN", "a plan file")
    declare(
        parser, "--objective EXPR", "show the value of a figure, a weighted sum, or levels "
        "(docs/figures.md), too"
    )  # fmt: skip
    add_ignore(parser)
    add_what_if(parser, replace=True)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Have the referee judge a plan, and print all it found."""
    instance = load_instance(args.instance)
    plan = load_plan(args.plan)
    objective = None if args.objective is None else find_objective(args.objective)
    evaluation = evaluate(instance, plan, args.ignore, objective=args.objective)
    instance, plan = spoken_of(instance, plan)
    cases = _cases(args, instance, plan)
    columns = [("plan", evaluation), *((case.name, case.evaluation) for case in cases)]
    if args.json and cases:
        plain = [{"case": "plan", **evaluation.to_dict()}, *(case.to_dict() for case in cases)]
        pairs = zip(plain, columns, strict=True)
        print_json([found | _levels(objective, seen) for found, (_, seen) in pairs])
    elif args.json:
        print_json(evaluation.to_dict() | _levels(objective, evaluation))
    else:
        console = answer_console()
        print_undrained(console, evaluation)
        console.print(size_line(instance), soft_wrap=True)
        print_measured(console, instance, plan, columns, args.objective)
        print_verdict(console, evaluation)
        for case in cases:
            console.print(f"\nwhat if {case.name}")
            print_carried(console, case.instance, case.carried)
            print_verdict(console, case.evaluation)
    good = all(found.feasible for _, found in columns)
    return int(ExitCode.OK if good else ExitCode.NO_PLAN)


def _levels(objective: Figure | None, evaluation: Evaluation) -> dict[str, Any]:
    """Report a requested objective as results do."""
    if objective is None:
        return {}
    first, *further = (
        {"name": level.name, "value": level.read(evaluation), "sense": level.sense}
        for level in objective.levels
    )
    return {"objective": {**first, "name": objective.name}, "objective_levels": further}


class _Case(NamedTuple):
    """A plan in a changed instance, and what the referee finds of it."""

    name: str
    instance: Instance
    carried: Carried
    evaluation: Evaluation

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "case": self.name,
            **self.evaluation.to_dict(),
            "placed_anew": self.carried.placed_anew(self.instance),
            "unplaced": self.carried.unplaced(self.instance),
        }


def _cases(args: argparse.Namespace, instance: Instance, plan: Plan) -> list[_Case]:
    """Judge the plan in each case that was asked for."""
    cases = []
    for case in cases_of(args):
        changed = without_limits(altered(instance, case), args.ignore)
        carried = carry(instance, changed, plan, replace=args.replace)
        judged = evaluate_indices(changed, carried.node, carried.slot, args.objective or "")
        cases.append(_Case(words(case), changed, carried, judged))
    return cases
