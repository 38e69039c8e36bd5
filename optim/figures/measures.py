"""Single quantities of a placement: loads, load distance, collocated traffic, moves.

Each is defined once, here; the referee, the methods and the tests call the same functions.
Placements are (T,) node indices, -1 where a task has no node.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.format.parallelism import key_groups_of, least_parallelism

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints

# The tolerance of a row: by how much what is needed may exceed what is available.
#
# A row is violated where needed − available > 10⁻⁹ · max(|available|, needed). As needed is above
# available there, this is needed > available / (1 − 10⁻⁹), so that the tolerance is a function of
# what is available alone: no number outside the row counts. A row with nothing available has
# none.

TOLERANCE = 1e-9  # Of the larger of what is available in a row and what stands in it.


def slack(available: Any) -> Any:
    """By how much a sum may exceed what is available and still count as rounding.

    `available`: the bound of the row, background included; infinite ones are taken for 0.
    """
    return TOLERANCE * np.where(np.isfinite(available), np.abs(available), 0.0)


def over(needed: Any, available: Any) -> Any:
    """Whether what is needed exceeds what is available by more than rounding."""
    return needed > available + slack(available)


def node_loads(instance: Instance, node: Ints) -> Floats:
    """(N, R) background + load of every node under (T,) node indices; -1 is nowhere."""
    return np.asarray(instance.nodes.background + placed_loads(instance, node))


def placed_loads(instance: Instance, node: Ints) -> Floats:
    """(N, R) load that a placement brings to each node.

    What crosses nodes costs its sender and its receiver (`Instance.crossing_cost`).
    """
    loads = np.zeros((instance.num_nodes, instance.num_resources))
    placed = node >= 0
    if placed.all():
        placed = slice(None)  # type: ignore[assignment]
    for r in range(instance.num_resources):
        loads[:, r] = np.bincount(
            node[placed], instance.tasks.load[placed, r], minlength=instance.num_nodes
        )
    if instance.crossing_cost.any():
        sent = instance.flows.crossing(node, instance.num_nodes)
        loads += np.column_stack(sent) @ instance.crossing_cost
    return loads


def imc_gain_of(instance: Instance, node: Ints) -> float:
    """Traffic between tasks on one node."""
    return instance.flows.collocated(node, instance.num_nodes)


def internode_of(instance: Instance, node: Ints) -> float:
    """Traffic between tasks that are not on one node."""
    return instance.flows.apart(node, instance.num_nodes)


def load_distance_of(instance: Instance, node: Ints) -> float | None:
    """Load distance in units of the first resource; ``None`` when no node stays."""
    return distance_of_loads(instance, node_loads(instance, node)[:, 0])


def distance_of_loads(instance: Instance, loads: Floats) -> float | None:
    """Load distance of (N,) loads with background: staying nodes both ways, leaving upwards."""
    stay = instance.open_nodes
    if not stay.any():
        return None
    weight = instance.nodes.weight
    mean = loads.sum() / weight[stay].sum()
    off = loads - weight * mean
    distance = float(np.abs(off[stay]).max())
    if not stay.all():
        distance = max(distance, float(off[~stay].max()))
    return distance


def entered_leaving(instance: Instance, node: Ints) -> Bools:
    """(T,) whether a task came onto a leaving node from elsewhere, though it may be on others."""
    leaving, home = instance.nodes.leaving, instance.tasks.node
    if instance.limits.into_leaving or not leaving.any():
        return np.zeros(len(node), dtype=np.bool_)
    at_home = (home >= 0) & leaving[home]
    entered: Bools = (node >= 0) & leaving[node] & ~at_home & instance.has_open_node
    return entered


def moved_tasks(instance: Instance, node: Ints) -> Any:
    """Tasks that a placement takes away from their current node."""
    return np.flatnonzero((instance.tasks.node >= 0) & (node != instance.tasks.node) & (node >= 0))


def migrated_tasks(instance: Instance, node: Ints) -> Any:
    """Tasks whose state a placement moves: those that leave for a node without a copy of it."""
    moved = moved_tasks(instance, node)
    copies = instance.copy_nodes
    if not copies:
        return moved
    switched = [t in copies and int(node[t]) in copies[t] for t in moved.tolist()]
    return moved[~np.array(switched, dtype=np.bool_)] if len(moved) else moved


def slot_places(node: Ints, slot: Ints, width: int | None = None) -> Any:
    """(T,) one number a (node, slot), of `width` slots a node; -1 where either is missing."""
    width = int(slot.max(initial=0)) + 1 if width is None else width
    return np.where((node >= 0) & (slot >= 0), node.astype(np.int64) * width + slot, -1)


def unknown_slots(instance: Instance) -> Any:
    """Tasks that are on a node now, in a slot that is not known."""
    return np.flatnonzero((instance.tasks.node >= 0) & (instance.tasks.slot < 0))


def workers_restarted(instance: Instance, node: Ints, slot: Ints) -> int | None:
    """Slots that hold other tasks than now, emptied and new ones included.

    ``None`` where the current slots are not known, or no task is anywhere now.
    """
    tasks = instance.tasks
    if not (tasks.node >= 0).any() or len(unknown_slots(instance)):
        return None
    # one width for both, or numbers of slots could not be compared
    width = 1 + max(int(tasks.slot.max(initial=0)), int(slot.max(initial=0)))
    now, then = slot_places(tasks.node, tasks.slot, width), slot_places(node, slot, width)
    changed = now != then
    places = np.unique(np.concatenate([now[changed], then[changed]]))
    return int((places >= 0).sum())


def least_tasks(
    instance: Instance, task: int, resource: int, rate: float = 1.0
) -> tuple[int, int | None]:
    """Return of how many tasks an operator is, and of how many it would have to be.

    Then each needs no more of the resource than it can use (``max_load``): in even parts, or in
    whole ``key_groups``.

    `task`: one of its tasks; where it has no operator, it is all there is.
    `rate`: multiple of the current input, with which the load grows.
    Returns the second is ``None`` where no number is enough, as for a resource that the input does
        not drive: each task has that in full.
    """
    operator = int(instance.tasks.operator[task])
    tasks = np.array([task]) if operator < 0 else instance.tasks_of(operator)
    most = float(instance.tasks.max_load[tasks, resource].min())
    load = instance.tasks.load[tasks, resource]
    if resource not in instance.rate_driven:
        return len(tasks), None if over(load.mean(), most) else len(tasks)
    whole = rate * float(load.sum())
    ratio = whole / most if most > 0 else np.inf if whole > 0 else 0.0
    groups = None if operator < 0 else key_groups_of(instance, operator)
    return len(tasks), least_parallelism(ratio, 1, groups)


def link_loads(instance: Instance, node: Ints) -> Floats:
    """(L,) background + traffic that crosses each link (`crossing_rates`)."""
    return np.asarray(instance.links.background + crossing_rates(instance, node))


def crossing_rates(instance: Instance, node: Ints) -> Floats:
    """(L,) traffic that crosses each link: one end on a listed node, one elsewhere.

    Of a link with a direction, only what leaves its nodes, or what enters them.
    """
    links, flows = instance.links, instance.flows
    loads = np.zeros(len(links.ids))

    def add(some: Any, out: Floats, into: Floats) -> None:
        direction = links.direction[some]
        loads[some] += np.where(direction != 2, out, 0.0) + np.where(direction != 1, into, 0.0)

    single = np.flatnonzero(np.diff(links.node_indptr) == 1)
    if len(single):
        at = links.node_indices[links.node_indptr[single]]
        out, into = flows.crossing(node, instance.num_nodes)
        add(single, out[at], into[at])
    for layer in links.layers:
        side = np.zeros(instance.num_nodes, dtype=np.int32)  # 0 is outside of every link
        side[layer.nodes] = layer.side
        out, into = flows.crossing(node, instance.num_nodes, side, len(layer.links) + 1)
        add(layer.links, out[1:], into[1:])
    return loads


def _multiples(room: Floats, need: Floats) -> Floats:
    """How often a need fits into room; no room is none, and no need never fills it."""
    multiples = np.full(need.shape, np.inf)
    with np.errstate(over="ignore"):  # more often than there are numbers
        np.divide(np.maximum(room, 0.0), need, out=multiples, where=need > 0)
    return multiples


@dataclass(frozen=True, eq=False)
class Placement:
    """Tasks on nodes and, where decided, slots; what follows from them is reckoned once."""

    instance: Instance  # Whose tasks and nodes.
    #: (T,) indices, -1 where missing; `slot` is ``None`` when the plan decides no slots.
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

    `placed`: (P,) tasks that have one.
    `index`: (P,) which of the used slots that is.
    `node`, `number`: (S,) of each used slot.
    """

    def __init__(self, node: Ints, slot: Ints) -> None:
        place = slot_places(node, slot)
        self.placed = np.flatnonzero(place >= 0)
        used, self.index = np.unique(place[self.placed], return_inverse=True)
        width = int(slot.max(initial=0)) + 1
        self.node, self.number = used // width, used % width

    def __len__(self) -> int:
        return len(self.node)
