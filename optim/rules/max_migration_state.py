"""``max_migration_state``: the state of all tasks that move keeps within a budget.

In the unit of `tasks[].state`; a task without state takes none of it, whatever its move costs.
"""

from __future__ import annotations

import numpy as np

from optim.rules.budget import budget_rule

MAX_MIGRATION_STATE = budget_rule(
    "max_migration_state",
    lambda instance: np.nan_to_num(instance.tasks.state),
    column="state",
)
