"""One result and what it says, beside our own reading of its plan."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from tests.fuzz.brute import Space
from tests.fuzz.figures import Figures, measure
from tests.fuzz.product import Setting, registered
from tests.fuzz.reading import Reading
from tests.fuzz.rules import LOOSE, TIGHT, broken

#: what `optimal` may miss: a share of the objective, of the mean load for load distance
RELATIVE, OF_MEAN = 1e-6, 1e-5
_OF_TRAFFIC = ("imc_gain", "internode_traffic", "interslot_traffic")


class Claim:
    """What a method says of an instance.

    Attributes
    ----------
    node, slot
        Indices of the plan, -1 where missing; ``None`` where it decides none.
    name, sense, value, bound, termination
        The objective and what is told of it.
    """

    def __init__(
        self, setting: Setting, method: str, keywords: dict[str, Any], result: Any
    ) -> None:
        self.setting, self.method, self.keywords, self.result = setting, method, keywords, result
        self.declared = registered()[method]
        self.space: Space = setting.space(frozenset(result.ignored))
        self.reading: Reading = self.space.reading
        self.termination = str(result.termination)
        objective = result.objective
        self.name = None if objective is None else objective.name
        self.sense = "min" if objective is None else objective.sense
        self.value = None if objective is None else objective.value
        self.bound, self.bound_of, self.gap = result.bound, result.bound_of, result.gap
        self.node: list[int] | None = None
        self.slot: list[int] | None = None
        if result.plan is not None:
            self.node, self.slot = indices(self.reading, result.plan)

    @cached_property
    def figures(self) -> Figures:
        """Our figures of its plan."""
        return measure(self.reading, np.array([self.node], dtype=int))

    @cached_property
    def surely_broken(self) -> set[str]:
        """Rules that the plan breaks beyond the tolerance."""
        assert self.node is not None
        return broken(self.reading, self.node, self.slot, LOOSE)

    @cached_property
    def maybe_broken(self) -> set[str]:
        """Rules that the plan breaks, or keeps by the tolerance only."""
        assert self.node is not None
        return broken(self.reading, self.node, self.slot, TIGHT)

    @property
    def feasible(self) -> bool:
        """What the product says of the plan."""
        return self.result.plan is not None and self.result.evaluation.feasible

    @property
    def sound(self) -> bool:
        """Whether the product and we agree that there is a feasible plan."""
        return self.feasible and not self.surely_broken

    def worth(self, figures: Figures) -> float | None:
        """Return what was asked for, of another plan: the objective, or a weighted sum with it."""
        value = None if self.name is None else figures.value(self.name)
        if self.name == "imc_gain" and self.keywords.get("weighted"):
            distance = figures.value("load_distance")
            return None if value is None or distance is None else value - distance
        return value

    def worse_by(self, value: float, other: float) -> float:
        """Return by how much `value` is worse than `other`."""
        return other - value if self.sense == "max" else value - other

    def rounding(self) -> float:
        """Return what sums of the objective may differ by without meaning."""
        if self.name in _OF_TRAFFIC:
            return 4e-12 * self.reading.total_traffic
        return 1e-9 * float(self.reading.totals[0]) if self.name == "load_distance" else 1e-9

    def allowed_miss(self, *values: float) -> float:
        """Return how far from the optimum `optimal` may be, in the objective's unit."""
        if self.name == "load_distance":
            return OF_MEAN * self.reading.means[1]
        return RELATIVE * max(map(abs, values), default=0.0)

    def closed(self) -> bool:
        """Whether value and bound meet, by the design's measure."""
        if self.value is None or self.bound is None or not math.isfinite(self.bound):
            return False
        miss = 1.001 * self.allowed_miss(self.value, self.bound)
        return abs(self.value - self.bound) <= miss + self.rounding()


def indices(reading: Reading, plan: Any) -> tuple[list[int], list[int] | None]:
    """Return node and slot indices of a plan, -1 where missing; ``None`` for no slots."""
    assignment = dict(plan.assignment)
    node = [reading.node_index.get(assignment.get(t, ""), -1) for t in reading.task_ids]
    if plan.slots is None:
        return node, None
    slots = dict(plan.slots)
    return node, [slots.get(t, -1) for t in reading.task_ids]
