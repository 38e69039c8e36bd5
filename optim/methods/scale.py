"""One scale: instances as methods see them, in units of their own, and figures turned back.

The unit of a file (cores, millicores, bytes) must change neither a plan nor what is called optimal,
while kernels and solvers have tolerances of their own. So loads, rates and costs are divided by
powers of ten until the mean load of a node lies in [10, 100), the mean traffic of a task and the
mean cost of a move in [1, 10), outliers left out; and all are rounded to 14 digits, so that a file
times a power of ten gives the same numbers to the bit. The referee judges by the file's numbers.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Floats
    from optim.rules.violation import Violation

_DIGITS = 14
_REMARK = re.compile(r"( \([^()]*\))+$")
_OF_LOADS = ("capacity", "min_load", "slot_capacity", "max_load")
_OUTLIER = 1e3  # times what is usual: a total beyond is that of a few numbers
_FARTHEST = 1e100  # units that a number may have: it and its square are below the end of doubles
_EDGE = 1e-9  # a mean of exactly a power of ten, added up in another unit, is still that power


@dataclass(frozen=True, eq=False)
class Scale:
    """What one unit that methods see is in the file's units.

    Attributes
    ----------
    load
        (R,) of each resource.
    rate, cost
        Of traffic; of migration costs.
    """

    load: Floats = field(default_factory=lambda: np.ones(1))
    rate: float = 1.0
    cost: float = 1.0

    def of(self, unit: str) -> float:
        """Return the factor of a figure's or an option's unit; 1 for shares and counts."""
        if unit == "resource":
            return float(self.load[0])
        if unit == "per_resource":
            return 1.0 / float(self.load[0])
        turned = {"rate": self.rate, "cost": self.cost, "state": self.cost}
        return turned.get(unit, 1.0 / self.rate if unit == "per_rate" else 1.0)

    def told(self, instance: Instance, found: Violation) -> Violation:
        """Return a violation or reason with its figures in the file's units.

        Those of a load say where as ``PLACE.RESOURCE``, maybe with a remark in parentheses after
        it; those of a budget that keeps a node from being emptied, as ``NODE: BUDGET``.
        """
        factor, where = 1.0, _REMARK.sub("", found.where)
        if found.rule == "links":
            factor = self.rate
        elif found.rule == "max_migration_cost" or where.endswith(": max_migration_cost"):
            factor = self.cost
        elif found.rule == "max_load_distance":
            factor = float(self.load[0])
        elif found.rule in _OF_LOADS:
            resource = found.resource(instance.resources)
            if resource is not None:
                factor = float(self.load[resource])
        if factor == 1.0:
            return found
        figures = (found.amount * factor, found.needed * factor, found.available * factor)
        return replace(found, amount=figures[0], needed=figures[1], available=figures[2])


def scale_of(instance: Instance) -> Scale:
    """Choose the scale of an instance."""
    nodes, tasks = max(1, instance.num_nodes), max(1, instance.num_tasks)
    flows, cost = instance.flows, instance.tasks.migration_cost
    rates = np.concatenate([flows.rate, [block.pair_rate for block in flows.blocks]])
    loads = zip(instance.totals.tolist(), instance.tasks.load.T, strict=True)
    load, rate, cost_unit = _least_units(instance)
    return Scale(
        load=np.maximum(
            [_power(_typical(total, each) / nodes) / 10.0 for total, each in loads], load
        ),
        rate=max(_power(_typical(instance.total_traffic, rates) / tasks), rate),
        cost=max(_power(_typical(float(cost.sum()), cost) / tasks), cost_unit),
    )


def _least_units(instance: Instance) -> tuple[Floats, float, float]:
    """Return the least unit of each resource, of traffic and of costs that no number is inf in.

    What is available may become inf: where it is so far beyond what is needed, that is no limit.
    """
    nodes, tasks = instance.nodes, instance.tasks
    traffic = instance.total_traffic
    loads = np.vstack([instance.totals, nodes.min_load, instance.crossing_cost * traffic])
    rates = [traffic, *(s.rate for s in instance.streams), instance.links.background.max(initial=0)]
    costs = np.concatenate([tasks.state, tasks.migration_cost])
    return (
        np.array([_least_unit(most) for most in loads.max(axis=0)]),
        _least_unit(max(rates)),
        _least_unit(float(costs.max(initial=0.0))),
    )


def _least_unit(most: float) -> float:
    return _power(most) / _FARTHEST


def _typical(total: float, values: Floats) -> float:
    """Return a total, or what it would be if all values were as their median: without outliers.

    Scaled by a mean that is one large number alone, all others would lose their digits.
    """
    some = values[values > 0]
    usual = float(np.median(some)) * len(some) if len(some) else 0.0
    return usual if 0 < usual * _OUTLIER < total else total


def scaled(instance: Instance, scale: Scale) -> Instance:
    """Return the instance in units of the scale; the same one where nothing changes."""
    nodes, tasks, links, limits = instance.nodes, instance.tasks, instance.links, instance.limits
    load = scale.load
    rates = canonical(np.array([s.rate for s in instance.streams]), scale.rate).tolist()
    changed = replace(
        instance,
        nodes=replace(
            nodes,
            capacity=canonical(nodes.capacity, load),
            min_load=canonical(nodes.min_load, load),
            background=canonical(nodes.background, load),
            slot_capacity=canonical(nodes.slot_capacity, load),
        ),
        tasks=replace(
            tasks,
            load=canonical(tasks.load, load),
            max_load=canonical(tasks.max_load, load) if tasks.limited else tasks.max_load,
            state=canonical(tasks.state, scale.cost),
            given_cost=canonical(tasks.migration_cost, scale.cost),
        ),
        links=replace(
            links,
            capacity=canonical(links.capacity, scale.rate),
            background=canonical(links.background, scale.rate),
        ),
        crossing_cost=canonical(instance.crossing_cost, load / scale.rate),
        streams=tuple(
            stream._replace(rate=rate) for stream, rate in zip(instance.streams, rates, strict=True)
        ),
        traffic=replace(instance.traffic, rate=canonical(instance.traffic.rate, scale.rate)),
        limits=replace(
            limits,
            max_migration_cost=_one(limits.max_migration_cost, scale.cost),
            max_load_distance=_one(limits.max_load_distance, float(load[0])),
        ),
    )
    return instance if _same(instance, changed) else changed


def canonical(values: Any, unit: Any) -> Any:
    """Divide by powers of ten and round to 14 digits.

    Parameters
    ----------
    values
        Numbers of any shape, not negative; ``inf`` and ``nan`` stay.
    unit
        A power of ten, or one for each column.
    """
    with np.errstate(over="ignore"):  # what becomes inf is no limit
        some = np.asarray(values, dtype=np.float64) / unit
    plain = np.isfinite(some) & (some > 0)
    digits = np.zeros_like(some)
    np.log10(some, out=digits, where=plain)
    # powers up to 22 are exact; where a number is smaller than that, so is its last digit
    power = 10.0 ** np.clip(_DIGITS - 1 - np.floor(digits), -22, 22)
    whole = np.rint(np.where(plain, some, 0.0) * power)
    return np.where(whole > 0, whole / power, some)  # what is a little stays more than nothing


def _one(value: float | None, unit: float) -> float | None:
    """Scale one limit; none is left where it is so far beyond all there is that it becomes inf."""
    found = math.inf if value is None else float(canonical(np.array(value), unit))
    return found if math.isfinite(found) else None


def _power(mean: float) -> float:
    """Return the power of ten below a number, 1 for 0."""
    if not 0 < mean < math.inf:
        return 1.0
    return float(10.0 ** math.floor(math.log10(mean) + _EDGE))


def _same(left: Instance, right: Instance) -> bool:
    pairs = [
        *((getattr(left.nodes, n), getattr(right.nodes, n)) for n in ("capacity", "background")),
        *((getattr(left.nodes, n), getattr(right.nodes, n)) for n in ("min_load", "slot_capacity")),
        (left.tasks.load, right.tasks.load),
        (left.tasks.max_load, right.tasks.max_load),
        (left.tasks.migration_cost, right.tasks.migration_cost),
        (left.links.capacity, right.links.capacity),
        (left.links.background, right.links.background),
        (left.traffic.rate, right.traffic.rate),
        (left.crossing_cost, right.crossing_cost),
    ]
    limits = (left.limits, right.limits)
    names = ("max_migration_cost", "max_load_distance")
    return (
        all(np.array_equal(a, b) for a, b in pairs)
        and [s.rate for s in left.streams] == [s.rate for s in right.streams]
        and all(getattr(limits[0], name) == getattr(limits[1], name) for name in names)
    )
