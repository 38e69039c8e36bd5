"""What a person reads about a model-driven plan: threads of each task, machines, what changed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from streamplace.present.console import name, plain_table
from streamplace.present.numbers import bar, number, percent, plural
from streamplace.present.tables import print_rest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console
    from rich.table import Table

    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.referee.evaluation import Evaluation

SHOWN_MACHINES = 24
SHOWN_TASKS = 24

Place = tuple[str, int]


def print_threads(
    console: Console, instance: Instance, plan: Plan | None, evaluation: Evaluation
) -> None:
    """Print threads by task and use by machine; nothing for a plan that holds no threads."""
    if plan is None or plan.threads is None:
        return
    console.print()
    console.print(_task_table(instance, plan))
    print_rest(console, instance.num_operators - SHOWN_TASKS, "task", "")
    console.print()
    console.print(_machine_table(plan, evaluation))
    print_rest(console, len(plan.nodes) - SHOWN_MACHINES, "machine", "")


def print_thread_changes(console: Console, instance: Instance, before: Plan, after: Plan) -> None:
    """Print what becomes of the threads of each task from one plan to another."""
    console.print(f"machines: {_machines(before)} → {_machines(after)}")
    table = plain_table(
        ["task", "threads", "", "stay", "move", "added", "removed"],
        right=["threads", "", "stay", "move", "added", "removed"],
    )
    changes = thread_changes(instance, before, after)
    for operator, (old, new, stay, move) in list(changes.items())[:SHOWN_TASKS]:
        figures = (old, new, stay, move, max(0, new - old), max(0, old - new))
        table.add_row(name(operator), *(f"{value:,}" for value in figures))
    console.print(table)
    print_rest(console, instance.num_operators - SHOWN_TASKS, "task", "")


def thread_changes(
    instance: Instance, before: Plan, after: Plan
) -> dict[str, tuple[int, int, int, int]]:
    """Task to threads before and after, and how many of the common ones stay and move.

    Threads of a task are alike: as many stay in a slot as it holds before and after.
    """
    found = {}
    old, new = _by_operator(before), _by_operator(after)
    for operator in instance.operators.ids:
        a, b = old.get(operator, Counter()), new.get(operator, Counter())
        stay = sum(min(count, b[place]) for place, count in a.items())
        common = min(a.total(), b.total())
        found[operator] = (a.total(), b.total(), stay, common - stay)
    return found


def _by_operator(plan: Plan) -> Mapping[str, Counter[Place]]:
    counts: dict[str, Counter[Place]] = {}
    slots = plan.slots or {}
    for thread, node in plan.assignment.items():
        operator = thread.rpartition("/")[0]
        counts.setdefault(operator, Counter())[node, slots.get(thread, -1)] += 1
    return counts


def _task_table(instance: Instance, plan: Plan) -> Table:
    rate = instance.units.get("rate", "tuples/s")
    heading = rate if len(rate) <= 24 else "rate"
    table = plain_table(
        ["task", "model", heading, "threads", "slots", "threads by slot"],
        right=[heading, "threads", "slots"],
    )
    counts = _by_operator(plan)
    for o, operator in enumerate(instance.operators.ids[:SHOWN_TASKS]):
        places = counts.get(operator, Counter())
        sizes = Counter(places.values())
        spread = ", ".join(f"{n} × {k}" for k, n in sorted(sizes.items(), reverse=True)[:4])
        table.add_row(
            name(operator),
            name(instance.operators.model[o] or "–"),
            number(float(instance.operators.tuple_rate[o])),
            f"{(plan.threads or {}).get(operator, 0):,}",
            f"{len(places):,}",
            spread + (", …" if len(sizes) > 4 else ""),
        )
    return table


def _machine_table(plan: Plan, evaluation: Evaluation) -> Table:
    table = plain_table(["machine", "type", "slots", "cpu", "memory", "threads"], right=["threads"])
    shares, threads = evaluation.utilisation or {}, evaluation.node_tasks or {}
    for node in plan.nodes[:SHOWN_MACHINES]:
        use = shares.get(node.id, {})
        where = f"{node.vm_type} in {node.rack}" if node.rack else node.vm_type
        table.add_row(
            name(node.id),
            name(where),
            f"{node.slots}",
            _share(use.get("cpu", 0.0)),
            _share(use.get("memory", 0.0)),
            f"{threads.get(node.id, 0):,}",
        )
    return table


def _share(share: float) -> Text:
    style = "red" if share > 1 + 1e-9 else "yellow" if share > 0.9 else "green"
    return Text.assemble((f"{bar(share):<10} ", style), percent(share, 0))


def _machines(plan: Plan) -> str:
    kinds = Counter(node.vm_type for node in plan.nodes)
    listed = " + ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items()))
    return f"{listed} ({plural(sum(node.slots for node in plan.nodes), 'slot')})"
