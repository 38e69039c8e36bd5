"""What single moves of a plan are worth: what undoing each of them alone would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.figures.measures import moved_tasks
from optim.rules import broken
from optim.rules.placement import Placement

if TYPE_CHECKING:
    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.tables import Ints


class Worth(NamedTuple):
    """A move and what it brings.

    Attributes
    ----------
    task, source, target
        Indices.
    worth
        By how much the objective is worse without this one move; below 0 where it is better
        without. ``None`` where the objective has no value.
    breaks
        The rules that the plan breaks without it.
    """

    task: int
    source: int
    target: int
    worth: float | None
    breaks: tuple[str, ...]


def worth_of_moves(instance: Instance, node: Ints, objective: Figure) -> list[Worth]:
    """Undo each move alone, and have the referee's figures say what that costs."""
    judged = objective.binding(instance)
    before = objective.measured(Placement(instance, node))
    found, trial = [], np.array(node, dtype=np.int32)
    for task in moved_tasks(instance, node).tolist():
        home = int(instance.tasks.node[task])
        trial[task] = home
        # the figure is of the whole instance: a rate is measured by the limits that do not bind it
        after = objective.measured(Placement(instance, trial.copy()))
        violations = broken(Placement(judged, trial.copy()))
        rules = tuple(dict.fromkeys(violation.rule for violation in violations))
        trial[task] = node[task]
        found.append(Worth(task, home, int(node[task]), before.gain_over(after), rules))
    return found
