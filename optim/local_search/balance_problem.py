"""Rebalancing on plain arrays: what the exact models, the searches and the bounds all read.

A *placement* is an int array (T,) of node indices. The budget counts tasks that leave their home.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

#: What the referee tolerates above a bound, relative and absolute.
RELATIVE, ABSOLUTE = 1e-9, 1e-6

#: Two load distances closer than this, relative to the mean load, are the same number computed
#: in another order.
SAME = 1e-11


def tolerated(bound: ArrayLike) -> Floats:
    """Return what the referee lets a load exceed `bound` by."""
    return margin(bound) + ABSOLUTE


def margin(bound: ArrayLike) -> Floats:
    """Return the relative part of it: models grant this much, solvers take the absolute part."""
    value = np.asarray(bound, dtype=np.float64)
    finite = np.where(np.isfinite(value), np.abs(value), 0.0)
    return RELATIVE * np.maximum(1.0, finite)


def writable(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, copied if read-only: a kernel is compiled for each kind of array."""
    return array if array.flags.writeable and array.flags.c_contiguous else array.copy()


class Levels(NamedTuple):
    """The lexicographic objective of a placement, first level first.

    Attributes
    ----------
    distance
        Load distance, points of the balanced resource; minimised.
    left
        Load left on leaving nodes, same unit; minimised.
    over, under
        Greatest load above and below the share of a node; their sum is minimised last, which is
        the paper's max d_u + d_l.
    """

    distance: float
    left: float
    over: float
    under: float

    @property
    def tightened(self) -> float:
        """d_u + d_l of the paper: how far both sides lie within the load distance."""
        return 2.0 * self.distance - self.over - self.under


