"""Rebalancing on plain arrays: what the exact models, the searches and the bounds all read.

A *placement* is an int array (T,) of node indices. The budgets count tasks that leave their home
for a node without a copy of their state.

Models, searches and bounds count from where tasks are. A task that is nowhere may start anywhere
and costs no migration, which is the same as a task whose state every node holds
(`tasks[].copies`): so each is given a current node from which every move is free, and nothing else
has to know of such tasks.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from optim.errors import InvalidInput, Problem, UnsuitableMethod
from optim.figures.load import LOAD_DISTANCE
from optim.figures.measures import node_loads
from optim.kernels.place_rules import (
    distance_room,
    most_of,
    no_rules,
    place_rules,
    placing_floor,
    placing_room,
)
from optim.rules import COPIES, budgets, counts_moves
from optim.rules.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from optim.format.instance import Instance
    from optim.kernels.place_rules import PlaceRules
    from optim.methods.registry import Request

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]


#: Two load distances closer than this, relative to the mean load, are the same number computed
#: in another order.
SAME = 1e-11

ROUNDING = 1e-12  # Sums in another order may differ by this much, relative.

_COST, _MOVES = "migration_cost", "migrations"


def writable(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, copied if read-only: a kernel is compiled for each kind of array."""
    return array if array.flags.writeable and array.flags.c_contiguous else array.copy()


class Levels(NamedTuple):
    """The lexicographic objective of a placement, first level first."""

    distance: float  # Load distance, points of the balanced resource; minimised.
    left: float  # Load left on leaving nodes, same unit; minimised.
    #: Greatest load above and below the share of a node; their sum is minimised last, which is the
    #: paper's max d_u + d_l.
    over: float
    under: float

    @property
    def tightened(self) -> float:
        """d_u + d_l of the paper: how far both sides lie within the load distance."""
        return 2.0 * self.distance - self.over - self.under


