"""The graph of components, and an order in which everyone stands after those that feed it."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from optim.errors import Problem, UnsuitableMethod
from optim.format.demand import find_cycle

if TYPE_CHECKING:
    from optim.format.instance import Instance


def component_edges(instance: Instance) -> list[tuple[int, int]]:
    """Return which operators feed which, by streams and by single pairs, sorted; no loops."""
    edges = {(s.source, s.target) for s in instance.streams}
    operator, pairs = instance.tasks.operator, instance.traffic
    ends = np.stack([operator[pairs.source], operator[pairs.target]])
    edges |= {(int(a), int(b)) for a, b in np.unique(ends, axis=1).T}
    return sorted((a, b) for a, b in edges if a != b and min(a, b) >= 0)


def check_acyclic(instance: Instance, method: str) -> None:
    """Refuse a cycle of components.

    Raises
    ------
    UnsuitableMethod
        Naming the components of one.
    """
    cycle = find_cycle(instance.num_operators, component_edges(instance))
    if cycle:
        names = [instance.operators.ids[o] for o in [*cycle, cycle[0]]]
        reason = f"needs streams without a cycle; {' → '.join(names)} is one"
        remedy = "leave out the stream back, or use storm-online, which follows traffic alone"
        raise UnsuitableMethod(Problem(method, None, reason, remedy))


def linearised(components: list[int], edges: list[tuple[int, int]]) -> list[int]:
    """Return the components in an order that keeps the edges, of those ready the first in the file.

    Source: Aniello et al. 2013, section 3.1 (φ; ties are free there).

    Examples
    --------
    >>> linearised([0, 1, 2, 3], [(2, 0), (2, 1), (0, 3), (1, 3)])
    [2, 0, 1, 3]
    """
    inside = set(components)
    waiting = dict.fromkeys(components, 0)
    after: dict[int, list[int]] = {c: [] for c in components}
    for a, b in edges:
        if a in inside and b in inside:
            waiting[b] += 1
            after[a].append(b)
    ready = [c for c in components if waiting[c] == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        component = heapq.heappop(ready)
        order.append(component)
        for b in after[component]:
            waiting[b] -= 1
            if waiting[b] == 0:
                heapq.heappush(ready, b)
    return order
