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

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.figures.measures import over, slack
from optim.rules.base import (
    Form,
    Limit,
    Rows,
    Rule,
    all_over,
    column_limit,
    current_node_key,
    labelled,
    limit_rows,
    number_limit,
    number_rule,
    occupied_node_key,
    total,
    violation,
    without_limit,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.base import Violation
    from optim.rules.placement import Placement


class Budget(NamedTuple):
    """A budget over moves, as an instance sets it."""

    name: str  # The rule.
    weight: Floats  # (T,) what a migration of each task takes of it.
    limit: float  # Most that all migrations together may take.
    integral: bool = False  # Whether weights are whole numbers, so that rounding decides nothing.
    entry: int = 0  # Which of the numbers of the rule it is (`Rule.limits`), where it has several.

    @property
    def counts_all(self) -> bool:
        """Whether each migration takes one of it: its limit is then the most tasks that move."""
        return self.integral and bool((self.weight == 1).all())


def budget_rule(
    name: str,
    weight: Callable[[Instance], Floats],
    *,
    unit: str = "",
    weight_column: str | None = None,
) -> Rule:
    """Return the rule of a budget under ``limits``.

    `name`: of the rule, and of the number under ``limits``.
    `weight`: (T,) what a migration of each task of an instance takes.
    `unit`: of the weights (`Limit.unit`); none where tasks are counted.
    `weight_column`: column of the table of tasks that holds weights in the unit of state, of which
        numbers that no plan can pay are bounded.
    """

    def budgets(instance: Instance) -> Iterator[Budget]:
        limit = getattr(instance.limits, name)
        if limit is not None:
            yield Budget(name, weight(instance), limit, not unit)

    def violations(placement: Placement) -> Iterator[Violation]:
        limit = getattr(placement.instance.limits, name)
        if limit is None:
            return
        spent = total(weight(placement.instance)[placement.migrated], limit)
        if over(spent, limit):
            yield violation(name, "limits", spent, limit)

    def proofs(instance: Instance) -> Iterator[Violation]:
        """Tasks that have to move take more than there is."""
        for budget in budgets(instance):
            spent = budget.weight[forced_moves(instance)].sum()
            if over(spent, budget.limit + slack(budget.limit)):
                yield violation(name, "tasks that may not stay", spent, budget.limit)

    def task_key(instance: Instance) -> Floats:
        return np.column_stack([current_node_key(instance), weight(instance)])

    return number_rule(
        number_limit(name, unit=unit, whole=not unit),
        Form.BUDGET,
        violations=violations,
        proofs=proofs,
        repairable=True,
        task_key=task_key,
        node_key=occupied_node_key,
        budgets=budgets,
        weight_column=weight_column,
    )


def forced_moves(instance: Instance, *, with_copies: bool = True) -> Ints:
    """Tasks that may not stay where they are, nor go where a copy of their state is.

    Without `with_copies` those, too, that may go there.
    """
    tasks, copies = instance.tasks, instance.copy_nodes if with_copies else {}
    forced = []
    for row, task in enumerate(tasks.restricted.tolist()):
        allowed = set(tasks.allowed_indices[slice(*tasks.allowed_indptr[row : row + 2])].tolist())
        home = int(tasks.node[task])
        if home >= 0 and home not in allowed and not allowed & copies.get(task, frozenset()):
            forced.append(task)
    return np.array(forced, dtype=np.int32)


MAX_MIGRATIONS = budget_rule("max_migrations", lambda instance: np.ones(instance.num_tasks))


def moving_at_most(instance: Instance, moves: int) -> Instance:
    """Return the instance in which at most so many tasks migrate, or fewer if it says so."""
    most = instance.limits.max_migrations
    most = moves if most is None else min(most, moves)
    return instance.with_values("limits", max_migrations=most)


MAX_MIGRATION_COST = budget_rule(
    "max_migration_cost",
    lambda instance: instance.tasks.migration_cost,
    unit="state",
    weight_column="given_cost",
)


MAX_MIGRATION_STATE = budget_rule(
    "max_migration_state",
    lambda instance: np.nan_to_num(instance.tasks.state),
    unit="state",
    weight_column="state",
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
    with_copies = np.unique(instance.tasks.copies_indices)
    key[with_copies] = 1 + np.arange(len(with_copies))
    return key


def copies_rule(counts_moves: Callable[[Instance], bool]) -> Rule:
    """Return the rule, given whether it matters to others of an instance which tasks move."""

    def present(instance: Instance) -> str | None:
        table = instance.tasks
        settled = table.copied[table.node[table.copied] >= 0]
        some = len(settled) > 0 and counts_moves(instance)
        return f"tasks[].copies (of {table.ids[settled[0]]})" if some else None

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
    most, of_node = instance.limits.max_inflow, instance.nodes.max_inflow
    every = instance.num_tasks if most is None else min(most, instance.num_tasks)
    return np.where(of_node >= 0, np.minimum(of_node, every), every).astype(np.int32)


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
    is_number=True,
    repairable=True,
    task_key=current_node_key,
    node_key=lambda of: np.column_stack([most_inflow(of), occupied_node_key(of)]),
    limits=(
        Limit(
            "max_inflow",
            "nodes",
            most_inflow,
            lambda instance: most_inflow(instance) < instance.num_tasks,
            _written,
            unset=-1,
            whole=True,
        ),
    ),
    inflow=lambda instance: None if _present(instance) is None else most_inflow(instance),
)


# Rules of the form *count of nodes*: at most so many nodes hold a task of each of some groups.
#
# With one group of tasks it bounds the nodes that these use; with two, and a limit of 0, tasks of
# the one may not share a node with tasks of the other. Engines read the counts that an instance
# sets by `optim.rules.node_counts`, and know none of them by name.


class NodeCount(NamedTuple):
    """A bound on a number of nodes, as an instance sets it."""

    #: The rule that it is of, and which entry of the file sets it.
    rule: str
    entry: int
    name: str  # What is counted, in words.
    groups: tuple[Bools, ...]  # One or two (T,) masks: a node counts that holds a task of each.
    limit: int  # Most nodes that may count.

    @property
    def of_all(self) -> bool:
        """Whether it bounds the nodes that all tasks use."""
        return len(self.groups) == 1 and bool(self.groups[0].all())

    def nodes(self, node: NDArray[Any], num_nodes: int) -> Bools:
        """(N,) which nodes count under a placement; -1 is nowhere."""
        counted = np.ones(num_nodes, dtype=np.bool_)
        for tasks in self.groups:
            holds = np.zeros(num_nodes, dtype=np.bool_)
            holds[node[tasks & (node >= 0)]] = True
            counted &= holds
        return counted

    def by_contents(self, one: NDArray[Any], counts: NDArray[Any]) -> Bools:
        """(P,) whether nodes count that hold (P, G) tasks of groups of equal ones.

        `one`: (G,) a task of each group.
        """
        holds = (counts @ tasks[one] > 0 for tasks in self.groups)
        return np.logical_and.reduce(list(holds))


# ``max_nodes_used``: at most so many nodes hold a task; background does not count.


def _counts(instance: Instance) -> Iterator[NodeCount]:
    most = instance.limits.max_nodes_used
    if most is not None:
        yield NodeCount(
            "max_nodes_used", 0, "nodes used", (np.ones(instance.num_tasks, dtype=np.bool_),), most
        )


def _value(placement: Placement) -> Ints:
    return np.array(np.count_nonzero(placement.counts))


def _node_count_violations(placement: Placement) -> Iterator[Violation]:
    most, used = placement.instance.limits.max_nodes_used, int(_value(placement))
    if most is not None and used > most:
        yield violation("max_nodes_used", "limits", used, most)


def _proofs(instance: Instance) -> Iterator[Violation]:
    """More load, or more tasks, than so many nodes have room for."""
    most, nodes = instance.limits.max_nodes_used, instance.nodes
    if most is None:
        return
    count = np.where(nodes.max_tasks >= 0, nodes.max_tasks, np.inf)
    largest = _largest(np.column_stack([instance.headroom, count]), most)
    needed = np.append(instance.tasks.load.sum(axis=0), instance.num_tasks)
    for r in np.flatnonzero(needed > largest * (1 + 1e-6)).tolist():
        what = (*instance.resources, "tasks")[r]
        yield violation(
            "max_nodes_used", f"the {most} largest nodes: {what}", needed[r], largest[r]
        )


def _largest(rooms: Floats, most: int) -> Floats:
    """Of each resource the sum of the largest rooms: no so many nodes have more."""
    return np.asarray(np.sort(np.maximum(rooms, 0.0), axis=0)[::-1][:most].sum(axis=0))


_MOST_USED = number_limit("max_nodes_used", whole=True)
MAX_NODES_USED = number_rule(
    _MOST_USED,
    Form.NODE_COUNT,
    violations=_node_count_violations,
    proofs=_proofs,
    repairable=True,
    rows=(limit_rows(_MOST_USED, _value),),
    node_counts=_counts,
)


def using_at_most(instance: Instance, nodes: int) -> Instance:
    """Return the instance in which all tasks use at most so many nodes, or fewer if it says so."""
    most = instance.limits.max_nodes_used
    most = nodes if most is None else min(most, nodes)
    return instance.with_values("limits", max_nodes_used=most)


# ``topologies[].exclusive_nodes``: a topology stands on few nodes, which nobody else uses.
#
# Storm's isolation scheduler asks for it: machines for one topology alone.


_NAMED = 5


def _alone(instance: Instance) -> list[int]:
    return np.flatnonzero(instance.topologies.exclusive_nodes >= 0).tolist()


def _exclusive_present(instance: Instance) -> str | None:
    for i in _alone(instance) if instance.num_tasks else ():
        return f"topologies[].exclusive_nodes (of {instance.topologies.ids[i]})"
    return None


def _exclusive_nodes_counts(instance: Instance) -> Iterator[NodeCount]:
    """Of each such topology the nodes that it uses, and those that it shares with others."""
    table, topology = instance.topologies, instance.task_topology
    for i in _alone(instance):
        members = np.asarray(topology == i)
        rule, words = "exclusive_nodes", f"{table.ids[i]}: nodes"
        yield NodeCount(rule, i, words, (members,), int(table.exclusive_nodes[i]))
        words = f"{words} shared with other tasks"
        yield NodeCount(rule, i, words, (members, ~members), int(table.shared_nodes[i]))


def _exclusive_nodes_violations(placement: Placement) -> Iterator[Violation]:
    instance = placement.instance
    for count in _exclusive_nodes_counts(instance):
        nodes = np.flatnonzero(count.nodes(placement.node, instance.num_nodes))
        if len(nodes) > count.limit:
            names = [instance.nodes.ids[n] for n in nodes[:_NAMED].tolist()]
            more = ", …" if len(nodes) > _NAMED else ""
            remark = f"on {', '.join(names)}{more}"
            yield violation("exclusive_nodes", count.name, len(nodes), count.limit, remark)


def _exclusive_nodes_value(placement: Placement) -> Floats:
    """(P, 2) nodes that each such topology uses, and nodes that it shares."""
    instance = placement.instance
    values = np.zeros((len(instance.topologies.ids), 2))
    used = [
        c.nodes(placement.node, instance.num_nodes).sum() for c in _exclusive_nodes_counts(instance)
    ]
    values[_alone(instance)] = np.reshape(used, (-1, 2))
    return values


def _exclusive_nodes_limit(instance: Instance) -> Floats:
    table = instance.topologies
    limits = np.column_stack([table.exclusive_nodes, table.shared_nodes]).astype(np.float64)
    return np.where(table.exclusive_nodes[:, None] >= 0, limits, np.inf)


def _exclusive_nodes_loosened(
    instance: Instance, mask: Bools, value: Any, _: Placement | None
) -> Instance:
    table = instance.topologies
    nodes, shared = (
        np.where(mask[:, k], np.asarray(value)[:, k], column).astype(np.int32)
        for k, column in enumerate((table.exclusive_nodes, table.shared_nodes))
    )
    return instance.with_values("topologies", exclusive_nodes=nodes, shared_nodes=shared)


def _exclusive_nodes_proofs(instance: Instance) -> Iterator[Violation]:
    """More topologies than nodes, or one with more load than so many nodes have room for."""
    table, topology = instance.topologies, instance.task_topology
    if table.shared_nodes.any():
        return
    alone = [i for i in _alone(instance) if (topology == i).any()]
    kinds = len(alone) + bool((~np.isin(topology, alone)).any())
    if alone and kinds > instance.num_nodes:
        yield violation("exclusive_nodes", "nodes", kinds, instance.num_nodes)
    for i in alone:
        load, most = instance.tasks.load[topology == i].sum(axis=0), int(table.exclusive_nodes[i])
        largest = _largest(instance.headroom, most)
        for r in np.flatnonzero(load > largest * (1 + 1e-6)).tolist():
            where = f"{table.ids[i]}: {most} nodes.{instance.resources[r]}"
            yield violation("exclusive_nodes", where, load[r], largest[r])


def _rise(instance: Instance, loose: Instance) -> Ints:
    """Of both counts of a topology the greater one is paid: the bound is the lower."""
    now, then = instance.topologies, loose.topologies
    return np.maximum(
        then.exclusive_nodes - now.exclusive_nodes, then.shared_nodes - now.shared_nodes
    )


def _exclusive_key(instance: Instance) -> Ints:
    topology = instance.task_topology
    return np.where(np.isin(topology, _alone(instance)), topology, -1)


EXCLUSIVE_NODES = Rule(
    name="exclusive_nodes",
    field="topologies[].exclusive_nodes",
    form=Form.NODE_COUNT,
    present=_exclusive_present,
    dropped=all_over("topologies", exclusive_nodes=-1),
    violations=_exclusive_nodes_violations,
    proofs=_exclusive_nodes_proofs,
    repairable=True,
    task_key=_exclusive_key,
    rows=(
        Rows(_exclusive_nodes_value, _exclusive_nodes_limit, _exclusive_nodes_loosened, whole=True),
    ),
    limits=(
        column_limit(
            "topologies",
            "exclusive_nodes",
            lambda of: of.exclusive_nodes >= 0,
            -1,
            whole=True,
            rise=_rise,
        ),
    ),
    node_counts=_exclusive_nodes_counts,
)