@dataclass(frozen=True, eq=False)
class BalanceProblem:
    """Key groups on nodes, and what a rebalancing may do to them."""

    #: (T,) load of the balanced resource, and migration cost of each key group, which no limit
    #: bounds but as one of the budgets.
    load: Floats
    cost: Floats
    home: Ints  # (T,) current node.
    #: (N,) capacity weight of each node: its share of the total load is proportional to it.
    weight: Floats
    leaving: Bools  # (N,) marked for removal; these have no share in the mean.
    background: Floats  # (N,) load of the balanced resource that is there whatever is placed.
    #: Of moves: what each key group takes of it, and how much there is.
    budgets: tuple[Budget, ...] = ()
    max_distance: float | None = None  # Greatest load distance allowed; ``None`` for any.
    #: (T, E), (N, E), (N, E): load of every resource that binds somewhere, the most of it that may
    #: be placed on a node (``inf`` where free), and the least (0 where none), what may be used of
    #: the referee's tolerance included. The balanced resource is among them where a capacity is
    #: given for it.
    usage: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    headroom: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    floor: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    #: Key groups that may not go everywhere, and for each of them the nodes it may be on, as
    #: compressed rows.
    restricted: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    allowed_indptr: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    allowed_nodes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    #: Whether key groups of staying nodes may move onto leaving ones (the paper's literal model).
    into_leaving: bool = False
    counted: PlaceRules | None = None  # Rules that count key groups on places, if any.

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
    def optimal_gap(self) -> float:
        """Within this of a bound a load distance is optimal."""
        difference = LOAD_DISTANCE.gap_to_difference(LOAD_DISTANCE.optimal_gap, self.mean)
        return max(difference, self.same)

    @cached_property
    def rules(self) -> PlaceRules:
        """Rules that count key groups on places."""
        return no_rules(self.home, self.num_nodes) if self.counted is None else self.counted

    @cached_property
    def price(self) -> Floats:
        """(T, K) what a migration of each key group takes of each budget."""
        weights = [budget.weight for budget in self.budgets]
        return np.column_stack([np.zeros((self.num_tasks, 0)), *weights])

    @cached_property
    def uneven(self) -> Bools:
        """(K,) budgets of which migrations of some key groups take more than those of others."""
        most = self.price.max(axis=0, initial=-np.inf)
        return np.asarray(most > self.price.min(axis=0, initial=np.inf))

    @cached_property
    def budget(self) -> Floats:
        """(K,) what migrations may take of each budget, with the tolerance that may be used."""
        return np.array([most_of(budget) for budget in self.budgets])

    @cached_property
    def counted_budgets(self) -> tuple[Floats, Floats]:
        """(T, 1 + U), (1 + U,) prices and budgets for kernels.

        The first counts migrations, for all budgets of equal prices; the others have unlike ones.
        """
        each = self.price.max(axis=0, initial=0.0)
        # budgets of equal prices are all counts of migrations: the tightest one stands for them
        even = ~self.uneven & (each > 0)
        with np.errstate(over="ignore"):  # a budget far beyond all prices is no limit
            moves = np.floor(self.budget[even] / each[even] * (1.0 + ROUNDING)).min(initial=np.inf)
        price = np.column_stack([np.ones(self.num_tasks), self.price[:, self.uneven]])
        return np.ascontiguousarray(price), np.append(moves, self.budget[self.uneven])

    def spent(self, placement: Ints) -> Floats:
        """(K,) what a placement takes of each budget."""
        return np.asarray(self.price[self.rules.migrates(placement)].sum(axis=0))

    @cached_property
    def most_cost(self) -> float:
        """Cost of migrations allowed, with the tolerance that may be used; ``inf`` for any."""
        return min(
            (most_of(b) for b in self.budgets if np.array_equal(b.weight, self.cost)),
            default=math.inf,
        )

    def cost_within(self, most: float) -> BalanceProblem:
        """Return the problem with a bound on the migration cost beside its own budgets."""
        return self._budgeted(Budget(_COST, self.cost, most))

    def moves_within(self, most: int) -> BalanceProblem:
        """Return the problem with a bound on the number of migrations beside its own budgets."""
        return self._budgeted(Budget(_MOVES, np.ones(self.num_tasks), most, integral=True))

    def _budgeted(self, bound: Budget) -> BalanceProblem:
        # no rule has that name: what is replaced is a bound that this has set before
        others = tuple(budget for budget in self.budgets if budget.name != bound.name)
        return replace(self, budgets=(*others, bound))

    @cached_property
    def most_distance(self) -> float:
        """Load distance allowed, with the tolerance that may be used; ``inf`` for any."""
        return math.inf if self.max_distance is None else self.within(self.max_distance)

    def within(self, distance: float) -> float:
        """Return a bound on the load distance with the tolerance that may be used."""
        return distance_room(distance, self.weight * self.mean)

    @cached_property
    def has_copy(self) -> Bools:
        """(T,) key groups that may move somewhere without migrating."""
        return np.diff(self.rules.copies_indptr) > 0

    @cached_property
    def is_free(self) -> Bools:
        """(T,) key groups that migrate nowhere, as they have no current node (`with_homes`)."""
        return self.has_copy & (np.diff(self.rules.copies_indptr) >= self.num_nodes - 1)

    @cached_property
    def most_moved(self) -> int | None:
        """Key groups that may leave home at most by the budgets; ``None`` where there are none."""
        cheapest = np.cumsum(np.sort(self.least(self.price), axis=0), axis=0)
        within = (cheapest <= self.budget * (1.0 + ROUNDING)).sum(axis=0)
        return int(within.min()) if len(within) else None

    def least(self, price: Floats) -> Floats:
        """Return what leaving home takes at least: nothing where there is a copy.

        `price`: (T,) or (T, K) what migrations take.
        """
        return np.where(self.has_copy if price.ndim == 1 else self.has_copy[:, None], 0.0, price)

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
        """Ints of the nodes that stay (the paper's A)."""
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
        # only a list of allowed nodes forbids staying: leaving nodes keep what budgets leave there
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

    @cached_property
    def allowed(self) -> dict[int, Ints]:
        """Nodes of each key group that may not go everywhere."""
        return {task: self._nodes_of_row(row) for row, task in enumerate(self.restricted.tolist())}

    def allowing(self, allowed: Mapping[int, Ints]) -> BalanceProblem:
        """Return the problem with other allowed nodes; who is not named may go everywhere."""
        restricted, indptr, nodes = compressed(allowed)
        return replace(self, restricted=restricted, allowed_indptr=indptr, allowed_nodes=nodes)

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
        # onto leaving nodes go only key groups that are on leaving nodes already
        mask = ~self.leaving[None, :] | (from_leaving | self.into_leaving)[:, None]
        mask[np.arange(len(tasks)), self.home[tasks]] = True
        rows = self.row_of[tasks]
        for place in np.flatnonzero(rows >= 0).tolist():
            inside = np.zeros(self.num_nodes, dtype=np.bool_)
            inside[self._nodes_of_row(int(rows[place]))] = True
            mask[place] &= inside
        return mask

    def by_home(self, key: Floats) -> Ints:
        """Return the key groups by home, those of a node by ascending key; ties as they are."""
        order = np.argsort(key, kind="stable")
        # numbers of 16 bits are sorted by their digits: together a third less than by two keys
        home = self.home.astype(np.uint16) if self.num_nodes <= 1 << 16 else self.home
        return order[np.argsort(home[order], kind="stable")]

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
        # ALBIC (3) and (4): above for every node, below for staying ones only
        over = max(0.0, float(deviation.max()))
        under = max(0.0, float(-deviation[self.staying].min()))
        left = float(self.load[self.leaving[placement]].sum()) if self.has_leaving else 0.0
        return Levels(max(over, under), left, over, under)

    def moves(self, placement: Ints) -> int:
        """Count the key groups that migrate."""
        return int(np.count_nonzero(self.rules.migrates(placement)))

    def moving_cost(self, placement: Ints) -> float:
        """Sum of the costs of the key groups that migrate."""
        return float(self.cost[self.rules.migrates(placement)].sum())

    def is_feasible(self, placement: Ints) -> bool:
        """Whether a placement keeps every limit."""
        return (
            bool((self.spent(placement) <= self.budget).all())
            and self.is_within_capacities(placement)
            and self._on_allowed_nodes(placement)
            and self.levels(placement).distance <= self.most_distance
            and self.rules.are_kept(placement)
        )

    def is_within_capacities(self, placement: Ints) -> bool:
        """Whether a placement keeps every capacity and, on staying nodes, every least load."""
        used = self.node_usage(placement)
        filled = used[self.staying] >= self.floor[self.staying]
        return bool((used <= self.headroom).all() and filled.all())

    def _on_allowed_nodes(self, placement: Ints) -> bool:
        if not self._rows_hold(placement[self.restricted]).all():
            return False
        if self.into_leaving or not self.has_leaving:
            return True
        entered = self.leaving[placement] & ~self.leaving[self.home]
        return not bool(entered.any())

    @cached_property
    def same(self) -> float:
        """Differences of load below this are rounding."""
        return SAME * max(1.0, abs(self.mean), float(np.abs(self.base_load).max(initial=0.0)))

    def is_better(self, one: Levels, other: Levels) -> bool:
        """Whether `one` comes lexicographically before `other`."""
        return lexicographically_less(ordered(one, False), ordered(other, False), self.same)


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


