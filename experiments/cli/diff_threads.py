"""``streamplace diff`` for two model-driven plans: threads, machines and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.cli.threads_text import print_thread_changes, thread_changes
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.referee.evaluation import Evaluation

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
    show = _print_json if as_json else _print_text
    show(instance, sides[0], sides[1])


def _print_json(instance: Instance, before: Side, after: Side) -> None:
    from experiments.cli.json_text import print_json

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


def _print_text(instance: Instance, before: Side, after: Side) -> None:
    from experiments.cli.console import answer_console
    from experiments.cli.problems import printable
    from experiments.cli.tables import metric_table, size_line
    from experiments.numbers import plural

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
