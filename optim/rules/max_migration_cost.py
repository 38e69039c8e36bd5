"""``max_migration_cost``: the cost of all moved state keeps within a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.rules.base import (
    Form,
    Rule,
    by_home,
    known_as_home,
    limit_words,
    violation,
    without_limit,
)
from optim.rules.exact import total
from optim.rules.max_migrations import forced_moves
from optim.util.tolerance import over, slack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Floats
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation


def _violations(placement: Placement) -> Iterator[Violation]:
    instance = placement.instance
    limit = instance.limits.max_migration_cost
    if limit is None:
        return
    cost = total(instance.tasks.migration_cost[placement.migrated], limit)
    if over(cost, limit):
        yield violation("max_migration_cost", "limits", cost, limit)


def _home_and_price(instance: Instance) -> Floats:
    return np.column_stack([by_home(instance), instance.tasks.migration_cost])


def _proofs(instance: Instance) -> Iterator[Violation]:
    """Tasks that have to move cost more than may be spent."""
    limit, price = instance.limits.max_migration_cost, instance.tasks.migration_cost
    if limit is None:
        return
    cost = price[forced_moves(instance)].sum()
    if over(cost, limit + slack(limit)):
        yield violation("max_migration_cost", "tasks that may not stay", cost, limit)


MAX_MIGRATION_COST = Rule(
    name="max_migration_cost",
    field="limits.max_migration_cost",
    form=Form.BUDGET,
    present=limit_words("max_migration_cost"),
    dropped=without_limit("max_migration_cost"),
    violations=_violations,
    proofs=_proofs,
    mended=True,
    varies=True,
    task_key=_home_and_price,
    node_key=known_as_home,
)
