"""Scaling decisions on planned loads: how many nodes to add, which to let go."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.options import Option, read_options
from optim.plugins import loaded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.format.tables import Bools, Floats


@dataclass(frozen=True, eq=False)
class ScalingView:
    """What a rule decides on: the plan that would be deployed, not what runs.

    Attributes
    ----------
    period
        Number of the period.
    since_change
        Periods since nodes were last added or marked; a large number when they never were.
    load
        (N,) load of each node under the plan, first resource.
    capacity
        (N,) its capacity; ``inf`` where not given.
    leaving, may_leave
        (N,) marked already; may be marked (no key group is bound to it).
    load_distance
        Of the plan.
    template_capacity
        Capacity of a node that would be added.
    """

    period: int
    since_change: int
    load: Floats
    capacity: Floats
    leaving: Bools
    may_leave: Bools
    load_distance: float
    template_capacity: float


@dataclass(frozen=True)
class ScalingDecision:
    """What to change: nodes to add, to mark for removal, to recall from it (indices)."""

    add: int = 0
    mark: tuple[int, ...] = ()
    recall: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.add or self.mark or self.recall)


ScalingRule = Callable[[ScalingView], ScalingDecision]
"""Decides on scaling; an empty decision for nothing."""


@dataclass(frozen=True)
class NoScaling:
    """Leaves the nodes as they are."""

    def __call__(self, view: ScalingView) -> ScalingDecision:
        """Decide nothing."""
        return ScalingDecision()


@dataclass(frozen=True)
class UtilisationThreshold:
    """Keeps the utilisation of the staying nodes between two thresholds.

    Above `upper`, marked nodes are recalled (largest first), then nodes are added, until the load
    is at most `target` of the capacity. Below `lower`, the nodes with least planned load are marked
    as long as the others stay at or below `target`.

    Attributes
    ----------
    upper, lower, target
        Utilisation of all staying nodes together.
    min_nodes, max_nodes
        Fewest and most staying nodes; ``None`` for any number.
    cooldown
        Periods after a change before nodes are marked.
    max_load_distance
        Nodes are not marked while the plan is less balanced than this; ``None`` to do so anyway.
    full_load
        Capacity of a node of weight 1 where it is not the instance's.
    """

    upper: float = 0.8
    lower: float = 0.5
    target: float = 0.65
    min_nodes: int = 1
    max_nodes: int | None = None
    cooldown: int = 2
    max_load_distance: float | None = None
    full_load: float | None = None

    def __call__(self, view: ScalingView) -> ScalingDecision:
        """Compare the utilisation with the thresholds; every node needs a capacity."""
        capacity, template = self._capacity(view)
        stay = ~view.leaving
        total, offered = float(view.load.sum()), float(capacity[stay].sum())
        if total > self.upper * offered:
            return self._more(view, capacity, template, total, offered)
        balanced = self.max_load_distance is None or view.load_distance <= self.max_load_distance
        if total < self.lower * offered and view.since_change > self.cooldown and balanced:
            return self._fewer(view, capacity, total, offered)
        return ScalingDecision()

    def _capacity(self, view: ScalingView) -> tuple[Floats, float]:
        if self.full_load is not None:
            return np.full(len(view.load), self.full_load), self.full_load
        if not np.isfinite(view.capacity).all() or not math.isfinite(view.template_capacity):
            reason, what = "needs nodes[].capacity of the first resource", "it"
            value = None
        elif view.template_capacity <= 0:
            reason = "is the capacity of the staying nodes, of which none can be added"
            value, what = view.template_capacity, "one a capacity"
        else:
            return view.capacity, view.template_capacity
        remedy = f"give {what}, or --scaling-option full_load=100, or --scaling none"
        raise InvalidInput(Problem("--scaling utilisation", value, reason, remedy))

    def _more(
        self, view: ScalingView, capacity: Floats, template: float, total: float, offered: float
    ) -> ScalingDecision:
        needed, staying = total / self.target, int((~view.leaving).sum())
        most = math.inf if self.max_nodes is None else self.max_nodes
        recall = []
        for node in sorted(np.flatnonzero(view.leaving).tolist(), key=lambda i: -capacity[i]):
            if offered < needed and staying < most:
                recall.append(node)
                offered, staying = offered + float(capacity[node]), staying + 1
        add = max(0, math.ceil((needed - offered) / template - 1e-9))
        return ScalingDecision(int(min(add, max(0, most - staying))), recall=tuple(recall))

    def _fewer(
        self, view: ScalingView, capacity: Floats, total: float, offered: float
    ) -> ScalingDecision:
        mark: list[int] = []
        staying = int((~view.leaving).sum())
        for node in np.argsort(view.load, kind="stable").tolist():
            if view.leaving[node] or not view.may_leave[node]:
                continue
            rest = offered - float(capacity[node])
            if staying <= max(1, self.min_nodes) or total > self.target * rest:
                continue
            mark.append(node)
            offered, staying = rest, staying - 1
        return ScalingDecision(mark=tuple(mark))


def _share(name: str, default: float, help: str) -> Option:
    return Option(name, "float", default, help, minimum=1e-6, maximum=10.0)


OPTIONS: tuple[Option, ...] = (
    _share("upper", 0.8, "utilisation above which nodes are added"),
    _share("lower", 0.5, "utilisation below which nodes are marked"),
    _share("target", 0.65, "utilisation aimed at"),
    Option("min_nodes", "int", 1, "fewest staying nodes", minimum=1),
    Option("max_nodes", "int", None, "most staying nodes", minimum=1),
    Option("cooldown", "int", 2, "periods after a change before nodes are marked", minimum=0),
    Option("max_load_distance", "float", None, "mark nodes only when as balanced", minimum=0),
    Option("full_load", "float", None, "capacity of a node, in place of its own", minimum=1e-9),
)
"""Parameters of `UtilisationThreshold` as `--scaling-option` takes them."""


@dataclass(frozen=True)
class ScalingChoice:
    """A rule by name with its parameters, as a replay's record holds it."""

    name: str = "none"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> ScalingRule:
        """Return the rule.

        Raises
        ------
        InvalidInput
            There is none of that name, or it does not take the parameters.
        """
        if self.name not in ("none", "utilisation"):
            return _own_rule(self.name, self.parameters)
        where, options = "--scaling-option {}", OPTIONS if self.name == "utilisation" else ()
        values = read_options(self.name, options, self.parameters, where=where, noun="parameter")
        if not options:
            return NoScaling()
        if not values["lower"] < values["target"] <= values["upper"]:
            reason = "must lie above lower and not above upper"
            raise InvalidInput(Problem("--scaling-option target", values["target"], reason))
        return UtilisationThreshold(**values)


def _own_rule(name: str, parameters: Mapping[str, Any]) -> ScalingRule:
    """Load ``module:factory`` and call it with the parameters; it returns the rule."""
    factory = loaded(name, "--scaling", "none, utilisation, or module:factory of your own")
    try:
        inspect.signature(factory).bind(**parameters)
    except TypeError as error:
        raise InvalidInput(Problem("--scaling-option", None, f"{name}: {error}")) from None
    rule: ScalingRule = factory(**parameters)
    return rule
