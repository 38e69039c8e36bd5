"""``streamplace diff``: what changes between the current placement and a plan, or two plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem
from optim.exit_codes import ExitCode
from streamplace.present.arguments import add_instance, add_json
from streamplace.present.threads_text import print_thread_changes, thread_changes

if TYPE_CHECKING:
    import argparse

    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.format.tables import Ints
    from optim.referee.evaluation import Evaluation

EXAMPLES = """\
examples:
  streamplace diff cluster.json plan.json           current placement → plan
  streamplace diff cluster.json old.json new.json   plan → plan"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_instance(parser)
    parser.add_argument("plans", metavar="PLAN", nargs="+", help="one plan, or before and after")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """List the moves from one placement to another, and the figures before and after."""
    from optim.errors import InvalidInput, Problem
    from streamplace.present.inputs import load_instance

    if len(args.plans) > 2:
        raise InvalidInput(
            Problem("PLAN", None, f"is given {len(args.plans)} times", "at most two")
        )
    instance = load_instance(args.instance)
    if len(args.plans) == 2 and hold_threads(args.plans):
        diff_threads(instance, args.plans, as_json=args.json)
        return int(ExitCode.OK)
    before, after = _sides(instance, args.plans)
    moves = _moves(instance, before[1], after[1])
    show = _print_json if args.json else _print_text
    show(instance, (before[0], before[2]), (after[0], after[2]), moves)
    return int(ExitCode.OK)


_Side = tuple[str, "Ints", "Evaluation"]


def _sides(instance: Instance, names: list[str]) -> tuple[_Side, _Side]:
    from optim.errors import InvalidInput, Problem
    from optim.referee.evaluate import evaluate_indices

    if len(names) == 2:
        return _plan_side(instance, names[0]), _plan_side(instance, names[1])
    if not instance.has_current:
        raise InvalidInput(
            Problem(
                "tasks[].node",
                None,
                "is not given for every task, so there is no current placement to compare with",
                "name two plans: streamplace diff INSTANCE BEFORE AFTER",
            )
        )
    current = instance.tasks.node
    return (
        ("current", current, evaluate_indices(instance, current)),
        _plan_side(instance, names[0]),
    )


def _plan_side(instance: Instance, path: str) -> _Side:
    from optim import Plan, evaluate

    plan = Plan.load(path)
    return path, plan.node_indices(instance), evaluate(instance, plan)


def _moves(instance: Instance, before: Ints, after: Ints) -> list[tuple[str, str, str, float]]:
    ids = instance.nodes.ids
    return [
        (
            instance.tasks.ids[t],
            ids[source] if source >= 0 else "",
            ids[target] if target >= 0 else "",
            float(instance.tasks.migration_cost[t]),
        )
        for t, (source, target) in enumerate(zip(before.tolist(), after.tolist(), strict=True))
        if source != target
    ]


_Judged = tuple[str, "Evaluation"]
_Moves = list[tuple[str, str, str, float]]


def _print_json(instance: Instance, before: _Judged, after: _Judged, moves: _Moves) -> None:
    from streamplace.present.json_text import print_json

    document: dict[str, Any] = {
        "instance": instance.name,
        "before": {"name": before[0], "evaluation": before[1].to_dict()},
        "after": {"name": after[0], "evaluation": after[1].to_dict()},
        "moves": [
            {"task": t, "from": a or None, "to": b or None, "cost": c} for t, a, b, c in moves
        ],
    }
    print_json(document)


def _print_text(instance: Instance, before: _Judged, after: _Judged, moves: _Moves) -> None:
    from streamplace.present.blocks import print_moves, print_undrained
    from streamplace.present.console import answer_console
    from streamplace.present.numbers import number, plural
    from streamplace.present.problems import printable
    from streamplace.present.tables import figure, metric_table, size_line

    console = answer_console()
    print_undrained(console, after[1])
    console.print(size_line(instance), soft_wrap=True)
    console.print()
    columns = [(printable(before[0]), before[1]), (printable(after[0]), after[1])]
    console.print(metric_table(instance, columns))
    for heading, evaluation in columns:
        if not evaluation.feasible:
            broken = plural(len(evaluation.violations), "violation")
            console.print(f"{heading} is not feasible: {broken}", style="yellow")
    console.print()
    if not moves:
        console.print("no moves: the placements are the same")
        return
    cost = figure(instance, "state", sum(move[3] for move in moves))
    share = number(100 * len(moves) / instance.num_tasks, 2)
    console.print(f"{plural(len(moves), 'move')} ({share} % of the tasks), cost {cost}")
    print_moves(console, moves)


Side = tuple[str, "Plan", "Evaluation"]


def hold_threads(names: list[str]) -> bool:
    """Whether two plan files hold threads.

    Raises
    ------
    InvalidInput
        One holds threads and the other tasks.
    """
    from optim import Plan

    kinds = [Plan.load(name).threads is not None for name in names]
    if len(set(kinds)) > 1:
        which = names[kinds.index(False)]
        reason = "places tasks, the other plan threads: the two cannot be compared"
        raise InvalidInput(Problem("PLAN", which, reason, "name two plans of the same kind"))
    return kinds[0]


def diff_threads(instance: Instance, names: list[str], *, as_json: bool) -> None:
    """Tell what changes from the first plan to the second.

    Raises
    ------
    InvalidInput
        A plan of another instance.
    """
    from optim import Plan, evaluate

    plans = [Plan.load(name) for name in names]
    sides = [(n, plan, evaluate(instance, plan)) for n, plan in zip(names, plans, strict=True)]
    show = _print_threads_json if as_json else _print_threads_text
    show(instance, sides[0], sides[1])


def _print_threads_json(instance: Instance, before: Side, after: Side) -> None:
    from streamplace.present.json_text import print_json

    changes = thread_changes(instance, before[1], after[1])
    print_json(
        {
            "instance": instance.name,
            "before": {"name": before[0], "evaluation": before[2].to_dict()},
            "after": {"name": after[0], "evaluation": after[2].to_dict()},
            "threads": [
                {"operator": operator, "before": old, "after": new, "stay": stay, "move": move}
                for operator, (old, new, stay, move) in changes.items()
            ],
        }
    )


def _print_threads_text(instance: Instance, before: Side, after: Side) -> None:
    from streamplace.present.console import answer_console
    from streamplace.present.numbers import plural
    from streamplace.present.problems import printable
    from streamplace.present.tables import metric_table, size_line

    console = answer_console()
    console.print(size_line(instance), soft_wrap=True)
    console.print()
    columns = [(printable(name), evaluation) for name, _, evaluation in (before, after)]
    console.print(metric_table(instance, columns))
    for heading, evaluation in columns:
        if not evaluation.feasible:
            broken = plural(len(evaluation.violations), "violation")
            console.print(f"{heading} is not feasible: {broken}", style="yellow")
    console.print()
    print_thread_changes(console, instance, before[1], after[1])
