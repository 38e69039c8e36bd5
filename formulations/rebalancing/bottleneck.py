"""The resource that is balanced: the bottleneck, which is the one most used (ALBIC, section 3).

Load distance is counted in an instance's first resource, whatever that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from optim.format.instance import Instance


def bottleneck_first(instance: Instance) -> Instance:
    """Return the instance with its most used resource first, the others in their order.

    Raises
    ------
    InvalidInput
        As `bottleneck_of`.
    """
    return resource_first(instance, bottleneck_of(instance))


def resource_first(instance: Instance, name: str) -> Instance:
    """Return the instance with a resource of it first, the others in their order."""
    others = [other for other in instance.resources if other != name]
    return instance.replace(resources=[name, *others])


def bottleneck_of(instance: Instance) -> str:
    """Return the name of the most used resource.

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
