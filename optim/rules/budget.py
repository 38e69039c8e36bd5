"""Rules of the form *budget over moves*: Σ weight[t] over the tasks t that migrate ≤ limit.

Such a rule is its name and its weights; `budget_rule` makes the rest. Engines read the budgets that
an instance sets by `optim.rules.budgets`, and know none of them by name. A move onto a copy of the
task's state is no migration, nor is the placing of a task without a current node.

``max_migrations`` limits the number of tasks whose state moves, ``max_migration_cost`` the cost of
all moved state, ``max_migration_state`` that state itself, in the unit of `tasks[].state`: a task
without state takes none of it, whatever its move costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
from optim.util.tolerance import over, slack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation


class Budget(NamedTuple):
    """A budget over moves, as an instance sets it.

    Attributes
    ----------
    name
        The rule.
    weight
        (T,) what a migration of each task takes of it.
    limit
        Most that all migrations together may take.
    whole
        Whether weights are whole numbers, so that rounding decides nothing.
    """

    name: str
    weight: Floats
    limit: float
    whole: bool = False


def budget_rule(
    name: str, weight: Callable[[Instance], Floats], *, column: str | None = None
) -> Rule:
    """Return the rule of a budget under ``limits``.

    Parameters
    ----------
    name
        Of the rule, and of the number under ``limits``.
    weight
        (T,) what a migration of each task of an instance takes.
    column
        Column of the table of tasks that holds the weights, an amount of state or its cost; none
        where tasks are counted.
    """

    def budget(instance: Instance) -> Budget | None:
        limit = getattr(instance.limits, name)
        return None if limit is None else Budget(name, weight(instance), limit, column is None)

    def violations(placement: Placement) -> Iterator[Violation]:
        limit = getattr(placement.instance.limits, name)
        if limit is None:
            return
        spent = total(weight(placement.instance)[placement.migrated], limit)
        if over(spent, limit):
            yield violation(name, "limits", spent, limit)

    def proofs(instance: Instance) -> Iterator[Violation]:
        """Tasks that have to move take more than there is."""
        found = budget(instance)
        if found is None:
            return
        spent = found.weight[forced_moves(instance)].sum()
        if over(spent, found.limit + slack(found.limit)):
            yield violation(name, "tasks that may not stay", spent, found.limit)

    def task_key(instance: Instance) -> Floats:
        return np.column_stack([by_home(instance), weight(instance)])

    return Rule(
        name=name,
        field=f"limits.{name}",
        form=Form.BUDGET,
        present=limit_words(name),
        dropped=without_limit(name),
        violations=violations,
        proofs=proofs,
        mended=True,
        varies=True,
        task_key=task_key,
        node_key=known_as_home,
        budget=budget,
        column=column,
    )


def forced_moves(instance: Instance, *, with_copies: bool = True) -> Ints:
    """Tasks that may not stay where they are, nor go where a copy of their state is.

    Without `with_copies` those, too, that may go there.
    """
    tasks, copies = instance.tasks, instance.copy_nodes if with_copies else {}
    found = []
    for row, task in enumerate(tasks.restricted.tolist()):
        allowed = set(tasks.allowed_indices[slice(*tasks.allowed_indptr[row : row + 2])].tolist())
        home = int(tasks.node[task])
        if home >= 0 and home not in allowed and not allowed & copies.get(task, frozenset()):
            found.append(task)
    return np.array(found, dtype=np.int32)


MAX_MIGRATIONS = budget_rule("max_migrations", lambda instance: np.ones(instance.num_tasks))


MAX_MIGRATION_COST = budget_rule(
    "max_migration_cost",
    lambda instance: instance.tasks.migration_cost,
    column="given_cost",
)


MAX_MIGRATION_STATE = budget_rule(
    "max_migration_state",
    lambda instance: np.nan_to_num(instance.tasks.state),
    column="state",
)
