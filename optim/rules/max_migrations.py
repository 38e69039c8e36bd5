"""``max_migrations``: at most so many tasks whose state moves; switches to a copy do not count."""

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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation


def _violations(placement: Placement) -> Iterator[Violation]:
    limit = placement.instance.limits.max_migrations
    if limit is not None and len(placement.migrated) > limit:
        yield violation("max_migrations", "limits", len(placement.migrated), limit)


def forced_moves(instance: Instance) -> Ints:
    """Tasks that may not stay where they are, nor go where a copy of their state is."""
    tasks, copies = instance.tasks, instance.copy_nodes
    found = []
    for row, task in enumerate(tasks.restricted.tolist()):
        allowed = set(tasks.allowed_indices[slice(*tasks.allowed_indptr[row : row + 2])].tolist())
        home = int(tasks.node[task])
        if home >= 0 and home not in allowed and not allowed & copies.get(task, frozenset()):
            found.append(task)
    return np.array(found, dtype=np.int32)


def _proofs(instance: Instance) -> Iterator[Violation]:
    """More tasks that have to move than may."""
    limit = instance.limits.max_migrations
    if limit is not None and (count := len(forced_moves(instance))) > limit:
        yield violation("max_migrations", "tasks that may not stay", count, limit)


MAX_MIGRATIONS = Rule(
    name="max_migrations",
    field="limits.max_migrations",
    form=Form.BUDGET,
    present=limit_words("max_migrations"),
    dropped=without_limit("max_migrations"),
    violations=_violations,
    proofs=_proofs,
    mended=True,
    varies=True,
    task_key=by_home,
    node_key=known_as_home,
)
