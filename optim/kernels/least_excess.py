"""The least excess within the budgets, by descent from the current placement; and a bound on it.

Used where limits are violated now and cannot all be satisfied within the budgets: rows of nodes
(capacities, numbers of tasks, least loads) are weighed move by move, and what a move breaks beside
them the referee says.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.kernels.place_rules import counted_floor, counted_loads, placing_masks
from optim.kernels.repair import repair
from optim.rules import broken, budgets, excess_of, rounding_of, worsened
from optim.rules.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints

_CELLS = 2_000_000  # Tasks × nodes × resources that are weighed at once.
_SWAPPED = 64  # Tasks of which swaps are tried.
_REFUSED = 300  # Moves that the referee refuses, one after the other, until the descent ends.
_STEPS = 500  # Moves and swaps that are made.
_SMALL, _SURE = 2_000, 10
"""Tasks × nodes up to which so many moves are made whatever the clock says: some milliseconds."""
_FAR = 1e6  # Excess that is added where a move would be worse than today.
_SAME = 1e-6  # Relative gap to the bound at which an excess counts as the least.


@dataclass(frozen=True, eq=False)
class LeastExcess:
    """What is known of the least excess."""

    node: Ints | None  # (T,) the best placement found; ``None`` for none.
    excess: float  # Its excess; infinite without a placement.
    bound: float  # No placement that is nowhere worse than the current one has less.
    rounding: float  # The difference of two excesses that is none.
    late: bool = False  # Its time ended the search for less.

    @property
    def proven(self) -> bool:
        """Whether nothing has less excess."""
        has_plan = bool(np.isfinite(self.excess))
        return has_plan and self.excess <= self.bound + _SAME * self.excess + self.rounding


@dataclass(eq=False)
class _Rows:
    """Loads and limits of nodes: (T, R) loads, (N, R) what is there, wanted and allowed."""

    load: Floats
    used: Floats
    most: Floats
    cap: Floats
    least: Floats
    floor: Floats
    weight: Floats
    rounding: float

    def excess(self, used: Floats, at: NDArray[Any] | slice) -> Floats:
        """Sum the excess of loads on nodes over the resources."""
        # Σ_r w_r (max(0, used − most) + max(0, least − used)), as the format defines the excess
        above = np.maximum(used - self.most[at], 0.0)
        below = np.maximum(self.least[at] - used, 0.0)
        return np.asarray(((above + below) * self.weight).sum(axis=-1))

    def allowed(self, used: Floats, at: NDArray[Any] | slice) -> Bools:
        """Whether loads on nodes are nowhere worse than today."""
        return np.asarray(((used <= self.cap[at]) & (used >= self.floor[at])).all(axis=-1))


def descend(
    instance: Instance, loose: Instance, weight: Floats, seconds: float | None
) -> tuple[Ints | None, float]:
    """Move tasks off what exceeds limits, the greatest relief first, then swap.

    `instance`, `loose`: with the limits as they are, and loosened to what is exceeded today.
    `weight`: (R,) what a unit of a resource's excess counts.
    `seconds`: time after which no further move is begun, but for the first few of a small instance;
        ``None`` for a number of moves alone.
    Returns (T,) nodes of the best placement, nowhere worse than the current one, and its excess;
        ``None`` and infinity where even staying breaks a limit, or tasks without a node find none.
    """
    ends = np.inf if seconds is None else time.perf_counter() + seconds
    now = broken(Placement(instance, instance.tasks.node))
    node = np.array(instance.tasks.node)

    def judged(node: Ints) -> float:
        found = broken(Placement(instance, node))
        if worsened(now, found) or broken(Placement(loose, node)):
            return np.inf
        return excess_of(instance, found)

    rows = _rows_of(instance, loose, weight, rounding_of(instance, now))
    _move_forced(instance, rows, node)
    excess = judged(node)
    # one by one the tasks without a node found no place: repair may make room for them
    if not np.isfinite(excess) and (instance.tasks.node < 0).any():
        node = repair(loose, instance.tasks.node, ends).node
        excess = judged(node) if node.min() >= 0 else np.inf
        rows.used = _used(instance, rows.load, node)
    if not np.isfinite(excess):
        return None, np.inf
    sure = _SURE if is_small(instance) else 0
    for step in range(_STEPS):
        if excess <= 0 or (step >= sure and time.perf_counter() >= ends):
            break
        found = _step(instance, rows, node, excess, judged)
        if found is None:
            break
        node, excess = found
        rows.used = _used(instance, rows.load, node)
    return node, excess


def is_small(instance: Instance) -> bool:
    """Whether the least excess of an instance takes so little work that no clock is needed."""
    return instance.num_tasks * instance.num_nodes <= _SMALL


def _move_forced(instance: Instance, rows: _Rows, node: Ints) -> None:
    """Move tasks off nodes that they may not use, in place, each to where it costs least.

    So are tasks placed that have no node, the largest first.
    """
    kinds, allowed, target = placing_masks(instance)
    without = np.flatnonzero(node < 0)
    largest = without[np.argsort(-(rows.load[without] * rows.weight).sum(axis=1), kind="stable")]
    forced = np.flatnonzero(~allowed[kinds, node] & (node >= 0))
    for task in [*forced.tolist(), *largest.tolist()]:
        come = rows.used + rows.load[task]
        cost = rows.excess(come, slice(None)) - rows.excess(rows.used, slice(None))
        # of nodes where it would be worse than today only if there is no other
        cost = np.where(rows.allowed(come, slice(None)), cost, cost + _FAR)
        to = int(np.where(target[kinds[task]], cost, np.inf).argmin())
        if node[task] >= 0:
            rows.used[node[task]] -= rows.load[task]
        rows.used[to] += rows.load[task]
        node[task] = to


def _step(
    instance: Instance, rows: _Rows, node: Ints, excess: float, judged: Callable[[Ints], float]
) -> tuple[Ints, float] | None:
    """Return the first of the best moves, else swaps, that the referee finds better."""
    tried = 0
    for steps in (_moves, _swaps):
        for tasks, targets in steps(instance, rows, node):
            changed = np.array(node)
            changed[tasks] = targets
            value = judged(changed)
            if value < excess - rows.rounding:
                return changed, value
            tried += 1
            if tried >= _REFUSED:
                return None
    return None


def _rows_of(instance: Instance, loose: Instance, weight: Floats, rounding: float) -> _Rows:
    load, most = counted_loads(instance)
    _, cap = counted_loads(loose)
    width = load.shape[1]
    counted = np.full(width - len(weight), 1.0 / max(1, instance.num_tasks))
    rows = _Rows(
        load=load,
        used=np.zeros_like(most),
        most=most,
        cap=cap,
        least=counted_floor(instance, width),
        floor=counted_floor(loose, width),
        weight=np.concatenate([weight, counted]),
        rounding=rounding,
    )
    rows.used = _used(instance, load, instance.tasks.node)
    return rows


def _used(instance: Instance, load: Floats, node: Ints) -> Floats:
    """(N, R) what the tasks bring; what crosses nodes is the referee's to see."""
    at = node >= 0
    return np.stack(
        [np.bincount(node[at], column[at], minlength=instance.num_nodes) for column in load.T],
        axis=1,
    )