def plain_problem(
    load: ArrayLike,
    home: ArrayLike,
    num_nodes: int,
    leaving: ArrayLike = (),
    max_moves: int | None = None,
) -> BalanceProblem:
    """Return a problem of equal costs and nodes; `leaving` are indices."""
    loads, leaves = np.asarray(load, dtype=np.float64), np.zeros(num_nodes, dtype=np.bool_)
    leaves[np.asarray(leaving, dtype=np.int64)] = True
    ones = np.ones(len(loads))
    return BalanceProblem(
        load=loads,
        cost=ones,
        home=np.asarray(home, dtype=np.int64),
        weight=np.ones(num_nodes),
        leaving=leaves,
        background=np.zeros(num_nodes),
        budgets=() if max_moves is None else (Budget("moves", ones, max_moves, integral=True),),
        usage=np.zeros((len(loads), 0)),
        headroom=np.zeros((num_nodes, 0)),
        floor=np.zeros((num_nodes, 0)),
    )


def check(problem: BalanceProblem) -> None:
    """Refuse what no rebalancing is defined for.

    Raises `InvalidInput`: every node is leaving, or a key group has no home.
    """
    if not len(problem.staying):
        raise InvalidInput(
            Problem("nodes", None, "are all leaving", "keep at least one node: the mean needs it")
        )
    homeless = np.flatnonzero((problem.home < 0) | (problem.home >= problem.num_nodes))
    if len(homeless):
        task = int(homeless[0])
        raise InvalidInput(Problem(f"tasks[{task}].node", None, "is missing", "give its node"))