@dataclass(frozen=True, eq=False)
class BalanceProblem:
    """Key groups on nodes, and what a rebalancing may do to them.

    Attributes
    ----------
    load, cost
        (T,) load of the balanced resource and migration cost of each key group.
    home
        (T,) current node.
    weight
        (N,) capacity weight of each node: its share of the total load is proportional to it.
    leaving
        (N,) marked for removal; these have no share in the mean.
    background
        (N,) load of the balanced resource that is there whatever is placed.
    max_moves, max_cost
        Budgets; ``None`` for none.
    max_distance
        Greatest load distance allowed; ``None`` for any.
    usage, headroom, floor
        (T, E), (N, E), (N, E): load of every resource that binds somewhere, the most of it that
        may be placed on a node (``inf`` where free), and the least (0 where none). The balanced
        resource is among them where a capacity is given for it.
    restricted, allowed_indptr, allowed_nodes
        Key groups that may not go everywhere, and for each of them the nodes it may be on, as
        compressed rows.
    into_leaving
        Whether key groups of staying nodes may move onto leaving ones (the paper's literal model).
    """

    load: Floats
    cost: Floats
    home: Ints
    weight: Floats
    leaving: Bools
    background: Floats
    max_moves: int | None = None
    max_cost: float | None = None
    max_distance: float | None = None
    usage: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    headroom: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    floor: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    restricted: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    allowed_indptr: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    allowed_nodes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    into_leaving: bool = False

    # -- sizes and shares ------------------------------------------------------------------------

    @property
    def num_tasks(self) -> int:
        """T."""
        return len(self.load)

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.weight)

    @property
    def num_resources(self) -> int:
        """E, resources with a binding capacity or least load."""
        return self.usage.shape[1]

    @cached_property
    def mean(self) -> float:
        """Load per unit of weight if the staying nodes carried everything."""
        total = float(self.load.sum() + self.background.sum())
        return total / float(self.weight[~self.leaving].sum())

    @cached_property
    def share(self) -> Floats:
        """(N,) weight × mean, also for leaving nodes: their load is judged against it."""
        return self.weight * self.mean

    @cached_property
    def base_load(self) -> Floats:
        """(N,) load of the balanced resource now, background included."""
        return self.background + np.bincount(self.home, self.load, self.num_nodes)

    @cached_property
    def base_usage(self) -> Floats:
        """(N, E) placed load of the binding resources now."""
        return self.node_usage(self.home)

    @cached_property
    def staying(self) -> Ints:
        """Indices of the nodes that stay (the paper's A)."""
        return np.flatnonzero(~self.leaving)

    @cached_property
    def has_leaving(self) -> bool:
        """Whether any node is marked for removal."""
        return bool(self.leaving.any())

    @cached_property
    def row_of(self) -> Ints:
        """(T,) row of each key group in the compressed `allowed_nodes`, −1 when unrestricted."""
        rows = np.full(self.num_tasks, -1, dtype=np.int64)
        rows[self.restricted] = np.arange(len(self.restricted))
        return rows

    @cached_property
    def must_move(self) -> Bools:
        """(T,) key groups that may not stay where they are."""
        result = np.zeros(self.num_tasks, dtype=np.bool_)
        result[self.restricted] = ~self._rows_hold(self.home[self.restricted])
        return result

    def _rows_hold(self, nodes: Ints) -> Bools:
        """For each restricted key group, whether its allowed set holds the given node."""
        counts = np.diff(self.allowed_indptr)
        hits = self.allowed_nodes == np.repeat(nodes, counts)
        row = np.repeat(np.arange(len(self.restricted)), counts)
        return np.bincount(row[hits], minlength=len(self.restricted)) > 0

    def _nodes_of_row(self, row: int) -> Ints:
        return self.allowed_nodes[self.allowed_indptr[row] : self.allowed_indptr[row + 1]]

    def may_be(self, task: int, node: int) -> bool:
        """Whether a key group may be on a node, its current one included."""
        if node == self.home[task]:
            return not bool(self.must_move[task])
        if self.leaving[node] and not (self.into_leaving or self.leaving[self.home[task]]):
            return False
        row = int(self.row_of[task])
        return row < 0 or node in self._nodes_of_row(row)

    def may_be_rows(self, tasks: Ints) -> Bools:
        """(len(tasks), N) where each of these key groups may be, its current node included."""
        from_leaving = self.leaving[self.home[tasks]]
        mask = ~self.leaving[None, :] | (from_leaving | self.into_leaving)[:, None]
        mask[np.arange(len(tasks)), self.home[tasks]] = True
        rows = self.row_of[tasks]
        for place in np.flatnonzero(rows >= 0).tolist():
            inside = np.zeros(self.num_nodes, dtype=np.bool_)
            inside[self._nodes_of_row(int(rows[place]))] = True
            mask[place] &= inside
        return mask

    # -- judging a placement ---------------------------------------------------------------------

    def node_load(self, placement: Ints) -> Floats:
        """(N,) load of the balanced resource, background included."""
        return self.background + np.bincount(placement, self.load, self.num_nodes)

    def node_usage(self, placement: Ints) -> Floats:
        """(N, E) placed load of the binding resources."""
        columns = [
            np.bincount(placement, self.usage[:, e], self.num_nodes)
            for e in range(self.num_resources)
        ]
        return np.column_stack(columns) if columns else np.zeros((self.num_nodes, 0))

    def levels(self, placement: Ints) -> Levels:
        """Return load distance, load left on leaving nodes and both sides of a placement."""
        deviation = self.node_load(placement) - self.share
        over = max(0.0, float(deviation.max()))
        under = max(0.0, float(-deviation[self.staying].min()))
        left = float(self.load[self.leaving[placement]].sum()) if self.has_leaving else 0.0
        return Levels(max(over, under), left, over, under)

    def moves(self, placement: Ints) -> int:
        """Count the key groups that are not at home."""
        return int(np.count_nonzero(placement != self.home))

    def moving_cost(self, placement: Ints) -> float:
        """Sum of the costs of the key groups that are not at home."""
        return float(self.cost[placement != self.home].sum())

    def is_feasible(self, placement: Ints) -> bool:
        """Whether a placement keeps every budget, capacity, least load and allowed set."""
        return (
            self._within_budgets(placement)
            and self.is_within_capacities(placement)
            and self._on_allowed_nodes(placement)
            and self._within_distance(placement)
        )

    def _within_budgets(self, placement: Ints) -> bool:
        if self.max_moves is not None and self.moves(placement) > self.max_moves:
            return False
        if self.max_cost is None:
            return True
        return self.moving_cost(placement) <= self.max_cost + float(tolerated(self.max_cost))

    def is_within_capacities(self, placement: Ints) -> bool:
        """Whether a placement keeps every capacity and, on staying nodes, every least load."""
        used = self.node_usage(placement)
        fits = used <= self.headroom + tolerated(self.headroom)
        filled = used >= self.floor - tolerated(self.floor)
        return bool(fits.all() and filled[self.staying].all())

    def _on_allowed_nodes(self, placement: Ints) -> bool:
        if not self._rows_hold(placement[self.restricted]).all():
            return False
        if self.into_leaving or not self.has_leaving:
            return True
        entered = self.leaving[placement] & ~self.leaving[self.home]
        return not bool(entered.any())

    def _within_distance(self, placement: Ints) -> bool:
        if self.max_distance is None:
            return True
        allowed = self.max_distance + float(tolerated(self.max_distance))
        return self.levels(placement).distance <= allowed

    @cached_property
    def same(self) -> float:
        """Differences of load below this are rounding."""
        return SAME * max(1.0, abs(self.mean), float(np.abs(self.base_load).max(initial=0.0)))

    def is_better(self, one: Levels, other: Levels, drain_first: bool = False) -> bool:
        """Whether `one` comes lexicographically before `other`."""
        return lexicographically_less(
            ordered(one, drain_first), ordered(other, drain_first), self.same
        )


def ordered(levels: Levels, drain_first: bool) -> tuple[float, float, float]:
    """Return the three levels in the order in which they are minimised."""
    sides = levels.over + levels.under
    if drain_first:
        return levels.left, levels.distance, sides
    return levels.distance, levels.left, sides


def lexicographically_less(
    one: tuple[float, ...], other: tuple[float, ...], tolerance: float
) -> bool:
    """Compare level by level; differences up to `tolerance` are none."""
    for a, b in zip(one, other, strict=True):
        if abs(a - b) > tolerance:
            return a < b
    return False
