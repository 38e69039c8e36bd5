"""From an instance to the plain arrays of a rebalancing problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.homes import with_homes
from formulations.rebalancing.make_problem import check
from formulations.rebalancing.problem import BalanceProblem
from optim.errors import Problem, UnsuitableMethod
from optim.kernels.place_rules import place_rules
from optim.kernels.room import placing_floor, placing_room
from optim.rules import COPIES

if TYPE_CHECKING:
    from optim.format.instance import Instance


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
    binds = np.isfinite(headroom).any(axis=0) | (floor > 0).any(axis=0)
    rules = place_rules(instance)
    counts = rules.restrict or COPIES.present(instance) is not None
    problem = BalanceProblem(
        load=tasks.load[:, 0].copy(),
        cost=tasks.migration_cost,
        home=tasks.node.astype(np.int64),
        weight=nodes.weight,
        leaving=nodes.leaving,
        background=nodes.background[:, 0].copy(),
        max_moves=limits.max_migrations,
        max_cost=limits.max_migration_cost,
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
