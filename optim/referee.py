"""The referee: feasibility and every quantity, from instance and plan alone.

No figure of a method or solver is used here. The rules and quantities are those of the format's
description, in one place; methods and tests call the same helpers (`optim.measures`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.evaluation import Evaluation
from optim.measures import (
    distance_of_loads,
    imc_gain_of,
    link_loads,
    load_distance_of,
    moved_tasks,
    node_loads,
    slack_allowed,
    slot_places,
)
from optim.referee_rules import check_rules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from optim.instance import Instance
    from optim.plan import Plan
    from optim.tables import Floats, Ints

__all__ = [
    "check_belongs",
    "distance_of_loads",
    "evaluate",
    "evaluate_indices",
    "imc_gain_of",
    "link_loads",
    "load_distance_of",
    "moved_tasks",
    "node_loads",
    "slack_allowed",
    "slot_places",
]


def evaluate(instance: Instance, plan: Plan, ignore: Iterable[str] = ()) -> Evaluation:
    """Judge a plan.

    Parameters
    ----------
    instance, plan
        The only sources of every figure.
    ignore
        Limits that do not count (`optim.instance.LIMIT_NAMES`).

    Raises
    ------
    InvalidInput
        The plan was made for another instance, or names tasks or nodes that do not exist.
    """
    check_belongs(instance, plan)
    if plan.threads is not None:
        from optim.referee_model_driven import evaluate_model_driven

        return evaluate_model_driven(instance.without_limits(ignore), plan)
    judged = instance.without_limits(ignore)
    node = plan.node_indices(instance)
    slot = plan.slot_indices(instance)
    return evaluate_indices(judged, node, slot)


def evaluate_indices(instance: Instance, node: Ints, slot: Ints | None = None) -> Evaluation:
    """Judge a placement given as (T,) node and, where decided, slot indices; -1 is unplaced."""
    loads = node_loads(instance, node)
    violations = check_rules(instance, node, slot, loads)
    total = instance.total_traffic
    gain = imc_gain_of(instance, node)
    counts = np.bincount(node[node >= 0], minlength=instance.num_nodes)
    utilisation = _utilisation(instance, loads)
    return Evaluation(
        feasible=not violations,
        violations=tuple(violations),
        load_distance=distance_of_loads(instance, loads[:, 0]),
        imc_gain=gain,
        total_traffic=total,
        collocation_factor=gain / total if total > 0 else None,
        internode_traffic=max(0.0, total - gain),
        nodes_used=int((counts > 0).sum()),
        node_tasks=dict(zip(instance.nodes.ids, counts.tolist(), strict=True)),
        node_loads=_by_node(instance, loads),
        link_utilisation=_link_utilisation(instance, node),
        **_spread(instance, utilisation, counts),
        **_slot_figures(instance, node, slot, total),
        **_moves(instance, node),
    )


def check_belongs(instance: Instance, plan: Plan) -> None:
    """Refuse a plan that was made for another instance or names what does not exist.

    Raises
    ------
    InvalidInput
        See above.
    """
    if plan._instance is instance:
        return
    if plan.instance_sha256 is not None and plan.instance_sha256 != instance.sha256:
        raise InvalidInput(
            Problem(
                "instance_sha256",
                plan.instance_sha256,
                f"is another instance's; {instance.name!r} has {instance.sha256}",
                "use the instance the plan was made for, or make a new plan",
            )
        )
    _check_sort(instance, plan)
    if plan.threads is not None:
        return
    tasks, nodes = instance.tasks.index, instance.nodes.index
    problems = []
    for task, node in plan.assignment.items():
        if task not in tasks:
            problems.append(Problem(f"assignment.{task}", None, "is not a task of the instance"))
        if node not in nodes:
            problems.append(Problem(f"assignment.{task}", node, "is not a node of the instance"))
    for task in plan.slots or ():
        if task not in tasks:
            problems.append(Problem(f"slots.{task}", None, "is not a task of the instance"))
    if problems:
        raise InvalidInput(problems)


def _check_sort(instance: Instance, plan: Plan) -> None:
    """Refuse a plan of tasks for operators with models, and one of threads without these.

    It would place nothing, and be feasible for that.
    """
    modelled = any(model is not None for model in instance.operators.model)
    if plan.threads is None and modelled and instance.num_tasks == 0:
        reason = f"is missing: {instance.name!r} has operators with models and no tasks"
        remedy = "give the threads of each operator, and a slot for every one"
        raise InvalidInput(Problem("threads", None, reason, remedy))
    if plan.threads is not None and not modelled:
        reason = f"is of no use: no operator of {instance.name!r} has a model"
        raise InvalidInput(Problem("threads", None, reason, "give the node of every task instead"))


def _utilisation(instance: Instance, loads: Floats) -> Floats:
    """(N, R) share of the capacity in use; ``nan`` where there is no (or a zero) capacity."""
    capacity = instance.nodes.capacity
    share = np.full(loads.shape, np.nan)
    np.divide(loads, capacity, out=share, where=np.isfinite(capacity) & (capacity > 0))
    share[(capacity == 0) & (loads == 0)] = 0.0
    return share


def _by_node(instance: Instance, table: Floats) -> dict[str, dict[str, float]]:
    names = instance.resources
    return {
        node: {n: v for n, v in zip(names, row, strict=True) if v == v}
        for node, row in zip(instance.nodes.ids, table.tolist(), strict=True)
    }


def _spread(instance: Instance, share: Floats, counts: Any) -> dict[str, Any]:
    stay = instance.open_nodes[:, None] & np.isfinite(share)
    deviation, absolute = {}, None
    for r, name in enumerate(instance.resources):
        column = share[stay[:, r], r]
        if len(column):
            off = column - column.mean()
            deviation[name] = float(np.sqrt((off**2).sum()))
            if r == 0:
                absolute = float(np.abs(off).mean())
    known = share[np.isfinite(share)]
    first = share[:, 0]
    used = (counts > 0) & np.isfinite(first)
    capacity = instance.nodes.capacity[used, 0]
    return {
        "utilisation": _by_node(instance, share),
        "max_utilisation": float(known.max()) if len(known) else None,
        "deviation": deviation or None,
        "mean_absolute_deviation": absolute,
        "used_utilisation": (
            float((first[used] * capacity).sum() / capacity.sum()) if capacity.sum() > 0 else None
        ),
        "used_capacity": _used_capacity(instance, counts > 0),
    }


def _used_capacity(instance: Instance, used: Any) -> float | None:
    """Share of all capacity of the first resource that stands on nodes in use."""
    capacity = instance.nodes.capacity[:, 0]
    if not np.isfinite(capacity).all() or capacity.sum() <= 0:
        return None
    return float(capacity[used].sum() / capacity.sum())


def _slot_figures(
    instance: Instance, node: Ints, slot: Ints | None, total: float
) -> dict[str, Any]:
    if slot is None:
        return {}
    place = slot_places(node, slot)
    used, index = np.unique(place[place >= 0], return_inverse=True)
    compact = np.full(len(node), -1, dtype=np.int32)
    compact[place >= 0] = index
    inside = instance.flows.collocated(compact, max(1, len(used)))
    width = int(slot.max(initial=0)) + 1
    shares: dict[str, dict[str, float]] = {}
    for r, name in enumerate(instance.resources):
        load = np.bincount(index, instance.tasks.load[place >= 0, r], minlength=len(used))
        capacity = instance.nodes.slot_capacity[used // width, r]
        for k in np.flatnonzero(np.isfinite(capacity) & (capacity > 0)):
            label = f"{instance.nodes.ids[used[k] // width]}#{used[k] % width}"
            shares.setdefault(label, {})[name] = float(load[k] / capacity[k])
    return {
        "interslot_traffic": max(0.0, total - inside),
        "slots_used": len(used),
        "slot_utilisation": shares or None,
    }


def _link_utilisation(instance: Instance, node: Ints) -> dict[str, float] | None:
    if not instance.links.ids:
        return None
    loads, capacity = link_loads(instance, node), instance.links.capacity
    return {
        name: float(loads[i] / capacity[i])
        for i, name in enumerate(instance.links.ids)
        if capacity[i] > 0 and np.isfinite(capacity[i])
    }


def _moves(instance: Instance, node: Ints) -> dict[str, Any]:
    if not (instance.tasks.node >= 0).any():
        return {}
    moved = moved_tasks(instance, node)
    return {
        "migrations": len(moved),
        "migration_cost": float(instance.tasks.migration_cost[moved].sum()),
    }
