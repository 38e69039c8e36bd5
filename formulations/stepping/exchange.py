"""Moves that are one step: replicas that take over each other's copies.

A task that moves to a node which holds a copy of it copies nothing, as long as the task that keeps
this copy there (another replica, of the same set that is ``apart``) leaves in the same step: two
that change places are a change of roles, and a chain is one that ends with a new copy. Made one
after the other, the first would have no place, or its copy would be gone.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from optim.format.tables import APART

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from formulations.stepping.move import Move, Step
    from optim.format.instance import Instance


def one_by_one(moves: Iterable[Move]) -> list[Step]:
    """Return each move as a step of its own."""
    return [(move,) for move in moves]


def exchanges(instance: Instance, moves: Sequence[Move]) -> list[Step]:
    """Group moves into steps, in the order of the first of each.

    Moves that take over from one another, directly or by others, are one step.
    """
    after = takes_over(instance, moves)
    root = {move.task: move.task for move in moves}

    def find(task: int) -> int:
        while root[task] != task:
            task = root[task]
        return task

    for task, other in after.items():
        root[find(other)] = find(task)
    steps: dict[int, list[Move]] = defaultdict(list)
    for move in moves:
        steps[find(move.task)].append(move)
    return [tuple(step) for step in steps.values()]


def takes_over(instance: Instance, moves: Iterable[Move]) -> dict[int, int]:
    """Return for tasks that move to a copy the task that keeps it there, and moves too."""
    copies, table = instance.copy_nodes, instance.sets
    if not copies:
        return {}
    moving = {move.task: move for move in moves}
    found: dict[int, int] = {}
    for i in range(len(table.ids)):
        if table.rule[i] != APART:
            continue
        members = [moving[t] for t in table.tasks_of(i).tolist() if t in moving]
        leaves = {move.source: move.task for move in members if move.source >= 0}
        for move in members:
            other = leaves.get(move.target)
            if other is not None and move.target in copies.get(move.task, ()):
                found.setdefault(move.task, other)
    return found
