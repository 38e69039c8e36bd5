"""Looking at a cluster again and again: what a new plan would change, and what that buys."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optim.figures.catalogue import find_objective
from optim.format.plan import Plan
from optim.methods.solve import solve
from optim.referee.evaluate import evaluate
from streamplace.clusters.exchange.placements import places_of_plan
from streamplace.clusters.flink.sheet import Sheet, sheet_of

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Ints


@dataclass(frozen=True)
class Proposal:
    """A plan for a cluster as it is now.

    Attributes
    ----------
    objective, now, then
        What was optimised, its value for the current placement, and for the plan.
    gain
        The improvement as a share of the current value; 0 where there is none.
    breaks
        Whether the current placement breaks a rule, which a plan mends whatever it gains.
    moved, total
        Subtasks that would run on another task manager, and all.
    sheet
        To carry it out.
    """

    objective: str
    now: float
    then: float
    gain: float
    breaks: bool
    moved: int
    total: int
    sheet: Sheet

    def __str__(self) -> str:
        """Return it as a line."""
        mends = ", mends a broken rule" if self.breaks else ""
        return (
            f"{self.objective} {self.now:.6g} now, {self.then:.6g} planned "
            f"({self.gain:+.1%}{mends}); {self.moved} of {self.total} move; plan {self.sheet.key}"
        )


def propose(
    instance: Instance, method: str | None, objective: str | None, time_limit: float
) -> Proposal | None:
    """Solve for a cluster as it was imported; ``None`` where there is no feasible plan."""
    result = solve(instance, method, objective=objective, time_limit=time_limit)
    if result.plan is None or not result.feasible or result.objective is None:
        return None
    name = result.objective.name
    current = evaluate(instance, Plan.from_indices(instance, instance.tasks.node))
    before, after = current.objective(name), result.objective.value
    if before is None or after is None:
        return None
    sheet = sheet_of(instance, places_of_plan(instance, result.plan))
    return Proposal(
        name,
        before,
        after,
        gain_of(before, after, str(find_objective(name).sense)),
        not current.feasible,
        count_moves(instance, result.plan.node_indices(instance)),
        instance.num_tasks,
        sheet,
    )


def gain_of(before: float, after: float, sense: str) -> float:
    """Return by which share of itself a value gets better: 0 where it does not, 1 from nothing."""
    better = after - before if sense == "max" else before - after
    if better <= 0:
        return 0.0
    return better / abs(before) if before else 1.0


def count_moves(instance: Instance, node: Ints) -> int:
    """Return how many tasks move in counts: tasks of an operator that change places do not."""
    moved = 0
    for o in range(instance.num_operators):
        tasks = instance.tasks_of(o)
        now = Counter(instance.tasks.node[tasks].tolist())
        then = Counter(node[tasks].tolist())
        moved += sum((then - now).values())
    return moved
