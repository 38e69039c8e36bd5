"""The least change: of plans of equal objective one with the fewest moves, then the least cost.

All placements are looked at where these are few. Elsewhere one task goes home and
one other anywhere. What arrays of loads and traffic exclude is not judged.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from optim.kernels.place_rules import placing_masks, placing_room
from optim.kernels.undo import Kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints

    Bools = NDArray[np.bool_]

_ALL = 20_000
"""Placements up to which all are looked at."""
_ENTRIES = 1_000_000
"""Entries of the arrays that are looked at in a round: work that repeats, where seconds do not."""
_TRIALS = 200
"""Placements that are judged in all."""
_NOISE = 2e-9  # Of what is compared: the referee decides within it.


def least_change(
    instance: Instance, node: Ints, objectives: Sequence[Figure], slot: Ints | None = None
) -> Ints:
    """Return a plan that is as good and violates no further limit, and changes less.

    `objectives`: the first one, with the limits that bind plans for it, and those that must not
        get worse with it.
    `slot`: (T,) slots of the plan; tasks keep their numbers.
    Returns the plan itself where none such was found: where all placements are looked at, there is
        none.
    """
    if any(figure.value is None for figure in objectives):
        return node
    few = _are_few(instance, node)
    if not few and _num_back(len(node), instance.num_nodes) == 0:
        return node  # nothing is looked at: no (T, N) array is made of a million tasks
    changes = _Changes(instance, node)
    if not any(key.any() for key in changes.of(node)):
        return node
    best, left = Kept(instance, node, objectives, slot), _TRIALS
    every = _all_placements(changes) if few else None
    while left > 0:
        others = _others(changes, best.node) if every is None else every
        others = _as_good(instance, changes.less(others, best.node), best.node, objectives)
        for other in others[:left]:
            left -= 1
            if best.takes(other, slot):
                break
        else:
            break
        if every is not None:  # in order: none changes less
            break
    return best.node if (best.node != node).any() else node


class _Changes:
    """What placements change, and where tasks may be."""

    def __init__(self, instance: Instance, node: Ints) -> None:
        tasks, kinds = instance.tasks, placing_masks(instance)
        self.home, self.cost, self.num_nodes = tasks.node, tasks.migration_cost, instance.num_nodes
        #: (T, N) where tasks may be put: on no leaving node but where they are by the plan.
        self.may = kinds[2][kinds[0]]
        self.may[np.arange(len(node)), node] = True
        #: (T, N) where their state is not.
        self.pays = np.repeat(self.home[:, None] >= 0, self.num_nodes, axis=1)
        self.pays[np.arange(len(self.home)), self.home] = False
        for task, nodes in instance.copy_nodes.items():
            self.pays[task, list(nodes)] = False
        self.copied = bool(instance.copy_nodes)

    def of(self, node: Ints) -> tuple[Floats, ...]:
        """(M,) what placements change, first what counts first.

        Migrations, their cost, then tasks elsewhere; where copies are, migrations come last.
        """
        node = np.atleast_2d(node)
        paid = self.pays[np.arange(node.shape[1]), node]
        # rounded: sums of cost in another order are the same
        cost = np.array([float(f"{c:.9e}") for c in (paid * self.cost).sum(axis=1)])
        count, switched = paid.sum(axis=1), ((node != self.home) & (self.home >= 0)).sum(axis=1)
        return (cost, switched, count) if self.copied else (count, cost, switched)

    def less(self, others: Ints, node: Ints) -> Ints:
        """Return the placements that change less than one, least first."""
        keys, now = self.of(others), self.of(node)
        smaller, same = np.zeros(len(others), np.bool_), np.ones(len(others), np.bool_)
        for key, value in zip(keys, now, strict=True):
            smaller |= same & (key < value)
            same &= key == value
        order = np.lexsort(keys[::-1])
        return others[order[smaller[order]]]


def _are_few(instance: Instance, node: Ints) -> bool:
    """Whether all placements are looked at."""
    kind, _, target = placing_masks(instance)
    count = target.sum(axis=1)[kind] + ~target[kind, node]
    # logarithms: the product of a thousand numbers is beyond doubles
    return bool(np.log(np.maximum(count, 1)).sum() <= math.log(_ALL))


def _num_back(tasks: int, nodes: int) -> int:
    """Return how many tasks are sent home in a round, each beside one other anywhere."""
    return _ENTRIES // (tasks**2 * nodes)


def _all_placements(changes: _Changes) -> Ints:
    """(M, T) all placements."""
    mesh = np.meshgrid(*(np.flatnonzero(row) for row in changes.may), indexing="ij")
    return np.stack([axis.ravel() for axis in mesh], axis=1).astype(np.int32)


def _others(changes: _Changes, node: Ints) -> Ints:
    """(M, T) placements with one task home and one other anywhere, the dearest task first."""
    home, tasks, size = changes.home, np.arange(len(node)), changes.num_nodes
    back = np.flatnonzero((home >= 0) & (node != home) & changes.may[tasks, home])
    back = back[np.argsort(-changes.cost[back], kind="stable")]
    back = back[: _num_back(len(node), size)]
    first, second, to = (a.ravel() for a in np.meshgrid(back, tasks, np.arange(size)))
    kept = (first != second) & changes.may[second, to]
    first, second, to = first[kept], second[kept], to[kept]
    others = np.repeat(node[None, :].astype(np.int32), len(first), axis=0)
    row = np.arange(len(first))
    others[row, first], others[row, second] = home[first], to
    return others


def _as_good(instance: Instance, others: Ints, node: Ints, objectives: Sequence[Figure]) -> Ints:
    """Return the placements that may be as good, by capacities, load distance and traffic."""
    if instance.crossing_cost.any():
        return others
    names = {figure.name for figure in objectives}
    both = np.concatenate([node[None, :], others])
    good = np.ones(len(both), np.bool_)
    room = placing_room(objectives[0].binding(instance))
    for r in range(instance.num_resources):
        used = _sums(both, instance.tasks.load[:, r], instance.num_nodes)
        good &= (used <= room[:, r] * (1 + _NOISE)).all(axis=1)
        if r == 0 and "load_distance" in names:
            loads = used + instance.nodes.background[:, 0]
            stay, weight = instance.open_nodes, instance.nodes.weight
            off = loads - weight * (loads[0].sum() / weight[stay].sum())
            distance = np.where(stay, np.abs(off), off).max(axis=1)
            good &= distance <= distance[0] + _NOISE * loads[0].sum()
    traffic = {"imc_gain", "internode_traffic", "collocation_factor"} & names
    if traffic and not instance.flows.local and instance.flows.num_pairs * len(both) <= _ENTRIES:
        u, v, rate = instance.pairs
        gain = (both[:, u] == both[:, v]) @ rate
        good &= gain >= gain[0] - _NOISE * rate.sum()
    return others[good[1:]] if good[0] else others


def _sums(node: Ints, load: Floats, size: int) -> Floats:
    """(M, N) sums of a load on each node."""
    rows = np.arange(len(node))[:, None] * size
    flat = np.bincount((rows + node).ravel(), np.tile(load, len(node)), len(node) * size)
    return np.asarray(flat, np.float64).reshape(len(node), size)
