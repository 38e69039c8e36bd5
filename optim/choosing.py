"""Which method `solve` takes when none is named: by what the instance holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.registry import method_names

if TYPE_CHECKING:
    from optim.instance import Instance

_EXACT_TASKS = 400
_EXACT_MOVES = 60_000
_EXACT_LINKS = 40


def choose_method(instance: Instance, time_limit: float | None = None) -> tuple[str, str]:
    """Return a method's name and why it was taken.

    Raises
    ------
    InvalidInput
        Nothing registered suits what the instance holds.
    """
    for name, why in _candidates(instance, time_limit):
        if name in method_names():
            return name, why
    raise InvalidInput(
        Problem("instance", instance.name, "suits no method", "name one with --method")
    )


def _candidates(instance: Instance, time_limit: float | None) -> list[tuple[str, str]]:
    if instance.num_tasks == 0 and instance.models:
        return [("mba+sam", "operators have performance models and the plan makes the threads")]
    limits = instance.limits
    budget = limits.max_migrations is not None or limits.max_migration_cost is not None
    leaving = bool(instance.nodes.leaving.any())
    size = instance.num_tasks * instance.num_nodes
    if instance.has_current and (budget or leaving or not instance.has_traffic):
        if instance.has_traffic and limits.max_load_distance is not None:
            why = "a current placement, traffic and a bound on load distance"
            large = size > _EXACT_MOVES
            return [("joint-search" if large else "joint-milp", why), ("joint-search", why)]
        why = "a current placement to rebalance"
        if size > _EXACT_MOVES and time_limit is None:
            return [("balance-search", f"{why}, large"), ("balance-milp", why)]
        return [("balance-milp", why), ("balance-search", why)]
    if instance.has_traffic and _links_bind(instance):
        why = "traffic over links with a capacity"
        return [("eoa-milp" if instance.num_tasks <= _EXACT_LINKS else "gma", why), ("gma", why)]
    if instance.has_traffic:
        plain = not np.isfinite(instance.links.capacity).any()
        if plain and instance.num_tasks <= _EXACT_TASKS and _few_groups(instance):
            return [("imc-exact", "groups of equal tasks with traffic, small enough to prove")]
        why = "tasks with traffic"
        return [("imc-search", why), ("partition", why)]
    return [("storm-even", "no traffic and no current placement: spread evenly")]


def _links_bind(instance: Instance) -> bool:
    """Whether links have a capacity, on nodes whose first resource has one too."""
    links, nodes = instance.links.capacity, instance.nodes.capacity[:, 0]
    return bool(np.isfinite(links).any()) and bool(np.isfinite(nodes).all())


def _few_groups(instance: Instance) -> bool:
    return 0 < instance.num_operators <= 16 and bool((instance.tasks.operator >= 0).all())
