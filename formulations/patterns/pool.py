"""Patterns of all node classes, the rows of a model beside those that use up tasks and nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.patterns.problem import Counts, Floats, PatternProblem


@dataclass(frozen=True, eq=False)
class Pool:
    """P patterns.

    Attributes
    ----------
    counts
        (P, G) tasks of each class.
    node_class
        (P,) node class each is for.
    gain
        (P,) what it is worth: scaled traffic inside, in task allocation.
    at
        (P,) where it stands in the list that it is of; ``None`` without a list.
    """

    counts: Counts
    node_class: Counts
    gain: Floats
    at: Counts | None = None

    def __len__(self) -> int:
        return len(self.gain)

    def only(self, keep: NDArray[Any]) -> Pool:
        """Return the patterns that a mask or an index array names."""
        at = None if self.at is None else self.at[keep]
        return Pool(self.counts[keep], self.node_class[keep], self.gain[keep], at)

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

    Attributes
    ----------
    lower, upper
        (M,) bounds, infinite for none.
    beside, most
        (M, W) coefficients b of variables beside the patterns, 0 ≤ w ≤ most; ``None`` for none.
    """

    lower: Floats = field(default_factory=lambda: np.zeros(0))
    upper: Floats = field(default_factory=lambda: np.zeros(0))
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
        side = np.where(price > 0, self.upper, self.lower)[used]
        charged = float(price[used] @ side)
        if self.beside is not None:
            charged += float((np.maximum(0.0, -(price @ self.beside)) * self.most).sum())
        return charged

    def hold(self, pool: Pool) -> bool:
        """Whether patterns, each used once, keep the rows; where nothing stands beside them."""
        total = self.of(pool).sum(axis=1)
        return bool(((total >= self.lower - 1e-9) & (total <= self.upper + 1e-9)).all())


@dataclass(eq=False)
class TableRows(Rows):
    """Rows over the patterns of a list.

    Attributes
    ----------
    table
        (M, all patterns) coefficients, dense or sparse; pools say by `at` which are theirs.
    """

    table: Any = None

    def of(self, pool: Pool) -> Any:
        """(M, P) coefficients of patterns."""
        return self.table[:, pool.at]


@dataclass(frozen=True, eq=False)
class Priced:
    """Answer of a pricing.

    Attributes
    ----------
    pool
        Patterns that may better the master.
    highest
        (K,) what no pattern of a class is worth more than.
    """

    pool: Pool
    highest: Floats


class Pricer(Protocol):
    """Finds the patterns that are worth most at given prices of tasks and rows.

    Attributes
    ----------
    weights
        How much of the prices of the best bound goes into those that are asked about, tried in
        turn; the last one is 0, for the master's own.
    dearest
        A large gain, against which the cost of what is missing is set.
    """

    weights: tuple[float, ...]
    dearest: float

    def first(self) -> Pool:
        """Return patterns to begin with."""
        ...

    def price(self, price: Floats, side: Floats, threshold: Floats, *, gainless: bool) -> Priced:
        """Look for patterns of value above the (K,) thresholds; `gainless`: gains do not count."""
        ...

    def enumerate(self, price: Floats, side: Floats, threshold: Floats, room: int) -> Pool | None:
        """Return all patterns above the (K,) thresholds; ``None`` where they are too many."""
        ...
