"""Every figure of a plan, and their values together; nothing else lists them.

A new figure is an object here or in `load.py`, and a line in `Figures`, whose annotation gives
its type. Evaluations, tables, the columns and words of sweeps and reports, SQL and documentation
are made from `FIGURES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import numpy as np

from optim.errors import InvalidInput
from optim.figures import load
from optim.figures.figure import Figure, read_objective
from optim.figures.measures import workers_restarted

if TYPE_CHECKING:
    from optim.figures.measures import Placement
    from optim.format.instance import Instance


# Figures of where tasks are: traffic inside nodes and slots, places and moves, machines.


def _silent(instance: Instance) -> str | None:
    return None if instance.has_traffic else "no tasks communicate"


def _collocated(placement: Placement) -> float | None:
    total = placement.instance.total_traffic
    return placement.gain / total if total > 0 else None


def _between_slots(placement: Placement) -> float | None:
    slots = placement.slots
    if slots is None:
        return None
    # slots as places 0 … S-1, so that traffic between them is counted as between nodes
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
    local_first=True,
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
    local_first=True,
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
    local_first=True,
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
    local_first=True,
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
"""Reckoned by the referee, from what it finds broken (`optim.rules`)."""
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
    local_first=True,
)
SLOTS_USED = Figure(
    "slots_used",
    "slots used",
    "slots that hold a task",
    "count",
    lambda placement: None if placement.slots is None else len(placement.slots),
    sense="min",
    local_first=True,
)
WORKERS_RESTARTED = Figure(
    "workers_restarted",
    "workers restarted",
    "slots that hold other tasks than now, emptied and new ones included; unknown where the plan "
    "or the current placement has no slots",
    "count",
    _restarted,
    sense="min",
    local_first=True,
)
MIGRATIONS = Figure(
    "migrations",
    "moves",
    "tasks that leave their current node for one that holds no copy of their state",
    "count",
    lambda placement: len(placement.migrated) if placement.has_home else None,
    sense="min",
    local_first=True,
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
    local_first=True,
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


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one plan, each explained by its `Figure`; ``None`` where it does not apply."""

    excess: Annotated[float | None, EXCESS] = None
    drained: Annotated[bool | None, load.DRAINED] = None
    undrained: Annotated[dict[str, Any] | None, load.UNDRAINED] = None
    load_distance: Annotated[float | None, load.LOAD_DISTANCE] = None
    mean_load: Annotated[float | None, load.MEAN_LOAD] = None
    sustainable_rate: Annotated[float | None, load.SUSTAINABLE_RATE] = None
    saturation: Annotated[list[dict[str, Any]] | None, load.SATURATION] = None
    rate_after_loss: Annotated[float | None, load.RATE_AFTER_LOSS] = None
    imc_gain: Annotated[float | None, IMC_GAIN] = None
    total_traffic: Annotated[float | None, TOTAL_TRAFFIC] = None
    internode_traffic: Annotated[float | None, INTERNODE_TRAFFIC] = None
    interslot_traffic: Annotated[float | None, INTERSLOT_TRAFFIC] = None
    collocation_factor: Annotated[float | None, COLLOCATION_FACTOR] = None
    utilisation: Annotated[dict[str, dict[str, float]] | None, load.UTILISATION] = None
    slot_utilisation: Annotated[dict[str, dict[str, float]] | None, load.SLOT_UTILISATION] = None
    link_utilisation: Annotated[dict[str, float] | None, load.LINK_UTILISATION] = None
    max_utilisation: Annotated[float | None, load.MAX_UTILISATION] = None
    max_link_utilisation: Annotated[float | None, load.MAX_LINK_UTILISATION] = None
    deviation: Annotated[dict[str, float] | None, load.DEVIATION] = None
    cpu_deviation: Annotated[float | None, load.CPU_DEVIATION] = None
    resource_deviation: Annotated[float | None, load.RESOURCE_DEVIATION] = None
    mean_absolute_deviation: Annotated[float | None, load.MEAN_ABSOLUTE_DEVIATION] = None
    used_utilisation: Annotated[float | None, load.USED_UTILISATION] = None
    used_capacity: Annotated[float | None, load.USED_CAPACITY] = None
    node_tasks: Annotated[dict[str, int] | None, NODE_TASKS] = None
    node_loads: Annotated[dict[str, dict[str, float]] | None, load.NODE_LOADS] = None
    nodes_used: Annotated[int | None, NODES_USED] = None
    slots_used: Annotated[int | None, SLOTS_USED] = None
    workers_restarted: Annotated[int | None, WORKERS_RESTARTED] = None
    migrations: Annotated[int | None, MIGRATIONS] = None
    switches: Annotated[int | None, SWITCHES] = None
    migration_cost: Annotated[float | None, MIGRATION_COST] = None
    slots: Annotated[int | None, SLOTS] = None
    extra_slots: Annotated[int | None, EXTRA_SLOTS] = None
    supported_rate: Annotated[float | None, SUPPORTED_RATE] = None
    capacity_rate: Annotated[float | None, CAPACITY_RATE] = None
    bottleneck: Annotated[str | None, BOTTLENECK] = None
    price: Annotated[float | None, PRICE] = None


FIGURES: tuple[Figure, ...] = tuple(
    hint.__metadata__[0] for hint in get_type_hints(Figures, include_extras=True).values()
)

BY_NAME: dict[str, Figure] = {figure.name: figure for figure in FIGURES}

OBJECTIVES: dict[str, Figure] = {figure.name: figure for figure in FIGURES if figure.sense}
"""Figures that a method can optimise, by name."""


@cache
def find_objective(name: str) -> Figure:
    """Return what an expression asks to optimise: a figure, a weighted sum of some, or levels.

    Parameters
    ----------
    name
        As `optim.figures.figure` reads it; figures also by what earlier versions called them.

    Raises
    ------
    InvalidInput
        It is no such expression.

    Examples
    --------
    >>> find_objective("load_distance").sense
    'min'
    >>> find_objective("0.7 * collocation_factor - 0.3*load_distance").name
    '0.7*collocation_factor-0.3*load_distance'
    >>> [level.name for level in find_objective("load_distance, migrations").levels]
    ['load_distance', 'migrations']
    """
    former = {figure.former: figure for figure in OBJECTIVES.values() if figure.former}
    return OBJECTIVES.get(name) or read_objective(name, OBJECTIVES | former)


def is_objective(name: str) -> bool:
    """Whether an expression is one that `find_objective` can read."""
    try:
        find_objective(name)
    except InvalidInput:
        return False
    return True


def figures_of(placement: Placement, objective: str = "") -> dict[str, Any]:
    """Compute every figure that a placement has, by name; a costly one only where it is asked.

    Of a placement that lacks tasks only what does not need the whole job.
    """
    wanted = {figure.name for figure in find_objective(objective).singles} if objective else set()
    return {
        figure.name: figure.value(placement)
        for figure in FIGURES
        if figure.value is not None
        and (not figure.costly or figure.name in wanted)
        and (placement.complete or not figure.whole)
    }
