"""``max_migration_cost``: the cost of all moved state keeps within a budget."""

from __future__ import annotations

from optim.rules.budget import budget_rule

MAX_MIGRATION_COST = budget_rule(
    "max_migration_cost",
    lambda instance: instance.tasks.migration_cost,
    column="given_cost",
)
