"""Rules of the form *budget over moves*: Σ weight[t] over the tasks t that migrate ≤ limit.

Such a rule is its name and its weights; `budget_rule` makes the rest. Engines read the budgets that
an instance sets by `optim.rules.budgets`, and know none of them by name. A move onto a copy of the
task's state is no migration, nor is the placing of a task without a current node.

``max_migrations`` limits the number of tasks whose state moves, ``max_migration_cost`` the cost of
all moved state, ``max_migration_state`` that state itself, in the unit of `tasks[].state`: a task
without state takes none of it, whatever its move costs. ``max_inflow`` counts moves onto a node,
``copies`` says which moves are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.rules.base import (
    Form,
    Limit,
    Rule,
    all_over,
    by_home,
    known_as_home,
    labelled,
    limit_words,
    number_limit,
    total,
    violation,
    without_limit,
)
from optim.util.tolerance import over, slack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.rules.base import Violation
    from optim.rules.placement import Placement


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
        limits=(number_limit(name, unit="state" if column else "", whole=column is None),),
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


def moving_at_most(instance: Instance, moves: int) -> Instance:
    """Return the instance in which at most so many tasks migrate, or fewer if it says so."""
    most = instance.limits.max_migrations
    most = moves if most is None else min(most, moves)
    return instance.with_values("limits", max_migrations=most)


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


# ``copies``: moving a task to a node that holds its state already is no migration.
#
# Nothing breaks this rule; a method that does not know it counts such moves, and then what it
# proves is of another problem.


_EMPTY = np.zeros(0, dtype=np.int32)


def _task_key(instance: Instance) -> NDArray[np.int64]:
    copies = instance.copy_nodes
    return labelled(copies.get(t, frozenset()) for t in range(instance.num_tasks))


def _node_key(instance: Instance) -> NDArray[np.int64]:
    """Nodes that hold a copy are unlike all others."""
    key = np.zeros(instance.num_nodes, dtype=np.int64)
    held = np.unique(instance.tasks.copies_indices)
    key[held] = 1 + np.arange(len(held))
    return key


def copies_rule(counting: Sequence[Rule]) -> Rule:
    """Return the rule, given those for which it matters whether a task moves."""

    def present(instance: Instance) -> str | None:
        table = instance.tasks
        settled = table.copied[table.node[table.copied] >= 0]
        counted = any(rule.present(instance) is not None for rule in counting)
        return f"tasks[].copies (of {table.ids[settled[0]]})" if counted and len(settled) else None

    return Rule(
        name="copies",
        field="tasks[].copies",
        form=Form.FREE_MOVES,
        present=present,
        dropped=lambda instance: instance.with_values(
            "tasks", copied=_EMPTY, copies_indptr=np.zeros(1, np.int32), copies_indices=_EMPTY
        ),
        task_key=_task_key,
        node_key=_node_key,
    )


# ``max_inflow``: at most so many tasks move their state onto a node.
#
# On all nodes by ``limits.max_inflow``, on one by ``nodes[].max_inflow``; the less binds. A task
# that has no current node yet does not count, nor does one that switches to a copy.


def most_inflow(instance: Instance) -> Ints:
    """(N,) most tasks that may move onto each node; the number of all tasks where none is set."""
    most, own = instance.limits.max_inflow, instance.nodes.max_inflow
    every = instance.num_tasks if most is None else min(most, instance.num_tasks)
    return np.where(own >= 0, np.minimum(own, every), every).astype(np.int32)


def _present(instance: Instance) -> str | None:
    if instance.limits.max_inflow is not None:
        return f"limits.max_inflow = {instance.limits.max_inflow}"
    set_on = np.flatnonzero(instance.nodes.max_inflow >= 0)
    return f"nodes[].max_inflow (of {instance.nodes.ids[set_on[0]]})" if len(set_on) else None


def _violations(placement: Placement) -> Iterator[Violation]:
    instance = placement.instance
    if _present(instance) is None:
        return
    most = most_inflow(instance)
    inflow = np.bincount(placement.node[placement.migrated], minlength=instance.num_nodes)
    for n in np.flatnonzero(inflow > most):
        yield violation("max_inflow", instance.nodes.ids[n], inflow[n], most[n])


def _written(instance: Instance, values: Ints) -> Instance:
    """Most tasks that may move onto each node, on all of them by what stands at the node."""
    instance = without_limit("max_inflow")(instance)
    return instance.with_values("nodes", max_inflow=values.astype(np.int32))


MAX_INFLOW = Rule(
    name="max_inflow",
    field="limits.max_inflow",
    form=Form.INFLOW,
    present=_present,
    dropped=lambda of: without_limit("max_inflow")(all_over("nodes", max_inflow=-1)(of)),
    violations=_violations,
    varies=True,
    mended=True,
    task_key=by_home,
    node_key=lambda of: np.column_stack([most_inflow(of), known_as_home(of)]),
    limits=(
        Limit(
            "max_inflow",
            "nodes",
            most_inflow,
            lambda instance: most_inflow(instance) < instance.num_tasks,
            _written,
            none=-1,
            whole=True,
        ),
    ),
    inflow=lambda instance: None if _present(instance) is None else most_inflow(instance),
)
