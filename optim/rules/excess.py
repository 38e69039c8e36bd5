"""By how much a placement exceeds limits, and limits loosened to what is exceeded today.

The excess is the sum over what a plan breaks of the amount, as a share of all there is of that: of
the load of a resource, of the traffic, of the tasks, of the cost of moving them. So it has no unit,
and what a row weighs depends on no plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.rules import RULES, Form, budgets
from optim.rules.placement import Placement
from optim.util.tolerance import TOLERANCE, over, slack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.rules.base import Violation

ROWS = tuple(rows for rule in RULES for rows in rule.rows)
"""What may be loosened, in the order in which it is."""
RULE_OF = tuple(rule.name for rule in RULES for _ in rule.rows)
"""The rule of each."""
_SAME = 1e-7
"""Relative difference of two amounts that is none."""
_OPEN = 5.0
"""Tolerances of a row by which two amounts above its limit may differ and be the same."""
_OF_LOAD = ("capacity", "min_load", "slot_capacity", "max_load")


def total_of(instance: Instance, rule: str, resource: int = 0) -> float:
    """Return all there is of what a rule bounds: what an amount is a share of; never 0."""
    if rule in _OF_LOAD or rule == "max_load_distance":
        total = float(instance.totals[resource])
    elif rule == "links":
        total = instance.total_traffic + float(instance.links.background.sum())
    else:
        spent = (budget for budget in budgets(instance) if budget.name == rule)
        total = next((float(b.weight.sum()) for b in spent), float(instance.num_tasks))
    return total if total > 0 else 1.0


def excess_of(instance: Instance, violations: Iterable[Violation]) -> float:
    """Return the excess of a placement from what it breaks."""
    return float(
        sum(v.amount / total_of(instance, v.rule, _resource(instance, v)) for v in violations)
    )


def rounding_of(instance: Instance, violations: Iterable[Violation]) -> float:
    """Return the difference of two excesses that is none, from the rows broken.

    The tolerances of these rows, with what proofs leave open beside them.
    """
    return float(
        sum(
            _OPEN
            * slack(max(abs(v.needed), abs(v.available)))
            / total_of(instance, v.rule, _resource(instance, v))
            for v in violations
        )
    )


def _resource(instance: Instance, violation: Violation) -> int:
    """Return the resource of which a violation is; the first for those that are of none."""
    return (violation.resource(instance.resources) or 0) if violation.rule in _OF_LOAD else 0


def worsened(now: Iterable[Violation], then: Iterable[Violation]) -> list[Violation]:
    """Return what a plan breaks that holds now, or is violated less."""
    before = {v.key: v.amount for v in now}
    return [v for v in then if v.amount > before.get(v.key, 0.0) * (1 + _SAME)]


def loosened(
    instance: Instance,
    node: Ints,
    binding: Instance | None = None,
    *,
    narrow: bool = False,
    forms: Iterable[Form] = tuple(Form),
) -> Instance:
    """Return the instance with the limits that a placement exceeds raised to what it has.

    Every plan that is nowhere worse than the placement keeps the rules of what is returned, and
    nearly nothing else does: `worsened` reports.

    Parameters
    ----------
    node
        (T,) nodes; -1 for a task without one.
    binding
        The instance with only the limits that are none for the objective; itself if left out.
    narrow
        Keep together what is together in the placement, of sets to be together that it breaks;
        else these are dropped.
    forms
        Of the rules whose limits are raised.
    """
    binding = instance if binding is None else binding
    for rows in (rows for rule in RULES if rule.form in forms for rows in rule.rows):
        placement = Placement(binding, node)
        value, limit = np.asarray(rows.value(placement)), np.asarray(rows.limit(binding))
        broken = np.asarray(over(value, limit))
        if not rows.whole:  # what is there now is not at the edge of what methods may use
            value = value + TOLERANCE * np.abs(np.where(np.isfinite(value), value, 0.0))
        if broken.any():
            kept = placement if narrow else None
            binding, instance = (rows.loosened(i, broken, value, kept) for i in (binding, instance))
    return instance
