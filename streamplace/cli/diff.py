"""``streamplace diff``: what changes between the current placement and a plan, or two plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from optim import Plan, evaluate
from optim.errors import ExitCode, InvalidInput, Problem
from optim.referee import check_belongs, evaluate_indices
from streamplace.present.arguments import add_instance, add_json, declare, load_instance, load_plan
from streamplace.present.numbers import number, plural
from streamplace.present.streams import answer_console, print_json, printable
from streamplace.present.tables import (
    figure,
    metric_table,
    print_moves,
    print_thread_changes,
    print_undrained,
    size_line,
    thread_changes,
)

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.referee import Evaluation

EXAMPLES = """\
examples:
  streamplace diff cluster.json plan.json           current placement → plan
  streamplace diff cluster.json old.json new.json   plan → plan"""


class _Side(NamedTuple):
    """A placement and what the referee finds of it; the present one is no plan."""

    name: str
    evaluation: Evaluation
    plan: Plan | None = None

    def node(self, instance: Instance) -> Ints:
        """Return its (T,) node indices."""
        return instance.tasks.node if self.plan is None else self.plan.node_indices(instance)


_Moves = list[tuple[str, str, str, float]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_instance(parser)
    declare(parser, "plans", "one plan, or before and after", nargs="+", metavar="PLAN")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """List what changes from one placement to another, and the figures before and after."""
    if len(args.plans) > 2:
        reason = f"is given {len(args.plans)} times"
        raise InvalidInput(Problem("PLAN", None, reason, "at most two"))
    instance = load_instance(args.instance)
    before, after = _sides(instance, args.plans)
    if args.json:
        sides = {
            which: {"name": side.name, "evaluation": side.evaluation.to_dict()}
            for which, side in (("before", before), ("after", after))
        }
        changes = _changes(instance, before, after)
        print_json({"instance": instance.name, **sides, **changes})
    else:
        _print_text(instance, before, after)
    return int(ExitCode.OK)


def _sides(instance: Instance, names: list[str]) -> tuple[_Side, _Side]:
    """Read and judge what is compared."""
    plans = [load_plan(name) for name in names]
    if len(plans) == 2:
        threads = [plan.threads is not None for plan in plans]
        if threads[0] != threads[1]:
            which = names[threads.index(False)]
            reason = "places tasks, the other plan threads: the two cannot be compared"
            raise InvalidInput(Problem("PLAN", which, reason, "name two plans of the same kind"))
    elif not instance.has_current:
        reason = "is not given for every task, so there is no current placement to compare with"
        remedy = "name two plans: streamplace diff INSTANCE BEFORE AFTER"
        raise InvalidInput(Problem("tasks[].node", None, reason, remedy))
    for plan in plans:
        check_belongs(instance, plan)
    sides = [
        _Side(name, evaluate(instance, plan), plan) for name, plan in zip(names, plans, strict=True)
    ]
    if len(sides) == 1:
        sides.insert(0, _Side("current", evaluate_indices(instance, instance.tasks.node)))
    return sides[0], sides[1]


def _moves(instance: Instance, before: _Side, after: _Side) -> _Moves:
    """Return (task, from, to, cost) of each task that moves; an empty name for nowhere."""
    tasks, nodes = instance.tasks, (*instance.nodes.ids, "")  # -1 is nowhere
    old, new = before.node(instance).tolist(), after.node(instance).tolist()
    return [
        (tasks.ids[t], nodes[a], nodes[b], float(tasks.migration_cost[t]))
        for t, (a, b) in enumerate(zip(old, new, strict=True))
        if a != b
    ]


def _changes(instance: Instance, before: _Side, after: _Side) -> dict[str, Any]:
    """Return what changes as plain data: moves of tasks, or threads."""
    if before.plan is None or after.plan is None or before.plan.threads is None:
        moves = _moves(instance, before, after)
        return {
            "moves": [
                {"task": t, "from": a or None, "to": b or None, "cost": c} for t, a, b, c in moves
            ]
        }
    changes = thread_changes(instance, before.plan, after.plan)
    return {
        "threads": [
            {"operator": operator, "before": old, "after": new, "stay": stay, "move": move}
            for operator, (old, new, stay, move) in changes.items()
        ]
    }


def _print_text(instance: Instance, before: _Side, after: _Side) -> None:
    console = answer_console()
    print_undrained(console, after.evaluation)
    console.print(size_line(instance), soft_wrap=True)
    console.print()
    columns = [(printable(side.name), side.evaluation) for side in (before, after)]
    console.print(metric_table(instance, columns))
    for heading, evaluation in columns:
        if not evaluation.feasible:
            broken = plural(len(evaluation.violations), "violation")
            console.print(f"{heading} is not feasible: {broken}", style="yellow")
    console.print()
    if before.plan is None or after.plan is None or before.plan.threads is None:
        _print_moves(console, instance, _moves(instance, before, after))
    else:
        print_thread_changes(console, instance, before.plan, after.plan)


def _print_moves(console: Console, instance: Instance, moves: _Moves) -> None:
    if not moves:
        console.print("no moves: the placements are the same")
        return
    cost = figure(instance, "state", sum(move[3] for move in moves))
    share = number(100 * len(moves) / instance.num_tasks, 2)
    console.print(f"{plural(len(moves), 'move')} ({share} % of the tasks), cost {cost}")
    print_moves(console, moves)