def compressed(allowed: Mapping[int, Ints]) -> tuple[Ints, Ints, Ints]:
    """Return the key groups named, where the nodes of each begin, and these nodes."""
    restricted = np.array(sorted(allowed), np.int64)
    rows = [np.asarray(allowed[task], np.int64) for task in restricted.tolist()]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return restricted, indptr, np.concatenate([np.zeros(0, np.int64), *rows])


def balance_problem(instance: Instance, method: str = "balance-milp") -> BalanceProblem:
    """Return the rebalancing problem of an instance.

    The first resource is balanced; every resource with a capacity or least load somewhere binds,
    the first one too.

    `instance`: tasks without a current node are given one first (`with_homes`).
    Raises `UnsuitableMethod`: a task that stands on a staying node may be on leaving ones only.
    Raises `InvalidInput`: all nodes are leaving.
    """
    _check_leaving(instance, method)
    instance = with_homes(instance)
    tasks, nodes, limits = instance.tasks, instance.nodes, instance.limits
    headroom, floor = placing_room(instance), np.maximum(0.0, placing_floor(instance))
    binds = binding_resources(instance)
    rules = place_rules(instance)
    # rules that neither restrict nor free a move are none
    counts = rules.restrict or COPIES.present(instance) is not None
    problem = BalanceProblem(
        load=tasks.load[:, 0].copy(),
        cost=tasks.migration_cost,
        home=tasks.node.astype(np.int64),
        weight=nodes.weight,
        leaving=nodes.leaving,
        background=nodes.background[:, 0].copy(),
        budgets=tuple(budgets(instance)),
        max_distance=limits.max_load_distance,
        usage=tasks.load[:, binds].copy(),
        headroom=headroom[:, binds],
        floor=floor[:, binds],
        restricted=tasks.restricted.astype(np.int64),
        allowed_indptr=tasks.allowed_indptr.astype(np.int64),
        allowed_nodes=tasks.allowed_indices.astype(np.int64),
        into_leaving=limits.into_leaving,
        counted=rules if counts else None,
    )
    check(problem)
    return problem


def binding_resources(instance: Instance) -> Bools:
    """(R,) resources with a capacity or a least load somewhere."""
    floor = placing_floor(instance) > 0
    bound = np.isfinite(placing_room(instance))
    return np.asarray(bound.any(axis=0) | floor.any(axis=0))


def binding_names(instance: Instance) -> dict[str, list[str]]:
    """Return the names of these, as `optim.solvers.mps` asks for them."""
    return {
        "resource": [instance.resources[r] for r in np.flatnonzero(binding_resources(instance))]
    }


def _check_leaving(instance: Instance, method: str) -> None:
    """Refuse key groups of staying nodes that may be on leaving ones only."""
    # they would have to go where nothing else comes
    tasks, nodes = instance.tasks, instance.nodes
    stands = (tasks.node >= 0) & ~nodes.leaving[tasks.node]
    stranded = np.flatnonzero(~instance.has_open_node & stands)
    if len(stranded) and not instance.limits.into_leaving:
        raise UnsuitableMethod(
            Problem(
                f"tasks[{stranded[0]}].allowed",
                tasks.ids[int(stranded[0])],
                f"lists leaving nodes only, and {method} moves no task onto these",
                "allow a node that stays, or --ignore leaving",
            )
        )


def with_homes(instance: Instance) -> Instance:
    """Return the instance in which every task has a current node; itself where all have one.

    Nodes are given by a list schedule on top of what is placed already.
    """
    tasks = instance.tasks
    unplaced = np.flatnonzero(tasks.node < 0)
    if not len(unplaced) or not instance.num_nodes:
        return instance
    node = _listed(instance, unplaced)
    if not counts_moves(instance):
        return replace(instance, tasks=replace(tasks, node=node))
    copies = {task: sorted(nodes) for task, nodes in instance.copy_nodes.items()}
    # a copy everywhere: every move of a task without a node is free
    copies |= {task: list(range(instance.num_nodes)) for task in unplaced.tolist()}
    copied = sorted(copies)
    rows = [copies[task] for task in copied]
    housed = replace(
        tasks,
        node=node,
        copied=np.array(copied, dtype=np.int32),
        copies_indptr=np.cumsum([0, *map(len, rows)]).astype(np.int32),
        copies_indices=np.concatenate(rows).astype(np.int32),
    )
    return replace(instance, tasks=housed)


