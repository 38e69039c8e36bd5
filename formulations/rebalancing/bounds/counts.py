"""The counting bound: at every node whole numbers of key groups leave and arrive, and all balance.

Each node is described by how many key groups leave it and how many arrive; prices on both, and on
the load that comes in, tie the nodes together. The proof is in
``docs/proofs/forced-moves-bound.md``, step 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.rebalancing.progress import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formulations.rebalancing.problem import BalanceProblem, Bools, Floats, Ints

#: Bisection stops at this width, relative to the load distance.
PRECISION = 1e-6

#: The same in large problems, as a part of the mean load.
COARSE = 1e-4

#: Beyond this many key groups only leaving is counted, and prices on load are not searched for.
LARGE = 20_000

#: Shares of a migration's price that its leaving pays; the arrival pays the rest.
SHARES = (1.0, 0.0, 0.5)

#: Steps of the search for the best price on load.
STEPS = 16

_GOLDEN = 0.5 * (5.0**0.5 - 1.0)


class Sums(NamedTuple):
    """Least and greatest sums over whole numbers of key groups.

    Sums of loads are moved apart by what rounding may have added: the same key groups, summed in
    another order, must not seem to weigh more than they can.

    Attributes
    ----------
    begin
        (N + 1,) where each node's part of `least_out`, `most_out` and `cheapest_out` begins; a part
        has one entry more than the node has key groups that may leave.
    least_out, most_out, cheapest_out
        Least load, greatest load, least cost of 0, 1, 2, … of them.
    least_in, most_in, cheapest_in
        The same over all key groups that may move.
    least_drained, most_drained, cheapest_drained
        The same over those of leaving nodes: only these arrive at leaving nodes.
    forced
        (N,) key groups that must leave.
    fits, brought
        As `least_out`: how many key groups can arrive at most where so many have left, and how much
        load they bring at most, for all that binds beside the balanced load.
    """

    begin: Ints
    least_out: Floats
    most_out: Floats
    cheapest_out: Floats
    least_in: Floats
    most_in: Floats
    cheapest_in: Floats
    least_drained: Floats
    most_drained: Floats
    cheapest_drained: Floats
    forced: Ints
    fits: Ints
    brought: Floats


def counting_bound(
    problem: BalanceProblem, low: float, high: float, watch: Watch | None = None
) -> float:
    """Return a load distance that no placement falls below, at least `low`.

    Parameters
    ----------
    problem
        As for `formulations.rebalancing.bounds.forced_moves.forced_moves_bound`.
    low
        A bound known already.
    high
        Where to stop looking: the load distance of some placement.
    watch
        Clock; when time is up, the bound found so far is returned.
    """
    for cost, budget in _budgets(problem):
        low = _Counting(problem, cost, budget).bisect(low, high, watch or Watch())
    return low


def _budgets(problem: BalanceProblem) -> Iterator[tuple[Floats, float]]:
    finite = np.flatnonzero(np.isfinite(problem.budget))
    for k in finite.tolist():
        yield problem.least(problem.price[:, k]), float(problem.budget[k])
    if not len(finite) and problem.num_resources:
        yield np.ones(problem.num_tasks), np.inf


@dataclass(frozen=True)
class _Counting:
    """One budget: what a migration of each key group takes of it, and how much there is."""

    problem: BalanceProblem
    cost: Floats
    budget: float

    def bisect(self, low: float, high: float, watch: Watch) -> float:
        """Return the greatest distance found refuted between `low` and `high`."""
        width = PRECISION * max(1.0, high)
        if self.problem.num_tasks > LARGE:
            width = max(width, COARSE * self.problem.mean)
        # the nearest distances first: where nothing is gained, one look decides
        step = max(width, 0.02 * (high - low))
        while high - low > width and not watch.over():
            middle = min(low + step, 0.5 * (low + high))
            if self.refutes(middle):
                low, step = middle, 4.0 * step
            else:
                high, step = middle, 0.5 * (middle - low)
        return low

    def refutes(self, distance: float) -> bool:
        """Whether no placement within the budget has a load distance of at most `distance`."""
        if self.budget == np.inf:  # what is left is whether each node can be within the distance
            return self._least(distance, SHARES[0], 0.0) == np.inf
        budget = self.budget * (1.0 + ROUNDING) + 1e-9
        if self.problem.num_tasks > LARGE:
            return self._least(distance, SHARES[0], 0.0) > budget
        if any(self._least(distance, share, 0.0) > budget for share in SHARES):
            return True
        return any(self._best_price(distance, share, budget) > budget for share in SHARES)

    def _best_price(self, distance: float, share: float, enough: float) -> float:
        """Return the greatest least spending over prices on load, by golden section.

        It is concave in the price; any price gives a valid figure.
        """
        reach = 2.0 * float(np.max(self.cost, initial=0.0)) / self._typical_load
        low, high = -reach, reach
        a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_a, at_b = self._least(distance, share, a), self._least(distance, share, b)
        for _ in range(STEPS):
            if max(at_a, at_b) > enough:
                break
            if at_a >= at_b:
                high, b, at_b = b, a, at_a
                a = high - _GOLDEN * (high - low)
                at_a = self._least(distance, share, a)
            else:
                low, a, at_a = a, b, at_b
                b = low + _GOLDEN * (high - low)
                at_b = self._least(distance, share, b)
        return max(at_a, at_b)

    def _least(self, distance: float, share: float, price: float) -> float:
        from formulations.rebalancing.bounds.counts_kernel import least_spending

        problem = self.problem
        deviation = problem.base_load - problem.share
        low = np.where(problem.leaving, -np.inf, -distance - deviation - self._allowance)
        high = distance - deviation + self._allowance
        closed = problem.leaving if not problem.into_leaving else np.zeros_like(problem.leaving)
        value: float = least_spending(self._sums, low, high, closed.copy(), share, price)
        # what adding up spending and priced loads may have added to the figure
        total = abs(value) + 2.0 * abs(price) * float(problem.load.sum())
        return value - 4.0 * problem.num_nodes * EPSILON * total if value < np.inf else value

    @cached_property
    def _typical_load(self) -> float:
        positive = self.problem.load[self.problem.load > 0]
        return float(np.median(positive)) if len(positive) else 1.0

    @cached_property
    def _allowance(self) -> float:
        return load_allowance(self.problem)

    @cached_property
    def _sums(self) -> Sums:
        problem = self.problem
        movable = movable_key_groups(problem)
        drained = movable & problem.leaving[problem.home]
        least_out, most_out, cheapest_out = (
            self._by_node(key, movable) for key in (problem.load, -problem.load, self.cost)
        )
        counts = np.bincount(problem.home[movable], minlength=problem.num_nodes) + 1
        spread = self._allowance
        return Sums(
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            least_out - spread,
            spread - most_out,
            cheapest_out,
            _running(problem.load[movable]) - spread,
            spread - _running(-problem.load[movable]),
            _running(self.cost[movable]),
            _running(problem.load[drained]) - spread,
            spread - _running(-problem.load[drained]),
            _running(self.cost[drained]),
            np.bincount(problem.home[problem.must_move & movable], minlength=problem.num_nodes),
            *self._arrivals(movable, counts),
        )

    def _arrivals(self, movable: Bools, counts: Ints) -> tuple[Ints, Floats]:
        """Return `fits` and `brought`: what capacities leave room for where some have left."""
        problem = self.problem
        node = np.repeat(np.arange(problem.num_nodes), counts)
        fits = np.full(len(node), problem.num_tasks, dtype=np.int64)
        brought = np.full(len(node), np.inf)
        for e in range(problem.num_resources):
            usage, most = problem.usage[:, e], problem.headroom[:, e]
            if not np.isfinite(most).any():
                continue
            left = -self._by_node(-usage, movable)
            allowance = rounding(problem) * float(usage.sum() + most[np.isfinite(most)].max())
            room = (most - problem.base_usage[:, e])[node] + left + allowance
            least = _running(usage[movable])
            fits = np.minimum(fits, np.searchsorted(least, room + allowance, side="right") - 1)
            most_load = _knapsack(problem.load[movable], usage[movable], room)
            brought = np.minimum(brought, most_load + self._allowance)
        return fits, brought

    def _by_node(self, key: Floats, movable: Bools) -> Floats:
        """Least sums of 0, 1, 2, … key groups of each node, node after node."""
        problem = self.problem
        order = np.lexsort((key, problem.home))
        order = order[movable[order]]
        counts = np.bincount(problem.home[order], minlength=problem.num_nodes)
        ends = np.cumsum(counts)
        total = np.concatenate([[0.0], np.cumsum(key[order])])
        node = np.repeat(np.arange(problem.num_nodes), counts + 1)
        at = np.arange(len(node)) - node  # each node's part is one longer than its key groups
        result: Floats = total[at] - total[(ends - counts)[node]]
        return result


def _running(values: Floats) -> Floats:
    """Least sums of 0, 1, 2, … of some values."""
    return np.concatenate([[0.0], np.cumsum(np.sort(values))])


def _knapsack(worth: Floats, size: Floats, room: Floats) -> Floats:
    """Greatest worth, of parts too, that each room holds; of negative rooms nothing is said."""
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.where(size > 0, -worth / size, -np.inf), kind="stable")
    sizes = np.concatenate([[0.0], np.cumsum(size[order])])
    worths = np.concatenate([[0.0], np.cumsum(worth[order])])
    last = np.maximum(0, np.searchsorted(sizes, room, side="right") - 1)
    following = np.minimum(last + 1, len(sizes) - 1)
    step = sizes[following] - sizes[last]
    part = np.clip((room - sizes[last]) / np.where(step > 0, step, 1.0), 0.0, 1.0)
    result: Floats = worths[last] + part * (worths[following] - worths[last])
    return result


#: Least relative allowance with which sums are compared, always in favour of the plan.
ROUNDING = 1e-11

EPSILON = float(np.finfo(np.float64).eps)


def load_allowance(problem: BalanceProblem) -> float:
    """Return more than any sum or difference of sums of loads can err by, in whatever order.

    Adding T numbers errs by at most T times half the distance of 1 to the next number, relative
    to the sum of all; what is compared is made of a few such sums.
    """
    total = float(problem.load.sum() + problem.background.sum())
    return rounding(problem) * max(1.0, total)


def rounding(problem: BalanceProblem) -> float:
    """Return what sums over key groups and nodes can err by, relative to the sum of all."""
    return ROUNDING + 4.0 * (problem.num_tasks + problem.num_nodes) * EPSILON


def movable_key_groups(problem: BalanceProblem) -> Bools:
    """(T,) whether a key group may leave its home at all."""
    movable = np.ones(problem.num_tasks, dtype=np.bool_)
    for row, task in enumerate(problem.restricted.tolist()):
        nodes = problem.allowed_nodes[problem.allowed_indptr[row] : problem.allowed_indptr[row + 1]]
        movable[task] = bool((nodes != problem.home[task]).any())
    return movable
