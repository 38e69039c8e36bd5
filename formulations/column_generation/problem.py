"""The allocation problem in counts: classes of equal tasks, classes of equal nodes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim.format.instance import Instance
    from optim.kernels.classes import NodeClasses, TaskGroups
    from optim.rules.budget import NodeCount
    from optim.util.progress import ProgressRecorder


Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

TOTAL_RATE = 1000.0
"""Rates are scaled to this total, so that one set of tolerances suits every unit."""

ROUNDING = 1e-8  # Scaled gains that differ by less are the same.


@dataclass(frozen=True, eq=False)
class PatternProblem:
    """G classes of tasks, K classes of nodes, R resources that bind somewhere."""

    sizes: Counts  # (G,) tasks of each class.
    load: Floats  # (G, R) load of one task.
    #: (G, G) symmetric; scaled traffic of one pair of tasks, the diagonal within a class.
    rate: Floats
    nodes: Counts  # (K,) nodes of each class.
    #: (K, R) largest (``inf``: none) and smallest (``-inf``: none) load placed on a node, rounding
    #: allowed for.
    limit: Floats
    least: Floats
    most: Counts  # (K, G) most tasks of a class that one node may hold, taken by themselves.
    scale: float = 1.0  # What a scaled rate is multiplied with to be in the instance's unit.

    @property
    def num_classes(self) -> int:
        """G."""
        return len(self.sizes)

    @property
    def num_node_classes(self) -> int:
        """K."""
        return len(self.nodes)

    @property
    def num_nodes(self) -> int:
        """All nodes that may be used."""
        return int(self.nodes.sum())

    def gain(self, counts: NDArray[Any]) -> Floats:
        """Scaled traffic inside nodes that hold ``counts`` (…, G) tasks of each class."""
        y = np.asarray(counts, dtype=np.float64)
        # in two steps, and not by BLAS: its threads cost more than such narrow products
        # ½ yᵀ R y counts a pair of a class y_g²/2 times; it has y_g (y_g − 1)/2
        pairs = 0.5 * np.einsum("...g,...g->...", np.einsum("...g,gh->...h", y, self.rate), y)
        diagonal = 0.5 * (y @ np.diag(self.rate))
        return np.asarray(pairs - diagonal)

    def fits(self, node_class: int, counts: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether contents ``counts`` (…, G) keep the bounds of a node of a class."""
        used = np.asarray(counts, dtype=np.float64) @ self.load
        within = (used <= self.limit[node_class]) & (used >= self.least[node_class])
        within = within.all(axis=-1) & (counts <= self.most[node_class]).all(axis=-1)
        return np.asarray(within)

    def reordered(self, order: Counts) -> PatternProblem:
        """Return the problem with its classes of tasks in another order."""
        return replace(
            self,
            sizes=self.sizes[order],
            load=np.ascontiguousarray(self.load[order]),
            rate=np.ascontiguousarray(self.rate[np.ix_(order, order)]),
            most=np.ascontiguousarray(self.most[:, order]),
        )

    def class_of_node(self) -> Counts:
        """(N,) node class of each node when the nodes are listed class by class."""
        return np.repeat(np.arange(self.num_node_classes), self.nodes)


def make_problem(
    sizes: Any, load: Any, rate: Any, nodes: Any, limit: Any, least: Any = None, allowed: Any = None
) -> PatternProblem:
    """Scale the rates, drop resources that bind nowhere, and derive what fits a node at most.

    `allowed`: (K, G) bool, which classes may use which nodes; all by default.
    """
    sizes, nodes = np.asarray(sizes, dtype=np.int64), np.asarray(nodes, dtype=np.int64)
    load, rate = np.asarray(load, dtype=np.float64), np.asarray(rate, dtype=np.float64)
    limit = np.asarray(limit, dtype=np.float64)
    least = np.full(limit.shape, -np.inf) if least is None else np.asarray(least, dtype=np.float64)
    least = np.where(least <= 0.0, -np.inf, least)
    binding = np.isfinite(limit).any(axis=0) | np.isfinite(least).any(axis=0)
    if binding.any():
        load, limit, least = load[:, binding], limit[:, binding], least[:, binding]
    else:  # the kernels want one resource at least
        load, limit = np.zeros((len(sizes), 1)), np.full((len(nodes), 1), np.inf)
        least = np.full((len(nodes), 1), -np.inf)
    # all traffic, ½ Σ_gh rate_gh (n_g n_h − [g = h] n_g), becomes TOTAL_RATE
    weighed = np.outer(sizes, sizes) - np.diag(sizes)
    total = 0.5 * float((rate * weighed).sum())
    scale = total / TOTAL_RATE if total > 0 else 1.0
    most = _most_alone(sizes, load, limit)
    if allowed is not None:
        most = np.where(allowed, most, 0)
    return PatternProblem(
        sizes=sizes,
        load=np.ascontiguousarray(load),
        rate=np.ascontiguousarray(rate / scale),
        nodes=nodes,
        limit=np.ascontiguousarray(limit),
        least=np.ascontiguousarray(least),
        most=np.ascontiguousarray(most),
        scale=scale,
    )


