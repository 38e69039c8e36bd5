"""What `eoa-milp` minimises, level by level, and the value of a placement in each.

``capacity``
    Share of all CPU capacity that stands on nodes in use: the utilisation objective, since the same
    load on less capacity is a higher share of it.
``network``
    Traffic between nodes, the tie-breaker of utilisation.
``squares``
    Σ (u − ū)² of the CPU over staying nodes; the deviation R_dev is its root.
``absolute``
    Mean |u − ū|, the linear counterpart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from optim.figures.measures import internode_of, node_loads

if TYPE_CHECKING:
    from formulations.elastic.problem import EoaProblem
    from optim.format.tables import Floats, Ints

Goal = Literal["capacity", "network", "squares", "absolute"]

LEVELS: dict[str, tuple[Goal, ...]] = {
    "used_capacity": ("capacity", "network"),
    "cpu_deviation": ("squares",),
    "mean_absolute_deviation": ("absolute",),
}
"""What is asked for to levels, most important first."""

FIGURES: dict[Goal, str] = {
    "capacity": "used_capacity",
    "network": "internode_traffic",
    "squares": "cpu_deviation",
    "absolute": "mean_absolute_deviation",
}
"""Goal to the figure of the evaluation that it stands for."""

SAME = 1e-9
"""Values that differ by less than this part of them (traffic: of all traffic) are the same."""

_SHARE = 1e-15
"""Rounding of a share in use, as part of the largest one."""


@dataclass
class LevelAnswer:
    """What is known of one level; value and bound in units of the goal, always minimised.

    Attributes
    ----------
    goal, place, value, bound, termination
        (F,) best placement of the free tasks, what it reaches, what is proven, why it stopped.
    accepted
        Whether the solver took the start.
    solver, notes, trace, build
        For the result.
    """

    goal: Goal
    place: Ints | None = None
    value: float | None = None
    bound: float | None = None
    termination: str = "time_limit"
    accepted: bool | None = None
    solver: str | None = None
    notes: list[str] = field(default_factory=list)
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    build: float = 0.0

    def offer(self, problem: EoaProblem, place: Ints) -> bool:
        """Keep a placement if it is better than what is in hand; say whether it was."""
        value = value_of(problem, self.goal, place)
        if self.value is not None and value >= self.value:
            return False
        self.place, self.value = place, value
        return True

    def closed(self, rounding: float, gap: float = 0.0) -> bool:
        """Whether the bound meets the value, up to rounding or a relative gap."""
        if self.value is None or self.bound is None:
            return False
        room = gap * max(abs(self.value), abs(self.bound))
        return self.value - self.bound <= max(3 * rounding, room)


def scale_of(problem: EoaProblem, goal: Goal) -> float:
    """Size of a goal's figures, against which rounding is measured."""
    if goal == "network":
        return max(problem.instance.total_traffic, 1e-300)
    if goal == "capacity":
        return 1.0
    share = largest_share(problem)
    return share if goal == "absolute" else share**2


def largest_share(problem: EoaProblem) -> float:
    """Return the largest share in use that a staying node can come to."""
    most = np.minimum(problem.load[:, 0].sum(), np.maximum(problem.room[:, 0], 0.0))
    return max(float(shares(problem, problem.base + most).max(initial=0.0)), 1e-150)


def rounding_of(problem: EoaProblem, goal: Goal, value: float) -> float:
    """How far rounding may move a value: deviations of nearly even placements are tiny, too."""
    if goal == "network":  # a difference of sums as large as all traffic
        return SAME * scale_of(problem, goal)
    if goal == "capacity":
        return SAME * abs(value)
    error = _SHARE * largest_share(problem)
    return SAME * abs(value) + error * (float(np.sqrt(abs(value))) if goal == "squares" else 1.0)


def surely(problem: EoaProblem, goal: Goal, bound: float) -> float:
    """Lower a bound by what rounding may have added to it; nothing is below 0."""
    return max(0.0, bound - rounding_of(problem, goal, bound))


def value_of(problem: EoaProblem, goal: Goal, place: Ints) -> float:
    """Value of a placement of the free tasks."""
    instance, node = problem.instance, problem.placement(place)
    if goal == "network":
        return internode_of(instance, node)
    if goal == "capacity":
        return float(problem.capacity_share[np.unique(node)].sum())
    share = shares(problem, node_loads(instance, node)[:, 0])
    if goal == "squares":
        return float(((share - share.mean()) ** 2).sum())
    return float(np.abs(share - share.mean()).mean()) if len(share) else 0.0


def shares(problem: EoaProblem, load: Floats) -> Floats:
    """CPU share in use of the staying nodes, from (N,) loads; 0 where there is no capacity."""
    counted, capacity = counted_nodes(problem), problem.instance.nodes.capacity[:, 0]
    return np.where(capacity > 0, load / np.where(capacity > 0, capacity, 1.0), 0.0)[counted]


def counted_nodes(problem: EoaProblem) -> Ints:
    """Nodes over which deviations are counted: those that stay."""
    return np.flatnonzero(problem.instance.open_nodes).astype(np.int32)


def in_figure(goal: Goal, value: float | None) -> float | None:
    """Turn a goal's value into the figure it stands for."""
    if value is None or goal != "squares":
        return value
    return float(np.sqrt(max(0.0, value)))
