"""From counts back to tasks on nodes, with as few moves as identical nodes and tasks allow."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from optim.kernels.classes import node_classes, task_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.kernels.classes import NodeClasses, TaskGroups

    Counts = NDArray[np.int64]
    Order = NDArray[np.int64]

_MATCHED = 1000
"""Identical nodes that are matched at most."""
_FEW = 6
"""Identical nodes whose orders are all looked at: scipy's solver takes half a second to load."""
_SMALL = 50_000_000
"""Tasks × nodes² up to which classes of tasks are counted."""


def counts_of(groups: TaskGroups, classes: NodeClasses, node: Ints, num_nodes: int) -> Counts:
    """(N', G) counts of a placement, usable nodes listed class by class."""
    return groups.counts(node, num_nodes)[classes.members]


def deal(groups: TaskGroups, classes: NodeClasses, counts: Counts, reference: Ints | None) -> Ints:
    """Return (T,) node indices that have these counts.

    Parameters
    ----------
    counts
        (N', G), usable nodes listed class by class.
    reference
        (T,) placement to stay close to, -1 where a task has no node; may be ``None``.
    """
    num_tasks = len(groups.group)
    near = np.full(num_tasks, -1, dtype=np.int32) if reference is None else reference
    num_nodes = len(classes.node_class)
    contents = np.zeros((num_nodes, groups.num_groups), dtype=np.int64)
    contents[classes.members] = counts[staying_order(groups, classes, counts, near)]
    node = np.full(num_tasks, -1, dtype=np.int32)
    for g in range(groups.num_groups):
        tasks = groups.tasks_of(g)
        node[tasks] = _deal_class(contents[:, g], near[tasks])
    return node


def staying_order(groups: TaskGroups, classes: NodeClasses, counts: Counts, near: Ints) -> Order:
    """Return which of the (N', G) contents each node takes, among identical ones, so most stay."""
    before = counts_of(groups, classes, near, len(classes.node_class))
    return np.concatenate(
        [
            classes.indptr[k] + matched(counts[mine], before[mine])
            for k in range(classes.num_classes)
            for mine in [slice(classes.indptr[k], classes.indptr[k + 1])]
        ]
    )


def matched(counts: Counts, before: Counts) -> Order:
    """Return which of the contents each place takes, so that most of what it had stays."""
    order = np.arange(len(counts))
    if len(counts) < 2 or len(counts) > _MATCHED or not before.any():
        return order
    order[_assigned(np.minimum(counts[:, None, :], before[None, :, :]).sum(axis=2))] = order.copy()
    return order


def _assigned(stay: NDArray[np.int64]) -> Order:
    """Return the place of each content; as they are where no others let more stay."""
    if len(stay) <= _FEW:
        orders = np.array(list(permutations(range(len(stay)))))
        return np.asarray(orders[stay[np.arange(len(stay)), orders].sum(axis=1).argmax()])
    from scipy.optimize import linear_sum_assignment

    content, place = linear_sum_assignment(stay, maximize=True)
    better = stay[content, place].sum() > np.trace(stay)
    return np.asarray(place) if better else np.arange(len(stay))


def _deal_class(wanted: Counts, near: Ints) -> Ints:
    """Place the tasks of one class: who may stay does, the others fill up in order."""
    left = wanted.copy()
    node = np.full(len(near), -1, dtype=np.int32)
    for i in np.flatnonzero(near >= 0):
        if left[near[i]] > 0:
            left[near[i]] -= 1
            node[i] = near[i]
    node[node < 0] = np.repeat(np.arange(len(left), dtype=np.int32), left)
    return node


def brought_home(instance: Instance, node: Ints) -> Ints:
    """Return the placement that identical nodes and tasks make of this one, nearest to the current.

    Where the classes are many, only nodes change places.
    """
    home, size = instance.tasks.node, instance.num_nodes
    classes = node_classes(instance)
    if not (home != node).any() or (classes.node_class[node] < 0).any():
        return node
    if instance.num_tasks * size * size <= _SMALL:
        groups = task_groups(instance)
        return deal(groups, classes, counts_of(groups, classes, node, size), home)
    return nodes_brought_home(instance, node, classes)


def nodes_brought_home(instance: Instance, node: Ints, classes: NodeClasses) -> Ints:
    """Return the placement that identical nodes make of this one, nearest to the current."""
    home, size = instance.tasks.node, instance.num_nodes
    new = np.arange(size, dtype=np.int32)
    for k in range(classes.num_classes):
        nodes = classes.nodes_of(k)
        at = np.full(size + 1, -1, dtype=np.int32)  # the last one for no node
        at[nodes] = np.arange(len(nodes))
        both = (at[node] >= 0) & (at[home] >= 0)
        stay = np.zeros((len(nodes), len(nodes)), dtype=np.int64)
        if len(nodes) > _MATCHED or not both.any():
            continue
        np.add.at(stay, (at[node[both]], at[home[both]]), 1)
        new[nodes] = nodes[_assigned(stay)]
    return new[node]
