"""Every figure of a plan, and their values together; nothing else lists them.

A new figure is an object in a file of this folder and a line in `Figures`, whose annotation gives
its type. Evaluations, tables, the columns and words of sweeps and reports, SQL and documentation
are made from `FIGURES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from optim.errors import InvalidInput
from optim.figures import load, rate, traffic
from optim.figures.figure import read_objective

if TYPE_CHECKING:
    from optim.figures.figure import Figure
    from optim.figures.measures import Placement


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one plan, each explained by its `Figure`; ``None`` where it does not apply."""

    excess: Annotated[float | None, traffic.EXCESS] = None
    drained: Annotated[bool | None, load.DRAINED] = None
    undrained: Annotated[dict[str, Any] | None, load.UNDRAINED] = None
    load_distance: Annotated[float | None, load.LOAD_DISTANCE] = None
    mean_load: Annotated[float | None, load.MEAN_LOAD] = None
    sustainable_rate: Annotated[float | None, rate.SUSTAINABLE_RATE] = None
    saturation: Annotated[list[dict[str, Any]] | None, rate.SATURATION] = None
    rate_after_loss: Annotated[float | None, rate.RATE_AFTER_LOSS] = None
    imc_gain: Annotated[float | None, traffic.IMC_GAIN] = None
    total_traffic: Annotated[float | None, traffic.TOTAL_TRAFFIC] = None
    internode_traffic: Annotated[float | None, traffic.INTERNODE_TRAFFIC] = None
    interslot_traffic: Annotated[float | None, traffic.INTERSLOT_TRAFFIC] = None
    collocation_factor: Annotated[float | None, traffic.COLLOCATION_FACTOR] = None
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
    node_tasks: Annotated[dict[str, int] | None, traffic.NODE_TASKS] = None
    node_loads: Annotated[dict[str, dict[str, float]] | None, load.NODE_LOADS] = None
    nodes_used: Annotated[int | None, traffic.NODES_USED] = None
    slots_used: Annotated[int | None, traffic.SLOTS_USED] = None
    workers_restarted: Annotated[int | None, traffic.WORKERS_RESTARTED] = None
    migrations: Annotated[int | None, traffic.MIGRATIONS] = None
    switches: Annotated[int | None, traffic.SWITCHES] = None
    migration_cost: Annotated[float | None, traffic.MIGRATION_COST] = None
    slots: Annotated[int | None, traffic.SLOTS] = None
    extra_slots: Annotated[int | None, traffic.EXTRA_SLOTS] = None
    supported_rate: Annotated[float | None, traffic.SUPPORTED_RATE] = None
    capacity_rate: Annotated[float | None, traffic.CAPACITY_RATE] = None
    bottleneck: Annotated[str | None, traffic.BOTTLENECK] = None
    price: Annotated[float | None, traffic.PRICE] = None


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


def figures_of(placement: Placement, asked: str = "") -> dict[str, Any]:
    """Compute every figure that a placement has, by name; a costly one only where it is asked.

    Of a placement that lacks tasks only what does not need the whole job.
    """
    wanted = {figure.name for figure in find_objective(asked).singles} if asked else set()
    return {
        figure.name: figure.value(placement)
        for figure in FIGURES
        if figure.value is not None
        and (not figure.costly or figure.name in wanted)
        and (placement.complete or not figure.whole)
    }