def _listed(instance: Instance, unplaced: Any) -> NDArray[np.int32]:
    """(T,) current nodes, and for tasks without one where a list schedule puts them."""
    # those that fit on no node are put where they are allowed, whatever fits
    node = instance.tasks.node.copy()
    parts = [np.array([task], dtype=np.int64) for task in unplaced.tolist()]
    node[unplaced] = ListScheduler(instance, node).place(parts, instance.tasks.load[unplaced])
    for task in np.flatnonzero(node < 0).tolist():
        allowed = instance.allowed_mask(task)
        best = allowed & instance.open_nodes if instance.has_open_node[task] else allowed
        node[task] = int(best.argmax())
    return node


class ListScheduler:
    """Puts parts on nodes, heaviest first, each where the node's load by weight grows least high.

    `instance`: whose staying nodes are used.
    `present`: (T,) node indices, -1 for none: what is there already. By default nothing but
        background.
    """

    def __init__(self, instance: Instance, present: NDArray[np.int32] | None = None) -> None:
        self._instance = instance
        self._present = np.zeros((instance.num_nodes, instance.num_resources))
        if present is not None:
            self._present = node_loads(instance, present) - instance.nodes.background
        self._weight = instance.nodes.weight
        self._room = placing_room(instance)
        self._restricted = np.zeros(instance.num_tasks, dtype=np.bool_)
        self._restricted[instance.tasks.restricted] = True

    def place(self, parts: Sequence[Ints], loads: Floats) -> Ints:
        """Return the node of each part; -1 for those that fit nowhere.

        `parts`: key groups of each part.
        `loads`: (len(parts), R) loads.
        """
        used = self._present.copy()
        # the background is part of the height, and is subtracted from the room already
        total = self._instance.nodes.background[:, 0] + used[:, 0]
        node = np.full(len(parts), -1, dtype=np.int64)
        for part in np.argsort(-loads[:, 0], kind="stable").tolist():
            fits = (used + loads[part] <= self._room).all(axis=1) & self.may_hold(parts[part])
            if not fits.any():
                continue
            # list scheduling: to where the load by weight is least after it
            height = np.where(fits, (total + loads[part, 0]) / self._weight, np.inf)
            chosen = int(height.argmin())
            node[part] = chosen
            total[chosen] += loads[part, 0]
            used[chosen] += loads[part]
        return node

    def may_hold(self, part: Ints) -> Bools:
        """(N,) staying nodes where every key group of a part may be."""
        mask = self._instance.open_nodes.copy()
        for task in part[self._restricted[part]].tolist():
            mask &= self._instance.allowed_mask(task)
        return mask


def resource_first(instance: Instance, name: str) -> Instance:
    """Return the instance with a resource of it first, the others in their order."""
    others = [other for other in instance.resources if other != name]
    return instance.replace(resources=[name, *others])


def bottleneck_of(instance: Instance) -> str:
    """Return the name of the most used resource: the bottleneck (ALBIC, section 3).

    Use is the load of all tasks, with the background of the staying nodes, over the capacity of
    these. Of equally used resources the first is taken.

    Raises `InvalidInput`: no resource has a capacity on every staying node, so that none can be
        said to be used most.
    """
    # leaving nodes: their load counts, as others have to carry it; their capacity does not
    stays = ~instance.nodes.leaving
    capacity = instance.nodes.capacity[stays]
    everywhere = np.isfinite(capacity).all(axis=0) & (capacity.sum(axis=0) > 0)
    if not everywhere.any():
        reason, remedy = "has no resource that every staying node gives", "give capacities"
        raise InvalidInput(Problem("nodes[].capacity", instance.name, reason, remedy))
    load = instance.tasks.load.sum(axis=0) + instance.nodes.background[stays].sum(axis=0)
    used = np.full(len(everywhere), -np.inf)
    used[everywhere] = load[everywhere] / capacity.sum(axis=0)[everywhere]
    return instance.resources[int(used.argmax())]


