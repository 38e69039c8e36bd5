"""Figures of where tasks are: traffic inside nodes and slots, places and moves, machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.figures.figure import Figure
from optim.figures.measures import workers_restarted

if TYPE_CHECKING:
    from optim.figures.measures import Placement
    from optim.format.instance import Instance


def _silent(instance: Instance) -> str | None:
    return None if instance.has_traffic else "no tasks communicate"


def _collocated(placement: Placement) -> float | None:
    total = placement.instance.total_traffic
    return placement.gain / total if total > 0 else None


def _between_slots(placement: Placement) -> float | None:
    slots = placement.slots
    if slots is None:
        return None
    compact = np.full(len(placement.node), -1, dtype=np.int32)
    compact[slots.placed] = slots.index
    return placement.instance.flows.apart(compact, max(1, len(slots)))


IMC_GAIN = Figure(
    "imc_gain",
    "traffic inside nodes",
    "traffic between tasks on one node",
    "rate",
    lambda placement: placement.gain,
    sense="max",
    reference="total_traffic",
    question="How much traffic stays inside the nodes",
    shown_as="collocation_factor",
    constant=_silent,
)
TOTAL_TRAFFIC = Figure(
    "total_traffic",
    "traffic",
    "traffic between tasks, in all",
    "rate",
    lambda placement: placement.instance.total_traffic,
    quiet=True,
    whole=False,
)
INTERNODE_TRAFFIC = Figure(
    "internode_traffic",
    "traffic between nodes",
    "traffic between tasks on different nodes",
    "rate",
    lambda placement: placement.parted[1],
    sense="min",
    reference="total_traffic",
    same_as="imc_gain",
    constant=_silent,
)
INTERSLOT_TRAFFIC = Figure(
    "interslot_traffic",
    "traffic between slots",
    "traffic between tasks in different slots, other nodes included",
    "rate",
    _between_slots,
    sense="min",
    reference="total_traffic",
    constant=_silent,
)
COLLOCATION_FACTOR = Figure(
    "collocation_factor",
    "collocation",
    "share of the traffic between tasks that meets on one node and never crosses the network",
    "share",
    _collocated,
    sense="max",
    same_as="imc_gain",
    constant=_silent,
)


# Figures of places: what is used of them, and what moves between them.


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
    lambda placement: None if placement.slots is None else len(placement.slots),
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
    lambda placement: len(placement.migrated) if placement.has_home else None,
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


# Figures of plans that acquire machines; the referee of that kind of plan computes them.


SLOTS = Figure(
    "slots",
    "slots acquired",
    "slots of the acquired machines",
    "count",
    sense="min",
)
EXTRA_SLOTS = Figure(
    "extra_slots",
    "beyond the allocation",
    "slots acquired beyond what the allocation planned",
    "count",
)
SUPPORTED_RATE = Figure(
    "supported_rate",
    "supported input rate",
    "input rate that the threads sustain under shuffle grouping, tuples/s",
    "rate",
)
CAPACITY_RATE = Figure(
    "capacity_rate",
    "input rate by capacity",
    "input rate if every slot were sent what it can take, tuples/s",
    "rate",
)
BOTTLENECK = Figure(
    "bottleneck",
    "bottleneck",
    "the operator and slot where the supported rate ends",
    "text",
    quiet=True,
)
PRICE = Figure(
    "price",
    "price",
    "price of the acquired machines, $/h",
    "price",
    sense="min",
)