def _most_alone(sizes: Counts, load: Floats, limit: Floats) -> Counts:
    most = np.tile(sizes.astype(np.float64), (len(limit), 1))
    for r in range(load.shape[1]):
        heavy = load[:, r] > 0
        with np.errstate(over="ignore"):
            room = np.maximum(limit[:, r], 0.0)[:, None] / load[heavy, r][None, :]
        # a quotient that rounding left just below a whole number counts as that number
        most[:, heavy] = np.minimum(most[:, heavy], np.floor(room + 1e-9))
    return most.astype(np.int64)


def problem_of(instance: Instance, groups: TaskGroups, classes: NodeClasses) -> PatternProblem:
    """Return the instance in counts; classes of tasks and nodes keep their order."""
    return make_problem(
        groups.sizes,
        groups.load,
        groups.rates(instance),
        classes.sizes,
        classes.room,
        classes.floor,
        classes.target[groups.kind].T,
    )


@dataclass
class Clock:
    """When to stop, and the receiver of progress."""

    #: `time.perf_counter` value at which to stop, ``None`` for no limit.
    deadline: float | None = None
    recorder: ProgressRecorder | None = None  # Receives values and bounds in the instance's unit.
    #: Instance's unit per scaled unit, and what a scaled 0 is in that unit.
    scale: float = 1.0
    offset: float = 0.0
    hurried: bool = False  # Something was cut short because of the deadline.

    def over(self) -> bool:
        """Whether the time is up."""
        return self.deadline is not None and time.perf_counter() >= self.deadline

    def left(self) -> float | None:
        """Seconds left, never below 0; ``None`` without a limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.perf_counter())

    def note(
        self, value: float | None = None, bound: float | None = None, phase: str | None = None
    ) -> None:
        """Record a value or a bound."""
        if self.recorder is not None:
            self.recorder.note(
                None if value is None else value * self.scale + self.offset,
                None if bound is None else bound * self.scale + self.offset,
                phase,
            )


@dataclass(frozen=True, eq=False)
class Pool:
    """P patterns."""

    counts: Counts  # (P, G) tasks of each class.
    node_class: Counts  # (P,) node class each is for.
    gain: Floats  # (P,) what it is worth: scaled traffic inside, in task allocation.
    #: (P,) where it stands in the list that it is of; ``None`` without a list.
    at: Counts | None = None

    def __len__(self) -> int:
        return len(self.gain)

    def only(self, keep: NDArray[Any]) -> Pool:
        """Return the patterns that a mask or an index array names."""
        at = None if self.at is None else self.at[keep]
        return Pool(self.counts[keep], self.node_class[keep], self.gain[keep], at)

    def distinct(self) -> Pool:
        """Return each pattern once, in the order in which they come first."""
        key = np.column_stack([self.node_class, self.counts])
        return self.only(np.sort(np.unique(key, axis=0, return_index=True)[1]))

    def value(self, price: Floats) -> Floats:
        """(P,) gain minus the prices of the tasks used."""
        return np.asarray(self.gain - self.counts @ price)


def joined(pools: Sequence[Pool]) -> Pool:
    """Return the patterns of several pools, in turn; of one at least."""
    at = [p.at for p in pools if p.at is not None]
    return Pool(
        np.concatenate([p.counts for p in pools]),
        np.concatenate([p.node_class for p in pools]),
        np.concatenate([p.gain for p in pools]),
        np.concatenate(at) if len(at) == len(pools) else None,
    )


def of_nodes(problem: PatternProblem, counts: Counts) -> Pool:
    """Return the patterns of (N, G) counts, nodes listed class by class."""
    return Pool(counts, problem.class_of_node(), problem.gain(counts))


@dataclass(eq=False)
class Rows:
    """M rows ``lower ≤ Σ_p a(p) λ_p + Σ_w b_w w ≤ upper`` that patterns share; here none.

    Families have rows of their own: Storm's workers and cuts, budgets, earlier levels, links.
    """

    #: (M,) bounds, infinite for none.
    lower: Floats = field(default_factory=lambda: np.zeros(0))
    upper: Floats = field(default_factory=lambda: np.zeros(0))
    #: (M, W) coefficients b of variables beside the patterns, 0 ≤ w ≤ most; ``None`` for none.
    beside: Floats | None = None
    most: Floats = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.lower)

    def of(self, pool: Pool) -> Any:
        """(M, P) coefficients a of patterns, dense or sparse."""
        return np.zeros((0, len(pool)))

    def clipped(self, price: Floats) -> Floats:
        """(M,) prices of the sign that a bound allows: an upper one ≥ 0, a lower one ≤ 0."""
        price = np.where(np.isfinite(self.upper), price, np.minimum(price, 0.0))
        return np.where(np.isfinite(self.lower), price, np.maximum(price, 0.0))

    def charge(self, price: Floats) -> float:
        """Return the most that the rows' sides and the variables beside add to a bound."""
        used = np.flatnonzero(price)
        # price·a ≤ price·upper where price ≥ 0, and ≤ price·lower where price ≤ 0
        side = np.where(price > 0, self.upper, self.lower)[used]
        charged = float(price[used] @ side)
        if self.beside is not None:
            # a variable beside the patterns adds at most its bound where that pays
            charged += float((np.maximum(0.0, -(price @ self.beside)) * self.most).sum())
        return charged

    def hold(self, pool: Pool) -> bool:
        """Whether patterns, each used once, keep the rows; where nothing stands beside them."""
        total = self.of(pool).sum(axis=1)
        return bool(((total >= self.lower - 1e-9) & (total <= self.upper + 1e-9)).all())


