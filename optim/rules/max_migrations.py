"""``max_migrations``: at most so many tasks whose state moves; switches to a copy do not count."""

from __future__ import annotations

import numpy as np

from optim.rules.budget import budget_rule

MAX_MIGRATIONS = budget_rule("max_migrations", lambda instance: np.ones(instance.num_tasks))