@dataclass(frozen=True)
class Timed:
    """When to stop, the seed, and who hears of better placements."""

    #: ``time.perf_counter()`` values: up to which to go on, ``None`` for no limit, and from which
    #: the trace counts.
    deadline: float | None = None
    started: float = field(default_factory=time.perf_counter)
    seed: int = 0  # Of the random choices.
    offer: Callable[[Any], None] | None = None  # Given each better placement.

    @classmethod
    def of(cls, request: Request, **given: Any) -> Self:
        """Return what a request asks for; what is given besides wins."""
        settings: dict[str, Any] = {"deadline": request.deadline, "started": request.started}
        return cls(**(settings | {"seed": request.seed, "offer": request.offer} | given))

    def remaining(self) -> float | None:
        """Seconds left, never negative; ``None`` without a limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.perf_counter())

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.remaining() == 0.0


@dataclass(frozen=True)
class Solving(Timed):
    """The same, and which solver is asked how."""

    #: Back end, and its threads.
    solver: str = "highs"
    threads: int = 1
    gap: float | None = None  # At which to stop; proven optimal by default.

    @classmethod
    def of(cls, request: Request, **given: Any) -> Self:
        """Return what a request asks for; what is given besides wins."""
        settings = {"solver": request.solver or "highs", "threads": request.threads}
        return super().of(request, **(settings | {"gap": request.gap} | given))


@dataclass
class Watch:
    """Clock and ear of a search; without a deadline no clock is read and results repeat."""

    deadline: float | None = None  # ``time.perf_counter()`` value; ``None`` for no limit.
    #: Called with the load distance of each better placement.
    tell: Callable[[float], None] | None = None
    offer: Callable[[Any], None] | None = None  # Given each better placement.
    #: Whether Ctrl-C ended the search; the best placement so far is then returned.
    interrupted: bool = field(default=False, init=False)
    expired: bool = field(default=False, init=False)  # Whether the deadline did.

    def over(self) -> bool:
        """Whether to stop now."""
        if self.deadline is not None and time.perf_counter() >= self.deadline:
            self.expired = True
        return self.expired

    def remaining(self) -> float:
        """Seconds left; infinite without a deadline."""
        if self.deadline is None:
            return float("inf")
        return max(0.0, self.deadline - time.perf_counter())


def drainable(problem: BalanceProblem) -> Ints:
    """Return the key groups on leaving nodes that may go to one that stays."""
    there = np.flatnonzero(problem.leaving[problem.home])
    places = problem.may_be_rows(there) & ~problem.leaving
    return there[places.any(axis=1)]


def emptied(problem: BalanceProblem) -> BalanceProblem:
    """Return the problem of plans that leave nothing on leaving nodes which may go elsewhere."""
    return confined_to_staying(replace(problem, into_leaving=False), drainable(problem))


def confined_to_staying(problem: BalanceProblem, tasks: Ints) -> BalanceProblem:
    """Return the problem in which some key groups may be on staying nodes only."""
    places = problem.may_be_rows(tasks) & ~problem.leaving
    rows = {task: np.flatnonzero(row) for task, row in zip(tasks.tolist(), places, strict=True)}
    return problem.allowing(problem.allowed | rows)


def note_infeasible(problem: BalanceProblem) -> str:
    """Say that no placement exists, and what limit to drop to learn which one it hangs on."""
    set_ones = [f"--ignore {budget.name}" for budget in problem.budgets]
    note = "no placement within the budget keeps every limit" if set_ones else ""
    note = note or "no placement keeps every limit"
    if set_ones:
        note += f"; {' '.join(set_ones)} shows how much is needed"
    if problem.has_leaving and not problem.into_leaving:
        note += "; --ignore leaving lets key groups move onto leaving nodes"
    return note


def note_not_drained(problem: BalanceProblem) -> str:
    """Say what would help where leaving nodes cannot be emptied within the limits."""
    drops = [f"--ignore {budget.name}" for budget in problem.budgets]
    more = f"; {' or '.join(drops)} shows how much is needed" if drops else ""
    return (
        "no plan that empties the leaving nodes: --option drain=first empties them as far as the "
        f"limits allow{more}"
    )