@dataclass(eq=False)
class TableRows(Rows):
    """Rows over the patterns of a list."""

    #: (M, all patterns) coefficients, dense or sparse; pools say by `at` which are theirs.
    table: Any = None

    def of(self, pool: Pool) -> Any:
        """(M, P) coefficients of patterns."""
        return self.table[:, pool.at]


@dataclass(eq=False)
class CountRows(Rows):
    """Rows ``Σ_p [p counts] λ_p ≤ limit``: at most so many nodes hold tasks of some groups."""

    #: The counts of nodes; (G,) a task of each class.
    counts: tuple[NodeCount, ...] = ()
    one: NDArray[Any] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        """Read off the bounds."""
        self.upper = np.array([float(count.limit) for count in self.counts])
        self.lower = np.full(len(self.counts), -np.inf)

    @cached_property
    def kind(self) -> Counts:
        """(G,) classes of one kind are in the same groups of all counts."""
        # pricing treats each set of kinds by itself, since a pattern counts by the kinds it holds
        masks = np.array([tasks[self.one] for count in self.counts for tasks in count.groups])
        return np.unique(masks, axis=1, return_inverse=True)[1].reshape(-1)

    @property
    def num_kinds(self) -> int:
        """How many there are."""
        return int(self.kind.max(initial=-1)) + 1

    def of(self, pool: Pool) -> Any:
        """(M, P) which patterns count."""
        return self.by_contents(pool.counts)

    def by_contents(self, contents: NDArray[Any]) -> Floats:
        """(M, P) which of (P, G) contents count."""
        rows = [count.by_contents(self.one, contents) for count in self.counts]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(contents))


@dataclass(frozen=True, eq=False)
class Priced:
    """Answer of a pricing."""

    pool: Pool  # Patterns that may better the master.
    highest: Floats  # (K,) what no pattern of a class is worth more than.


class Pricer(Protocol):
    """Finds the patterns that are worth most at given prices of tasks and rows."""

    #: How much of the prices of the best bound goes into those that are asked about, tried in turn;
    #: the last one is 0, for the master's own.
    weights: tuple[float, ...]
    largest_gain: float  # A large gain, against which the cost of what is missing is set.

    def first(self) -> Pool:
        """Return patterns to begin with."""
        ...

    def price(self, price: Floats, side: Floats, threshold: Floats, *, gainless: bool) -> Priced:
        """Look for patterns of value above the (K,) thresholds; `gainless`: gains do not count."""
        ...

    def enumerate(self, price: Floats, side: Floats, threshold: Floats, room: int) -> Pool | None:
        """Return all patterns above the (K,) thresholds; ``None`` where they are too many."""
        ...
