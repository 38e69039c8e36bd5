"""A placement with what its figures are computed from, each part reckoned once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.measures import (
    crossing_rates,
    distance_of_loads,
    link_loads,
    migrated_tasks,
    moved_tasks,
    placed_loads,
    slot_places,
)
from optim.util.tolerance import over

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints


def _multiples(room: Floats, need: Floats) -> Floats:
    """How often a need fits into room; no room is none, and no need never fills it."""
    found = np.full(need.shape, np.inf)
    with np.errstate(over="ignore"):  # more often than there are numbers
        np.divide(np.maximum(room, 0.0), need, out=found, where=need > 0)
    return found


@dataclass(frozen=True, eq=False)
class Placement:
    """Tasks on nodes and, where decided, slots; what follows from them is reckoned once.

    Attributes
    ----------
    instance
        Whose tasks and nodes.
    node, slot
        (T,) indices, -1 where missing; `slot` is ``None`` when the plan decides no slots.
    """

    instance: Instance
    node: Ints
    slot: Ints | None = None

    @cached_property
    def complete(self) -> bool:
        """Whether every task has a node."""
        return bool(self.node.min(initial=0) >= 0)

    @cached_property
    def loads(self) -> Floats:
        """(N, R) background + load."""
        return np.asarray(self.instance.nodes.background + self.brought)

    @cached_property
    def brought(self) -> Floats:
        """(N, R) load that the tasks bring."""
        return placed_loads(self.instance, self.node)

    @cached_property
    def distance(self) -> float | None:
        """Load distance, first resource; ``None`` when no node stays."""
        return distance_of_loads(self.instance, self.loads[:, 0])

    @cached_property
    def shares(self) -> Floats:
        """(N, R) share of the capacity in use; ``nan`` where there is no (or a zero) capacity."""
        capacity, loads = self.instance.nodes.capacity, self.loads
        share = np.full(loads.shape, np.nan)
        np.divide(loads, capacity, out=share, where=np.isfinite(capacity) & (capacity > 0))
        share[(capacity == 0) & (loads == 0)] = 0.0
        return share

    @cached_property
    def crossing(self) -> Floats:
        """(L,) background + traffic that crosses each link."""
        return link_loads(self.instance, self.node)

    @cached_property
    def node_rates(self) -> Floats:
        """(N, D) multiple of the current input at which a rate-driven resource is full.

        ``inf`` where it never is: without a capacity, on a node that holds no task, or of a
        resource that these do not use. A node in use whose background is too much already has 0.
        """
        instance, driven = self.instance, list(self.instance.rate_driven)
        room = instance.headroom[:, driven]
        rates = _multiples(room, self.brought[:, driven])
        most = (instance.nodes.capacity * instance.limits.max_utilisation)[:, driven]
        rates[over(instance.nodes.background[:, driven], most)] = 0.0
        rates[~self.used] = np.inf
        return rates

    @cached_property
    def link_rates(self) -> Floats:
        """(L,) the same of links, ``inf`` for idle ones."""
        links = self.instance.links
        room = links.capacity * self.instance.limits.max_link_utilisation - links.background
        return _multiples(room, crossing_rates(self.instance, self.node))

    @cached_property
    def thread_rates(self) -> Floats:
        """(T,) the same of what one task can use (``max_load``); empty where none has that."""
        rates = self.instance.thread_rates
        if not len(rates):
            return np.zeros(0)
        return np.where(self.node >= 0, rates.min(axis=1, initial=np.inf), np.inf)

    @cached_property
    def rate(self) -> float:
        """Multiple of the current input at which the first of all these is full."""
        rates = (self.thread_rates, self.node_rates, self.link_rates)
        return float(min(some.min(initial=np.inf) for some in rates))

    @cached_property
    def counts(self) -> Any:
        """(N,) tasks on each node."""
        node = self.node
        placed = node if self.complete else node[node >= 0]
        return np.bincount(placed, minlength=self.instance.num_nodes)

    @cached_property
    def used(self) -> Bools:
        """(N,) nodes that hold a task."""
        return np.asarray(self.counts > 0)

    @cached_property
    def parted(self) -> tuple[float, float]:
        """Traffic inside nodes, and between them."""
        return self.instance.flows.parted(self.node, self.instance.num_nodes)

    @property
    def gain(self) -> float:
        """Traffic inside nodes."""
        return self.parted[0]

    @cached_property
    def has_home(self) -> bool:
        """Whether any task has a current node."""
        return bool(self.instance.tasks.node.max(initial=-1) >= 0)

    @cached_property
    def moved(self) -> Any:
        """Tasks that leave their current node, switches to a copy included."""
        return moved_tasks(self.instance, self.node)

    @cached_property
    def migrated(self) -> Any:
        """Tasks whose state moves: onto a node that holds no copy."""
        return migrated_tasks(self.instance, self.node)

    @cached_property
    def slots(self) -> Slots | None:
        """The slots that hold a task; ``None`` where the plan decides none."""
        return None if self.slot is None else Slots(self.node, self.slot)


class Slots:
    """The slots that hold a task.

    Attributes
    ----------
    placed
        (P,) tasks that have one.
    index
        (P,) which of the used slots that is.
    node, number
        (S,) of each used slot.
    """

    def __init__(self, node: Ints, slot: Ints) -> None:
        place = slot_places(node, slot)
        self.placed = np.flatnonzero(place >= 0)
        used, self.index = np.unique(place[self.placed], return_inverse=True)
        width = int(slot.max(initial=0)) + 1
        self.node, self.number = used // width, used % width

    def __len__(self) -> int:
        return len(self.node)
