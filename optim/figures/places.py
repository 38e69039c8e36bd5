"""Figures of places: what is used of them, and what moves between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.figures.figure import Figure
from optim.figures.measures import workers_restarted

if TYPE_CHECKING:
    from optim.figures.placement import Placement


def _slots_used(placement: Placement) -> int | None:
    return None if placement.slots is None else len(placement.slots)


def _migrations(placement: Placement) -> int | None:
    return len(placement.migrated) if placement.has_home else None


def _switches(placement: Placement) -> int | None:
    if not placement.instance.copy_nodes:
        return None
    return len(placement.moved) - len(placement.migrated)


def _cost(placement: Placement) -> float | None:
    if not placement.has_home:
        return None
    return float(placement.instance.tasks.migration_cost[placement.migrated].sum())


def _restarted(placement: Placement) -> int | None:
    if placement.slot is None or not placement.has_home:
        return None
    return workers_restarted(placement.instance, placement.node, placement.slot)


EXCESS = Figure(
    "excess",
    "excess",
    "sum of the amounts by which limits are broken, each as a share of all there is: of the load "
    "of the resource, of the traffic, of the tasks, of the cost of moving them (what tasks have "
    "above `max_load`: of each operator the task with most); 0 for a plan that keeps them all",
    "share",
    quiet=True,
)
"""Reckoned by the referee, from what it finds broken (`optim.rules.excess`)."""
NODE_TASKS = Figure(
    "node_tasks",
    "tasks",
    "node to number of tasks",
    "table",
    lambda placement: dict(
        zip(placement.instance.nodes.ids, placement.counts.tolist(), strict=True)
    ),
    whole=False,
)
NODES_USED = Figure(
    "nodes_used",
    "nodes used",
    "nodes that hold a task",
    "count",
    lambda placement: int(placement.used.sum()),
    sense="min",
)
SLOTS_USED = Figure(
    "slots_used",
    "slots used",
    "slots that hold a task",
    "count",
    _slots_used,
    sense="min",
)
WORKERS_RESTARTED = Figure(
    "workers_restarted",
    "workers restarted",
    "slots that hold other tasks than now, emptied and new ones included; unknown where the plan "
    "or the current placement has no slots",
    "count",
    _restarted,
    sense="min",
)
MIGRATIONS = Figure(
    "migrations",
    "moves",
    "tasks that leave their current node for one that holds no copy of their state",
    "count",
    _migrations,
    sense="min",
)
SWITCHES = Figure(
    "switches",
    "switches",
    "tasks that leave their current node for one that holds a copy of their state",
    "count",
    _switches,
)
MIGRATION_COST = Figure(
    "migration_cost",
    "migration cost",
    "what the migrations cost",
    "state",
    _cost,
    sense="min",
)
