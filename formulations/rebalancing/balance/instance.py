"""From an instance to the plain arrays of a rebalancing problem.

Models, searches and bounds count from where tasks are. A task that is nowhere may start anywhere
and costs no migration, which is the same as a task whose state every node holds
(`tasks[].copies`): so each is given a current node from which every move is free, and nothing else
has to know of such tasks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.rebalancing.problem import BalanceProblem, check
from optim.errors import InvalidInput, Problem, UnsuitableMethod
from optim.figures.measures import node_loads
from optim.kernels.place_rules import place_rules
from optim.kernels.room import placing_floor, placing_room
from optim.rules import COPIES, budgets, counts_moves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints

    Indices = NDArray[np.int64]


def balance_problem(instance: Instance, method: str = "balance-milp") -> BalanceProblem:
    """Return the rebalancing problem of an instance.

    The first resource is balanced; every resource with a capacity or least load somewhere binds,
    the first one too.

    Parameters
    ----------
    instance
        Tasks without a current node are given one first (`with_homes`).
    method
        Named in the error.

    Raises
    ------
    UnsuitableMethod
        A task that stands on a staying node may be on leaving ones only.
    InvalidInput
        All nodes are leaving.
    """
    _check_leaving(instance, method)
    instance = with_homes(instance)
    tasks, nodes, limits = instance.tasks, instance.nodes, instance.limits
    headroom, floor = placing_room(instance), np.maximum(0.0, placing_floor(instance))
    binds = binding_resources(instance)
    rules = place_rules(instance)
    counts = rules.restrict or COPIES.present(instance) is not None
    problem = BalanceProblem(
        load=tasks.load[:, 0].copy(),
        cost=tasks.migration_cost,
        home=tasks.node.astype(np.int64),
        weight=nodes.weight,
        leaving=nodes.leaving,
        background=nodes.background[:, 0].copy(),
        budgets=tuple(budgets(instance)),
        max_distance=limits.max_load_distance,
        usage=tasks.load[:, binds].copy(),
        headroom=headroom[:, binds],
        floor=floor[:, binds],
        restricted=tasks.restricted.astype(np.int64),
        allowed_indptr=tasks.allowed_indptr.astype(np.int64),
        allowed_nodes=tasks.allowed_indices.astype(np.int64),
        into_leaving=limits.into_leaving,
        counted=rules if counts else None,
    )
    check(problem)
    return problem


def binding_resources(instance: Instance) -> Bools:
    """(R,) resources with a capacity or a least load somewhere."""
    floor = placing_floor(instance) > 0
    bound = np.isfinite(placing_room(instance))
    return np.asarray(bound.any(axis=0) | floor.any(axis=0))


def binding_names(instance: Instance) -> dict[str, list[str]]:
    """Return the names of these, as `optim.solvers.mps` asks for them."""
    return {
        "resource": [instance.resources[r] for r in np.flatnonzero(binding_resources(instance))]
    }


def _check_leaving(instance: Instance, method: str) -> None:
    """Refuse key groups of staying nodes that may be on leaving ones only.

    They would have to go where nothing else comes.
    """
    tasks, nodes = instance.tasks, instance.nodes
    stands = (tasks.node >= 0) & ~nodes.leaving[tasks.node]
    lost = np.flatnonzero(~instance.has_open_node & stands)
    if len(lost) and not instance.limits.into_leaving:
        raise UnsuitableMethod(
            Problem(
                f"tasks[{lost[0]}].allowed",
                tasks.ids[int(lost[0])],
                f"holds leaving nodes only, onto which {method} moves nothing",
                "allow a node that stays, or --ignore leaving",
            )
        )


def with_homes(instance: Instance) -> Instance:
    """Return the instance in which every task has a current node; itself where all have one.

    Nodes are given by a list schedule on top of what is placed already.
    """
    tasks = instance.tasks
    unplaced = np.flatnonzero(tasks.node < 0)
    if not len(unplaced) or not instance.num_nodes:
        return instance
    node = _listed(instance, unplaced)
    if not counts_moves(instance):
        return replace(instance, tasks=replace(tasks, node=node))
    copies = {task: sorted(nodes) for task, nodes in instance.copy_nodes.items()}
    copies |= {task: list(range(instance.num_nodes)) for task in unplaced.tolist()}
    copied = sorted(copies)
    rows = [copies[task] for task in copied]
    housed = replace(
        tasks,
        node=node,
        copied=np.array(copied, dtype=np.int32),
        copies_indptr=np.cumsum([0, *map(len, rows)]).astype(np.int32),
        copies_indices=np.concatenate(rows).astype(np.int32),
    )
    return replace(instance, tasks=housed)


def _listed(instance: Instance, unplaced: Any) -> Ints:
    """(T,) current nodes, and for tasks without one where a list schedule puts them.

    Those that fit on no node are put where they are allowed, whatever fits.
    """
    node = instance.tasks.node.copy()
    parts = [np.array([task], dtype=np.int64) for task in unplaced.tolist()]
    node[unplaced] = ListScheduler(instance, node).place(parts, instance.tasks.load[unplaced])
    for task in np.flatnonzero(node < 0).tolist():
        allowed = instance.allowed_mask(task)
        best = allowed & instance.open_nodes if instance.has_open_node[task] else allowed
        node[task] = int(best.argmax())
    return node


class ListScheduler:
    """Puts parts on nodes, heaviest first, each where the node's load by weight grows least high.

    Parameters
    ----------
    instance
        Whose staying nodes are used.
    present
        (T,) node indices, -1 for none: what is there already. By default nothing but background.
    """

    def __init__(self, instance: Instance, present: Ints | None = None) -> None:
        self._instance = instance
        self._present = np.zeros((instance.num_nodes, instance.num_resources))
        if present is not None:
            self._present = node_loads(instance, present) - instance.nodes.background
        self._weight = instance.nodes.weight
        self._room = placing_room(instance)
        self._restricted = np.zeros(instance.num_tasks, dtype=np.bool_)
        self._restricted[instance.tasks.restricted] = True

    def place(self, parts: Sequence[Indices], loads: Floats) -> Indices:
        """Return the node of each part; -1 for those that fit nowhere.

        Parameters
        ----------
        parts
            Key groups of each part.
        loads
            (len(parts), R) loads.
        """
        used = self._present.copy()
        total = self._instance.nodes.background[:, 0] + used[:, 0]
        node = np.full(len(parts), -1, dtype=np.int64)
        for part in np.argsort(-loads[:, 0], kind="stable").tolist():
            fits = (used + loads[part] <= self._room).all(axis=1) & self.may_hold(parts[part])
            if not fits.any():
                continue
            height = np.where(fits, (total + loads[part, 0]) / self._weight, np.inf)
            chosen = int(height.argmin())
            node[part] = chosen
            total[chosen] += loads[part, 0]
            used[chosen] += loads[part]
        return node

    def may_hold(self, part: Indices) -> Bools:
        """(N,) staying nodes where every key group of a part may be."""
        mask = self._instance.open_nodes.copy()
        for task in part[self._restricted[part]].tolist():
            mask &= self._instance.allowed_mask(task)
        return mask


def resource_first(instance: Instance, name: str) -> Instance:
    """Return the instance with a resource of it first, the others in their order."""
    others = [other for other in instance.resources if other != name]
    return instance.replace(resources=[name, *others])


def bottleneck_of(instance: Instance) -> str:
    """Return the name of the most used resource: the bottleneck (ALBIC, section 3).

    Use is the load of all tasks, with the background of the staying nodes, over the capacity of
    these. Of equally used resources the first is taken.

    Raises
    ------
    InvalidInput
        No resource has a capacity on every staying node, so that none can be said to be used most.
    """
    stays = ~instance.nodes.leaving
    capacity = instance.nodes.capacity[stays]
    known = np.isfinite(capacity).all(axis=0) & (capacity.sum(axis=0) > 0)
    if not known.any():
        reason, remedy = "is given on every staying node for no resource", "give capacities"
        raise InvalidInput(Problem("nodes[].capacity", instance.name, reason, remedy))
    load = instance.tasks.load.sum(axis=0) + instance.nodes.background[stays].sum(axis=0)
    used = np.full(len(known), -np.inf)
    used[known] = load[known] / capacity.sum(axis=0)[known]
    return instance.resources[int(used.argmax())]