def _candidates(rows: _Rows, node: Ints) -> NDArray[np.int64]:
    """Tasks whose going may help, those that relieve most first; all where something lacks load."""
    over = rows.excess(rows.used, slice(None))
    short = (rows.used < rows.least).any()
    some = np.flatnonzero((over > 0)[node] | short)
    # what a node is relieved of when the task goes, wherever it goes
    relief = over[node[some]] - rows.excess(rows.used[node[some]] - rows.load[some], node[some])
    most = max(1, _CELLS // max(1, rows.used.size))
    return some[np.argsort(-relief, kind="stable")[:most]]


def _moves(instance: Instance, rows: _Rows, node: Ints) -> list[tuple[list[int], list[int]]]:
    """List moves that lower the excess of nodes, the greatest gain first."""
    some = _candidates(rows, node)
    if not len(some):
        return _anything(instance, node)
    kinds, _, target = placing_masks(instance)
    at, load = node[some], rows.load[some]
    left = rows.used[at] - load
    gain = rows.excess(rows.used[at], at) - rows.excess(left, at)
    come = rows.used[None, :, :] + load[:, None, :]
    # (task, node): relief of the old node less what the new one exceeds its limits by more
    gain = gain[:, None] - (rows.excess(come, slice(None)) - rows.excess(rows.used, slice(None)))
    stay = np.asarray((left >= rows.floor[at]).all(axis=1))[:, None]
    may: Bools = np.asarray(target[kinds[some]] & rows.allowed(come, slice(None)) & stay)
    may[np.arange(len(some)), at] = False
    gain = np.where(may, gain, -np.inf)
    order = np.argsort(-gain, axis=None, kind="stable")[:_REFUSED]
    picked = [(k // gain.shape[1], k % gain.shape[1]) for k in order.tolist()]
    relieving = [([int(some[i])], [n]) for i, n in picked if gain[i, n] > rows.rounding]
    return relieving or _anything(instance, node)


def _anything(instance: Instance, node: Ints) -> list[tuple[list[int], list[int]]]:
    """List every move where they are few: for what is no row of nodes, as links and sets."""
    if instance.num_tasks * instance.num_nodes > _REFUSED:
        return []
    kinds, _, target = placing_masks(instance)
    pairs = np.argwhere(target[kinds])
    return [([int(t)], [int(n)]) for t, n in pairs.tolist() if node[t] != n]


def _swaps(instance: Instance, rows: _Rows, node: Ints) -> list[tuple[list[int], list[int]]]:
    """List swaps that lower the excess of nodes, the greatest gain first."""
    some = _candidates(rows, node)[:_SWAPPED]
    if not len(some):
        return []
    kinds, _, target = placing_masks(instance)
    every = np.arange(instance.num_tasks)
    at, to = node[some], node
    # (task, other): by how much the first one's node has more load after they changed places
    # swapped: + load of the other - own load
    change = rows.load[None, :, :] - rows.load[some][:, None, :]
    here, there = rows.used[at][:, None, :] + change, rows.used[to][None, :, :] - change
    before = rows.excess(rows.used, slice(None))
    both = np.broadcast_to(at[:, None], (len(some), len(every)))
    other = np.broadcast_to(to[None, :], both.shape)
    gain = before[at][:, None] + before[to][None, :]
    gain = gain - rows.excess(here, both) - rows.excess(there, other)
    may = (at[:, None] != to[None, :]) & rows.allowed(here, both) & rows.allowed(there, other)
    may = np.asarray(may & target[kinds[some]][:, to] & target[kinds][:, at].T)
    gain = np.where(may, gain, -np.inf)
    order = np.argsort(-gain, axis=None, kind="stable")[:_REFUSED]
    picked = [(int(some[k // len(every)]), k % len(every), k) for k in order.tolist()]
    flat = gain.ravel()
    return [([a, b], [int(node[b]), int(node[a])]) for a, b, k in picked if flat[k] > rows.rounding]


def excess_bound(instance: Instance, weight: Floats) -> float:
    """Return what no plan within the budget of moves falls below, from each node's largest tasks.

    Of each resource: k moves take off a node no more than its k largest loads, and off all nodes
    no more than the k largest of what is left to take; nor do nodes hold more than all their room.
    """
    load, most = instance.tasks.load, counted_loads(instance)[1][:, : instance.num_resources]
    node = instance.tasks.node
    counted = [budget.limit for budget in budgets(instance) if budget.counts_all]
    bound = 0.0
    # loads of tasks alone: what crosses nodes only adds to them
    for r in range(instance.num_resources):
        used = _used(instance, load[:, [r]], node)[:, 0]
        over = np.maximum(used - most[:, r], 0.0)
        # all load less all room is exceeded somewhere in every plan
        least = max(0.0, float(load[:, r].sum() - most[:, r].sum()))
        if counted and not len(instance.tasks.copied):
            takes = []
            for n in np.flatnonzero(over > 0).tolist():
                # the k largest loads relieve a node most, and by no more than it exceeds; the
                # differences fall, so the k greatest of all nodes together bound what k moves
                # relieve
                sums = np.minimum(np.cumsum(-np.sort(-load[node == n, r])), over[n])
                takes.append(np.diff(sums, prepend=0.0))
            every = np.sort(np.concatenate([np.zeros(0), *takes]))[::-1]
            least = max(least, float(over.sum() - every[: min(counted)].sum()))
        bound += least * float(weight[r]) if np.isfinite(least) else 0.0
    # below what sums in another order give
    return bound * (1 - 1e-9)
