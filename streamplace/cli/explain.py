"""``streamplace explain``: why no plan exists, or why these moves and what binds."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from optim.errors import ExitCode
from optim.format.changes import altered
from optim.kernels.repair import warm_up
from optim.methods.registry import Settings
from optim.referee import check_belongs
from optim.rules import without_limits
from streamplace.cli.result_text import departs_line
from streamplace.explain.explanation import (
    Explanation,
    priced,
    print_explanation,
    why_infeasible,
    why_plan,
)
from streamplace.explain.what_if import (
    add_what_if,
    aim_of,
    carry,
    cases_of,
    print_carried,
    solve_pinned,
    words,
)
from streamplace.present.arguments import (
    add_ignore,
    add_instance,
    add_json,
    declare,
    load_instance,
    load_plan,
    seconds,
)
from streamplace.present.streams import answer_console, print_json

if TYPE_CHECKING:
    import argparse

    from optim.format.instance import Instance

_SOLVING = 0.7
"""Share of the time that is left for solving; the rest is for what limits would buy."""

EXAMPLES = """\
examples:
  streamplace explain cluster.json               no plan: which rules conflict, what would help
  streamplace explain cluster.json plan.json     what each move is worth, and what binds
  streamplace explain cluster.json --json | python -m json.tool

exit codes: 0 there is a plan, and it is explained; 2 invalid input; 3 infeasible;
4 not decided in the time given, or the plan breaks a rule"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_instance(parser)
    declare(parser, "PLAN", "a plan; default: one is computed", nargs="?")
    declare(parser, "--method M", "solve by this method where no plan is given")
    declare(parser, "--objective NAME", "figure that measures the gain of moves")
    declare(parser, "--time-limit S", "seconds a case; default 30", seconds, 30.0)
    declare(parser, "--full", "every move and every rule that binds")
    add_ignore(parser)
    add_what_if(parser, replace=True)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Explain an instance, or a plan for it; in each case that is asked for."""
    original = load_instance(args.instance)
    explanations, documents = [], []
    for case in cases_of(args) or [[]]:
        instance = without_limits(altered(original, case), args.ignore)
        explanations.append(_explained(args, original, instance))
        if args.json:
            documents.append({**explanations[-1].to_dict(instance), "case": words(case)})
        else:
            _print(instance, explanations[-1], words(case) if case else "", full=args.full)
    if args.json:
        print_json(documents if len(documents) > 1 else documents[0])
    return int(max(_exit_code(one) for one in explanations))


def _print(instance: Instance, explanation: Explanation, case: str, *, full: bool) -> None:
    console = answer_console()
    if case:
        console.print(f"\nwhat if {case}", style="bold")
    if explanation.departs:
        console.print(departs_line(explanation.departs), soft_wrap=True)
    if explanation.carried is not None:
        print_carried(console, instance, explanation.carried)
    print_explanation(console, instance, explanation, full=full)


def _explained(args: argparse.Namespace, original: Instance, instance: Instance) -> Explanation:
    warm_up()  # compiling is no part of the time limit
    ends = time.perf_counter() + args.time_limit
    explanation = why_infeasible(instance, args.time_limit) if args.plan is None else None
    if explanation is not None and explanation.feasible is False:
        return explanation
    return _of_plan(args, original, instance, explanation, ends)


def _of_plan(
    args: argparse.Namespace,
    original: Instance,
    instance: Instance,
    before: Explanation | None,
    ends: float,
) -> Explanation:
    """Explain the plan that is given, or the one that is solved for in the time that is left."""
    if args.plan is not None:
        plan = load_plan(args.plan)
        check_belongs(original, plan)
        carried = carry(original, instance, plan, replace=args.replace)
        explanation = why_plan(
            instance, plan.method, carried.node, args.objective, slot=carried.slot
        )
        return replace(explanation, carried=carried)
    # the search for conflicts may have taken all: a plan gets 5 % in any case
    remaining = max(ends - time.perf_counter(), 0.05 * args.time_limit)
    began = time.perf_counter()
    settings = Settings(objective=args.objective, time_limit=_SOLVING * remaining, explain=0.0)
    aim = (
        aim_of(original, args.method, replace(settings, time_limit=None))
        if instance is not original
        else None
    )
    result = solve_pinned(instance, aim, args.method, settings)
    name = args.objective or (result.objective.name if result.objective else None)
    if result.plan is None:
        if before is None or before.witness is None:
            return before or Explanation(None)
        of_witness = why_plan(instance, "", before.witness, name)
        note = (
            "no method found a plan in the time left; this plan comes from the check of the rules"
        )
        return replace(of_witness, notes=(note,))
    node = result.plan.node_indices(instance)
    explanation = why_plan(
        instance, result.method, node, name, slot=result.plan.slot_indices(instance)
    )
    spent = time.perf_counter() - began
    # a second at least: twice the time of a quick solve is too little on a busy machine
    seconds = min(max(1.0, 2 * spent), ends - time.perf_counter())
    binding = priced(instance, explanation, result, seconds)
    return replace(
        explanation, binding=binding, bound=result.bound, bound_of=result.bound_of, gap=result.gap,
        departs=result.departs,
    )  # fmt: skip


def _exit_code(explanation: Explanation) -> ExitCode:
    if explanation.feasible is False:
        return ExitCode.INFEASIBLE
    has_plan = explanation.evaluation is not None and explanation.evaluation.feasible
    return ExitCode.OK if has_plan else ExitCode.NO_PLAN
