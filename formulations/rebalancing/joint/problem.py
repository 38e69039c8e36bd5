"""Collocation under a load-distance cap on plain arrays: what `joint-milp` and `joint-search` read.

Maximise the traffic between key groups on one node, within the budgets, capacities and allowed
sets of a `BalanceProblem`, with the load distance at most a cap. Where nodes are leaving, the load
left on them may be capped too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from optim.kernels.room import placing_slack

if TYPE_CHECKING:
    from formulations.rebalancing.problem import BalanceProblem, Bools, Floats, Ints

#: Pairs with less than this share of the typical rate are no part of the backbone.
WEAK = 0.1


@dataclass(frozen=True, eq=False)
class JointProblem:
    """Key groups on nodes and the traffic between them.

    Attributes
    ----------
    balance
        Loads, costs, homes, budgets, capacities. Its `max_distance` is the cap on the load
        distance, ``None`` for none.
    source, target, rate
        (P,) pairs of key groups and their traffic, both directions together.
    max_left
        Most load that may be left on leaving nodes; ``inf`` for any.
    """

    balance: BalanceProblem
    source: Ints
    target: Ints
    rate: Floats
    max_left: float = math.inf

    @property
    def num_pairs(self) -> int:
        """P."""
        return len(self.rate)

    @cached_property
    def total(self) -> float:
        """All traffic."""
        return float(self.rate.sum())

    @cached_property
    def cap(self) -> float:
        """Load distance allowed, ``inf`` for any."""
        limit = self.balance.max_distance
        return math.inf if limit is None else float(limit)

    @cached_property
    def most_left(self) -> float:
        """Load that may be left on leaving nodes, differences of rounding included."""
        return self.max_left + float(placing_slack(self.balance.load.sum()))

    @cached_property
    def apart(self) -> Bools:
        """(P,) pairs whose key groups are on two nodes now."""
        home = self.balance.home
        return home[self.source] != home[self.target]

    @cached_property
    def degree(self) -> Ints:
        """(T,) pairs of each key group."""
        ends = np.concatenate([self.source, self.target])
        return np.bincount(ends, minlength=self.balance.num_tasks).astype(np.int64)

    @cached_property
    def is_dense(self) -> bool:
        """Whether most pairs have a key group with several partners."""
        several = self.degree > 1
        return 2 * int((several[self.source] | several[self.target]).sum()) > self.num_pairs

    @cached_property
    def backbone(self) -> Bools:
        """(P,) pairs with at least a tenth of the typical rate.

        Typical is the mean over traffic, not over pairs. Where a few pairs carry much and very many
        carry a little each (one-to-one beside full partitioning), these few are the backbone.
        """
        if self.num_pairs == 0:
            return np.zeros(0, dtype=np.bool_)
        share = self.rate / self.rate.max()
        strong: Bools = share * share.sum() >= WEAK * float((share * share).sum())
        return strong

    def part(self, pairs: Bools) -> JointProblem:
        """Return the problem with some of its pairs only."""
        source, target, rate = self.source[pairs], self.target[pairs], self.rate[pairs]
        return replace(self, source=source, target=target, rate=rate)

    @cached_property
    def adjacency(self) -> tuple[Ints, Ints, Floats]:
        """Partners of each key group as compressed rows: (T + 1,) starts, partners, rates."""
        ends = np.concatenate([self.source, self.target])
        others = np.concatenate([self.target, self.source])
        order = np.lexsort((others, ends))
        starts = np.concatenate([[0], np.cumsum(self.degree)]).astype(np.int64)
        return starts, others[order], np.concatenate([self.rate, self.rate])[order]

    def collocated(self, placement: Ints) -> float:
        """Return the traffic between key groups on one node."""
        together = placement[self.source] == placement[self.target]
        return float(self.rate[together].sum())

    def left(self, placement: Ints) -> float:
        """Return the load left on leaving nodes."""
        return self.balance.levels(placement).left

    def is_feasible(self, placement: Ints) -> bool:
        """Whether a placement keeps every limit, the cap on what is left included."""
        if not self.balance.is_feasible(placement):
            return False
        return not math.isfinite(self.max_left) or self.left(placement) <= self.most_left

    def with_cap(self, max_distance: float | None) -> JointProblem:
        """Return the problem under another cap on the load distance."""
        return replace(self, balance=replace(self.balance, max_distance=max_distance))

    def with_left(self, max_left: float) -> JointProblem:
        """Return the problem with the load left on leaving nodes capped."""
        return replace(self, max_left=max_left)
