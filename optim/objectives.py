"""What a plan can be judged by, and how far apart an objective and its bound are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Sense = Literal["max", "min"]


@dataclass(frozen=True)
class Objective:
    """A figure of an evaluation that methods optimise.

    Attributes
    ----------
    name
        Attribute of `optim.evaluation.Evaluation`.
    sense
        Whether more or less is better.
    unit
        ``rate``, ``resource`` (the first one's), ``share`` or ``count``.
    absolute_gap
        Whether the gap is the plain difference (load distance: in points).
    optimal_gap
        Largest gap that still counts as optimal.
    """

    name: str
    sense: Sense
    unit: str
    absolute_gap: bool = False
    optimal_gap: float = 1e-6

    def gap(self, value: float | None, bound: float | None) -> float | None:
        """Distance between a value and a bound; ``None`` when either is unknown, never negative."""
        if value is None or bound is None:
            return None
        distance = value - bound if self.sense == "min" else bound - value
        distance = max(0.0, distance)
        if self.absolute_gap or distance == 0:
            return distance
        return distance / max(abs(value), abs(bound))

    def better(self, left: float, right: float) -> bool:
        """Whether `left` is strictly better than `right`."""
        return left > right if self.sense == "max" else left < right

    def beats_bound(self, value: float, bound: float) -> bool:
        """Whether a value lies beyond a bound by more than rounding: one of the two is wrong."""
        distance = bound - value if self.sense == "min" else value - bound
        if self.absolute_gap:
            return distance > self.optimal_gap
        return distance > 1e-6 * max(1e-6, abs(value), abs(bound)) + 1e-9


OBJECTIVES = {
    o.name: o
    for o in (
        Objective("imc_gain", "max", "rate"),
        Objective("internode_traffic", "min", "rate"),
        Objective("interslot_traffic", "min", "rate"),
        Objective("load_distance", "min", "resource", absolute_gap=True, optimal_gap=1e-3),
        Objective("max_utilisation", "min", "share"),
        Objective("cpu_deviation", "min", "share"),
        Objective("mean_absolute_deviation", "min", "share"),
        Objective("used_utilisation", "max", "share"),
        Objective("used_capacity", "min", "share"),
        Objective("nodes_used", "min", "count"),
        Objective("slots_used", "min", "count"),
        Objective("slots", "min", "count"),
        Objective("price", "min", "price"),
    )
}
